"""The comparison as a text: its verdict, and a table."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable
from typing import Any


def seconds(times: list[float]) -> str:
    """The median of times in seconds, with two or three digits."""
    t = sorted(times)[len(times) // 2]
    return f"{t * 1e3:.0f} ms" if t < 1 else f"{t:.1f} s" if t < 100 else f"{t:.0f} s"


def verdict(plans: list[dict[str, Any]]) -> dict[str, Any]:
    """What came out: a title, and a line for each judge."""
    theirs, ours = plans[:2]
    if theirs["error"]:
        return {"title": "TorchRec's planner found no plan", "lines": []}
    title = "the plans were not estimated alike"
    lines: list[dict[str, str]] = []
    for judge, key, name, by in _JUDGES:
        one, other = ((p[judge] or {}).get(key) for p in (ours, theirs))
        if not one or not other:
            continue
        share = 100 * (1 - one / other)
        words = f"{abs(share):.2g} % {'less' if share > 0 else 'more'} time than"
        if abs(share) < 0.05:
            words = "as much time as"
        if not lines:
            title = f"neuroshard's plan takes {words} TorchRec's"
        value = f"{one:.3f} ms, {words} TorchRec's plan ({other:.3f} ms); {by}"
        lines.append({"name": name, "value": value})
    return {"title": title, "lines": lines}


_JUDGES = (
    ("neuroshard", "simulated_cost_ms", "time", "SIMULATED (± 22 %, of 36 plans on an H200)"),
    ("torchrec", "cost_ms", "estimator", "by TorchRec's own estimator"),
)
_NEXT = "train with NeuroShardPlanner in place of TorchRec's planner: docs/TORCHREC.md"


def beside(results: dict[str, Any]) -> str:
    """The comparison of a model: the verdict, and a table with a plan in each column."""
    plans = results["plans"]
    rows = [("", [p["planner"].split(", ")[-1] for p in plans])]
    for label, one in _MEASURES:
        rows.append((label, [one(p) for p in plans]))
    for name in dict.fromkeys(name for p in plans for name in p["sharding_types"]):
        rows.append((f"tables {name}", [str(p["sharding_types"].get(name, 0)) for p in plans]))
    widths = [max(len(row[i]) for _, row in rows) for i in range(len(plans))]
    first = max(len(label) for label, _ in rows)
    memory = results["memory_bytes"] / 2**30
    cluster = (
        f"{results['tables']} tables on {results['devices']} x"
        f" {results['profile']} of {memory:.4g} GiB, {results['devices_per_host']} a host,"
        f" batch {results['batch_per_rank']:,} a device"
    )
    answer = results["verdict"]
    facts = [(line["name"], line["value"]) for line in answer["lines"]]
    facts += [("next", _NEXT), ("model", cluster)]
    lines = [f"{results['model']}: {answer['title']}", ""]
    lines += [f"{name:<10} {value}" for name, value in facts] + [""]
    for label, row in rows:
        cells = "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True))
        lines.append(f"{label:<{first}}  {cells}".rstrip())
    lines += ["", *_notes(plans)]
    return "\n".join(_wrapped(line) for line in lines)


def _wrapped(line: str) -> str:
    """A line, broken between words on a terminal that is too narrow."""
    if not sys.stdout.isatty():
        return line
    width = shutil.get_terminal_size().columns
    return textwrap.fill(
        line,
        width,
        subsequent_indent=" " * 11 if line[10:11] == " " else "",
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
        replace_whitespace=False,
    )


def _notes(plans: list[dict[str, Any]]) -> list[str]:
    notes = [
        "Times are of one step, of the slowest device. No time was measured. TorchRec's planner and"
        " the last plan's search go by TorchRec's EmbeddingPerfEstimator."
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
    ("time, SIMULATED", _value("neuroshard", "simulated_cost_ms", 1, ".3f", "ms")),
    ("time, TorchRec's estimator", _value("torchrec", "cost_ms", 1, ".3f", "ms")),
    ("memory, neuroshard's count", _value("neuroshard", "fullest_bytes", 2**30, ".2f", "GiB")),
    ("memory, TorchRec's count", _value("torchrec", "fullest_bytes", 2**30, ".2f", "GiB")),
)
