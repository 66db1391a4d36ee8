"""Lookups are what was asked for, whatever can be asked."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from conftest import SKEWED

from neuroshard_worker import lookups
from neuroshard_worker.lookups import CLASSES, read_file, realised, synthesise
from neuroshard_worker.wire import WireError


def distance(a: list[float], b: list[float]) -> float:
    """The share of rows in another class."""
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / 2


def check(made: lookups.Lookups, rows: int, n: int, bags: int) -> None:
    assert len(made.indices) == n
    assert made.indices.min() >= 0 and made.indices.max() < rows
    assert len(made.offsets) == bags + 1
    assert made.offsets[0] == 0 and made.offsets[-1] == n
    assert (np.diff(made.offsets) >= 0).all()
    assert (made.unique, made.reuse) == realised(made.indices)


@pytest.mark.parametrize("pooling", [1, 10, 12.5])
@pytest.mark.parametrize("cv", [0.5, 1.0, 3.0])
def test_bags_have_the_asked_spread(pooling: float, cv: float) -> None:
    bags, n = 8192, round(8192 * pooling)
    made = synthesise(50_000, n, bags, SKEWED, 0, (1, 2), cv)
    check(made, 50_000, n, bags)
    assert lookups.length_cv_of(made.offsets) == pytest.approx(cv, rel=0.01)
    again = synthesise(50_000, n, bags, SKEWED, 0, (1, 2), cv)
    assert (made.offsets == again.offsets).all() and (made.indices == again.indices).all()
    other = synthesise(50_000, n, bags, SKEWED, 0, (1, 3), cv)
    assert (made.offsets != other.offsets).any()


def test_a_spread_that_whole_lengths_cannot_have_becomes_the_nearest() -> None:
    for pooling, cv, bags, want in (
        (1.5, 0.01, 4096, 1 / 3),  # half of the bags have one lookup, and half two
        (8, 1e-9, 4096, 0.0),
        (4, 1000, 256, 255**0.5),  # all lookups in one bag
    ):
        made = synthesise(50_000, round(pooling * bags), bags, SKEWED, 0, (1, 2), cv)
        assert lookups.length_cv_of(made.offsets) == pytest.approx(want, rel=0.01, abs=1e-6)
    assert lookups.length_cv_of(np.zeros(5, np.int64)) == 0


def test_a_histogram_is_realised_within_5_percent() -> None:
    random = np.random.default_rng(5)
    for trial in range(30):
        # Whole rows, as of a real batch.
        quotas = np.floor(random.random(CLASSES) * 20_000 * 0.5 ** np.arange(CLASSES))
        quotas[random.random(CLASSES) < 0.3] = 0
        quotas[0] += 1000
        unique = int(quotas.sum())
        share = quotas / unique
        n = round(float(quotas @ lookups.CLASS_MEANS))
        rows = unique * int(random.integers(1, 50))
        made = synthesise(rows, n, 512, share.tolist(), unique, (trial,))
        check(made, rows, n, 512)
        assert made.unique == unique
        assert distance(made.reuse, share.tolist()) < 0.05


def test_distinct_rows_follow_from_the_shares() -> None:
    made = synthesise(10**7, 500_000, 4096, SKEWED, 0, (1,))
    mean = float(np.array(SKEWED) @ lookups.CLASS_MEANS)
    assert made.unique == pytest.approx(500_000 / mean, rel=1e-4)
    assert distance(made.reuse, SKEWED) < 0.05


@pytest.mark.parametrize(
    ("rows", "n", "bags", "unique"),
    [
        (1, 1, 1, 1),
        (1, 100_000, 100, 1),
        (1000, 1000, 64, 1000),
        (1000, 1_000_000, 65, 1000),  # each row a thousand times, far beyond its class
        (10**12, 70_000, 64, 69_000),  # hardly any row twice
        (5, 3, 10, 2),
        (7, 131, 10, 2.4),
    ],
)
def test_totals_are_exact_where_shares_contradict_them(
    rows: int, n: int, bags: int, unique: float
) -> None:
    made = synthesise(rows, n, bags, SKEWED, unique, (3, 1))
    check(made, rows, n, bags)
    assert made.unique == round(unique)


def test_no_row_is_singled_out_where_all_are_too_hot() -> None:
    made = synthesise(1000, 1_000_000, 64, SKEWED, 1000, (3,))
    _, uses = np.unique(made.indices, return_counts=True)
    # Single uses have grown as the others, by about 250, and no row takes the rest.
    assert uses.min() > 60
    assert uses.max() < 400_000


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(WireError, match="distinct rows cannot come of"):
        synthesise(100, 50, 10, SKEWED, 60, (0,))
    with pytest.raises(WireError, match="in 100 rows"):
        synthesise(100, 5000, 10, SKEWED, 101, (0,))


def test_equal_seeds_give_equal_lookups() -> None:
    a, b, c = (synthesise(10**6, 5000, 100, SKEWED, 0, (7, t)) for t in (1, 1, 2))
    assert (a.indices == b.indices).all() and (a.offsets == b.offsets).all()
    assert not (a.indices == c.indices).all()


def test_bags_are_equal_or_vary_around_the_pooling_factor() -> None:
    even = synthesise(1000, 3000, 1000, SKEWED, 0, (1,))
    assert set(np.diff(even.offsets)) == {3}
    few = synthesise(1000, 300, 1000, SKEWED, 0, (1,))
    assert set(np.diff(few.offsets)) == {0, 1}
    varied = np.diff(synthesise(1000, 3500, 1000, SKEWED, 0, (1,)).offsets)
    assert 2 < varied.var() < 5  # about 3.5, of a multinomial distribution


def test_rows_are_spread_over_the_table() -> None:
    made = synthesise(10**9, 10_000, 100, [1.0] + [0.0] * 16, 10_000, (1,))
    counts, _ = np.histogram(made.indices, bins=10, range=(0, 10**9))
    assert counts.min() > 800


def lookup_file(offsets: list[int], indices: list[int]) -> bytes:
    head = b"nspool\r\n" + struct.pack("<IIQQ", 1, 0, len(offsets) - 1, len(indices))
    return head + struct.pack(f"<{len(offsets) + len(indices)}q", *offsets, *indices)


def test_lookup_files_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.lookups"
    path.write_bytes(lookup_file([0, 2, 2, 5], [4, 4, 1, 0, 4]))
    made = read_file(str(path), 5, 3, 1 << 20)
    assert made.indices.tolist() == [4, 4, 1, 0, 4]
    assert made.offsets.tolist() == [0, 2, 2, 5]
    assert made.unique == 3
    assert made.reuse[:3] == pytest.approx([2 / 3, 0, 1 / 3])


def test_lookup_files_that_are_wrong_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.lookups"
    good = lookup_file([0, 2, 2, 5], [4, 4, 1, 0, 4])
    for i in range(len(good)):
        path.write_bytes(good[:i])
        with pytest.raises(WireError):
            read_file(str(path), 5, 3, 1 << 20)
    for bad, rows, bags, message in (
        (good, 4, 3, "row 4 in a table of 4 rows"),
        (good, 5, 4, "3 bags, and features times batch is 4"),
        (lookup_file([0, 3, 2, 5], [4, 4, 1, 0, 4]), 5, 3, "do not rise"),
        (lookup_file([0, 2], [-1, 0]), 5, 1, "negative"),
    ):
        path.write_bytes(bad)
        with pytest.raises(WireError, match=message):
            read_file(str(path), rows, bags, 1 << 20)
    with pytest.raises(WireError) as e:
        read_file(str(path), 5, 3, 10)
    assert e.value.code == "oom"
    with pytest.raises(WireError, match="No such file"):
        read_file(str(tmp_path / "none"), 5, 3, 1 << 20)
