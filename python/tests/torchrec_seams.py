"""Two processes that plan by TorchRec's orchestrator, and train under its plan.

Run as ``python torchrec_seams.py FOLDER``: each rank leaves what it saw in
``FOLDER/rank-N.json``, and rank 0 the losses of the same model whole in ``FOLDER/whole.json``. It
is no test itself: test_torchrec_seams.py starts it once. It needs TorchRec 1.9.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torchrec_ranks as ranks
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner.api import ProductionPlannerOrchestrator
from torchrec.distributed.planner.executor import DefaultPlannerExecutor
from torchrec.distributed.planner.types import PlannerSessionContext, ShardingPlanRequest

from neuroshard_torchrec import NeuroShardPlannerConfig, NeuroShardPlannerProvider

RANKS = 2
STEPS = 5
BATCH = 16  # of a rank
RATE = 0.05
SKU = "CPU"
TABLES = {"a": (100, 8), "b": (300, 16), "c": (50, 32), "d": (400, 8)}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embeddings = EmbeddingBagCollection(
            tables=[
                EmbeddingBagConfig(
                    name=name, num_embeddings=rows, embedding_dim=dim, feature_names=[f"f_{name}"]
                )
                for name, (rows, dim) in TABLES.items()
            ],
            device=torch.device("cpu"),
        )
        self.dense = nn.Linear(sum(dim for _, dim in TABLES.values()), 1)

    def forward(self, features: KeyedJaggedTensor) -> torch.Tensor:
        pooled = self.embeddings(features)
        both = torch.cat([pooled[f"f_{name}"] for name in TABLES], dim=1)
        return (self.dense(both) - 1.0).pow(2).mean()


def draw(step: int, rank: int) -> KeyedJaggedTensor:
    g = torch.Generator().manual_seed(1000 * step + rank)
    lengths = torch.randint(0, 4, (len(TABLES), BATCH), generator=g)
    values = [
        torch.randint(rows, (int(n.sum()),), generator=g)
        for n, (rows, _) in zip(lengths, TABLES.values(), strict=True)
    ]
    keys = [f"f_{name}" for name in TABLES]
    return KeyedJaggedTensor(keys=keys, values=torch.cat(values), lengths=lengths.flatten())


def whole() -> list[float]:
    """Trains the model in this process, on the batches of all ranks."""
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        total = sum(model(draw(step, rank)) / RANKS for rank in range(RANKS))
        total.backward()
        optimizer.step()
        losses.append(total.item())
    return losses


def run(rank: int, folder: Path) -> None:
    ranks.join(rank, RANKS, folder / "store")
    torch.manual_seed(0)
    model = Model()
    start = {k: v.clone() for k, v in model.state_dict().items()}
    fused = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": RATE}
    request = ShardingPlanRequest(
        model=model,
        sharders=[EmbeddingBagCollectionSharder(fused_params=fused)],
        world_size=RANKS,
        local_world_size=RANKS,
        batch_size=BATCH,
        compute_device="cpu",
        planner_config=NeuroShardPlannerConfig(
            options={"sample": draw(0, 0), "keep": folder / "kept"}
        ),
    )
    executor = DefaultPlannerExecutor(NeuroShardPlannerProvider())
    orchestrator = ProductionPlannerOrchestrator(executor, SKU)
    context = PlannerSessionContext(request=request, results={})
    result = orchestrator.plan(request, context)[SKU]
    assert result.success, result.planner_failure_reason
    sharded = DistributedModelParallel(
        model, device=torch.device("cpu"), plan=result.sharding_plan, sharders=request.sharders
    )
    sharded.load_state_dict(start, strict=False)
    optimizer = torch.optim.SGD(sharded.module.dense.parameters(), lr=RATE)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = sharded(draw(step, rank))
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / RANKS)
    seen: dict[str, Any] = {
        "losses": losses,
        "plan": str(result.sharding_plan),
        "planning": result.is_planning_rank,
        "options": sorted(o.fqn for o in result.sharding_options),
        "bytes": result.estimated_max_ddr_bytes,
    }
    (folder / f"rank-{rank}.json").write_text(json.dumps(seen))
    if rank == 0:
        (folder / "whole.json").write_text(json.dumps(whole()))
    dist.barrier()
    dist.destroy_process_group()


def main(folder: Path) -> int:
    return ranks.fork(RANKS, lambda rank: run(rank, folder))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
