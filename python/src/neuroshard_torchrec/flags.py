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
    "--from": "pass from_plan=",
    "--max-bytes": "pass max_bytes=",
    "--replicas": "pass sharding_group_size=",
    "--sync-every": "pass sync_every=",
    "--inter-host-allreduce": "pass use_inter_host_allreduce=",
    "--output": "leave it out: pass keep= for the plan's file, and see report for the report",
    "--json": "leave it out: pass keep= for the plan's file, and see report for the report",
}
"""What to write in the place of arguments of the program that only the planner passes."""


def problems(o: SimpleNamespace) -> list[Problem]:
    """Returns a problem for each option of the planner that contradicts another one."""
    by_profile = o.profile is not None and o.topology is None
    memory = "the memory of the devices is that of the profile"
    reserve = (
        'pass topology= as well, or arguments=["--reserve-share", "...", "--reserve-fixed", ...]'
    )
    of_groups = "pass sharding_group_size=, that of DMPCollection"
    auto = o.sharding_group_size == AUTO
    word = isinstance(o.sharding_group_size, str)
    one_size = 'sharding_group_size "auto": {} has a plan for groups of one size'
    batches = (o.batch_size, o.batch_per_rank)
    timeout, beside = o.timeout_seconds is not None, o.torchrec_baseline
    local, by_url = o.url is None, o.url is not None
    of_url = "pass url=, the address of the service"
    checks: list[tuple[bool, str, str]] = [
        (
            timeout and by_url,
            "timeout_seconds: the service bounds no search by time",
            'leave it out, or pass arguments=["--max-evaluations", "..."]',
        ),
        (
            timeout and o.from_plan is not None,
            "timeout_seconds is given with from_plan",
            "leave it out: a search from an old plan ends by itself",
        ),
        (
            timeout and stated(o.arguments, "--budget"),
            "timeout_seconds and --budget are both given",
            "leave out one of them",
        ),
        (
            by_profile and o.storage_reservation is not None,
            f"storage_reservation: {memory}",
            reserve,
        ),
        (
            by_profile and o.heuristical_storage_reservation_percentage != SHARE,
            f"heuristical_storage_reservation_percentage: {memory}",
            reserve,
        ),
        (
            None not in batches and batches[0] != batches[1],
            f"batch_size {shown(batches[0])} and batch_per_rank {shown(batches[1])} differ",
            "they are two names of one number: leave out one of them",
        ),
        (
            word and not auto,
            f"sharding_group_size {shown(o.sharding_group_size)} is not a number",
            'pass the ranks of a sharding group, or "auto"',
        ),
        (
            o.sharding_group_size is None and o.use_inter_host_allreduce,
            "use_inter_host_allreduce is given without sharding_group_size",
            of_groups,
        ),
        (
            o.sharding_group_size is None and o.sync_every != 1,
            "sync_every is given without sharding_group_size",
            of_groups,
        ),
        (
            o.sharding_group_size is not None and o.enumerator is not None,
            "enumerator: it is made for a number of ranks, and sharding groups have their own",
            "pass batch_size= and constraints= in its place",
        ),
        (auto and o.from_plan is not None, one_size.format("from_plan"), "pass that size"),
        (auto and o.plan_loader is not None, one_size.format("plan_loader"), "pass that size"),
        (
            auto and by_url,
            'sharding_group_size "auto": the service plans for groups of a stated size',
            "pass the size, or plan by the program",
        ),
        (local and o.token is not None, "token is given without url", of_url),
        (local and o.token_file is not None, "token_file is given without url", of_url),
        (local and o.name is not None, "name is given without url", of_url),
        (
            by_url and o.binary is not None,
            "url and binary are both given",
            "leave out one of them: the service plans in place of the program",
        ),
        (
            beside and by_url,
            "torchrec_baseline: the service compares with no plan of TorchRec",
            "plan by the program: leave url out, and pass binary= if it is not on PATH",
        ),
        (
            beside and o.max_bytes is not None,
            "torchrec_baseline: with max_bytes, the report has no baselines",
            "leave max_bytes out, or compare by neuroshard bench plans",
        ),
        (
            beside and o.plan_loader is not None,
            "torchrec_baseline: a plan that is loaded has no report",
            "leave out one of torchrec_baseline and plan_loader",
        ),
        (
            beside and word,
            'torchrec_baseline: with sharding_group_size "auto", TorchRec has no number of ranks '
            "to plan for",
            "pass the size of the sharding groups as a number",
        ),
        (
            beside and bool(o.fixed),
            "fixed and torchrec_baseline are both given",
            "leave torchrec_baseline out: TorchRec's planner would place the fixed tables, too",
        ),
        (
            o.max_bytes is not None and o.from_plan is None,
            "max_bytes is given without from_plan",
            "pass from_plan=, the plan file that the bytes move from",
        ),
    ]
    if o.topology is not None:
        for option, theirs in (
            ("world_size", o.topology.world_size),
            ("devices_per_host", o.topology.local_world_size),
            ("device_type", o.topology.compute_device),
        ):
            value = getattr(o, option)
            message = f"{option} {shown(value)} is not that of the topology, {shown(theirs)}"
            checks.append((value not in (None, theirs), message, f"leave {option} out"))
    for argument in o.arguments:
        flag = "--output" if argument.startswith("-o") else argument.split("=")[0]
        message = f"arguments: {quote(argument)} is an option of the planner"
        checks.append((flag in _OPTIONS_OF, message, _OPTIONS_OF.get(flag, "")))
    found = [Problem(message, hint) for wrong, message, hint in checks if wrong]
    return found + ([] if local else service.problems_of(o.url, o.token, o.token_file))


def engine(arguments: Sequence[str]) -> list[str]:
    """Returns the argument for plans that TorchRec trains, stores and loads, unless the
    arguments name an engine."""
    return [] if stated(arguments, "--for") else ["--for", "torchrec"]
