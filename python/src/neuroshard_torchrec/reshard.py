"""Moving the tables of a running job: from the plan that it runs under to a new one.

every rank   reads both plans; the old one must be the job's, the new one must be movable
all          agree, or none moves anything
every rank   makes new collections beside the old ones          _sharded.build
all          agree, or the new collections are dropped
             send weights and optimizer state to new owners     _pieces, _rounds, _transfer
every rank   puts the new collections into the old ones' place  _sharded.exchange

What is sent are rectangles of tables: each one that a shard of the old plan and a shard
of the new plan have in common. The rectangles follow from the plans, so every rank knows
what it sends and receives without asking. Rounds bound the memory of the buffers.
"""

from __future__ import annotations

import gc
import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist

from . import _sharded as sharded
from ._sharded import ELEMENTS, ROWS, WEIGHT, Rate, Sharded, Tensors
from ._torchrec import KERNELS, Placement, Shard
from .agree import together
from .errors import PlanError, Problem, quoted
from .plans import Ranks, placements, warn
from .tables import named

ROUND = 1 << 24
"""The most elements that a rank sends or receives in one round."""

STATE = "momentum1"
"""FBGEMM's name of the optimizer state that is moved: the only one of Adagrad and of
row-wise Adagrad."""

Plan = Mapping[str, Mapping[str, Placement]]
"""Where each table lies, by collection and name."""


@dataclass(frozen=True)
class Moved:
    """What ``reshard`` has done: the names of the tables that moved, the bytes that this
    rank has sent to and received from other ranks, the bytes that all ranks have sent, and
    the seconds from the call to the last rank's end."""

    tables: tuple[str, ...]
    sent: int
    received: int
    total: int
    seconds: float


def reshard(
    model: Any,
    old: Any,
    new: Any,
    *,
    local_size: int | None = None,
    device_type: str | None = None,
    modules: Mapping[str, str] | None = None,
) -> Moved:
    """Moves the tables of a running job to where a new plan has them, with their weights,
    their optimizer state and their learning rates. The job then trains on as if it had
    never moved. All ranks call it, between two steps; it returns on every rank when the
    last one is done.

    ``model`` is the DistributedModelParallel. ``old`` is the plan that it runs under, and
    ``new`` the next one, both in any of the forms that ``load_plan`` takes. ``old`` may be
    None; if it is stated, the model must be sharded as it says. ``local_size``,
    ``device_type`` and ``modules`` are those of ``load_plan``.

    PlanError lists all that cannot be moved, which docs/TORCHREC.md explains: these tables go by
    a checkpoint and a restart. If any rank refuses, no rank has changed anything, and the others
    raise RankError. While it runs, a rank holds its old and its new shards of each collection in
    which a table moves, and buffers of at most two times 64 MiB for weights in fp32.

    The model, its optimizer (``model.fused_optimizer``) and optimizers of the script stay
    the same objects. A pipeline of TorchRec must be detached first. A learning rate
    schedule that counts parameter groups must be made again.
    """
    begin = time.monotonic()
    group = sharded.group_of(model)
    ranks, after, abouts = _agreed(model, group, old, new, (local_size, device_type), modules)
    moves = [m for a in abouts if (m := _Move.of(a, after[a.collection.path], ranks))]
    made = _made(model, group, moves)
    device = sharded.device_of(model)
    counts = [_transfer(m, module, group, device) for m, module in zip(moves, made, strict=True)]
    sent, received = (sum(c[i] for c in counts) for i in (0, 1))
    total = sum(together(group, None, sent))
    for m, module in zip(moves, made, strict=True):
        sharded.exchange(model, m.about.collection, module)
    made.clear()
    gc.collect()  # the old collections have cycles
    if moves and group.rank() == 0:
        warn({name: p for m in moves for name, p in m.changed.items()})
    dist.barrier(group=group)
    tables = tuple(name for m in moves for name in m.changed)
    return Moved(tables, sent, received, total, time.monotonic() - begin)


# What the ranks agree on.


@dataclass(frozen=True)
class _About:
    """A collection, and what the ranks know of its tables together: their names among the
    tables of the model, their optimizer state by table and name, and their learning
    rates."""

    collection: Sharded
    names: Mapping[str, str]
    states: Mapping[str, Mapping[str, int]]
    rates: Mapping[str, Rate]


def _agreed(
    model: Any,
    group: dist.ProcessGroup,
    old: Any,
    new: Any,
    machine: tuple[int | None, str | None],
    modules: Mapping[str, str] | None,
) -> tuple[Ranks, Plan, list[_About]]:
    """Returns the ranks, the new plan, and what is known of each collection, if every rank
    finds that the new plan can be moved to. Else it raises on every rank."""
    failure: Exception | None = None
    found: list[Sharded] = []
    after: Plan = {}
    ranks = None
    told: Any = None
    try:
        found, problems = sharded.collect(model)
        device_type = machine[1] or sharded.device_of(model).type
        ranks = Ranks.of(group, machine[0], device_type)
        after, more = _read(found, old, new, ranks, modules)
        if problems := [*problems, *more]:
            raise PlanError(problems)
        digest = hashlib.sha256(repr(after).encode()).hexdigest()
        told = (
            digest,
            [
                ({}, {}) if s.fixed else (sharded.states(s.module), sharded.rates(s.module))
                for s in found
            ],
        )
    except Exception as e:  # of any type: the other ranks wait for it
        failure = e
    reports = together(group, failure, told)
    assert ranks is not None
    for r, (digest, _) in enumerate(reports):
        if digest != reports[0][0]:
            message = f"ranks 0 and {r} have read different new plans"
            raise PlanError([Problem(message, "give every rank the same file")])
    names = {(t.path, t.table.name): t.name for t in named([s.collected for s in found])}
    abouts = []
    for i, s in enumerate(found):
        states: dict[str, Mapping[str, int]] = {}
        rates: dict[str, Rate] = {}
        for _, collections in reports:
            states |= collections[i][0]
            rates |= collections[i][1]
        own = {name: names[s.path, name] for name in s.placements}
        abouts.append(_About(s, own, states, rates))
    if problems := _unmovable(abouts, after):  # the same ones on all ranks
        raise PlanError(problems)
    return ranks, after, abouts


def _read(
    found: Sequence[Sharded],
    old: Any,
    new: Any,
    ranks: Ranks,
    modules: Mapping[str, str] | None,
) -> tuple[Plan, list[Problem]]:
    """Returns the new plan, and what is wrong with both."""
    collected = [s.collected for s in found]
    problems: list[Problem] = []
    if old is not None:
        before, wrong = placements(old, collected, ranks, modules)
        problems += [replace(p, message=f"old plan: {p.message}") for p in wrong]
        if not wrong and (elsewhere := _elsewhere(found, before)):
            message = f"the model is not sharded as the old plan says: {quoted(elsewhere)}"
            hint = "give the plan that the job runs under, or None"
            problems.append(Problem(message, hint))
    after, wrong = placements(new, collected, ranks, modules)
    problems += [replace(p, message=f"new plan: {p.message}") for p in wrong]
    return after, problems


def _elsewhere(found: Sequence[Sharded], plan: Plan) -> list[str]:
    """Returns the tables that do not lie where a plan says. The number of an operator does
    not count."""

    def key(p: Placement) -> Any:
        return p.sharding_type, p.kernel, sorted((s.column, s.row, s) for s in p.shards)

    return [
        name for s in found for name, p in s.placements.items() if key(p) != key(plan[s.path][name])
    ]


_CHECKPOINT = "write a checkpoint and start again under the new plan: docs/TORCHREC.md, Checkpoints"


def _unmovable(abouts: Sequence[_About], after: Plan) -> list[Problem]:
    """Returns a problem for each reason why tables cannot be moved, with their names."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for a in abouts:
        for name, before in a.collection.placements.items():
            now = after[a.collection.path][name]
            if a.collection.fixed:
                if now != before:
                    reasons[a.collection.fixed].append(a.names[name])
                continue
            for reason in _reasons(before, now, a.states.get(name, {})):
                reasons[reason].append(a.names[name])
    return [Problem(f"{quoted(names)}: {why}", _CHECKPOINT) for why, names in reasons.items()]


def _reasons(before: Placement, after: Placement, states: Mapping[str, int]) -> Iterator[str]:
    """Yields why a table cannot be moved in a running job."""
    replicated = before.sharding_type == "data_parallel"
    if replicated != (after.sharding_type == "data_parallel"):
        change = "ceases to be" if replicated else "becomes"
        yield f"a table that {change} replicated (data_parallel) changes its optimizer"
        return
    if replicated or before == after:
        return
    if before.kernel not in KERNELS:
        yield f"tables of the compute kernel {before.kernel} are not moved"
    for name, kind in states.items():
        if name != STATE or kind not in (ROWS, ELEMENTS):
            yield f"the optimizer keeps {name}, which is not moved"
        elif kind == ROWS and _columns(before) != _columns(after):
            yield (
                "row-wise Adagrad has one number for each row of a slice, and the new plan "
                "cuts the columns in other places"
            )


def _columns(p: Placement) -> set[tuple[int, int]]:
    return {(s.column, s.columns) for s in p.shards}


# New collections.


@dataclass(frozen=True)
class _Move:
    """A collection in which tables move: where each table will be, TorchRec's
    ParameterSharding of each, and the placements of those that change, by their names
    among the tables of the model."""

    about: _About
    after: Mapping[str, Placement]
    shardings: Mapping[str, Any]
    changed: Mapping[str, Placement]

    @classmethod
    def of(cls, about: _About, plan: Mapping[str, Placement], ranks: Ranks) -> _Move | None:
        """Returns None if no table of the collection changes."""
        if about.collection.fixed:
            return None
        running = about.collection.module.module_sharding_plan
        after, shardings, changed = dict(about.collection.placements), dict(running), {}
        for name, before in about.collection.placements.items():
            if plan[name] == before or before.sharding_type == "data_parallel":
                continue
            after[name] = changed[about.names[name]] = plan[name]
            shardings[name] = sharded.sharding_of(
                plan[name], running[name], ranks.device_type, ranks.local_size
            )
        return cls(about, after, shardings, changed) if changed else None


def _made(model: Any, group: dist.ProcessGroup, moves: Sequence[_Move]) -> list[Any]:
    """Returns the new collections; on every rank, or on none."""
    made: list[Any] = []
    failure: Exception | None = None
    try:
        for m in moves:
            made.append(sharded.build(model, m.about.collection, m.shardings))
            if problems := sharded.set_rates(made[-1], m.about.rates):
                raise PlanError(problems)
    except Exception as e:  # out of memory, perhaps
        failure = e
    together(group, failure)
    return made


# What is sent.


@dataclass(frozen=True)
class _Piece:
    """A rectangle of one of a table's tensors that goes from a shard of one rank to a
    shard of another one, or of the same one. A shard is the number of the table's shard
    among those of its rank. Columns count only if the tensor has them."""

    table: str
    tensor: str
    kind: int
    source: int
    source_shard: int
    target: int
    target_shard: int
    rows: tuple[int, int]
    columns: tuple[int, int]

    @property
    def elements(self) -> int:
        rows = self.rows[1] - self.rows[0]
        return rows * (self.columns[1] - self.columns[0]) if self.kind == ELEMENTS else rows

    def of(self, held: Tensors, shard: int, placed: Shard) -> torch.Tensor:
        """Returns the rectangle of the tensor of a shard, which lies at placed."""
        tensor = held[self.table, self.tensor][shard]
        rows = tensor[self.rows[0] - placed.row : self.rows[1] - placed.row]
        if self.kind == ROWS:
            return rows
        return rows[:, self.columns[0] - placed.column : self.columns[1] - placed.column]


def _pieces(move: _Move) -> Iterator[_Piece]:
    """Yields everything that a collection's new shards need, in the same order on all
    ranks."""
    before = move.about.collection.placements
    for table in sorted(before):
        tensors = {WEIGHT: ELEMENTS, **move.about.states.get(table, {})}
        for source, i, old in _numbered(before[table]):
            for target, j, new in _numbered(move.after[table]):
                rows = max(old.row, new.row), min(old.row + old.rows, new.row + new.rows)
                columns = (
                    max(old.column, new.column),
                    min(old.column + old.columns, new.column + new.columns),
                )
                if rows[0] < rows[1] and columns[0] < columns[1]:
                    for tensor, kind in sorted(tensors.items()):
                        yield _Piece(table, tensor, kind, source, i, target, j, rows, columns)


def _numbered(p: Placement) -> list[tuple[int, int, Shard]]:
    """Returns each shard's rank, its number among the table's shards there, and the shard."""
    counts: Counter[int] = Counter()
    out = []
    for s in p.shards:
        out.append((s.rank, counts[s.rank], s))
        counts[s.rank] += 1
    return out


def _rounds(pieces: Iterable[_Piece]) -> Iterator[list[_Piece]]:
    """Yields the pieces in rounds in which no rank sends or receives more than ROUND
    elements. Larger pieces are cut by rows."""
    batch: list[_Piece] = []
    sent: Counter[int] = Counter()
    received: Counter[int] = Counter()
    for piece in pieces:
        step = max(1, ROUND * (piece.rows[1] - piece.rows[0]) // piece.elements)
        for first in range(*piece.rows, step):
            part = replace(piece, rows=(first, min(first + step, piece.rows[1])))
            n = part.elements
            if batch and max(sent[part.source], received[part.target]) + n > ROUND:
                yield batch
                batch = []
                sent.clear()
                received.clear()
            batch.append(part)
            sent[part.source] += n
            received[part.target] += n
    if batch:
        yield batch


def _transfer(
    move: _Move, module: Any, group: dist.ProcessGroup, device: torch.device
) -> tuple[int, int]:
    """Fills a new collection from the old ones of all ranks. It returns the bytes that this
    rank has sent and received."""
    rank = group.rank()
    old, new = sharded.tensors(move.about.collection.module), sharded.tensors(module)
    before = {t: _numbered(p) for t, p in move.about.collection.placements.items()}
    after = {t: _numbered(p) for t, p in move.after.items()}

    def source(p: _Piece) -> torch.Tensor:
        return p.of(old, p.source_shard, _placed(before[p.table], p.source, p.source_shard))

    def target(p: _Piece) -> torch.Tensor:
        return p.of(new, p.target_shard, _placed(after[p.table], p.target, p.target_shard))

    between: list[_Piece] = []
    sent = received = 0
    with torch.no_grad():
        for p in _pieces(move):
            if p.source != p.target:
                between.append(p)
            elif p.source == rank:
                target(p).copy_(source(p))
        for batch in _rounds(between):
            outgoing = sorted((p for p in batch if p.source == rank), key=lambda p: p.target)
            incoming = sorted((p for p in batch if p.target == rank), key=lambda p: p.source)
            parts = [_bytes(source(p)) for p in outgoing]
            empty = torch.empty(0, dtype=torch.uint8, device=device)
            send = torch.cat([empty, *parts])
            to, of = [0] * group.size(), [0] * group.size()
            for p, part in zip(outgoing, parts, strict=True):
                to[p.target] += part.numel()
            for p in incoming:
                of[p.source] += target(p).nbytes
            receive = torch.empty(sum(of), dtype=torch.uint8, device=device)
            dist.all_to_all_single(receive, send, of, to, group=group)
            at = 0
            for p in incoming:
                tensor = target(p)
                # A copy, so that it begins where its number format may.
                part = receive[at : at + tensor.nbytes].clone()
                tensor.copy_(part.view(tensor.dtype).view(tensor.shape))
                at += tensor.nbytes
            sent, received = sent + send.numel(), received + receive.numel()
    return sent, received


def _placed(shards: Sequence[tuple[int, int, Shard]], rank: int, number: int) -> Shard:
    return next(s for r, n, s in shards if (r, n) == (rank, number))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)
