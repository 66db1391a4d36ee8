"""A model with a module of each kind that TorchRec shards, and what a rank does with it.

test_torchrec_modules.py has the cases. Each kind of module has a loss of its own, and the model
trains on their sum: so the losses show which module goes wrong.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
import torchrec_ranks as ranks
import torchrec_unique
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec import (
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    EmbeddingCollection,
    EmbeddingConfig,
    KeyedJaggedTensor,
    PoolingType,
)
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder, EmbeddingBagSharder
from torchrec.distributed.fp_embeddingbag import FeatureProcessedEmbeddingBagCollectionSharder
from torchrec.distributed.fused_embeddingbag import FusedEmbeddingBagCollectionSharder
from torchrec.distributed.mc_embedding import ManagedCollisionEmbeddingCollectionSharder
from torchrec.distributed.mc_embeddingbag import ManagedCollisionEmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.modules.feature_processor_ import PositionWeightedModule
from torchrec.modules.fp_embedding_modules import FeatureProcessedEmbeddingBagCollection
from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection
from torchrec.modules.mc_embedding_modules import (
    ManagedCollisionEmbeddingBagCollection,
    ManagedCollisionEmbeddingCollection,
)
from torchrec.modules.mc_modules import (
    DistanceLFU_EvictionPolicy,
    ManagedCollisionCollection,
    MCHManagedCollisionModule,
)
from torchrec.optim.keyed import KeyedOptimizerWrapper
from torchrec.optim.optimizers import in_backward_optimizer_filter

from neuroshard_torchrec import PlanError, load_plan, reshard
from neuroshard_torchrec._modules import Table, collect

__all__ = ["torchrec_unique"]

STEPS = 8
HALF = 4
FEWER = 2  # ranks that resume a checkpoint of four
EPS = 1e-8
BATCH = 8  # of each of four ranks
LONGEST = 4
SEQUENCE_DIM = 48  # cut in two, three or four
IDS = 1 << 20  # raw ids of managed collisions
KINDS = ("pooled", "sequence", "processed", "managed", "listed", "single", "fused")
"""The modules of the model: EmbeddingBagCollection, EmbeddingCollection,
FeatureProcessedEmbeddingBagCollection, ManagedCollisionEmbeddingBagCollection,
ManagedCollisionEmbeddingCollection, nn.EmbeddingBag, FusedEmbeddingBagCollection."""


class SubCollection(EmbeddingBagCollection):
    """A subclass, as scripts have them."""


class SubSharder(EmbeddingBagCollectionSharder):
    """The sharder of the subclass."""

    @property
    def module_type(self) -> type[nn.Module]:
        return SubCollection


def bags(prefix: str, count: int, **changes: Any) -> list[EmbeddingBagConfig]:
    return [
        EmbeddingBagConfig(
            name=f"{prefix}{i}",
            num_embeddings=40 + 17 * i,
            embedding_dim=8 * (i + 1),
            feature_names=[f"{prefix}{i}_f"],
            **changes,
        )
        for i in range(count)
    ]


def sequences(prefix: str, count: int, **changes: Any) -> list[EmbeddingConfig]:
    return [
        EmbeddingConfig(
            name=f"{prefix}{i}",
            num_embeddings=64 + 16 * i,
            embedding_dim=SEQUENCE_DIM,
            feature_names=[f"{prefix}{i}_f", f"{prefix}{i}_g"] if i == 1 else [f"{prefix}{i}_f"],
            **changes,
        )
        for i in range(count)
    ]


def _constant(weights: torch.Tensor) -> torch.Tensor:
    """Makes all rows alike, so that it does not matter which row an id gets."""
    with torch.no_grad():
        return weights.fill_(0.25)


def collisions(configs: list[Any]) -> ManagedCollisionCollection:
    modules = {
        c.name: MCHManagedCollisionModule(
            zch_size=c.num_embeddings,
            device=ranks.CPU,
            eviction_interval=1,
            eviction_policy=DistanceLFU_EvictionPolicy(),
            input_hash_size=IDS,
        )
        for c in configs
    }
    return ManagedCollisionCollection(managed_collision_modules=modules, embedding_configs=configs)


def shared() -> list[EmbeddingBagConfig]:
    """Two tables of one feature, which TorchRec runs without managed collisions only."""
    return [replace(c, feature_names=["shared"]) for c in bags("b", 2)]


FUSED = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad}
"""The optimizers of the tables, by neuroshard's words. FBGEMM has no Adam for CPUs."""

EMBEDDING_TYPES = {
    "sgd": EmbOptimType.EXACT_SGD,
    "adagrad": EmbOptimType.EXACT_ADAGRAD,
}


class Model(nn.Module):
    """A model with a module of each kind."""

    def __init__(self, kinds: list[str], optimizer: str = "sgd") -> None:
        super().__init__()
        self.fused_type = FUSED[optimizer]
        self.kinds = kinds
        self.sparse = nn.Module()
        self.dense = nn.ModuleDict()
        for kind in kinds:
            module, width = getattr(self, f"_{kind}")()
            setattr(self.sparse, kind, module)
            self.dense[kind] = nn.Linear(width, 1)

    def _pooled(self) -> tuple[nn.Module, int]:
        tables = bags("b", 3)
        tables[1].pooling = PoolingType.MEAN
        return SubCollection(tables=tables, device=ranks.CPU), 48

    def _sequence(self) -> tuple[nn.Module, int]:
        tables = sequences("s", 3)
        return EmbeddingCollection(tables=tables, device=ranks.CPU), 4 * SEQUENCE_DIM * LONGEST

    def _processed(self) -> tuple[nn.Module, int]:
        tables = bags("p", 3)
        inner = EmbeddingBagCollection(tables=tables, device=ranks.CPU, is_weighted=True)
        processors = {f"p{i}_f": PositionWeightedModule(LONGEST) for i in range(3)}
        return FeatureProcessedEmbeddingBagCollection(inner, processors), 48

    def _managed(self) -> tuple[nn.Module, int]:
        tables = bags("m", 2, init_fn=_constant)
        for c in tables:
            c.num_embeddings = 2048 + 13 * c.embedding_dim
        inner = EmbeddingBagCollection(tables=tables, device=ranks.CPU)
        return ManagedCollisionEmbeddingBagCollection(inner, collisions(tables)), 24

    def _listed(self) -> tuple[nn.Module, int]:
        tables = sequences("l", 2, init_fn=_constant)
        for c in tables:
            c.num_embeddings += 2048
        inner = EmbeddingCollection(tables=tables, device=ranks.CPU)
        return ManagedCollisionEmbeddingCollection(
            inner, collisions(tables)
        ), 3 * SEQUENCE_DIM * LONGEST

    def _single(self) -> tuple[nn.Module, int]:
        return nn.EmbeddingBag(50, 24, mode="sum", include_last_offset=True), 24

    def _fused(self) -> tuple[nn.Module, int]:
        rate = {"lr": ranks.RATE}
        tables = bags("u", 2)
        module = FusedEmbeddingBagCollection(tables, self.fused_type, rate, False, ranks.CPU)
        return module, 24

    def forward(self, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
        out = {}
        for kind in self.kinds:
            module, features = getattr(self.sparse, kind), inputs[kind]
            if kind == "single":
                dense = module(features.values(), features.offsets())
            else:
                got = module(features)
                got = got[0] if isinstance(got, tuple) else got
                parts = [got[k] for k in sorted(features.keys())]
                if kind in ("sequence", "listed"):  # one row a sample
                    parts = [p.to_padded_dense(LONGEST).flatten(1) for p in parts]
                dense = torch.cat(parts, dim=1)
            out[kind] = self.dense[kind](dense).squeeze(1)
        return out


def tables_of(model: Model) -> dict[str, tuple[Table, ...]]:
    """Returns the tables of each module."""
    found, problems = collect(model, (), sharders())
    assert not problems
    return {c.path.removeprefix("sparse."): c.tables for c in found}


def features_of(model: Model) -> dict[str, dict[str, int]]:
    """Returns the ids that each feature has, by module."""
    return {
        kind: {f: IDS if kind in ("managed", "listed") else t.rows for t in own for f in t.features}
        for kind, own in tables_of(model).items()
    }


def batch(of: dict[str, dict[str, int]], step: int, on: list[int]) -> tuple[Any, torch.Tensor]:
    """Returns what these ranks train on in a step, one after the other."""
    inputs: dict[str, Any] = {}
    targets = []
    for kind, features in of.items():
        parts = []
        for rank in on:
            # The ids of managed collisions come again: a resumed map must know their rows.
            seen = step % HALF if kind in ("managed", "listed") else step
            g = torch.Generator().manual_seed(1000 * seen + rank)
            part = {}
            for f, ids in features.items():
                # A module of managed collisions sizes its history by its first batch.
                most = LONGEST if ids < IDS else 2
                lengths = torch.randint(0, most + 1, (BATCH,), generator=g)
                if ids == IDS and step % HALF == 0:
                    lengths = torch.full((BATCH,), LONGEST)
                part[f] = (lengths, torch.randint(0, ids, (int(lengths.sum()),), generator=g))
            parts.append(part)
        inputs[kind] = KeyedJaggedTensor(
            keys=list(features),
            lengths=torch.cat([p[f][0] for f in features for p in parts]),
            values=torch.cat([p[f][1] for f in features for p in parts]),
        )
    for rank in on:
        g = torch.Generator().manual_seed(1000 * step + rank + 500)
        targets.append(torch.randn(BATCH, generator=g))
    return inputs, torch.cat(targets)


def sharders(optimizer: str = "sgd", dedup: bool = False) -> list[Any]:
    fused = {"optimizer": EMBEDDING_TYPES[optimizer], "learning_rate": ranks.RATE, "eps": EPS}
    pooled = EmbeddingBagCollectionSharder(fused_params=dict(fused))
    sequence = EmbeddingCollectionSharder(fused_params=dict(fused), use_index_dedup=dedup)
    return [
        SubSharder(fused_params=dict(fused)),
        pooled,
        sequence,
        FeatureProcessedEmbeddingBagCollectionSharder(pooled),
        ManagedCollisionEmbeddingBagCollectionSharder(pooled),
        ManagedCollisionEmbeddingCollectionSharder(sequence),
        EmbeddingBagSharder(fused_params=dict(fused)),
        FusedEmbeddingBagCollectionSharder(),
    ]


def train(model: Any, optimizer: Any, of: Any, first: int, last: int) -> dict[str, list[float]]:
    """Trains, and returns the losses of each module, the means over all ranks."""
    alone = not isinstance(model, DistributedModelParallel)
    own = ranks.RANKS if alone else ranks.RANKS // dist.get_world_size()
    first_own = 0 if alone else own * dist.get_rank()
    on = list(range(first_own, first_own + own))
    losses: dict[str, list[float]] = {kind: [] for kind in of}
    for step in range(first, last):
        inputs, targets = batch(of, step, on)
        optimizer.zero_grad()
        own = {k: nn.functional.mse_loss(v, targets) for k, v in model(inputs).items()}
        torch.stack(list(own.values())).sum().backward()
        optimizer.step()
        for kind, loss in own.items():
            total = loss.detach().clone()
            if not alone:
                dist.all_reduce(total)
                total /= dist.get_world_size()
            losses[kind].append(total.item())
    return losses


def reference(kinds: list[str], name: str = "sgd") -> dict[str, list[float]]:
    torch.manual_seed(0)
    model = Model(kinds, name)
    # A fused collection trains itself.
    own = [p for n, p in model.named_parameters() if not n.startswith("sparse.fused.")]
    return train(model, ranks.optimizer_of(name, own), features_of(model), 0, STEPS)


def fill(sharded: Any, start: dict[str, torch.Tensor]) -> None:
    """Gives the sharded model the weights of the whole one, shard by shard: TorchRec loads
    nothing that is not sharded into some of the modules."""
    with torch.no_grad():
        for key, value in sharded.state_dict().items():
            if key not in start:
                continue
            if not hasattr(value, "local_shards"):
                value.copy_(start[key])
                continue
            for s in value.local_shards():
                (row, column), (rows, columns) = s.metadata.shard_offsets, s.metadata.shard_sizes
                s.tensor.copy_(start[key][row : row + rows, column : column + columns])


def build(case: dict[str, Any], seed: int) -> tuple[Any, Any, Any]:
    torch.manual_seed(seed)
    name = case.get("optimizer", "sgd")
    model = Model(case["kinds"], name)
    of = features_of(model)
    # Modules with managed collisions load nothing that is not sharded; their rows are alike.
    start = {
        k: v.clone()
        for k, v in model.state_dict().items()
        if not k.startswith(("sparse.managed.", "sparse.listed."))
    }
    own = sharders(name, case.get("dedup", False))
    if case["plan"] == "neuroshard":
        plan = ranks.plan_of(case, model, own)
    else:
        plan = load_plan(case["plan"], model, device_type="cpu", sharders=own)
    sharded = DistributedModelParallel(model, device=ranks.CPU, plan=plan, sharders=own)
    if "resume" not in case:
        fill(sharded, start)
    optimizer = KeyedOptimizerWrapper(
        dict(in_backward_optimizer_filter(sharded.named_parameters())),
        lambda parameters: ranks.optimizer_of(name, parameters),
    )
    return sharded, optimizer, of


def run(case: dict[str, Any], recipe: dict[str, Any]) -> dict[str, Any]:
    if "plan" not in case:
        return {} if dist.get_rank() else reference(case["kinds"], case["optimizer"])
    if "resume" in case:
        sharded, optimizer, of = build(case, seed=1 + dist.get_rank())
        recipe["resume"](sharded, optimizer, case["resume"])
        return {
            "losses": train(sharded, optimizer, of, HALF, STEPS),
            "plan": ranks.planned(sharded.plan),
        }
    sharded, optimizer, of = build(case, seed=0)
    losses = train(sharded, optimizer, of, 0, HALF)
    if "save" in case:
        recipe["save"](sharded, optimizer, case["save"])
    result: dict[str, Any] = {}
    if "moved" in case:
        try:
            reshard(sharded, case["plan"], case["refused"], local_size=ranks.PER_HOST)
        except PlanError as e:
            result["refused"] = str(e)
        moved = reshard(sharded, case["plan"], case["moved"], local_size=ranks.PER_HOST)
        result["moved"] = sorted(moved.tables)
    more = train(sharded, optimizer, of, HALF, STEPS)
    losses = {k: v + more[k] for k, v in losses.items()}
    if case.get("dedup"):
        result["deduplicated"] = [
            n for n, m in sharded.named_modules() if getattr(m, "_use_index_dedup", False)
        ]
    return result | {"losses": losses, "plan": ranks.planned(sharded.plan)}
