"""The flags of ``neuroshard plan`` that NeuroShardPlanner adds, and its options that contradict
each other."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from . import service
from .errors import InputError, Problem, quote, shown

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
    for flag in ("--reserve-fixed", "--dense"):
        if map_bytes and stated(arguments, flag):
            log.warning(
                "with %s, the %d bytes that the maps from ids to rows of managed collisions take "
                "on each device are not kept free: have --reserve-fixed hold them, too",
                *(flag, map_bytes),
            )
            return 0
    return map_bytes


def stated(arguments: Sequence[str], flag: str) -> bool:
    return any(a.split("=")[0] == flag for a in arguments)


def value(arguments: Sequence[str], flag: str) -> str:
    """Returns the value of an argument, "" if it is not among them."""
    for i, argument in enumerate(arguments):
        if argument.split("=")[0] == flag:
            return argument.partition("=")[2] or "".join(arguments[i + 1 : i + 2])
    return ""


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
            'replicates them, may cost less: arguments=["--sharding-types", "all"] allows that',
            sum(fused),
        )
    return ["--sharding-types", ",".join(types)]


def host_memory(tables: Sequence[Json]) -> bool:
    """Returns whether any table may lie in the memory of hosts, by its constraints."""
    tiers = [t.get("constraints", {}).get("tiers") for t in tables]
    return any(not isinstance(own, list) or set(own) != {"hbm"} for own in tiers)


def comm_precision(arguments: Sequence[str], precision: str) -> list[str]:
    """Returns the arguments for the number format of a sharder's exchanges. InputError if
    the arguments name another."""
    flag = "--comm-precision"
    if precision == "fp32":
        return []
    if not stated(arguments, flag):
        return [flag, precision]
    if (theirs := value(arguments, flag)) != precision:
        message = f"arguments: {flag} {quote(theirs)}, and the sharder's "
        message += f"qcomm_codecs_registry exchanges {precision}"
        raise InputError([Problem(message, f"leave {flag} out")])
    return []


_OPTIONS_OF = {
    "--from": "from_plan",
    "--max-bytes": "max_bytes",
    "--replicas": "sharding_group_size",
    "--sync-every": "sync_every",
    "--inter-host-allreduce": "use_inter_host_allreduce",
}
"""Arguments of the program that are options of the planner."""


def not_reserved(
    profile: Any, topology: Any, storage_reservation: Any, share: Any
) -> list[Problem]:
    """Returns a problem if memory is to be reserved of a cluster whose memory only the program
    knows."""
    if profile is None or topology is not None:
        return []
    hint = 'pass topology= as well, or arguments=["--reserve-share", "...", "--reserve-fixed", ...]'
    given = {
        "storage_reservation": storage_reservation is not None,
        "heuristical_storage_reservation_percentage": share != SHARE,
    }
    return [
        Problem(f"{option}: the memory of the devices is that of the profile", hint)
        for option, stated in given.items()
        if stated
    ]


def not_timeout(value: Any, arguments: Any, url: Any, from_plan: Any) -> list[Problem]:
    if value is None:
        return []
    if url is not None:
        hint = 'leave it out, or pass arguments=["--max-evaluations", "..."]'
        return [Problem("timeout_seconds: the service bounds no search by time", hint)]
    if from_plan is not None:
        hint = "leave it out: a search from an old plan ends by itself"
        return [Problem("timeout_seconds is given with from_plan", hint)]
    if stated(arguments, "--budget"):
        return [Problem("timeout_seconds and --budget are both given", "leave out one of them")]
    return []


def two_batches(batch_size: Any, batch_per_rank: Any) -> list[Problem]:
    if None in (batch_size, batch_per_rank) or batch_size == batch_per_rank:
        return []
    message = f"batch_size {shown(batch_size)} and batch_per_rank {shown(batch_per_rank)} differ"
    return [Problem(message, "they are two names of one number: leave out one of them")]


def two_clusters(topology: Any, **others: Any) -> list[Problem]:
    """Returns a problem for each option that says something else than the topology."""
    if topology is None:
        return []
    theirs = {
        "world_size": topology.world_size,
        "devices_per_host": topology.local_world_size,
        "device_type": topology.compute_device,
    }
    return [
        Problem(
            f"{option} {shown(value)} is not that of the topology, {shown(theirs[option])}",
            f"leave {option} out",
        )
        for option, value in others.items()
        if value is not None and value != theirs[option]
    ]


def not_arguments(values: Sequence[str]) -> list[Problem]:
    """Returns a problem for each argument that only the planner passes to the program."""
    problems = []
    for value in values:
        flag = value.split("=")[0]
        hint = "leave it out: pass keep= for the plan's file, and see report for the report"
        if flag in _OPTIONS_OF:
            hint = f"pass {_OPTIONS_OF[flag]}="
        elif flag not in ("--output", "--json") and not value.startswith("-o"):
            continue
        problems.append(Problem(f"arguments: {quote(value)} is an option of the planner", hint))
    return problems


def not_service(url: Any, token: Any, token_file: Any, name: Any, binary: Any) -> list[Problem]:
    if url is None:
        given = {"token": token, "token_file": token_file, "name": name}
        hint = "pass url=, the address of the service"
        return [
            Problem(f"{option} is given without url", hint)
            for option, value in given.items()
            if value is not None
        ]
    problems = service.problems_of(url, token, token_file)
    if binary is not None:
        hint = "leave out one of them: the service plans in place of the program"
        problems.append(Problem("url and binary are both given", hint))
    return problems


def not_budget(value: Any, from_plan: Any) -> list[Problem]:
    if value is None or from_plan is not None:
        return []
    hint = "pass from_plan=, the plan file that the bytes move from"
    return [Problem("max_bytes is given without from_plan", hint)]


def not_beside(fixed: Any, torchrec_baseline: Any) -> list[Problem]:
    if not fixed or not torchrec_baseline:
        return []
    hint = "leave torchrec_baseline out: TorchRec's planner would place the fixed tables, too"
    return [Problem("fixed and torchrec_baseline are both given", hint)]


def engine(arguments: Sequence[str]) -> list[str]:
    """Returns the argument for plans that TorchRec trains, stores and loads, unless the
    arguments name an engine."""
    return [] if stated(arguments, "--for") else ["--for", "torchrec"]
