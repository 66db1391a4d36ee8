"""Plans for models: what is loaded, and everything that load_plan refuses."""

from __future__ import annotations

import copy
import json
import types
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import neuroshard
from test_torchrec_tables import collection, table
from torch import nn
from torchrec.distributed.types import EmbeddingModuleShardingPlan

from neuroshard_torchrec import (
    PlanError,
    ReplicatedTablesWarning,
    UnequalSlicesWarning,
    load_plan,
    tables_from_model,
    write_tables,
)
from neuroshard_torchrec._torchrec import ShardingEnv

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


FEATURES = ("id", "age", "item", "word")

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


@pytest.fixture(scope="module")
def native(binary: str, tmp_path_factory: pytest.TempPathFactory) -> Json:
    """A plan file of the same ranks."""
    folder = tmp_path_factory.mktemp("native")
    tables = tables_from_model(Model(), batch=64, pooling_factors=dict.fromkeys(FEATURES, 2.0))
    write_tables(tables, folder / "tables.json")
    cluster = ["--gpu", "a100-80", "--gpus", "4", "--set", "devices_per_host=2"]
    types = ["--types", "all", "--engine", "torchrec", "--set", "max_evaluations=100"]
    neuroshard(binary, "plan", "tables.json", *cluster, *types, "-o", "plan.json", cwd=folder)
    return dict(json.loads((folder / "plan.json").read_text()))


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


def test_the_plan_file_itself(binary: str, native: Json, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(native))
    neuroshard(
        binary, *("convert", "plan.json", "--to", "torchrec", "-o", "exported.json"), cwd=tmp_path
    )
    want = load(tmp_path / "exported.json")
    assert load(tmp_path / "plan.json") == load(native) == want
    unstated = {k: v for k, v in copy.deepcopy(native).items() if k != "digest"}
    for t in unstated["tables"]:
        del t["module"]
    unstated["tables"].reverse()
    assert load(unstated) == want
    unstated["tables"][0]["name"] = "words"
    text = told(unstated)
    assert 'that the model lacks: "words"' in text and "missing in the plan" in text
    del unstated["tables"][0]["shards"]
    assert '"words"' in told(unstated)  # the program says what is wrong


def test_replicated_tables_are_warned_of() -> None:
    with pytest.warns(ReplicatedTablesWarning) as caught:
        load_plan(exported(), Model(), ENV, local_size=2, device_type="cuda")
    (warning,) = (w for w in caught if w.category is ReplicatedTablesWarning)
    assert str(warning.message).startswith('replicated on every rank (data_parallel): "age"; ')
    assert "give them one with the dense parameters" in str(warning.message)
    assert warning.filename == __file__  # the caller's line


def test_unequal_slices_are_warned_of() -> None:
    with pytest.warns(UnequalSlicesWarning) as caught:
        load_plan(exported(), Model(), ENV, local_size=2, device_type="cuda")
    (warning,) = (w for w in caught if w.category is UnequalSlicesWarning)
    assert str(warning.message).startswith('slices of unequal widths: "word"; ')
    assert "load_state_dict fails" in str(warning.message)
    assert "--engine torchrec" in str(warning.message)
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


def named(module: str = "item", table: str = "word", modules: Json | None = None) -> str:
    """Returns what is wrong with a plan in which a module and a table have these names."""
    plan = exported()
    tables = plan["plan"].pop("item")
    plan["plan"][module] = {"id": tables["id"], table: tables["word"]}
    return told(plan, modules=modules)


def test_names_that_plan_and_model_do_not_share() -> None:
    text = named(table="words")
    assert 'module "item": tables missing in the plan: "word"' in text
    assert 'tables of the plan that the model lacks: "words"' in text
    assert 'was "words" renamed to "word"?' in text and "hint: plan again" in text
    text = named(module="sparse.item")
    assert 'module "sparse.item" is not in the model, which has "item"' in text
    assert 'modules={"sparse.item": "item"}' in text
    assert 'which has "item"' in named(module="x")  # its tables tell
    assert 'no module "y"' in named(modules={"y": "item"})
    plan = exported()
    plan["plan"]["sparse.item"] = plan["plan"].pop("item")
    assert load(plan, modules={"sparse.item": "item"}) == load(exported())
    del plan["plan"]["sparse.item"]
    assert 'the model\'s module "item" is not in the plan' in told(plan)
    wrapped = nn.Module()
    wrapped.user = Model().user
    assert 'is not in the model, whose modules are "user"' in told(exported(), wrapped)


def test_another_world() -> None:
    text = told(exported(), env=ShardingEnv.from_local(8, 0))
    assert "the plan is for 4 ranks, and there are 8" in text
    assert "--gpus 8" in text
    text = told(exported(), local_size=4)
    assert "the plan is for 2 ranks a host, and there are 4" in text
    assert "devices_per_host=4" in text
    placed = load(exported(), device_type="cpu").plan["item"]["word"].sharding_spec.shards
    assert placed[0].placement.device() == torch.device("cpu")
    assert "no process group" in told(exported(), env=None)


def test_another_shape() -> None:
    plan = exported() | {"shapes": {"user": {"age": [1000, 64]}, "item": {"id": [999, 64]}}}
    text = told(plan)
    assert 'table "age": the plan has 1000 x 64, the model 1000 x 32' in text
    assert 'table "item/id": the plan has 999 x 64, the model 1000 x 64' in text


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "format is None"),
        ({"plan": {}}, "format is None"),
        ({"format": "neuroshard-tables", "version": 1}, '"neuroshard-tables"'),
        (exported() | {"version": 2}, "the plan, of version 2"),
        (exported() | {"plan": None}, "not as neuroshard convert writes it"),
        ({k: v for k, v in exported().items() if k != "world_size"}, 'lacks "world_size"'),
        (
            exported() | {"plan": {"": {"t": {"ranks": [0, 1], "shards": [{}]}}}},
            "not as neuroshard convert writes it",
        ),
        (exported() | {"plan": {"user": {"id": {}}}}, "KeyError: 'ranks'"),
    ],
)
def test_not_a_plan(source: Any, part: str) -> None:
    text = told(source)
    assert part in text and "hint: " in text


def test_shares_of_caches_are_load_factors() -> None:
    plan = exported()
    table = plan["plan"]["item"]["word"]
    table["compute_kernel"] = "fused_uvm_caching"
    assert load(plan).plan["item"]["word"].cache_params.load_factor is None
    table["cache_params"] = {"load_factor": 0.25}
    assert load(plan).plan["item"]["word"].cache_params.load_factor == 0.25
