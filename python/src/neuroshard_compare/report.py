"""The comparison as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def seconds(times: list[float]) -> str:
    """The median of times in seconds, with two or three digits."""
    t = sorted(times)[len(times) // 2]
    return f"{t * 1e3:.0f} ms" if t < 1 else f"{t:.1f} s" if t < 100 else f"{t:.0f} s"


def beside(results: dict[str, Any]) -> str:
    """The comparison of a model: a plan in each column, a measure in each line."""
    plans = results["plans"]
    rows = [("", [p["planner"] for p in plans])]
    for label, one in _MEASURES:
        rows.append((label, [one(p) for p in plans]))
    for name in dict.fromkeys(name for p in plans for name in p["sharding_types"]):
        rows.append((f"tables {name}", [str(p["sharding_types"].get(name, 0)) for p in plans]))
    widths = [max(len(row[i]) for _, row in rows) for i in range(len(plans))]
    first = max(len(label) for label, _ in rows)
    memory = results["memory_bytes"] / 2**30
    lines = [
        f"{results['model']}: {results['tables']} tables on {results['devices']} x"
        f" {results['profile']} of {memory:.4g} GiB, {results['devices_per_host']} a host,"
        f" batch {results['batch_per_rank']:,} a device",
        "",
    ]
    for label, row in rows:
        cells = "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True))
        lines.append(f"{label:<{first}}  {cells}".rstrip())
    lines += ["", *_notes(plans)]
    return "\n".join(lines)


def _notes(plans: list[dict[str, Any]]) -> list[str]:
    notes = [
        "Costs are of one step, of the slowest device. No cost was measured: SIMULATED is"
        " neuroshard's simulated device,",
        "the other one TorchRec's EmbeddingPerfEstimator, by which TorchRec's planner and the last"
        " plan search.",
    ]
    for p in plans:
        if p["error"]:
            notes.append(f"{p['planner']}: no plan: {p['error']}")
        if p["hit_limit"]:
            notes.append(
                f"{p['planner']}: --limit ended the search; with more time, its plan may cost less"
            )
        if p["not_estimated"]:
            notes.append(f"{p['planner']}: not estimated: {p['not_estimated']}")
    return notes


def _value(judge: str, key: str, unit: float, digits: str, word: str) -> Callable[[Any], str]:
    def cell(plan: dict[str, Any]) -> str:
        value = (plan[judge] or {}).get(key)
        return "-" if value is None else f"{value / unit:{digits}} {word}"

    return cell


_MEASURES: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("time to plan", lambda p: seconds(p["plan_s"]) if p["plan_s"] else "-"),
    ("cost, SIMULATED", _value("neuroshard", "simulated_cost_ms", 1, ".3f", "ms")),
    ("cost by TorchRec's estimator", _value("torchrec", "cost_ms", 1, ".3f", "ms")),
    (
        "fullest device by neuroshard's count",
        _value("neuroshard", "fullest_bytes", 2**30, ".2f", "GiB"),
    ),
    (
        "fullest device by TorchRec's count",
        _value("torchrec", "fullest_bytes", 2**30, ".2f", "GiB"),
    ),
)
