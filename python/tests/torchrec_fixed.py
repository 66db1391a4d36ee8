"""Two processes that train a model one of whose tables neuroshard does not place.

Run as ``python torchrec_fixed.py FOLDER BINARY``: each rank leaves the plan, the losses and the
tables that it holds in ``FOLDER/fixed-RANK.json``. It is no test itself: test_torchrec_fixed.py
starts it.

The table "dynamic" stands for one of a planner of its own: its ParameterSharding is written by
hand.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.types import ParameterSharding

from neuroshard_torchrec import FixedTable, NeuroShardPlanner
from neuroshard_torchrec._torchrec import Placement, Shard, sharding

RANKS, BATCH, STEPS, ROWS, DIM = 2, 32, 5, 400, 16
TABLES = ("dynamic", "a", "b", "c", "d", "e", "f", "g")
CPU = torch.device("cpu")


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


def train(rank: int, folder: str, binary: str) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS)}
    os.environ["LOCAL_WORLD_SIZE"] = str(RANKS)
    store = dist.FileStore(f"{folder}/store", RANKS)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    model = Model()
    fixed = FixedTable(bytes={0: "2GiB", 1: 0}, ms={0: 0.02}, sharding=by_hand())
    planner = NeuroShardPlanner(
        profile="a100-80",
        batch_per_rank=BATCH,
        device_type="cpu",
        pooling_factors={f"f_{name}": 1.0 for name in TABLES},
        fixed={"dynamic": fixed},
        binary=binary,
        keep=folder,
    )
    plan = planner.collective_plan(model, sharders())
    stated = {name: placed.ranks for name, placed in plan.plan["tables"].items()}
    sharded = DistributedModelParallel(model, device=CPU, plan=plan, sharders=sharders())
    losses = []
    for of_ranks in batches():
        out = sharded(of_ranks[rank])
        loss = nn.functional.mse_loss(out, torch.zeros(BATCH))
        loss.backward()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / RANKS)
    Path(folder, f"fixed-{rank}.json").write_text(json.dumps({"ranks": stated, "losses": losses}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.start_processes(train, args=tuple(sys.argv[1:3]), nprocs=RANKS, start_method="fork")
