"""The modules that TorchRec shards, and what their sharders say.

Each kind of module is described once, in KINDS: its class, where its tables are, and how
TorchRec splits them. A new kind is one more entry there.

    model    -> its modules of these kinds, with their tables   collect
    sharders -> what they say, in TorchRec's words              sharder_of

_torchrec.py lists the files that import TorchRec.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from ._torchrec import get_default_sharders
from .errors import Problem, quote, quoted

# After _torchrec, which checks the versions.
from torchrec.distributed.embedding import (  # isort: skip
    EmbeddingCollectionSharder,
    get_ec_index_dedup,
)
from torchrec.distributed.embedding_types import ShardedEmbeddingModule  # isort: skip
from torchrec.distributed.embeddingbag import (  # isort: skip
    EmbeddingBagCollectionSharder,
    EmbeddingBagSharder,
)
from torchrec.distributed.fp_embeddingbag import (  # isort: skip
    FeatureProcessedEmbeddingBagCollectionSharder,
)
from torchrec.distributed.fused_embeddingbag import (  # isort: skip
    FusedEmbeddingBagCollectionSharder,
)
from torchrec.distributed.mc_embedding import (  # isort: skip
    ManagedCollisionEmbeddingCollectionSharder,
)
from torchrec.distributed.mc_embeddingbag import (  # isort: skip
    ManagedCollisionEmbeddingBagCollectionSharder,
)
from torchrec.modules.embedding_configs import DataType, PoolingType  # isort: skip
from torchrec.modules.fused_embedding_modules import FusedEmbeddingCollection  # isort: skip
from torchrec.modules.itep_embedding_modules import (  # isort: skip
    ITEPEmbeddingBagCollection,
    ITEPEmbeddingCollection,
)

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

SUM, MEAN, NONE = "sum", "mean", "none"
"""How the vectors of a bag are pooled. With NONE each lookup gives a vector of its own, as in
an EmbeddingCollection."""

_POOLINGS = {PoolingType.SUM: SUM, PoolingType.MEAN: MEAN, PoolingType.NONE: NONE}

_BY_ROWS = ("row_wise", "table_row_wise", "grid_shard")

ALL_TYPES = ("data_parallel", "table_wise", "column_wise", "table_column_wise", *_BY_ROWS)
"""The sharding types of an EmbeddingBagCollection, by TorchRec's names."""


@dataclass(frozen=True)
class IdMap:
    """The bytes of the map from ids to rows that a table of managed collisions has on a rank:
    ``row`` for each row of the rank, ``fixed`` on every rank, and ``id`` for each id that the
    rank gets in the first batch, by which TorchRec sizes the history of ids."""

    row: int
    fixed: int
    id: float = 0.0

    def size(self, rows: int, ids: float) -> int:
        """Returns the bytes on a rank with these rows and ids."""
        return self.row * rows + self.fixed + int(self.id * ids)


@dataclass(frozen=True)
class Table:
    """A table of a collection, in the words of neuroshard's tables.

    ``pooling`` is SUM, MEAN or NONE. ``optimizer`` is None where the parameter does not say;
    ``precision`` and ``optimizer`` keep TorchRec's word where neuroshard has none for it.
    ``optimizers`` are all optimizers of the parameter where it has several. ``virtual`` says
    that the rows exist only once they are trained, ``stashed`` that its weights leave the device in
    each step, and ``updated`` that the script writes to its rows, by an operator of their own.
    ``prefetch`` is the parameter's own
    prefetch_pipeline, None where it has none. ``types`` are the sharding types that TorchRec
    runs, by its names. ``buckets`` is the number of equal blocks of rows that no rank's rows
    may cut, 0 for any rows. ``id_map`` is its map from ids to rows, None without one.
    """

    name: str
    rows: int
    dim: int
    features: tuple[str, ...]
    precision: str
    optimizer: str | None
    pooling: str = SUM
    optimizers: tuple[str, ...] = ()
    virtual: bool = False
    stashed: bool = False
    updated: bool = False
    prefetch: bool | None = None
    types: tuple[str, ...] = ALL_TYPES
    buckets: int = 0
    id_map: IdMap | None = None

    @property
    def mean(self) -> bool:
        """Whether bags are averaged and not summed."""
        return self.pooling == MEAN


@dataclass(frozen=True)
class Collected:
    """A module with tables: its path inside the model ("" for the model itself), whether its
    lookups carry weights, its tables in order, and the name of its kind in KINDS. ``fixed`` are the
    names of further tables of it, which neuroshard does not place."""

    path: str
    weighted: bool
    tables: tuple[Table, ...]
    kind: str = "EmbeddingBagCollection"
    fixed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """A kind of module that TorchRec shards.

    ``sharder`` is TorchRec's own sharder class, and ``module`` the class that it is for.
    ``collected`` returns the module at a path with its tables. ``problems`` returns why a
    module at a path cannot be planned. ``inner`` is the attribute that holds the collection
    with the tables, "" for the module itself. ``types`` are the sharding types that TorchRec
    runs, and ``gpu_only`` those among them that it runs on GPUs only. ``whole`` is the
    sharding type of a whole table on one rank. ``one_width`` says that all slices of columns
    in a module must be of one width. ``inside`` says that TorchRec shards the inner
    collection if the sharders have none for the module.
    """

    module: type[nn.Module]
    sharder: type[Any]
    collected: Callable[[str, Any, Kind], Collected]
    problems: Callable[[str, Any], list[Problem]]
    inner: str = ""
    types: tuple[str, ...] = ALL_TYPES
    gpu_only: tuple[str, ...] = ()
    whole: str = "table_wise"
    one_width: bool = False
    inside: bool = False

    @property
    def name(self) -> str:
        """The name of the module's class."""
        return self.module.__name__

    def tables_of(self, module: Any) -> Any:
        """Returns the collection that holds the tables of a module."""
        return getattr(module, self.inner) if self.inner else module


# How each kind keeps its tables.

_PREFETCH = "prefetch_pipeline"
"""The fused parameter that says that the rows of the next batch are copied ahead."""


def _pooled(path: str, module: Any, kind: Kind) -> Collected:
    """Returns an EmbeddingBagCollection, or a module around one."""
    inner = kind.tables_of(module)
    tables = _configured(inner.embedding_bag_configs(), "embedding_bags", inner, kind)
    return Collected(path, bool(inner.is_weighted()), tables, kind.name)


def _processed(path: str, module: Any, kind: Kind) -> Collected:
    """Returns a collection whose features are processed after they were sent to the ranks of
    their tables."""
    found = _pooled(path, module, kind)
    # TorchRec divides means of tables that are split by rows by the weights that came with
    # the features, before a processor replaces them.
    by_columns = tuple(t for t in kind.types if t not in _BY_ROWS)
    tables = tuple(replace(t, types=by_columns) if t.mean else t for t in found.tables)
    return replace(found, tables=tables)


def _sequence(path: str, module: Any, kind: Kind) -> Collected:
    """Returns an EmbeddingCollection, or a module around one."""
    inner = kind.tables_of(module)
    tables = _configured(inner.embedding_configs(), "embeddings", inner, kind)
    return Collected(path, False, tables, kind.name)


def _managed(path: str, module: Any, kind: Kind) -> Collected:
    """Returns a collection whose ids are mapped to rows by a module of their table."""
    inner = kind.tables_of(module)
    pooled = hasattr(inner, "embedding_bag_configs")
    found = (_pooled if pooled else _sequence)(path, module, kind)
    modules = module._managed_collision_collection._managed_collision_modules
    tables = tuple(
        # A module that hashes is made for blocks of rows; others take any range of rows.
        replace(t, id_map=_id_map(m), buckets=m.buckets() if hasattr(m, "_max_probe") else 0)
        for t, m in ((t, modules[t.name]) for t in found.tables)
    )
    return replace(found, tables=tables)


_HISTORY = 1.25
"""TorchRec's history of ids has room for this multiple of the ids of the first batch, times the
steps between two evictions (MCHManagedCollisionModule._init_history_buffers)."""


def _id_map(module: Any) -> IdMap:
    """Returns the bytes of a module that maps ids to rows, by its own tensors."""
    tensors = dict(module.named_buffers()) | dict(module.named_parameters())
    sizes = {n: t.numel() * t.element_size() for n, t in tensors.items()}
    of_rows = [n for n, t in tensors.items() if t.dim() and len(t) == module._zch_size]
    row = sum(sizes[n] for n in of_rows) // module._zch_size
    fixed = sum(size for n, size in sizes.items() if n not in of_rows)
    if not hasattr(module, "_eviction_interval"):
        return IdMap(row, fixed)
    kept = sum(info.is_history_metadata for info in module._eviction_policy.metadata_info)
    return IdMap(row, fixed, 8 * (1 + kept) * _HISTORY * module._eviction_interval)


def _fused(path: str, module: Any, kind: Kind) -> Collected:
    """Returns a collection that has its optimizer itself."""
    optimizer = optimizer_word(module.optimizer_type().__name__)
    found = _pooled(path, module, kind)
    tables = tuple(replace(t, optimizer=optimizer, optimizers=()) for t in found.tables)
    return replace(found, tables=tables)


def _bag(path: str, module: Any, kind: Kind) -> Collected:
    """Returns an nn.EmbeddingBag: one table, whose feature has the module's path."""
    own = str(module.weight.dtype).removeprefix("torch.")
    precision = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}.get(own, own)
    table = Table(
        name="weight",
        rows=module.num_embeddings,
        dim=module.embedding_dim,
        features=(path or "weight",),
        precision=precision,
        optimizer=None,
        types=kind.types,
    )
    # TorchRec gives lookups without weights the weight 1.
    return Collected(path, True, (table,), kind.name)


def _configured(configs: Iterable[Any], prefix: str, module: Any, kind: Kind) -> tuple[Table, ...]:
    parameters = dict(module.named_parameters())
    tables = []
    for config in configs:
        weight = parameters[f"{prefix}.{config.name}.weight"]
        classes = getattr(weight, "_optimizer_classes", [])
        own = (getattr(weight, "_optimizer_kwargs", None) or [{}])[0]
        pooling = getattr(config, "pooling", PoolingType.NONE)
        tables.append(
            Table(
                name=config.name,
                rows=config.num_embeddings,
                dim=config.embedding_dim,
                # TorchRec's own rule where a table states no features.
                features=tuple(config.feature_names or [config.name]),
                precision=_PRECISIONS.get(config.data_type, str(config.data_type)),
                optimizer=optimizer_word(classes[0].__name__) if classes else None,
                pooling=_POOLINGS[pooling],
                optimizers=tuple(c.__name__ for c in classes) if len(classes) > 1 else (),
                virtual=bool(config.use_virtual_table),
                stashed=bool(getattr(config, "stash_weights", False)),  # since TorchRec 1.9
                updated=bool(config.enable_embedding_update),
                prefetch=bool(own[_PREFETCH]) if _PREFETCH in own else None,
                types=kind.types,
            )
        )
    return tuple(tables)


def optimizer_word(name: str) -> str:
    """Returns neuroshard's word for an optimizer of PyTorch or FBGEMM, or the name itself."""
    return _OPTIMIZERS.get(name, name)


# What cannot be planned.


def _nothing(path: str, module: Any) -> list[Problem]:
    return []


def _bag_problems(path: str, module: Any) -> list[Problem]:
    problems = []
    where = f"module {quote(path)}, an nn.EmbeddingBag, "
    if module.mode != "sum":
        hint = "use an EmbeddingBagCollection, which takes means, too"
        problems.append(Problem(f'{where}has the mode "{module.mode}": TorchRec sums', hint))
    if not module.include_last_offset:
        message = "has no include_last_offset: TorchRec would lose the last bag of a batch"
        hint = "make it with include_last_offset=True, and give it one more offset"
        problems.append(Problem(where + message, hint))
    if hasattr(module.weight, "_optimizer_classes"):
        message = "has an optimizer at its parameter, which EmbeddingBagSharder does not take over"
        hint = "name it to the sharder: EmbeddingBagSharder(fused_params={'optimizer': ...})"
        problems.append(Problem(where + message, hint))
    return problems


def _managed_problems(path: str, module: Any) -> list[Problem]:
    inner = module._embedding_module
    pooled = hasattr(inner, "embedding_bag_configs")
    configs = inner.embedding_bag_configs() if pooled else inner.embedding_configs()
    features = [f for c in configs for f in c.feature_names or [c.name]]
    if twice := [f for f in dict.fromkeys(features) if features.count(f) > 1]:
        message = f"module {quote(path)}: several tables look up {quoted(twice)}, which TorchRec"
        hint = "give each table a feature of its own"
        return [Problem(f"{message} does not run with managed collisions", hint)]
    return []


KINDS = {
    k.name: k
    for k in (
        Kind(
            module=EmbeddingBagCollectionSharder().module_type,
            sharder=EmbeddingBagCollectionSharder,
            collected=_pooled,
            problems=_nothing,
        ),
        Kind(
            module=FusedEmbeddingBagCollectionSharder().module_type,
            sharder=FusedEmbeddingBagCollectionSharder,
            collected=_fused,
            problems=_nothing,
            types=tuple(t for t in ALL_TYPES if t != "grid_shard"),
            # TorchRec makes a DistributedDataParallel that takes no CPU for it.
            gpu_only=("data_parallel",),
        ),
        Kind(
            module=FeatureProcessedEmbeddingBagCollectionSharder().module_type,
            sharder=FeatureProcessedEmbeddingBagCollectionSharder,
            collected=_processed,
            problems=_nothing,
            inner="_embedding_bag_collection",
            inside=True,
        ),
        Kind(
            module=EmbeddingCollectionSharder().module_type,
            sharder=EmbeddingCollectionSharder,
            collected=_sequence,
            problems=_nothing,
            types=("data_parallel", "table_wise", "column_wise", "row_wise"),
            # FBGEMM's kernel for it sums what it looks up on a CPU.
            gpu_only=("data_parallel",),
            one_width=True,
        ),
        Kind(
            module=ManagedCollisionEmbeddingBagCollectionSharder().module_type,
            sharder=ManagedCollisionEmbeddingBagCollectionSharder,
            collected=_managed,
            problems=_managed_problems,
            inner="_embedding_module",
            types=("row_wise",),
        ),
        Kind(
            module=ManagedCollisionEmbeddingCollectionSharder().module_type,
            sharder=ManagedCollisionEmbeddingCollectionSharder,
            collected=_managed,
            problems=_managed_problems,
            inner="_embedding_module",
            types=("row_wise",),
        ),
        Kind(
            module=EmbeddingBagSharder().module_type,
            sharder=EmbeddingBagSharder,
            collected=_bag,
            problems=_bag_problems,
            # TorchRec sends the one feature to one slice of columns only.
            types=("data_parallel", "table_wise", "row_wise"),
            # It refuses table_wise; one slice with all columns is the same.
            whole="column_wise",
        ),
    )
}
"""The kinds of modules that are planned, by the names of their classes."""

_ALWAYS = (
    ITEPEmbeddingBagCollection,
    ITEPEmbeddingCollection,
    FusedEmbeddingCollection,
)
"""Modules that are not planned, whatever the sharders are: without their sharders TorchRec
would shard what is inside and leave the rest out of step, or leave them whole."""

_ITEP = (
    "its rows are pruned in training, by kernels that exist for GPUs only, and no plan for it "
    "was ever trained"
)
_TOWER = (
    "TorchRec keeps all tables of a tower and what interacts with them on one host, by process "
    "groups that exist for GPUs only"
)
_QUANT = "it is quantised for inference, and neuroshard plans the steps of training"
_AHEAD = (
    "it sends the vectors ahead that two batches in a row look up, and neither the times nor the "
    "memory of a plan count this"
)
_FUSED_SEQUENCE = "TorchRec's sharder for it fails: it asks the module for use_gather_select"
_OWN_PLAN = 'pass ignore=["{path}"], and add a plan of your own for it'
_NO_TOWER = (
    "leave its sharder out: the collection inside is then planned as any other, on all hosts"
)

_REASONS = {
    "ITEPEmbeddingBagCollection": (_ITEP, _OWN_PLAN),
    "ITEPEmbeddingCollection": (_ITEP, _OWN_PLAN),
    "FusedEmbeddingCollection": (
        _FUSED_SEQUENCE,
        "use an EmbeddingCollection, and name the optimizer in the sharder's fused_params",
    ),
    "PECEmbeddingCollection": (_AHEAD, _OWN_PLAN),  # since 1.9
    "EmbeddingTower": (_TOWER, _NO_TOWER),
    "EmbeddingTowerCollection": (_TOWER, _NO_TOWER),
    "QuantEmbeddingBagCollection": (_QUANT, _OWN_PLAN),
    "QuantEmbeddingCollection": (_QUANT, _OWN_PLAN),
    "QuantFeatureProcessedEmbeddingBagCollection": (_QUANT, _OWN_PLAN),
    "QuantManagedCollisionEmbeddingCollection": (_QUANT, _OWN_PLAN),
    "QuantManagedCollisionEmbeddingBagCollection": (_QUANT, _OWN_PLAN),
}
"""Why modules cannot be planned, and what to do about it, by the names of their classes."""


def _refused(path: str, module: nn.Module) -> Problem:
    name = type(module).__name__
    if type(module).__module__.startswith("torchrec.quant"):
        name = "Quant" + name.removeprefix("Quant")
    why, hint = _REASONS.get(name, ("", _OWN_PLAN))
    message = f'module "{path}" is of {type(module).__name__}, which neuroshard cannot plan'
    return Problem(f"{message}: {why}" if why else message, hint.format(path=path))


# Modules of a model.


def collect(
    model: nn.Module, ignore: Collection[str], sharders: Iterable[Any] | None = None
) -> tuple[list[Collected], list[Problem]]:
    """Returns the modules with tables, and what stands in the way.

    Modules are looked at in the model's order. ``sharders`` are those that
    DistributedModelParallel gets; left out, TorchRec's default ones. What one of them
    splits and neuroshard cannot plan is a problem, unless ``ignore`` has its path:
    without a plan TorchRec would leave it whole on every rank, in silence.
    """
    walk = _Walk(set(ignore), None if sharders is None else list(sharders))
    for path, module in model.named_modules():
        walk.visit(path, module)
    problems = [*walk.problems, *walk.left_out()]
    for path in sorted(walk.unknown):
        problems.append(Problem(f'ignore: the model has no module "{path}"'))
    if not walk.found and not problems:
        problems.append(
            Problem(
                f"the model, {type(model).__name__}, has no EmbeddingBagCollection, nor any other "
                "module that neuroshard plans",
                "give the model that DistributedModelParallel will wrap",
            )
        )
    return walk.found, problems


def running_on(device_type: str, found: Iterable[Collected]) -> list[Collected]:
    """Returns the modules with the sharding types that TorchRec runs on devices of a type."""

    def run(t: Table, kind: Kind) -> Table:
        left_out = kind.gpu_only if device_type == "cpu" else ()
        return replace(t, types=tuple(name for name in t.types if name not in left_out))

    return [replace(c, tables=tuple(run(t, KINDS[c.kind]) for t in c.tables)) for c in found]


class _Walk:
    """The walk through a model's modules, from the outside in."""

    def __init__(self, ignored: set[str], sharders: list[Any] | None) -> None:
        self.found: list[Collected] = []
        self.problems: list[Problem] = []
        self.unknown = ignored
        self._given = None if sharders is None else {s.module_type for s in sharders}
        self._known = {s.module_type for s in get_default_sharders()} | (self._given or set())
        self._unsharded: dict[str, list[str]] = {}  # paths by class, without a sharder
        self._done: list[str] = []  # modules that are not looked into

    def visit(self, path: str, module: nn.Module) -> None:
        """Looks at a module; modules come in the model's order."""
        if any(path.startswith(d + ".") or not d for d in self._done):
            return
        if path in self.unknown:
            self.unknown.remove(path)
            self._done.append(path)
        elif isinstance(module, ShardedEmbeddingModule):
            self._done.append(path)
            message = f'module "{path}" is sharded already'
            hint = "plan before DistributedModelParallel wraps the model"
            self.problems.append(Problem(message, hint))
        elif (kind := _kind_of(module)) is not None:
            self._planned(path, module, kind)
        elif type(module) in self._known or isinstance(module, _ALWAYS):
            self._done.append(path)
            self.problems.append(_refused(path, module))

    def _planned(self, path: str, module: nn.Module, kind: Kind) -> None:
        own = type(module) in (self._given if self._given is not None else self._known)
        if not own and (kind.inside or kind.module is nn.EmbeddingBag):
            return  # TorchRec looks inside, or leaves it to the data parallel part
        self._done.append(path)
        if not own:
            if type(module) is not kind.module:
                self.problems.append(_subclass(path, module, kind))
                return
            self._unsharded.setdefault(kind.name, []).append(path)
        self.problems += kind.problems(path, module)
        self.found.append(kind.collected(path, module, kind))

    def left_out(self) -> list[Problem]:
        """Returns a problem for each kind without a sharder: TorchRec would leave its
        modules whole on every rank, in silence."""
        return [
            Problem(
                f"none of the sharders is for {name}: {quoted(paths)}",
                f"add {KINDS[name].sharder.__name__}() to the sharders",
            )
            for name, paths in self._unsharded.items()
        ]


def _kind_of(module: nn.Module) -> Kind | None:
    """Returns the kind of a module, that of the nearest class for a subclass."""
    if isinstance(module, _ALWAYS):
        return None
    for base in type(module).__mro__:
        kind = KINDS.get(base.__name__)
        if kind is not None and kind.module is base:
            return kind
    return None


def _subclass(path: str, module: nn.Module, kind: Kind) -> Problem:
    name = type(module).__name__
    return Problem(
        f'module "{path}" is of {name}, a subclass of {kind.name} that no sharder is for: '
        "neuroshard cannot plan it",
        f"add a subclass of {kind.sharder.__name__} to the sharders whose module_type is {name}, "
        f'or pass ignore=["{path}"]',
    )


# Sharders.


@dataclass(frozen=True)
class Sharder:
    """What the sharder of a kind of module says, in TorchRec's words.

    ``fused`` are its fused_params. ``codecs`` are the formats of its exchanges, the
    forward's and the backward's, by exchange. ``types`` are its sharding types, and
    ``kernels`` the compute kernels of each; both None where it does not restrict what
    TorchRec's own sharder allows. ``unsharded`` are the tables, by the module's path,
    that it leaves out. ``index_dedup`` says that each rank sends an index of its batch once.
    """

    fused: Mapping[str, Any]
    codecs: Mapping[str, tuple[str, str]]
    types: tuple[str, ...] | None
    kernels: Mapping[str, tuple[str, ...]] | None
    unsharded: Mapping[str, tuple[str, ...]]
    index_dedup: bool = False

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
        return optimizer_word(getattr(optimizer, "name", str(optimizer).upper()))


def sharder_of(
    sharders: Iterable[Any] | None, model: nn.Module, collected: Collected, device_type: str
) -> Sharder | None:
    """Returns what the sharder of a module says, or None without such a sharder. If several
    are given, the last one counts, as in DistributedModelParallel."""
    module = model.get_submodule(collected.path)
    own = [s for s in sharders or () if s.module_type is type(module)]
    if not own:
        return None
    sharder = own[-1]
    kind = KINDS[collected.kind]
    # A sharder of a module around a collection has another one for the collection.
    inner: Any = next((s for n in _INNER if (s := getattr(sharder, n, None)) is not None), None)
    usual = [u for u in _COLLECTIONS if isinstance(inner, u)]
    pairs = [(sharder, kind.sharder), *((inner, u) for u in usual)]
    types: tuple[str, ...] | None = None
    for s, base in pairs:
        if _overrides(s, base, "sharding_types"):
            stated = tuple(str(t) for t in s.sharding_types(device_type))
            types = stated if types is None else tuple(t for t in types if t in stated)
    every = types or kind.types
    kernels: dict[str, tuple[str, ...]] | None = None
    for s, base in pairs:
        if _overrides(s, base, "compute_kernels"):
            of = {t: tuple(map(str, s.compute_kernels(t, device_type))) for t in every}
            kernels = {t: tuple(k for k in of[t] if kernels is None or k in kernels[t]) for t in of}
    known = sharder.shardable_parameters(module)
    left = tuple(t.name for t in collected.tables if t.name not in known)
    codecs = {
        op: (_format(codec.forward), _format(codec.backward))
        # The exchanges are those of the collection's own sharder.
        for op, codec in ((inner or sharder).qcomm_codecs_registry or {}).items()
    }
    fused = getattr(sharder, "fused_params", None) or {}
    unsharded = {collected.path: left} if left else {}
    return Sharder(fused, codecs, types, kernels, unsharded, _index_dedup(sharder))


def _index_dedup(sharder: Any) -> bool:
    """Returns whether modules of the sharder deduplicate their indices. An EmbeddingCollection
    also does so if TorchRec's older setting for the whole process says so; one with managed
    collisions looks only at the sharder inside its own."""
    if isinstance(sharder, EmbeddingCollectionSharder):
        return sharder._use_index_dedup or get_ec_index_dedup()
    return getattr(getattr(sharder, "_e_sharder", None), "_use_index_dedup", False)


_INNER = ("_ebc_sharder", "_e_sharder")
"""The attributes of sharders that have the sharder of the collection inside of their module."""


_COLLECTIONS = (EmbeddingBagCollectionSharder, EmbeddingCollectionSharder)
"""TorchRec's own sharders of collections."""


def _overrides(sharder: Any, base: type[Any], method: str) -> bool:
    """Returns whether the sharder has a method of its own in the place of TorchRec's."""
    own = getattr(sharder, method)
    return getattr(own, "__func__", own) is not getattr(base, method)


def _format(codec: Any) -> str:
    """Returns the number format of a codec: FBGEMM's word, fp32 without a codec,
    and the codec's class where it is not FBGEMM's."""
    if codec is None:
        return "fp32"
    precision = getattr(codec, "_comm_precision", None)
    return str(getattr(precision, "value", type(codec).__name__))
