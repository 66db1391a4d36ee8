"""Managed collisions: raw ids of any size, which a module maps to the rows of the tables.

MCHManagedCollisionModule gives a new id a row of its own, and takes rows back from ids that
were seldom seen. Such tables are cut by rows: each rank maps the ids of its own rows.
"""

from __future__ import annotations

import torch
from common import BATCH, RATE, generator, run, train
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.mc_embeddingbag import ManagedCollisionEmbeddingBagCollectionSharder
from torchrec.modules.mc_embedding_modules import ManagedCollisionEmbeddingBagCollection
from torchrec.modules.mc_modules import (
    DistanceLFU_EvictionPolicy,
    ManagedCollisionCollection,
    MCHManagedCollisionModule,
)

from neuroshard_torchrec import NeuroShardPlanner

ROWS = {"user": 4096, "device": 2048}
IDS = 1 << 40  # ids are hashes, and few are seen


def alike(weights: torch.Tensor) -> torch.Tensor:
    """All rows start alike, so it does not matter which row an id gets."""
    with torch.no_grad():
        return weights.fill_(0.1)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        tables = [
            EmbeddingBagConfig(
                name=name,
                num_embeddings=rows,
                embedding_dim=16,
                feature_names=[f"{name}_id"],
                init_fn=alike,
            )
            for name, rows in ROWS.items()
        ]
        cpu = torch.device("cpu")
        managed = {
            table.name: MCHManagedCollisionModule(
                zch_size=table.num_embeddings,
                device=cpu,
                eviction_interval=1,
                eviction_policy=DistanceLFU_EvictionPolicy(),
                input_hash_size=IDS,
            )
            for table in tables
        }
        self.embeddings = ManagedCollisionEmbeddingBagCollection(
            EmbeddingBagCollection(tables=tables, device=cpu),
            ManagedCollisionCollection(managed_collision_modules=managed, embedding_configs=tables),
        )
        self.score = nn.Linear(2 * 16, 1)

    def forward(self, features: KeyedJaggedTensor) -> torch.Tensor:
        pooled, _ = self.embeddings(features)
        both = torch.cat([pooled[f"{name}_id"] for name in ROWS], dim=1)
        return (self.score(both) - 1.0).pow(2).mean()


def draw(g: torch.Generator) -> KeyedJaggedTensor:
    lengths = torch.ones(len(ROWS) * BATCH, dtype=torch.int64)
    # 200 ids, spread over all of them.
    seen = torch.randint(200, (len(lengths),), generator=g)
    values = (seen * 5_497_558_139 + 12345) % IDS
    return KeyedJaggedTensor(keys=[f"{name}_id" for name in ROWS], values=values, lengths=lengths)


def main() -> list[float]:
    torch.manual_seed(0)
    model = Model()
    start = {k: v.clone() for k, v in model.state_dict().items() if k.startswith("score.")}
    fused = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": RATE}
    inner = EmbeddingBagCollectionSharder(fused_params=fused)
    sharders = [ManagedCollisionEmbeddingBagCollectionSharder(inner)]
    planner = NeuroShardPlanner(profile="a100-80", sample=draw(generator(0)))
    return train(model, sharders, planner, draw, start)


if __name__ == "__main__":
    run(main)
