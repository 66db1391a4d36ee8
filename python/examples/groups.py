"""Sharding groups, TorchRec's 2D parallelism: each group of ranks holds all tables and trains on
its part of the batch, and the groups average their tables now and then.

With two processes each group is one rank, so no pooled vectors are exchanged. The groups here
are averaged in each step: with SGD the losses are then those of one model. DMPCollection needs
GPUs.
"""

from __future__ import annotations

import torch
from common import BATCH, RATE, generator, run, train
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder

from neuroshard_torchrec import NeuroShardPlanner

ROWS = {"user": 20_000, "item": 5_000, "country": 200}
SIZE = 1  # ranks of a group


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
    values = [torch.randint(rows, (2 * BATCH,), generator=g) for rows in ROWS.values()]
    return KeyedJaggedTensor(
        keys=[f"of_{name}" for name in ROWS],
        values=torch.cat(values),
        lengths=torch.full((len(ROWS) * BATCH,), 2),
    )


def main() -> list[float]:
    torch.manual_seed(0)
    model = Model()
    start = {k: v.clone() for k, v in model.state_dict().items()}  # of all groups
    fused = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": RATE}
    planner = NeuroShardPlanner(
        profile="a100-80", sample=draw(generator(0)), sharding_group_size=SIZE, sync_every=1
    )
    return train(model, [EmbeddingBagCollectionSharder(fused_params=fused)], planner, draw, start)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        raise SystemExit("groups.py needs a GPU for each process: DMPCollection runs on no CPU")
    run(main)
