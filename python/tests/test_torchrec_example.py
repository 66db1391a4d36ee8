"""The example of a whole training, run by two processes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from conftest import environment, ranks_of

pytest.importorskip("torchrec", reason="SKIPPED: torchrec is not installed")

from torchrec_binary import ROOT, binary

__all__ = ["binary"]

PAGE = ROOT / "docs" / "TORCHREC.md"
EXAMPLE = ROOT / "python" / "examples" / "train.py"


def test_the_example(tmp_path: Path, binary: str) -> None:
    code, written, log = ranks_of(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(EXAMPLE)],
        tmp_path,
        cwd=tmp_path,
        env=environment(NEUROSHARD_BINARY=binary),
    )
    assert code == 0, written[-2000:] + log[-5000:]
    assert "found by   method neuroshard" in written
    losses = [float(x) for x in re.findall(r"step \d: loss ([\d.]+)", written)]
    assert len(losses) == 5 and losses[-1] < losses[0], written
