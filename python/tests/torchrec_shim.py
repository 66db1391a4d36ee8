"""TorchRec's own test files, unmodified, with NeuroShardPlanner in the place of TorchRec's
EmbeddingShardingPlanner.

    python torchrec_shim.py [--commit COMMIT] [--stock] FOLDER

FOLDER has TorchRec's sources: a git directory or a checkout with the COMMIT, or else the files
alone. The tests are those of torchrec/distributed/planner/tests that use the planner. They run
against the installed TorchRec, so the sources must be those of its release. ``FAILS`` lists
the tests that may fail, each with the reason; the exit code is 1 if another one fails, or if
one of them passes.
With --stock, TorchRec's planner stays in its place, for the number beside ours.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

TESTS = "torchrec/distributed/planner/tests"

FILES = (
    "test_planners.py",
    "test_embedding_utils.py",
    "test_embeddingbag_utils.py",
    "test_stats.py",
    "test_types.py",
)
"""The test files that run the planner."""

FAILS = {
    "TestAutoPlannerWithScaleupProposer::test_auto_sharder_solution": (
        "it is a test of EmbeddingOffloadScaleupProposer, a part of TorchRec's search"
    ),
    "TestAutoPlannerWithScaleupProposer::test_planner_with_virtual_table": (
        "it is a test of that proposer too, with virtual tables, which are not planned"
    ),
    "TestFixedAbsoluteStorageReservation::test_error_message_with_fixed_absolute_reservation": (
        "it expects the words of TorchRec's message; the error_type is the one that it expects"
    ),
    "TestValidateModulesInclusionInShardingPlan::test_validate_modules_inclusion_partial_shardable_params": (  # noqa: E501
        "its sharder leaves out tables of a collection, which is refused"
    ),
}
"""The tests that fail, by class and name, with the reason; not all releases have all of them."""


def replace() -> None:
    """Puts NeuroShardPlanner into TorchRec's modules, under the name of TorchRec's planner. The
    log of TorchRec's statistics is on, because NeuroShardPlanner makes the table of the default
    EmbeddingStats only for that log, and TorchRec's tests read this table."""
    import torchrec.distributed.planner as package
    from torchrec.distributed.planner import planners
    from torchrec.distributed.planner.stats import EmbeddingStats

    from neuroshard_torchrec import NeuroShardPlanner

    logging.getLogger(EmbeddingStats.__module__).setLevel(logging.INFO)
    package.EmbeddingShardingPlanner = NeuroShardPlanner
    planners.EmbeddingShardingPlanner = NeuroShardPlanner


def source(folder: Path, commit: str, name: str) -> bytes:
    """Returns a test file of the sources."""
    command = ["git", "-C", str(folder), "show", f"{commit}:{TESTS}/{name}"]
    shown = subprocess.run(command, check=False, capture_output=True)
    return shown.stdout if shown.returncode == 0 else (folder / TESTS / name).read_bytes()


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


def main(folder: Path, commit: str, stock: bool) -> int:
    """Runs the tests, and returns the exit code."""
    # Processes that a test starts must agree on the order of TorchRec's sets.
    os.environ["PYTHONHASHSEED"] = "0"
    if not stock:
        replace()
    outcomes = Outcomes()
    with tempfile.TemporaryDirectory(prefix="torchrec") as place:
        for name in FILES:
            Path(place, name).write_bytes(source(folder, commit, name))
        pytest.main([place, "-q", "-p", "no:cacheprovider", "--tb=short"], plugins=[outcomes])
    expected = set() if stock else set(FAILS)
    unexpected = sorted(outcomes.failed - expected)
    mended = sorted(outcomes.passed & expected)
    print(f"{len(outcomes.passed)} of {len(outcomes.passed | outcomes.failed)} tests pass")
    for name in sorted(outcomes.failed & expected):
        print(f"fails as expected: {name}: {FAILS[name]}")
    for name in unexpected:
        print(f"fails: {name}")
    for name in mended:
        print(f"passes, and FAILS lists it: {name}")
    return 1 if unexpected or mended or not outcomes.passed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--stock", action="store_true")
    given = parser.parse_args()
    sys.exit(main(given.folder, given.commit, given.stock))
