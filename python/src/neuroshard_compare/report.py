"""The outcome of a comparison, as a table in Markdown."""

from __future__ import annotations

from typing import Any

_HEADER = (
    "planner",
    "time to plan",
    "CPU",
    "cost max, ms",
    "cost mean, ms",
    "HBM max / min, GiB",
    "SIMULATED, ms",
    "sharding types",
)


def markdown(results: dict[str, Any]) -> str:
    """One table for each scenario of ``results``, the object that the command writes."""
    lines: list[str] = []
    for scenario in results["scenarios"]:
        memory = scenario["memory_bytes"] / 2**30
        lines += [
            f"**{scenario['name']}**: {scenario['tables']} tables on {scenario['devices']} devices"
            f" of {memory:.0f} GiB, {scenario['devices_per_host']} a host,"
            f" batch {scenario['batch']:,}, optimizer {scenario['optimizer']}",
            "",
            "| " + " | ".join(_HEADER) + " |",
            "|---|--:|--:|--:|--:|--:|--:|---|",
        ]
        for plan in scenario["plans"]:
            lines.append("| " + " | ".join(_row(plan)) + " |")
        lines.append("")
    return "\n".join(lines)


def _row(plan: dict[str, Any]) -> list[str]:
    name, time = plan["planner"], seconds(plan["plan_s"])
    if plan["limit_s"] is not None:
        name += f", limit {plan['limit_s']} s"
    if plan["hit_limit"]:
        time += " (limit)"
    # Of a planner that was ended from outside it is not known what it used.
    used = seconds(plan["cpu_s"]) if plan["cpu_s"] else "-"
    if plan["error"]:
        return [name, time, used, *"----", plan["error"].replace("|", "\\|")]
    estimate = plan["estimate"]
    hbm = [b / 2**30 for b in (max(estimate["hbm_bytes"]), min(estimate["hbm_bytes"]))]
    return [
        name,
        time,
        used,
        f"{estimate['max_ms']:.3f}",
        f"{estimate['mean_ms']:.3f}",
        f"{hbm[0]:.1f} / {hbm[1]:.1f}" + ("" if estimate["fits"] else " (too much)"),
        "no estimate" if plan["simulated_ms"] is None else f"{plan['simulated_ms']:.3f}",
        _sharding_types(plan),
    ]


def _sharding_types(plan: dict[str, Any]) -> str:
    words = [f"{count} {name}" for name, count in plan["sharding_types"].items()]
    split = plan["slices"]
    text = ", ".join(words)
    return f"{text} ({split} slices)" if split else text


def seconds(times: list[float]) -> str:
    """The median of times in seconds, with two or three digits."""
    t = sorted(times)[len(times) // 2]
    return f"{t * 1e3:.0f} ms" if t < 1 else f"{t:.1f} s" if t < 100 else f"{t:.0f} s"
