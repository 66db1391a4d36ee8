"""The model of the tour, and batches that are drawn at random."""

import torch
from torch import nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor

BATCH = 256  # samples of one rank
TABLES = {  # name: rows, columns, lookups of a sample
    "user": (50_000, 64, 1),
    "item": (20_000, 128, 20),
    "clicks": (30_000, 64, 8),
    "country": (200, 16, 1),
}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = EmbeddingBagCollection(
            device=torch.device("meta"),
            tables=[
                EmbeddingBagConfig(name=name, num_embeddings=rows, embedding_dim=dim, feature_names=[name])
                for name, (rows, dim, _) in TABLES.items()
            ],
        )
        self.dense = nn.Linear(sum(dim for _, dim, _ in TABLES.values()), 1)

    def forward(self, features):
        pooled = self.embeddings(features)
        return self.dense(torch.cat([pooled[name] for name in TABLES], dim=1)).squeeze(1)

def draw():  # a batch of one rank
    return KeyedJaggedTensor(
        keys=list(TABLES),
        values=torch.cat([torch.randint(rows, (BATCH * n,)) for rows, _, n in TABLES.values()]),
        lengths=torch.cat([torch.full((BATCH,), n) for _, _, n in TABLES.values()]),
    )
