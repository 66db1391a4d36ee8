"""Times of steps: caches flushed, warmed up, repeated, medians taken.

On a GPU the times are between events on the device. How the host keeps up is
part of what is measured, so it is stated:

    eager   the device is idle when a forward is launched, and waits for each
            launch, as in a step that the host cannot run ahead of
    queued  the device first spins until all launches of a step are queued, so
            that times are the device's alone, as when the host is far ahead
"""

from __future__ import annotations

import gc
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

EAGER, QUEUED = "eager", "queued"

_SPIN_CYCLES = 8_000_000  # some ms: longer than the host takes to launch a step
_MOST_CPU_FLUSH = 256 << 20


def middle(times: list[float]) -> tuple[float, float]:
    """Returns the median and the interquartile range of times in ms, to the nanosecond; quartiles
    between two times are interpolated."""
    ordered = sorted(times)

    def at(q: float) -> float:
        x = q * (len(ordered) - 1)
        low = int(x)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (x - low) * (ordered[high] - ordered[low])

    return round(at(0.5), 6), round(at(0.75) - at(0.25), 6)


@dataclass
class Plan:
    """How a request is timed (init says so)."""

    warmup: int = 1
    repeats: int = 5
    cold: bool = True
    flush_bytes: int = 0
    """0 stands for four times the last-level cache."""


class Stopwatch:
    """Times the phases of a step on one device."""

    def __init__(self, device: torch.device, launch: str, cache_bytes: int) -> None:
        self.device = device
        self.cuda = device.type == "cuda"
        self.launch = launch
        self.cache_bytes = cache_bytes
        self.plan = Plan()
        self._flush: torch.Tensor | None = None

    def set(self, plan: Plan) -> str:
        """Takes a plan over; returns what its flush does."""
        self.plan = plan
        self._flush = None
        how = f", {self.launch} launch" if self.cuda else ""
        if not plan.cold:
            return "warm" + how
        size = plan.flush_bytes or 4 * self.cache_bytes
        if not plan.flush_bytes and not self.cuda:
            size = min(size, _MOST_CPU_FLUSH)
        self._flush = torch.zeros(max(1, size // 4), dtype=torch.int32, device=self.device)
        of = ""
        if size < 4 * self.cache_bytes:
            of = f" of a {_size(self.cache_bytes)} cache"
        return f"flushed {_size(size)}{of}{how}"

    def flush(self) -> None:
        if self._flush is not None:
            self._flush.add_(1)

    def synchronize(self) -> None:
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def times(self, phases: list[Callable[[], None]]) -> list[list[float]]:
        """Returns each phase's times in ms over the repeats of all phases in turn.

        At least one run is not timed: what is compiled or loaded then is not part
        of a step. Caches are flushed before the first phase only.
        """
        gc.collect()
        gc.disable()
        try:
            runs = []
            for i in range(max(1, self.plan.warmup) + self.plan.repeats):
                self.flush()
                run = self._on_gpu(phases) if self.cuda else self._on_cpu(phases)
                if i >= max(1, self.plan.warmup):
                    runs.append(run)
        finally:
            gc.enable()
        times = [list(phase) for phase in zip(*runs, strict=True)]
        for phase in times:
            for ms in phase:
                if not (math.isfinite(ms) and ms >= 0):
                    raise RuntimeError(f"the clock says {ms} ms")
        return times

    def _on_cpu(self, phases: list[Callable[[], None]]) -> list[float]:
        marks = [time.perf_counter()]
        for phase in phases:
            phase()
            marks.append(time.perf_counter())
        return [(b - a) * 1e3 for a, b in itertools.pairwise(marks)]

    def _on_gpu(self, phases: list[Callable[[], None]]) -> list[float]:
        events = [torch.cuda.Event(enable_timing=True) for _ in range(len(phases) + 1)]
        self.synchronize()
        with torch.cuda.device(self.device):
            if self.launch == QUEUED:
                torch.cuda._sleep(_SPIN_CYCLES)
            events[0].record()
            for phase, event in zip(phases, events[1:], strict=True):
                phase()
                event.record()
        self.synchronize()
        return [float(a.elapsed_time(b)) for a, b in itertools.pairwise(events)]


def _size(count: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count % unit == 0:
            return f"{count // unit}{name}"
    return f"{count}B"
