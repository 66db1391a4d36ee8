"""What is used of TorchRec. These files of the package import it, and no other:

    _torchrec.py     plans and what they are made of
    errors.py        PlannerError
    _modules.py      modules with tables, and their sharders
    _sharded.py      sharded models
    parts.py         what users pass to TorchRec's planner
    options.py       the ShardingOptions of TorchRec's planner
    _differences.py  what differs between releases
    provider.py      the planner where TorchRec 1.9 takes a PlannerProvider
    arch.py          models as TorchRec 1.9 stores them

versions.py checks the versions before any of them is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from . import versions

RELEASE = versions.installed()
"""The release of TorchRec that is here, such as 1.9: one of versions.TOGETHER."""

from fbgemm_gpu.split_embedding_configs import EmbOptimType  # noqa: E402
from torchrec.distributed.comm import get_local_size  # noqa: E402
from torchrec.distributed.planner import EmbeddingShardingPlanner  # noqa: E402
from torchrec.distributed.planner.types import ParameterConstraints  # noqa: E402
from torchrec.distributed.sharding_plan import get_default_sharders, placement  # noqa: E402
from torchrec.distributed.types import (  # noqa: E402
    BoundsCheckMode,
    CacheAlgorithm,
    CacheParams,
    EmbeddingModuleShardingPlan,
    EnumerableShardingSpec,
    KeyValueParams,
    ModuleSharder,
    ParameterSharding,
    ShardingEnv,
    ShardingPlan,
    ShardingPlanner,
    ShardMetadata,
)
from torchrec.distributed.utils import get_device_type  # noqa: E402
from torchrec.modules.embedding_modules import EmbeddingBagCollection  # noqa: E402
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor  # noqa: E402

__all__ = [
    "BoundsCheckMode",
    "CacheAlgorithm",
    "CacheParams",
    "EmbOptimType",
    "EmbeddingBagCollection",
    "EmbeddingModuleShardingPlan",
    "EmbeddingShardingPlanner",
    "KeyedJaggedTensor",
    "ModuleSharder",
    "ParameterConstraints",
    "ParameterSharding",
    "ShardingEnv",
    "ShardingPlan",
    "ShardingPlanner",
    "get_default_sharders",
    "get_device_type",
    "get_local_size",
]


@dataclass(frozen=True)
class Shard:
    """A rectangle of a table, in elements, and the rank that holds it."""

    row: int
    column: int
    rows: int
    columns: int
    rank: int


@dataclass(frozen=True)
class Placement:
    """Where a table lies: TorchRec's sharding type, its compute kernel, and the
    shards in TorchRec's order; none where every rank holds the whole table. Of a
    table that is cached, the share of its rows, where the plan states it. ``operator``
    is the number of the operator that the table's shards are in, 0 to OPERATORS - 1."""

    sharding_type: str
    kernel: str
    shards: tuple[Shard, ...]
    cached: float | None = None
    operator: int = 0


STREAMS = (
    "res_enabled_tables",
    "res_store_shards",
    "res_chunk_size",
    "res_num_consumers",
    "res_num_uvm_hit_copy_threads",
    "res_num_hbm_copy_threads",
    "enable_hbm_streaming",
    "res_hbm_drain_interval",
    "res_use_copy_done_token",
)
"""The fused parameters of tables whose rows TorchRec sends away while it trains them."""

_STREAMED = (*STREAMS, "enable_raw_embedding_streaming", "stats_reporter_config")
"""Fields of KeyValueParams that other tables have, too."""

CONSTRAINT_FIELDS = {f.name for f in fields(ParameterConstraints)}
"""The fields of TorchRec's ParameterConstraints."""


KEY_VALUE_FIELDS = tuple(f.name for f in fields(KeyValueParams) if f.name not in _STREAMED)
"""The fields of TorchRec's KeyValueParams, which are also fused parameters of such tables."""


def constraint_fields(constraints: Any) -> dict[str, Any]:
    """Returns the fields of TorchRec's ParameterConstraints that differ from their
    defaults."""
    usual = type(constraints)()  # a subclass may have more fields
    return {
        f.name: getattr(constraints, f.name)
        for f in fields(constraints)
        if getattr(constraints, f.name) != getattr(usual, f.name, None)
    }


def format_of(data_type: Any) -> str:
    """Returns the name of the number format of a DataType, such as fp16; fp32 for None."""
    if data_type is None:
        return "fp32"
    return str(getattr(data_type, "value", data_type)).lower()


def add_fields(sharding_plan: Any, fields: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
    """Sets fields of a plan's ParameterShardings, by path of the module and name of the table,
    as TorchRec's planner copies them from ParameterConstraints. Of cache_params, what the plan
    states of the cache stays. A sharding_type is stated as other names of planned ones."""
    for (path, name), values in fields.items():
        placed = sharding_plan.plan[path][name]
        for field_name, value in values.items():
            if field_name == "cache_params":
                value = _with_cache(value, placed.cache_params)
            elif field_name == "sharding_type":
                value = value.get(placed.sharding_type, placed.sharding_type)
            setattr(placed, field_name, value)


def _with_cache(stated: Any, planned: Any) -> Any:
    """Returns CacheParams with the share of rows and the mark of the operator that a plan has
    (_cache_params), and all else as stated."""
    if planned is None:
        return replace(stated)
    reserved = (stated.reserved_memory or 0) + (planned.reserved_memory or 0)
    share = stated.load_factor if planned.load_factor is None else planned.load_factor
    return replace(stated, load_factor=share, reserved_memory=reserved or None)


@dataclass(frozen=True)
class Feature:
    """What a sample batch has of a feature: its lookups, the spread of the lengths of its bags
    (their standard deviation over their mean, 0 without lookups), and its bags."""

    lookups: int
    spread: float
    bags: int


def features(sample: Any) -> tuple[dict[str, Feature], int]:
    """Returns the features of a sample batch, and its samples: those of the feature with the
    most, if features have batches of their own."""
    lengths = sample.lengths().double()
    found = {}
    strides = sample.stride_per_key()
    for key, own in zip(sample.keys(), lengths.split(strides), strict=True):
        mean = own.mean().item() if len(own) else 0.0
        spread = own.std(correction=0).item() / mean if mean > 0 else 0.0
        found[key] = Feature(int(own.sum()), spread, len(own))
    return found, int(sample.stride())


def sharding_plan(
    modules: Mapping[str, Mapping[str, Placement]],
    device_type: str,
    local_size: int,
    group: int | None = None,
) -> Any:
    """Returns TorchRec's ShardingPlan of these placements, by module and table. ``group`` is
    the number of ranks of a sharding group, None without groups."""
    return ShardingPlan(
        {
            path: EmbeddingModuleShardingPlan(
                {name: sharding(p, device_type, local_size, group) for name, p in tables.items()}
            )
            for path, tables in modules.items()
        }
    )


OPERATORS = 3
"""The number of operators that a plan divides what TorchRec would fuse into."""

KERNELS = ("fused", "fused_uvm", "fused_uvm_caching")


def _cache_params(p: Placement) -> Any:
    """Returns the CacheParams of a table. They also mark its operator.

    TorchRec fuses tables of one kind, module, pooling, weighting and number format that
    have the same fused parameters (torchrec/distributed/embedding_sharding.py,
    group_tables), and it fuses tables in HBM, host memory and caches, where the times of a
    plan are those of operators apart. Of the fused parameters that a ShardingPlan states
    for a table, one changes nothing else: the bytes that FBGEMM leaves free beside a cache.
    FBGEMM rounds the number down, so a part of a byte is none.
    """
    tier = KERNELS.index(p.kernel) if p.kernel in KERNELS else 0
    mark = (OPERATORS * tier + p.operator) / (OPERATORS * len(KERNELS))
    if not mark and p.cached is None:
        return None
    return CacheParams(load_factor=p.cached, reserved_memory=mark or None)


def sharding(p: Placement, device_type: str, local_size: int, group: int | None = None) -> Any:
    """Returns the ParameterSharding of a placement. Of a replicated table it states the ranks
    if there are sharding groups: DMPCollection fails without them."""
    ranks = None if group is None else list(range(group))
    spec = None
    if p.shards:
        ranks = [s.rank for s in p.shards]
        spec = EnumerableShardingSpec(
            [
                ShardMetadata(
                    shard_offsets=[s.row, s.column],
                    shard_sizes=[s.rows, s.columns],
                    placement=placement(device_type, s.rank, local_size),
                )
                for s in p.shards
            ]
        )
    return ParameterSharding(
        sharding_type=p.sharding_type,
        compute_kernel=p.kernel,
        cache_params=_cache_params(p),
        ranks=ranks,
        sharding_spec=spec,
    )
