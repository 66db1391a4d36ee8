"""Transfer learning: a table starts with weights that another model has learned.

``load_state_dict`` of the sharded model takes whole tables: each rank copies the rows and
columns that it holds. The table may be on disk, for example in a file of ``torch.save``; with
``mmap=True`` a rank reads its part of the file only.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from common import BATCH, RATE, generator, run, train
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder

from neuroshard_torchrec import NeuroShardPlanner

ROWS, DIM = 10_000, 64


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        table = EmbeddingBagConfig(
            name="item", num_embeddings=ROWS, embedding_dim=DIM, feature_names=["items"]
        )
        self.embeddings = EmbeddingBagCollection(tables=[table], device=torch.device("cpu"))
        self.score = nn.Linear(DIM, 1)

    def forward(self, features: KeyedJaggedTensor) -> torch.Tensor:
        return (self.score(self.embeddings(features)["items"]) - 1.0).pow(2).mean()


def draw(g: torch.Generator) -> KeyedJaggedTensor:
    lengths = torch.randint(0, 6, (BATCH,), generator=g)
    values = torch.randint(ROWS, (int(lengths.sum()),), generator=g)
    return KeyedJaggedTensor(keys=["items"], values=values, lengths=lengths)


def learned(path: Path) -> None:
    """Stores the table of another model. Here it is random."""
    torch.save(torch.randn(ROWS, DIM, generator=torch.Generator().manual_seed(1)), path)


def main() -> list[float]:
    torch.manual_seed(0)
    model = Model()
    start = {k: v.clone() for k, v in model.state_dict().items()}
    with tempfile.TemporaryDirectory() as folder:
        learned(Path(folder, "item.pt"))
        start["embeddings.embedding_bags.item.weight"] = torch.load(
            Path(folder, "item.pt"), mmap=True
        )
        fused = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": RATE}
        sharders = [EmbeddingBagCollectionSharder(fused_params=fused)]
        planner = NeuroShardPlanner(
            profile="a100-80",
            sample=draw(generator(0)),
            constraints={"item": {"sharding_types": ["row_wise"]}},
        )
        return train(model, sharders, planner, draw, start)


if __name__ == "__main__":
    run(main)
