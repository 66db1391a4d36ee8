"""The lookups of one batch in one table, made up from its statistics.

    use-count classes -> quotas   whole rows in each class, their sum exactly U
                      -> slide    where no use counts inside the classes add up
                                  to n, rows move to neighbouring classes
                      -> uses     each row's use count, their sum exactly n
                      -> rows     a row number for each, all different
                      -> shuffled, and cut into features * batch bags

Everything over rows or lookups is one NumPy call: a million lookups take well
under a second. Lookups of a trace come in lookup files (package lookups writes
them) and are used as they are.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .wire import bad, out_of_memory

CLASSES = 17
"""Use-count classes: rows used 1, 2, 3-4, 5-8, ... and more than 32768 times."""

MAX_LOOKUPS = 1 << 28
MAX_BAGS = 1 << 28

Ints = npt.NDArray[np.int64]

_LOW = np.array([1] + [(1 << (j - 1)) + 1 for j in range(1, CLASSES)], dtype=np.int64)
_HIGH = np.array([1 << j for j in range(CLASSES - 1)] + [MAX_LOOKUPS], dtype=np.int64)
CLASS_MEANS = np.array([1.0, 2.0] + [2.0 ** (j - 1) / np.log(2) for j in range(2, CLASSES)])
_STRATA = 64  # groups of equal use counts that the rows of a class are cut into


@dataclass(frozen=True)
class Lookups:
    """One batch's lookups: bag b reads rows indices[offsets[b]:offsets[b + 1]]."""

    indices: Ints
    offsets: Ints
    unique: int
    reuse: list[float]


def class_of(uses: Ints) -> Ints:
    """Returns the use-count class of each use count of at least 1."""
    return np.minimum(np.ceil(np.log2(uses)).astype(np.int64), CLASSES - 1)


def realised(indices: Ints) -> tuple[int, list[float]]:
    """Counts distinct rows and the share of them in each use-count class."""
    if not len(indices):
        return 0, [0.0] * CLASSES
    _, uses = np.unique(indices, return_counts=True)
    return _shares(uses.astype(np.int64))


def synthesise(
    rows: int,
    lookups: int,
    bags: int,
    reuse: list[float],
    unique: float,
    seed: tuple[int, ...],
    length_cv: float = 0.0,
) -> Lookups:
    """Makes up the lookups of one batch, the same for the same arguments.

    length_cv is the coefficient of variation of the lengths of the bags; 0 asks for
    no spread.

    unique 0 derives the distinct rows from the shares. The shares must add up
    to about one; the number of lookups and of distinct rows is exactly the
    asked one (rounded), the classes are met as far as these allow.
    """
    if lookups == 0:
        return Lookups(np.zeros(0, np.int64), np.zeros(bags + 1, np.int64), 0, [0.0] * CLASSES)
    share = np.array(reuse, dtype=np.float64)
    share /= share.sum()
    if unique == 0:
        unique = min(lookups / float(share @ CLASS_MEANS), rows, lookups)
    if unique - 0.5 > lookups or unique - 0.5 > rows:
        raise bad(f"{unique:g} distinct rows cannot come of {lookups} lookups in {rows} rows")
    distinct = int(min(max(1, round(unique)), lookups, rows))
    random = np.random.default_rng(np.random.SeedSequence(list(seed)))

    quotas = _quotas(share, distinct)
    _slide(quotas, lookups)
    uses = _uses(quotas, lookups)
    indices = np.repeat(_distinct_rows(rows, distinct, random), uses)
    random.shuffle(indices)
    got, shares = _shares(uses)
    offsets = (
        _cut_unequal(lookups, bags, length_cv, random)
        if length_cv > 0
        else _cut(lookups, bags, random)
    )
    return Lookups(indices, offsets, got, shares)


def _shares(uses: Ints) -> tuple[int, list[float]]:
    counts = np.bincount(class_of(uses), minlength=CLASSES)
    return len(uses), [float(x) for x in counts / len(uses)]


def _quotas(share: npt.NDArray[np.float64], distinct: int) -> Ints:
    """Rounds rows a class by the largest remainders, so that the sum is exact."""
    exact = share * distinct
    quotas = np.floor(exact).astype(np.int64)
    order = np.argsort(-(exact - quotas), kind="stable")
    quotas[order[: distinct - int(quotas.sum())]] += 1
    return quotas


def _slide(quotas: Ints, lookups: int) -> None:
    """Moves rows to neighbouring classes until use counts can add up to lookups.

    The same share of every class moves, as if every row were used more or less
    often by one factor. Moving few rows far would put the difference on a single
    hot row, the worst case of the backward.
    """
    powers = np.int64(1) << np.arange(CLASSES, dtype=np.int64)
    if lookups < int(quotas @ _LOW):
        worth, step = np.diff(_LOW, prepend=_LOW[0]), -1
        while (left := int(quotas @ _LOW) - lookups) > 0:
            _move(quotas, worth, left, step)
    elif quotas[-1] == 0 and lookups > int(quotas @ powers):
        # A row that comes to the class without an end counts as twice its old uses
        # here, too: it alone could take any number.
        worth, step = np.append(powers[:-1], 0), 1
        while (left := lookups - int(quotas @ powers)) > 0 and quotas[:-1].any():
            _move(quotas, worth, left, step)


def _move(quotas: Ints, worth: Ints, left: int, step: int) -> None:
    """Moves the same share of each class by a step, so much that left is closed, or
    all of it. A row's move closes worth; worth 0 stays."""
    movable = quotas * (worth > 0)
    moved = np.floor(movable * min(1.0, left / float(movable @ worth))).astype(np.int64)
    left -= int(moved @ worth)
    # What whole rows leave open is closed by single ones: the most expensive ones that do not
    # overshoot, then the cheapest.
    for j in np.argsort(-worth, kind="stable"):
        if left > 0 and worth[j] > 0:
            more = min(int(movable[j] - moved[j]), left // int(worth[j]))
            moved[j] += more
            left -= more * int(worth[j])
    for j in np.argsort(worth, kind="stable"):
        if left > 0 and worth[j] > 0 and moved[j] < movable[j]:
            moved[j] += 1
            left = 0
    quotas -= moved
    quotas += np.roll(moved, step)


def _uses(quotas: Ints, lookups: int) -> Ints:
    """Gives each row a use count inside its class; their sum is exactly lookups.

    Inside a class counts are spread evenly on a logarithmic scale. One level
    moves all of them: 0 is neutral, -1 the lowest of each class. Above 0 all
    grow, or where the class without an end has rows, only these.
    """
    groups = []  # (class, place in it from 0 to 1, rows)
    for j, rows in enumerate(quotas.tolist()):
        parts = min(rows, _STRATA if j > 1 else 1)
        groups += [
            (j, (k + 0.5) / parts, rows * (k + 1) // parts - rows * k // parts)
            for k in range(parts)
        ]
    cls = np.array([g[0] for g in groups], dtype=np.int64)
    place = np.array([g[1] for g in groups])
    rows_of = np.array([g[2] for g in groups], dtype=np.int64)
    grows: npt.NDArray[np.float64] | float = 1.0
    if quotas[-1]:
        grows = np.where(cls == CLASSES - 1, place, 0.0)

    def at(level: float) -> Ints:
        power = cls - 1 + place + (level if level <= 0 else level * grows)
        counts = np.rint(np.exp2(np.minimum(power, 40))).astype(np.int64)
        return np.clip(counts, _LOW[cls], _HIGH[cls])

    low, high = -1.0, 64.0
    for _ in range(64):
        middle = (low + high) / 2
        if int(at(middle) @ rows_of) <= lookups:
            low = middle
        else:
            high = middle
    uses = np.repeat(at(low), rows_of)
    limit = np.repeat(_HIGH[cls], rows_of)
    left = lookups - int(uses.sum())
    while left > 0:  # what rounding leaves goes to the hottest rows that have room
        room = np.flatnonzero(uses < limit)[::-1][:left]
        if not len(room):
            raise RuntimeError(f"{left} lookups of {lookups} have no row")  # _slide prevents it
        uses[room] += 1
        left -= len(room)
    return uses


def _distinct_rows(rows: int, distinct: int, random: np.random.Generator) -> Ints:
    """Returns distinct row numbers in random order, without a list of all rows.

    A chain of steps that are each one to one on numbers of some bits is walked
    on until the result is below rows, less than two walks on average.
    """
    width = max(1, (rows - 1).bit_length())
    mask, shift = np.uint64((1 << width) - 1), np.uint64(max(1, (width + 1) // 2))
    factors = random.integers(0, 1 << 64, size=4, dtype=np.uint64, endpoint=False) | np.uint64(1)
    added = random.integers(0, 1 << 64, size=4, dtype=np.uint64, endpoint=False)
    picked = np.arange(distinct, dtype=np.uint64)
    open_ = np.arange(distinct)
    while len(open_):
        walk = picked[open_]
        for factor, plus in zip(factors, added, strict=True):
            walk = (walk * factor + plus) & mask
            walk ^= walk >> shift
        picked[open_] = walk
        open_ = open_[walk >= np.uint64(rows)]
    return picked.astype(np.int64)


def _cut(lookups: int, bags: int, random: np.random.Generator) -> Ints:
    """Cuts lookups into bags: equal ones where that comes out even, of 0 or 1
    lookups if there are fewer lookups than bags, otherwise of multinomial lengths."""
    offsets = np.zeros(bags + 1, dtype=np.int64)
    length = lookups // bags
    if length * bags == lookups:
        offsets[1:] = length
    elif length == 0:
        offsets[1:][random.permutation(bags)[:lookups]] = 1
    else:
        offsets[1:] = np.bincount(random.integers(0, bags, size=lookups), minlength=bags)
    return np.cumsum(offsets)


def length_cv_of(offsets: Ints) -> float:
    """Returns the coefficient of variation of the lengths of bags: their standard
    deviation over their mean, and 0 if there are no lookups."""
    lengths = np.diff(offsets)
    return float(lengths.std() / lengths.mean()) if lengths.any() else 0.0


_MOST_STRATA = 1 << 12  # of the lengths of more bags


def _cut_unequal(lookups: int, bags: int, cv: float, random: np.random.Generator) -> Ints:
    """Cuts lookups into bags whose lengths have the given coefficient of variation, or
    the nearest that whole lengths can have.

    The lengths are those of a Weibull distribution (package lookups says why): strata
    of an equal number of bags have its quantiles, rounded so that the sum is exact, and
    the parameter at which the spread is the asked one is found by bisection.
    """
    strata = min(bags, _MOST_STRATA)
    logs = np.log(-np.log1p(-(np.arange(strata) + 0.5) / strata))
    ends = bags * np.arange(1, strata + 1, dtype=np.int64) // strata
    sizes = np.diff(ends, prepend=0)

    def totals(power: float) -> Ints:
        """The lookups of each stratum."""
        weights = np.cumsum(np.exp(power * (logs - logs[-1])) * sizes)
        upto = np.rint(lookups * (weights / weights[-1])).astype(np.int64)
        return np.diff(upto, prepend=0)

    def spread(power: float) -> float:
        short, longer = np.divmod(totals(power), sizes)
        squares = float(((sizes - longer) * short**2 + longer * (short + 1) ** 2).sum())
        return float(np.sqrt(max(0.0, bags * squares - float(lookups) ** 2)) / lookups)

    low, high = 0.0, 1.0
    while spread(high) < cv and high < 64:
        high *= 2
    for _ in range(40):
        middle = (low + high) / 2
        if spread(middle) < cv:
            low = middle
        else:
            high = middle
    best = high if cv - spread(low) > spread(high) - cv else low
    short, longer = np.divmod(totals(best), sizes)
    place = np.arange(bags) - np.repeat(ends - sizes, sizes)  # of a bag in its stratum
    lengths = np.repeat(short, sizes) + (place < np.repeat(longer, sizes))
    random.shuffle(lengths)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))


# Lookup files, little-endian (package lookups writes them):
#
#   0   "nspool\r\n"
#   8   version, 4 bytes
#   12  CRC-32C of everything else in the file, 4 bytes
#   16  number of bags, 8 bytes
#   24  number of lookups, 8 bytes
#   32  offsets, bags+1 of 8 bytes; then indices, lookups of 8 bytes
_MAGIC = b"nspool\r\n"
_HEADER = 32


def read_file(path: str, rows: int, bags: int, most_bytes: int) -> Lookups:
    """Reads a lookup file. Its check sum is left to the program, which wrote it."""
    try:
        size = Path(path).stat().st_size
        if size > most_bytes:
            raise out_of_memory(f"file {path}: {size} bytes, and lookups may take {most_bytes}")
        data = np.fromfile(path, dtype=np.uint8)
    except OSError as e:
        raise bad(f"file {path}: {e.strerror or e}") from e
    if len(data) < _HEADER or data[:8].tobytes() != _MAGIC:
        raise bad(f"file {path}: not a lookup file")
    version, _, has_bags, has_lookups = struct.unpack("<IIQQ", data[8:_HEADER].tobytes())
    if version != 1:
        raise bad(f"file {path}: version {version}, and this worker reads version 1")
    if len(data) != _HEADER + 8 * (has_bags + 1 + has_lookups):
        raise bad(f"file {path}: {len(data)} bytes, and its header says otherwise: cut short?")
    if has_bags != bags:
        raise bad(f"file {path}: {has_bags} bags, and features times batch is {bags}")
    numbers = data[_HEADER:].view("<i8").astype(np.int64)
    offsets, indices = numbers[: bags + 1].copy(), numbers[bags + 1 :].copy()
    if offsets[0] != 0 or offsets[-1] != len(indices) or (np.diff(offsets) < 0).any():
        raise bad(f"file {path}: its offsets do not rise from 0 to the number of lookups")
    if len(indices) and not (indices.min() >= 0 and indices.max() < rows):
        raise bad(f"file {path}: row {indices.max()} in a table of {rows} rows, or a negative one")
    unique, reuse = realised(indices)
    return Lookups(indices, offsets, unique, reuse)
