"""The Go program for the tests: $NEUROSHARD_BINARY, which is built of this checkout if unset."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> str:
    if given := os.environ.get("NEUROSHARD_BINARY"):
        return given
    go = shutil.which("go")
    if go is None:
        pytest.skip("SKIPPED: there is no go to build neuroshard, and no $NEUROSHARD_BINARY")
    path = tmp_path_factory.mktemp("bin") / "neuroshard"
    command = [go, "build", "-o", str(path), "./cmd/neuroshard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    os.environ["NEUROSHARD_BINARY"] = str(path)  # load_plan finds the program there
    return str(path)


def neuroshard(binary: str, *args: str, cwd: Path) -> str:
    """Runs the program, which must succeed, and returns what it printed."""
    done = subprocess.run([binary, *args], cwd=cwd, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout
