"""The flags of ``neuroshard plan`` that NeuroShardPlanner adds, and its options that contradict
each other."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from . import service
from .errors import InputError, Problem, quote, shown
from .groups import AUTO

log = logging.getLogger("neuroshard")

Json = dict[str, Any]

SHARE = 0.15
"""The share of memory that is reserved by default, as in TorchRec."""

SHARDING_TYPES = ("table_wise", "column_wise")
"""The sharding types of plans with a profile if ``arguments`` name none. The optimizer that is
fused into the backward trains tables of these types, pooled by sums or by means. Replicated
tables need an optimizer of the script, and tables of means can be cut by rows in some
plans only. Plans without a profile have all types that TorchRec's planner uses."""

ROWS = ("row_wise", "table_row_wise")
"""The sharding types of blocks of rows with all columns."""


def reserved(arguments: Sequence[str], map_bytes: int) -> int:
    """Returns the bytes of each device that are kept free for maps from ids to rows: 0 if
    the arguments state the bytes to keep free, or have the program count them."""
    for flag in ("reserve_fixed", "dense"):
        if map_bytes and stated(arguments, flag):
            log.warning(
                "with %s, the %d bytes that the maps from ids to rows of managed collisions take "
                "on each device are not kept free: have reserve_fixed hold them, too",
                *(flag, map_bytes),
            )
            return 0
    return map_bytes


def stated(arguments: Sequence[str], name: str) -> bool:
    """Returns whether arguments state a flag, such as ``--types``, or a key, such as ``dense``."""
    return any(found == name for found, _ in service.words(arguments))


def value(arguments: Sequence[str], name: str) -> str:
    """Returns the value of a flag or a key, "" if it is not among the arguments."""
    return next((text for found, text in service.words(arguments) if found == name), "")


def _place(sharding_type: str) -> tuple[int, str]:
    """Returns the place of a sharding type in arguments: the default ones first."""
    known = sharding_type in SHARDING_TYPES
    return (SHARDING_TYPES.index(sharding_type) if known else len(SHARDING_TYPES), sharding_type)


def default_types(tables: Sequence[Json], preferred: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns the arguments for the sharding types if none names any: those that some
    table may have, by its constraints or by default. Tables whose constraints name none get
    their ``preferred`` ones as theirs, unless these are all that there are."""
    limits = [t.get("constraints", {}).get("sharding_types") for t in tables]
    # All tables of a collection are cut by rows if a table of means there must be.
    cut = {
        t.get("module", "")
        for t, own in zip(tables, limits, strict=True)
        if t.get("pooling") == "mean" and isinstance(own, list) and set(own) <= set(ROWS)
    }
    usual = [
        [*dict.fromkeys((*preferred[t["name"]], *(ROWS if t.get("module", "") in cut else ())))]
        for t in tables
    ]
    both = list(zip(limits, usual, strict=True))
    lists = [own if isinstance(own, list) else u for own, u in both]
    types = sorted({k for own in lists for k in own if isinstance(k, str)}, key=_place)
    for t, own, u in zip(tables, limits, usual, strict=True):
        if own is None and not set(types) <= set(u):
            t["constraints"] = {**t.get("constraints", {}), "sharding_types": [*u]}
    fused = [own is None and "grid" in u and "data_parallel" not in u for own, u in both]
    if any(fused):
        log.warning(
            "%d tables are not replicated, because TorchRec fuses no optimizer into the backward "
            "of replicas and the script fuses one into theirs; a plan of TorchRec's planner, which "
            'replicates them, may cost less: arguments=["--types", "all"] allows that',
            sum(fused),
        )
    return ["--types", ",".join(types)]


def host_memory(tables: Sequence[Json]) -> bool:
    """Returns whether any table may lie in the memory of hosts, by its constraints."""
    tiers = [t.get("constraints", {}).get("tiers") for t in tables]
    return any(not isinstance(own, list) or set(own) != {"hbm"} for own in tiers)


def comm_precision(arguments: Sequence[str], precision: str) -> list[str]:
    """Returns the arguments for the number format of a sharder's exchanges. InputError if
    the arguments name another."""
    key = "comm_precision"
    if precision == "fp32":
        return []
    if not stated(arguments, key):
        return ["--set", f"{key}={precision}"]
    if (theirs := value(arguments, key)) != precision:
        message = f"arguments: {key} {quote(theirs)}, and the sharder's "
        message += f"qcomm_codecs_registry exchanges {precision}"
        raise InputError([Problem(message, f"leave {key} out")])
    return []


_OPTIONS_OF = {
    "pipeline": "pass pipeline=",
    "--from": "pass from_plan=",
    "--max-bytes": "pass max_bytes=",
    "replicas": "pass sharding_group_size=",
    "sync_every": "pass sync_every=",
    "inter_host_allreduce": "pass use_inter_host_allreduce=",
    "--output": "leave it out: pass keep= for the plan's file, and see report for the report",
    "--json": "leave it out: pass keep= for the plan's file, and see report for the report",
}
"""What to write in the place of arguments of the program that only the planner passes."""


_NEEDS = {
    "use_inter_host_allreduce": "sharding_group_size",
    "sync_every": "sharding_group_size",
    "max_bytes": "from_plan",
    "token": "url",
    "token_file": "url",
    "name": "url",
}
"""Options that are for another one."""

_APART = (
    ("timeout_seconds", "url", "the service bounds no search by time"),
    ("timeout_seconds", "from_plan", "a search from an old plan ends by itself"),
    ("binary", "url", "the service plans in place of the program"),
    ("torchrec_baseline", "url", "the service compares with no plan of TorchRec"),
    ("torchrec_baseline", "max_bytes", "the report of a re-plan has no baselines"),
    ("torchrec_baseline", "plan_loader", "a plan that is loaded has no report"),
    ("torchrec_baseline", "fixed", "TorchRec's planner would place the fixed tables, too"),
    ("sharding_group_size", "enumerator", "it is made for all ranks, and groups have their own"),
)
"""Pairs of options that exclude each other, and why."""

_OF_ONE_SIZE = ("from_plan", "plan_loader", "url", "torchrec_baseline")
"""Options that plan for sharding groups of a stated size."""


def _given(o: SimpleNamespace, option: str) -> bool:
    value = getattr(o, option)
    return bool(value) and (option, value) != ("sync_every", 1)


def _measured(o: SimpleNamespace) -> list[tuple[bool, str, str]]:
    """Returns what contradicts measured memory: whether it does, the message and the hint."""
    key = "allocator_overhead"
    both = f"measured_memory is given, and arguments state {key}"
    counted = value(o.arguments, "accounting") or ("all" if o.profile else "")
    theirs = "measured_memory: the bytes are those of TorchRec's estimator, which counts no "
    hint = 'pass profile=, or arguments=["--set", "accounting=all"]'
    return [
        (stated(o.arguments, key), both, "leave out one of them"),
        (counted != "all", theirs + "allocator", hint),
    ]


def problems(o: SimpleNamespace) -> list[Problem]:
    """Returns a problem for each option of the planner that contradicts another one."""
    checks: list[tuple[bool, str, str]] = [
        (
            _given(o, option) and not _given(o, other),
            f"{option} is given without {other}",
            f"pass {other}=, or leave {option} out",
        )
        for option, other in _NEEDS.items()
    ]
    for one, other, why in _APART:
        both = _given(o, one) and _given(o, other)
        checks.append((both, f"{one} and {other} are both given: {why}", "leave out one of them"))
    size = o.sharding_group_size
    if isinstance(size, str):
        message = f"sharding_group_size {shown(size)} is not a number"
        checks.append((size != AUTO, message, 'pass the ranks of a sharding group, or "auto"'))
        for option in _OF_ONE_SIZE:
            message = f'{option} is for groups of one size, and sharding_group_size is "auto"'
            checks.append((size == AUTO and _given(o, option), message, "pass the size"))
    if o.profile is not None and o.topology is None:
        usual = {"storage_reservation": None, "heuristical_storage_reservation_percentage": SHARE}
        for option, value in usual.items():
            message = f"{option}: the memory of the devices is that of the profile"
            hint = 'pass topology= as well, or arguments=["--set", "reserve_share=...", ...]'
            checks.append((getattr(o, option) != value, message, hint))
    batches = (o.batch_size, o.batch_per_rank)
    message = f"batch_size {shown(batches[0])} and batch_per_rank {shown(batches[1])} differ"
    hint = "they are two names of one number: leave out one of them"
    checks.append((None not in batches and batches[0] != batches[1], message, hint))
    if o.topology is not None:
        for option, theirs in (
            ("world_size", o.topology.world_size),
            ("devices_per_host", o.topology.local_world_size),
            ("device_type", o.topology.compute_device),
        ):
            value = getattr(o, option)
            message = f"{option} {shown(value)} is not that of the topology, {shown(theirs)}"
            checks.append((value not in (None, theirs), message, f"leave {option} out"))
    if o.measured_memory is not None:
        checks += _measured(o)
    for name, _ in service.words(o.arguments):
        message = f"arguments: {quote(name)} is an option of the planner"
        checks.append((name in _OPTIONS_OF, message, _OPTIONS_OF.get(name, "")))
    found = [Problem(message, hint) for wrong, message, hint in checks if wrong]
    return found + ([] if o.url is None else service.problems_of(o.url, o.token, o.token_file))
