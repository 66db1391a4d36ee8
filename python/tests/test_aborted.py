"""Jobs of several ranks are run again if PyTorch aborted a process, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ABORT, unless_aborted


@pytest.mark.parametrize(
    ("runs", "want"),
    [
        ([(0, ABORT)], 0),
        ([(1, "wrong")], 1),
        ([(1, ABORT), (0, "")], 0),
        ([(1, ABORT), (2, "wrong")], 2),
        ([(1, ABORT), (1, ABORT), (1, ABORT)], 1),
    ],
)
@pytest.mark.filterwarnings("ignore:PyTorch aborted a process")
def test_a_job_is_run_again(runs: list[tuple[int, str]], want: int, tmp_path: Path) -> None:
    left = list(runs)
    (tmp_path / "plan.json").touch()  # made before the job
    inside = tmp_path / "inside"
    inside.mkdir()

    def run() -> tuple[int, str]:
        assert [f.name for f in tmp_path.rglob("*") if f.is_file()] == ["plan.json"]
        (tmp_path / "store").touch()
        with (inside / "times.0.jsonl").open("a") as times:
            times.write("{}\n")
        return left.pop(0)

    assert unless_aborted(run, tmp_path) == (want, runs[-1][1])
    assert not left
    assert (inside / "times.0.jsonl").read_text() == "{}\n"
