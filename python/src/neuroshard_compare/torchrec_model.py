"""TorchRec's planner and its estimator for any model: as ``torchrec_planner`` for scenarios.

No device is needed: the planner gets a topology of GPUs, and modules are only looked at.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torchrec.distributed.planner import ParameterConstraints, Topology
from torchrec.distributed.planner.enumerators import get_partition_by_type
from torchrec.distributed.planner.types import Shard as TorchRecShard
from torchrec.distributed.planner.types import ShardingOption
from torchrec.distributed.planner.utils import sharder_name
from torchrec.distributed.sharding_plan import get_default_sharders
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection

from neuroshard_torchrec import baseline
from neuroshard_torchrec.baseline import NoPlanError

from .torchrec_planner import by_rank

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
        return baseline.topology_of(
            {
                "devices": self.cluster.devices,
                "devices_per_host": self.cluster.devices_per_host,
                "device_memory_bytes": self.cluster.memory_bytes,
            },
            host_memory=False,
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
        """Milliseconds of a step and bytes of HBM by rank, of any ShardingPlan of the model."""
        return by_rank(self._options(plan), self.topology(), self.constraints, self.sharders)

    def _options(self, plan: Any) -> list[ShardingOption]:
        """A plan as the options that the planner would have chosen."""
        of = {sharder_name(s.module_type): s for s in self.sharders}
        options = []
        for path, tables in plan.plan.items():
            module = self.model.get_submodule(path)
            weights = of[sharder_name(type(module))].shardable_parameters(module)
            pooled = ShardingOption.module_pooled(module, path)
            for name, placed in tables.items():
                stated = self.constraints.get(name) or ParameterConstraints()
                options.append(
                    ShardingOption(
                        name=name,
                        tensor=weights[name],
                        module=(path, module),
                        input_lengths=list(stated.pooling_factors),
                        batch_size=self.cluster.batch_per_rank,
                        sharding_type=placed.sharding_type,
                        partition_by=get_partition_by_type(placed.sharding_type),
                        compute_kernel=placed.compute_kernel,
                        shards=self._shards(placed, weights[name]),
                        cache_params=placed.cache_params,
                        is_pooled=pooled,
                        feature_names=stated.feature_names,
                        output_dtype=placed.output_dtype,
                    )
                )
        return options

    def _shards(self, placed: Any, weight: Any) -> list[TorchRecShard]:
        if placed.sharding_spec is None:  # data-parallel: every rank has all of it
            ranks = range(self.cluster.devices)
            return [TorchRecShard(size=list(weight.shape), offset=[0, 0], rank=r) for r in ranks]
        return [
            TorchRecShard(
                size=list(s.shard_sizes), offset=list(s.shard_offsets), rank=s.placement.rank()
            )
            for s in placed.sharding_spec.shards
        ]


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
