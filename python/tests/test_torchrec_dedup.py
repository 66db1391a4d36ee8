"""Modules whose indices each rank deduplicates train under our plans as without."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import environment, ranks_of

pytest.importorskip("torchrec", reason="SKIPPED: torchrec is not installed")

from torchrec_binary import binary

__all__ = ["binary"]

Json = dict[str, Any]

KINDS = ["sequence", "listed"]
"""The modules with sequences: an EmbeddingCollection, and one with managed collisions."""

SHARDING_TYPES = ("table_wise", "column_wise", "row_wise")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, binary: str) -> list[Json]:
    """Returns what each of four ranks reports of each case."""
    folder = tmp_path_factory.mktemp("dedup")
    cases = []
    for only in SHARDING_TYPES:
        arguments = ["--sharding-types", f"{only},row_wise"]  # managed collisions have no other
        planner = {"profile": "a100-80", "batch_per_rank": 4096, "arguments": arguments}
        kinds = KINDS if only == "row_wise" else KINDS[:1]
        case = {"name": only, "plan": "neuroshard", "planner": planner, "dedup": True}
        cases.append(case | {"kinds": kinds})
    of_all = {"recipe": "", "cases": cases, "fewer": [], "whole": {"sgd": KINDS}}
    (folder / "cases.json").write_text(json.dumps(of_all))
    command = [sys.executable, str(Path(__file__).parent / "torchrec_modules.py"), str(folder)]
    code, _, log = ranks_of(command, folder, env=environment(NEUROSHARD_BINARY=binary))
    assert code == 0, log[-4000:]
    return [json.loads((folder / f"rank-{r}.json").read_text()) for r in range(4)]


@pytest.mark.parametrize("case", SHARDING_TYPES)
def test_losses_are_those_of_the_whole_model(results: list[Json], case: str) -> None:
    for of_rank in results:
        assert any("sparse.sequence" in name for name in of_rank[case]["deduplicated"])
        for kind, losses in of_rank[case]["losses"].items():
            assert losses == pytest.approx(results[0]["reference"]["sgd"][kind], rel=2e-6)
