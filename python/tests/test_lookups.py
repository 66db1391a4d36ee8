"""Lookup files are read as they are, and wrong ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import lookup_file

from neuroshard_worker.lookups import read_file
from neuroshard_worker.wire import WireError


def test_lookup_files_are_read_as_they_are() -> None:
    made = read_file(lookup_file([0, 2, 2, 5], [4, 4, 1, 0, 4]), 5, 3, 1 << 20)
    assert made.indices.tolist() == [4, 4, 1, 0, 4]
    assert made.offsets.tolist() == [0, 2, 2, 5]
    assert made.unique == 3
    assert made.reuse[:3] == pytest.approx([2 / 3, 0, 1 / 3])


def test_lookup_files_that_are_wrong_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.lookups"
    good = lookup_file([0, 2, 2, 5], [4, 4, 1, 0, 4])
    whole = Path(good).read_bytes()
    for i in range(len(whole)):
        path.write_bytes(whole[:i])
        with pytest.raises(WireError):
            read_file(str(path), 5, 3, 1 << 20)
    for bad, rows, bags, message in (
        (good, 4, 3, "row 4 in a table of 4 rows"),
        (good, 5, 4, "3 bags, and features times batch is 4"),
        (lookup_file([0, 3, 2, 5], [4, 4, 1, 0, 4]), 5, 3, "do not rise"),
        (lookup_file([0, 2], [-1, 0]), 5, 1, "negative"),
    ):
        with pytest.raises(WireError, match=message):
            read_file(bad, rows, bags, 1 << 20)
    with pytest.raises(WireError) as e:
        read_file(good, 5, 3, 10)
    assert e.value.code == "oom"
    with pytest.raises(WireError, match="No such file"):
        read_file(str(tmp_path / "none"), 5, 3, 1 << 20)
