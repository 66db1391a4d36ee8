"""The examples of python/examples train, with the losses of the same models whole."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import environment, ranks_of

pytest.importorskip("torchrec", reason="SKIPPED: torchrec is not installed")

from torchrec_binary import binary
from torchrec_examples import EXAMPLES, NAMES

__all__ = ["binary"]

LOSS = 2e-6
"""Losses may differ by this share: sums are taken in another order, in float32."""


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory, binary: str) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("examples")
    script = str(Path(__file__).with_name("torchrec_examples.py"))
    command = [sys.executable, script, str(folder)]
    code, _, log = ranks_of(command, folder, env=environment(NEUROSHARD_BINARY=binary))
    assert code == 0, log[-8000:]
    found: dict[str, Any] = json.loads((folder / "losses.json").read_text())
    return found


@pytest.mark.parametrize("name", NAMES)
def test_an_example_trains(losses: dict[str, Any], name: str) -> None:
    sharded, whole = losses[name]["sharded"], losses[name]["whole"]
    assert sharded == pytest.approx(whole, rel=LOSS)
    assert sharded[-1] < sharded[0]


def test_groups_need_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="DMPCollection runs on no CPU"):
        runpy.run_path(str(EXAMPLES / "groups.py"), run_name="__main__")
