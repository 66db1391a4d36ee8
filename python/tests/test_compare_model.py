"""``python -m neuroshard_compare MODULE:FUNCTION``: both planners on a model of the user's."""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints
from torchrec.distributed.planner.perf_models import NoopPerfModel
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection

from neuroshard_compare import __main__ as command
from neuroshard_compare import model as compare
from neuroshard_compare import report, torchrec_model

FACTORS = {"a": 3.0, "b": 12.5, "c": 1.0, "d": 7.0}


def small() -> dict[str, Any]:
    """A model of four tables, with the pooling factors of their features."""
    tables = [
        EmbeddingBagConfig(
            name=name, embedding_dim=dim, num_embeddings=rows, feature_names=[f"of_{name}"]
        )
        for name, rows, dim in (("a", 90_000, 64), ("b", 1000, 128), ("c", 500, 32), ("d", 70, 256))
    ]
    ebc = EmbeddingBagCollection(tables=tables, device=torch.device("meta"))
    constraints = {n: ParameterConstraints(pooling_factors=[f]) for n, f in FACTORS.items()}
    sharders = [EmbeddingBagCollectionSharder()]
    return {"model": nn.Sequential(ebc), "sharders": sharders, "constraints": constraints}


FLAGS = ("--gpu", "a100-80", "--gpus", "4", "--batch-per-rank", "256", "--repeats", "1")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = command.main(list(arguments))
    out = capsys.readouterr()
    return code, out.out, out.err


def test_both_judges(
    binary: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rated = {}
    plain = EmbeddingShardingPlanner.plan

    def plan(self: Any, *arguments: Any) -> Any:
        made = plain(self, *arguments)
        rated["ms"] = NoopPerfModel(self._topology).rate(self._best_plan)
        return made

    monkeypatch.setattr(EmbeddingShardingPlanner, "plan", plan)
    reference = f"{__name__}:small"
    code, out, err = run(capsys, reference, *FLAGS, "--binary", binary, "--json")
    assert (code, err) == (0, "")
    results = json.loads(out)
    theirs, ours, formulas = results["plans"]
    assert [p["planner"] for p in results["plans"]] == [
        "TorchRec",
        "neuroshard",
        "neuroshard, TorchRec's formulas",
    ]
    # TorchRec's plan is rated as its planner rates it, and the program's formulas agree with
    # TorchRec's estimator.
    assert theirs["torchrec"]["cost_ms"] == pytest.approx(rated["ms"], rel=1e-12)
    assert formulas["torchrec"]["cost_ms"] == pytest.approx(formulas["own_cost_ms"], rel=1e-9)
    assert ours["neuroshard"]["cost_ms"] == pytest.approx(ours["own_cost_ms"], rel=1e-9)
    # Each of our plans is the cheapest of ours by the judge that it was searched with.
    assert ours["neuroshard"]["cost_ms"] <= formulas["neuroshard"]["cost_ms"]
    assert formulas["torchrec"]["cost_ms"] <= ours["torchrec"]["cost_ms"]
    for plan_ in results["plans"]:
        assert sum(plan_["sharding_types"].values()) == 4
        assert plan_["neuroshard"]["simulated_cost_ms"] > 0
        assert len(plan_["plan_s"]) == 1
        # Both count weights of 4 bytes, and more.
        for judge in ("neuroshard", "torchrec"):
            assert plan_[judge]["fullest_bytes"] > 90_000 * 64 * 4 / 4
    text = report.beside(results)
    assert text.startswith(f"{reference}: {results['verdict']['title']}\n")
    assert "4 tables on 4 x a100-80 of 80 GiB, 4 a host, batch 256 a device" in text
    assert f"{ours['neuroshard']['simulated_cost_ms']:.3f} ms" in text


def test_no_plan_of_torchrec(
    binary: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any) -> Any:
        raise torchrec_model.NoPlanError("there is no plan")

    monkeypatch.setattr(torchrec_model.Engine, "plan", fails)
    code, out, _ = run(capsys, f"{__name__}:small", *FLAGS, "--binary", binary)
    assert code == 0
    assert "TorchRec: no plan: there is no plan" in out
    # The report has a row for each sharding type of our plan.
    assert re.search(r"tables (table|column|row)_wise +\d", out)


def test_the_limit_is_said(
    binary: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A search of TorchRec that takes the seconds of --limit was ended by it."""
    clock = itertools.count(0, 2)  # each call takes two seconds
    monkeypatch.setattr("neuroshard_compare.model.time.perf_counter", lambda: next(clock))
    said = "TorchRec: --limit ended the search; with more time, its plan may cost less"
    for limit, ended in (("2", True), ("3", False)):
        arguments = ["--limit", limit, "--binary", binary]
        code, out, _ = run(capsys, f"{__name__}:small", *FLAGS, *arguments)
        assert code == 0 and (said in out) is ended


def no_model() -> int:
    return 3


def too_many() -> tuple[int, ...]:
    return 1, 2, 3, 4


def other_keys() -> dict[str, Any]:
    return {"model": nn.Linear(1, 1), "shard": []}


def raises() -> None:
    raise RuntimeError("no data")


no_function = 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_model", "returned no model: int is not a torch.nn.Module"),
        ("too_many", "returned 4 values"),
        ("other_keys", "returned a dict with shard"),
        ("raises", "failed: RuntimeError: no data (" + __file__),
        ("no_function", "does not call a function no_function"),
        ("nothing", "has no function nothing"),
    ],
)
def test_wrong_functions(name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, f"{__name__}:{name}", *FLAGS)
    assert (code, out) == (2, "")
    assert message in err


def test_wrong_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "broken.py").write_text("import no_such_thing\n")
    (tmp_path / "job.py").write_text(f"from {__name__} import small\nprint('making')\n")
    cases: dict[str, str] = {
        "absent:model": "there is no module absent",
        "folder/absent.py:model": "there is no file folder/absent.py",
        "broken:model": "module broken failed: ModuleNotFoundError: No module named",
        "broken.py:model": "broken.py failed: ModuleNotFoundError",
    }
    for reference, message in cases.items():
        code, _, err = run(capsys, reference, *FLAGS)
        assert code == 2
        assert f"error: {message}" in err
    assert isinstance(compare.load("job.py:small").model, nn.Sequential)
    assert capsys.readouterr().out == ""  # what the user's code prints is not the result


def test_wrong_options_of_the_planner(binary: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--gpu", "a100-81", "--gpus", "4", "--binary", binary)
    code, _, err = run(capsys, f"{__name__}:small", *flags)
    assert code == 2
    assert "error: the batch of a rank is not known" in err
    assert "hint: pass --batch-per-rank, or a sample batch of one rank" in err
    code, _, err = run(capsys, f"{__name__}:small", *flags, "--batch-per-rank", "8")
    assert code == 2
    assert "a100-81" in err and "hint:" in err
