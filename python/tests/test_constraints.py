"""constraints/ pins what versions.TOGETHER says belongs together, and .ci/torchrec has the
sources of each release."""

from __future__ import annotations

import re
from pathlib import Path

from neuroshard_torchrec import versions

ROOT = Path(__file__).parent.parent.parent

PACKAGES = {"PyTorch": "torch", "FBGEMM": "fbgemm-gpu-cpu"}


def test_each_release_has_its_pins() -> None:
    found = {}
    for path in sorted((ROOT / "python" / "constraints").glob("[0-9]*.txt")):
        lines = path.read_text().splitlines()
        assert lines[0] == "-c common.txt"
        pins = {n: versions.release_of(v) for n, v in (p.split("==") for p in lines[1:])}
        assert pins["torchrec"] == path.stem
        found[path.stem] = {name: pins[package] for name, package in PACKAGES.items()}
    assert found == versions.TOGETHER


def test_each_release_has_its_sources() -> None:
    text = (ROOT / ".ci" / "torchrec").read_text()
    commits = dict(re.findall(r"^\t\[([0-9.]+)\]=([0-9a-f]{40})$", text, re.MULTILINE))
    assert list(commits) == list(versions.TOGETHER)
    assert len(set(commits.values())) == len(commits)
