"""Tables that neuroshard does not place: they are fixed loads, and the other tables are planned."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torchrec", reason="SKIPPED: torchrec is not installed")

import torch
import torch.distributed as dist
import torchrec_ranks as ranks
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import ParameterConstraints
from torchrec.distributed.types import ParameterSharding, ShardingEnv
from torchrec_binary import binary, neuroshard

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

__all__ = ["binary"]


Json = dict[str, Any]

RANKS, BATCH, STEPS, ROWS, DIM = 2, 32, 5, 400, 16
TABLES = ("dynamic", "a", "b", "c", "d", "e", "f", "g")


class Model(nn.Module):
    """Tables of one feature each under a dense layer of one output."""

    def __init__(self, device: str = "meta", virtual: bool = False) -> None:
        super().__init__()
        self.tables = EmbeddingBagCollection(
            device=torch.device(device),
            tables=[
                EmbeddingBagConfig(
                    name=name,
                    num_embeddings=ROWS,
                    embedding_dim=DIM,
                    feature_names=[f"f_{name}"],
                    init_fn=nn.init.ones_,
                    use_virtual_table=virtual and name == "dynamic",
                )
                for name in TABLES
            ],
        )
        self.dense = nn.Linear(DIM * len(TABLES), 1)
        nn.init.constant_(self.dense.weight, 0.01)
        nn.init.zeros_(self.dense.bias)

    def forward(self, batch: KeyedJaggedTensor) -> torch.Tensor:
        pooled = self.tables(batch)
        return self.dense(torch.cat([pooled[f"f_{name}"] for name in TABLES], dim=1)).squeeze(1)


def by_hand() -> ParameterSharding:
    """What a planner of its own would state of the table: rows on both ranks."""
    half = ROWS // 2
    shards = (Shard(0, 0, half, DIM, 0), Shard(half, 0, half, DIM, 1))
    return sharding(Placement("row_wise", "fused", shards), "cpu", RANKS)


def sharders() -> list[Any]:
    params = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": 0.05}
    return [EmbeddingBagCollectionSharder(fused_params=params)]


def batches() -> list[list[KeyedJaggedTensor]]:
    """Returns a batch of each rank for each step."""
    draw = torch.Generator().manual_seed(3)
    n = BATCH * len(TABLES)
    return [
        [
            KeyedJaggedTensor(
                keys=[f"f_{name}" for name in TABLES],
                values=torch.randint(ROWS, (n,), generator=draw),
                lengths=torch.ones(n, dtype=torch.long),
            )
            for _ in range(RANKS)
        ]
        for _ in range(STEPS)
    ]


def whole() -> list[float]:
    """Returns the losses of the model whole in one process, over the batches of all ranks."""
    model = Model("cpu")
    optimizer = torch.optim.SGD(model.tables.parameters(), lr=0.05)
    losses = []
    for of_ranks in batches():
        optimizer.zero_grad()
        out = torch.cat([model(batch) for batch in of_ranks])
        loss = nn.functional.mse_loss(out, torch.zeros(len(out)))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train(binary: str) -> Json:
    """Returns the ranks of the tables, and the losses, as this rank sees them."""
    model = Model()
    fixed = FixedTable(bytes={0: "2GiB", 1: 0}, ms={0: 0.02}, sharding=by_hand())
    planner = NeuroShardPlanner(
        profile="a100-80",
        batch_per_rank=BATCH,
        device_type="cpu",
        pooling_factors={f"f_{name}": 1.0 for name in TABLES},
        fixed={"dynamic": fixed},
        binary=binary,
    )
    plan = planner.collective_plan(model, sharders())
    stated = {name: placed.ranks for name, placed in plan.plan["tables"].items()}
    sharded = DistributedModelParallel(model, device=ranks.CPU, plan=plan, sharders=sharders())
    losses = []
    for of_ranks in batches():
        out = sharded(of_ranks[dist.get_rank()])
        loss = nn.functional.mse_loss(out, torch.zeros(BATCH))
        loss.backward()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / RANKS)
    return {"ranks": stated, "losses": losses}


def planner(binary: str, **more: Any) -> NeuroShardPlanner:
    options = {"profile": "a100-80", "world_size": 2, "batch_per_rank": 64, "device_type": "cpu"}
    return NeuroShardPlanner(**{**options, "binary": binary, **more})


def test_a_virtual_table_no_longer_stops_the_model(binary: str, tmp_path: Path) -> None:
    model = Model(virtual=True)
    with pytest.raises(InputError, match="use_virtual_table") as refused:
        planner(binary).plan(model, sharders())
    assert 'fixed={"dynamic": FixedTable(' in str(refused.value)
    fixed = {"dynamic": FixedTable(bytes="12GiB", ms=0.3, sharding=by_hand())}
    made = planner(binary, fixed=fixed, keep=tmp_path)
    plan = made.plan(model, sharders()).plan["tables"]
    assert set(plan) == set(TABLES)
    assert plan["dynamic"] == fixed["dynamic"].sharding
    assert plan["dynamic"] is not fixed["dynamic"].sharding  # DMPCollection changes plans in place
    tables = json.loads((tmp_path / "tables.json").read_text())
    assert tables["fixed"] == [{"name": "dynamic", "bytes": "12GiB", "ms": 0.3}]
    assert "dynamic" not in [t["name"] for t in tables["tables"]]
    assert "each device also holds dynamic: 12.0 GiB, 0.300 ms" in made.report
    # The plan's file is that of the other tables, so load_plan needs the option, too.
    env = ShardingEnv.from_local(2, 0)
    again = load_plan(tmp_path / "plan.json", model, env, device_type="cpu", fixed=fixed)
    assert {n: p.ranks for n, p in again.plan["tables"].items()} == {
        n: p.ranks for n, p in plan.items()
    }
    with pytest.raises(PlanError, match="missing in the plan"):
        load_plan(tmp_path / "plan.json", model, env, device_type="cpu")


def test_a_rank_with_a_fixed_load_gets_fewer_tables(binary: str) -> None:
    def held(**more: Any) -> list[int]:
        plan = planner(binary, **more).plan(Model(), sharders()).plan["tables"]
        ranks = [r for n, placed in plan.items() if n != "dynamic" for r in placed.ranks]
        return [ranks.count(0), ranks.count(1)]

    busy = FixedTable(bytes=0, ms={0: 0.02, 1: 0}, sharding=by_hand())
    full = FixedTable(bytes={0: "67.99GiB"}, ranks=[0])
    assert held(fixed={"dynamic": busy})[0] < held(fixed={"dynamic": busy})[1]
    assert held(fixed={"dynamic": full})[0] < held(fixed={"dynamic": full})[1]
    assert abs(held()[0] - held()[1]) <= 1


def test_tables_of_a_file_are_planned_alike(binary: str, tmp_path: Path) -> None:
    fixed = {"tables/dynamic": FixedTable(bytes={1: 1 << 30}, ms={0: 0.1, 1: 0.1})}
    write_tables(tables_from_model(Model(), batch=64, fixed=fixed), tmp_path / "tables.json")
    stated = json.loads((tmp_path / "tables.json").read_text())["fixed"]
    assert stated == [
        {"name": "tables/dynamic", "devices": [0], "ms": 0.1},
        {"name": "tables/dynamic", "devices": [1], "bytes": f"{1 << 30}B", "ms": 0.1},
    ]
    options = ["--devices", "2", "--device", "a100-80", "-o", "plan.json"]
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
        planner(binary, fixed=fixed).plan(Model(), sharders())


def test_what_goes_to_placed_tables_only_is_refused(binary: str) -> None:
    fixed = {"dynamic": FixedTable(bytes=0)}
    for option in ("constraints", "access"):
        with pytest.raises(InputError, match=f'{option}: table "dynamic" is in fixed='):
            planner(binary, fixed=fixed, **{option: {"dynamic": {}}}).plan(Model(), sharders())
    with pytest.raises(InputError, match="torchrec_baseline"):
        planner(binary, fixed=fixed, torchrec_baseline=True)


@dataclass
class Dynamic(ParameterConstraints):  # type: ignore[misc] # it is untyped
    """Stands for the constraints of a planner of dynamic tables, which have more fields."""

    use_dynamicemb: bool = False
    options: dict[str, int] = field(default_factory=dict)


def test_constraints_of_other_planners_are_refused(binary: str) -> None:
    plain = planner(binary, constraints={"dynamic": Dynamic(min_partition=8)})
    assert plain.plan(Model(), sharders())
    with pytest.raises(InputError, match="use_dynamicemb of Dynamic is no field") as refused:
        planner(binary, constraints={"dynamic": Dynamic(use_dynamicemb=True)}).plan(
            Model(), sharders()
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
    plan = made.plan(Model(), sharders()).plan["tables"]
    assert sorted(seen) == sorted(set(TABLES) - {"dynamic"})
    assert set(plan) == set(TABLES) and type(plan["dynamic"]) is Customised


def test_two_ranks_train_beside_a_fixed_table(binary: str) -> None:
    found = ranks.on_ranks(RANKS, train, binary, per_host=RANKS)
    assert found[0] == found[1]
    assert found[0]["ranks"]["dynamic"] == [0, 1]
    assert {r for n, own in found[0]["ranks"].items() if n != "dynamic" for r in own} <= {0, 1}
    assert found[0]["losses"] == pytest.approx(whole(), rel=2e-6)
    assert found[0]["losses"][-1] < found[0]["losses"][0]
