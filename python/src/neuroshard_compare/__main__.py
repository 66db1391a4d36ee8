"""``python -m neuroshard_compare``: both planners on the same scenarios, one table.

With MODULE:FUNCTION it compares them on a model of the user's (``model``).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from . import model, report, scenario
from .binary import Binary, BinaryError
from .placement import Placement, from_json, not_estimated, sharding_types
from .scenario import Scenario, ScenarioError

# A plan that took longer is not made again to take the median of its times.
_LONG = 10.0

# What is kept of a plan whose cost is estimated again.
_FACTS = ("limit_s", "plan_s", "cpu_s", "process_s", "hit_limit", "error", "placement")

# A flag of neuroshard plan, for what TorchRec's planner may do, too.
_COLUMNS = ("--sharding-types", "table_wise,column_wise")


def main(args: list[str] | None = None) -> int:
    """Runs the comparison; 0 when it is written, 2 where something is wrong."""
    given = sys.argv[1:] if args is None else args
    if any(model.REFERENCE.fullmatch(a) and not Path(a).exists() for a in given):
        return model.main(given)
    options = _parser().parse_args(args)
    # FBGEMM and TorchRec warn of versions and of tables without weights, each time.
    logging.disable(logging.WARNING)
    try:
        _compare(options)
    except (ScenarioError, BinaryError, OSError) as e:
        for line in str(e).splitlines():
            print(f"neuroshard_compare: error: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    finally:
        logging.disable(logging.NOTSET)
    return 0


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m neuroshard_compare",
        description="Plans scenarios with TorchRec's planner and with neuroshard, and estimates"
        " all plans alike: with TorchRec's estimator, and on neuroshard's SIMULATED device.",
        epilog="With MODULE:FUNCTION in the place of scenarios it compares the planners on a model"
        " of yours: python -m neuroshard_compare MODULE:FUNCTION --help",
    )
    p.add_argument(
        "scenarios",
        nargs="*",
        metavar="SCENARIO",
        help=f"a file, or one of {', '.join(scenario.bundled())}; without any, all of these",
    )
    p.add_argument("--out", required=True, type=Path, help="folder for engines.json, engines.md")
    p.add_argument(
        "--binary",
        default=os.environ.get("NEUROSHARD_BINARY", "neuroshard"),
        help="the Go program; $NEUROSHARD_BINARY, else the one on PATH",
    )
    p.add_argument("--device", default="a100-80", help="neuroshard's device profile")
    p.add_argument(
        "--limits",
        default="60,200",
        help="seconds that TorchRec's planner is given; a longer one only where the last was hit",
    )
    p.add_argument("--min-partition", type=int, default=32, help="narrowest slice")
    p.add_argument(
        "--torchrec-from",
        type=Path,
        metavar="FILE",
        help="an earlier engines.json: TorchRec's plans are taken from it and estimated again,"
        " not made again",
    )
    p.add_argument("--repeats", type=int, default=3, help="plans made, for the median of times")
    return p


def _compare(options: argparse.Namespace) -> None:
    try:
        limits = [int(limit) for limit in options.limits.split(",")]
    except ValueError:
        limits = []
    if not limits or min(limits) < 1 or limits != sorted(set(limits)):
        raise ScenarioError(f"--limits {options.limits} is not a list of rising seconds: 60,200")
    if options.repeats < 1:
        raise ScenarioError(f"--repeats {options.repeats} is not at least 1")
    if options.min_partition < 4 or options.min_partition % 4:
        raise ScenarioError(f"--min-partition {options.min_partition} is no multiple of 4")
    chosen = [(name, scenario.load(name)) for name in options.scenarios or scenario.bundled()]
    binary = Binary(options.binary, options.device)
    results: dict[str, Any] = {
        "format": "neuroshard-compare",
        "version": 2,
        "machine": _machine(),
        "versions": _versions(binary),
        "device": options.device,
        "min_partition": options.min_partition,
        "scenarios": [],
    }
    kept = _kept(options.torchrec_from, results) if options.torchrec_from else {}
    options.out.mkdir(parents=True, exist_ok=True)
    for name, s in chosen:
        earlier = kept.get(s.name)
        results["scenarios"].append(_scenario(name, s, binary, limits, options, earlier))
        # After each, so that a run that is stopped keeps what it has.
        _write(options.out / "engines.json", json.dumps(results, indent=1) + "\n")
        _write(options.out / "engines.md", report.markdown(results))
    print(report.markdown(results))


def _kept(path: Path, now: dict[str, Any]) -> dict[str, Any]:
    """The scenarios of an earlier comparison by name, if the same versions and options made it."""
    try:
        earlier = json.loads(path.read_text("utf-8"))
        differ = [k for k in ("format", "version", "min_partition") if earlier[k] != now[k]]
        for package in ("torchrec", "torch"):
            if earlier["versions"][package] != now["versions"][package]:
                differ.append(package)
        scenarios = {s["name"]: s for s in earlier["scenarios"]}
    except (ValueError, KeyError, TypeError) as e:
        raise ScenarioError(f"{path}: not a comparison: {e!r}") from e
    if differ:
        raise ScenarioError(f"{path}: made with another {', '.join(differ)}: plan all again")
    return scenarios


def _scenario(
    name: str,
    s: Scenario,
    binary: Binary,
    limits: list[int],
    options: argparse.Namespace,
    earlier: dict[str, Any] | None,
) -> dict[str, Any]:
    from .torchrec_planner import FORMULAS, OPTIONS, RESERVE_SHARE, Engine  # seconds, once

    engine = Engine(s)
    # TorchRec keeps room for input batches beside its share: neuroshard gets as much.
    inputs = s.memory_bytes - int(s.memory_bytes * RESERVE_SHARE) - engine.hbm_budget_bytes
    facts = {
        "name": s.name,
        "digest": hashlib.sha256(repr(s).encode()).hexdigest()[:16],
        "tables": len(s.tables),
        "devices": s.devices,
        "devices_per_host": s.devices_per_host,
        "memory_bytes": s.memory_bytes,
        "hbm_budget_bytes": engine.hbm_budget_bytes,
        "batch": s.batch,
        "optimizer": s.optimizer,
    }
    plans = []
    if earlier is not None and facts.items() <= earlier.items():
        plans = [
            _estimated(_plan(p["planner"]) | {k: p[k] for k in _FACTS}, s, engine, binary)
            if p["placement"]
            else p
            for p in earlier["plans"]
            if p["planner"].startswith("TorchRec")
        ]
    for allowed in OPTIONS if not plans else ():
        for limit in limits:
            _say(f"{s.name}: TorchRec, {allowed}, limit {limit} s")
            plan = _torchrec(name, allowed, limit, options)
            plans.append(_estimated(plan, s, engine, binary))
            if not plan["hit_limit"]:
                break
    for name_of_plan, flags, width in (
        ("neuroshard, TorchRec's formulas", FORMULAS, None),
        ("neuroshard", (), None),
        ("neuroshard, table- and column-wise", _COLUMNS, None),
        (
            f"neuroshard, table- and column-wise, slices of {options.min_partition} or more",
            _COLUMNS,
            options.min_partition,
        ),
    ):
        _say(f"{s.name}: {name_of_plan}")
        plan = _neuroshard(s, binary, inputs, width, options.repeats, name_of_plan, flags)
        plans.append(_estimated(plan, s, engine, binary))
    return facts | {"plans": plans}


def _torchrec(name: str, allowed: str, limit: int, options: argparse.Namespace) -> dict[str, Any]:
    command = [
        *(sys.executable, "-m", "neuroshard_compare.torchrec_planner", name),
        *("--options", allowed, "--limit", str(limit)),
        *("--min-partition", str(options.min_partition)),
    ]
    # The planner goes through sets of texts: their order must not differ by the run.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    words = "default" if allowed == "default" else "table- and column-wise"
    plan = _plan(f"TorchRec, {words}")
    plan["limit_s"] = limit
    outcome: dict[str, Any] = {}
    for _ in range(options.repeats):
        start = time.perf_counter()
        try:
            # The planner looks at its limit between proposals only.
            done = _run(command, env=environment, timeout=2 * limit + 120)
        except subprocess.TimeoutExpired:
            return plan | {
                "plan_s": [time.perf_counter() - start],
                "hit_limit": True,
                "error": "no answer within twice the limit and two minutes",
            }
        if done.returncode != 0:
            raise BinaryError(f"TorchRec's planner failed:\n{done.stderr[-2000:]}")
        outcome = json.loads(done.stdout)
        plan["plan_s"].append(outcome["plan_s"])
        plan["cpu_s"].append(outcome["cpu_s"])
        plan["process_s"].append(time.perf_counter() - start)
        if outcome["plan_s"] > _LONG:
            break
    plan["hit_limit"] = max(plan["plan_s"]) >= limit
    plan["error"] = outcome["error"]
    if outcome["placement"] is not None:
        plan["placement"] = json.dumps(outcome["placement"], separators=(",", ":"))
    return plan


def _run(command: list[str], env: dict[str, str], timeout: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=env, timeout=timeout
    )


def _neuroshard(
    s: Scenario,
    binary: Binary,
    reserve: int,
    min_width: int | None,
    repeats: int,
    name: str,
    flags: Sequence[str],
) -> dict[str, Any]:
    from .torchrec_planner import FORMULAS, RESERVE_SHARE

    plan = _plan(name)
    for _ in range(repeats):
        planned = binary.plan(s, RESERVE_SHARE, reserve, min_width, flags)
        if planned is None:
            return plan | {"error": "nothing fits"}
        plan["plan_s"].append(planned.wall_s)
        plan["cpu_s"].append(planned.cpu_s)
        plan["process_s"].append(planned.wall_s)
        plan["placement"], plan["own_ms"] = planned.placement, planned.simulated_ms
        if flags == FORMULAS:
            plan["own_estimate_ms"] = planned.cost_ms
        if planned.wall_s > _LONG:
            break
    return plan


def _plan(planner: str) -> dict[str, Any]:
    """A plan before anything is known about it."""
    return {
        "planner": planner,
        "limit_s": None,
        "plan_s": [],
        "cpu_s": [],
        "process_s": [],
        "hit_limit": False,
        "error": "",
        "placement": None,
    }


def _estimated(plan: dict[str, Any], s: Scenario, engine: Any, binary: Binary) -> dict[str, Any]:
    """The plan with both judges' costs, in the place of its placement if it is ours.

    TorchRec's, a text, is kept, so that its cost can be estimated again.
    """
    own, own_estimate = plan.pop("own_ms", None), plan.pop("own_estimate_ms", None)
    if plan["placement"] is None:
        return plan
    placement: Placement
    if isinstance(plan["placement"], str):
        placement = from_json(json.loads(plan["placement"]))
    else:
        placement = plan.pop("placement")
    estimate = engine.estimate(placement)
    _same(s, max(estimate.cost_ms), own_estimate, "by TorchRec's estimator")
    plan["estimate"] = {
        "max_ms": max(estimate.cost_ms),
        "mean_ms": statistics.fmean(estimate.cost_ms),
        "cost_ms": list(estimate.cost_ms),
        "hbm_bytes": list(estimate.hbm_bytes),
        "fits": estimate.fits,
    }
    plan["sharding_types"] = sharding_types(placement)
    cut = [t for t in placement if t.sharding_type in ("column_wise", "table_column_wise")]
    plan["slices"] = sum(len(t.shards) for t in cut)
    plan["not_estimated"] = not_estimated(placement)
    plan["simulated_ms"] = None if plan["not_estimated"] else binary.simulated_ms(s, placement)
    _same(s, plan["simulated_ms"], own, "on the SIMULATED device")
    return plan


def _same(s: Scenario, here: float | None, own: float | None, judge: str) -> None:
    """BinaryError if the program states another cost of its plan than was found here."""
    if own is not None and here is not None and abs(here - own) > 1e-9 * own:
        raise BinaryError(
            f"{s.name}: {judge} the plan costs {here} ms here, {own} ms by 'plan': this"
            " package and the program are of different versions"
        )


def _machine() -> dict[str, Any]:
    model = platform.processor()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass  # not Linux
    return {"cpu": model, "cpus": os.cpu_count(), "system": platform.system()}


def _versions(binary: Binary) -> dict[str, str]:
    versions = {"neuroshard": binary.version(), "python": platform.python_version()}
    for package in ("torchrec", "torch", "fbgemm-gpu-cpu", "fbgemm-gpu"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue  # one of FBGEMM's builds
    return versions


def _write(path: Path, text: str) -> None:
    beside = path.with_suffix(path.suffix + ".partial")
    beside.write_text(text, "utf-8")
    beside.replace(path)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
