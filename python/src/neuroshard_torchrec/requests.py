"""What a TorchRec user asks for, in neuroshard's words: honoured, or refused by name.

``asked``       a sharder's types, kernels, exchanges and fused_params
``of_kernels``  TorchRec's compute kernels as sharding types and memory tiers

constraints.py has what TorchRec's ParameterConstraints ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _modules as modules
from . import _torchrec as torchrec
from .errors import Problem, quote, quoted, shown

Json = dict[str, Any]

_TYPES = {
    "data_parallel": "data_parallel",
    "table_wise": "table_wise",
    "column_wise": "column_wise",
    "row_wise": "row_wise",
    "table_row_wise": "table_row_wise",
    "grid_shard": "grid",
}
"""neuroshard's sharding types, by TorchRec's names."""

HOST_ONLY = "table_column_wise"
"""TorchRec's slices of columns on the devices of one host: column_wise with one_host."""

TIERS = {"fused": "hbm", "fused_uvm": "host", "fused_uvm_caching": "host_cached"}
"""neuroshard's memory tiers, by TorchRec's compute kernels of tables with fused optimizers."""

_DENSE = "dense"
"""The compute kernel of data_parallel tables."""

_SAME = {
    "table_wise": ("column_wise", HOST_ONLY),
    "column_wise": (HOST_ONLY,),
    "table_row_wise": ("grid_shard",),
}
"""TorchRec's other names of sharding types for the same shards: a table in one slice of columns is
whole."""

_ON_DEVICES = ("table_wise", "column_wise")
"""The sharding types whose tables may lie in host memory."""

FORMATS = {"fp32": 4, "fp16": 2, "bf16": 2}
"""The bytes of an exchanged number, by its format."""

_SHARE = (
    "leave it out: cache_load_factor states the share of the rows that is cached, and without it "
    "the plan states one for each table"
)
_STATE = "leave it out: a plan counts the state of the optimizer in fp32 on the device"
_COUNTERS = "leave it out: a plan counts no counters of rows beside the state of the optimizer"
_STREAM = "leave it out: a plan counts no time for rows that are sent away in each step"

REFUSED = {
    "cache_sets": _SHARE,
    "cache_reserved_memory": _SHARE,
    "uvm_non_rowwise_momentum": _STATE,
    "optimizer_state_dtypes": _STATE,
    "counter_based_regularization": _COUNTERS,
    "cowclip_regularization": _COUNTERS,
    "use_experimental_tbe": "leave it out: estimates are of FBGEMM's usual kernels",
    "is_qr_tbe": "leave it out: a plan counts the rows that a table's config states",
    "weights_precision": "leave it out: the data_type of a table's config states its format",
    "enable_raw_embedding_streaming": _STREAM,
    "res_params": _STREAM,
    **dict.fromkeys(torchrec.STREAMS, _STREAM),
    **dict.fromkeys(
        torchrec.KEY_VALUE_FIELDS,
        "leave it out: it is for tables of a key-value store, which neuroshard does not place; "
        "state their ParameterShardings by fixed={...: FixedTable(...)}",
    ),
}
"""The fused_params that change what a step takes in a way that plans do not count, and what to
write instead."""


@dataclass(frozen=True)
class Asked:
    """What a sharder asks for: the sharding types and the memory tiers that tables may have,
    None for any; whether all slices of columns of a table are on one host; the number format of
    the exchanges; and the share of the rows that is cached of tables with a cache."""

    types: tuple[str, ...] | None = None
    one_host: bool = False
    comm_precision: str = "fp32"
    tiers: tuple[str, ...] | None = None
    cache_share: float | None = None
    problems: tuple[Problem, ...] = ()


def widest(asked: Mapping[str, Asked]) -> tuple[str, str]:
    """Returns the widest format of the exchanges of the modules at these paths, which a plan counts
    for all, and a warning, or ""."""
    formats = {a.comm_precision: path for path, a in asked.items()}
    found = max(formats, key=lambda f: FORMATS[f], default="fp32")
    if len(formats) < 2:
        return found, ""
    stated = "; ".join(f"module {quote(path)}: {f}" for f, path in formats.items())
    return found, (
        f"the sharders exchange in different formats ({stated}): the plan counts {found} "
        "for all modules"
    )


def asked(sharder: modules.Sharder | None, kind: str) -> Asked:
    """Returns what the sharder of a kind of module asks for, with a problem for everything
    that neuroshard cannot do."""
    if sharder is None:
        return Asked()
    problems = [*_uncounted(sharder.fused), *_unsharded(sharder.unsharded)]
    types, more = (None, []) if sharder.types is None else sharding_types(sharder.types)
    problems += [Problem(f"sharding_types of the sharder: {p.message}", p.hint) for p in more]
    tiers: tuple[str, ...] | None = None
    if sharder.kernels is not None:
        kernels = sharder.kernels
        if HOST_ONLY in kernels:
            kernels = {"column_wise": kernels[HOST_ONLY], **kernels}
        kept, tiers = of_kernels(lambda t: kernels.get(t, ()), types or every_type())
        if not kept:
            stated = sorted({k for allowed in kernels.values() for k in allowed})
            problems.append(no_kernel("compute_kernels of the sharder", stated))
        types = kept if kept != (types or every_type()) else types
    if sharder.fused.get("enforce_hbm"):
        # FBGEMM then puts all rows of host memory into HBM, beside the cache.
        if tiers is not None and "hbm" not in tiers:
            message = "fused_params of the sharder: enforce_hbm keeps all rows in HBM, and its "
            hint = 'leave one of them out, or add "fused" to the compute_kernels'
            problems.append(Problem(message + "compute_kernels allow host memory only", hint))
        tiers = ("hbm",)
    share = sharder.fused.get("cache_load_factor")
    sequences = modules.KINDS[kind].one_width or kind == "ManagedCollisionEmbeddingCollection"
    precision, more = _comm_precision(sharder.codecs, sequences)
    problems += more
    one_host = sharder.types is not None and on_one_host(sharder.types)
    return Asked(types, one_host, precision, tiers, share, tuple(problems))


def labels(names: Sequence[str] | None) -> dict[str, str]:
    """Returns the names of planned sharding types where TorchRec's list of allowed types has
    another name for the same shards; None allows all types."""
    return {
        planned: next(n for n in others if n in names)
        for planned, others in _SAME.items()
        if names is not None and planned not in names and not set(others).isdisjoint(names)
    }


def every_type() -> tuple[str, ...]:
    """Returns all of neuroshard's sharding types."""
    return tuple(_TYPES.values())


def of_kernels(
    allowed: Callable[[str], Collection[str]], types: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Returns which of neuroshard's sharding types a table may have if only the given compute
    kernels are allowed, by TorchRec's name of the type, and its memory tiers, None for all."""
    kept = []
    tiers: list[str] | None = None
    for theirs, ours in _TYPES.items():
        kernels = allowed(theirs)
        if ours not in types:
            continue
        if ours not in _ON_DEVICES:
            if (_DENSE if ours == "data_parallel" else "fused") in kernels:
                kept.append(ours)
            continue
        own = [tier for kernel, tier in TIERS.items() if kernel in kernels]
        if own and (tiers is None or set(own) & set(tiers)):
            tiers = [t for t in own if tiers is None or t in tiers]
            kept.append(ours)
    if tiers is None or len(tiers) == len(TIERS):
        return tuple(k for k in types if k in kept), None
    if "hbm" not in tiers:  # the other types lie in HBM
        kept = [k for k in kept if k in _ON_DEVICES]
    return tuple(k for k in types if k in kept), tuple(tiers)


def no_kernel(where: str, kernels: Sequence[str]) -> Problem:
    """The problem of compute kernels under which neuroshard places no table."""
    message = f"{where}: {quoted(kernels) or 'none'}: none is for the sharding types allowed"
    hint = f'data_parallel has "{_DENSE}", the others {", ".join(TIERS)}'
    if set(kernels) - {_DENSE, *TIERS}:
        hint += "; state a table with another kernel by fixed={...: FixedTable(...)}"
    return Problem(message, hint)


def exchanged(outputs: Collection[str], codecs: str) -> tuple[str, str]:
    """Returns the number format of the exchanges if the kernels write vectors of these formats
    and the sharders' codecs have the format ``codecs``, and a warning, or "". A codec converts
    what the kernels wrote; without one, TorchRec sends it as it is."""
    if codecs != "fp32" or len(set(outputs)) == 0:
        return codecs, ""
    if len(set(outputs)) == 1:
        return next(iter(outputs)), ""
    stated = ", ".join(sorted(set(outputs)))
    return "fp32", f"output_dtype: tables have {stated}: the plan counts exchanges in fp32"


def on_one_host(names: Sequence[str]) -> bool:
    """Returns whether tables of these sharding types of TorchRec are cut by columns on one host
    only."""
    return HOST_ONLY in names and "column_wise" not in names


def sharding_types(names: Sequence[str]) -> tuple[tuple[str, ...], list[Problem]]:
    """Returns neuroshard's names of these sharding types of TorchRec. Tables of
    table_column_wise are column_wise, ``on_one_host``."""
    unknown = [n for n in names if n not in _TYPES and n != HOST_ONLY]
    known = tuple(dict.fromkeys(_TYPES[n] for n in names if n in _TYPES))
    hint = f"they are {', '.join(_TYPES)}"
    if unknown:
        return known, [Problem(f"{quoted(unknown)} is not known to neuroshard", hint)]
    if on_one_host(names):
        known = (*known, "column_wise")
    if not known:
        return known, [Problem("the list is empty", hint)]
    return known, []


def _uncounted(fused: Mapping[str, Any]) -> list[Problem]:
    return [
        Problem(f"fused_params of the sharder: {name} is not what a plan uses", hint)
        for name, hint in REFUSED.items()
        if fused.get(name) not in (None, False)
    ]


def _unsharded(unsharded: Mapping[str, Sequence[str]]) -> list[Problem]:
    problems = []
    for path, names in unsharded.items():
        message = (
            f'shardable_parameters of the sharder leave out {quoted(names)} of module "{path}"'
        )
        hint = (
            "neuroshard plans collections as a whole: leave the method out, move these tables "
            f'into a module of their own, or pass ignore=["{path}"] and add a plan for it'
        )
        problems.append(Problem(message, hint))
    return problems


def _comm_precision(
    codecs: Mapping[str, Sequence[str]], sequences: bool
) -> tuple[str, list[Problem]]:
    """Returns the number format of the exchanges of pooled vectors, or of those of vectors of
    their own for each lookup, which have one exchange."""
    pooled = {
        op: formats for op, formats in codecs.items() if op.upper().startswith("SEQ") == sequences
    }
    hint = "use FP16 or BF16 in both directions of QCommsConfig, or leave the registry out"
    problems = []
    for op, formats in pooled.items():
        for direction, name in zip(("forward", "backward"), formats, strict=True):
            if name not in FORMATS:
                message = f"qcomm_codecs_registry: {op}: {direction} in {shown(name)}"
                problems.append(Problem(message + ", which neuroshard cannot estimate", hint))
    if problems or not pooled:
        return "fp32", problems
    formats = [f for both in pooled.values() for f in both]
    formats += ["fp32"] if len(pooled) < 2 and not sequences else []  # an exchange without a codec
    if len({FORMATS[f] for f in formats}) > 1:
        stated = "; ".join(f"{op}: {f}, {b}" for op, (f, b) in pooled.items())
        message = f"qcomm_codecs_registry: numbers of 4 and of 2 bytes ({stated})"
        return "fp32", [Problem(message + ", and neuroshard estimates one size", hint)]
    return formats[0], []
