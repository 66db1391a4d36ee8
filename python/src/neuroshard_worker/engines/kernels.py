"""The Triton kernels: pooled forward, and exact backward.

A program takes some bags, or some runs of equal rows, and all columns of a block
at once; the block is as wide as the widest shard of the operation, like the lanes
of FBGEMM's kernels, so that narrow shards beside wide ones leave lanes idle.

The backward, from the lookups of all shards:

    linearise  key = the row's number among all shards' rows; the bag of each lookup
    (sort)     keys in order, and where each lookup was        torch.sort
    mark       1 where a run of equal keys begins
    (cumsum)   the number of the run that each lookup is in    torch.cumsum
    begin      where each run begins, and how many there are
    update     runs of up to SHORT lookups: gradients summed, row updated; longer
               ones are put on a list in pieces of PIECE lookups
    pieces     each piece summed; a run of one piece is updated
    combine    pieces of one run added up in order, the row updated

How many runs and pieces there are only the device knows: the host launches as
many programs as there can be, and those that are too many return at once. Sums
are always taken in the same order, so results do not change from run to run.

Dims and the beginnings of windows come divided by 4: multiplied here, the
compiler knows that they are multiples of 4 and reads 4 numbers at once.
"""

from __future__ import annotations

import triton
import triton.language as tl

SHORT = 32
"""Runs of more lookups are cut into pieces."""
PIECE = 512
"""Lookups of a piece; at least twice SHORT + 1, see TritonOperation."""
UNROLL = 4
"""Lookups whose rows are read before the first is needed."""

# Sizes must not be compiled in: a new variant would be built while timing.
_SIZES = ["batch", "bags", "width", "lookups"]


@triton.jit(do_not_specialize=_SIZES)
def forward(
    weights, indices, offsets, per_sample, output,
    slot_window, slot_dim, slot_column,
    batch, bags, width,
    WEIGHTED: tl.constexpr, BAGS: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    bag = tl.program_id(0) * BAGS + tl.arange(0, BAGS)
    live = bag < bags
    slot = bag // batch
    sample = (bag - slot * batch).to(tl.int64)
    start = tl.load(offsets + bag, mask=live, other=0)
    length = (tl.load(offsets + bag + 1, mask=live, other=0) - start).to(tl.int32)
    dim = tl.load(slot_dim + slot, mask=live, other=0) * 4
    first = tl.load(slot_window + slot, mask=live, other=0) * 4
    to = tl.load(slot_column + slot, mask=live, other=0) * 4
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column[None, :] < dim[:, None]
    total = tl.zeros([BAGS, BLOCK], dtype=tl.float32)
    most = tl.max(length, axis=0)
    for k in range(0, most, UNROLL):
        for j in tl.static_range(UNROLL):
            on = (k + j) < length
            row = tl.load(indices + start + (k + j), mask=on, other=0)
            at = first[:, None] + row[:, None] * dim[:, None] + column[None, :]
            value = tl.load(weights + at, mask=inside & on[:, None], other=0.0).to(tl.float32)
            if WEIGHTED:
                scale = tl.load(per_sample + start + (k + j), mask=on, other=0.0)
                value = value * scale[:, None]
            total += value
    at = sample[:, None] * (width * 4) + to[:, None] + column[None, :]
    tl.store(output + at, total, mask=inside & live[:, None])


@triton.jit(do_not_specialize=_SIZES)
def lookup_gradient(
    weights, indices, offsets, gradient, of_lookups,
    slot_window, slot_dim, slot_column,
    batch, bags, width,
    BAGS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient of the per-sample weights: a row times its bag's gradient."""
    bag = tl.program_id(0) * BAGS + tl.arange(0, BAGS)
    live = bag < bags
    slot = bag // batch
    sample = (bag - slot * batch).to(tl.int64)
    start = tl.load(offsets + bag, mask=live, other=0)
    length = (tl.load(offsets + bag + 1, mask=live, other=0) - start).to(tl.int32)
    dim = tl.load(slot_dim + slot, mask=live, other=0) * 4
    first = tl.load(slot_window + slot, mask=live, other=0) * 4
    to = tl.load(slot_column + slot, mask=live, other=0) * 4
    column = tl.arange(0, BLOCK)
    inside = column[None, :] < dim[:, None]
    at = sample[:, None] * (width * 4) + to[:, None] + column[None, :]
    g = tl.load(gradient + at, mask=inside & live[:, None], other=0.0)
    most = tl.max(length, axis=0)
    for k in range(0, most):
        on = k < length
        row = tl.load(indices + start + k, mask=on, other=0)
        at = first[:, None] + row[:, None] * dim[:, None] + column[None, :]
        value = tl.load(weights + at, mask=inside & on[:, None], other=0.0).to(tl.float32)
        tl.store(of_lookups + start + k, tl.sum(value * g, axis=1), mask=on)


@triton.jit(do_not_specialize=_SIZES)
def linearise(
    indices, offsets, slot_row, keys, bag_of,
    batch, bags,
    BAGS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    bag = tl.program_id(0) * BAGS + tl.arange(0, BAGS)
    live = bag < bags
    start = tl.load(offsets + bag, mask=live, other=0)
    end = tl.load(offsets + bag + 1, mask=live, other=0)
    base = tl.load(slot_row + bag // batch, mask=live, other=0)
    most = tl.max((end - start).to(tl.int32), axis=0)
    for k in range(0, most, STEP):
        at = start[:, None] + k + tl.arange(0, STEP)[None, :]
        on = at < end[:, None]
        row = tl.load(indices + at, mask=on, other=0)
        tl.store(keys + at, (base[:, None] + row).to(keys.dtype.element_ty), mask=on)
        tl.store(bag_of + at, tl.broadcast_to(bag[:, None], [BAGS, STEP]), mask=on)


@triton.jit(do_not_specialize=_SIZES)
def mark(keys, begins, lookups, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    on = i < lookups
    key = tl.load(keys + i, mask=on, other=0)
    before = tl.load(keys + i - 1, mask=on & (i > 0), other=0)
    tl.store(begins + i, ((i == 0) | (key != before)).to(tl.int32), mask=on)


@triton.jit(do_not_specialize=_SIZES)
def begin(begins, run_of, starts, counts, lookups, BLOCK: tl.constexpr):
    """counts[0] becomes the number of runs; starts has one entry more."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    on = i < lookups
    run = tl.load(run_of + i, mask=on, other=0)
    first = tl.load(begins + i, mask=on, other=0) != 0
    tl.store(starts + run - 1, i, mask=on & first)
    last = i == lookups - 1
    tl.store(starts + run, i + 1, mask=last)
    tl.store(counts + run * 0, run, mask=last)


@triton.jit
def _apply(
    weights, state, slot_window, slot_state, slot, row, dim, column, live, total,
    rate, epsilon, beta1, beta2, bias1, bias2, slot_rows,
    OPTIMIZER: tl.constexpr,
):  # fmt: skip
    """Updates rows, one of each line of total, which is their summed gradient."""
    on = live[:, None] & (column[None, :] < dim[:, None])
    first = tl.load(slot_window + slot, mask=live, other=0) * 4
    inside = row[:, None] * dim[:, None] + column[None, :]
    at = weights + first[:, None] + inside
    value = tl.load(at, mask=on, other=0.0).to(tl.float32)
    if OPTIMIZER == "sgd":
        step = rate * total
    else:
        base = tl.load(slot_state + slot, mask=live, other=0) * 4
        if OPTIMIZER == "rowwise_adagrad":
            # Columns outside are 0 in total, so they add nothing.
            mean = tl.sum(total * total, axis=1) / dim.to(tl.float32)
            sums = tl.load(state + base + row, mask=live, other=0.0) + mean
            tl.store(state + base + row, sums, mask=live)
            step = (rate / (tl.sqrt(sums) + epsilon))[:, None] * total
        elif OPTIMIZER == "adagrad":
            place = state + base[:, None] + inside
            sums = tl.load(place, mask=on, other=0.0) + total * total
            tl.store(place, sums, mask=on)
            step = rate * total / (tl.sqrt(sums) + epsilon)
        else:
            rows = tl.load(slot_rows + slot, mask=live, other=0)
            place = state + base[:, None] + inside
            other = place + (rows * dim)[:, None]
            m = beta1 * tl.load(place, mask=on, other=0.0) + (1 - beta1) * total
            v = beta2 * tl.load(other, mask=on, other=0.0) + (1 - beta2) * total * total
            tl.store(place, m, mask=on)
            tl.store(other, v, mask=on)
            step = rate * (m / bias1) / (tl.sqrt(v / bias2) + epsilon)
    tl.store(at, (value - step).to(weights.dtype.element_ty), mask=on)


@triton.jit(do_not_specialize=[*_SIZES, "bias1", "bias2"])
def update(
    weights, state, gradient, per_sample,
    keys, order, bag_of, starts, counts,
    piece_run, piece_number, piece_sum, long_run, long_sum,
    slot_window, slot_state, slot_dim, slot_column, slot_row, slot_rows,
    batch, width, rate, epsilon, beta1, beta2, bias1, bias2,
    OPTIMIZER: tl.constexpr, WEIGHTED: tl.constexpr,
    RUNS: tl.constexpr, BLOCK: tl.constexpr, SHORT: tl.constexpr, PIECE: tl.constexpr,
):  # fmt: skip
    """counts: runs, pieces, long runs, sums of pieces."""
    runs = tl.load(counts)
    if tl.program_id(0) * RUNS < runs:
        run = tl.program_id(0) * RUNS + tl.arange(0, RUNS)
        live = run < runs
        start = tl.load(starts + run, mask=live, other=0)
        length = tl.load(starts + run + 1, mask=live, other=0) - start
        slot = tl.load(bag_of + tl.load(order + start, mask=live, other=0)) // batch
        dim = tl.load(slot_dim + slot) * 4
        row = tl.load(keys + start, mask=live, other=0).to(tl.int64) - tl.load(slot_row + slot)

        # Longer runs go on the list: which place they get varies, nothing else does.
        is_long = live & (length > SHORT)
        pieces = (length + (PIECE - 1)) // PIECE
        place = tl.atomic_add(counts + 1 + run * 0, pieces, mask=is_long)
        many = is_long & (pieces > 1)
        sums = tl.atomic_add(counts + 3 + run * 0, pieces, mask=many)
        number = tl.atomic_add(counts + 2 + run * 0, 1, mask=many)
        tl.store(long_run + number, run, mask=many)
        tl.store(long_sum + number, sums, mask=many)
        for j in range(0, tl.max(tl.where(is_long, pieces, 0), axis=0)):
            on = is_long & (j < pieces)
            tl.store(piece_run + place + j, run, mask=on)
            tl.store(piece_number + place + j, tl.zeros_like(run) + j, mask=on)
            tl.store(piece_sum + place + j, tl.where(many, sums + j, -1), mask=on)

        live = live & (length <= SHORT)
        length = tl.where(live, length, 0)
        column = tl.arange(0, BLOCK)
        inside = column[None, :] < dim[:, None]
        total = tl.zeros([RUNS, BLOCK], dtype=tl.float32)
        for k in range(0, tl.max(length, axis=0)):
            on = k < length
            i = tl.load(order + start + k, mask=on, other=0)
            bag = tl.load(bag_of + i, mask=on, other=0)
            its = bag // batch
            sample = (bag - its * batch).to(tl.int64)
            of = tl.load(slot_column + its, mask=on, other=0) * 4
            at = sample[:, None] * (width * 4) + of[:, None] + column[None, :]
            g = tl.load(gradient + at, mask=inside & on[:, None], other=0.0)
            if WEIGHTED:
                g = g * tl.load(per_sample + i, mask=on, other=0.0)[:, None]
            total += g
        _apply(
            weights, state, slot_window, slot_state, slot, row, dim, column, live, total,
            rate, epsilon, beta1, beta2, bias1, bias2, slot_rows, OPTIMIZER,
        )  # fmt: skip


@triton.jit(do_not_specialize=[*_SIZES, "bias1", "bias2"])
def pieces(
    weights, state, gradient, per_sample,
    keys, order, bag_of, starts, counts,
    piece_run, piece_number, piece_sum, partial,
    slot_window, slot_state, slot_dim, slot_column, slot_row, slot_rows,
    batch, width, rate, epsilon, beta1, beta2, bias1, bias2,
    OPTIMIZER: tl.constexpr, WEIGHTED: tl.constexpr,
    STEP: tl.constexpr, BLOCK: tl.constexpr, PIECE: tl.constexpr,
):  # fmt: skip
    piece = tl.program_id(0)
    if piece < tl.load(counts + 1):
        run = tl.load(piece_run + piece)
        start = tl.load(starts + run)
        end = tl.load(starts + run + 1)
        slot = tl.load(bag_of + tl.load(order + start)) // batch
        dim = tl.load(slot_dim + slot) * 4
        row = tl.load(keys + start).to(tl.int64) - tl.load(slot_row + slot)
        start += tl.load(piece_number + piece) * PIECE
        end = tl.minimum(end, start + PIECE)

        column = tl.arange(0, BLOCK)
        inside = column[None, :] < dim
        sums = tl.zeros([STEP, BLOCK], dtype=tl.float32)
        for k in range(start, end, STEP):
            at = k + tl.arange(0, STEP)
            on = at < end
            i = tl.load(order + at, mask=on, other=0)
            bag = tl.load(bag_of + i, mask=on, other=0)
            its = bag // batch
            sample = (bag - its * batch).to(tl.int64)
            of = tl.load(slot_column + its, mask=on, other=0) * 4
            at = sample[:, None] * (width * 4) + of[:, None] + column[None, :]
            g = tl.load(gradient + at, mask=inside & on[:, None], other=0.0)
            if WEIGHTED:
                g = g * tl.load(per_sample + i, mask=on, other=0.0)[:, None]
            sums += g
        total = tl.sum(sums, axis=0)
        to = tl.load(piece_sum + piece)
        if to >= 0:
            tl.store(partial + to.to(tl.int64) * BLOCK + column, total)
        else:
            one = tl.zeros([1], dtype=tl.int64)
            _apply(
                weights, state, slot_window, slot_state, slot + one, row + one, dim + one,
                column, one == 0, total[None, :],
                rate, epsilon, beta1, beta2, bias1, bias2, slot_rows, OPTIMIZER,
            )  # fmt: skip


@triton.jit(do_not_specialize=[*_SIZES, "bias1", "bias2"])
def combine(
    weights, state, keys, order, bag_of, starts, counts,
    long_run, long_sum, partial,
    slot_window, slot_state, slot_dim, slot_row, slot_rows,
    batch, rate, epsilon, beta1, beta2, bias1, bias2,
    OPTIMIZER: tl.constexpr, BLOCK: tl.constexpr, PIECE: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0)
    if number < tl.load(counts + 2):
        run = tl.load(long_run + number)
        start = tl.load(starts + run)
        slot = tl.load(bag_of + tl.load(order + start)) // batch
        row = tl.load(keys + start).to(tl.int64) - tl.load(slot_row + slot)
        many = (tl.load(starts + run + 1) - start + (PIECE - 1)) // PIECE
        first = tl.load(long_sum + number).to(tl.int64)
        column = tl.arange(0, BLOCK)
        total = tl.zeros([BLOCK], dtype=tl.float32)
        for k in range(0, many):
            total += tl.load(partial + (first + k) * BLOCK + column)
        one = tl.zeros([1], dtype=tl.int64)
        dim = tl.load(slot_dim + slot) * 4
        _apply(
            weights, state, slot_window, slot_state, slot + one, row + one, dim + one,
            column, one == 0, total[None, :],
            rate, epsilon, beta1, beta2, bias1, bias2, slot_rows, OPTIMIZER,
        )  # fmt: skip
