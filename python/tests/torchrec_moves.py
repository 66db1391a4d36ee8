"""How long moves of tables in a running job take: four processes on CPUs, over gloo, with
26 tables of dim 64 and row-wise Adagrad.

Run as ``PYTHONPATH=src python tests/torchrec_moves.py ROWS`` in the folder python; ROWS is
the number of rows of each table, 200,000 if it is left out. docs/TORCHREC.md has what it
printed.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torchrec_ranks as ranks
from torch import nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed.model_parallel import DistributedModelParallel

from neuroshard_torchrec import reshard
from neuroshard_torchrec._torchrec import Placement, Shard, sharding_plan

TABLES, DIM, REPEATS = 26, 64, 3


class Model(nn.Module):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.ebc = EmbeddingBagCollection(
            device=torch.device("meta"),
            tables=[
                EmbeddingBagConfig(
                    name=f"t{i}", num_embeddings=rows, embedding_dim=DIM, feature_names=[f"f{i}"]
                )
                for i in range(TABLES)
            ],
        )
        self.dense = nn.Linear(DIM, 1)

    def forward(self, features: KeyedJaggedTensor) -> torch.Tensor:
        return self.dense(sum(self.ebc(features).to_dict().values()))


def whole(rows: int, shift: int, moved: int) -> dict[str, Placement]:
    """Returns whole tables in turns on the ranks, the first ones shifted to other ranks."""
    at = [(i + (shift if i < moved else 0)) % ranks.RANKS for i in range(TABLES)]
    return {
        f"t{i}": Placement("table_wise", "fused", (Shard(0, 0, rows, DIM, r),))
        for i, r in enumerate(at)
    }


def by_rows(rows: int) -> dict[str, Placement]:
    block = rows // ranks.RANKS
    shards = tuple(Shard(r * block, 0, block, DIM, r) for r in range(ranks.RANKS))
    return {f"t{i}": Placement("row_wise", "fused", shards) for i in range(TABLES)}


def plan(tables: dict[str, Placement]) -> dict[str, Any]:
    return {
        "format": "neuroshard-torchrec-plan",
        "version": 1,
        "world_size": ranks.RANKS,
        "local_size": ranks.PER_HOST,
        "accelerator": "cpu",
        "plan": {
            "ebc": {
                name: {
                    "sharding_type": p.sharding_type,
                    "compute_kernel": p.kernel,
                    "ranks": [s.rank for s in p.shards],
                    "shards": [
                        {
                            "shard_offsets": [s.row, s.column],
                            "shard_sizes": [s.rows, s.columns],
                            "placement": f"rank:{s.rank}/cpu",
                        }
                        for s in p.shards
                    ],
                }
                for name, p in tables.items()
            }
        },
    }


def run(rank: int, rows: int, store: Path) -> None:
    ranks.join(rank, ranks.RANKS, store)
    start = whole(rows, 0, 0)
    model = DistributedModelParallel(
        Model(rows),
        device=ranks.CPU,
        plan=sharding_plan({"ebc": start}, "cpu", ranks.PER_HOST),
        sharders=ranks.sharders_of("rowwise_adagrad"),
    )
    held = torch.tensor(sum(ranks.bytes_of(model)))
    dist.all_reduce(held)
    if rank == 0:
        print(
            f"{TABLES} tables of {rows} x {DIM}: {held.item() / 1e9:.2f} GB with their state",
            flush=True,
        )
    for name, there in (
        ("1 table to another rank", whole(rows, 1, 1)),
        ("6 tables to other ranks", whole(rows, 1, 6)),
        ("all tables to other ranks", whole(rows, 1, TABLES)),
        ("all tables, whole to rows", by_rows(rows)),
    ):
        seconds, busy, bytes_between = [], [], 0
        for i in range(REPEATS):
            for old, new in ((start, there), (there, start)):
                begin = time.process_time()
                done = reshard(model, plan(old), plan(new))
                own = torch.tensor(time.process_time() - begin)
                dist.all_reduce(own, dist.ReduceOp.MAX)
                if i > 0:  # the first ones are to warm up
                    seconds.append(done.seconds)
                    busy.append(own.item())
                bytes_between = done.total
        if rank == 0:
            print(
                f"{name}: {bytes_between / 1e6:.1f} MB between ranks, median "
                f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}), "
                f"processor time of the busiest rank {statistics.median(busy):.2f} s",
                flush=True,
            )
    if rank == 0:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"most memory of a process: {peak:.2f} GB")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(ranks.fork(ranks.RANKS, lambda r: run(r, count, Path(folder, "store"))))
