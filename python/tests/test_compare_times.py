"""``python -m neuroshard_compare.times``: what is timed, and the table. No test judges times."""

from __future__ import annotations

import json

import pytest
from torch import nn
from torchrec.distributed.planner import EmbeddingShardingPlanner
from torchrec_binary import binary

from neuroshard_compare import times
from neuroshard_torchrec import NeuroShardPlanner

__all__ = ["binary"]


def run(capsys: pytest.CaptureFixture[str], binary: str, *arguments: str) -> tuple[int, str]:
    code = times.main([*arguments, "--binary", binary, "--repeats", "2"])
    return code, capsys.readouterr().out


def test_the_command(binary: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(
        capsys, binary, "--tables", "1,3", "--scenarios", "dlrm_8x80_none", "--limit", "1", "--json"
    )
    assert code == 0
    results = json.loads(out)
    assert [(c["name"], c["tables"]) for c in results["cases"]] == [
        ("drawn, 1 table", 1),
        ("drawn, 3 tables", 3),
        ("dlrm_dcnv2_8x80_none", 26),
    ]
    for case in results["cases"]:
        assert [p["planner"] for p in case["planners"]] == list(times.PLANNERS)
        for p in case["planners"]:
            assert p["error"] == ""
            assert len(p["cpu_s"]) == len(p["wall_s"]) == 2 and min(p["cpu_s"] + p["wall_s"]) > 0
    code, out = run(capsys, binary, "--tables", "2", "--scenarios", "")
    head, _, row = out.strip().splitlines()
    assert code == 0
    assert head.count("|") == row.count("|") == 9
    assert row.startswith("| drawn, 2 tables | 2 |")


def test_all_planners_get_the_same(binary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []
    for planner in (EmbeddingShardingPlanner, NeuroShardPlanner):

        def plan(self: object, *arguments: object) -> None:
            planned.append((self, *arguments))

        monkeypatch.setattr(planner, "plan", plan)
    case = times.drawn(20)
    times.measured(case, binary, "a100-80", 1, None)
    theirs, formulas, profile = (p for p, *_ in planned)
    assert {id(model) for _, model, _ in planned} == {id(case.model)}
    assert [type(p) for p in (theirs, formulas, profile)] == [
        EmbeddingShardingPlanner,
        NeuroShardPlanner,
        NeuroShardPlanner,
    ]
    for p in (formulas, profile):
        assert p._constraints == theirs._constraints == case.constraints
        assert p._batch_size == theirs._batch_size == case.batch_per_rank
        assert str(p._topology) == str(theirs._topology)


def test_a_planner_without_a_plan(binary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("there is no plan")

    monkeypatch.setattr(EmbeddingShardingPlanner, "plan", fails)
    case = times.measured(times.drawn(1), binary, "a100-80", 3, None)
    theirs = case["planners"][0]
    assert (theirs["error"], len(theirs["cpu_s"])) == ("there is no plan", 1)
    assert "no plan" in times.markdown({"cases": [case]})


def test_drawn_models() -> None:
    first, again = times.drawn(60), times.drawn(60)
    assert (repr(first.model), first.constraints) == (repr(again.model), again.constraints)
    assert isinstance(first.model, nn.ModuleList) and len(first.constraints) == first.tables == 60
    sizes = [times.drawn(n) for n in times.TABLES]
    assert len(sizes) == 12
    modules = [m for case in sizes for m in case.model.children()]
    assert {type(m).__name__ for m in modules} == {"EmbeddingBagCollection", "EmbeddingCollection"}
    features = [
        [f for c in m.embedding_bag_configs() for f in c.feature_names]
        for m in modules
        if hasattr(m, "embedding_bag_configs")
    ]
    assert any(len(set(names)) < len(names) for names in features)  # features are shared


def test_drawn_models_are_planned(binary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmbeddingShardingPlanner, "plan", lambda *_: None)
    for n in (12, 35):
        for p in times.measured(times.drawn(n), binary, "a100-80", 1, None)["planners"]:
            assert p["error"] == ""


def test_nothing_to_plan(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["--tables", "", "--scenarios", ""], ["--repeats", "0"], ["--tables", "0"]):
        with pytest.raises(SystemExit) as ended:
            times.main(wrong)
        assert ended.value.code == 2
    assert times.main(["--tables", "", "--scenarios", "absent.json"]) == 2
    assert "absent.json" in capsys.readouterr().err
