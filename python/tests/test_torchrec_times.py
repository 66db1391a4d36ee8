"""The times of steps: what is written, and when. test_torchrec_reshard.py has a job of four
processes that writes them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torchrec_ranks as ranks
from torchrec.distributed.model_parallel import DistributedModelParallel

from neuroshard_torchrec import PlanError, StepTimes, memory, times
from neuroshard_torchrec._torchrec import Placement, Shard, sharding_plan


class Clock:
    """Marks that are 1 ms apart, and that pass only when the test says so, as events do."""

    def __init__(self) -> None:
        self.marks = 0
        self.reached = 0
        self.waits = 0

    def mark(self) -> int:
        self.marks += 1
        return self.marks

    def passed(self, mark: int) -> bool:
        return mark <= self.reached

    def wait(self) -> None:
        self.waits += 1
        self.reached = self.marks

    def between(self, first: int, last: int) -> float:
        return float(last - first)


@pytest.fixture(scope="module")
def model() -> Iterator[Any]:
    """The model on a single rank; replicated tables beside whole ones."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    configs = {"sparse.plain": ranks.configs(), "sparse.weighted": ranks.weighted_configs()}
    placements = {
        path: {
            c.name: Placement("data_parallel", "dense", ())
            if i == 2
            else Placement(
                "table_wise", "fused", (Shard(0, 0, c.num_embeddings, c.embedding_dim, 0),)
            )
            for i, c in enumerate(own)
        }
        for path, own in configs.items()
    }
    yield DistributedModelParallel(
        ranks.Model(),
        device=ranks.CPU,
        plan=sharding_plan(placements, "cpu", 1),
        sharders=ranks.sharders_of("sgd"),
    )
    dist.destroy_process_group()


def step(model: Any, at: int) -> None:
    plain, weighted, targets = ranks.batch(at, [0])
    torch.nn.functional.mse_loss(model(plain, weighted), targets).backward()


def read(text: str) -> list[dict[str, float]]:
    return [json.loads(line) for line in text.splitlines()]


def test_lines_come_when_the_device_has_passed_the_step(model: Any) -> None:
    clock, out = Clock(), io.StringIO()
    times = StepTimes(model, out, first=7, clock=clock, now=iter([5.0, 6.0, 7.0]).__next__)
    step(model, 0)
    after_one = clock.marks
    step(model, 1)
    assert read(out.getvalue()) == []
    clock.reached = after_one
    step(model, 2)
    assert clock.waits == 0
    lines = read(out.getvalue())
    assert [(t["step"], t["time"]) for t in lines] == [(7, 5.0)]
    # Marks come in pairs. The clock advances by a mark, so a pair is 1 ms; waits have the
    # replicated lookup's DDP or nothing inside.
    assert sum(lines[0][k] for k in ("forward_ms", "backward_ms", "wait_ms")) == after_one / 2
    assert lines[0]["forward_ms"] == 3  # two operators of plain's tables, one of weighted's
    assert lines[0]["backward_ms"] >= 3
    times.close()
    assert clock.waits > 0
    assert [t["step"] for t in read(out.getvalue())] == [7, 8, 9]
    assert not out.closed


def test_gpus_also_state_their_memory(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step has the bytes at its start, and the peaks since then."""
    device, stats = torch.device("cuda", 0), {memory.START: 5, memory.PEAK: 90, memory.RESERVED: 95}

    def read_stats(of: torch.device) -> dict[str, int]:
        assert of == device
        return dict(stats)

    def reset(of: torch.device) -> None:
        assert of == device
        stats[memory.PEAK], stats[memory.RESERVED] = stats[memory.START], 10

    monkeypatch.setattr(times.sharded, "device_of", lambda _: device)
    monkeypatch.setattr(torch.cuda, "memory_stats", read_stats)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", reset)
    out = io.StringIO()
    with StepTimes(model, out, clock=Clock()):
        step(model, 0)
        stats.update({memory.START: 7, memory.PEAK: 20, memory.RESERVED: 30})
        model.eval()
        with torch.no_grad():
            model(*ranks.batch(0, [0])[:2])
        stats.update({memory.PEAK: 80, memory.RESERVED: 85})
        model.train()
        step(model, 1)
        stats.update({memory.START: 8, memory.PEAK: 25})
    keys = ("start_bytes", "peak_bytes", "reserved_bytes")
    assert [[t[k] for k in keys] for t in read(out.getvalue())] == [[5, 20, 30], [7, 25, 10]]


def test_only_training_counts(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "times.{rank}.jsonl"
    written = tmp_path / "times.0.jsonl"
    written.write_text("before\n")
    with StepTimes(model, path):
        model.eval()
        with torch.no_grad():
            model(*ranks.batch(0, [0])[:2])
        model.train()
        step(model, 1)
        model(*ranks.batch(2, [0])[:2]).sum().item()  # no backward
        with torch.no_grad():
            model(*ranks.batch(3, [0])[:2])
        step(model, 4)
    first, *lines = written.read_text().splitlines()
    assert first == "before"
    assert [json.loads(t)["step"] for t in lines] == [0, 1]


def test_hooks_are_taken_away(model: Any) -> None:
    clock = Clock()
    out = io.StringIO()
    StepTimes(model, out, clock=clock).close()
    step(model, 0)
    assert (clock.marks, out.getvalue()) == (0, "")


def test_another_model_is_refused() -> None:
    with pytest.raises(PlanError, match="not a DistributedModelParallel"):
        StepTimes(ranks.Model(), io.StringIO())
