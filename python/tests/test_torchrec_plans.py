"""Plans for models: what is loaded, and everything that load_plan refuses."""

from __future__ import annotations

import copy
import json
import random
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

pytest.importorskip("torchrec", reason="SKIPPED: torchrec is not installed")

from test_torchrec_tables import collection, table
from torchrec.distributed.types import EmbeddingModuleShardingPlan

from neuroshard_torchrec import (
    PlanError,
    ReplicatedTablesWarning,
    UnequalSlicesWarning,
    load_plan,
    plans,
)
from neuroshard_torchrec._modules import KINDS, MEAN, SUM, Table
from neuroshard_torchrec._torchrec import OPERATORS, Placement, Shard, ShardingEnv
from neuroshard_torchrec.tables import Named

Json = dict[str, Any]

pytestmark = [
    pytest.mark.filterwarnings("ignore::neuroshard_torchrec.ReplicatedTablesWarning"),
    pytest.mark.filterwarnings("ignore::neuroshard_torchrec.UnequalSlicesWarning"),
]


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


@pytest.mark.parametrize("plan", [exported(), native()], ids=["exported", "native"])
def test_replicated_tables_are_warned_of(plan: Json) -> None:
    with pytest.warns(ReplicatedTablesWarning) as caught:
        load_plan(plan, Model(), ENV, local_size=2, device_type="cuda")
    (warning,) = (w for w in caught if w.category is ReplicatedTablesWarning)
    assert str(warning.message).startswith('replicated on every rank (data_parallel): "age"; ')
    assert "give them one with the dense parameters" in str(warning.message)
    assert warning.filename == __file__  # the caller's line


@pytest.mark.parametrize("plan", [exported(), native()], ids=["exported", "native"])
def test_unequal_slices_are_warned_of(plan: Json) -> None:
    with pytest.warns(UnequalSlicesWarning) as caught:
        load_plan(plan, Model(), ENV, local_size=2, device_type="cuda")
    (warning,) = (w for w in caught if w.category is UnequalSlicesWarning)
    assert str(warning.message).startswith('slices of unequal widths: "word"; ')
    assert "load_state_dict fails" in str(warning.message)
    assert "--for torchrec" in str(warning.message)
    assert warning.filename == __file__  # the caller's line


def test_other_ranks_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        group = types.SimpleNamespace(rank=lambda: 1)
        load(exported(), env=types.SimpleNamespace(world_size=4, process_group=group))


@pytest.mark.parametrize("ranks", [(1, 0), (1, 1)])
def test_equal_slices_and_no_replicated_tables_are_not_warned_of(ranks: tuple[int, int]) -> None:
    plan = exported()
    plan["plan"]["user"]["age"] = entry("table_wise", shard(0, 0, 1000, 32, 2))
    halves = (shard(0, 32 * i, 1000, 32, rank) for i, rank in enumerate(ranks))
    plan["plan"]["item"]["word"] = entry("column_wise", *halves)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(plan)


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


def test_shares_of_caches_are_load_factors() -> None:
    plan = exported()
    table = plan["plan"]["item"]["word"]
    table["compute_kernel"] = "fused_uvm_caching"
    assert load(plan).plan["item"]["word"].cache_params.load_factor is None
    table["cache_params"] = {"load_factor": 0.25}
    assert load(plan).plan["item"]["word"].cache_params.load_factor == 0.25
    table["compute_kernel"] = "fused_uvm"
    assert load(plan).plan["item"]["word"].cache_params.load_factor is None
    plan = native()
    for s in plan["tables"][3]["shards"]:
        s.update(tier="host_cached", cache_share=0.25)
    assert load(plan).plan["item"]["word"].cache_params.load_factor == 0.25


def numbered(file: Json, number: Any) -> Json:
    """The plan with this number of the operator of two tables."""
    if file["format"] == "neuroshard-plan":
        tables = [file["tables"][1], file["tables"][3]]
    else:
        tables = [file["plan"]["user"]["age"], file["plan"]["item"]["word"]]
    for t in tables:
        t["operator"] = number
    return file


@pytest.mark.parametrize("plan", [exported, native])
def test_numbers_of_operators_are_marks(plan: Callable[[], Json]) -> None:
    assert load(numbered(plan(), 0)) == load(plan())
    seen = set()
    for number in range(OPERATORS):
        modules = load(numbered(plan(), number)).plan
        marks = [modules["user"]["age"].cache_params, modules["item"]["word"].cache_params]
        assert modules["item"]["id"].cache_params is None
        assert marks[0] == marks[1]
        seen.add(marks[0].reserved_memory if number else marks[0])
    assert len(seen) == OPERATORS


@pytest.mark.parametrize("plan", [exported, native])
@pytest.mark.parametrize("number", [OPERATORS, -1, 1.0, "1", True, None])
def test_numbers_that_no_operator_has(plan: Callable[[], Json], number: Any) -> None:
    message = told(numbered(plan(), number))
    assert "not a whole number from 0 to 2" in message
    assert 'table "age"' in message and 'table "word"' in message


def test_a_single_slice_is_a_whole_table() -> None:
    """It fuses with whole tables: the export of the plan says so, too."""
    plan = native()
    plan["tables"][2]["kind"] = "column_wise"
    assert load(plan) == load(native())


@pytest.mark.parametrize(
    ("params", "part"),
    [
        ([1], "cache_params is a list of 1 and not an object"),
        ({"load_factor": 1}, "cache_params.load_factor is 1, not a share above 0 and below 1"),
        ({"load_factor": True}, "cache_params.load_factor is true, not a share"),
        ({"load_factor": "0.2"}, 'cache_params.load_factor is "0.2", not a share'),
    ],
)
def test_caches_that_are_no_shares(params: Any, part: str) -> None:
    plan = exported()
    plan["plan"]["item"]["word"].update(compute_kernel="fused_uvm_caching", cache_params=params)
    assert part in told(plan)


def test_caches_of_several_shares() -> None:
    plan = native()
    for k, s in enumerate(plan["tables"][3]["shards"]):
        s.update(tier="host_cached", cache_share=0.25 * (k + 1))
    assert "do not share one cache_share" in told(plan)


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


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ('{"a":"\udc80"}', "not JSON: character 6 is half a surrogate pair"),
        ("a\0b", "null"),
        ("\ud800", "is no path"),
        (Path("a\0b"), "is no path"),
        ("\ufeff{", "not JSON"),
        ("\ufeff{}", "format is missing"),
        ({"format": {1, 2}}, "not JSON"),
        ({"format": float("nan")}, "not JSON"),
        ({(1, 2): 3}, "not JSON"),
        ({"version": 1, "format": "neuroshard-\x1b" + "x" * 1000}, "neuroshard-\\x1b"),
    ],
)
def test_odd_sources(source: Any, part: str) -> None:
    text = told(source)
    assert part in text and "\x1b" not in text and len(text) < 400
    text.encode()


def test_a_mapping_within_itself() -> None:
    plan = exported()
    plan["more"] = plan
    assert "not JSON" in told(plan)


@pytest.mark.parametrize("source", [None, 5, [1], memoryview(b"{}"), 1.5])
def test_sources_of_another_type(source: Any) -> None:
    with pytest.raises(TypeError, match="source is not a path, text, bytes or a mapping but"):
        load(source)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("env", "x"),
        ("env", 4),
        ("local_size", "2"),
        ("local_size", True),
        ("device_type", 1),
        ("modules", ["a"]),
        ("modules", {"a": 1}),
        ("ignore", "user"),
        ("ignore", [1]),
        ("ignore", None),
        ("model", dict),
    ],
)
def test_arguments_of_another_type(option: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{option} is not a|{option} is not text"):
        load(exported(), **{option: value})


@pytest.mark.parametrize("local_size", [-1, 0, 5, 1 << 70])
def test_ranks_of_a_host_that_cannot_be(local_size: int) -> None:
    text = told(exported(), local_size=local_size)
    assert "is not from 1 to 4, the number of ranks\n  hint: pass the ranks of a host" in text


def test_local_world_size_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "x")
    assert "LOCAL_WORLD_SIZE is a whole number" in told(exported(), local_size=None)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"shapes": None}, '"shapes" is null and not an object'),
        ({"shapes": [1]}, '"shapes" is a list of 1 and not an object'),
        ({"shapes": {"user": None}}, 'shapes: module "user" is null'),
        ({"shapes": {"user": {"id": None}}}, 'table "id" of module "user" is null'),
        ({"shapes": {"user": {"id": True}}}, 'table "id" of module "user" is true'),
        ({"shapes": {"user": {"id": "x"}}}, 'table "id" of module "user" is "x"'),
        ({"shapes": {"user": {"id": [100, -1]}}}, "not its rows and columns"),
        ({"shapes": {"user": {"id": [True, 64]}}}, "not its rows and columns"),
        ({"shapes": {"user": {"ix": [100, 64]}}}, 'table "ix" of module "user" is not in the plan'),
        ({"shapes": {"x": {"id": [100, 64]}}}, 'table "id" of module "x" is not in the plan'),
        ({"accelerator": []}, '"accelerator" is a list of 0'),
        ({"accelerator": 1.0}, '"accelerator" is 1.0'),
        ({"accelerator": None}, '"accelerator" is null'),
        ({"accelerator": "cuda:0"}, '"accelerator" is "cuda:0"'),
    ],
)
def test_shapes_and_accelerators_that_are_none(change: Json, part: str) -> None:
    assert part in told(exported() | change)


@pytest.mark.parametrize(
    "of", [None, [], [9, 9, 9], [0, 1, 2], [0, 1, 2, 4], [3, 2, 1, 0], [False, 1, 2, 3], "0123"]
)
def test_replicas_are_on_all_ranks(of: Any) -> None:
    plan = changed(lambda p: p["plan"]["user"]["age"].update(ranks=of))
    assert 'table "age" of module "user": ranks of data_parallel are not 0 to 3' in told(plan)


def test_names_are_cut_and_escaped() -> None:
    long = "\x1b]0;\r\n\u202e" + "x" * (1 << 20)
    plans_ = [
        changed(lambda p: p["plan"]["item"].update({long: 1})),
        changed(lambda p: p["plan"].update({long: {}})),
        changed(lambda p: p["plan"].update({long: 3})),
        changed(lambda p: p["plan"].update({long: p["plan"].pop("item")})),
        changed(lambda p: p["plan"]["item"]["word"].update(sharding_type=long)),
        exported() | {"shapes": {long: {long: [1, 1]}}},
        exported() | {"version": long},
    ]
    twice = json.dumps(exported())[:-1] + f', "{json.dumps(long)[1:-1]}": 1' * 2 + "}"
    other = native()
    other["tables"][0]["name"] = long
    for plan in (*plans_, twice, other):
        text = told(plan)
        assert len(text) < 2000
        assert all(c == "\n" or c.isprintable() for c in text)
        assert "\\x1b]0;" in text


def test_problems_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "MAX_PROBLEMS", 3)
    text = told(exported() | {"shapes": {str(i): 1 for i in range(9)}})
    assert "4 problems" in text and "more than 3 problems" in text


# Shards by themselves: what _layout finds wrong, None where nothing is.


def layout(
    kind: str, *shards: tuple[int, int, int, int, int], rows: int = 8, dim: int = 8
) -> str | None:
    """Four ranks on two hosts; a shard is its row, column, rows, columns and rank."""
    placement = Placement(kind, "fused", tuple(Shard(*s) for s in shards))
    problem = plans._layout(placement, rows, dim, 4, 2)
    return problem and problem[0]


@pytest.mark.parametrize(
    ("rows", "sizes", "part"),
    [
        (8, [2, 2, 2, 2], None),
        (7, [2, 2, 2, 1], None),
        (4, [1, 1, 1, 1], None),
        (8, [3, 1, 2, 2], "row_wise has rows 0 to 3 on rank 0"),
        (8, [2, 2, 2, 1], "row_wise has rows 6 to 7 on rank 3"),
        (7, [1, 2, 2, 2], "row_wise has rows 0 to 1 on rank 0"),
        (3, [1, 1, 1, 0], "row_wise leaves ranks without any of its 3 rows"),
        (6, [2, 2, 2, 0], "row_wise leaves ranks without any of its 6 rows"),
        (8, [4, 4], "not one for each of ranks 0 to 3"),
    ],
)
def test_blocks_of_rows(rows: int, sizes: list[int], part: str | None) -> None:
    shards = [(sum(sizes[:i]), 0, n, 8, i) for i, n in enumerate(sizes)]
    problem = layout("row_wise", *shards, rows=rows)
    assert problem is None if part is None else problem is not None and part in problem


def test_blocks_are_where_their_rank_is() -> None:
    def blocks(*starts: int) -> str | None:
        return layout("row_wise", *((row, 0, 2, 8, i) for i, row in enumerate(starts)))

    assert blocks(0, 2, 4, 6) is None
    assert blocks(0, 2, 2, 6) == "row_wise has rows 2 to 4 on rank 2"
    assert blocks(2, 0, 4, 6) == "row_wise has rows 2 to 4 on rank 0"
    assert blocks(0, 2, 4, 7) == "row_wise has rows 7 to 9 on rank 3"
    # Their order is that of the ranks, also on one host.
    ranks = [(2 * i, 0, 2, 8, r) for i, r in enumerate((1, 0, 2, 3))]
    assert "not one for each of ranks 0 to 3" in (layout("row_wise", *ranks) or "")
    assert layout("table_row_wise", (0, 0, 4, 8, 2), (4, 0, 4, 8, 3)) is None
    found = layout("table_row_wise", (0, 0, 4, 8, 3), (4, 0, 4, 8, 2))
    assert "not one for each of ranks 2 to 3" in (found or "")
    found = layout("table_row_wise", (0, 0, 4, 8, 1), (4, 0, 4, 8, 2))
    assert "not one for each of ranks 0 to 1" in (found or "")
    assert "do not have all columns" in (layout("row_wise", (0, 0, 8, 4, 0)) or "")


def test_table_column_wise_is_on_one_host() -> None:
    for ranks, whole in (((0, 1), True), ((3, 2), True), ((2, 2), True), ((1, 2), False)):
        shards = [(0, 4 * i, 8, 4, r) for i, r in enumerate(ranks)]
        want = None if whole else "the shards of table_column_wise are not on one host"
        assert layout("table_column_wise", *shards) == want
        assert layout("column_wise", *shards) is None


def grid(*slices: tuple[int, int, int]) -> list[tuple[int, int, int, int, int]]:
    """Slices of a first column, a width and a host, each of two blocks of rows."""
    return [(4 * i, c, 4, w, 2 * host + i) for c, w, host in slices for i in (0, 1)]


def test_grids() -> None:
    assert layout("grid_shard", *grid((0, 4, 0), (4, 8, 1)), dim=12) is None
    assert layout("grid_shard", *grid((0, 4, 1), (4, 4, 1)), dim=8) is None
    found = layout("grid_shard", *grid((0, 4, 1), (4, 8, 1)), dim=12)
    assert found == "slices of grid_shard on one host differ in width"
    found = layout("grid_shard", *grid((0, 4, 0), (4, 4, 1), (8, 8, 0)), dim=16)
    assert found == "slices of grid_shard on one host differ in width"
    found = layout("grid_shard", *grid((0, 4, 0), (8, 4, 1)), dim=12)
    assert found == "its columns have a gap at 4"
    one, other, *_ = grid((0, 4, 0), (4, 4, 1))
    assert "not 2 for each" in (layout("grid_shard", one, (4, 4, 4, 4, 1)) or "")
    assert "not one for each" in (layout("grid_shard", other, one) or "")
    assert "not one for each" in (layout("grid_shard", one, dim=4) or "")


def test_table_wise() -> None:
    assert layout("table_wise", (0, 0, 8, 8, 3)) is None
    assert layout("table_wise", (0, 0, 7, 8, 3)) is not None
    assert layout("table_wise", (1, 0, 8, 8, 3)) is not None
    assert layout("table_wise", (0, 0, 8, 4, 3)) == "its columns have a gap at 4"


POOLED = KINDS["EmbeddingBagCollection"]


def named_table(mean: bool = False, name: str = "t", path: str = "m") -> Named:
    return Named(name, path, Table(name, 8, 16, (name,), "fp32", None, MEAN if mean else SUM))


def test_slices_on_one_rank_are_made_one() -> None:
    def joined(kind: str, *parts: tuple[int, int]) -> list[tuple[int, int, int]]:
        """Of widths and ranks: first columns, widths and ranks."""
        starts = [sum(w for w, _ in parts[:i]) for i in range(len(parts))]
        shards = tuple(Shard(0, c, 8, w, r) for c, (w, r) in zip(starts, parts, strict=True))
        p = plans._joined(named_table(), POOLED, Placement(kind, "fused_uvm", shards))
        assert (p.sharding_type, p.kernel) == (kind, "fused_uvm")
        assert all((s.row, s.rows) == (0, 8) for s in p.shards)
        return [(s.column, s.columns, s.rank) for s in p.shards]

    for kind in ("column_wise", "table_column_wise"):
        assert joined(kind, (4, 1), (12, 0)) == [(0, 4, 1), (4, 12, 0)]
        assert joined(kind, (4, 1), (8, 0), (4, 1)) == [(0, 4, 1), (4, 8, 0), (12, 4, 1)]
        assert joined(kind, (4, 1), (4, 0), (8, 1)) == [(0, 12, 1), (12, 4, 0)]
        # The other rank's equal slices stay two, in the order of the ranks.
        want = [(0, 4, 0), (4, 4, 0), (8, 8, 1)]
        assert joined(kind, (4, 0), (2, 1), (4, 0), (6, 1)) == want
    assert joined("table_wise", (4, 0), (8, 0)) == [(0, 4, 0), (4, 8, 0)]


def test_shards_of_a_plan_file_are_put_in_order() -> None:
    plan = native()
    for t in plan["tables"]:
        t["shards"].reverse()
    assert load(plan) == load(exported())
    # First by columns, then by rows: a grid's slices one after the other.
    cut = [([c, c + 32], [r, r + 500], 2 * (c // 32) + r // 500) for r in (500, 0) for c in (32, 0)]
    t = plan["tables"][3]
    t["kind"] = "grid"
    t["shards"] = [{"columns": c, "rows": r, "device": d, "tier": "hbm"} for c, r, d in cut]
    word = load(plan).plan["item"]["word"]
    assert word.sharding_type == "grid_shard" and word.ranks == [0, 1, 2, 3]
    offsets = [s.shard_offsets for s in word.sharding_spec.shards]
    assert offsets == [[0, 0], [500, 0], [0, 32], [500, 32]]


def test_means() -> None:
    def problems(*placed: tuple[str, str, bool, str]) -> list[str]:
        """Of tables, each its name, its module, whether it takes means, and its kind."""
        tables = [named_table(mean, name, path) for name, path, mean, _ in placed]
        matched = {
            (path, name): plans._Entry(Placement(kind, "fused", ()))
            for name, path, _, kind in placed
        }
        return [str(p) for p in plans._means(tables, matched)]

    for kind in ("row_wise", "table_row_wise"):
        (text,) = problems(("a", "m", True, kind), ("b", "m", False, "table_wise"))
        assert text.startswith('table "a" takes means and is split by rows, and "b" of the same')
        assert "hint: place" in text
        (text,) = problems(("b", "m", True, "column_wise"), ("a", "m", True, kind))
        assert text.startswith('table "a" takes means')
        assert not problems(("a", "m", False, kind), ("b", "m", True, "table_wise"))
        assert not problems(("a", "m", True, kind), ("b", "n", True, "table_wise"))
        assert not problems(("a", "m", True, kind), ("b", "m", True, "row_wise"))
    assert not problems(("a", "m", True, "column_wise"), ("b", "m", True, "table_wise"))


def test_a_grid_takes_no_means() -> None:
    shards = tuple(Shard(*s) for s in grid((0, 8, 0), (8, 8, 1)))
    entry_ = plans._Entry(Placement("grid_shard", "fused", shards))
    assert plans._geometry(named_table(), POOLED, entry_, 4, 2) == []
    (problem,) = plans._geometry(named_table(mean=True), POOLED, entry_, 4, 2)
    assert "grid_shard does not go with mean pooling" in problem.message


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
