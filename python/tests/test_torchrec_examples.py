"""The examples of python/examples train, with the losses of the same models whole."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torchrec_ranks as ranks
import torchrec_twod

LOSS = 2e-6
"""Losses may differ by this share: sums are taken in another order, in float32."""


EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = tuple(sorted(p.stem for p in EXAMPLES.glob("*.py") if p.stem not in ("common", "train")))
RANKS = 2


def whole(example: Any, start: dict[str, torch.Tensor]) -> list[float]:
    """Trains the model of an example in this process, on the batches of all ranks."""
    common = importlib.import_module("common")
    model = example.Model()
    model.load_state_dict(start, strict=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=common.RATE)
    losses = []
    for step in range(common.STEPS):
        optimizer.zero_grad()
        total = 0.0
        for rank in range(RANKS):
            g = torch.Generator().manual_seed(1000 * step + rank)
            loss = model(example.draw(g)) / RANKS
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


def both() -> dict[str, Any]:
    """Runs every example on this rank, and returns its losses and those of its model whole."""
    sys.path.insert(0, str(EXAMPLES))
    common = importlib.import_module("common")
    train = common.train
    starts: list[dict[str, torch.Tensor]] = []

    def kept(*arguments: Any) -> list[float]:
        """Trains as an example asks for, and keeps the weights it begins with."""
        starts.append({k: v.clone() for k, v in arguments[4].items()})
        return train(*arguments)

    common.train = kept
    common.DMPCollection = torchrec_twod.on_cpus()
    losses = {}
    for name in NAMES:
        example = importlib.import_module(name)
        sharded = example.main()
        losses[name] = {"sharded": sharded, "whole": whole(example, starts[-1])}
    return losses


@pytest.fixture(scope="module")
def losses(binary: str) -> dict[str, Any]:
    found: dict[str, Any] = ranks.on_ranks(RANKS, both)[0]
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


def first() -> str:
    """Runs train.py on this rank, which has joined already, and returns what it printed."""
    dist.init_process_group = lambda _: None
    dist.destroy_process_group = lambda: None
    with contextlib.redirect_stdout(io.StringIO()) as written:
        runpy.run_path(str(EXAMPLES / "train.py"))
    return written.getvalue()


def test_the_first_example(binary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEUROSHARD_BINARY", binary)
    written, silent = ranks.on_ranks(RANKS, first)
    assert "found by   method neuroshard" in written and silent == ""
    losses = [float(x) for x in re.findall(r"step \d: loss ([\d.]+)", written)]
    assert len(losses) == 5 and losses[-1] < losses[0], written
