"""scripts/measure-gpu, rehearsed on a CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from conftest import LIMIT, ROOT, environment


def rehearse(out: Path | str, *steps: str, **changes: str) -> subprocess.CompletedProcess[str]:
    env = environment(PYTHON=sys.executable, REHEARSAL="1", OPTIONS="--device cpu") | changes
    for name in {"COLLECT", "COUNT", "RUNS", "PROFILE"} - set(changes):
        env.pop(name, None)
    command = [ROOT / "scripts" / "measure-gpu", out, *steps]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT, env=env, check=False
    )


def test_the_script_rehearses_on_a_cpu(tmp_path: Path, binary: str) -> None:
    out = tmp_path / "my results"
    out.mkdir()
    (out / "check.txt").write_text("done before\n")  # what is done is kept
    done = rehearse(out, "check", "samples", "plans", NEUROSHARD=binary)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("is there: not measured again") == 1
    assert "20 groups over 20 tables" in done.stdout
    assert "all-to-alls are SIMULATED, not measured" in (out / "plans.txt").read_text()


def test_the_script_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    out = tmp_path / "mine"
    for folder, step, changes, said in (
        (out, "lane", {}, '"lane" is no step: choose among check'),
        (out, "check", {"COUNT": "2"}, "a rehearsal has sizes of its own"),
        ("samples", "check", {}, "name the folder of the results first"),
        ("", "check", {}, "name the folder of the results first"),
    ):
        done = rehearse(folder, step, **changes)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not out.exists()
