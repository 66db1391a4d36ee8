"""The numbers that the Go package torchrec is held against are TorchRec's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torchrec_estimates as estimates
import torchrec_storages as storages

ROOT = Path(__file__).parents[2]
ESTIMATES = ROOT / "cost" / "torchrec" / "testdata"
STORAGES = ROOT / "problem" / "testdata"


def split(value: Any, numbers: list[float]) -> Any:
    """The value without its floats, which go to the list in their order."""
    if isinstance(value, dict):
        return {k: split(v, numbers) for k, v in value.items()}
    if isinstance(value, list):
        return [split(v, numbers) for v in value]
    if isinstance(value, float):
        numbers.append(value)
        return None
    return value


def test_the_file_is_what_torchrec_says() -> None:
    kept: list[float] = []
    now: list[float] = []
    file, written = estimates.file_of(ESTIMATES, "estimator", estimates.estimates())
    assert split(json.loads(written), now) == split(json.loads(file.read_text("utf-8")), kept), (
        "draw it again: tests/torchrec_estimates.py cost/torchrec/testdata"
    )
    assert now == pytest.approx(kept, rel=1e-12)


def test_the_storages_are_what_torchrec_counts() -> None:
    file, written = estimates.file_of(STORAGES, "storage", storages.storages())
    assert written == file.read_text("utf-8"), (
        "draw it again: tests/torchrec_storages.py problem/testdata"
    )
