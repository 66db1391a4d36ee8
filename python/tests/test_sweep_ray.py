"""examples/sweep/ray_sweep.py, run under Ray on this machine.

Ray is none of the pinned packages: pip install ray, and run this file alone.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import environment

pytest.importorskip("ray", reason="SKIPPED: ray is not installed")

from conftest import ROOT, neuroshard

SWEEP = ["workload:paper-d4_m64-0", "--gpus", "2,4,8", "--gpu", "a100-80,h100-80"]


def test_the_example_of_the_page(tmp_path: Path, binary: str) -> None:
    script = ROOT / "examples" / "sweep" / "ray_sweep.py"
    done = subprocess.run(
        [sys.executable, str(script), "--parts", "3", "-o", "joined.jsonl", *SWEEP],
        cwd=tmp_path,
        env=environment(NEUROSHARD_BINARY=binary),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-5000:]
    table = neuroshard(binary, "sweep", *SWEEP, "--output", "whole.jsonl", cwd=tmp_path)
    assert done.stdout == table
    joined = (tmp_path / "joined.jsonl").read_bytes()
    assert joined == (tmp_path / "whole.jsonl").read_bytes()
    assert len(joined.splitlines()) == 7  # the head, and a line for each cell
