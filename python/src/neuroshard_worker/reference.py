"""The truth in float64, by the plainest code, and the comparison with it.

No engine is timed before a small random operation of the same kind (optimizer,
precision, weighted, lanes) has agreed: outputs, weights and optimizer state
after two steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch

from .engines.base import Engine
from .group import ADAGRAD, ADAM, BETA1, BETA2, EPSILON, ROWWISE_ADAGRAD, SGD, Group, Mode, Shard
from .wire import INTERNAL, WireError

Floats = npt.NDArray[np.float64]

RATE = 0.125
STEPS = 2
CHECKED_COLUMNS = (4, 32, 64, 128, 512)
"""The widest tables of check_all."""

# Sums of some thousand numbers around 1 in float32 are off by less than 1e-5 of
# their magnitude. A weight in fp16 is rounded at each step, by up to a unit in
# the last place (2^-10) where rounding is stochastic.
_TOLERANCE = {"fp32": 1e-4, "fp16": (STEPS + 1) * 2.0**-10}


class Reference:
    """The same operation in float64, bag by bag and row by row."""

    def __init__(self, group: Group, mode: Mode, rate: float) -> None:
        self.group = group
        self.mode = mode
        self.rate = rate
        self.steps = 0
        self.indices = group.indices.cpu().numpy()
        self.offsets = group.offsets.cpu().numpy()
        self.per_sample = (
            np.ones(group.lookups) if group.per_sample is None else _float64(group.per_sample)
        )
        self.gradient = _float64(group.gradient)
        self.weights: list[Floats] = []
        self.state: list[list[Floats]] = []

    def forward(self) -> Floats:
        g = self.group
        out = np.zeros((g.batch, g.width))
        for bag in range(g.bags):
            columns, weights, sample = self._bag(bag)
            at = slice(self.offsets[bag], self.offsets[bag + 1])
            out[sample, columns] = self.per_sample[at] @ weights[self.indices[at]]
        return out

    def backward(self) -> Floats:
        """Updates weights and state; returns the gradient of the per-sample weights."""
        self.steps += 1
        g = self.group
        of_lookups = np.zeros(g.lookups)
        gradients = [np.zeros_like(w) for w in self.weights]
        touched = [np.zeros(len(w), dtype=bool) for w in self.weights]
        for bag in range(g.bags):
            columns, weights, sample = self._bag(bag)
            shard = g.slot_shard[bag // g.batch]
            gradient = self.gradient[sample, columns]
            at = slice(self.offsets[bag], self.offsets[bag + 1])
            rows = self.indices[at]
            of_lookups[at] = weights[rows] @ gradient
            np.add.at(gradients[shard], rows, self.per_sample[at, None] * gradient)
            touched[shard][rows] = True
        for weights, state, gradient, rows in zip(
            self.weights, self.state, gradients, touched, strict=True
        ):
            for row in np.flatnonzero(rows):
                weights[row] -= self._step(gradient[row], state, row)
        return of_lookups

    def _bag(self, bag: int) -> tuple[slice, Floats, int]:
        slot, sample = divmod(bag, self.group.batch)
        column = self.group.slot_column[slot]
        weights = self.weights[self.group.slot_shard[slot]]
        return slice(column, column + weights.shape[1]), weights, sample

    def _step(self, g: Floats, state: list[Floats], row: int) -> Floats:
        if self.mode.optimizer == SGD:
            return self.rate * g
        if self.mode.optimizer == ROWWISE_ADAGRAD:
            state[0][row] += (g * g).mean()
            return self.rate / (np.sqrt(state[0][row]) + EPSILON) * g
        if self.mode.optimizer == ADAGRAD:
            state[0][row] += g * g
            return self.rate / (np.sqrt(state[0][row]) + EPSILON) * g
        assert self.mode.optimizer == ADAM
        first, second = state
        first[row] = BETA1 * first[row] + (1 - BETA1) * g
        second[row] = BETA2 * second[row] + (1 - BETA2) * g * g
        m = first[row] / (1 - BETA1**self.steps)
        v = second[row] / (1 - BETA2**self.steps)
        return self.rate * m / (np.sqrt(v) + EPSILON)


def sample_group(lanes: int, weighted: bool, seed: int, device: torch.device) -> Group:
    """A small group that takes every branch of the kernels: mixed dims, the widest
    of them not a power of two; a table of two features; empty and long bags; rows
    used once, often enough for several pieces, and never; equal slices. On a CPU it
    is smaller, for Triton's interpreter takes its time."""
    batch, hot = (12, 600) if device.type == "cpu" else (256, 2400)
    random = np.random.default_rng(seed)
    widest = max(4, lanes or 64)
    dims = [4, widest, max(4, widest // 2 + 4 if widest > 8 else 4), 4]
    rows = [7, 80 + 20 * batch, 90, 7]
    features = [1, 1, 2, 1]
    shards = []
    for dim, r, f in zip(dims, rows, features, strict=True):
        lengths = random.integers(0, 9, size=batch * f)
        lengths[random.choice(len(lengths), size=2, replace=False)] = [0, 41]
        # Squared, so that low rows are hot; the first table's 7 rows all are.
        drawn = (r * random.random(lengths.sum()) ** 3).astype(np.int64)
        if dim == widest:
            lengths[1] += hot
            drawn = np.concatenate((drawn, np.zeros(hot, dtype=np.int64)))
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        shards.append(Shard(r, dim, f, torch.from_numpy(drawn), torch.from_numpy(offsets)))
    return Group(shards, batch, weighted, device)


def check(engine: Engine, mode: Mode, lanes: int, seed: int = 1) -> str:
    """Runs two steps of a small operation against float64.

    Returns "" where everything agrees, and otherwise what is off, and by how much.
    """
    group = sample_group(lanes, mode.weighted, seed, engine.device)
    random = np.random.default_rng(seed)
    # Weights of one sign in each column, gradients of the other: no sum loses
    # digits to cancellation, so that whatever is off is wrong.
    signs = np.concatenate([_signs(group.shards[i].dim) for i in group.slot_shard])
    gradient = -random.uniform(0.5, 1, (group.batch, group.width)) * signs
    group.gradient.copy_(torch.from_numpy(gradient.astype(np.float32)))
    op = engine.prepare(group, mode, RATE)
    reference = Reference(group, mode, RATE)
    for i, shard in enumerate(group.shards):
        start = random.uniform(0.25, 1, (shard.rows, shard.dim)) * _signs(shard.dim)
        op.weights(i).copy_(torch.from_numpy(start.astype(np.float32)))
        reference.weights.append(_float64(op.weights(i)))
        for moment in op.state(i):
            moment.zero_()
        reference.state.append([_float64(moment) for moment in op.state(i)])

    tolerance = _TOLERANCE[mode.dtype]
    found = []
    for step in range(1, STEPS + 1):
        op.output.fill_(float("nan"))
        op.forward()
        # Weights that were rounded differ from the reference's, and a bag sums some.
        scale = 1e-4 if mode.dtype == "fp32" or step == 1 else 30 * tolerance
        found.append(_differ(f"output of step {step}", op.output, reference.forward(), scale))
        op.backward()
        of_lookups = reference.backward()
        if mode.weighted:
            got = op.lookup_gradient()
            if got is None:
                found.append("no gradient of the per-sample weights")
            else:
                what = f"gradient of the per-sample weights of step {step}"
                found.append(_differ(what, got, of_lookups, scale))
    for i in range(len(group.shards)):
        what = f"weights of shard {i} (dim {group.shards[i].dim})"
        found.append(_differ(what, op.weights(i), reference.weights[i], tolerance))
        if len(op.state(i)) != len(reference.state[i]):
            found.append(f"shard {i} has {len(op.state(i))} states")
        for k, (got, want) in enumerate(zip(op.state(i), reference.state[i], strict=False)):
            found.append(_differ(f"state {k} of shard {i}", got, want, 1e-4))
    return "; ".join(f for f in found if f)


def ensure_right(engine: Engine, mode: Mode, widest: int) -> None:
    """WireError if the engine's numbers are wrong for this kind of operation, with a table of
    this dim as its widest. Each kind is checked once."""
    key = (mode, engine.lanes(widest))
    if key in engine.checked:
        return
    if wrong := check(engine, *key):
        raise WireError(
            INTERNAL,
            f"{engine.name} is wrong for {mode} at {key[1]} columns, so it is not timed: {wrong}",
        )
    engine.checked.add(key)


def check_all(engine: Engine) -> Iterator[tuple[Mode, int, str]]:
    """Checks all kinds of operations that the engine has, for widest tables of some widths:
    yields each with what is off, or ""."""
    for optimizer, dtype, weighted in itertools.product(
        engine.optimizers, engine.dtypes, (False, True)
    ):
        if (optimizer, dtype) in engine.lacks:
            continue
        mode = Mode(optimizer, dtype, weighted)
        for columns in sorted({engine.lanes(c) for c in CHECKED_COLUMNS}):
            try:
                yield mode, columns, check(engine, mode, columns)
            except (RuntimeError, AssertionError) as e:
                yield mode, columns, str(e).strip().split("\n")[0]


def _signs(dim: int) -> Floats:
    return np.where(np.arange(dim) % 3 == 0, -1.0, 1.0)


def _differ(what: str, got: torch.Tensor, want: Floats, tolerance: float) -> str:
    """Says by how much, in units of 1 + the number wanted, got is off; NaN is."""
    numbers = _float64(got).reshape(want.shape)
    apart = np.abs(numbers - want) / (1 + np.abs(want))
    wrong = ~(apart <= tolerance)
    if not wrong.any():
        return ""
    finite = apart[np.isfinite(apart)]
    most = f"{finite.max():.3g}" if len(finite) else "everywhere"
    lost = int((~np.isfinite(apart)).sum())
    also = f", and {lost} are not finite" if lost else ""
    return (
        f"{what}: {int(wrong.sum())} of {wrong.size} numbers are off by up to {most} "
        f"(allowed {tolerance:.1g}){also}"
    )


def _float64(tensor: torch.Tensor) -> Floats:
    return tensor.detach().cpu().double().numpy()
