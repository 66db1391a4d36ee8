from __future__ import annotations

import pytest
import torch

from neuroshard_worker.timing import Plan, Stopwatch, middle


def test_median_and_interquartile_range() -> None:
    assert middle([5.0]) == (5.0, 0.0)
    assert middle([4.0, 1.0, 3.0, 2.0]) == (2.5, 1.5)
    assert middle([1.0, 2.0, 3.0, 4.0, 100.0]) == (3.0, 2.0)
    assert middle([0.1234567891, 0.1234567891]) == (0.123457, 0.0)


def test_caches_are_flushed_before_each_step() -> None:
    watch = Stopwatch(torch.device("cpu"), "eager", 1 << 20)
    assert watch.set(Plan(warmup=2, repeats=3, flush_bytes=8192)) == "flushed 8KiB of a 1MiB cache"
    seen = []

    def phase(name: str) -> None:
        assert watch._flush is not None
        seen.append((name, int(watch._flush[-1])))

    forward, backward = watch.times([lambda: phase("forward"), lambda: phase("backward")])
    assert len(forward) == len(backward) == 3
    assert seen == [(name, i) for i in range(1, 6) for name in ("forward", "backward")]


def test_at_least_one_run_is_not_timed() -> None:
    watch = Stopwatch(torch.device("cpu"), "eager", 1 << 20)
    assert watch.set(Plan(warmup=0, repeats=2, cold=False)) == "warm"
    runs: list[int] = []
    (times,) = watch.times([lambda: runs.append(0)])
    assert len(runs) == 3 and len(times) == 2


def test_a_clock_that_goes_back_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Stopwatch(torch.device("cpu"), "eager", 1 << 20)
    watch.set(Plan(cold=False))
    monkeypatch.setattr(watch, "_on_cpu", lambda phases: [-1.0])
    with pytest.raises(RuntimeError, match="-1"):
        watch.times([lambda: None])
