"""What a TorchRec user asks for, in neuroshard's words: honoured, or refused by name.

``asked``        a sharder's types, kernels, exchanges and fused_params
``constraints``  TorchRec's ParameterConstraints as the constraints of tables.json
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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

_HOST_ONLY = "table_column_wise"
"""TorchRec's columns on the devices of one host: a part of column_wise."""

_KERNELS = {"data_parallel": "dense"}
"""The compute kernel of tables in the memory of devices, where it is not "fused"."""

_HOST_KERNELS = ("fused_uvm", "fused_uvm_caching")

_FORMATS = {"fp32": 4, "fp16": 2, "bf16": 2}
"""The bytes of an exchanged number, by its format."""

_CACHES = ("cache_load_factor", "cache_sets", "cache_reserved_memory")
"""The fused_params that say how many rows of host memory are cached."""


@dataclass(frozen=True)
class Asked:
    """What a sharder asks for: the sharding types that tables may have, None for any; the
    number format of the exchanges; and whether tables may lie in host memory."""

    types: tuple[str, ...] | None = None
    comm_precision: str = "fp32"
    host_memory: bool = True
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = field(default=())


def asked(sharder: torchrec.Sharder | None) -> Asked:
    """Returns what the sharder of EmbeddingBagCollection asks for, with a problem for
    everything that neuroshard cannot do."""
    if sharder is None:
        return Asked()
    problems = [*_caches(sharder.fused), *_unsharded(sharder.unsharded)]
    types, more = (None, []) if sharder.types is None else sharding_types(sharder.types)
    problems += [Problem(f"sharding_types of the sharder: {p.message}", p.hint) for p in more]
    host_memory = True
    if sharder.kernels is not None:
        host_memory, more = _kernels(sharder.kernels, types)
        problems += more
    precision, more = _comm_precision(sharder.codecs)
    problems += more
    warnings = []
    output = sharder.fused.get("output_dtype")
    if output is not None and getattr(output, "value", output) != "fp32":
        name = getattr(output, "value", output)
        warnings.append(
            f"fused_params: output_dtype {name}: the plan counts pooled vectors of 4 bytes a number"
        )
    return Asked(types, precision, host_memory, tuple(problems), tuple(warnings))


def sharding_types(names: Sequence[str]) -> tuple[tuple[str, ...], list[Problem]]:
    """Returns neuroshard's names of these sharding types of TorchRec."""
    unknown = [n for n in names if n not in _TYPES and n != _HOST_ONLY]
    known = tuple(dict.fromkeys(_TYPES[n] for n in names if n in _TYPES))
    hint = f"they are {', '.join(_TYPES)}"
    if unknown:
        return known, [Problem(f"{quoted(unknown)} is not known to neuroshard", hint)]
    if _HOST_ONLY in names and "column_wise" not in known:
        message = f"neuroshard does not keep all columns of a table on one host, as {_HOST_ONLY}"
        return known, [Problem(message, "add column_wise, or leave it out")]
    if not known:
        return known, [Problem("the list is empty", hint)]
    return known, []


def _caches(fused: Mapping[str, Any]) -> list[Problem]:
    stated = [name for name in _CACHES if fused.get(name) is not None]
    hint = (
        'leave it out: with arguments=["--host-memory", "1TiB"] the plan states for each '
        "table the share of its rows that is cached"
    )
    return [
        Problem(f"fused_params of the sharder: {n} is not what a plan uses", hint) for n in stated
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


def _kernels(
    kernels: Mapping[str, Sequence[str]], types: Sequence[str] | None
) -> tuple[bool, list[Problem]]:
    """Returns whether tables may lie in host memory."""
    problems = []
    host_memory = True
    for name, allowed in kernels.items():
        ours = _TYPES.get(name)
        if ours is None or (types is not None and ours not in types):
            continue
        needed = _KERNELS.get(name, "fused")
        if needed not in allowed:
            problems.append(
                Problem(
                    f'compute_kernels of the sharder: {name} tables have the kernel "{needed}" '
                    f"under neuroshard, and the sharder allows {quoted(allowed) or 'none'}",
                    'leave the method out; arguments=["--host-memory", "1TiB"] lets the plan '
                    "place tables in host memory",
                )
            )
        elif name not in _KERNELS and not all(k in allowed for k in _HOST_KERNELS):
            host_memory = False
    return host_memory, problems


def _comm_precision(codecs: Mapping[str, Sequence[str]]) -> tuple[str, list[Problem]]:
    """Returns the number format of the exchanges of pooled vectors."""
    pooled = {op: formats for op, formats in codecs.items() if not op.upper().startswith("SEQ")}
    hint = "use FP16 or BF16 in both directions of QCommsConfig, or leave the registry out"
    problems = []
    for op, formats in pooled.items():
        for direction, name in zip(("forward", "backward"), formats, strict=True):
            if name not in _FORMATS:
                message = f"qcomm_codecs_registry: {op}: {direction} in {shown(name)}"
                problems.append(Problem(message + ", which neuroshard cannot estimate", hint))
    if problems or not pooled:
        return "fp32", problems
    formats = [f for both in pooled.values() for f in both]
    formats += ["fp32"] if len(pooled) < 2 else []  # an exchange without a codec
    if len({_FORMATS[f] for f in formats}) > 1:
        stated = "; ".join(f"{op}: {f}, {b}" for op, (f, b) in pooled.items())
        message = f"qcomm_codecs_registry: numbers of 4 and of 2 bytes ({stated})"
        return "fp32", [Problem(message + ", and neuroshard estimates one size", hint)]
    return formats[0], []


_IN_PLAN = {
    "enforce_hbm": "it is a field of each ParameterSharding",
    "stochastic_rounding": "it is a field of each ParameterSharding",
    "bounds_check_mode": "it is a field of each ParameterSharding",
    "output_dtype": "it is a field of each ParameterSharding",
}
"""The fields of ParameterConstraints that TorchRec's planner only copies into the plan."""

_REFUSED = {
    "cache_params": 'pass arguments=["--host-memory", "1TiB"]: the plan states the cached share',
    "num_poolings": "multiply the feature's pooling factor: pooling_factors={...}",
    "batch_sizes": "neuroshard plans one batch for all features: pass batch_per_rank=",
    "key_value_params": "neuroshard plans tables in the memory of devices and hosts",
    "use_virtual_table": "neuroshard plans tables in the memory of devices and hosts",
}
"""The fields of ParameterConstraints without a counterpart, with what to write instead."""


@dataclass
class Constraints:
    """ParameterConstraints in neuroshard's words: the constraints of tables.json, the
    pooling factors of the table's features, and whether host memory is allowed."""

    json: Json = field(default_factory=dict)
    factors: tuple[float, ...] = ()
    host_memory: bool = True
    problems: list[Problem] = field(default_factory=list)


def constraints(
    stated: Any, features: Sequence[str], weighted: bool, device_type: str
) -> Constraints:
    """Returns TorchRec's ParameterConstraints of a table in neuroshard's words."""
    found = Constraints()
    for name, value in torchrec.constraint_fields(stated).items():
        if name == "sharding_types":
            types, more = sharding_types([str(t) for t in value])
            found.json["sharding_types"] = list(types)
            found.problems += [Problem(f"sharding_types: {p.message}", p.hint) for p in more]
        elif name == "min_partition":
            found.json["min_width"] = value
        elif name == "compute_kernels":
            _add_kernels(found, [str(k) for k in value])
        elif name == "pooling_factors":
            found.factors = tuple(value)
            _require(
                found, name, len(value) == len(features), f"one for each of {quoted(features)}"
            )
        elif name == "is_weighted":
            _require(found, name, value == weighted, "the collection's is_weighted decides")
        elif name == "feature_names":
            same = sorted(value) == sorted(features)
            _require(found, name, same, f"the table's features are {quoted(features)}")
        elif name == "device_group":
            _require(found, name, value == device_type, f'all tables are on "{device_type}"')
        elif name in _IN_PLAN:
            hint = f"set it after planning: {_IN_PLAN[name]}, plan.plan[PATH][TABLE].{name} = ..."
            found.problems.append(Problem(f"{name} is not for the planner", hint))
        else:
            hint = _REFUSED.get(name, "leave it out")
            found.problems.append(Problem(f"{name} has no counterpart", hint))
    return found


def _add_kernels(found: Constraints, kernels: Sequence[str]) -> None:
    if "fused" not in kernels and "dense" not in kernels:
        hint = 'leave it out; arguments=["--host-memory", "1TiB"] allows host memory'
        message = f"compute_kernels: {quoted(kernels)}: neuroshard chooses where a table lies"
        found.problems.append(Problem(message, hint))
        return
    found.host_memory = all(k in kernels for k in _HOST_KERNELS)
    types = found.json.get("sharding_types")
    if "fused" not in kernels:
        types = [t for t in types or ["data_parallel"] if t == "data_parallel"]
    elif "dense" not in kernels and types:
        types = [t for t in types if t != "data_parallel"]
    if types is not None:
        found.json["sharding_types"] = types
    if types == []:
        message = f"compute_kernels: {quoted(kernels)} are not those of the sharding types"
        found.problems.append(Problem(message, 'data_parallel has "dense", the others "fused"'))


def _require(found: Constraints, name: str, holds: bool, hint: str) -> None:
    if not holds:
        found.problems.append(Problem(f"{name} does not agree with the model", hint))


_OPTIONS = {
    "topology": "pass profile=, world_size=, devices_per_host= and device_type=, and the memory "
    'as arguments=["--memory", "40GiB"]',
    "batch_size": "pass batch_per_rank=",
    "enumerator": 'pass arguments=["--sharding-types", "..."], or constraints=',
    "storage_reservation": 'pass arguments=["--reserve-share", "0.15", "--reserve-fixed", "2GiB"]',
    "proposer": 'leave it out; arguments=["--method", "..."] chooses the search',
    "partitioner": 'leave it out; arguments=["--method", "..."] chooses the search',
    "performance_model": 'pass arguments=["--model", "torchrec"], or the folder of a model',
    "stats": "leave it out: report has the report, and keep= stores the plan",
    "debug": "leave it out: report has the report, and keep= stores the plan",
    "callbacks": "leave it out, and change plan.plan after planning",
    "timeout_seconds": "pass timeout=",
    "plan_loader": "pass keep=, and load_plan of the plan.json that it stores",
    "heuristical_storage_reservation_percentage": 'pass arguments=["--reserve-share", "0.15"]',
}
"""The options of TorchRec's planner without a counterpart, with what to write instead."""


def other_options(
    positional: Iterable[Any], named: Iterable[str], own: Sequence[str]
) -> list[Problem]:
    """Returns a problem for each option that NeuroShardPlanner does not have: arguments
    without a name, as TorchRec's planner takes them, and names; ``own`` are its options."""
    theirs = torchrec.planner_options()
    problems = []
    for i, value in enumerate(positional):
        name = theirs[i] if i < len(theirs) else "none of its options"
        hint = _OPTIONS.get(name, "pass options by name")
        message = f"argument {i + 1}, of type {type(value).__name__}, has no name"
        problems.append(Problem(message, f"TorchRec's planner takes it as {name}: {hint}"))
    for name in named:
        hint = _OPTIONS.get(name) or f"the options are {', '.join(own)}"
        what = "an option of TorchRec's planner, and not" if name in _OPTIONS else "not an option"
        problems.append(Problem(f"{quote(name)} is {what} of NeuroShardPlanner", hint))
    return problems
