"""The matrix of docs/TORCHREC.md names a test for each row, and the tests exist.

Each argument of TorchRec's planner and each field of ParameterConstraints must have a row, so
a new release of TorchRec with more of them fails here.
"""

from __future__ import annotations

import dataclasses
import json
import re
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torchrec", reason="SKIPPED: torchrec is not installed")

from torch import nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
from torchrec.distributed.planner.types import Stats
from torchrec.distributed.types import KeyValueParams
from torchrec_binary import binary

from neuroshard_torchrec import InputError, NeuroShardPlanner
from neuroshard_torchrec import binary as program

__all__ = ["binary"]

TESTS = Path(__file__).parent
PAGE = TESTS.parent.parent / "docs" / "TORCHREC.md"


def rows() -> list[list[str]]:
    """Returns the cells of the matrix: what, what becomes of it, and the test."""
    section = PAGE.read_text().split("\n## What is honoured\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_row_names_a_test() -> None:
    assert len(rows()) > 40
    for what, becomes, tests in rows():
        assert becomes.split()[0].rstrip(".:;,") in ("honoured", "refused", "accepted"), what
        names = re.findall(r"`(\w+\.py)::(\w+)`", tests)
        assert names, f"{what} names no test"
        for file, test in names:
            text = (TESTS / file).read_text()
            assert re.search(rf"^def {test}\(", text, re.MULTILINE), f"{file} has no {test}"


def test_every_argument_and_field_of_torchrec_has_a_row() -> None:
    named = {name for what, *_ in rows() for name in re.findall(r"`(\w+)`", what)}
    arguments = set(signature(EmbeddingShardingPlanner.__init__).parameters) - {"self"}
    fields = {f.name for f in dataclasses.fields(ParameterConstraints)}
    assert not (arguments | fields) - named


class Spy(Stats):  # type: ignore[misc] # it is untyped
    """Keeps what is logged of a plan."""

    def __init__(self) -> None:
        self.logged: list[dict[str, Any]] = []

    def log(self, *arguments: Any, **named: Any) -> None:
        self.logged.append(named)


def model() -> nn.Module:
    tables = [
        EmbeddingBagConfig(name=n, num_embeddings=1000, embedding_dim=16, feature_names=[f"f_{n}"])
        for n in ("a", "b")
    ]
    found = nn.Module()
    found.embeddings = EmbeddingBagCollection(tables=tables, device="meta")
    return found


def test_what_is_passed_in_is_used(
    binary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[list[str]] = []
    real = program.run
    monkeypatch.setattr(program, "run", lambda *a: runs.append(a[1]) or real(*a))
    spy, seen = Spy(), []

    def callback(options: list[Any]) -> list[Any]:
        seen.extend(o.name for o in options)
        return options

    planner = NeuroShardPlanner(
        Topology(world_size=2, compute_device="cpu"),
        batch_size=96,
        stats=[spy],
        callbacks=[callback],
        timeout_seconds=1,
        debug=False,
        binary=binary,
        keep=tmp_path,
    )
    plan = planner.plan(model(), [EmbeddingBagCollectionSharder()])
    assert set(plan.plan["embeddings"]) == {"a", "b"} and sorted(seen) == ["a", "b"]
    assert [named["debug"] for named in spy.logged] == [False]
    assert json.loads((tmp_path / "tables.json").read_text())["batch"] == 192
    assert [run[run.index("--budget") + 1] for run in runs] == ["1s"]


def test_parts_of_the_search() -> None:
    parts = ("enumerator", "proposer", "partitioner", "performance_model", "plan_loader")
    for name in parts:
        with pytest.raises(InputError, match=name):
            NeuroShardPlanner(**{name: object()})  # type: ignore[arg-type]


def test_key_value_stores_are_refused() -> None:
    constraints = {"a": ParameterConstraints(key_value_params=KeyValueParams())}
    planner = NeuroShardPlanner(world_size=2, batch_size=8, constraints=constraints)
    with pytest.raises(InputError, match="key_value_params"):
        planner.plan(model(), [EmbeddingBagCollectionSharder()])
