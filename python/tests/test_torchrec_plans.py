"""Plans for models: what is loaded, and everything that load_plan refuses."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

pytest.importorskip("torchrec", reason="SKIPPED: torchrec is not installed")

from test_torchrec_tables import collection, table
from torchrec.distributed.types import EmbeddingModuleShardingPlan

from neuroshard_torchrec import PlanError, load_plan, plans
from neuroshard_torchrec._torchrec import ShardingEnv

Json = dict[str, Any]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.user = collection(table("id", num_embeddings=100), table("age", embedding_dim=32))
        self.item = collection(table("id", ["item"]), table("word"))


ENV = ShardingEnv.from_local(4, 0)


def shard(row: int, column: int, rows: int, columns: int, rank: int) -> Json:
    return {
        "shard_offsets": [row, column],
        "shard_sizes": [rows, columns],
        "placement": f"rank:{rank}/cuda:{rank % 2}",
    }


def entry(kind: str, *shards: Json, kernel: str = "fused") -> Json:
    ranks = [int(s["placement"][5]) for s in shards]
    return {
        "sharding_type": kind,
        "compute_kernel": kernel,
        "ranks": ranks,
        "shards": list(shards),
    }


def exported() -> Json:
    return {
        "format": "neuroshard-torchrec-plan",
        "version": 1,
        "world_size": 4,
        "local_size": 2,
        "accelerator": "cuda",
        "plan": {
            "user": {
                "id": entry("row_wise", *(shard(25 * r, 0, 25, 64, r) for r in range(4))),
                "age": {
                    "sharding_type": "data_parallel",
                    "compute_kernel": "dense",
                    "ranks": [0, 1, 2, 3],
                    "shards": None,
                },
            },
            "item": {
                "id": entry("table_wise", shard(0, 0, 1000, 64, 3)),
                "word": entry("column_wise", shard(0, 0, 1000, 48, 1), shard(0, 48, 1000, 16, 0)),
            },
        },
    }


def native() -> Json:
    """The same as a plan file; of it, what load_plan reads."""

    def part(device: int, columns: list[int], rows: list[int]) -> Json:
        return {"device": device, "columns": columns, "rows": rows, "tier": "hbm"}

    return {
        "format": "neuroshard-plan",
        "version": 1,
        "cluster": {"devices": 4, "devices_per_host": 2},
        "tables": [
            {
                "name": "user/id",
                "module": "user",
                "rows": 100,
                "dim": 64,
                "kind": "row_wise",
                "shards": [part(r, [0, 64], [25 * r, 25 * r + 25]) for r in range(4)],
            },
            {
                "name": "age",
                "module": "user",
                "rows": 1000,
                "dim": 32,
                "kind": "data_parallel",
                "shards": [
                    {"replicated": True, "columns": [0, 32], "rows": [0, 1000], "tier": "hbm"}
                ],
            },
            {
                "name": "item/id",
                "module": "item",
                "rows": 1000,
                "dim": 64,
                "kind": "table_wise",
                "shards": [part(3, [0, 64], [0, 1000])],
            },
            {
                "name": "word",
                "module": "item",
                "rows": 1000,
                "dim": 64,
                "kind": "column_wise",
                "shards": [part(1, [0, 48], [0, 1000]), part(0, [48, 64], [0, 1000])],
            },
        ],
    }


def load(plan: Any, model: nn.Module | None = None, **options: Any) -> Any:
    options = {"local_size": 2, "device_type": "cuda"} | options
    return load_plan(plan, model or Model(), options.pop("env", ENV), **options)


def told(plan: Any, model: nn.Module | None = None, **options: Any) -> str:
    with pytest.raises(PlanError) as e:
        load(plan, model, **options)
    return str(e.value)


def test_load() -> None:
    plan = load(exported()).plan
    assert list(plan) == ["user", "item"]
    assert all(isinstance(p, EmbeddingModuleShardingPlan) for p in plan.values())
    word = plan["item"]["word"]
    assert (word.sharding_type, word.compute_kernel, word.ranks) == ("column_wise", "fused", [1, 0])
    shards = word.sharding_spec.shards
    assert [s.shard_offsets for s in shards] == [[0, 0], [0, 48]]
    assert [s.shard_sizes for s in shards] == [[1000, 48], [1000, 16]]
    assert [s.placement.rank() for s in shards] == [1, 0]
    assert [s.placement.device() for s in shards] == [
        torch.device("cuda:1"),
        torch.device("cuda:0"),
    ]
    age = plan["user"]["age"]
    assert (age.sharding_type, age.compute_kernel) == ("data_parallel", "dense")
    assert age.sharding_spec is None
    # It is what TorchRec itself would print.
    ours = load(exported())._serialize()["plan"]
    assert ours["item"] == exported()["plan"]["item"]


def test_all_sources(tmp_path: Path) -> None:
    want = load(exported())
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(exported()))
    for source in (path, str(path), path.read_text(), "\n " + path.read_text(), path.read_bytes()):
        assert load(source) == want
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.json")


def test_the_plan_file_itself() -> None:
    assert load(native()) == load(exported())
    unstated = native()
    for t in unstated["tables"]:
        del t["module"]
    assert load(unstated) == load(exported())


def test_a_collection_that_is_the_model() -> None:
    model = collection(table("a"))
    plan = exported() | {"plan": {"": {"a": entry("table_wise", shard(0, 0, 1000, 64, 2))}}}
    assert list(load(plan, model).plan) == [""]
    plan = native()
    plan["tables"] = [plan["tables"][2] | {"name": "a"}]
    del plan["tables"][0]["module"]
    assert list(load(plan, model).plan) == [""]


def changed(change: Callable[[Json], Any]) -> Json:
    plan = exported()
    change(plan)
    return plan


def test_tables_missing_in_the_plan() -> None:
    text = told(changed(lambda p: p["plan"]["item"].pop("word")))
    assert 'module "item": tables missing in the plan: "word"' in text
    assert "hint: plan again" in text


def test_tables_missing_in_the_model() -> None:
    plan = exported()
    plan["plan"]["item"]["words"] = plan["plan"]["item"].pop("word")
    text = told(plan)
    assert 'tables of the plan that the model lacks: "words"' in text
    assert 'was "words" renamed to "word"?' in text


def test_renamed_modules() -> None:
    plan = exported()
    plan["plan"]["sparse.item"] = plan["plan"].pop("item")
    text = told(plan)
    assert 'module "sparse.item" is not in the model, which has "item"' in text
    assert 'modules={"sparse.item": "item"}' in text
    loaded = load(plan, modules={"sparse.item": "item"})
    assert loaded == load(exported())
    # Its tables tell, however little the names are alike.
    plan["plan"]["x"] = plan["plan"].pop("sparse.item")
    assert 'which has "item"' in told(plan)
    both = {"user": "item"}
    assert 'two modules of the plan would be "item"' in told(exported(), modules=both)
    assert 'no module "y"' in told(exported(), modules={"y": "item"})


def test_a_module_missing() -> None:
    text = told(changed(lambda p: p["plan"].pop("item")))
    assert 'the model\'s module "item" is not in the plan' in text
    wrapped = nn.Module()
    wrapped.user = Model().user
    text = told(exported(), wrapped)
    assert 'module "item" is not in the model, whose modules are "user"' in text


def test_another_world() -> None:
    text = told(exported(), env=ShardingEnv.from_local(8, 0))
    assert "the plan is for 4 ranks, and there are 8" in text
    assert "--devices 8" in text
    text = told(exported(), local_size=4)
    assert "the plan is for 2 ranks a host, and there are 4" in text
    assert "--devices-per-host 4" in text
    text = told(exported(), device_type="cpu")
    assert 'the plan places shards on "cuda"' in text
    assert "--accelerator cpu" in text
    assert "no process group" in told(exported(), env=None)


def test_another_shape() -> None:
    model = Model()
    model.item = collection(table("id", ["item"], num_embeddings=999), table("word"))
    assert 'table "item/id": the plan has 1000 x 64, the model 999 x 64' in told(exported(), model)
    assert "999 x 64" in told(native(), model)
    plan = exported() | {"shapes": {"user": {"age": [1000, 64]}}}  # has no shards to tell by
    assert 'table "age": the plan has 1000 x 64, the model 1000 x 32' in told(plan)


@pytest.mark.parametrize(
    ("version", "part"),
    [
        (0, "version 0, older than"),
        (2, "version 2, newer than"),
        ("1", 'version is "1" and not'),
        (True, "version is true and not"),
        (None, "version is missing and not"),
        (10**400, "a huge number"),
    ],
)
def test_other_versions(version: Any, part: str) -> None:
    for plan in (exported(), native()):
        text = told(plan | {"version": version})
        assert part in text and "hint: " in text


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ("[" * 100_000, None),
        ('{"a":' * 100_000, "not JSON"),
        (b"[]", "a list of 0"),
        ('{"format": "neuroshard-torchrec-plan", "version": 1, "version": 1}', "twice"),
        ('{"format": "neuroshard-plan", "version": NaN}', "no number of JSON"),
        ('{"format": "neuroshard-plan", "version": ' + "9" * 10_000 + "}", "not JSON"),
        ({}, "format is missing"),
        ({"plan": {}}, "neuroshard import"),
        ({"format": "neuroshard-tables", "version": 1}, "no plan"),
        ({"format": ["x"]}, "a list of 1"),
        ({"format": "neuroshard-torchrec-plan", "version": 1}, '"plan" is missing'),
        ({"format": "neuroshard-plan", "version": 1}, '"tables" is missing'),
    ],
)
def test_not_a_plan(source: Any, part: str | None) -> None:
    if part is None:  # a text that begins with no brace is a path
        with pytest.raises(OSError):
            load(source)
        return
    assert part in told(source)


def test_larger_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.json"
    with path.open("wb") as f:
        f.truncate(plans.MAX_BYTES + 1)
    assert "larger than 64 MiB" in told(path)
    monkeypatch.setattr(plans, "MAX_TABLES", 3)
    assert "more than 3 tables" in told(exported())


def first(plan: Json) -> Json:
    shards: list[Json] = plan["plan"]["item"]["word"]["shards"]
    return shards[0]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda p: p.update(world_size=0), '"world_size" is 0'),
        (lambda p: p.update(world_size=1 << 40), '"world_size" is'),
        (lambda p: p.pop("local_size"), '"local_size" is missing'),
        (lambda p: p["plan"].update(item=3), 'module "item" is 3'),
        (lambda p: p["plan"]["item"].update(word=[]), '"word" of module "item": it is a list of 0'),
        (lambda p: p["plan"]["item"]["word"].update(sharding_type="diagonal"), '"diagonal"'),
        (lambda p: p["plan"]["item"]["word"].update(compute_kernel="os.system"), "compute_kernel"),
        (lambda p: p["plan"]["item"]["word"].update(compute_kernel="dense"), "does not go with"),
        (lambda p: p["plan"]["user"]["age"].update(compute_kernel="fused"), "does not go with"),
        (lambda p: p["plan"]["user"]["age"].update(shards=[]), "data_parallel has none"),
        (lambda p: p["plan"]["item"]["word"].update(shards=[]), "shards is a list of 0"),
        (lambda p: p["plan"]["item"]["word"].update(ranks=[0, 1]), "ranks are not those"),
        (lambda p: p["plan"]["item"]["word"]["shards"].append(1), "shards[2] is 1"),
        (lambda p: first(p).update(shard_sizes=[1000]), "shards[0].shard_sizes"),
        (lambda p: first(p).update(shard_sizes=[1000, 48.0]), "shards[0].shard_sizes"),
        (lambda p: first(p).update(shard_offsets=[0, -4]), "shards[0].shard_offsets"),
        (lambda p: first(p).update(shard_offsets=[0, 1 << 60]), "shards[0].shard_offsets"),
        (lambda p: first(p).update(placement="rank:1/cuda:0"), "is not GPU 1 of its host"),
        (lambda p: first(p).update(placement="here"), "placement is"),
        (lambda p: first(p).update(shard_sizes=[1000, 44]), "have a gap at 44"),
        (lambda p: first(p).update(shard_sizes=[1000, 52]), "have an overlap at 48"),
        (lambda p: first(p).update(shard_sizes=[1000, 47]), "not multiples of 4"),
        (lambda p: first(p).update(shard_sizes=[999, 48]), "do not have all rows"),
        (lambda p: p["plan"]["item"]["word"]["shards"].reverse(), "ranks are not those"),
        (lambda p: p["plan"]["item"]["id"].update(sharding_type="row_wise"), "one for each of"),
        (
            lambda p: p["plan"]["item"]["word"].update(sharding_type="table_column_wise"),
            None,
        ),
        (lambda p: p["plan"]["item"]["word"].update(sharding_type="table_wise"), "has one shard"),
        (
            lambda p: p["plan"]["user"]["id"].update(sharding_type="table_row_wise"),
            "one for each of ranks 0 to 1",
        ),
    ],
)
def test_tables_that_cannot_be_run(change: Callable[[Json], Any], part: str | None) -> None:
    plan = changed(change)
    if part is None:
        load(plan)
    else:
        assert part in told(plan)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda t: t.update(name=3), "tables[3] has no name"),
        (lambda t: t.update(name="age"), 'table "age" is there twice'),
        (lambda t: t.update(kind="diagonal"), 'kind is "diagonal"'),
        (lambda t: t.update(rows="1000"), "rows and dim"),
        (lambda t: t.update(shards=None), "shards is missing"),
        (lambda t: t["shards"][0].update(tier="host"), "share one tier"),
        (lambda t: [s.update(tier="disk") for s in t["shards"]], "share one tier"),
        (lambda t: t["shards"][0].update(device=4), "rank 4 is not below 4"),
        (lambda t: t["shards"][0].update(device=-1), "not a rank"),
        (lambda t: t["shards"][0].update(columns=[48, 0]), "shards[0].columns"),
        (lambda t: t["shards"][0].update(columns=[0, 44]), "a gap at 44"),
    ],
)
def test_plan_files_that_cannot_be_run(change: Callable[[Json], Any], part: str) -> None:
    plan = native()
    change(plan["tables"][3])
    assert part in told(plan)


def test_tiers_are_kernels() -> None:
    plan = native()
    for s in plan["tables"][3]["shards"]:
        s["tier"] = "host"
    assert load(plan).plan["item"]["word"].compute_kernel == "fused_uvm"


def test_all_at_once() -> None:
    plan = exported()
    plan["plan"]["item"].pop("id")
    plan["plan"]["user"]["id"]["shards"][0]["shard_sizes"][0] = 20
    first(plan)["shard_sizes"][1] = 44
    plan["accelerator"] = "cpu"
    text = told(plan)
    assert "4 problems" in text
    for part in (
        'missing in the plan: "id"',
        "row_wise has rows 0 to 20",
        "a gap",
        "--accelerator",
    ):
        assert part in text


def test_hostile_files_are_refused_or_loaded() -> None:
    """Whatever is changed in a plan, there is a plan or a PlanError."""
    rng = random.Random(1)
    odd = ["\ud800", None, True, -1, 0, 1 << 70, 1.5, "", "rank:0/cuda:0", [], {}, [0, 0], {"a": 1}]
    for round_ in range(3000):
        plan = exported() if round_ % 2 else native()
        for _ in range(rng.randint(1, 3)):
            node: Any = plan
            while True:
                keys = list(node) if isinstance(node, dict) else list(range(len(node)))
                if not keys:
                    break
                key = rng.choice(keys)
                if isinstance(node[key], (dict, list)) and rng.random() < 0.8:
                    node = node[key]
                    continue
                if rng.random() < 0.2:
                    del node[key]
                else:
                    node[key] = copy.deepcopy(rng.choice(odd))
                break
        try:
            load(json.dumps(plan))
        except PlanError as e:
            assert e.problems
