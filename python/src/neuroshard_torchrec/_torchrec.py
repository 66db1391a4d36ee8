"""All that is used of TorchRec: no other file of this package imports it.

TorchRec's modules and plans are not a stable interface, so its version is checked
before anything of it is imported. ``OLDEST`` and ``NEWEST`` are the range; widen it
only together with the tests, which run the pinned version of constraints.txt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from torch import nn

from .errors import Problem, quoted

OLDEST = (1, 6)
"""The first supported release, major and minor."""

NEWEST = (1, 6)
"""The last one; later ones may keep plans in another way."""

SUPPORTED = "1.6"
"""The range in words."""


class TorchRecVersionError(ImportError):
    """TorchRec is not installed, or its version is outside the supported range."""


def check_version(version: str | None) -> None:
    """Raises TorchRecVersionError unless the version, None where TorchRec is not
    installed, is in the supported range."""
    install = f"install it with the PyTorch and FBGEMM that belong to it: torchrec=={SUPPORTED}.*"
    if version is None:
        raise TorchRecVersionError(f"TorchRec is not installed\n  hint: {install}")
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None or not OLDEST <= (int(match[1]), int(match[2])) <= NEWEST:
        raise TorchRecVersionError(
            f"TorchRec {version} is not supported, only {SUPPORTED}\n  hint: {install}"
        )


def installed_version() -> str | None:
    """Returns TorchRec's version without importing it, None if it is not installed."""
    for name in ("torchrec", "torchrec-nightly"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


check_version(installed_version())

from torchrec.distributed.comm import get_local_size  # noqa: E402
from torchrec.distributed.embedding_types import ShardedEmbeddingModule  # noqa: E402
from torchrec.distributed.sharding_plan import get_default_sharders, placement  # noqa: E402
from torchrec.distributed.types import (  # noqa: E402
    CacheParams,
    EmbeddingModuleShardingPlan,
    EnumerableShardingSpec,
    ModuleSharder,
    ParameterSharding,
    ShardingEnv,
    ShardingPlan,
    ShardingPlanner,
    ShardMetadata,
)
from torchrec.distributed.utils import get_device_type  # noqa: E402
from torchrec.modules.embedding_configs import DataType, PoolingType  # noqa: E402
from torchrec.modules.embedding_modules import EmbeddingBagCollection  # noqa: E402
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor  # noqa: E402

__all__ = [
    "KeyedJaggedTensor",
    "ModuleSharder",
    "ShardingEnv",
    "ShardingPlan",
    "ShardingPlanner",
    "get_default_sharders",
    "get_device_type",
    "get_local_size",
]

_PRECISIONS = {DataType.FP32: "fp32", DataType.FP16: "fp16", DataType.BF16: "bf16"}

_OPTIMIZERS = {
    # Classes, as apply_optimizer_in_backward leaves them at parameters.
    "SGD": "sgd",
    "RowWiseAdagrad": "rowwise_adagrad",
    "Adagrad": "adagrad",
    "Adam": "adam",
    # FBGEMM's EmbOptimType, as fused_params of sharders name them.
    "EXACT_SGD": "sgd",
    "ROWWISE_ADAGRAD": "rowwise_adagrad",
    "EXACT_ROWWISE_ADAGRAD": "rowwise_adagrad",
    "EXACT_ADAGRAD": "adagrad",
    "ADAM": "adam",
}


@dataclass(frozen=True)
class Table:
    """A table of a collection, in the words of neuroshard's tables.

    ``mean`` says that bags are averaged and not summed. ``optimizer`` is None where
    the parameter does not say; ``precision`` and ``optimizer`` keep TorchRec's word
    where neuroshard has none for it.
    """

    name: str
    rows: int
    dim: int
    features: tuple[str, ...]
    precision: str
    optimizer: str | None
    mean: bool


@dataclass(frozen=True)
class Collected:
    """An EmbeddingBagCollection: its path inside the model ("" for the model
    itself), whether its lookups carry weights, and its tables in order."""

    path: str
    weighted: bool
    tables: tuple[Table, ...]


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
    table that is cached, the share of its rows, where the plan states it."""

    sharding_type: str
    kernel: str
    shards: tuple[Shard, ...]
    cached: float | None = None


def collect(model: nn.Module, ignore: Collection[str]) -> tuple[list[Collected], list[Problem]]:
    """Returns the collections of pooled tables, and what stands in the way.

    Modules are looked at in the model's order. Those that other sharders of
    TorchRec split (sequence embeddings, managed collisions, and the like) are
    problems, unless ``ignore`` has their paths: without a plan TorchRec would leave
    them whole on every rank, in silence.
    """
    shardable = {s.module_type for s in get_default_sharders()} - {EmbeddingBagCollection}
    found: list[Collected] = []
    problems: list[Problem] = []
    unknown = set(ignore)
    done: list[str] = []  # modules that are not looked into
    for path, module in model.named_modules():
        if any(path.startswith(d + ".") or not d for d in done):
            continue
        if path in unknown:
            unknown.remove(path)
            done.append(path)
        elif isinstance(module, ShardedEmbeddingModule):
            done.append(path)
            problems.append(
                Problem(
                    f'module "{path}" is sharded already',
                    "plan before DistributedModelParallel wraps the model",
                )
            )
        elif type(module) is EmbeddingBagCollection:
            done.append(path)
            found.append(_collected(path, module))
        elif type(module) in shardable or isinstance(module, EmbeddingBagCollection):
            done.append(path)
            problems.append(
                Problem(
                    f'module "{path}" is of {type(module).__name__}, which neuroshard cannot plan',
                    f'pass ignore=["{path}"], and add a plan of your own for it',
                )
            )
    for path in sorted(unknown):
        problems.append(Problem(f'ignore: the model has no module "{path}"'))
    if not found and not problems:
        problems.append(
            Problem(
                f"the model, {type(model).__name__}, has no EmbeddingBagCollection",
                "give the model that DistributedModelParallel will wrap",
            )
        )
    return found, problems


def _collected(path: str, module: Any) -> Collected:
    parameters = dict(module.named_parameters())
    tables = []
    for config in module.embedding_bag_configs():
        classes = getattr(
            parameters[f"embedding_bags.{config.name}.weight"], "_optimizer_classes", []
        )
        tables.append(
            Table(
                name=config.name,
                rows=config.num_embeddings,
                dim=config.embedding_dim,
                # TorchRec's own rule where a table states no features.
                features=tuple(config.feature_names or [config.name]),
                precision=_PRECISIONS.get(config.data_type, str(config.data_type)),
                optimizer=_optimizer(classes[0].__name__) if classes else None,
                mean=config.pooling is PoolingType.MEAN,
            )
        )
    return Collected(path, bool(module.is_weighted()), tuple(tables))


def _optimizer(name: str) -> str:
    return _OPTIMIZERS.get(name, name)


def optimizer_of(sharders: Sequence[Any] | None) -> str | None:
    """Returns the optimizer that the sharder of EmbeddingBagCollection fuses into
    the backward, None where its fused_params name none."""
    for sharder in sharders or ():
        if sharder.module_type is EmbeddingBagCollection:
            optimizer = (getattr(sharder, "fused_params", None) or {}).get("optimizer")
            if optimizer is not None:
                return _optimizer(getattr(optimizer, "name", str(optimizer).upper()))
    return None


def lookups(sample: Any) -> tuple[dict[str, int], int]:
    """Returns the lookups of each feature in a sample batch, and its samples."""
    return dict(zip(sample.keys(), sample.length_per_key(), strict=True)), int(sample.stride())


def sharding_plan(
    modules: Mapping[str, Mapping[str, Placement]], device_type: str, local_size: int
) -> Any:
    """Returns TorchRec's ShardingPlan of these placements, by module and table."""
    return ShardingPlan(
        {
            path: EmbeddingModuleShardingPlan(
                {name: _sharding(p, device_type, local_size) for name, p in tables.items()}
            )
            for path, tables in modules.items()
        }
    )


def _sharding(p: Placement, device_type: str, local_size: int) -> Any:
    if not p.shards:
        return ParameterSharding(sharding_type=p.sharding_type, compute_kernel=p.kernel)
    return ParameterSharding(
        sharding_type=p.sharding_type,
        compute_kernel=p.kernel,
        cache_params=None if p.cached is None else CacheParams(load_factor=p.cached),
        ranks=[s.rank for s in p.shards],
        sharding_spec=EnumerableShardingSpec(
            [
                ShardMetadata(
                    shard_offsets=[s.row, s.column],
                    shard_sizes=[s.rows, s.columns],
                    placement=placement(device_type, s.rank, local_size),
                )
                for s in p.shards
            ]
        ),
    )


def unsharded(sharders: Iterable[Any] | None, found: Sequence[Collected]) -> list[Problem]:
    """Returns a problem where no sharder is for the collections: TorchRec would
    leave them whole on every rank, in silence."""
    if sharders is None or any(s.module_type is EmbeddingBagCollection for s in sharders):
        return []
    return [
        Problem(
            f"none of the sharders is for EmbeddingBagCollection: {quoted(c.path for c in found)}",
            "add EmbeddingBagCollectionSharder() to the sharders",
        )
    ]
