"""Tables that neuroshard does not place: they are fixed loads, and the other tables are planned."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from conftest import neuroshard
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from test_torchrec_tables import collection, table
from torch import nn
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import ParameterConstraints
from torchrec.distributed.types import ParameterSharding, ShardingEnv

from neuroshard_torchrec import (
    FixedTable,
    InputError,
    NeuroShardPlanner,
    PlanError,
    load_plan,
    tables_from_model,
    write_tables,
)
from neuroshard_torchrec._torchrec import Placement, Shard, sharding

Json = dict[str, Any]

RANKS, ROWS, DIM = 2, 400, 16
TABLES = ("dynamic", "a", "b", "c", "d", "e", "f", "g")


def model(virtual: bool = False) -> nn.Module:
    own = (
        table(
            *(name, [f"f_{name}"]),
            num_embeddings=ROWS,
            embedding_dim=DIM,
            use_virtual_table=virtual and name == "dynamic",
        )
        for name in TABLES
    )
    return nn.ModuleDict({"tables": collection(*own)})


def by_hand() -> ParameterSharding:
    """What a planner of its own would state of the table: rows on both ranks."""
    half = ROWS // 2
    shards = (Shard(0, 0, half, DIM, 0), Shard(half, 0, half, DIM, 1))
    return sharding(Placement("row_wise", "fused", shards), "cpu", RANKS)


def sharders() -> list[Any]:
    params = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": 0.05}
    return [EmbeddingBagCollectionSharder(fused_params=params)]


def planner(binary: str, **more: Any) -> NeuroShardPlanner:
    options = {"profile": "a100-80", "world_size": 2, "batch_per_rank": 64, "device_type": "cpu"}
    return NeuroShardPlanner(**{**options, "binary": binary, **more})


def test_a_virtual_table_no_longer_stops_the_model(binary: str, tmp_path: Path) -> None:
    virtual = model(virtual=True)
    with pytest.raises(InputError, match="use_virtual_table") as refused:
        planner(binary).plan(virtual, sharders())
    assert 'fixed={"dynamic": FixedTable(' in str(refused.value)
    fixed = {"dynamic": FixedTable(bytes="12GiB", ms=0.3, sharding=by_hand())}
    made = planner(binary, fixed=fixed, keep=tmp_path)
    plan = made.plan(virtual, sharders()).plan["tables"]
    assert set(plan) == set(TABLES)
    assert plan["dynamic"] == fixed["dynamic"].sharding
    assert plan["dynamic"] is not fixed["dynamic"].sharding  # DMPCollection changes plans in place
    tables = json.loads((tmp_path / "tables.json").read_text())
    assert tables["fixed"] == [{"name": "dynamic", "bytes": "12GiB", "ms": 0.3}]
    assert "dynamic" not in [t["name"] for t in tables["tables"]]
    assert "each device also holds dynamic: 12.0 GiB, 0.300 ms" in made.report
    # The plan's file is that of the other tables, so load_plan needs the option, too.
    env = ShardingEnv.from_local(2, 0)
    again = load_plan(tmp_path / "plan.json", virtual, env, device_type="cpu", fixed=fixed)
    assert {n: p.ranks for n, p in again.plan["tables"].items()} == {
        n: p.ranks for n, p in plan.items()
    }
    with pytest.raises(PlanError, match="missing in the plan"):
        load_plan(tmp_path / "plan.json", virtual, env, device_type="cpu")


def test_a_rank_with_a_fixed_load_gets_fewer_tables(binary: str) -> None:
    def held(**more: Any) -> list[int]:
        plan = planner(binary, **more).plan(model(), sharders()).plan["tables"]
        ranks = [r for n, placed in plan.items() if n != "dynamic" for r in placed.ranks]
        return [ranks.count(0), ranks.count(1)]

    busy = FixedTable(bytes=0, ms={0: 0.02, 1: 0}, sharding=by_hand())
    full = FixedTable(bytes={0: "67.99GiB"}, ranks=[0])
    assert held(fixed={"dynamic": busy})[0] < held(fixed={"dynamic": busy})[1]
    assert held(fixed={"dynamic": full})[0] < held(fixed={"dynamic": full})[1]
    assert abs(held()[0] - held()[1]) <= 1


def test_tables_of_a_file_are_planned_alike(binary: str, tmp_path: Path) -> None:
    fixed = {"tables/dynamic": FixedTable(bytes={1: 1 << 30}, ms={0: 0.1, 1: 0.1})}
    write_tables(tables_from_model(model(), batch=64, fixed=fixed), tmp_path / "tables.json")
    stated = json.loads((tmp_path / "tables.json").read_text())["fixed"]
    assert stated == [
        {"name": "tables/dynamic", "devices": [0], "ms": 0.1},
        {"name": "tables/dynamic", "devices": [1], "bytes": f"{1 << 30}B", "ms": 0.1},
    ]
    options = ["--gpus", "2", "--gpu", "a100-80", "--full", "-o", "plan.json"]
    report = neuroshard(binary, "plan", "tables.json", *options, cwd=tmp_path)
    assert "device 1 also holds tables/dynamic: 1.00 GiB, 0.100 ms" in report


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ({"dynamo": FixedTable(bytes=0)}, 'the model has no table "dynamo"'),
        ({"dynamic": FixedTable(bytes={5: 1}, ranks=[0])}, r"\[5\] are not among its ranks"),
        ({"dynamic": FixedTable(0), "tables/dynamic": FixedTable(0)}, "stated twice"),
    ],
)
def test_wrong_ones_are_input_errors(binary: str, fixed: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        planner(binary, fixed=fixed).plan(model(), sharders())


def test_what_goes_to_placed_tables_only_is_refused(binary: str) -> None:
    fixed = {"dynamic": FixedTable(bytes=0)}
    for option in ("constraints", "access"):
        with pytest.raises(InputError, match=f'{option}: table "dynamic" is in fixed='):
            planner(binary, fixed=fixed, **{option: {"dynamic": {}}}).plan(model(), sharders())


@dataclass
class Dynamic(ParameterConstraints):  # type: ignore[misc] # it is untyped
    """Stands for the constraints of a planner of dynamic tables, which have more fields."""

    use_dynamicemb: bool = False
    options: dict[str, int] = field(default_factory=dict)


def test_constraints_of_other_planners_are_refused(binary: str) -> None:
    plain = planner(binary, constraints={"dynamic": Dynamic(min_partition=8)})
    assert plain.plan(model(), sharders())
    with pytest.raises(InputError, match="use_dynamicemb of Dynamic is no field") as refused:
        planner(binary, constraints={"dynamic": Dynamic(use_dynamicemb=True)}).plan(
            model(), sharders()
        )
    assert "fixed=" in str(refused.value)


class Customised(ParameterSharding):  # type: ignore[misc] # it is untyped
    """Stands for the ParameterSharding of a planner with a kernel of its own."""


def test_callbacks_get_the_placed_tables(binary: str) -> None:
    placed = by_hand()
    own = Customised(**vars(placed))
    seen: list[str] = []

    def callback(chosen: list[Any]) -> list[Any]:
        seen.extend(option.name for option in chosen)
        return chosen

    fixed = {"dynamic": FixedTable(bytes=0, sharding=own)}
    made = planner(binary, fixed=fixed, callbacks=[callback])
    plan = made.plan(model(), sharders()).plan["tables"]
    assert sorted(seen) == sorted(set(TABLES) - {"dynamic"})
    assert set(plan) == set(TABLES) and type(plan["dynamic"]) is Customised
