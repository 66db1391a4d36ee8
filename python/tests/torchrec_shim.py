"""TorchRec's own test files, unmodified, with NeuroShardPlanner in the place of TorchRec's
EmbeddingShardingPlanner.

    python torchrec_shim.py FOLDER    TorchRec's sources: a checkout, or its git directory

The tests are those of torchrec/distributed/planner/tests that use the planner. They run
against the installed TorchRec. ``FAILS`` lists those that may fail, each with the reason; the
exit code is 1 if another one fails, or if one of them passes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

TESTS = "torchrec/distributed/planner/tests"

FILES = ("test_planners.py", "test_embedding_utils.py", "test_embeddingbag_utils.py")
"""The test files that run the planner and need no other package. docs/evidence/TORCHREC.md has
the results of test_stats.py and test_types.py, which need hypothesis."""

FAILS = {
    "TestAutoPlannerWithScaleupProposer::test_auto_sharder_solution": (
        "it is a test of EmbeddingOffloadScaleupProposer, a part of TorchRec's search"
    ),
    "TestAutoPlannerWithScaleupProposer::test_planner_with_virtual_table": (
        "it is a test of that proposer too, with virtual tables, which are not planned"
    ),
}
"""The tests that fail, by class and name, with the reason."""


def replace() -> None:
    """Puts NeuroShardPlanner into TorchRec's modules, under the name of TorchRec's planner."""
    import torchrec.distributed.planner as package
    from torchrec.distributed.planner import planners

    from neuroshard_torchrec import NeuroShardPlanner

    package.EmbeddingShardingPlanner = NeuroShardPlanner
    planners.EmbeddingShardingPlanner = NeuroShardPlanner


def source(folder: Path, name: str) -> bytes:
    """Returns a test file of the sources."""
    path = folder / TESTS / name
    if path.exists():
        return path.read_bytes()
    command = ["git", "-C", str(folder), "show", f"HEAD:{TESTS}/{name}"]
    return subprocess.run(command, check=True, capture_output=True).stdout


class Outcomes:
    """The tests that passed and those that failed, by class and name."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """As pytest calls it, after each phase of each test."""
        name = report.nodeid.partition("::")[2]
        if report.failed:
            self.failed.add(name)
        elif report.when == "call" and report.passed:
            self.passed.add(name)


def main(folder: Path) -> int:
    """Runs the tests, and returns the exit code."""
    replace()
    outcomes = Outcomes()
    with tempfile.TemporaryDirectory(prefix="torchrec") as place:
        for name in FILES:
            Path(place, name).write_bytes(source(folder, name))
        pytest.main([place, "-q", "-p", "no:cacheprovider", "--tb=short"], plugins=[outcomes])
    unexpected = sorted(outcomes.failed - set(FAILS))
    mended = sorted(outcomes.passed & set(FAILS))
    print(f"{len(outcomes.passed)} of {len(outcomes.passed | outcomes.failed)} tests pass")
    for name in sorted(outcomes.failed & set(FAILS)):
        print(f"fails as expected: {name}: {FAILS[name]}")
    for name in unexpected:
        print(f"fails: {name}")
    for name in mended:
        print(f"passes, and FAILS lists it: {name}")
    return 1 if unexpected or mended or not outcomes.passed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
