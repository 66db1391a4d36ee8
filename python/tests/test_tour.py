"""The sections of docs/TOUR.md that need TorchRec, run as the page says."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from conftest import ROOT, environment, ranks_of

PAGE = (ROOT / "docs" / "TOUR.md").read_text()


def numberless(text: str) -> str:
    return " ".join(re.sub(r"[-+]?[0-9][0-9,.]*", "0", text).split())


def test_the_tour(tmp_path: Path, binary: str) -> None:
    for script in (ROOT / "examples" / "tour").glob("*.py"):
        (tmp_path / script.name).write_text(script.read_text())
    (tmp_path / "neuroshard").symlink_to(binary)
    path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]])
    blocks = re.findall(r"^```console python\n(.*?)^```$", PAGE, re.M | re.S)
    assert len(blocks) == 2
    for shown in re.split(r"^\$ ", "".join(blocks), flags=re.M)[1:]:
        command, _, output = shown.partition("\n")
        code, written, log = ranks_of(
            ["sh", "-c", command], cwd=tmp_path, env=environment(PATH=path)
        )
        assert code == 0, written[-2000:] + log[-5000:]
        # With other load watch may find drift or a slow device behind its first line.
        end = "\n" if "neuroshard watch" in command else "\n..." if "\n..." in output else "\n\n"
        assert numberless(written).startswith(numberless(output.split(end)[0])), command
