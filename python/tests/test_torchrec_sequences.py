"""A model of sequences, as MLPerf's DLRMv4 has them: eleven tables of one dim in an
EmbeddingCollection, whose features share tables, planned and trained with deduplicated indices.

Four ranks train it. The losses of each step, the weights and the sums of Adagrad must be those of
the same model trained whole by one process.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
import torchrec_ranks as ranks
import torchrec_unique
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from test_torchrec_training import LOSS, WEIGHT
from torch import nn
from torchrec import EmbeddingCollection, EmbeddingConfig, KeyedJaggedTensor
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.optim.keyed import KeyedOptimizerWrapper
from torchrec.optim.optimizers import in_backward_optimizer_filter

Json = dict[str, Any]

__all__ = ["torchrec_unique"]

TABLES = 11
DIM = 32
LONGEST = 12
SHARED = (0, 1)
"""Tables that two features look up: a history and a candidate."""

FEATURES = {f"f{i}": i for i in range(TABLES)} | {f"candidate{i}": i for i in SHARED}
"""The table of each feature."""

CUT_BY_ROWS = (9, 10)

FACTORS = {f: 400.0 if i in SHARED else 40.0 for f, i in FEATURES.items()}


def rows_of(i: int) -> int:
    return 30 + 25 * i


class Model(nn.Module):
    """Scores a sample by the vectors of all its lookups."""

    def __init__(self) -> None:
        super().__init__()
        tables = [
            EmbeddingConfig(
                name=f"t{i}",
                num_embeddings=rows_of(i),
                embedding_dim=DIM,
                feature_names=[f for f, of in FEATURES.items() if of == i],
            )
            for i in range(TABLES)
        ]
        self.sequences = EmbeddingCollection(tables=tables, device=ranks.CPU)
        self.score = nn.Linear(len(FEATURES) * DIM * LONGEST, 1)

    def forward(self, features: KeyedJaggedTensor) -> torch.Tensor:
        found = self.sequences(features)
        parts = [found[f].to_padded_dense(LONGEST).flatten(1) for f in FEATURES]
        return self.score(torch.cat(parts, dim=1)).squeeze(1)


def batch(step: int, on: list[int]) -> tuple[KeyedJaggedTensor, torch.Tensor]:
    """Returns what these ranks train on in a step. Low rows are looked up more often, so that a
    rank looks up many of them several times."""
    parts, targets = [], []
    for rank in on:
        g = torch.Generator().manual_seed(1000 * step + rank)
        part = {}
        for f, i in FEATURES.items():
            lengths = torch.randint(0, LONGEST + 1, (ranks.BATCH,), generator=g)
            skewed = torch.rand(int(lengths.sum()), generator=g) ** 3 * rows_of(i)
            part[f] = (lengths, skewed.long())
        parts.append(part)
        targets.append(torch.randn(ranks.BATCH, generator=g))
    features = KeyedJaggedTensor(
        keys=list(FEATURES),
        lengths=torch.cat([p[f][0] for f in FEATURES for p in parts]),
        values=torch.cat([p[f][1] for f in FEATURES for p in parts]),
    )
    return features, torch.cat(targets)


def train(model: nn.Module, optimizer: Any, on: list[int]) -> list[float]:
    losses = []
    for step in range(ranks.STEPS):
        features, targets = batch(step, on)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(features), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def unsharded() -> tuple[list[float], dict[str, torch.Tensor]]:
    """Trains the model whole, and returns the losses, the weights and the sums of Adagrad."""
    torch.manual_seed(0)
    model = Model()
    optimizer = ranks.optimizer_of("adagrad", model.parameters())
    losses = train(model, optimizer, list(range(ranks.RANKS)))
    state = {k: v.detach().clone() for k, v in model.state_dict().items()}
    for name, parameter in model.sequences.named_parameters():
        state[f"sequences.{name} {name.split('.')[1]}.sum"] = optimizer.state[parameter]["sum"]
    return losses, state


def run(case: Json) -> Json:
    torch.manual_seed(0)
    model = Model()
    start = dict(model.state_dict())
    fused = {"optimizer": EmbOptimType.EXACT_ADAGRAD, "learning_rate": ranks.RATE, "eps": 1e-8}
    sharders: list[Any] = [EmbeddingCollectionSharder(fused, use_index_dedup=True)]
    plan = ranks.plan_of(case, model, sharders)
    sharded = DistributedModelParallel(model, device=ranks.CPU, plan=plan, sharders=sharders)
    sharded.load_state_dict(start)
    optimizer = KeyedOptimizerWrapper(
        dict(in_backward_optimizer_filter(sharded.named_parameters())),
        lambda parameters: ranks.optimizer_of("adagrad", parameters),
    )
    own = train(sharded, optimizer, [dist.get_rank()])
    losses = torch.tensor(own, dtype=torch.float64)
    dist.all_reduce(losses)
    state = {key.replace("momentum1", "sum"): value for key, value in ranks.whole(sharded).items()}
    result: Json = {
        "plan": ranks.planned(plan),
        "losses": (losses / ranks.RANKS).tolist(),
        "deduplicates": sharded.module.sequences._use_index_dedup,
    }
    if dist.get_rank() == 0:
        result["unsharded"], want = unsharded()
        result["keys"] = [sorted(state), sorted(want)]
        result["off"] = ranks.off(state, want)
    return result


@pytest.fixture(scope="module")
def results(binary: str) -> list[Json]:
    constraints = {f"t{i}": {"sharding_types": ["row_wise"]} for i in CUT_BY_ROWS}
    planner = {
        **{"profile": "a100-80", "batch_per_rank": 4096, "pooling_factors": FACTORS},
        "constraints": constraints,
    }
    return ranks.trained(run, [{"name": "planned", "plan": "neuroshard", "planner": planner}])


def test_a_collection_trains_as_the_model_whole(results: list[Json]) -> None:
    first = results[0]["planned"]
    for of_rank in results:
        assert of_rank["planned"]["deduplicates"]
        assert of_rank["planned"]["losses"] == pytest.approx(first["unsharded"], rel=LOSS)
    assert first["keys"][0] == first["keys"][1]
    assert first["off"] < WEIGHT["adagrad"]
    kinds = [table["kind"] for table in first["plan"].values()]
    assert len(kinds) == TABLES
    assert kinds.count("row_wise") == len(CUT_BY_ROWS)
