"""A sequence model: the last items of a user, each with a vector of its own.

An EmbeddingCollection does not pool. Each lookup gives a vector, and a recurrent layer reads
the vectors in their order.
"""

from __future__ import annotations

import torch
from common import BATCH, RATE, generator, run, train
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec import EmbeddingCollection, EmbeddingConfig, KeyedJaggedTensor
from torchrec.distributed.embedding import EmbeddingCollectionSharder

from neuroshard_torchrec import NeuroShardPlanner

ITEMS, LONGEST = 5000, 8


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        tables = [
            EmbeddingConfig(
                name=name, num_embeddings=rows, embedding_dim=32, feature_names=[feature]
            )
            for name, rows, feature in (("item", ITEMS, "viewed"), ("shop", 300, "visited"))
        ]
        self.embeddings = EmbeddingCollection(tables=tables, device=torch.device("cpu"))
        self.reader = nn.GRU(2 * 32, 16, batch_first=True)
        self.score = nn.Linear(16, 1)

    def forward(self, features: KeyedJaggedTensor) -> torch.Tensor:
        vectors = self.embeddings(features)
        read = [vectors[name].to_padded_dense(LONGEST) for name in ("viewed", "visited")]
        _, last = self.reader(torch.cat(read, dim=2))
        return (self.score(last[0]) - 1.0).pow(2).mean()


def draw(g: torch.Generator) -> KeyedJaggedTensor:
    lengths = torch.randint(1, LONGEST + 1, (BATCH,), generator=g)
    total = int(lengths.sum())
    values = [torch.randint(n, (total,), generator=g) for n in (ITEMS, 300)]
    return KeyedJaggedTensor(
        keys=["viewed", "visited"], values=torch.cat(values), lengths=torch.cat([lengths, lengths])
    )


def main() -> list[float]:
    torch.manual_seed(0)
    model = Model()
    start = {k: v.clone() for k, v in model.state_dict().items()}
    fused = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": RATE}
    planner = NeuroShardPlanner(profile="a100-80", sample=draw(generator(0)))
    return train(model, [EmbeddingCollectionSharder(fused_params=fused)], planner, draw, start)


if __name__ == "__main__":
    run(main)
