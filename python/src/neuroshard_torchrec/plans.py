"""A plan's file in, TorchRec's ShardingPlan out.

    plan file  -> neuroshard convert --to torchrec exported
    export     -> placements of the tables of modules  _Contents
    names      -> modules of the model                 _match
    the model's modules and ranks can run them         _ranks, _unfit, _means
    placements -> ShardingPlan                         _torchrec.sharding_plan

The program has checked what an export says of its tables. What is checked here is whether the
plan belongs to this model and these ranks.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import nn

from . import _modules as kinds
from . import _torchrec as torchrec
from . import binary as program
from . import fixed as fixed_tables
from ._modules import Collected
from ._torchrec import Placement, Shard
from .errors import (
    BinaryError,
    PlanError,
    Problem,
    ReplicatedTablesWarning,
    UnequalSlicesWarning,
    nearest,
    quote,
    quoted,
    shown,
)
from .fixed import FixedTable
from .groups import Groups, modules_problems, plan_problems
from .tables import Named, named

EXPORTED = ("neuroshard-torchrec-plan", 1)
"""The format that is read, and its version."""

_LONG = 200
"""Characters of a name that a hint shows, to be copied from it."""

_EXPORT = "write it with neuroshard convert --to torchrec, or give a plan file"
_AGAIN = "plan again with the tables of this model"

Json = dict[str, Any]


def load_plan(
    source: str | bytes | bytearray | os.PathLike[str] | Mapping[str, Any],
    model: nn.Module,
    env: Any = None,
    *,
    local_size: int | None = None,
    device_type: str | None = None,
    modules: Mapping[str, str] | None = None,
    ignore: Collection[str] = (),
    sharders: Sequence[Any] | None = None,
    sharding_group_size: int | None = None,
    use_inter_host_allreduce: bool = False,
    fixed: Mapping[str, FixedTable] | None = None,
) -> Any:
    """Returns the ShardingPlan that a plan's file describes, for this model and
    these ranks; hand it to ``DistributedModelParallel(model, plan=...)``.

    ``source`` is a path, the JSON itself (text or bytes that begin with a brace), or
    JSON that is parsed already: of ``neuroshard convert --to torchrec``, or a plan
    file, which the program then exports. Nothing in it is run. ``env`` is a ShardingEnv or a
    process group; left out, the default group. Every rank loads for itself, and no rank waits.

    ``local_size``, the ranks of a host, and ``device_type`` are what TorchRec itself would take.
    ``modules`` renames collections: paths in the plan to paths in the model. ``ignore`` has paths
    of modules that are not the plan's business, and ``fixed`` the tables that neuroshard does not
    place. ``sharders`` are those that DistributedModelParallel gets.

    ``sharding_group_size`` and ``use_inter_host_allreduce`` are those of ``DMPCollection``, to
    which the plan is given then; ``env`` and ``local_size`` stay those of all ranks.
    DMPCollection renames the ranks of the plan in place: load the plan anew for each.

    PlanError tells all that is wrong at once: tables that the plan or the model lacks, other
    shapes, other ranks. OSError where the file cannot be read. The first rank warns, by
    ReplicatedTablesWarning, of tables that no optimizer in the backward trains, and by
    UnequalSlicesWarning of slices on which TorchRec's ``load_state_dict`` fails.
    """
    if wrong := fixed_tables.problems(fixed):
        raise PlanError(wrong)
    found, problems = kinds.collect(model, ignore, sharders)
    found, at, wrong = fixed_tables.left_out(found, fixed)
    problems += wrong
    ranks = Ranks.of(env, local_size, device_type)
    if sharding_group_size is not None:
        ranks = ranks.grouped(sharding_group_size, use_inter_host_allreduce)
        problems += modules_problems(found, ranks.groups)
    plan, more = placements(source, found, ranks, modules)
    if problems := [*problems, *more]:
        raise PlanError(problems)
    if _first(env):
        warn({t.name: plan[t.path][t.table.name] for t in named(found)})
    stated = None if ranks.groups is None else ranks.world_size
    made = torchrec.sharding_plan(plan, ranks.device_type, ranks.local_size, stated)
    return fixed_tables.merge(made, at)


@dataclass(frozen=True)
class Ranks:
    """The ranks that hold all tables once: their number, the number of ranks of a host, and
    the type of their devices. These are all ranks of a job, or one of its sharding groups."""

    world_size: int
    local_size: int
    device_type: str
    groups: Groups | None = None

    @classmethod
    def of(cls, env: Any, local_size: int | None, device_type: str | None) -> Ranks:
        """Returns the ranks of a ShardingEnv or a group, with TorchRec's own values in
        the places of None."""
        if env is None and not dist.is_initialized():
            hint = "call torch.distributed.init_process_group first, or pass an env"
            message = "there is no process group, so the number of ranks is not known"
            raise PlanError([Problem(message, hint)])
        if env is None or isinstance(env, dist.ProcessGroup):
            world_size = dist.get_world_size(env)
        else:
            world_size = env.world_size
        local_size = local_size or torchrec.get_local_size(world_size)
        return cls(world_size, local_size, device_type or torchrec.get_device_type())

    def grouped(self, size: int, inter_host: bool) -> Ranks:
        """Returns one of the sharding groups into which these ranks divide; PlanError if they
        do not."""
        found, problems = Groups.of(self.world_size, self.local_size, size, inter_host)
        if problems:
            raise PlanError(problems)
        return Ranks(size, found.per_host, self.device_type, found)


def placements(
    source: Any,
    found: Sequence[Collected],
    ranks: Ranks,
    modules: Mapping[str, str] | None = None,
) -> tuple[dict[str, dict[str, Placement]], list[Problem]]:
    """Returns the placement of each table, by collection and name, and all that is wrong
    with the plan for these collections and ranks. The placements count only if nothing
    is wrong."""
    whole = exported(source)
    found = kinds.running_on(ranks.device_type, found)
    plan, problems = _match(_tables(whole), found, modules or {})
    problems = [*_ranks(whole, ranks), *problems]
    out: dict[str, dict[str, Placement]] = {c.path: {} for c in found}
    kind = {c.path: kinds.KINDS[c.kind] for c in found}
    for t in named(found):
        if entry := plan.get(t.path, {}).get(t.table.name):
            p, shape = entry
            problems += _unfit(t, kind[t.path], p, shape)
            if p.sharding_type == "table_wise":
                p = replace(p, sharding_type=kind[t.path].whole)
            out[t.path][t.table.name] = p
    return out, [*problems, *_means(named(found), out)]


def warn(tables: Mapping[str, Placement]) -> None:
    """Warns of what TorchRec does with these tables without a warning of its own."""
    replicated = [name for name, p in tables.items() if p.sharding_type == "data_parallel"]
    if replicated:
        warnings.warn(
            f"replicated on every rank (data_parallel): {quoted(replicated)}; TorchRec fuses no "
            "optimizer into their backward, so give them one with the dense parameters, or they "
            "are not trained; docs/TORCHREC.md, Replicated tables, shows how",
            ReplicatedTablesWarning,
            stacklevel=3,
        )
    unequal = [name for name, p in tables.items() if len({s.columns for s in p.shards}) > 1]
    if unequal:
        warnings.warn(
            f"slices of unequal widths: {quoted(unequal)}; TorchRec trains them, but its "
            "load_state_dict fails on them, even with the model's own state_dict(): plan with "
            "neuroshard plan --engine torchrec; docs/TORCHREC.md, Checkpoints, shows how to read a "
            "checkpoint that such a plan has left",
            UnequalSlicesWarning,
            stacklevel=3,
        )


def _first(env: Any) -> bool:
    """Returns whether this is the rank that speaks for all."""
    group = env if isinstance(env, dist.ProcessGroup) else getattr(env, "process_group", None)
    if group is not None:
        return bool(group.rank() == 0)
    return not dist.is_initialized() or dist.get_rank() == 0


# Reading.


def exported(source: Any) -> Json:
    """Returns the export of a plan, made of a plan file by the program. PlanError if it is
    neither."""
    whole = source
    if not isinstance(source, Mapping):
        json_itself = isinstance(source, str) and source.lstrip().startswith("{")
        if isinstance(source, (str, os.PathLike)) and not json_itself:
            source = Path(source).read_bytes()
        try:
            whole = json.loads(source)
        except ValueError as e:
            raise PlanError([Problem(f"the plan is not JSON: {e}", _EXPORT)]) from e
    kind = whole.get("format") if isinstance(whole, Mapping) else None
    if kind == "neuroshard-plan":
        try:
            whole = program.export(json.dumps(dict(whole)).encode())
        except BinaryError as e:
            if e.exit_code is None:
                raise
            raise PlanError(e.problems) from e
    elif kind != EXPORTED[0] or whole.get("version") != EXPORTED[1]:
        message = f"the plan's format is {shown(kind)}" if kind != EXPORTED[0] else "the plan"
        message += f", of version {shown(whole.get('version'))}" if kind else ""
        raise PlanError([Problem(f"{message}: what is read is {EXPORTED}", _EXPORT)])
    if lost := [key for key in ("world_size", "local_size", "plan") if key not in whole]:
        raise PlanError([Problem(f"the plan lacks {quoted(lost)}", _EXPORT)])
    return dict(whole)


_Entry = tuple[Placement, list[int] | None]
"""Where a table lies, and its rows and columns if the file states them."""


def _tables(whole: Json) -> dict[str, dict[str, _Entry]]:
    """Returns the tables of an export, by the paths of their modules and their names there."""
    shapes = whole.get("shapes", {})
    found: dict[str, dict[str, _Entry]] = {}
    try:
        for path, tables in whole["plan"].items():
            found[path] = {
                name: (_placement(table), shapes.get(path, {}).get(name))
                for name, table in tables.items()
            }
    except (AttributeError, KeyError, TypeError, ValueError) as e:
        message = f"the plan is not as neuroshard convert writes it: {type(e).__name__}: {e}"
        raise PlanError([Problem(message, _EXPORT)]) from e
    return found


def _placement(table: Json) -> Placement:
    ranks, listed = table["ranks"], table.get("shards") or []  # none of a table on every rank
    shards = tuple(
        Shard(row, column, rows, columns, rank)
        for s, rank in zip(listed, ranks if listed else [], strict=True)
        for (row, column), (rows, columns) in [(s["shard_offsets"], s["shard_sizes"])]
    )
    cached = (table.get("cache_params") or {}).get("load_factor")
    return Placement(
        table["sharding_type"], table["compute_kernel"], shards, cached, table.get("operator", 0)
    )


# Matching.


def _ranks(whole: Json, ranks: Ranks) -> list[Problem]:
    """Returns why the plan is not for these ranks."""
    size, per_host, cluster = whole["world_size"], whole["local_size"], whole.get("cluster", {})
    replicas = cluster.get("replicas", 1)
    if ranks.groups is not None or replicas > 1:
        between = cluster.get("inter_host_allreduce", False)
        return plan_problems(ranks.groups, size, per_host, replicas, between)
    if size != ranks.world_size:
        message = f"the plan is for {size} ranks, and there are {ranks.world_size}"
        hint = f"plan again with --gpus {ranks.world_size}, or start {size} processes"
        return [Problem(message, hint)]
    if per_host != ranks.local_size:
        message = f"the plan is for {per_host} ranks a host, and there are {ranks.local_size}"
        hint = f"plan again with --set devices_per_host={ranks.local_size}, or set LOCAL_WORLD_SIZE"
        return [Problem(message, hint)]
    return []


def _match(
    plan: Mapping[str, dict[str, _Entry]],
    found: Sequence[Collected],
    renamed: Mapping[str, str],
) -> tuple[dict[str, dict[str, _Entry]], list[Problem]]:
    """Returns the plan's tables by the modules of the model, and the differences."""
    problems = [
        Problem(f"modules: the plan has no module {quote(path)}")
        for path in renamed
        if path not in plan
    ]
    plan = {renamed.get(path, path): tables for path, tables in plan.items()}
    model = {c.path: [t.name for t in c.tables] for c in found}
    if list(plan) == [""] and "" not in model:  # the tables state no modules
        tables = {t.name: t for t in named(found)}
        _report("", list(tables), list(plan[""]), problems)
        by_name: dict[str, dict[str, _Entry]] = {path: {} for path in model}
        for name in [n for n in plan[""] if n in tables]:
            by_name[tables[name].path][tables[name].table.name] = plan[""][name]
        return by_name, problems
    lost = [p for p in model if p not in plan and model[p]]
    for path in [p for p in plan if p not in model]:
        message = f"the plan's module {quote(path)} is not in the model, "
        same = [p for p in lost if set(model[p]) == set(plan[path])]
        near = same[0] if len(same) == 1 else nearest(path, lost)
        if near is None:
            hint = f"{_AGAIN}; an nn.EmbeddingBag also needs sharders="
            problems.append(Problem(f"{message}whose modules are {quoted(model)}", hint))
            continue
        lost.remove(near)
        hint = f"if it was renamed, pass modules={{{quote(path, _LONG)}: {quote(near, _LONG)}}}"
        problems.append(Problem(f"{message}which has {quote(near)}", hint))
    for path in lost:
        problems.append(Problem(f"the model's module {quote(path)} is not in the plan", _AGAIN))
    for path in [p for p in plan if p in model]:
        _report(f"module {quote(path)}: " if path else "", model[path], list(plan[path]), problems)
    return dict(plan), problems


def _report(where: str, model: list[str], plan: list[str], problems: list[Problem]) -> None:
    lost = [n for n in model if n not in set(plan)]
    extra = [n for n in plan if n not in set(model)]
    if lost:
        near = nearest(lost[0], extra)
        hint = f"{_AGAIN}; was {quote(near)} renamed to {quote(lost[0])}?" if near else _AGAIN
        problems.append(Problem(f"{where}tables missing in the plan: {quoted(lost)}", hint))
    if extra:
        problems.append(
            Problem(f"{where}tables of the plan that the model lacks: {quoted(extra)}", _AGAIN)
        )


def _unfit(t: Named, kind: kinds.Kind, p: Placement, shape: list[int] | None) -> list[Problem]:
    """Returns why a module cannot run the plan of its table, at most one reason."""
    rows, dim, problem = t.table.rows, t.table.dim, None
    if shape is not None and tuple(shape) != (rows, dim):
        problem = (f"the plan has {shape[0]} x {shape[1]}, the model {rows} x {dim}", _AGAIN)
    elif p.sharding_type == "grid_shard" and t.table.mean:
        hint = "plan it in another way: TorchRec would sum where the table takes means"
        problem = ("grid_shard does not go with mean pooling", hint)
    elif p.sharding_type not in t.table.types:
        owner = f"{'means of ' if t.table.mean else ''}{kind.name}"
        hint = f"TorchRec runs {', '.join(t.table.types)}"
        problem = (f"{p.sharding_type} does not go with {owner}", hint)
    elif buckets := t.table.buckets:  # a module hashes ids into equal blocks of rows
        size = rows // buckets if rows % buckets == 0 else 0
        if not size or any(s.row % size for s in p.shards):
            hint = "make its total_num_buckets a multiple of the ranks, and its rows one of the "
            problem = (f"{p.sharding_type} cuts its {buckets} buckets of ids", hint + "buckets")
    return [Problem(f"table {quote(t.name)}: {problem[0]}", problem[1])] if problem else []


def _means(tables: Sequence[Named], plan: Mapping[str, dict[str, Placement]]) -> list[Problem]:
    """Returns a problem for each module whose means TorchRec would get wrong: if a table of means
    is split by rows, it divides the rows of the other tables of the module, too."""
    rows: dict[str, str] = {}  # by module, a table of means that is split by rows
    others: dict[str, str] = {}
    for t in tables:
        if (p := plan[t.path].get(t.table.name)) is None:
            continue
        if p.sharding_type not in ("row_wise", "table_row_wise"):
            others.setdefault(t.path, t.name)
        elif t.table.mean:
            rows.setdefault(t.path, t.name)
    return [
        Problem(
            f"table {quote(rows[path])} takes means and is split by rows, and "
            f"{quote(others[path])} of the same module is not: TorchRec would divide that one, too",
            f"place {quote(rows[path])} in another way, or split all tables of the module by rows",
        )
        for path in rows
        if path in others
    ]
