"""Shared by the tests: the Go program, a worker as a real process, and what is not installed here.
Without TorchRec, the files that need it are left out."""

from __future__ import annotations

import gc
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if find_spec("torchrec") is None:
    collect_ignore_glob = ["test_torchrec_*.py", "test_compare_model.py", "test_constraints.py"]
    collect_ignore_glob += ["test_estimates.py", "test_tour.py"]

# Before anything imports Triton: its kernels then run on a CPU. One thread, as
# several wait for each other where others use the machine.
os.environ["TRITON_INTERPRET"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "python" / "src"

Json = dict[str, Any]

HELLO = {"op": "hello", "v": 1}
INIT = {"op": "init", "batch": 128, "warmup": 1, "repeats": 3, "cache": "cold", "seed": 7}
INIT["flush_bytes"] = 1 << 20
FOLDER = tempfile.TemporaryDirectory(prefix="lookups")
"""The lookup files of the tests, until they end."""


def lookup_file(offsets: Sequence[int], indices: Sequence[int]) -> str:
    """Writes a lookup file as the program does, but for its check sum; returns its path."""
    handle, path = tempfile.mkstemp(dir=FOLDER.name)
    with os.fdopen(handle, "wb") as f:
        f.write(b"nspool\r\n" + struct.pack("<IIQQ", 1, 0, len(offsets) - 1, len(indices)))
        f.write(struct.pack(f"<{len(offsets) + len(indices)}q", *offsets, *indices))
    return path


def drawn_table(number: int, rows: int, bags: int, length: int, **more: int) -> Json:
    """Returns a table whose lookups are drawn, low rows more often than high ones."""
    random = np.random.default_rng(number)
    indices = (rows * random.random(bags * length) ** 3).astype(int).tolist()
    path = lookup_file(range(0, bags * length + 1, length), indices)
    return {"t": number, "rows": rows, "pool": path} | more


TABLES = {
    "op": "tables",
    "tables": [drawn_table(0, 5000, 128, 12), drawn_table(3, 100, 256, 1, features=2)],
}


def environment(**changes: str) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env["PYTHONPATH"] = str(SOURCE)
    env["OMP_NUM_THREADS"] = "1"
    return env | changes


def python(*args: str, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, *args],
        input=stdin,
        capture_output=True,
        timeout=240,
        env=environment(**env),
        check=False,
    )


# The most seconds that a job of several ranks may take. On an idle machine, each takes far less.
LIMIT = 900


def ranks_of(command: Sequence[str], **options: Any) -> tuple[int, str, str]:
    """Runs a command of several ranks, and returns its exit code and what it wrote to standard
    output and to standard error. If PyTorch aborted a process, it is run again, twice at most."""
    for _ in range(3):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT, check=False, **options
        )
        # In one of thirty runs, for a reason that is not known.
        if done.returncode == 0 or "terminate called without an active" not in done.stderr:
            break
        warnings.warn("PyTorch aborted a process; the job is run again", stacklevel=2)
    return done.returncode, done.stdout, done.stderr


def talk(requests: Sequence[Json | bytes], *args: str, **env: str) -> list[Json]:
    """Sends requests to a worker on the CPU, and returns its responses."""
    sent = b"".join(
        (r if isinstance(r, bytes) else json.dumps(r).encode()) + b"\n" for r in requests
    )
    done = python("-m", "neuroshard_worker", "--device", "cpu", *args, stdin=sent, **env)
    assert done.returncode == 0, done.stderr.decode()
    responses = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(responses) == len(requests), (responses, done.stderr.decode())
    return responses


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Go program: $NEUROSHARD_BINARY, which is built of this checkout if unset."""
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


@pytest.fixture(autouse=True, scope="module")
def imports_are_frozen() -> None:
    gc.freeze()  # as the worker does: its collections before timing are short


@pytest.fixture
def fbgemm() -> Any:
    return pytest.importorskip("fbgemm_gpu", reason="SKIPPED: fbgemm_gpu is not installed")


@pytest.fixture
def triton() -> Any:
    return pytest.importorskip("triton", reason="SKIPPED: triton is not installed")
