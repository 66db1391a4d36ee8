"""All-to-alls between the processes that torchrun started, one a GPU.

Rank 0 speaks the protocol; the others follow it by broadcasts over a group of
their own on the CPU. What is timed is what TorchRec's pooled all-to-all does:

    forward   a rank's wide matrix, batch x its dims, is sent sample-wise as it
              lies; what arrives is copied into the columns of its own samples
    backward  the gradients of its samples are copied apart by rank and sent; what
              arrives is the wide matrix again

The matrices are in fp32. For numbers that travel in fp16 or bf16, the wide matrix is
converted before it is sent and after it arrives, and the copies convert the others.

Ranks of one host start at a moment that rank 0 names on their common clock.
Ranks of several hosts have no common clock and start when a barrier lets them
go. Each waits on the host with an idle GPU for its start_ms longer.
"""

from __future__ import annotations

import gc
import os
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .timing import Plan, Stopwatch, middle
from .wire import bad, out_of_memory, unsupported

TRAVELS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
"""The precisions in which numbers travel."""

ONE_PROCESS = (
    "one GPU cannot measure an all-to-all: start this worker under torchrun with one process a GPU"
)

_STOP = "stop"
_LEAD_NS = 2_000_000  # from the word to the start: longer than a broadcast takes


def world_size() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_leader() -> bool:
    return int(os.environ.get("RANK", "0")) == 0


@dataclass(frozen=True)
class _Order:
    """What rank 0 has every rank do."""

    dims: list[int]
    batch: int
    dtype: str
    start_ms: list[float]
    plan: Plan


@dataclass(frozen=True)
class Times:
    """Times in ms, repeat by repeat, of each rank."""

    forward: list[list[float]]
    backward: list[list[float]]


class Ranks:
    """The processes; made by all of them at once."""

    def __init__(self, device: torch.device, watch: Stopwatch) -> None:
        self.device = device
        self.watch = watch
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timedelta(minutes=10))
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        # Followers wait here between requests, for as long as the driver likes.
        self._control: Any = dist.new_group(backend="gloo", timeout=timedelta(days=7))
        self._groups: dict[int, Any] = {}
        self.per_host = int(os.environ.get("LOCAL_WORLD_SIZE", str(self.size)))
        self.kernel = f"all_to_all_single of {backend}"
        if backend == "nccl":
            version = torch.cuda.nccl.version()
            self.kernel += f" {'.'.join(str(v) for v in version)}"

    def follow(self) -> None:
        """Takes part in what rank 0 does, until it ends."""
        while True:
            order = self._tell(None)
            if order == _STOP:
                return
            self._run(order)

    def close(self) -> None:
        if self.rank == 0:
            self._tell(_STOP)
        dist.destroy_process_group()

    def check(self, dims: list[int], start_ms: list[float], per_host: int) -> None:
        n = len(dims)
        if not n:
            raise bad("dims: there are none")
        if n == 1:
            raise unsupported("one rank has no all-to-all")
        if n > self.size:
            raise unsupported(f"{n} ranks: this worker has {self.size}")
        real = min(n, self.per_host)
        if per_host not in (0, real):
            raise unsupported(f"per_host: {per_host}: {real} of {n} ranks are on one host here")
        if start_ms and len(start_ms) != n:
            raise bad(f"start_ms: {len(start_ms)} starts of {n} ranks")

    def all_to_all(
        self, dims: list[int], batch: int, dtype: str, start_ms: list[float], plan: Plan
    ) -> Times:
        """Measures, on rank 0, an all-to-all of numbers that travel as dtype."""
        order = _Order(dims, batch, dtype, start_ms or [0.0] * len(dims), plan)
        self._tell(order)
        times = self._run(order)
        assert times is not None
        return times

    def _tell(self, order: _Order | str | None) -> Any:
        box = [order]
        dist.broadcast_object_list(box, src=0, group=self._control)
        return box[0]

    def _run(self, order: _Order) -> Times | None:
        """One rank's part; only rank 0 gets the times. WireError on rank 0 where a
        rank has no memory."""
        n = len(order.dims)
        if n not in self._groups:
            self._groups[n] = dist.new_group(list(range(n)))
        exchange, problem = None, ""
        if self.rank < n:
            try:
                exchange = _Exchange(order, self.rank, self.device, self._groups[n])
            except RuntimeError as e:  # torch.OutOfMemoryError is one
                problem = f"rank {self.rank}: {str(e).splitlines()[0]}"
        problems: list[str] = [""] * self.size
        dist.all_gather_object(problems, problem, group=self._control)
        if any(problems):
            exchange = None
            gc.collect()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            if self.rank == 0:
                raise out_of_memory("; ".join(p for p in problems if p))
            return None
        self.watch.set(order.plan)
        times, right = self._repeat(exchange, order)
        gathered: list[Any] = [None] * self.size
        dist.all_gather_object(gathered, (times, right), group=self._control)
        if self.rank != 0:
            return None
        if not all(right for _, right in gathered):
            raise RuntimeError("the all-to-all did not bring every number to its place")
        return Times(
            [[f for f, _ in gathered[r][0]] for r in range(n)],
            [[b for _, b in gathered[r][0]] for r in range(n)],
        )

    def _repeat(
        self, exchange: _Exchange | None, order: _Order
    ) -> tuple[list[tuple[float, float]], bool]:
        """Returns forward and backward times, and whether the data arrived."""
        times, right = [], True
        plan = order.plan
        for i in range(max(1, plan.warmup) + plan.repeats):
            pair = []
            for backward in (False, True):
                self.watch.flush()
                self.watch.synchronize()
                at = self._moment()
                if exchange is None:
                    continue
                if not backward:
                    at += int(order.start_ms[self.rank] * 1e6)
                pair.append(self._time(exchange, backward, at))
            if exchange is not None:
                if i == 0:
                    right = exchange.arrived()
                if i >= max(1, plan.warmup):
                    times.append((pair[0], pair[1]))
        return times, right

    def _moment(self) -> int:
        """When all start, on this process's monotonic clock in ns."""
        dist.barrier(group=self._control)
        if self.per_host == self.size:
            # On Linux all processes share that clock.
            return int(self._tell(str(time.monotonic_ns() + _LEAD_NS)))
        return time.monotonic_ns()

    def _time(self, exchange: _Exchange, backward: bool, at: int) -> float:
        run = exchange.backward if backward else exchange.forward
        if self.device.type == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            while time.monotonic_ns() < at:
                pass
            start.record()
            run()
            end.record()
            end.synchronize()
            return float(start.elapsed_time(end))
        if at - time.monotonic_ns() > _LEAD_NS:
            # CPUs may be fewer than ranks, so a long wait must leave them.
            time.sleep((at - time.monotonic_ns() - _LEAD_NS // 2) / 1e9)
        while time.monotonic_ns() < at:
            pass
        run()
        return (time.monotonic_ns() - at) / 1e6


class _Exchange:
    """One rank's matrices and buffers."""

    def __init__(self, order: _Order, rank: int, device: torch.device, group: Any) -> None:
        dims, batch = order.dims, order.batch
        n = len(dims)
        self.group = group
        self.travels = TRAVELS[order.dtype]
        shares = [(r + 1) * batch // n - r * batch // n for r in range(n)]
        own, samples = dims[rank], shares[rank]
        self.wide_split = [share * own for share in shares]
        self.tall_split = [samples * d for d in dims]
        # What a number is tells where it must arrive: see arrived.
        first = sum(dims[:rank])
        rows = torch.arange(batch, device=device, dtype=torch.float32)[:, None]
        columns = torch.arange(first, first + own, device=device, dtype=torch.float32)
        self.wide = self._numbers(rows, columns)
        self.expected_rows = rows[rank * batch // n :][:samples]
        self.wide_back = torch.full_like(self.wide, float("nan"))
        self.sent = self.wide if self._whole() else torch.empty_like(self.wide, dtype=self.travels)
        self.chunks = torch.empty(samples * sum(dims), device=device, dtype=self.travels)
        self.tall = torch.full((samples, sum(dims)), float("nan"), device=device)
        parts = self.chunks.split(self.tall_split)
        self.parts = [p.view(samples, d) for p, d in zip(parts, dims, strict=True)]
        self.columns = list(self.tall.split(dims, dim=1))

    def _whole(self) -> bool:
        return self.travels == torch.float32

    def _numbers(self, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """Numbers that show where they belong, and that travel without rounding."""
        if self._whole():
            return (rows % 1024) * 4096 + columns % 4096
        return (rows * 31 + columns * 17) % 256

    def _swap(
        self, received: torch.Tensor, sent: torch.Tensor, arrive: list[int], leave: list[int]
    ) -> None:
        if not self._whole():
            # As bytes: not every backend knows every type of two bytes.
            received, sent = received.view(torch.uint8), sent.view(torch.uint8)
            arrive, leave = [2 * n for n in arrive], [2 * n for n in leave]
        dist.all_to_all_single(received, sent, arrive, leave, group=self.group)

    def forward(self) -> None:
        if not self._whole():
            self.sent.copy_(self.wide)
        self._swap(self.chunks, self.sent.view(-1), self.tall_split, self.wide_split)
        for column, part in zip(self.columns, self.parts, strict=True):
            column.copy_(part)

    def backward(self) -> None:
        for column, part in zip(self.columns, self.parts, strict=True):
            part.copy_(column)
        into = self.wide_back if self._whole() else self.sent
        self._swap(into.view(-1), self.chunks, self.wide_split, self.tall_split)
        if not self._whole():
            self.wide_back.copy_(self.sent)

    def arrived(self) -> bool:
        """Reports whether forward and backward brought every number home."""
        columns = torch.arange(self.tall.shape[1], device=self.tall.device, dtype=torch.float32)
        there = torch.equal(self.tall, self._numbers(self.expected_rows, columns))
        return there and torch.equal(self.wide_back, self.wide)


def summary(times: Times) -> dict[str, Any]:
    """The fields of a comm response."""
    slowest = [max(of_ranks) for of_ranks in zip(*times.backward, strict=True)]
    return {
        "fwd": [middle(t)[0] for t in times.forward],
        "bwd": [middle(t)[0] for t in times.backward],
        "iqr": middle(slowest)[1],
        "n": len(slowest),
    }
