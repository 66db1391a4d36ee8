"""Tables that neuroshard does not place: virtual and dynamic tables, those of a key-value store.

Their ParameterSharding is stated by the user, or by a planner of their own. To the plan of all
other tables they are fixed loads: the bytes and the time that they take on their ranks.

    fixed= by table  -> what is wrong with it           problems
    model's modules  -> modules without these tables    left_out
    these tables     -> ``fixed`` of tables.json        loads
    a ShardingPlan   -> with these tables, or without   merge, drop
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import _torchrec as torchrec
from ._modules import Collected, Table
from .errors import Problem, nearest, quote, quoted, shown

Json = dict[str, Any]


@dataclass(frozen=True)
class FixedTable:
    """A table that neuroshard does not place.

    ``bytes`` is the memory that it takes on each of its ranks: a number, or text such as
    "12GiB". ``ms`` is its time in a step on each of them, forward and backward. Both may also
    be dicts by rank. ``sharding`` is its ParameterSharding, which the ShardingPlan then has; if
    it is None, the ShardingPlan lacks the table, and the script must add it. ``ranks`` are its
    ranks, by default those of the sharding, else all.
    """

    bytes: int | str | Mapping[int, int | str]
    ms: float | Mapping[int, float] = 0.0
    sharding: Any = None
    ranks: Sequence[int] | None = None

    def on(self) -> list[int] | None:
        """Returns its ranks, each once and in order; None for all."""
        stated = self.ranks
        if stated is None and self.sharding is not None:
            stated = self.sharding.ranks
        return None if stated is None else sorted(set(stated))


HINT = (
    "neuroshard does not place it: state what it takes of each rank, and its ParameterSharding, "
    "by fixed={{{name}: FixedTable(bytes=..., ms=..., sharding=...)}}"
)
"""What to do about a table that neuroshard does not place."""


def hint(name: str) -> str:
    """Returns what to write for a table that neuroshard does not place."""
    return HINT.format(name=quote(name))


@dataclass(frozen=True)
class At:
    """A table of the model that is stated as fixed: by which name, and where it is."""

    name: str
    path: str
    table: Table
    stated: FixedTable


def problems(fixed: Mapping[str, FixedTable] | None) -> list[Problem]:
    """Returns a problem for each bytes and ms of a rank that is not one of the table's."""
    return [
        Problem(
            f"fixed: table {quote(name)}: {what}: {shown(more)} are not among its ranks, "
            f"{shown(ranks)}",
            "state ranks=, or leave them out",
        )
        for name, one in (fixed or {}).items()
        for what, value in (("bytes", one.bytes), ("ms", one.ms))
        if isinstance(value, Mapping)
        and (ranks := one.on()) is not None
        and (more := sorted(set(value) - set(ranks)))
    ]


def left_out(
    found: Sequence[Collected], fixed: Mapping[str, FixedTable] | None
) -> tuple[list[Collected], list[At], list[Problem]]:
    """Returns the modules without the tables that are stated as fixed, these tables, and the
    problems of names. A table is named as in its module; where several modules have a table of
    that name, after its module's path and a slash."""
    if not fixed:
        return list(found), [], []
    tables = [(c.path, t) for c in found for t in c.tables]
    at: list[At] = []
    wrong = []
    for name, one in fixed.items():
        here = [(p, t) for p, t in tables if p and f"{p}/{t.name}" == name]
        here = here or [(p, t) for p, t in tables if t.name == name]
        if len(here) == 1:
            at.append(At(name, *here[0], one))
        elif here:
            message = f"fixed: several tables are called {quote(name)}"
            wrong.append(Problem(message, f"name one of {quoted(f'{p}/{name}' for p, _ in here)}"))
        else:
            near = nearest(name, [t.name for _, t in tables])
            text = f"did you mean {quote(near)}?" if near else ""
            wrong.append(Problem(f"fixed: the model has no table {quote(name)}", text))
    twice = [
        a for i, a in enumerate(at) if (a.path, a.table) in [(b.path, b.table) for b in at[:i]]
    ]
    wrong += [Problem(f"fixed: table {quote(a.name)} is stated twice") for a in twice]
    gone = {(a.path, a.table.name) for a in at}
    kept = [
        replace(
            c,
            tables=tuple(t for t in c.tables if (c.path, t.name) not in gone),
            fixed=tuple(t.name for t in c.tables if (c.path, t.name) in gone),
        )
        for c in found
    ]
    return kept, at, wrong


def names(at: Sequence[At]) -> set[str]:
    """Returns the names of these tables, with and without their modules' paths."""
    return {n for a in at for n in (a.name, a.table.name, f"{a.path}/{a.table.name}")}


def stated_twice(argument: str, given: Iterable[str], at: Sequence[At]) -> list[Problem]:
    """Returns a problem for each fixed table that an option for placed tables names."""
    return [
        Problem(
            f"{argument}: table {quote(name)} is in fixed=, and neuroshard does not place it",
            "leave it out of one of them: the ParameterSharding of a fixed table says all",
        )
        for name in given
        if name in names(at)
    ]


def loads(at: Sequence[At], ranks: int | None) -> list[Json]:
    """Returns the fixed loads of tables.json: the ranks of a table that take the same, together.
    ``ranks`` is the number of all ranks, None if it is not known."""
    found = []
    for a in at:
        on = a.stated.on()
        by_rank = [v for v in (a.stated.bytes, a.stated.ms) if isinstance(v, Mapping)]
        if on is None and by_rank:
            on = sorted({rank for value in by_rank for rank in value})
        takes: dict[tuple[str, float], list[int]] = {}
        for rank in [None] if on is None else on:
            size, ms = _of(a.stated.bytes, rank, 0), _of(a.stated.ms, rank, 0.0)
            size = size if isinstance(size, str) else f"{size}B"
            takes.setdefault((size, float(ms)), []).append(0 if rank is None else rank)
        for (size, ms), devices in takes.items():
            load: Json = {"name": a.name}
            if on is not None and (ranks is None or devices != list(range(ranks))):
                load["devices"] = devices
            if size != "0B":
                load["bytes"] = size
            if ms:
                load["ms"] = ms
            if "bytes" in load or "ms" in load:
                found.append(load)
    return found


def _of(value: Any, rank: int | None, missing: Any) -> Any:
    return value.get(rank, missing) if isinstance(value, Mapping) else value


def merge(plan: Any, at: Sequence[At]) -> Any:
    """Returns the ShardingPlan with the ParameterShardings that are stated."""
    for a in at:
        if a.stated.sharding is not None:
            tables = plan.plan.setdefault(a.path, torchrec.EmbeddingModuleShardingPlan({}))
            # A copy: DMPCollection renames the ranks of a plan in place.
            tables[a.table.name] = copy.deepcopy(a.stated.sharding)
    return plan


def drop(plan: Any, at: Sequence[At]) -> Any:
    """Returns the ShardingPlan without these tables."""
    for a in at:
        plan.plan.get(a.path, {}).pop(a.table.name, None)
    return plan
