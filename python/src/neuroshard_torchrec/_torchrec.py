"""What is used of TorchRec. _sharded.py has what is used of sharded models, and no other
file of this package imports TorchRec.

TorchRec's modules and plans are not a stable interface, so its version is checked
before anything of it is imported, and with it those of PyTorch and FBGEMM, which each
have one release for a release of TorchRec. ``OLDEST`` and ``NEWEST`` are TorchRec's
range; widen it only together with ``TOGETHER``, with pyproject.toml and with the tests,
which run the pinned versions of constraints.txt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import metadata, util
from inspect import signature
from typing import Any

from torch import nn

from .errors import Problem, quoted

OLDEST = (1, 6)
"""The first supported release, major and minor."""

NEWEST = (1, 6)
"""The last one; later ones may keep plans in another way."""

SUPPORTED = "1.6"
"""The range in words."""

TOGETHER = {"1.6": {"PyTorch": "2.11", "FBGEMM": "1.6"}}
"""The releases of PyTorch and FBGEMM that belong to each release of TorchRec."""

INSTALL = (
    "install what belongs together: "
    'pip install "torch==2.11.*" "fbgemm-gpu==1.6.*" "torchrec==1.6.*"'
)


class TorchRecVersionError(ImportError):
    """TorchRec, PyTorch or FBGEMM is not installed, or its version is not supported."""


def check_versions(
    torchrec: str | None, pytorch: str | None = None, fbgemm: str | None = None
) -> None:
    """Raises TorchRecVersionError unless the version of TorchRec is supported and the other
    two versions belong to it. None means that TorchRec is not installed, or that one of
    the other two versions is not known."""
    if torchrec is None:
        raise TorchRecVersionError(f"TorchRec is not installed\n  hint: {INSTALL}")
    release = _release(torchrec)
    number = tuple(map(int, release.split("."))) if release else ()
    if not OLDEST <= number <= NEWEST:
        raise TorchRecVersionError(
            f"TorchRec {torchrec} is not supported, only {SUPPORTED}\n  hint: {INSTALL}"
        )
    wrong = [
        f"{name} {version} does not belong to TorchRec {torchrec}, {TOGETHER[release][name]} does"
        for name, version in (("PyTorch", pytorch), ("FBGEMM", fbgemm))
        if version is not None and _release(version) != TOGETHER[release][name]
    ]
    if wrong:
        raise TorchRecVersionError(f"{'; '.join(wrong)}\n  hint: {INSTALL}")


def _release(version: str) -> str:
    """Returns major and minor of a version, or "" if the text is not a version."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return f"{match[1]}.{match[2]}" if match else ""


def installed_version(*names: str) -> str | None:
    """Returns the version of the first of these packages that is installed, without
    importing it, None if none is."""
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def _check_installed() -> None:
    fbgemm = installed_version("fbgemm-gpu", "fbgemm-gpu-cpu", "fbgemm-gpu-nightly")
    torchrec = installed_version("torchrec", "torchrec-nightly")
    check_versions(torchrec, installed_version("torch"), fbgemm)
    if fbgemm is None and util.find_spec("fbgemm_gpu") is None:
        raise TorchRecVersionError(f"FBGEMM is not installed\n  hint: {INSTALL}")


_check_installed()

from torchrec.distributed.comm import get_local_size  # noqa: E402
from torchrec.distributed.embedding_types import ShardedEmbeddingModule  # noqa: E402
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder  # noqa: E402
from torchrec.distributed.planner import EmbeddingShardingPlanner  # noqa: E402
from torchrec.distributed.planner.types import ParameterConstraints  # noqa: E402
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
    "EmbeddingBagCollection",
    "KeyedJaggedTensor",
    "ModuleSharder",
    "ParameterConstraints",
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
    where neuroshard has none for it. ``optimizers`` are all optimizers of the parameter
    where it has several. ``virtual`` says that the rows exist only once they are trained.
    ``prefetch`` is the parameter's own prefetch_pipeline, None where it has none.
    """

    name: str
    rows: int
    dim: int
    features: tuple[str, ...]
    precision: str
    optimizer: str | None
    mean: bool
    optimizers: tuple[str, ...] = ()
    virtual: bool = False
    prefetch: bool | None = None


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
    table that is cached, the share of its rows, where the plan states it. ``operator``
    is the number of the operator that the table's shards are in, 0 to OPERATORS - 1."""

    sharding_type: str
    kernel: str
    shards: tuple[Shard, ...]
    cached: float | None = None
    operator: int = 0


def collect(
    model: nn.Module, ignore: Collection[str], sharders: Iterable[Any] | None = None
) -> tuple[list[Collected], list[Problem]]:
    """Returns the collections of pooled tables, and what stands in the way.

    Modules are looked at in the model's order. Those that other sharders of
    TorchRec split (sequence embeddings, managed collisions, and the like), by default
    or among the ``sharders``, are problems, unless ``ignore`` has their paths: without
    a plan TorchRec would leave them whole on every rank, in silence.
    """
    shardable = {s.module_type for s in (*get_default_sharders(), *(sharders or ()))}
    shardable.discard(EmbeddingBagCollection)
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
            found.append(collected(path, module))
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


_PREFETCH = "prefetch_pipeline"
"""The fused parameter that says that the rows of the next batch are copied ahead."""


def collected(path: str, module: Any) -> Collected:
    parameters = dict(module.named_parameters())
    tables = []
    for config in module.embedding_bag_configs():
        weight = parameters[f"embedding_bags.{config.name}.weight"]
        classes = getattr(weight, "_optimizer_classes", [])
        own = (getattr(weight, "_optimizer_kwargs", None) or [{}])[0]
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
                optimizers=tuple(c.__name__ for c in classes) if len(classes) > 1 else (),
                virtual=bool(config.use_virtual_table),
                prefetch=bool(own[_PREFETCH]) if _PREFETCH in own else None,
            )
        )
    return Collected(path, bool(module.is_weighted()), tuple(tables))


def _optimizer(name: str) -> str:
    return _OPTIMIZERS.get(name, name)


@dataclass(frozen=True)
class Sharder:
    """What the sharder of EmbeddingBagCollection says, in TorchRec's words.

    ``fused`` are its fused_params. ``codecs`` are the formats of its exchanges, the
    forward's and the backward's, by exchange. ``types`` are its sharding types, and
    ``kernels`` the compute kernels of each; both None where it does not restrict what
    TorchRec's own sharder allows. ``unsharded`` are the tables, by the collection's path,
    that it leaves out.
    """

    fused: Mapping[str, Any]
    codecs: Mapping[str, tuple[str, str]]
    types: tuple[str, ...] | None
    kernels: Mapping[str, tuple[str, ...]] | None
    unsharded: Mapping[str, tuple[str, ...]]

    @property
    def prefetch(self) -> bool:
        """Whether tables are prefetched whose own parameters do not say."""
        return bool(self.fused.get(_PREFETCH))

    @property
    def optimizer(self) -> str | None:
        """The optimizer that the sharder fuses into the backward, or None if it names none."""
        optimizer = self.fused.get("optimizer")
        if optimizer is None:
            return None
        return _optimizer(getattr(optimizer, "name", str(optimizer).upper()))


def sharder_of(
    sharders: Iterable[Any] | None,
    model: nn.Module,
    found: Sequence[Collected],
    device_type: str,
) -> Sharder | None:
    """Returns what the sharder of EmbeddingBagCollection says, or None without such a
    sharder. If several are given, the last one counts, as in DistributedModelParallel."""
    own = [s for s in sharders or () if s.module_type is EmbeddingBagCollection]
    if not own:
        return None
    sharder = own[-1]
    types = None
    if _overrides(sharder, "sharding_types"):
        types = tuple(str(t) for t in sharder.sharding_types(device_type))
    kernels = None
    if _overrides(sharder, "compute_kernels"):
        every = types or EmbeddingBagCollectionSharder().sharding_types("cuda")
        kernels = {t: tuple(map(str, sharder.compute_kernels(t, device_type))) for t in every}
    unsharded = {}
    for c in found:
        known = sharder.shardable_parameters(model.get_submodule(c.path))
        if left := tuple(t.name for t in c.tables if t.name not in known):
            unsharded[c.path] = left
    codecs = {
        op: (_format(codec.forward), _format(codec.backward))
        for op, codec in (sharder.qcomm_codecs_registry or {}).items()
    }
    fused = getattr(sharder, "fused_params", None) or {}
    return Sharder(fused, codecs, types, kernels, unsharded)


def _overrides(sharder: Any, method: str) -> bool:
    """Returns whether the sharder has a method of its own in the place of TorchRec's."""
    own = getattr(sharder, method)
    return getattr(own, "__func__", own) is not getattr(EmbeddingBagCollectionSharder, method)


def _format(codec: Any) -> str:
    """Returns the number format of a codec: FBGEMM's word, fp32 without a codec,
    and the codec's class where it is not FBGEMM's."""
    if codec is None:
        return "fp32"
    precision = getattr(codec, "_comm_precision", None)
    return str(getattr(precision, "value", type(codec).__name__))


def constraint_fields(constraints: Any) -> dict[str, Any]:
    """Returns the fields of TorchRec's ParameterConstraints that differ from their
    defaults."""
    usual = ParameterConstraints()
    return {
        f.name: getattr(constraints, f.name)
        for f in fields(constraints)
        if getattr(constraints, f.name) != getattr(usual, f.name, None)
    }


def planner_options() -> tuple[str, ...]:
    """Returns the names of the options of TorchRec's own planner, in their order."""
    return tuple(signature(EmbeddingShardingPlanner.__init__).parameters)[1:]


def lookups(sample: Any) -> tuple[dict[str, int], int]:
    """Returns the lookups of each feature in a sample batch, and its samples."""
    return dict(zip(sample.keys(), sample.length_per_key(), strict=True)), int(sample.stride())


def spreads(sample: Any) -> dict[str, float]:
    """Returns, for each feature in a sample batch, the standard deviation of the lengths of
    its bags over their mean, 0 without lookups. All features have batches of one size."""
    lengths = sample.lengths().reshape(len(sample.keys()), -1).double()
    means = lengths.mean(dim=1)
    spread = lengths.std(dim=1, correction=0) / means.where(means > 0, 1)
    return dict(zip(sample.keys(), spread.tolist(), strict=True))


def batches(sample: Any) -> dict[str, int]:
    """Returns the samples of each feature in a sample batch. They are different numbers
    where features have batches of their own."""
    return dict(zip(sample.keys(), sample.stride_per_key(), strict=True))


def sharding_plan(
    modules: Mapping[str, Mapping[str, Placement]], device_type: str, local_size: int
) -> Any:
    """Returns TorchRec's ShardingPlan of these placements, by module and table."""
    return ShardingPlan(
        {
            path: EmbeddingModuleShardingPlan(
                {name: sharding(p, device_type, local_size) for name, p in tables.items()}
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


def sharding(p: Placement, device_type: str, local_size: int) -> Any:
    if not p.shards:
        return ParameterSharding(
            sharding_type=p.sharding_type, compute_kernel=p.kernel, cache_params=_cache_params(p)
        )
    return ParameterSharding(
        sharding_type=p.sharding_type,
        compute_kernel=p.kernel,
        cache_params=_cache_params(p),
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
