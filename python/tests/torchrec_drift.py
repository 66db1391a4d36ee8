"""A job of four processes on CPUs whose pooling factors change half way, for neuroshard watch.

Run in the folder python:

    PYTHONPATH=src python tests/torchrec_drift.py NEUROSHARD FOLDER

NEUROSHARD is the program. It plans, FOLDER gets plan.json and the times of each rank, and
neuroshard watch reads them: once those of a job that goes on as it was, and once those of a
job whose bags are FACTOR times as long from the middle on. docs/TORCHREC.md has what it
printed. It is no test: the times of a machine with other work prove nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torchrec_ranks as ranks
from torch import nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed.model_parallel import DistributedModelParallel

from neuroshard_torchrec import StepTimes, load_plan, tables_from_model, write_tables
from neuroshard_torchrec.times import CPUClock

TABLES, ROWS, DIM, BATCH, POOLING, FACTOR = 8, 20_000, 32, 256, 20, 4
WINDOW, REFERENCE = 10, 30  # steps of a window; windows before watch judges
STEPS = WINDOW * REFERENCE * 2


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ebc = EmbeddingBagCollection(
            device=torch.device("meta"),
            tables=[
                EmbeddingBagConfig(
                    name=f"t{i}", num_embeddings=ROWS, embedding_dim=DIM, feature_names=[f"f{i}"]
                )
                for i in range(TABLES)
            ],
        )
        self.dense = nn.Linear(DIM, 1)

    def forward(self, features: KeyedJaggedTensor) -> torch.Tensor:
        return self.dense(sum(self.ebc(features).to_dict().values())).squeeze(1)


def batch(pooling: int) -> KeyedJaggedTensor:
    return KeyedJaggedTensor(
        keys=[f"f{i}" for i in range(TABLES)],
        values=torch.randint(ROWS, (TABLES * BATCH * pooling,)),
        lengths=torch.full((TABLES * BATCH,), pooling),
    )


def run(rank: int, folder: Path) -> None:
    ranks.join(rank, ranks.RANKS, folder / "store")
    torch.manual_seed(rank)
    model = Model()
    plan = load_plan(folder / "plan.json", model, device_type="cpu")
    sharded = DistributedModelParallel(
        model, device=ranks.CPU, plan=plan, sharders=ranks.sharders_of("rowwise_adagrad")
    )
    targets = torch.randn(BATCH)
    for name, later in (("steady", POOLING), ("drift", FACTOR * POOLING)):
        # The processor time of the rank, which other work on the machine hardly changes.
        clock = CPUClock(time.thread_time_ns)
        with StepTimes(sharded, folder / f"{name}.{{rank}}.jsonl", clock=clock):
            for step in range(STEPS):
                features = batch(POOLING if step < STEPS * 3 // 4 else later)
                nn.functional.mse_loss(sharded(features), targets).backward()
        dist.barrier()
    dist.destroy_process_group()


def main(program: str, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("*.jsonl"), folder / "store"):
        old.unlink(missing_ok=True)
    factors = {f"f{i}": float(POOLING) for i in range(TABLES)}
    tables = tables_from_model(
        Model(), batch=ranks.RANKS * BATCH, pooling_factors=factors, optimizer="rowwise_adagrad"
    )
    write_tables(tables, folder / "tables.json")
    cluster = ["--devices", str(ranks.RANKS), "--devices-per-host", str(ranks.PER_HOST)]
    cluster += ["--device", "a100-80", "--for", "torchrec", "--sharding-types", "table_wise"]
    plan = [program, "plan", str(folder / "tables.json"), *cluster, "-o", str(folder / "plan.json")]
    subprocess.run(plan, check=True, stdout=subprocess.DEVNULL)
    if ranks.fork(ranks.RANKS, lambda rank: run(rank, folder)):
        return 1
    for name in ("steady", "drift"):
        lines = b"".join(f.read_bytes() for f in sorted(folder.glob(f"{name}.*.jsonl")))
        watch = [program, "watch", str(folder / "plan.json"), "-", "--once"]
        watch += ["--window", str(WINDOW)]
        print(f"{name}:", flush=True)
        subprocess.run(watch, input=lines, check=False)
    return 0


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
