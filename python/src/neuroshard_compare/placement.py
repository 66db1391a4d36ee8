"""Placements: which rank holds which part of each table, whoever decided it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

FUSED = "fused"  # TorchRec's kernel for weights in HBM
DENSE = "dense"  # and for copies of a table there

# Sharding types whose shards are whole columns of all rows.
COLUMN_SLICES = ("table_wise", "column_wise", "table_column_wise")


@dataclass(frozen=True)
class Shard:
    """A part of a table on one rank. Ranges are the first, and the one after the last."""

    rank: int
    rows: tuple[int, int]
    columns: tuple[int, int]


@dataclass(frozen=True)
class PlacedTable:
    """A table with its sharding type and its compute kernel, in TorchRec's words."""

    name: str
    sharding_type: str
    kernel: str
    shards: tuple[Shard, ...]
    operator: int = 0  # on each rank, among those that its shards could be in


Placement = tuple[PlacedTable, ...]


def to_json(placement: Placement) -> list[Any]:
    """The placement as JSON: ``from_json`` reads it back."""
    return [
        [
            *(t.name, t.sharding_type, t.kernel),
            [[s.rank, *s.rows, *s.columns] for s in t.shards],
            t.operator,
        ]
        for t in placement
    ]


def from_json(data: list[Any]) -> Placement:
    """Reads what ``to_json`` wrote."""
    return tuple(
        PlacedTable(
            name,
            sharding_type,
            kernel,
            tuple(Shard(r, (a, b), (c, d)) for r, a, b, c, d in shards),
            operator,
        )
        for name, sharding_type, kernel, shards, operator in data
    )


def sharding_types(placement: Placement) -> dict[str, int]:
    """The number of tables of each sharding type, the most frequent type first.

    A kernel other than the one of the type in HBM is named with it.
    """
    counts = Counter(
        t.sharding_type if in_hbm(t) else f"{t.sharding_type} ({t.kernel})" for t in placement
    )
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def in_hbm(table: PlacedTable) -> bool:
    """Whether the table lies in HBM, with the kernel that training has there."""
    return table.kernel == (DENSE if table.sharding_type == "data_parallel" else FUSED)


def not_estimated(placement: Placement) -> str:
    """Why the SIMULATED device gives no cost of the placement; empty if it gives one.

    A placement does not state the memory of hosts or the caches in HBM.
    """
    return ", ".join(sharding_types(tuple(t for t in placement if not in_hbm(t))))


def serialized(placement: Placement, devices_per_host: int) -> dict[str, Any]:
    """The placement as TorchRec serializes a ShardingPlan of one module, with the numbers of
    operators that ``neuroshard import`` reads."""
    return {"plan": {"ebc": {t.name: _serialized(t, devices_per_host) for t in placement}}}


def _serialized(table: PlacedTable, devices_per_host: int) -> dict[str, Any]:
    shards = sorted(table.shards, key=lambda s: (s.columns[0], s.rows[0], s.rank))
    entry: dict[str, Any] = {
        "sharding_type": table.sharding_type,
        "compute_kernel": table.kernel,
        "ranks": [s.rank for s in shards],
    }
    if table.operator:
        entry["operator"] = table.operator
    if table.sharding_type != "data_parallel":
        entry["shards"] = [
            {
                "shard_offsets": [s.rows[0], s.columns[0]],
                "shard_sizes": [s.rows[1] - s.rows[0], s.columns[1] - s.columns[0]],
                "placement": f"rank:{s.rank}/cuda:{s.rank % devices_per_host}",
            }
            for s in shards
        ]
    return entry
