"""TorchRec's planner and its estimators for a model.

No device is needed: the planner gets a topology of GPUs, and modules are only looked at.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torchrec.distributed.planner import Topology
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.sharding_plan import get_default_sharders
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection

from neuroshard_torchrec import baseline
from neuroshard_torchrec.baseline import NoPlanError
from neuroshard_torchrec.options import estimated, options

__all__ = ["Cluster", "Engine", "NoPlanError", "sharding_types", "warm"]


@dataclass(frozen=True)
class Cluster:
    """The ranks that a model is planned for, and the batch of one of them."""

    devices: int
    devices_per_host: int
    memory_bytes: int  # of one device
    batch_per_rank: int


def warm() -> None:
    """Plans a table, so that what TorchRec loads and compiles at its first plan is not a part of
    the times: it takes seconds."""
    config = EmbeddingBagConfig(name="t", embedding_dim=4, num_embeddings=4, feature_names=["f"])
    module = EmbeddingBagCollection(tables=[config], device=torch.device("meta"))
    with contextlib.suppress(NoPlanError):
        Engine(module, None, Cluster(2, 2, 1 << 30, 2), {}, {}).plan(None)


class Engine:
    """TorchRec for one model on one cluster.

    ``factors`` are the lookups of a bag of each table's features by the table's name, for the
    tables whose ``constraints`` state none: TorchRec's planner takes 1 for these. ``bags`` are
    the bags of a sample of each feature, one by default.
    """

    def __init__(
        self,
        model: nn.Module,
        sharders: Sequence[Any] | None,
        cluster: Cluster,
        constraints: Mapping[str, Any],
        factors: Mapping[str, Sequence[float]],
        bags: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        self.model = model
        self.sharders = list(sharders) if sharders is not None else get_default_sharders()
        self.cluster = cluster
        self.constraints = baseline.with_factors(constraints, factors, bags or {})

    def topology(self) -> Topology:
        """TorchRec's topology of the cluster, with TorchRec's default bandwidths."""
        return Topology(
            world_size=self.cluster.devices,
            local_world_size=self.cluster.devices_per_host,
            compute_device="cuda",
            hbm_cap=self.cluster.memory_bytes,
        )

    def plan(self, limit_s: int | None) -> Any:
        """The plan of TorchRec's planner, made anew. NoPlanError where it finds none."""
        job = baseline.Job(
            topology=self.topology(),
            batch_size=self.cluster.batch_per_rank,
            constraints=self.constraints,
            limit_s=limit_s,
        )
        return baseline.plan(self.model, self.sharders, job)

    def estimate(self, plan: Any) -> tuple[list[float], list[int]]:
        """Milliseconds of a step and bytes of HBM by rank, of any ShardingPlan of the model: what
        TorchRec's estimators say of its shards, each by its own size."""
        topology, batch = self.topology(), self.cluster.batch_per_rank
        chosen = options(plan, self.model, self.sharders, topology, batch, self.constraints)
        enumerator = EmbeddingEnumerator(topology, batch, self.constraints)
        cost, hbm = [0.0] * topology.world_size, [0] * topology.world_size
        for option in estimated(chosen, enumerator, self.sharders):
            for shard in option.shards:
                cost[shard.rank] += shard.perf.total
                hbm[shard.rank] += shard.storage.hbm
        return cost, hbm


def sharding_types(plan: Any) -> dict[str, int]:
    """The number of tables of each sharding type, and kernel where it is not in HBM."""
    counts: dict[str, int] = {}
    for tables in plan.plan.values():
        for placed in tables.values():
            usual = "dense" if placed.sharding_type == "data_parallel" else "fused"
            kernel = placed.compute_kernel
            name = placed.sharding_type + ("" if kernel == usual else f" ({kernel})")
            counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
