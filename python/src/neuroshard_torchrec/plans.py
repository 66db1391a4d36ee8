"""A plan's file in, TorchRec's ShardingPlan out.

Two formats are read: what ``neuroshard export --to torchrec`` writes, and the plan
file itself (docs/PLAN.md). The steps:

    bytes -> JSON, bounded, no key twice          _parse
    JSON  -> placements of named tables           _exported, _native
    names -> modules of the model                 _match
    shards are what TorchRec runs right           _joined, _geometry
    placements -> ShardingPlan                    _torchrec.sharding_plan

Each step collects what is wrong; the next one runs where it still makes sense.
"""

from __future__ import annotations

import json
import logging
import os
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NoReturn, TypeGuard

import torch.distributed as dist
from torch import nn

from . import _modules as kinds
from . import _torchrec as torchrec
from . import fixed as fixed_tables
from ._modules import Collected
from ._torchrec import OPERATORS, Placement, Shard
from .errors import (
    SHOWN,
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

log = logging.getLogger("neuroshard")

EXPORTED = "neuroshard-torchrec-plan"
NATIVE = "neuroshard-plan"
VERSION = 1
"""The version of both formats that is read."""

MAX_BYTES = 64 << 20
MAX_RANKS = 65536
MAX_TABLES = 1 << 20
MAX_SHARDS = 65536
MAX_ELEMENTS = 1 << 40
"""Files with more are refused, before memory is taken for them."""

MAX_PROBLEMS = 10_000
"""A file with more is read no further."""

GRANULE = 4
"""Columns of a slice are multiples of this in FBGEMM's kernels."""

_FUSED = ("fused", "fused_uvm", "fused_uvm_caching")
_DENSE = "dense"
_CACHED = "fused_uvm_caching"
_LONG = 200
"""Characters of a name that a hint shows, to be copied from it."""

_DEVICE_TYPE = re.compile(r"[a-z]{1,16}")
_PLACEMENT = re.compile(r"rank:(\d{1,9})/(?:(cpu)|([a-z]{1,16}):(\d{1,9}))")

_NATIVE_SHARDING_TYPES = {
    "table_wise": "table_wise",
    "column_wise": "column_wise",
    "row_wise": "row_wise",
    "table_row_wise": "table_row_wise",
    "grid": "grid_shard",
    "data_parallel": "data_parallel",
}
_SHARDING_TYPES = (*_NATIVE_SHARDING_TYPES.values(), "table_column_wise")
_TIERS = {"hbm": "fused", "host": "fused_uvm", "host_cached": "fused_uvm_caching"}

_EXPORT = "export the plan again"
_AGAIN = "plan again with the tables of this model"

Json = dict[str, Any]


@dataclass
class _Entry:
    """A table as a plan's file has it. Its shape is None where the file does not say."""

    placement: Placement
    shape: tuple[int, int] | None = None


@dataclass
class _Contents:
    """What a plan's file says."""

    world_size: int = 0
    local_size: int = 0
    replicas: int = 1  # the sharding groups; all else is that of one group
    inter_host: bool = False
    device_types: set[str] = field(default_factory=set)  # empty where it names none
    modules: dict[str, dict[str, _Entry]] = field(default_factory=dict)
    names: dict[str, _Entry] = field(default_factory=dict)  # where modules are not stated
    problems: list[Problem] = field(default_factory=list)

    def add(self, message: str, hint: str = "") -> None:
        if len(self.problems) >= MAX_PROBLEMS:
            more = Problem(
                f"there are more than {MAX_PROBLEMS} problems, and no more are looked for"
            )
            raise PlanError([*self.problems, more])
        self.problems.append(Problem(message, hint))


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
    JSON that is parsed already: of ``neuroshard export --to torchrec``, or a plan
    file. It is data: nothing in it is run, and files above 64 MiB are refused. One of
    that size may take 2.4 GB of memory while it is read.

    ``env`` is a ShardingEnv or a process group; left out, the default group. Every
    rank loads for itself, and no rank waits for another.

    ``local_size``, the ranks of a host, and ``device_type``, ``cuda`` or ``cpu``, are
    what TorchRec itself would take where they are left out: LOCAL_WORLD_SIZE, and
    CUDA if there is a GPU.

    ``modules`` renames collections: paths in the plan to paths in the model.
    ``ignore`` has paths of modules that are not the plan's business. ``sharders`` are
    those that DistributedModelParallel gets; left out, they are TorchRec's default ones,
    which have none for ``nn.EmbeddingBag``.

    ``sharding_group_size`` and ``use_inter_host_allreduce`` are those of ``DMPCollection``, to
    which the plan is given then. ``env`` and ``local_size`` are those of all ranks, and the
    plan must be one of ``neuroshard plan --replicas`` for such groups. DMPCollection renames
    the ranks of the plan in place: load the plan anew for each DMPCollection.

    ``fixed`` are the tables that neuroshard does not place, by name: the plan's file need not have
    them, and the ShardingPlan has the ``sharding`` that is stated of each.

    Every table of the model's modules (see ``tables_from_model``) must be in the plan, with
    its rows and columns, and every table of the plan in the model. PlanError tells all
    that is wrong at once; OSError where the file cannot be read, and TypeError where
    an argument is of another type than these.

    The first rank warns, by ReplicatedTablesWarning, of tables that the plan keeps
    whole on every rank (data_parallel): TorchRec trains them with no optimizer that
    is fused into the backward, only with one that the script makes, as it does for
    the dense parameters. Without it they stay as they are.

    Tables to which the plan gives operators of different numbers are looked up in
    different operators, and so are tables in HBM, in host memory and in caches. The
    ShardingPlan says so itself, in the ``cache_params`` of its tables; nothing else of the
    script or of the model changes for it.

    It warns by UnequalSlicesWarning of tables that the plan cuts into slices of
    unequal widths: TorchRec trains them, but ``load_state_dict`` fails on them.
    """
    _types(model, env, local_size, device_type, modules, ignore)
    _group_types(sharding_group_size, use_inter_host_allreduce)
    if wrong := fixed_tables.problems(fixed):
        raise PlanError(wrong)
    found, problems = kinds.collect(model, ignore, sharders)
    found, at, wrong = fixed_tables.left_out(found, fixed)
    problems += wrong
    ranks = Ranks.of(env, local_size, device_type)
    if sharding_group_size is not None:
        ranks = ranks.grouped(sharding_group_size, use_inter_host_allreduce)
        problems += modules_problems(found, ranks.groups)
    problems += fixed_tables.beyond(at, ranks.world_size)
    plan, more = placements(source, found, ranks, modules)
    if sharders is None:
        more = _with_sharders(more, kinds.single_bags(model, found))
    if problems := [*problems, *more]:
        raise PlanError(problems)
    if _first(env):
        warn({t.name: plan[t.path][t.table.name] for t in named(found)})
    stated = None if ranks.groups is None else ranks.world_size
    made = torchrec.sharding_plan(plan, ranks.device_type, ranks.local_size, stated)
    return fixed_tables.merge(made, at)


def _with_sharders(problems: list[Problem], paths: Sequence[str]) -> list[Problem]:
    """Returns the problems with what to do about modules that the model has and that are
    planned only if their sharder is given."""
    lost = tuple(f"the plan's module {quote(path)} is not in the model" for path in paths)
    hint = "pass sharders=, those of DistributedModelParallel: it is an nn.EmbeddingBag"
    return [replace(p, hint=hint) if p.message.startswith(lost) else p for p in problems]


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
        world_size = _world_size(env)
        local_size = _local_size(world_size, local_size)
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
    contents = _read(source)
    problems = [*contents.problems]
    problems += _ranks(contents, ranks)
    found = kinds.running_on(ranks.device_type, found)
    tables = named(found)
    matched, more = _match(contents, tables, found, dict(modules or {}))
    problems += more
    # Shards are only looked at where the ranks are right: the rest would follow
    # from that.
    if (contents.world_size, contents.local_size) == (ranks.world_size, ranks.local_size):
        of = {c.path: kinds.KINDS[c.kind] for c in found}
        for t in tables:
            if entry := matched.get((t.path, t.table.name)):
                problems += _geometry(t, of[t.path], entry, ranks.world_size, ranks.local_size)
                entry.placement = _joined(t, of[t.path], entry.placement)
        problems += _means(tables, matched)
        problems += _widths(tables, of, matched)
    plan: dict[str, dict[str, Placement]] = {c.path: {} for c in found}
    if not problems:
        for t in tables:
            plan[t.path][t.table.name] = matched[t.path, t.table.name].placement
    return plan, problems


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
            "neuroshard plan --for torchrec; docs/TORCHREC.md, Checkpoints, shows how to read a "
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


def _types(
    model: Any, env: Any, local_size: Any, device_type: Any, modules: Any, ignore: Any
) -> None:
    """Raises TypeError where an argument is not of its type."""
    world_size = getattr(env, "world_size", None)
    listed = isinstance(ignore, Collection) and not isinstance(ignore, (str, bytes))
    for name, value, right, wanted in (
        ("model", model, isinstance(model, nn.Module), "a torch.nn.Module"),
        (
            "env",
            env,
            env is None or isinstance(env, dist.ProcessGroup) or _whole(world_size, 1, MAX_RANKS),
            "a ShardingEnv or a process group",
        ),
        (
            "local_size",
            local_size,
            local_size is None
            or (isinstance(local_size, int) and not isinstance(local_size, bool)),
            "a whole number",
        ),
        ("device_type", device_type, isinstance(device_type, (str, type(None))), "text"),
        (
            "modules",
            modules,
            modules is None or (isinstance(modules, Mapping) and _all_text(modules.items())),
            "a mapping of paths to paths",
        ),
        ("ignore", ignore, listed and _all_text([ignore]), "a collection of paths"),
    ):
        if not right:
            raise TypeError(f"{name} is not {wanted} but {shown(value)}")


def _group_types(size: Any, inter_host: Any) -> None:
    """Raises TypeError where an option of sharding groups is not of its type."""
    if size is not None and not _whole(size, 1, MAX_RANKS):
        raise TypeError(f"sharding_group_size is not a number of ranks but {shown(size)}")
    if not isinstance(inter_host, bool):
        raise TypeError(f"use_inter_host_allreduce is not a bool but {shown(inter_host)}")
    if inter_host and size is None:
        raise TypeError("use_inter_host_allreduce is given without sharding_group_size")


def _all_text(groups: Iterable[Iterable[Any]]) -> bool:
    return all(isinstance(v, str) for group in groups for v in group)


def _local_size(world_size: int, local_size: int | None) -> int:
    if local_size is None:
        try:
            local_size = torchrec.get_local_size(world_size)
        except (ValueError, ZeroDivisionError) as e:
            hint = "LOCAL_WORLD_SIZE is a whole number of at least 1; set it, or pass local_size"
            message = f"TorchRec cannot tell the ranks of a host: {e}"
            raise PlanError([Problem(message, hint)]) from e
    if not 1 <= local_size <= world_size:
        raise PlanError(
            [
                Problem(
                    f"local_size {shown(local_size)} is not from 1 to {world_size}, "
                    "the number of ranks",
                    "pass the ranks of a host, or leave it out: it is then LOCAL_WORLD_SIZE",
                )
            ]
        )
    return local_size


def provenance_of(plan: bytes) -> tuple[str, list[str]]:
    """Returns the version of the program that wrote a plan file, "" if the file does not state
    it, and the warnings that the file carries; PlanError where it is no JSON."""
    provenance = _parse(plan).get("provenance")
    if not isinstance(provenance, dict):
        return "", []
    version, warnings = provenance.get("version"), provenance.get("warnings")
    return (
        version if isinstance(version, str) else "",
        [w for w in warnings if isinstance(w, str)] if isinstance(warnings, list) else [],
    )


def _world_size(env: Any) -> int:
    if env is None:
        if not dist.is_initialized():
            raise PlanError(
                [
                    Problem(
                        "there is no process group, so the number of ranks is not known",
                        "call torch.distributed.init_process_group first, or pass an env",
                    )
                ]
            )
        return dist.get_world_size()
    if isinstance(env, dist.ProcessGroup):
        return env.size()
    return int(env.world_size)


# Reading.


def _read(source: Any) -> _Contents:
    if isinstance(source, Mapping):
        # As a file would have it; so what JSON has no word for is found here.
        try:
            source = json.dumps(dict(source), allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as e:
            raise _not_json(str(e)) from e
    elif isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("{"):
        try:
            source = source.removeprefix("\ufeff").encode()
        except UnicodeEncodeError as e:
            raise _not_json(f"character {e.start} is half a surrogate pair") from e
    elif isinstance(source, (str, os.PathLike)):
        try:
            with open(source, "rb") as f:
                source = f.read(MAX_BYTES + 1)
        except ValueError as e:  # as a NUL is
            hint = "give a path, or JSON that begins with a brace"
            raise PlanError([Problem(f"{quote(os.fsdecode(source))} is no path: {e}", hint)]) from e
    elif not isinstance(source, (bytes, bytearray)):
        message = "source is not a path, text, bytes or a mapping but "
        raise TypeError(message + shown(source))
    if len(source) > MAX_BYTES:
        raise PlanError([Problem(f"the plan is larger than {MAX_BYTES >> 20} MiB")])
    return _contents(_parse(source))


def _not_json(why: str) -> PlanError:
    return PlanError([Problem(f"the plan is not JSON: {why}", "write it with neuroshard export")])


def _parse(text: bytes | bytearray) -> Json:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no number of JSON")

    def unique(pairs: list[tuple[str, Any]]) -> Json:
        whole = dict(pairs)
        if len(whole) < len(pairs):
            (twice, _), *_ = Counter(k for k, _ in pairs).most_common(1)
            raise ValueError(f"key {quote(twice)} is there twice")
        return whole

    try:
        value = json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except (ValueError, RecursionError) as e:
        raise _not_json(str(e)) from e
    if not isinstance(value, dict):
        raise PlanError([Problem(f"the plan is not an object of JSON but {_what(value)}")])
    return value


def _contents(whole: Json) -> _Contents:
    kind = whole.get("format")
    if kind not in (EXPORTED, NATIVE):
        if "format" not in whole and "plan" in whole:
            message = "the plan states no format, as TorchRec's own output does"
            hint = "bring it in with neuroshard import, then neuroshard export --to torchrec"
        elif isinstance(kind, str) and kind.startswith("neuroshard-"):
            message = f"the file is {quote(kind)} and no plan"
            hint = "give what neuroshard export --to torchrec wrote, or a plan file"
        else:
            message = f'the plan\'s format is {_what(kind)}, not "{EXPORTED}" or "{NATIVE}"'
            hint = "write it with neuroshard export --to torchrec"
        raise PlanError([Problem(message, hint)])
    version = whole.get("version")
    if not _whole(version, 1, VERSION):
        if _whole(version, VERSION + 1, 1 << 53):
            message = f"the plan is of version {version}, newer than this package reads: {VERSION}"
            hint = "upgrade the package neuroshard, or export with an older neuroshard"
        elif _whole(version, -(1 << 53), 0):
            message = f"the plan is of version {version}, older than this package reads: {VERSION}"
            hint = "export the plan again with a neuroshard of today"
        else:
            message = f"the plan's version is {_what(version)} and not a whole number"
            hint = "export the plan again"
        raise PlanError([Problem(message, hint)])
    contents = _Contents()
    (_exported if kind == EXPORTED else _native)(whole, contents)
    return contents


def _exported(whole: Json, c: _Contents) -> None:
    c.world_size = _size(whole, "world_size", c)
    c.local_size = _size(whole, "local_size", c)
    if isinstance(cluster := whole.get("cluster"), dict):
        _groups(cluster, c)
    if "accelerator" in whole:
        accelerator = whole["accelerator"]
        if isinstance(accelerator, str) and _DEVICE_TYPE.fullmatch(accelerator):
            c.device_types.add(accelerator)
        else:
            c.add(f'"accelerator" is {_stated(accelerator)}, not "cuda" or "cpu"', _EXPORT)
    shapes = whole.get("shapes", {})
    if not isinstance(shapes, dict):
        c.add(f'"shapes" is {_stated(shapes)} and not an object', _EXPORT)
        shapes = {}
    plan = whole.get("plan")
    if not isinstance(plan, dict):
        raise PlanError([*c.problems, Problem(f'"plan" is {_what(plan)} and not an object')])
    count = 0
    for path, tables in plan.items():
        if not isinstance(tables, dict):
            c.add(f"module {quote(path)} is {_what(tables)} and not an object")
            continue
        count += len(tables)
        if count > MAX_TABLES:
            raise PlanError([Problem(f"the plan has more than {MAX_TABLES} tables")])
        c.modules[path] = {}
        for name, table in tables.items():
            try:
                c.modules[path][name] = _exported_table(table, c)
            except ValueError as e:
                place = f"table {quote(name)}" + (f" of module {quote(path)}" if path else "")
                c.add(f"{place}: {e}")
                c.modules[path][name] = _Entry(Placement("", "", ()))
    _shapes(shapes, c)


def _shapes(shapes: Json, c: _Contents) -> None:
    """Takes over the rows and columns that the file states, of all tables or of some."""
    for path, tables in shapes.items():
        if not isinstance(tables, dict):
            c.add(f"shapes: module {quote(path)} is {_stated(tables)} and not an object", _EXPORT)
            continue
        for name, shape in tables.items():
            place = f"shapes: table {quote(name)}" + (f" of module {quote(path)}" if path else "")
            entry = c.modules.get(path, {}).get(name)
            if (
                not isinstance(shape, list)
                or len(shape) != 2
                or not all(_whole(v, 1, MAX_ELEMENTS) for v in shape)
            ):
                c.add(f"{place} is {_stated(shape)}, not its rows and columns", _EXPORT)
            elif entry is None:
                c.add(f"{place} is not in the plan", _EXPORT)
            else:
                entry.shape = shape[0], shape[1]


def _exported_table(table: Any, c: _Contents) -> _Entry:
    if not isinstance(table, dict):
        raise ValueError(f"it is {_what(table)} and not an object")
    sharding_type, kernel = table.get("sharding_type"), table.get("compute_kernel")
    if sharding_type not in _SHARDING_TYPES:
        names = ", ".join(_SHARDING_TYPES)
        raise ValueError(f"sharding_type is {_what(sharding_type)}, not one of {names}")
    if kernel not in (*_FUSED, _DENSE):
        raise ValueError(
            f"compute_kernel is {_what(kernel)}, not one of {', '.join(_FUSED)}, dense"
        )
    shards, ranks = table.get("shards"), table.get("ranks")
    operator = _operator(table)
    if sharding_type == "data_parallel":
        if shards is not None:
            raise ValueError(f"shards is {_what(shards)}, but data_parallel has none: null")
        if c.world_size and not _same_ranks(ranks, range(c.world_size)):
            raise ValueError(f"ranks of data_parallel are not 0 to {c.world_size - 1}, in order")
        return _Entry(Placement(sharding_type, kernel, (), operator=operator))
    if not isinstance(shards, list) or not 0 < len(shards) <= MAX_SHARDS:
        raise ValueError(f"shards is {_what(shards)} and not a list of 1 to {MAX_SHARDS}")
    out = [_exported_shard(i, s, c) for i, s in enumerate(shards)]
    if not _same_ranks(ranks, [s.rank for s in out]):
        raise ValueError("ranks are not those of the shards, in their order")
    cached = None
    if kernel == _CACHED and (params := table.get("cache_params")) is not None:
        if not isinstance(params, dict):
            raise ValueError(f"cache_params is {_what(params)} and not an object")
        cached = _share(params.get("load_factor"), "cache_params.load_factor")
    return _Entry(Placement(sharding_type, kernel, tuple(out), cached, operator))


def _operator(table: Json) -> int:
    """Returns the number of a table's operator, 0 where none is stated."""
    number = table.get("operator", 0)
    if not _whole(number, 0, OPERATORS - 1):
        raise ValueError(
            f"operator is {_stated(number)}, not a whole number from 0 to {OPERATORS - 1}"
        )
    return number


def _share(value: Any, key: str) -> float | None:
    """Returns the share of a table's rows that is cached, None where none is stated."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise ValueError(f"{key} is {_what(value)}, not a share above 0 and below 1")
    return float(value)


def _same_ranks(ranks: Any, wanted: Sequence[int]) -> bool:
    return (
        isinstance(ranks, list)
        and len(ranks) == len(wanted)
        and all(_whole(r, w, w) for r, w in zip(ranks, wanted, strict=True))
    )


def _exported_shard(i: int, shard: Any, c: _Contents) -> Shard:
    if not isinstance(shard, dict):
        raise ValueError(f"shards[{i}] is {_what(shard)} and not an object")
    pairs = []
    for key in ("shard_offsets", "shard_sizes"):
        pair = shard.get(key)
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not all(_whole(v, 0, MAX_ELEMENTS) for v in pair)
        ):
            raise ValueError(f"shards[{i}].{key} is not two whole numbers, of rows and columns")
        pairs.append(pair)
    placement = shard.get("placement")
    match = _PLACEMENT.fullmatch(placement) if isinstance(placement, str) else None
    if match is None:
        raise ValueError(f'shards[{i}].placement is {_what(placement)}, not like "rank:0/cuda:0"')
    rank = int(match[1])
    c.device_types.add(match[2] or match[3])
    if match[4] is not None and c.local_size and int(match[4]) != rank % c.local_size:
        raise ValueError(
            f"shards[{i}].placement {_what(placement)} is not GPU {rank % c.local_size} of its host"
        )
    (row, column), (rows, columns) = pairs
    return Shard(row, column, rows, columns, rank)


def _native(whole: Json, c: _Contents) -> None:
    cluster = whole.get("cluster")
    cluster = cluster if isinstance(cluster, dict) else {}
    c.world_size = _size(cluster, "devices", c)
    c.local_size = min(_size(cluster, "devices_per_host", c), c.world_size)
    _groups(cluster, c)
    tables = whole.get("tables")
    if not isinstance(tables, list) or len(tables) > MAX_TABLES:
        raise PlanError([*c.problems, Problem(f'"tables" is {_what(tables)} and not a list')])
    homes: dict[str, str] = {}
    for i, table in enumerate(tables):
        name = table.get("name") if isinstance(table, dict) else None
        if not isinstance(name, str):
            c.add(f"tables[{i}] has no name")
        elif name in c.names:
            c.add(f"table {quote(name)} is there twice")
        else:
            if isinstance(module := table.get("module"), str) and module:
                homes[name] = module
            try:
                c.names[name] = _native_table(table)
            except ValueError as e:
                c.add(f"table {quote(name)}: {e}")
                c.names[name] = _Entry(Placement("", "", ()))
    if len(homes) == len(c.names):  # else tables are found by their names alone
        for name, path in homes.items():
            c.modules.setdefault(path, {})[name.removeprefix(path + "/")] = c.names[name]
        c.names = {}


def _native_table(table: Json) -> _Entry:
    rows, dim = table.get("rows"), table.get("dim")
    kind, shards = table.get("kind"), table.get("shards")
    if not _whole(rows, 1, MAX_ELEMENTS) or not _whole(dim, 1, MAX_ELEMENTS):
        raise ValueError("rows and dim are not whole numbers above 0")
    if not isinstance(kind, str) or kind not in _NATIVE_SHARDING_TYPES:
        raise ValueError(f"kind is {_what(kind)}, not one of {', '.join(_NATIVE_SHARDING_TYPES)}")
    if not isinstance(shards, list) or not 0 < len(shards) <= MAX_SHARDS:
        raise ValueError(f"shards is {_what(shards)} and not a list of 1 to {MAX_SHARDS}")
    operator = _operator(table)
    if kind == "data_parallel":
        return _Entry(Placement(kind, _DENSE, (), operator=operator), (rows, dim))
    tiers = [s.get("tier") if isinstance(s, dict) else None for s in shards]
    tier = tiers[0]
    if not isinstance(tier, str) or tier not in _TIERS or any(other != tier for other in tiers):
        raise ValueError(f"its shards do not share one tier of {', '.join(_TIERS)}")
    out = [_native_shard(i, s) for i, s in enumerate(shards)]
    out.sort(key=lambda s: (s.column, s.row))  # TorchRec's order
    cached = None
    if _TIERS[tier] == _CACHED:
        shares = {_share(s.get("cache_share"), "cache_share") for s in shards}
        if len(shares) > 1:
            raise ValueError("its shards do not share one cache_share: TorchRec has one for all")
        (cached,) = shares
    placement = Placement(_NATIVE_SHARDING_TYPES[kind], _TIERS[tier], tuple(out), cached, operator)
    return _Entry(placement, (rows, dim))


def _native_shard(i: int, shard: Json) -> Shard:
    ranges = []
    for key in ("rows", "columns"):
        span = shard.get(key)
        if (
            not isinstance(span, list)
            or len(span) != 2
            or not all(_whole(v, 0, MAX_ELEMENTS) for v in span)
            or span[0] > span[1]
        ):
            raise ValueError(f"shards[{i}].{key} is not the first and the one after the last")
        ranges.append(span)
    device = shard.get("device")
    if not _whole(device, 0, MAX_RANKS - 1):
        raise ValueError(f"shards[{i}].device is {_what(device)} and not a rank")
    (row, last_row), (column, last_column) = ranges
    return Shard(row, column, last_row - row, last_column - column, device)


def _size(whole: Json, key: str, c: _Contents) -> int:
    value = whole.get(key)
    if not _whole(value, 1, MAX_RANKS):
        c.add(f'"{key}" is {_what(value)}, not a whole number from 1 to {MAX_RANKS}')
        return 0
    return value


def _groups(cluster: Json, c: _Contents) -> None:
    """Takes over the sharding groups that a plan's cluster states; without them it is one."""
    if "replicas" in cluster:
        c.replicas = _size(cluster, "replicas", c) or 1
    inter_host = cluster.get("inter_host_allreduce", False)
    if not isinstance(inter_host, bool):
        c.add(f'"inter_host_allreduce" is {_what(inter_host)}, not true or false')
    else:
        c.inter_host = inter_host


def group_size(plan: bytes) -> int:
    """Returns the ranks of the sharding group that a plan file is for; PlanError if it states
    no number of ranks."""
    contents = _contents(_parse(plan))
    if contents.problems:
        raise PlanError(contents.problems)
    return contents.world_size


def _whole(value: Any, low: int, high: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _what(value: Any) -> str:
    """Returns a value for a message, cut short."""
    if value is None:
        return "missing"
    if isinstance(value, (dict, list)):
        return f"a {'list' if isinstance(value, list) else 'object'} of {len(value)}"
    return str(value).lower() if isinstance(value, bool) else shown(value)


def _stated(value: Any) -> str:
    """Returns a value that is there, if only as null, for a message."""
    return "null" if value is None else _what(value)


# Matching.


def _ranks(c: _Contents, ranks: Ranks) -> list[Problem]:
    world_size, local_size, device_type = ranks.world_size, ranks.local_size, ranks.device_type
    problems = []
    if c.world_size and c.local_size and (ranks.groups is not None or c.replicas > 1):
        problems = plan_problems(ranks.groups, c.world_size, c.local_size, c.replicas, c.inter_host)
    elif c.world_size and c.world_size != world_size:
        problems.append(
            Problem(
                f"the plan is for {c.world_size} ranks, and there are {world_size}",
                f"plan again with --devices {world_size}, or start {c.world_size} processes",
            )
        )
    elif c.local_size and c.local_size != local_size:
        problems.append(
            Problem(
                f"the plan is for {c.local_size} ranks a host, and there are {local_size}",
                f"plan again with --devices-per-host {local_size}, or set LOCAL_WORLD_SIZE",
            )
        )
    if foreign := sorted(c.device_types - {device_type}):
        problems.append(
            Problem(
                f"the plan places shards on {quoted(foreign)}, and this process runs "
                f'on "{device_type}"',
                f'export it with --accelerator {device_type}, or pass device_type="{foreign[0]}"',
            )
        )
    return problems


def _match(
    c: _Contents,
    tables: Sequence[Named],
    found: Sequence[Collected],
    renamed: Mapping[str, str],
) -> tuple[dict[tuple[str, str], _Entry], list[Problem]]:
    """Returns the plan's entry of each table of the model, by collection and name."""
    problems: list[Problem] = []
    matched: dict[tuple[str, str], _Entry] = {}
    if c.names:
        known = {t.name: t for t in tables}
        for name, entry in c.names.items():
            if name in known:
                matched[known[name].path, known[name].table.name] = entry
        _report("", [t.name for t in tables], list(c.names), problems)
        return matched, problems

    plan: dict[str, dict[str, _Entry]] = {}
    for path, entries in c.modules.items():
        if (now := renamed.get(path, path)) in plan:
            problems.append(Problem(f"modules: two modules of the plan would be {quote(now)}"))
        plan[now] = entries
    for path in renamed:
        if path not in c.modules:
            problems.append(Problem(f"modules: the plan has no module {quote(path)}"))
    model = {m.path: [t.name for t in m.tables] for m in found}
    lost = [p for p in model if p not in plan and model[p]]
    extra = [p for p in plan if p not in model]
    for path in extra[:SHOWN]:
        near = _same_tables(plan[path], {p: model[p] for p in lost}) or nearest(path, lost)
        if near is not None:
            problems.append(
                Problem(
                    f"the plan's module {quote(path)} is not in the model, which has {quote(near)}",
                    "if it was renamed, pass "
                    f"modules={{{quote(path, _LONG)}: {quote(near, _LONG)}}}",
                )
            )
            lost.remove(near)
        else:
            problems.append(
                Problem(
                    f"the plan's module {quote(path)} is not in the model, "
                    f"whose modules are {quoted(model)}",
                    _AGAIN,
                )
            )
    if more := extra[SHOWN:]:
        problems.append(Problem(f"nor are the plan's modules {quoted(more)}", _AGAIN))
    for path in lost:
        problems.append(Problem(f"the model's module {quote(path)} is not in the plan", _AGAIN))
    for path, names in model.items():
        if path in plan:
            where = f"module {quote(path)}: " if path else ""
            _report(where, names, list(plan[path]), problems)
            matched |= {(path, n): plan[path][n] for n in names if n in plan[path]}
    return matched, problems


def _same_tables(entries: Mapping[str, _Entry], model: Mapping[str, list[str]]) -> str | None:
    same = [path for path, names in model.items() if set(names) == set(entries)]
    return same[0] if len(same) == 1 else None


def _report(where: str, model: list[str], plan: list[str], problems: list[Problem]) -> None:
    in_plan, in_model = set(plan), set(model)
    lost = [n for n in model if n not in in_plan]
    extra = [n for n in plan if n not in in_model]
    if lost:
        near = nearest(lost[0], extra)
        hint = f"{_AGAIN}; was {quote(near)} renamed to {quote(lost[0])}?" if near else _AGAIN
        problems.append(Problem(f"{where}tables missing in the plan: {quoted(lost)}", hint))
    if extra:
        problems.append(
            Problem(f"{where}tables of the plan that the model lacks: {quoted(extra)}", _AGAIN)
        )


# Shards. What TorchRec takes for granted and does not check. The tests show that
# these do not run, or run wrong in silence. Unequal slices on different ranks are not
# among these: they train, and only their checkpoints do not load.
#
#   blocks of rows of other sizes     rows are looked up on the wrong rank
#   empty blocks of rows              losses are wrong, weights infinite (on a CPU)
#   grid_shard of a table of means    sums come out
#   rows of a table of means, beside  the others, too, are divided by the lengths of
#   tables of the module that are     their bags
#   not split by rows
#   slices of different widths of     the weights cannot be loaded
#   one table on one rank


def _joined(t: Named, kind: kinds.Kind, p: Placement) -> Placement:
    """Returns the placement with the slices of a table that lie on one rank made one,
    where they differ in width. The slices take the columns in order, rank by rank. A
    single slice is a whole table, and fuses with whole tables, in the sharding type that
    TorchRec has for whole tables of the module."""
    if p.sharding_type == "table_wise":
        return replace(p, sharding_type=kind.whole)
    if p.sharding_type not in ("column_wise", "table_column_wise"):
        return p
    if len(p.shards) == 1:
        return replace(p, sharding_type=kind.whole)
    widths: dict[int, list[int]] = {}
    for s in p.shards:
        widths.setdefault(s.rank, []).append(s.columns)
    if all(len(set(w)) == 1 for w in widths.values()):
        return p
    shards: list[Shard] = []
    column = 0
    for rank, own in widths.items():
        for width in own if len(set(own)) == 1 else [sum(own)]:
            shards.append(Shard(0, column, t.table.rows, width, rank))
            column += width
    log.info('table "%s": slices of different widths on one rank are made one', t.name)
    now = kind.whole if len(shards) == 1 else p.sharding_type
    return replace(p, sharding_type=now, shards=tuple(shards))


def _geometry(
    t: Named, kind: kinds.Kind, entry: _Entry, world_size: int, local_size: int
) -> list[Problem]:
    """Returns why the shards of a table cannot be run, at most one reason."""
    p, rows, dim = entry.placement, t.table.rows, t.table.dim
    if not p.sharding_type:  # reported already
        return []
    problem: tuple[str, str] | None
    shape = entry.shape
    if shape is None and p.shards:
        shape = (max(s.row + s.rows for s in p.shards), max(s.column + s.columns for s in p.shards))
    if (p.kernel == _DENSE) != (p.sharding_type == "data_parallel"):
        problem = (f"compute kernel {p.kernel} does not go with {p.sharding_type}", _EXPORT)
    elif shape is not None and shape != (rows, dim):
        problem = (f"the plan has {shape[0]} x {shape[1]}, the model {rows} x {dim}", _AGAIN)
    elif foreign := [s.rank for s in p.shards if s.rank >= world_size]:
        problem = (f"rank {foreign[0]} is not below {world_size}", _AGAIN)
    elif p.sharding_type == "grid_shard" and t.table.mean:
        hint = "plan it in another way: TorchRec would sum where the table takes means"
        problem = ("grid_shard does not go with mean pooling", hint)
    elif p.sharding_type not in t.table.types:
        hint = f"TorchRec runs {', '.join(t.table.types)}"
        problem = (f"{p.sharding_type} does not go with {_owner(t, kind)}", hint)
    else:
        problem = _layout(p, rows, dim, world_size, local_size)
        problem = problem or _buckets(p, t.table.buckets, rows)
    return [Problem(f"table {quote(t.name)}: {problem[0]}", problem[1])] if problem else []


def _means(tables: Sequence[Named], matched: Mapping[tuple[str, str], _Entry]) -> list[Problem]:
    """Returns a problem for each module whose means TorchRec would get wrong."""
    rows: dict[str, str] = {}  # by module, a table of means that is split by rows
    others: dict[str, str] = {}
    for t in tables:
        entry = matched.get((t.path, t.table.name))
        if entry is None or not entry.placement.sharding_type:
            continue
        if entry.placement.sharding_type in ("row_wise", "table_row_wise"):
            if t.table.mean:
                rows.setdefault(t.path, t.name)
        else:
            others.setdefault(t.path, t.name)
    return [
        Problem(
            f"table {quote(rows[path])} takes means and is split by rows, and "
            f"{quote(others[path])} of the same module is not: TorchRec would divide that one, too",
            f"place {quote(rows[path])} in another way, or split all tables of the module by rows",
        )
        for path in rows
        if path in others
    ]


def _owner(t: Named, kind: kinds.Kind) -> str:
    """Returns the name of a table's module for a message, and its means if these matter."""
    return f"{'means of ' if t.table.mean else ''}{kind.name}"


def _buckets(p: Placement, buckets: int, rows: int) -> tuple[str, str] | None:
    """Returns why blocks of rows cut the buckets that a module hashes ids into."""
    size = rows // buckets if buckets and rows % buckets == 0 else 0
    if not buckets or (size and all(s.row % size == 0 for s in p.shards)):
        return None
    hint = "make its total_num_buckets a multiple of the ranks, and its rows one of the buckets"
    return f"{p.sharding_type} cuts its {buckets} buckets of ids", hint


def _widths(
    tables: Sequence[Named],
    of: Mapping[str, kinds.Kind],
    matched: Mapping[tuple[str, str], _Entry],
) -> list[Problem]:
    """Returns a problem for each module with slices of different widths where TorchRec takes
    all of them for slices of one width."""
    first: dict[str, tuple[str, int]] = {}  # by module, a table and its width
    problems: dict[str, Problem] = {}
    for t in tables:
        entry = matched.get((t.path, t.table.name))
        if entry is None or not of[t.path].one_width:
            continue
        if entry.placement.sharding_type != "column_wise":
            continue
        for s in entry.placement.shards:
            name, width = first.setdefault(t.path, (t.name, s.columns))
            if s.columns != width and t.path not in problems:
                problems[t.path] = Problem(
                    f"tables {quote(name)} and {quote(t.name)}: slices of {width} and of "
                    f"{s.columns} columns in one {of[t.path].name}: TorchRec takes all for the "
                    "width of the first",
                    "cut all tables of the module into slices of one width",
                )
    return list(problems.values())


def _layout(
    p: Placement, rows: int, dim: int, world_size: int, local_size: int
) -> tuple[str, str] | None:
    shards, host = p.shards, p.shards[0].rank // local_size if p.shards else 0
    on_host = list(range(host * local_size, min((host + 1) * local_size, world_size)))
    if p.sharding_type == "table_wise" and len(shards) != 1:
        return f"table_wise has one shard, not {len(shards)}", _AGAIN
    if p.sharding_type in ("column_wise", "table_column_wise"):
        if p.sharding_type == "table_column_wise" and any(s.rank not in on_host for s in shards):
            return "the shards of table_column_wise are not on one host", _AGAIN
        if any((s.row, s.rows) != (0, rows) for s in shards):
            return f"the shards of {p.sharding_type} do not have all rows", _AGAIN
        return _columns([(s.column, s.columns) for s in shards], dim)
    if p.sharding_type in ("row_wise", "table_row_wise"):
        ranks = list(range(world_size)) if p.sharding_type == "row_wise" else on_host
        if any((s.column, s.columns) != (0, dim) for s in shards):
            return f"the shards of {p.sharding_type} do not have all columns", _AGAIN
        return _blocks(p.sharding_type, shards, ranks, rows)
    if p.sharding_type == "grid_shard":
        groups = [shards[i : i + local_size] for i in range(0, len(shards), local_size)]
        for group in groups:
            first = group[0].rank // local_size * local_size
            ranks = list(range(first, first + local_size))
            if len({(s.column, s.columns) for s in group}) != 1:
                return f"the shards of grid_shard are not {local_size} for each slice", _AGAIN
            if problem := _blocks(p.sharding_type, group, ranks, rows):
                return problem
        hosts: dict[int, set[int]] = {}
        for g in groups:
            hosts.setdefault(g[0].rank, set()).add(g[0].columns)
        if any(len(w) > 1 for w in hosts.values()):
            hint = "make them alike, or put them on different hosts"
            return "slices of grid_shard on one host differ in width", hint
        return _columns([(g[0].column, g[0].columns) for g in groups], dim)
    if p.sharding_type == "table_wise":
        if (shards[0].row, shards[0].rows) != (0, rows):
            return "the shard of table_wise does not have all rows", _AGAIN
        return _columns([(shards[0].column, shards[0].columns)], dim)
    return None


def _columns(spans: Sequence[tuple[int, int]], dim: int) -> tuple[str, str] | None:
    """Returns why slices of columns cannot be run."""
    for start, width in spans:
        if width < 1 or width % GRANULE or start % GRANULE:
            hint = f"cut at multiples of {GRANULE}"
            return f"columns {start} to {start + width} are not multiples of {GRANULE}", hint
    ends = [(0, 0), *spans, (dim, 0)]
    for (start, width), (following, _) in pairwise(ends):
        if start + width != following:
            what = "a gap" if start + width < following else "an overlap"
            hint = "list the shards by their first column"
            return f"its columns have {what} at {min(start + width, following)}", hint
    return None


def _blocks(
    sharding_type: str, shards: Sequence[Shard], ranks: list[int], rows: int
) -> tuple[str, str] | None:
    """Returns why blocks of rows cannot be run: TorchRec finds a row's rank by
    dividing by the size of a block, the same on all ranks but the last."""
    block = -(-rows // len(ranks))
    if block * (len(ranks) - 1) >= rows:
        hint = "place it table_wise or data_parallel"
        return f"{sharding_type} leaves ranks without any of its {rows} rows", hint
    hint = f"blocks of {block} rows, one a rank, the last one shorter"
    if [s.rank for s in shards] != ranks:
        which = f"ranks {ranks[0]} to {ranks[-1]}"
        return f"the shards of {sharding_type} are not one for each of {which}", hint
    for i, s in enumerate(shards):
        if s.row != i * block or s.rows != min(block, rows - i * block):
            return f"{sharding_type} has rows {s.row} to {s.row + s.rows} on rank {s.rank}", hint
    return None
