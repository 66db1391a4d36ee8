"""A feature processor: an item counts by its position in the list, with learned weights.

FeatureProcessedEmbeddingBagCollection gives each lookup the weight of its position before the
tables pool. TorchRec keeps the weights on every rank and averages their gradients, as it does
for dense layers.
"""

from __future__ import annotations

import torch
from common import BATCH, RATE, generator, run, train
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.fp_embeddingbag import FeatureProcessedEmbeddingBagCollectionSharder
from torchrec.modules.feature_processor_ import PositionWeightedModule
from torchrec.modules.fp_embedding_modules import FeatureProcessedEmbeddingBagCollection

from neuroshard_torchrec import NeuroShardPlanner

ROWS = {"viewed": 5000, "visited": 300}  # by feature
LONGEST = 6


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        tables = [
            EmbeddingBagConfig(
                name=f"t_{name}", num_embeddings=rows, embedding_dim=32, feature_names=[name]
            )
            for name, rows in ROWS.items()
        ]
        self.embeddings = FeatureProcessedEmbeddingBagCollection(
            EmbeddingBagCollection(tables=tables, device=torch.device("cpu"), is_weighted=True),
            {name: PositionWeightedModule(max_feature_length=LONGEST) for name in ROWS},
        )
        self.score = nn.Linear(2 * 32, 1)

    def forward(self, features: KeyedJaggedTensor) -> torch.Tensor:
        pooled = self.embeddings(features)
        both = torch.cat([pooled[name] for name in ROWS], dim=1)
        return (self.score(both) - 1.0).pow(2).mean()


def draw(g: torch.Generator) -> KeyedJaggedTensor:
    lengths = torch.randint(0, LONGEST + 1, (len(ROWS), BATCH), generator=g)
    values = [
        torch.randint(rows, (int(n.sum()),), generator=g)
        for rows, n in zip(ROWS.values(), lengths, strict=True)
    ]
    return KeyedJaggedTensor(keys=list(ROWS), values=torch.cat(values), lengths=lengths.flatten())


def main() -> list[float]:
    torch.manual_seed(0)
    model = Model()
    start = {k: v.clone() for k, v in model.state_dict().items()}
    fused = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": RATE}
    inner = EmbeddingBagCollectionSharder(fused_params=fused)
    sharders = [FeatureProcessedEmbeddingBagCollectionSharder(inner)]
    planner = NeuroShardPlanner(profile="a100-80", sample=draw(generator(0)))
    return train(model, sharders, planner, draw, start)


if __name__ == "__main__":
    run(main)
