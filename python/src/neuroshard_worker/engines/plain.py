"""Plain PyTorch operations, on any device: the fallback, and the logic to compare
with.

The backward of a table: its lookups sorted by row, runs of equal rows counted,
gradients summed a run, one update a row.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from ..group import (
    ADAGRAD,
    ADAM,
    BETA1,
    BETA2,
    DTYPES,
    EPSILON,
    OPTIMIZERS,
    ROWWISE_ADAGRAD,
    SGD,
    Group,
    Mode,
)
from .base import Engine, Operation, Windows, window


class TorchEngine(Engine):
    name = "torch"
    optimizers = OPTIMIZERS
    dtypes = tuple(DTYPES)
    most_columns = 1 << 14

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.kernel = f"embedding_bag, sort and index_add of torch {torch.__version__}, allocating"
        self.windows = Windows(device)

    def prepare(self, group: Group, mode: Mode, rate: float) -> TorchOperation:
        return TorchOperation(group, mode, rate, self.windows)

    def release(self) -> None:
        self.windows.release()

    def lanes(self, widest: int) -> int:
        return 0  # one code for all


class TorchOperation(Operation):
    def __init__(self, group: Group, mode: Mode, rate: float, windows: Windows) -> None:
        self.group = group
        self.mode = mode
        self.rate = rate
        self.steps = 0
        self.output = torch.empty_like(group.gradient)
        self.gradient_of_lookups = (
            None if group.per_sample is None else torch.empty_like(group.per_sample)
        )
        shards = group.shards
        block, starts = windows.cut("weights", [s.rows * s.dim for s in shards], mode.torch_dtype)
        self._weights = [
            window(block, at, s.rows, s.dim) for at, s in zip(starts, shards, strict=True)
        ]
        self._state: list[list[torch.Tensor]] = [[] for _ in shards]
        columns = [mode.state_floats(s.dim) for s in shards]
        if any(columns):
            moments = 2 if mode.optimizer == ADAM else 1
            block, starts = windows.cut(
                "state", [s.rows * c for s, c in zip(shards, columns, strict=True)], torch.float32
            )
            for i, (s, c) in enumerate(zip(shards, columns, strict=True)):
                part = c // moments
                self._state[i] = [
                    window(block, starts[i] + k * s.rows * part, s.rows, part)
                    for k in range(moments)
                ]

    def weights(self, shard: int) -> torch.Tensor:
        return self._weights[shard]

    def state(self, shard: int) -> list[torch.Tensor]:
        return self._state[shard]

    def lookup_gradient(self) -> torch.Tensor | None:
        return self.gradient_of_lookups

    def forward(self) -> None:
        g = self.group
        for slot, shard in enumerate(g.slot_shard):
            lo, hi, offsets = self._slot(slot)
            weights = self._weights[shard]
            per_sample = None if g.per_sample is None else g.per_sample[lo:hi]
            if weights.dtype == torch.float32:
                pooled = functional.embedding_bag(
                    g.indices[lo:hi],
                    weights,
                    offsets - lo,
                    mode="sum",
                    per_sample_weights=per_sample,
                    include_last_offset=True,
                )
            else:
                # embedding_bag would sum in half precision.
                rows = weights[g.indices[lo:hi]].float()
                if per_sample is not None:
                    rows *= per_sample[:, None]
                pooled = torch.zeros(g.batch, weights.shape[1], device=g.device)
                pooled.index_add_(0, self._bags(offsets), rows)
            column = g.slot_column[slot]
            self.output[:, column : column + weights.shape[1]] = pooled

    def backward(self) -> None:
        self.steps += 1
        g = self.group
        slot = 0
        for i, shard in enumerate(g.shards):
            lo, hi = g.first[i], g.first[i + 1]
            indices = g.indices[lo:hi]
            parts = []
            for k in range(slot, slot + shard.features):
                _, _, offsets = self._slot(k)
                column = g.slot_column[k]
                gradient = g.gradient[:, column : column + shard.dim]
                parts.append(gradient[self._bags(offsets)])
            slot += shard.features
            gradients = torch.cat(parts)
            if g.per_sample is not None and self.gradient_of_lookups is not None:
                rows = self._weights[i][indices].float()
                self.gradient_of_lookups[lo:hi] = (rows * gradients).sum(1)
                gradients *= g.per_sample[lo:hi, None]
            if hi > lo:
                in_order, order = torch.sort(indices)
                rows, run = torch.unique_consecutive(in_order, return_inverse=True)
                sums = torch.zeros(len(rows), shard.dim, device=g.device)
                sums.index_add_(0, run, gradients[order])
                self._update(i, rows, sums)

    def _slot(self, slot: int) -> tuple[int, int, torch.Tensor]:
        """First lookup, last, and offsets of a slot."""
        g = self.group
        offsets = g.offsets[slot * g.batch : (slot + 1) * g.batch + 1]
        return int(offsets[0]), int(offsets[-1]), offsets

    def _bags(self, offsets: torch.Tensor) -> torch.Tensor:
        """The sample of each lookup of a slot."""
        samples = torch.arange(self.group.batch, device=self.group.device)
        return torch.repeat_interleave(samples, offsets.diff())

    def _update(self, i: int, rows: torch.Tensor, sums: torch.Tensor) -> None:
        weights, state = self._weights[i], self._state[i]
        if self.mode.optimizer == SGD:
            step = self.rate * sums
        elif self.mode.optimizer == ROWWISE_ADAGRAD:
            total = state[0][rows] + sums.square().mean(1, keepdim=True)
            state[0][rows] = total
            step = self.rate * sums / (total.sqrt() + EPSILON)
        elif self.mode.optimizer == ADAGRAD:
            total = state[0][rows] + sums.square()
            state[0][rows] = total
            step = self.rate * sums / (total.sqrt() + EPSILON)
        else:
            first = BETA1 * state[0][rows] + (1 - BETA1) * sums
            second = BETA2 * state[1][rows] + (1 - BETA2) * sums.square()
            state[0][rows], state[1][rows] = first, second
            root = (second / (1 - BETA2**self.steps)).sqrt() + EPSILON
            step = self.rate * (first / (1 - BETA1**self.steps)) / root
        weights[rows] = (weights[rows].float() - step).to(weights.dtype)
