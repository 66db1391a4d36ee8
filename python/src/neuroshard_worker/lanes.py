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
(docs/MEASURING.md).

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

from . import device
from .engines import Engine
from .group import SGD, Group, Mode, Shard
from .reference import ensure_right
from .server import RATE
from .timing import Plan, Stopwatch, quartiles

FORMAT = "neuroshard lanes 1"
TABLES = 8
WIDE, WIDE_ROWS, WIDE_EVERY = 128, 1000, 100
EQUAL, EXPONENTIAL = "equal", "exponential"
PLAIN = "fp32"
PHASES = ("fwd", "bwd")
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
    repeats: int = 20
    rehearsal: bool = False
    """All steps are run, but with sizes so small that the times mean nothing."""


REHEARSAL = Sizes(
    dims=(8,),
    poolings=(10,),
    rows=(100,),
    batch=64,
    lookups=128,
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
            "lanes": [],
            "wide": [],
            "skipped": [],
        }
        self._resume()

    def run(self, limit: float = math.inf) -> Json:
        """Measures what the file lacks, and returns all of it. After limit seconds it measures
        no further cases; what is left then is counted in "left"."""
        end = time.monotonic() + limit
        left = [c for c in cases(self.sizes) if not any(known(e, c) for e in self.found["lanes"])]
        while left and time.monotonic() < end:
            log.info("lanes: %d are left: %s", len(left), left[0])
            self._measure(left.pop(0))
            self.found["left"] = len(left)
            self._write()
        self.found["left"] = len(left)
        self.found["verdict"] = verdict(self.found)
        self._write()
        return self.found

    def _measure(self, case: Case) -> None:
        try:
            self._wide(case)
            self.found["lanes"].append(self._lanes(case))
        except torch.OutOfMemoryError as e:
            self.engine.release()
            why = str(e).split("\n")[0]
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
        ensure_right(self.engine, case.mode, max(s.dim for s in shards))
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

    def _resume(self) -> None:
        if not self.path.exists():
            return
        before = json.loads(self.path.read_text())
        of = ("format", "device", "kernel", "launch", "cache", "sizes")
        if any(before.get(name) != self.found[name] for name in of):
            raise ValueError(f"{self.path} has other times than these: give another file")
        # Skipped cases are tried again.
        self.found["lanes"], self.found["wide"] = before["lanes"], before["wide"]

    def _write(self) -> None:
        part = self.path.with_name(self.path.name + ".part")
        part.write_text(json.dumps(self.found, indent=1, allow_nan=False) + "\n")
        os.replace(part, self.path)


def cases(sizes: Sizes) -> Iterator[Case]:
    """The cases of the experiment; the plainest mode comes first."""
    modes = [(PLAIN, False), ("fp16", False), (PLAIN, True), ("fp16", True)]
    for (dtype, weighted), rows, pooling, lengths, dim in itertools.product(
        modes, sizes.rows, sizes.poolings, (EQUAL, EXPONENTIAL), sizes.dims
    ):
        batch = max(1, min(sizes.batch, sizes.lookups // pooling))
        yield Case(dim, rows, batch, pooling, lengths, dtype, weighted)


def known(entry: Json, case: Case) -> bool:
    return dataclasses.asdict(case).items() <= entry.items()


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
