"""Which tables share an operator: what TorchRec does under plans that load_plan loaded.

plan/export/testdata/operators.json has the plans, and the tables of each operator on each
rank. A test of the Go package reads the same file, so the rules by which plans are priced
are those of TorchRec. One start of torchrec_operators.py shards all models.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torchrec", reason="SKIPPED: torchrec is not installed")

import test_torchrec_training as training
import torchrec_operators
import torchrec_ranks as ranks
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec_binary import ROOT, binary, neuroshard

from neuroshard_torchrec._torchrec import OPERATORS, Placement, sharding_plan
from neuroshard_torchrec.constraints import Of, settings, translated

__all__ = ["binary"]

Json = dict[str, Any]

FILE = ROOT / "plan" / "export" / "testdata" / "operators.json"
CASES: list[Json] = json.loads(FILE.read_text())["cases"]
NAMES = [case["name"] for case in CASES]


MIXED: list[Json] = [
    {"name": f"narrow{i}", "module": "sparse", "rows": 5000, "dim": 8} for i in range(24)
] + [{"name": f"wide{i}", "module": "sparse", "rows": 5000, "dim": 128} for i in range(8)]
"""Narrow and wide tables; the narrow ones have most lookups. Each is pinned to a device that
holds narrow and wide tables, so that it pays to keep them in operators of their own."""


def plan_mixed(folder: Path, binary: str) -> Json:
    """Plans the mixed tables by the program, and returns the export."""
    tables = [
        t
        | {"pooling_factor": 20 if t["dim"] == 8 else 3, "access": {"zipf": 1.05}}
        | {"constraints": {"devices": [i % ranks.RANKS], "no_split": True}}
        for i, t in enumerate(MIXED)
    ]
    head = {"format": "neuroshard-tables", "version": 1, "batch": 65536}
    (folder / "mixed.json").write_text(json.dumps(head | {"tables": tables}))
    cluster = [*("--devices", str(ranks.RANKS), "--devices-per-host", str(ranks.PER_HOST))]
    cluster += ["--device", "a100-80", "--for", "torchrec"]
    cluster += ["--sharding-types", "table_wise,column_wise"]
    neuroshard(binary, "plan", "mixed.json", *cluster, "-o", "plan.json", cwd=folder)
    to = ["--to", "torchrec", "--accelerator", "cpu", "-o", "planned.json"]
    neuroshard(binary, "export", "plan.json", *to, cwd=folder)
    planned: Json = json.loads((folder / "planned.json").read_text())["plan"]["sparse"]
    return planned


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operators")


@pytest.fixture(scope="module")
def planned(folder: Path, binary: str) -> Json:
    """The tables of a plan of the program, as it is exported."""
    return plan_mixed(folder, binary)


@pytest.fixture(scope="module")
def sharded(folder: Path, planned: Json) -> dict[str, list[list[list[str]]]]:
    """The operators of each case, rank by rank."""
    named = dict(zip(NAMES, CASES, strict=True))
    cases = [
        *CASES,
        named["tiers and numbers"] | {"name": "without marks", "marks": "none"},
        named["everything"] | {"name": "keys", "marks": "keys"},
        {"name": "planned", "tables": MIXED, "plan": str(folder / "planned.json")},
    ]
    (folder / "cases.json").write_text(json.dumps(cases))
    code, log = training.launch(torchrec_operators.__file__, folder)
    assert code == 0, log[-5000:]
    seen = training.results(folder)
    return {case["name"]: [rank[case["name"]] for rank in seen] for case in cases}


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_operators_of_torchrec(sharded: dict[str, Any], case: Json) -> None:
    assert sharded[case["name"]] == case["operators"]


def test_a_plan_of_the_program_divides_operators(sharded: dict[str, Any], planned: Json) -> None:
    numbers = {name: t.get("operator", 0) for name, t in planned.items()}
    apart = {numbers[t["name"]] for t in MIXED if t["dim"] == 8}
    assert apart.isdisjoint(numbers[t["name"]] for t in MIXED if t["dim"] == 128)
    for rank, operators in enumerate(sharded["planned"]):
        groups: dict[Any, list[str]] = {}
        for name, t in planned.items():
            key = (t["sharding_type"], numbers[name])
            groups.setdefault(key, []).extend([name] * t["ranks"].count(rank))
        assert operators == sorted(sorted(names) for names in groups.values() if names)


def test_torchrec_alone_fuses_tiers(sharded: dict[str, Any]) -> None:
    """Where this fails, TorchRec has learned something, and load_plan need not mark tiers."""
    (case,) = [c for c in CASES if c["name"] == "tiers and numbers"]
    assert sharded["without marks"][0] == [sorted(t["name"] for t in case["tables"])]


def test_keys_of_fused_parameters_divide_alike(sharded: dict[str, Any]) -> None:
    assert sharded["keys"] == sharded["everything"]


def test_marks_are_parts_of_a_byte() -> None:
    kernels = ("fused", "fused_uvm", "fused_uvm_caching")
    marks = set()
    for kernel in kernels:
        for operator in range(OPERATORS):
            placement = Placement("row_wise", kernel, (), None, operator)
            plan = sharding_plan({"": {"t": placement}}, "cuda", ranks.PER_HOST)
            params = plan.plan[""]["t"].cache_params
            marks.add(params.reserved_memory if params else 0)
    assert len(marks) == len(kernels) * OPERATORS
    assert all(int(mark) == 0 for mark in marks)


def test_the_text_of_settings_is_that_of_constraints() -> None:
    """The tables of the cases state kernel_settings as constraints make them."""
    for t in (t for case in CASES for t in case["tables"]):
        fields = torchrec_operators.fields_of(t)
        if names := fields.pop("sharding_type", None):
            fields["sharding_types"] = list(names.values())
        stated = ParameterConstraints(**fields)
        found = translated(stated, Of("t", 8, ["f"], False, "fp32"), "cpu", None)
        assert settings(sorted(found.fused), found.fused, {}) == t.get("kernel_settings", "")


def test_the_file_has_every_number() -> None:
    numbers = {t.get("operator", 0) for case in CASES for t in case["tables"]}
    assert numbers == set(range(OPERATORS))
