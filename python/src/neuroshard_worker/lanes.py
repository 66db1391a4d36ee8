"""The lanes experiment: how much a wide table slows the narrow tables of its operator.

Narrow tables are timed alone, and then with a wide table in the same operator that is hardly
read: it has one lookup per hundred samples. FBGEMM chooses the lanes of a bag by the widest
table of an operator, so the wide table takes the small groups of lanes from the narrow ones
and changes nothing else, but for its empty bags, which are timed apart and subtracted:

    ratio = (beside - (wide - floor)) / alone

    alone    TABLES narrow tables
    beside   the same tables and the wide one
    wide     the wide table by itself
    floor    the wide table by itself in a batch of one sample: the fixed time

The ratios say which lane rule the simulated device and the cost models should follow
(docs/MEASURING.md). A second part, the sweep, has a fixed number of lookups in ever fewer
and longer bags: its forward times say what a lookup and what a bag cost, and by how much
unequal bags slow each other.

Every time is written to the file at once, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import ceilings, device
from .engines import Engine
from .group import SGD, Group, Mode, Shard
from .reference import check
from .server import RATE
from .timing import Plan, Stopwatch, quartiles

FORMAT = "neuroshard lanes 1"
TABLES = 8
WIDE, WIDE_ROWS, WIDE_EVERY = 128, 1000, 100
EQUAL, EXPONENTIAL = "equal", "exponential"
PLAIN = "fp32"
PHASES = ("fwd", "bwd")
TIMES = {"wide": ("wide", "floor"), "lanes": ("alone", "beside"), "sweep": ("alone",)}
"""The lists of a file that hold times, and the times of their entries."""

OWN_BELOW, WIDEST_FROM = 1.5, 2.5
"""The verdict: lanes by each table below the first in every case, lanes by the widest table
from the second on in the decisive cases."""
DECISIVE_DIMS, DECISIVE_POOLING = (8, 16), 10
"""The decisive cases are forwards of equal bags of these dims, with this pooling factor or
more: there the code of the kernels predicts a ratio of 3.5 to 4."""

Json = dict[str, Any]
log = logging.getLogger("neuroshard")


@dataclass(frozen=True)
class Sizes:
    """What is measured. A table has at most this batch and this number of lookups."""

    dims: tuple[int, ...] = (8, 16, 32, 64)
    poolings: tuple[int, ...] = (1, 10, 64)
    rows: tuple[int, ...] = (100_000, 10_000_000)
    batch: int = 65536
    lookups: int = 655_360
    sweep_poolings: tuple[int, ...] = (1, 4, 16, 64)
    sweep_lookups: int = 1 << 19
    repeats: int = 20
    rehearsal: bool = False
    """All steps are run, but with sizes so small that the times mean nothing."""


REHEARSAL = Sizes(
    dims=(8, 16),
    poolings=(1, 10),
    rows=(100,),
    batch=64,
    lookups=128,
    sweep_lookups=128,
    repeats=2,
    rehearsal=True,
)


@dataclass(frozen=True)
class Case:
    """Narrow tables with the lookups of one batch."""

    dim: int
    rows: int
    batch: int
    pooling_factor: int
    lengths: str
    dtype: str = "fp32"
    weighted: bool = False

    @property
    def mode(self) -> Mode:
        return Mode(SGD, self.dtype, self.weighted)

    @property
    def decisive(self) -> bool:
        long = self.pooling_factor >= DECISIVE_POOLING
        return self.dim in DECISIVE_DIMS and long and self.lengths == EQUAL


CASE = dataclasses.fields(Case)


class Lanes:
    """Measures, and keeps what it measured in a file."""

    def __init__(self, engine: Engine, watch: Stopwatch, sizes: Sizes, path: Path) -> None:
        self.engine = engine
        self.watch = watch
        self.sizes = sizes
        self.path = path
        self.memory = device.memory_bytes(engine.device)
        self._checked: set[tuple[Mode, int]] = set()
        cache = watch.set(Plan(warmup=3, repeats=sizes.repeats))
        where = engine.device
        self.found: Json = {
            "format": FORMAT,
            "source": "measured",
            "device": device.name(where),
            "driver": device.driver(where),
            "backend": engine.name,
            "kernel": engine.kernel,
            "cache": cache,
            "launch": watch.launch,
            "sizes": json.loads(json.dumps(dataclasses.asdict(sizes))),
            "clocks": device.clocks(where),
            "sms": device.multiprocessors(where),
            "clock_ghz": round(ceilings.clock(where), 6),
            "lanes": [],
            "wide": [],
            "sweep": [],
            "skipped": [],
        }
        self._resume()

    def run(self, limit: float = math.inf) -> Json:
        """Measures what the file lacks, and returns all of it. After limit seconds it measures
        no further cases; what is left then is counted in "left"."""
        end = time.monotonic() + limit
        cases = all_cases(self.sizes)
        settled = self.found["lanes"] + self.found["sweep"]
        self.found["left"] = sum(not any(known(e, c) for e in settled) for _, c in cases)
        for i, (part, case) in enumerate(cases, 1):
            if any(known(entry, case) for entry in self.found[part] + self.found["skipped"]):
                continue
            if time.monotonic() >= end:
                continue
            log.info("lanes: %d of %d: %s", i, len(cases), case)
            self._measure(part, case)
            self.found["left"] -= 1
            self._write()
        self.found["verdict"] = verdict(self.found)
        self.found["cycles"] = cycles(self.found)
        self._write()
        return self.found

    def _measure(self, part: str, case: Case) -> None:
        need = self._bytes(case)
        try:
            if need > self.memory:
                raise torch.cuda.OutOfMemoryError(f"{self.memory / 2**30:.1f} GiB are free")
            if part == "lanes":
                self._wide(case)
                entry = self._lanes(case)
            else:
                alone = self._time(case, self._narrow(case))
                entry = {**dataclasses.asdict(case), "alone": alone}
            self.found[part].append(entry)
        except torch.cuda.OutOfMemoryError as e:
            self.engine.release()
            why = f"needs about {need / 2**30:.1f} GiB: {e}".split("\n")[0]
            self.found["skipped"].append({**dataclasses.asdict(case), "why": why})

    def _lanes(self, case: Case) -> Json:
        """The narrow tables alone and beside the wide one, in turn: each half of the
        repeats, twice, so that a clock that drifts changes both."""
        narrow = self._narrow(case)
        both = [*narrow, self._wide_table(case.batch)]
        runs: dict[str, list[list[list[float]]]] = {"alone": [], "beside": []}
        half = Plan(warmup=3, repeats=-(-self.sizes.repeats // 2))
        for _ in range(2):
            for name, shards in (("alone", narrow), ("beside", both)):
                runs[name].append(self._times(case, shards, half))
        entry = dataclasses.asdict(case)
        for name, (first, second) in runs.items():
            entry[name] = summary([a + b for a, b in zip(first, second, strict=True)])
        return entry

    def _wide(self, case: Case) -> None:
        """The wide table by itself, once for each batch and mode."""
        key = {"batch": case.batch, "dtype": case.dtype, "weighted": case.weighted}
        if not any(key.items() <= entry.items() for entry in self.found["wide"]):
            one = dataclasses.replace(case, batch=1)
            self.found["wide"].append(
                {
                    **key,
                    "wide": self._time(case, [self._wide_table(case.batch)]),
                    "floor": self._time(one, [self._wide_table(1)]),
                }
            )

    def _time(self, case: Case, shards: list[Shard]) -> Json:
        return summary(self._times(case, shards, Plan(warmup=3, repeats=self.sizes.repeats)))

    def _times(self, case: Case, shards: list[Shard], plan: Plan) -> list[list[float]]:
        key = (case.mode, self.engine.lanes(max(s.dim for s in shards)))
        if key not in self._checked:
            wrong = check(self.engine, *key)
            if wrong:
                raise RuntimeError(f"{self.engine.name} is wrong for {case.mode}: {wrong}")
            self._checked.add(key)
        self.watch.plan = plan
        group = Group(shards, case.batch, case.weighted, self.engine.device)
        op = self.engine.prepare(group, case.mode, RATE)
        return self.watch.times([op.forward, op.backward])

    def _narrow(self, case: Case) -> list[Shard]:
        where = self.engine.device
        random = torch.Generator(where).manual_seed(case.rows + case.pooling_factor)
        count = case.batch * case.pooling_factor
        shards = []
        for _ in range(TABLES):
            ends = torch.arange(case.batch + 1, device=where) * case.pooling_factor
            if case.lengths == EXPONENTIAL:
                drawn = torch.empty(case.batch, dtype=torch.float64, device=where)
                share = drawn.exponential_(generator=random).cumsum(0)
                ends[1:] = (share / share[-1] * count).round().long()
            rows = torch.randint(0, case.rows, (count,), generator=random, device=where)
            shards.append(Shard(case.rows, case.dim, 1, rows, ends))
        return shards

    def _wide_table(self, batch: int) -> Shard:
        where = self.engine.device
        ends = (torch.arange(batch + 1, device=where) + WIDE_EVERY - 1) // WIDE_EVERY
        rows = torch.arange(int(ends[-1]), device=where) % WIDE_ROWS
        return Shard(WIDE_ROWS, WIDE, 1, rows, ends)

    def _bytes(self, case: Case) -> int:
        """The memory that the larger operator takes, about."""
        lookups = TABLES * case.batch * case.pooling_factor
        outputs = case.batch * (TABLES * case.dim + WIDE) * 8
        return TABLES * case.rows * case.mode.row_bytes(case.dim) + 80 * lookups + outputs

    def _resume(self) -> None:
        if not self.path.parent.is_dir():
            raise ValueError(f"{self.path.parent} is no folder: make it, or give another file")
        if not self.path.exists():
            return
        try:
            before = json.loads(self.path.read_text())
        except OSError as e:
            raise ValueError(f"{self.path} cannot be read ({e}): give another file") from e
        except ValueError as e:
            raise ValueError(f"{self.path} is no JSON ({e}): give another file") from e
        if not isinstance(before, dict) or before.get("format") != FORMAT:
            raise ValueError(
                f"{self.path} has other contents than times of lanes: give another file"
            )
        for name in ("device", "driver", "backend", "kernel", "launch", "cache", "sizes"):
            if before.get(name) != self.found[name]:
                raise ValueError(
                    f"{self.path} has times of {name} {before.get(name)}, and this is "
                    f"{self.found[name]}: give another file"
                )
        if fault := damage(before):
            raise ValueError(f"{self.path} is damaged: {fault}: give another file")
        for part in TIMES:  # skipped cases are tried again
            self.found[part] = before[part]

    def _write(self) -> None:
        part = self.path.with_name(self.path.name + ".part")
        part.write_text(json.dumps(self.found, indent=1, allow_nan=False) + "\n")
        os.replace(part, self.path)


def lane_cases(sizes: Sizes) -> Iterator[Case]:
    """The cases of the experiment; the plainest mode comes first."""
    modes = [(PLAIN, False), ("fp16", False), (PLAIN, True), ("fp16", True)]
    for (dtype, weighted), rows, pooling, lengths, dim in itertools.product(
        modes, sizes.rows, sizes.poolings, (EQUAL, EXPONENTIAL), sizes.dims
    ):
        batch = max(1, min(sizes.batch, sizes.lookups // pooling))
        yield Case(dim, rows, batch, pooling, lengths, dtype, weighted)


def all_cases(sizes: Sizes) -> list[tuple[str, Case]]:
    """All cases with the list that they belong to: the sweep follows the plainest mode."""
    lanes = [("lanes", case) for case in lane_cases(sizes)]
    plain = sum(case.dtype == PLAIN and not case.weighted for _, case in lanes)
    return lanes[:plain] + [("sweep", case) for case in sweep_cases(sizes)] + lanes[plain:]


def sweep_cases(sizes: Sizes) -> Iterator[Case]:
    """One number of lookups in shorter and longer bags."""
    for lengths, pooling in itertools.product((EQUAL, EXPONENTIAL), sizes.sweep_poolings):
        batch = max(1, sizes.sweep_lookups // pooling)
        yield Case(sizes.dims[0], sizes.rows[0], batch, pooling, lengths)


def known(entry: Json, case: Case) -> bool:
    return dataclasses.asdict(case).items() <= entry.items()


def damage(before: Json) -> str:
    """Says what is wrong with the times of a file, or nothing."""
    modes = []
    for part, names in TIMES.items():
        if not isinstance(before.get(part), list):
            return f"{part} is no list"
        for i, entry in enumerate(before[part]):
            at = f"entry {i} of {part}"
            if not isinstance(entry, dict):
                return f"{at} is no object"
            mode = tuple(entry.get(key) for key in ("batch", "dtype", "weighted"))
            if part == "wide" and mode in modes:
                return f"{at} is there twice"
            if part == "wide":
                modes.append(mode)
            elif not all(type(entry.get(f.name)).__name__ == f.type for f in CASE):
                return f"{at} is no case"
            elif part == "lanes" and mode not in modes:
                return f"{at} has no times of the wide table"
            for name, phase in itertools.product(names, PHASES):
                if not is_summary(entry.get(name), phase):
                    return f"{at} has no {phase}_ms in {name}"
    return ""


def is_summary(value: Any, phase: str) -> bool:
    """Reports whether a value has the quartiles of a phase."""
    times = value.get(f"{phase}_ms") if isinstance(value, dict) else None
    if not isinstance(times, list) or len(times) != 3:
        return False
    return all(isinstance(t, float) and math.isfinite(t) for t in times)


def summary(times: list[list[float]]) -> Json:
    """The quartiles of each phase in ms: lower, median, upper."""
    return {f"{phase}_ms": list(quartiles(t)) for phase, t in zip(PHASES, times, strict=True)}


def ratio(found: Json, entry: Json, phase: str) -> float:
    """By how much the wide table slows the narrow ones, of medians."""
    (wide,) = (
        w for w in found["wide"] if all(w[k] == entry[k] for k in ("batch", "dtype", "weighted"))
    )
    name = f"{phase}_ms"
    empty = max(0.0, wide["wide"][name][1] - wide["floor"][name][1])
    return float((entry["beside"][name][1] - empty) / max(entry["alone"][name][1], 1e-9))


def verdict(found: Json) -> Json:
    """Which lane rule the ratios support: own, widest, or between; or unknown."""
    if found["sizes"]["rehearsal"]:
        return {"rule": "unknown", "why": "the times of a rehearsal mean nothing"}
    all_of = [ratio(found, entry, phase) for entry in found["lanes"] for phase in PHASES]
    decisive = [
        ratio(found, entry, "fwd")
        for entry in found["lanes"]
        if Case(**{f.name: entry[f.name] for f in CASE}).decisive
    ]
    if not decisive:
        return {"rule": "unknown", "why": "no decisive case was measured"}
    middle, most = quartiles(decisive)[1], max(all_of)
    rule = "own" if most < OWN_BELOW else "widest" if middle >= WIDEST_FROM else "between"
    if left := found.get("left"):
        return {"rule": "unknown", "why": f"{left} cases are left; so far it is {rule}"}
    return {"rule": rule, "ratio": round(middle, 3), "largest": round(most, 3)}


def cycles(found: Json) -> Json:
    """What a row step and a bag take in the sweep, in cycles of a full warp.

    The forward of 8 lanes is taken to need a quarter of the cycles: (n row + bags bag) / 4.
    What memory adds is in both, so they are upper bounds. spread is the time
    of exponential lengths over that of equal ones.
    """
    equal = {e["pooling_factor"]: e for e in found["sweep"] if e["lengths"] == EQUAL}
    unequal = {e["pooling_factor"]: e for e in found["sweep"] if e["lengths"] == EXPONENTIAL}
    if found["sms"] == 0 or len(equal) < 2:
        return {}
    points = []
    for e in equal.values():
        bags = TABLES * e["batch"]
        busy = e["alone"]["fwd_ms"][1] * 1e6 * found["clock_ghz"] * found["sms"] * 4
        lookups = bags * e["pooling_factor"]
        points.append((bags / lookups, busy / lookups))
    mean_x = math.fsum(x for x, _ in points) / len(points)
    mean_y = math.fsum(y for _, y in points) / len(points)
    slope = math.fsum((x - mean_x) * (y - mean_y) for x, y in points)
    slope /= math.fsum((x - mean_x) ** 2 for x, _ in points)
    spread = {
        str(pooling): round(e["alone"]["fwd_ms"][1] / equal[pooling]["alone"]["fwd_ms"][1], 3)
        for pooling, e in unequal.items()
        if pooling in equal
    }
    return {
        "row": round(mean_y - slope * mean_x, 2),
        "bag": round(slope, 2),
        "spread": spread,
    }


def report(found: Json) -> str:
    """The ratios as a table, and the verdict, for people."""
    dims = found["sizes"]["dims"]
    lines = [
        f"{found['device']}, driver {found['driver'] or 'unknown'}, {found['kernel']}",
        "",
        f"time of {TABLES} narrow tables beside a wide one, over their time alone "
        "(forward / backward):",
        "",
        f"{'weights':14}{'rows':>10}{'lengths':>13}{'L':>4}"
        + "".join(f"{f'D={dim}':>14}" for dim in dims),
    ]
    rows: dict[tuple[str, int, str, int], dict[int, str]] = {}
    for e in found["lanes"]:
        weights = e["dtype"] + (" weighted" if e["weighted"] else "")
        key = (weights, e["rows"], e["lengths"], e["pooling_factor"])
        forward, backward = (ratio(found, e, phase) for phase in PHASES)
        rows.setdefault(key, {})[e["dim"]] = f"{forward:.2f} / {backward:.2f}"
    for (weights, count, lengths, pooling), cells in rows.items():
        line = f"{weights:14}{count:>10}{lengths:>13}{pooling:>4}"
        lines.append(line + "".join(f"{cells.get(dim, '-'):>14}" for dim in dims))
    lines += [
        f"skipped: {s['dtype']}, {s['rows']} x {s['dim']}: {s['why']}" for s in found["skipped"]
    ]
    if left := found.get("left"):
        lines.append(f"{left} cases are left: the same command goes on with them")
    if found["cycles"]:
        c = found["cycles"]
        lines += ["", f"cycles of a full warp: {c['row']} a row step, {c['bag']} a bag (at most)"]
        lines += [f"exponential over equal lengths, by pooling factor: {c['spread']}"]
    return "\n".join([*lines, "", *_conclusion(found)]) + "\n"


def _conclusion(found: Json) -> list[str]:
    v = found["verdict"]
    if v["rule"] == "unknown":
        return [f"verdict: none, because {v['why']}"]
    lines = [
        f"verdict: {v['rule']} (decisive cases {v['ratio']}, largest of all {v['largest']}; "
        f"own: all below {OWN_BELOW}; widest: decisive cases from {WIDEST_FROM})"
    ]
    if found["backend"] != "fbgemm":
        lines.append(
            f"These are the kernels of backend {found['backend']}. Only a run with fbgemm-gpu "
            "says what TorchRec's kernels do."
        )
    return lines
