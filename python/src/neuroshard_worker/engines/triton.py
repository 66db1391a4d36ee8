"""The engine of our own Triton kernels (kernels.py).

Everything an operation needs is allocated when it is prepared, but for the
temporary memory of torch.sort and torch.cumsum, which comes from PyTorch's pool
of free blocks.
"""

from __future__ import annotations

import os
from typing import Any

import torch
import triton

from ..group import ADAM, BETA1, BETA2, DTYPES, EPSILON, OPTIMIZERS, SGD, Group, Mode
from . import kernels
from .base import Engine, Operation, Windows, window

# Threads and numbers of one program. A warp is 32 threads; 4 numbers each are the
# widest load of a thread.
_NUMBERS = 256
_WARPS = 2
_MARKED = 1024  # lookups of a program that looks at keys
_COLUMNS = 128  # of the forward's blocks: wider shards take several

_NARROW_KEYS = (1 << 31) - 1
_MOST = (1 << 31) - 1  # lookups and bags: they are counted in 32 bits


class TritonEngine(Engine):
    name = "triton"
    optimizers = OPTIMIZERS
    dtypes = tuple(DTYPES)
    most_columns = 2048

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        interpreted = os.environ.get("TRITON_INTERPRET") == "1"
        if device.type != "cuda" and not interpreted:
            raise ValueError("triton needs a GPU (or TRITON_INTERPRET=1, for tests)")
        how = ", interpreted" if interpreted else ""
        versions = f"triton {triton.__version__}{how}, sort of torch {torch.__version__}"
        self.kernel = f"neuroshard pair 1, {versions}"
        self.windows = Windows(device)

    def prepare(self, group: Group, mode: Mode, rate: float) -> TritonOperation:
        if group.lookups > _MOST or group.bags > _MOST:
            raise ValueError(f"{group.lookups} lookups in {group.bags} bags: {_MOST} at most")
        return TritonOperation(group, mode, rate, self.windows)

    def release(self) -> None:
        self.windows.release()


class TritonOperation(Operation):
    def __init__(self, group: Group, mode: Mode, rate: float, windows: Windows) -> None:
        self.group = group
        self.mode = mode
        self.rate = rate
        self.steps = 0
        shards = group.shards
        device = group.device
        self.output = torch.empty_like(group.gradient)

        self._weights, starts = windows.cut(
            "weights", [s.rows * s.dim for s in shards], mode.torch_dtype
        )
        self._starts = starts
        self._columns = [mode.state_floats(s.dim) for s in shards]
        sizes = [s.rows * c for s, c in zip(shards, self._columns, strict=True)]
        self._state, state_starts = windows.cut("state", sizes, torch.float32)
        self._state_starts = state_starts
        row_starts = [0]
        for s in shards:
            row_starts.append(row_starts[-1] + s.rows)

        def slots(values: list[int], dtype: torch.dtype = torch.int64) -> torch.Tensor:
            return torch.tensor([values[i] for i in group.slot_shard], dtype=dtype, device=device)

        self._slot_window = slots([x // 4 for x in starts])
        self._slot_state = slots([x // 4 for x in state_starts])
        self._slot_dim = slots([s.dim // 4 for s in shards], torch.int32)
        self._slot_row = slots(row_starts)
        self._slot_rows = slots([s.rows for s in shards])
        self._slot_column = torch.tensor(
            [c // 4 for c in group.slot_column], dtype=torch.int32, device=device
        )

        n = group.lookups
        keys = torch.int32 if row_starts[-1] <= _NARROW_KEYS else torch.int64

        def ints(count: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
            return torch.empty(max(1, count), dtype=dtype, device=device)

        # n programs at most find a run, n/SHORT a piece: a run on the list has more
        # than SHORT lookups, and one of several pieces fewer than 2/PIECE of them a
        # lookup, which is no more.
        assert kernels.PIECE >= 2 * (kernels.SHORT + 1)
        self._most_runs = min(n, row_starts[-1])
        self._most_pieces = n // (kernels.SHORT + 1)
        self._most_long = n // (kernels.PIECE + 1)
        most_sums = 2 * n // kernels.PIECE
        self._keys, self._sorted = ints(n, keys), ints(n, keys)
        self._order = ints(n, torch.int64)
        self._bag_of, self._begins, self._run_of = ints(n), ints(n), ints(n)
        self._starts_of = ints(self._most_runs + 1)
        self._counts = torch.zeros(4, dtype=torch.int32, device=device)
        self._piece_run = ints(self._most_pieces)
        self._piece_number = ints(self._most_pieces)
        self._piece_sum = ints(self._most_pieces)
        self._long_run, self._long_sum = ints(self._most_long), ints(self._most_long)
        self._block = 1 << (group.widest - 1).bit_length()
        self._partial = torch.empty(max(1, most_sums) * self._block, device=device)
        # Kernels want a pointer also where they do not read.
        self._per_sample = self._partial if group.per_sample is None else group.per_sample
        self._of_lookups = None if group.per_sample is None else torch.empty_like(group.per_sample)
        self._rows_at_once = max(1, _NUMBERS // self._block)
        self._warps = max(_WARPS, min(16, self._block // 128))

    def weights(self, shard: int) -> torch.Tensor:
        s = self.group.shards[shard]
        return window(self._weights, self._starts[shard], s.rows, s.dim)

    def state(self, shard: int) -> list[torch.Tensor]:
        s, columns = self.group.shards[shard], self._columns[shard]
        if self.mode.optimizer == SGD:
            return []
        moments = 2 if self.mode.optimizer == ADAM else 1
        part = columns // moments
        at = self._state_starts[shard]
        return [window(self._state, at + k * s.rows * part, s.rows, part) for k in range(moments)]

    def lookup_gradient(self) -> torch.Tensor | None:
        return self._of_lookups

    def forward(self) -> None:
        g = self.group
        block = min(self._block, _COLUMNS)
        bags = max(1, _NUMBERS // block)
        blocks = -(-g.widest // block)
        kernels.forward[(-(-g.bags // bags), blocks)](
            self._weights, g.indices, g.offsets, self._per_sample, self.output,
            self._slot_window, self._slot_dim, self._slot_column,
            g.batch, g.bags, g.width // 4,
            WEIGHTED=self.mode.weighted, BAGS=bags, BLOCK=block, UNROLL=kernels.UNROLL,
            num_warps=_WARPS,
        )  # fmt: skip

    def backward(self) -> None:
        if self.group.lookups == 0:
            self.steps += 1
            return
        self._sort()
        self._update()

    def _sort(self) -> None:
        """The lookups in order of their rows, and where each row's begin."""
        g, n = self.group, self.group.lookups
        if self._of_lookups is not None:
            # Before the update, as the gradient is of the weights that were read.
            kernels.lookup_gradient[(-(-g.bags // self._rows_at_once),)](
                self._weights, g.indices, g.offsets, g.gradient, self._of_lookups,
                self._slot_window, self._slot_dim, self._slot_column,
                g.batch, g.bags, g.width // 4,
                BAGS=self._rows_at_once, BLOCK=self._block, num_warps=self._warps,
            )  # fmt: skip
        bags = 16
        kernels.linearise[(-(-g.bags // bags),)](
            g.indices, g.offsets, self._slot_row, self._keys, self._bag_of, g.batch, g.bags,
            BAGS=bags, STEP=16, num_warps=_WARPS,
        )  # fmt: skip
        torch.sort(self._keys[:n], out=(self._sorted[:n], self._order[:n]))
        grid = (-(-n // _MARKED),)
        kernels.mark[grid](self._sorted, self._begins, n, BLOCK=_MARKED)
        torch.cumsum(self._begins[:n], 0, dtype=torch.int32, out=self._run_of[:n])
        kernels.begin[grid](
            self._begins, self._run_of, self._starts_of, self._counts, n, BLOCK=_MARKED
        )

    def _update(self) -> None:
        """Gradients summed and rows updated, from the lookups in order."""
        self.steps += 1
        self._counts[1:].zero_()
        g, block, runs = self.group, self._block, self._rows_at_once
        numbers: dict[str, Any] = {
            "batch": g.batch,
            "rate": self.rate,
            "epsilon": EPSILON,
            "beta1": BETA1,
            "beta2": BETA2,
            "bias1": 1 - BETA1**self.steps,
            "bias2": 1 - BETA2**self.steps,
            "OPTIMIZER": self.mode.optimizer,
            "BLOCK": block,
            "PIECE": kernels.PIECE,
        }
        tables = (self._slot_window, self._slot_state, self._slot_dim)
        sums = {"width": g.width // 4, "WEIGHTED": self.mode.weighted}
        sorted_ = (self._sorted, self._order, self._bag_of, self._starts_of, self._counts)
        kernels.update[(-(-self._most_runs // runs),)](
            self._weights, self._state, g.gradient, self._per_sample, *sorted_,
            self._piece_run, self._piece_number, self._piece_sum, self._long_run, self._long_sum,
            *tables, self._slot_column, self._slot_row, self._slot_rows,
            RUNS=runs, SHORT=kernels.SHORT, num_warps=self._warps, **sums, **numbers,
        )  # fmt: skip
        if self._most_pieces:
            kernels.pieces[(self._most_pieces,)](
                self._weights, self._state, g.gradient, self._per_sample, *sorted_,
                self._piece_run, self._piece_number, self._piece_sum, self._partial,
                *tables, self._slot_column, self._slot_row, self._slot_rows,
                STEP=max(1, 2048 // block), num_warps=max(4, self._warps), **sums, **numbers,
            )  # fmt: skip
        if self._most_long:
            kernels.combine[(self._most_long,)](
                self._weights, self._state, *sorted_, self._long_run, self._long_sum, self._partial,
                *tables, self._slot_row, self._slot_rows, num_warps=_WARPS, **numbers,
            )  # fmt: skip
