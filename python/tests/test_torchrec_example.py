"""The example of docs/TORCHREC.md, run as the page says, by two processes."""

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


def test_the_example_of_the_page(tmp_path: Path, binary: str) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (example,) = [b for b in blocks if "dist.init_process_group(" in b]
    (tmp_path / "train.py").write_text(example)
    code, written, log = ranks_of(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py"],
        tmp_path,
        cwd=tmp_path,
        env=environment(NEUROSHARD_BINARY=binary),
    )
    assert code == 0, written[-2000:] + log[-5000:]
    assert "found by   method neuroshard" in written
    losses = [float(x) for x in re.findall(r"step \d: loss ([\d.]+)", written)]
    assert len(losses) == 5 and losses[-1] < losses[0], written
