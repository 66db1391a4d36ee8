"""Replicated tables: small tables that every rank holds whole.

No exchange of pooled vectors is needed for them, and an all-reduce of their gradients takes
its place. TorchRec fuses no optimizer into their backward pass, so the optimizer of the dense
layers trains them: ``train`` in common.py gives it every parameter that has no other.
"""

from __future__ import annotations

import warnings

import torch
from common import BATCH, RATE, generator, run, train
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder

from neuroshard_torchrec import NeuroShardPlanner, ReplicatedTablesWarning

ROWS = {"user": 20_000, "country": 200, "weekday": 7}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        tables = [
            EmbeddingBagConfig(
                name=name, num_embeddings=rows, embedding_dim=16, feature_names=[f"of_{name}"]
            )
            for name, rows in ROWS.items()
        ]
        self.embeddings = EmbeddingBagCollection(tables=tables, device=torch.device("cpu"))
        self.score = nn.Linear(len(ROWS) * 16, 1)

    def forward(self, features: KeyedJaggedTensor) -> torch.Tensor:
        pooled = self.embeddings(features)
        together = torch.cat([pooled[f"of_{name}"] for name in ROWS], dim=1)
        return (self.score(together) - 1.0).pow(2).mean()


def draw(g: torch.Generator) -> KeyedJaggedTensor:
    values = [torch.randint(rows, (BATCH,), generator=g) for rows in ROWS.values()]
    return KeyedJaggedTensor(
        keys=[f"of_{name}" for name in ROWS],
        values=torch.cat(values),
        lengths=torch.ones(len(ROWS) * BATCH, dtype=torch.int64),
    )


def main() -> list[float]:
    torch.manual_seed(0)
    model = Model()
    start = {k: v.clone() for k, v in model.state_dict().items()}
    fused = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": RATE}
    # The optimizer of train() trains these tables, so no warning is needed.
    warnings.filterwarnings("ignore", category=ReplicatedTablesWarning)
    planner = NeuroShardPlanner(
        profile="a100-80",
        sample=draw(generator(0)),
        constraints={
            name: {"sharding_types": ["data_parallel"]} for name in ("country", "weekday")
        },
    )
    return train(model, [EmbeddingBagCollectionSharder(fused_params=fused)], planner, draw, start)


if __name__ == "__main__":
    run(main)
