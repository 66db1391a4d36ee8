"""All-to-alls between two processes on this machine, under torchrun."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from conftest import HELLO, INIT, TABLES, Json, environment, ranks_of

from neuroshard_worker.comm import Ranks, _Order
from neuroshard_worker.timing import Plan, Stopwatch

TWO = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "neuroshard_worker"]


def test_two_processes(tmp_path: Path) -> None:
    init = INIT | {"warmup": 1, "repeats": 3}
    requests: list[Json] = [
        HELLO,
        init,
        {"op": "comm", "id": "c1", "dims": [64, 128], "start_ms": [0, 40]},
        {"op": "comm", "id": "c2", "dims": [0, 4], "batch": 7},
        {"op": "comm", "id": "c3", "dims": [4, 4, 4]},
        {"op": "comm", "id": "c4", "dims": [4]},
        {"op": "comm", "id": "c5", "dims": []},
        {"op": "comm", "id": "c6", "dims": [4, 4], "start_ms": [0]},
        {"op": "comm", "id": "c7", "dims": [4, 4], "per_host": 1},
        {"op": "comm", "id": "c8", "dims": [4, 1 << 20], "batch": 1 << 24},
        TABLES,
        {"op": "compute", "id": "s", "group": [{"t": 0, "dim": 8}], "opt": "sgd", "dtype": "fp32"},
        {"op": "comm", "id": "c9", "dims": [8, 8]},
        {"op": "comm", "id": "h1", "dims": [8, 12], "dtype": "bf16"},
        {"op": "comm", "id": "h2", "dims": [0, 12], "batch": 7, "dtype": "fp16"},
        {"op": "comm", "id": "h3", "dims": [8, 8], "dtype": "fp8"},
    ]
    code, written, log = ranks_of(
        [sys.executable, *TWO, "--device", "cpu"],
        input="".join(json.dumps(r) + "\n" for r in requests),
        env=environment(),
    )
    assert code == 0, log
    responses = [json.loads(line) for line in written.splitlines()]
    assert len(responses) == len(requests), log
    hello, _, skewed, tiny, *refused, _, compute, last, half, narrow, unknown = responses

    assert {"comm", "comm_fp16", "comm_bf16"} <= set(hello["caps"]) and hello["ranks"] == 2
    assert "all_to_all_single of gloo" in hello["kernel"]
    assert skewed["op"] == "comm" and skewed["id"] == "c1", skewed
    assert skewed["n"] == 3 and skewed["source"] == "measured"
    # Rank 0 is ready 40 ms before rank 1, and its forward contains the wait.
    assert skewed["fwd"][0] >= 40
    assert len(skewed["bwd"]) == 2 and min(skewed["bwd"]) > 0 and skewed["iqr"] >= 0
    assert tiny["op"] == "comm", tiny
    codes = [(r["id"], r["code"]) for r in refused]
    assert codes == [
        ("c3", "unsupported"),
        ("c4", "unsupported"),
        ("c5", "bad_request"),
        ("c6", "bad_request"),
        ("c7", "unsupported"),
        ("c8", "oom"),
    ]
    assert compute["op"] == "compute", compute
    assert last["op"] == "comm" and last["id"] == "c9", last
    # The worker checks that every number arrives, in half precision, too.
    for r, name in ((half, "h1"), (narrow, "h2")):
        assert r["op"] == "comm" and r["id"] == name and len(r["fwd"]) == 2, r
    assert unknown["code"] == "unsupported" and "fp8" in unknown["msg"], unknown


class Noted:
    """An exchange that notes when it ran, and in which direction."""

    def __init__(self) -> None:
        self.runs: list[tuple[bool, int]] = []

    def forward(self) -> None:
        self.runs.append((False, time.monotonic_ns()))

    def backward(self) -> None:
        self.runs.append((True, time.monotonic_ns()))

    def arrived(self) -> bool:
        return True


def one_of_two(rank: int) -> Any:
    ranks = object.__new__(Ranks)
    ranks.device, ranks.rank = torch.device("cpu"), rank
    ranks.watch = Stopwatch(ranks.device, "eager", 1 << 20)
    return ranks


def test_a_time_counts_from_the_start_of_the_rank() -> None:
    ranks, exchange = one_of_two(0), Noted()
    for backward in (False, True):
        at = time.monotonic_ns() + 5_000_000
        took = ranks._time(exchange, backward, at)
        end = time.monotonic_ns()
        direction, ran = exchange.runs[-1]
        assert direction == backward and ran >= at
        assert (ran - at) / 1e6 <= took <= (end - at) / 1e6


def test_forwards_start_at_the_times_of_the_request_and_backwards_together() -> None:
    plan = Plan(warmup=1, repeats=2, cold=False)
    for rank, late in enumerate((0, 40_000_000)):
        ranks, starts = one_of_two(rank), []
        ranks._moment = lambda: 1_000

        def timed(exchange: Any, backward: bool, at: int, starts: Any = starts) -> float:
            starts.append((backward, at))
            return 0.5

        ranks._time = timed
        times, right = ranks._repeat(Noted(), _Order([4, 4], 8, "fp32", [0.0, 40.0], plan))
        assert right and times == [(0.5, 0.5)] * plan.repeats
        assert starts == [(False, 1_000 + late), (True, 1_000)] * 3
