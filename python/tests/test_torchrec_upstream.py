"""TorchRec's own examples and DLRM's dlrm_main.py train under NeuroShardPlanner.

The scripts are not part of this repository: the tests run where $NEUROSHARD_TORCHREC_SOURCES
and $NEUROSHARD_DLRM_SOURCES name checkouts of them, and are skipped elsewhere. Two and four
processes train each script, and the losses of each step must be those of the same model
trained whole by one process on the same batches.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import environment, ranks_of

pytest.importorskip("torchrec", reason="SKIPPED: torchrec is not installed")

from torchrec_binary import binary
from torchrec_upstream import EXAMPLES, SOURCES

__all__ = ["binary"]

LOSS = 1e-5
"""Losses may differ by this share. Adagrad divides by the root of a sum of squares, which is
nearly nothing at first, and so makes the differences of float32 larger."""

STEEP = ("golden_training", "golden_training_data_parallel")
"""Examples whose dense Adagrad has a learning rate of 0.1: its first step is 0.1 for any gradient,
also for one that is zero but for rounding. Of these, LOSS is for the first ten losses, and
LATE_LOSS for the others."""

LATE_LOSS = 1e-2

LOSS_OF_ROWS = 1e-6
"""The share for the examples with managed collisions, which are trained by SGD."""


def able(name: str) -> bool:
    example = EXAMPLES[name]
    return bool(os.environ.get(SOURCES[example.repository])) and all(
        importlib.util.find_spec(n) for n in example.needs
    )


@pytest.fixture(scope="module", params=[2, 4])
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, binary: str
) -> tuple[Path, int]:
    """Trains all examples that can be trained here; returns the folder and the processes."""
    ranks = request.param
    folder = tmp_path_factory.mktemp("upstream")
    names = [n for n in EXAMPLES if able(n)]
    if names:
        command = [sys.executable, str(Path(__file__).with_name("torchrec_upstream.py"))]
        _, written, log = ranks_of(
            [*command, str(folder), str(ranks), *names],
            env=environment(NEUROSHARD_BINARY=binary)
            | {"PYTHONPATH": os.pathsep.join([*sys.path])},
        )
        (folder / "log").write_text(written + log)
    return folder, ranks


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_torchrec(trained: tuple[Path, int], name: str) -> None:
    if not able(name):
        needs = [f"${SOURCES[EXAMPLES[name].repository]}", *EXAMPLES[name].needs]
        pytest.skip(f"SKIPPED: {name} needs {' and '.join(needs)}")
    folder, ranks = trained
    path = folder / f"{name}-{ranks}.json"
    assert path.exists(), (folder / "log").read_text()[-8000:]
    result: dict[str, Any] = json.loads(path.read_text())
    losses = result["sharded"]
    assert len(losses) >= 10 and result["plan"]
    if name == "zch":
        # A whole model has one row for the ids without a row, and each rank has one, under any
        # plan. In this example they are the ids of every other step.
        assert losses == pytest.approx(result["rows"], rel=LOSS_OF_ROWS)
        assert losses[1::2] == pytest.approx(result["whole"][1::2], rel=LOSS_OF_ROWS)
        assert min(b - a for a, b in zip(result["whole"][2::2], losses[2::2], strict=True)) > 0.01
    elif name == "zch_own_rows":
        assert losses == pytest.approx(result["whole"], rel=LOSS_OF_ROWS)
    else:
        early = 10 if name in STEEP else len(losses)
        assert losses[:early] == pytest.approx(result["whole"][:early], rel=LOSS)
        assert losses == pytest.approx(result["whole"], rel=LATE_LOSS)
