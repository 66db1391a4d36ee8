"""Placements: which rank holds which part of each table, whoever decided it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

FUSED = "fused"  # TorchRec's kernel for weights in HBM

# Kinds whose shards are whole columns of all rows. Only these have a price on the
# SIMULATED device so far.
COLUMN_SLICES = ("table_wise", "column_wise", "table_column_wise")


@dataclass(frozen=True)
class Shard:
    """A part of a table on one rank. Ranges are the first, and the one after the last."""

    rank: int
    rows: tuple[int, int]
    columns: tuple[int, int]


@dataclass(frozen=True)
class PlacedTable:
    """A table with its kind of sharding and its compute kernel, in TorchRec's words."""

    name: str
    kind: str
    kernel: str
    shards: tuple[Shard, ...]


Placement = tuple[PlacedTable, ...]


def to_json(placement: Placement) -> list[Any]:
    """The placement as JSON: ``from_json`` reads it back."""
    return [
        [t.name, t.kind, t.kernel, [[s.rank, *s.rows, *s.columns] for s in t.shards]]
        for t in placement
    ]


def from_json(data: list[Any]) -> Placement:
    """Reads what ``to_json`` wrote."""
    return tuple(
        PlacedTable(name, kind, kernel, tuple(Shard(r, (a, b), (c, d)) for r, a, b, c, d in shards))
        for name, kind, kernel, shards in data
    )


def kinds(placement: Placement) -> dict[str, int]:
    """How many tables there are of each kind, the most frequent first.

    A kernel other than the fused one in HBM is named with the kind.
    """
    counts = Counter(t.kind if t.kernel == FUSED else f"{t.kind} ({t.kernel})" for t in placement)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def unpriced(placement: Placement) -> str:
    """Why the placement has no price on the SIMULATED device; empty where it has one."""
    others = [t for t in placement if t.kind not in COLUMN_SLICES or t.kernel != FUSED]
    return ", ".join(kinds(tuple(others)))
