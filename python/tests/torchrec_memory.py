"""Processes that train under plans and count the bytes that they allocate.

Run as ``python torchrec_memory.py FOLDER RANKS...``: ``FOLDER/plan-NAME.json`` are plans for
these numbers of ranks, ``FOLDER/cases.json`` has the tables of each, and each rank leaves in
``FOLDER/memory-RANKS-RANK.json``, by name, the peak of the bytes that training steps allocate
and hold. It is no test itself: test_torchrec_memory.py starts it.

The bytes are those of PyTorch's allocator on the CPU, as its profiler records them: every
tensor of TorchRec, FBGEMM and autograd, and none that is older than the step
(weights, optimizer state, the batch of this rank).
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torchrec_unique
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile
from torchrec import (
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    EmbeddingCollection,
    EmbeddingConfig,
    KeyedJaggedTensor,
)
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel

from neuroshard_torchrec import load_plan

__all__ = ["torchrec_unique"]

STEPS = 4
CPU = torch.device("cpu")
META = torch.device("meta")


class Model(nn.Module):
    """Tables of one feature each under a dense layer of one output."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__()
        self.ebc = EmbeddingBagCollection(device=META, tables=configs(case, EmbeddingBagConfig))
        self.dense = nn.Linear(case["dim"] * case["tables"], 1)

    def forward(self, batch: KeyedJaggedTensor) -> torch.Tensor:
        return self.dense(self.ebc(batch).values()).sum()


class BatchesModel(Model):
    """The same for features with batches of their own, whose vectors lie one after another."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__(case)
        self.dense = nn.Linear(case["dim"], 1)
        self.dim = case["dim"]

    def forward(self, batch: KeyedJaggedTensor) -> torch.Tensor:
        return self.dense(self.ebc(batch).values().view(-1, self.dim)).sum()


class SequencesModel(nn.Module):
    """Tables whose lookups are not pooled, under a dense layer for each vector."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__()
        self.ebc = EmbeddingCollection(device=META, tables=configs(case, EmbeddingConfig))
        self.dense = nn.Linear(case["dim"], 1)

    def forward(self, batch: KeyedJaggedTensor) -> torch.Tensor:
        vectors = self.ebc(batch)
        return sum(self.dense(v.values()).sum() for v in vectors.values())


MODELS: dict[str, Any] = {
    "pooled": Model,
    "batches": BatchesModel,
    "sequences": SequencesModel,
    "deduplicated": SequencesModel,
}


def configs(case: dict[str, Any], kind: Any) -> list[Any]:
    return [
        kind(
            name=f"t{i}",
            num_embeddings=case["rows"],
            embedding_dim=case["dim"],
            feature_names=[f"f{i}"],
        )
        for i in range(case["tables"])
    ]


def batch_of(case: dict[str, Any]) -> KeyedJaggedTensor:
    if case["kind"] == "batches":
        # The first half of the features has a quarter of the batch.
        half = case["tables"] // 2
        own = [case["batch"] // 4] * half + [case["batch"]] * (case["tables"] - half)
        return KeyedJaggedTensor(
            keys=[f"f{i}" for i in range(case["tables"])],
            values=torch.randint(0, case["rows"], (sum(own) * case["pooling"],)),
            lengths=torch.full((sum(own),), case["pooling"]),
            stride_per_key_per_rank=[[n] for n in own],
            inverse_indices=(
                [f"f{i}" for i in range(case["tables"])],
                torch.stack([torch.arange(case["batch"]) % n for n in own]),
            ),
        )
    bags = case["tables"] * case["batch"]
    return KeyedJaggedTensor(
        keys=[f"f{i}" for i in range(case["tables"])],
        values=torch.randint(0, case["rows"], (bags * case["pooling"],)),
        lengths=torch.full((bags,), case["pooling"]),
    )


def peak(events: list[Any]) -> int:
    """Returns the largest sum of bytes that were allocated and not freed."""
    changes = []
    stack = list(events)
    while stack:
        event = stack.pop()
        if event.typed[0] == _EventType.Allocation:
            allocation = event.typed[1]
            changes.append((event.start_time_ns, allocation.ptr, allocation.alloc_size))
        stack.extend(event.children)
    live: dict[int, int] = {}
    total = most = 0
    for _, address, size in sorted(changes):
        total -= live.pop(address, 0)
        if size > 0:
            live[address] = size
            total += size
        most = max(most, total)
    return most


def measured(case: dict[str, Any], plan: Path) -> int:
    """Returns the peak of a step, the least of several: the profiler does not see what
    gloo's threads free. Replicated tables have their peak in the step in which the
    all-reduce makes its buckets, which it keeps."""
    model = MODELS[case["kind"]](case)
    fused = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": 0.01}
    sharders = [
        EmbeddingBagCollectionSharder(fused_params=fused),
        EmbeddingCollectionSharder(
            fused_params=fused, use_index_dedup=case["kind"] == "deduplicated"
        ),
    ]
    sharded = DistributedModelParallel(
        model, device=CPU, plan=load_plan(plan, model, device_type="cpu"), sharders=sharders
    )
    batch = batch_of(case)
    peaks = []
    for _ in range(STEPS):
        gc.collect()
        dist.barrier()
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            sharded(batch).backward()
        sharded.zero_grad(set_to_none=True)
        assert profiler.profiler is not None
        peaks.append(peak(profiler.profiler.kineto_results.experimental_event_tree()))
    return max(peaks) if case["replicated"] else min(peaks)


def main(rank: int, ranks: int, folder: Path) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
    os.environ["LOCAL_WORLD_SIZE"] = str(ranks)
    store = dist.FileStore(str(folder / f"store-{ranks}"), ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    torch.manual_seed(rank)
    cases = json.loads((folder / "cases.json").read_text())
    found = {
        name: measured(case, folder / f"plan-{name}.json")
        for name, case in cases.items()
        if case["ranks"] == ranks
    }
    (folder / f"memory-{ranks}-{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for ranks in map(int, sys.argv[2:]):
        mp.start_processes(main, args=(ranks, folder), nprocs=ranks, start_method="fork")
