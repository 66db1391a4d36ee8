"""What each step of a training keeps a rank busy, for ``neuroshard watch``.

A step's times are taken around TorchRec's operators, exchanges included:

    forward    each operator's lookup
    wait       for the pooled vectors, and in the backward for their gradients
    backward   each operator's backward, in which its rows are updated

On GPUs these are pairs of events in the streams, which nobody waits for: they are read
once the GPU has passed them, a few steps later. On CPUs they are readings of a clock.

On GPUs the bytes of the caching allocator are written, too: those allocated at the start of the
step, and the peaks of what was allocated and reserved in it.
"""

from __future__ import annotations

import json
import os
import time
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import IO, Any

import torch
import torch.distributed as dist

from . import _sharded as sharded
from . import memory

PHASES = ("forward_ms", "backward_ms", "wait_ms")

MEMORY = {
    "start_bytes": memory.START,
    "peak_bytes": memory.PEAK,
    "reserved_bytes": memory.RESERVED,
}
"""The keys of torch.cuda.memory_stats() by those of lines."""


class CPUClock:
    """Marks that are readings of a clock, in nanoseconds."""

    def __init__(self, read: Callable[[], int] = time.perf_counter_ns) -> None:
        self.mark = read

    def passed(self, mark: int) -> bool:
        return True

    def wait(self) -> None:
        """Waits until all marks have passed."""

    def between(self, first: int, last: int) -> float:
        """Returns the milliseconds from one mark to the other."""
        return (last - first) / 1e6


class CUDAClock:
    """Marks that are events in the current stream."""

    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def passed(self, mark: Any) -> bool:
        return bool(mark.query())

    def wait(self) -> None:
        """Waits until all marks have passed."""
        torch.cuda.synchronize()

    def between(self, first: Any, last: Any) -> float:
        """Returns the milliseconds from one mark to the other."""
        return float(first.elapsed_time(last))


class StepTimes:
    """Writes a line of JSON for each training step of this rank::

        times = StepTimes(model, "times.{rank}.jsonl")
        ... train ...
        times.close()

    ``model`` is the DistributedModelParallel. Every rank makes its own StepTimes. ``to`` is
    a path, to which lines are appended and in which ``{rank}`` stands for the rank's number,
    or an open text file, which stays open. The lines are as ``neuroshard watch`` reads them:
    ``{"step":0,"device":3,"forward_ms":1.2,"backward_ms":2.3,"wait_ms":0.4,"time":1.7e9}``.
    The device is the rank, and the time is when the step ended, in seconds since 1970.
    ``first`` is the number of the first step.

    A step is from one forward of the model in training mode to the next one; the last one
    is written by ``close``, which waits for the GPU. A step
    without a backward is not written, and a rank without tables writes nothing. ``reshard``
    may come between two steps.

    On GPUs a line also has ``start_bytes``, ``peak_bytes`` and ``reserved_bytes``. For the peaks
    each step calls ``torch.cuda.reset_peak_memory_stats``.
    """

    def __init__(
        self,
        model: Any,
        to: str | os.PathLike[str] | IO[str],
        *,
        first: int = 0,
        clock: Any = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        group = sharded.group_of(model)
        self._device = 0 if group is None else dist.get_rank(group)
        device = sharded.device_of(model)
        self._cuda = device if device.type == "cuda" else None
        self._clock = clock or (CPUClock() if self._cuda is None else CUDAClock())
        self._now = now
        self._own = not hasattr(to, "write")
        if self._own:
            path = os.fsdecode(to).replace("{rank}", str(self._device))  # type: ignore[arg-type]
            self._file: Any = open(path, "a", encoding="utf-8")  # noqa: SIM115 # close closes it
        else:
            self._file = to
        self._step = first
        self._spans: list[tuple[str, Any, Any]] = []  # of the step that runs
        self._start = 0  # the allocated bytes when that step began
        # Steps that are not yet written: the number, when it ended, its bytes, and its spans.
        self._steps: deque[tuple[int, float, dict[str, int], list[tuple[str, Any, Any]]]] = deque()
        self._training = False  # whether the model's forward is one of a training
        self._trained = False  # whether its backward has come to a collection
        self._hooked: dict[Any, tuple[list[Any], list[Any]]] = {}  # lookups by collection
        self._handles = [model.register_forward_pre_hook(self._begin)]
        for module in sharded.modules(model):
            self._handles.append(module.register_forward_pre_hook(self._look))
            self._handles.append(module.register_forward_hook(self._output))

    def close(self) -> None:
        """Writes what is left and takes the hooks away."""
        for handle in (*self._handles, *(h for _, own in self._hooked.values() for h in own)):
            handle.remove()
        self._handles, self._hooked = [], {}
        self._end()
        self._write(wait=True)
        if self._own:
            self._file.close()

    def __enter__(self) -> StepTimes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Steps.

    def _begin(self, model: Any, _: Any) -> None:
        self._end()
        self._training = bool(model.training and torch.is_grad_enabled())
        if self._cuda is not None:
            self._start = torch.cuda.memory_stats(self._cuda)[memory.START]
            torch.cuda.reset_peak_memory_stats(self._cuda)
        self._write(wait=False)

    def _end(self) -> None:
        if self._trained:
            if any(phase == "forward_ms" for phase, _, _ in self._spans):
                self._steps.append((self._step, self._now(), self._bytes(), self._spans))
            self._step += 1
        self._spans, self._trained = [], False

    def _bytes(self) -> dict[str, int]:
        """Returns the bytes of the step that ends; none on CPUs."""
        if self._cuda is None:
            return {}
        stats = torch.cuda.memory_stats(self._cuda) | {memory.START: self._start}
        return {key: stats[theirs] for key, theirs in MEMORY.items()}

    def _write(self, wait: bool) -> None:
        """Writes the steps that the device has passed, in their order."""
        while self._steps:
            step, ended, held, spans = self._steps[0]
            if wait:
                self._clock.wait()
            if not all(self._clock.passed(last) for _, _, last in spans):
                break
            sums = dict.fromkeys(PHASES, 0.0)
            for phase, first, last in spans:
                sums[phase] += self._clock.between(first, last)
            line: dict[str, float] = {"step": step, "device": self._device}
            line |= {phase: round(ms, 6) for phase, ms in sums.items()}
            line |= held
            line["time"] = round(ended, 3)
            self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
            self._steps.popleft()
        self._file.flush()

    # Marks.

    def _span(self, phase: str, first: Any) -> None:
        self._spans.append((phase, first, self._clock.mark()))

    def _look(self, module: Any, _: Any) -> None:
        """Hooks the lookups of a collection, again if they were made anew."""
        lookups = sharded.lookups(module)
        hooked, handles = self._hooked.get(module, ([], []))
        if [r() for r in hooked] == lookups:
            return
        for handle in handles:
            handle.remove()
        handles = []
        for lookup in lookups:
            begun: list[Any] = []
            handles.append(lookup.register_forward_pre_hook(partial(self._lookup, begun)))
            handles.append(lookup.register_forward_hook(partial(self._looked_up, begun)))
        self._hooked[module] = ([weakref.ref(lookup) for lookup in lookups], handles)

    def _lookup(self, begun: list[Any], *_: Any) -> None:
        begun[:] = [self._clock.mark()]

    def _looked_up(self, begun: list[Any], *_: Any) -> None:
        if self._training:
            self._span("forward_ms", *begun)

    def _output(self, _: Any, __: Any, output: Any) -> None:
        """Marks the wait for the pooled vectors, which TorchRec puts off until they are read."""
        if not self._training:
            return
        wait = output._wait_impl

        def timed() -> Any:
            first = self._clock.mark()
            pooled = wait()
            self._span("wait_ms", first)
            self._backward(pooled.values())
            return pooled

        output._wait_impl = timed

    def _backward(self, values: torch.Tensor) -> None:
        """Marks the backward of the operators and the waits for gradients, which are nodes of
        the graph that has led to these values."""
        if not values.requires_grad:
            return
        values.register_hook(self._went)
        todo, seen = [values.grad_fn], set()
        while todo:
            node = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            following = [n for n, _ in node.next_functions if n is not None]
            inner = [n for n in following if not n.name().endswith("AccumulateGrad")]
            if "_Req" in node.name():  # TorchRec's: it waits for what others send
                self._hook(node, "wait_ms")
            elif following and not inner:
                self._hook(node, "backward_ms")
            todo += inner

    def _hook(self, node: Any, phase: str) -> None:
        begun: list[Any] = []
        node.register_prehook(lambda _: begun.append(self._clock.mark()))
        node.register_hook(lambda *_: self._span(phase, begun.pop()))

    def _went(self, _: torch.Tensor) -> None:
        self._trained = True
