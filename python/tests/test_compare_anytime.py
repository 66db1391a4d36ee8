"""``python -m neuroshard_compare.anytime``: plans and their times, for ``bench --beside``."""

from __future__ import annotations

import importlib
import itertools
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from torchrec_binary import binary, neuroshard

from neuroshard_compare import anytime
from neuroshard_compare.anytime import Prices, Slice, Workload

__all__ = ["binary"]

GIB = 1 << 30


def workload(dims: list[int], devices: int, memory: int, optimizer: str = "sgd") -> Workload:
    """Tables of 2^20 rows, so that a column takes 4 MiB without optimizer state."""
    tables: list[dict[str, Any]] = [
        {"name": f"t{i}", "rows": 1 << 20, "dim": dim, "optimizer": optimizer, "pooling_factor": 1}
        for i, dim in enumerate(dims)
    ]
    cluster = {
        "profile": "a100-80",
        "devices": devices,
        "devices_per_host": devices,
        "device_memory_bytes": memory,
        "reserve_bytes": 0,
    }
    return Workload("made up", 1024, tables, cluster)


# TorchRec's plans of a workload are plans that bench --beside takes: of the same tables, all on
# devices of the cluster, with their times.
def test_plans_of_torchrec(binary: str, tmp_path: Path) -> None:
    file = tmp_path / "beside.json"
    given = ["criteo-kaggle", "--no-solver", "--out", str(file), "--binary", binary]
    assert anytime.main(given) == 0
    records = json.loads(file.read_text())["records"]
    assert [r["method"] for r in records] == [
        f"TorchRec {name}" for name in ("greedy", "grid", "uniform", "dynamic programming")
    ]
    solved = [r for r in records if r["valid"]]
    assert {r["method"] for r in solved} >= {"TorchRec greedy", "TorchRec uniform"}
    for r in solved:
        assert r["cost_ms"] > 0 and r["wall_ms"] > 0 and r["cpu_ms"] > 0
        assert len({s["table"] for s in r["plan"]}) == 26
    arguments = ["--methods", "dim", "--predicted", "--budgets", "10m", "--workers", "1"]
    out = neuroshard(
        *(binary, "bench", "workloads", "criteo-kaggle", "--clusters", "default", *arguments),
        *("--beside", str(file), "--json", "-"),
        cwd=tmp_path,
    )
    answer = json.loads(out)
    scored = {r["method"]: r for r in answer["records"] if r["method"] != "dim 10m0s"}
    assert set(scored) == {r["method"] for r in records}
    for r in records:
        assert scored[r["method"]]["valid"] == r["valid"]
        assert scored[r["method"]]["cpu_ms"] == pytest.approx(r["cpu_ms"])
        assert scored[r["method"]].get("plan") == r.get("plan") or r["valid"]


# The solver gets the costs and bytes of slices alone, for each way to cut a table.
def test_prices(binary: str) -> None:
    program = anytime.Program(binary, "")
    of = program.workload("criteo-kaggle")
    assert (len(of.tables), of.cluster["devices"]) == (26, 8)
    assert of.budget + of.cluster["reserve_bytes"] == 16 * GIB
    given = anytime.prices(program, of)
    assert set(given.alone_ms) == {(t, n) for t in range(26) for n in (1, 2, 4)}
    assert set(given.alone_bytes) == set(given.alone_ms)
    for (table, n), size in given.alone_bytes.items():
        weights = of.tables[table]["rows"] * 16 // n * 4
        assert size >= weights
        # A slice takes no longer than its table, but for the error of the model.
        assert 0 < given.alone_ms[table, n] <= 1.05 * given.alone_ms[table, 1]
    assert given.column_ms > 0


def test_cuts_by_hand() -> None:
    assert anytime.cut({"dim": 32}, 1) == [(0, 32)]
    assert anytime.cut({"dim": 32}, 4) == [(0, 8), (8, 16), (16, 24), (24, 32)]
    assert anytime.cut({"dim": 32}, 3) == []  # not equal
    assert anytime.cut({"dim": 16}, 8) == []  # 2 columns are too narrow
    assert anytime.cut({"dim": 6}, 1) == [(0, 6)]  # a whole table may be narrow


def test_optimizer_states_take_memory() -> None:
    # 64 columns take 256 MiB, and as much again with the state of adagrad.
    plain, stated = workload([64], 2, GIB // 4), workload([64], 2, GIB // 4, "adagrad")
    assert [plain.fits(plain.tables[0], n) for n in (1, 2)] == [True, True]
    assert [stated.fits(stated.tables[0], n) for n in (1, 2)] == [False, True]


# The least cost of a small problem, by the solver and by trying all plans.
def test_the_solver_finds_the_least_cost() -> None:
    pytest.importorskip("highspy")
    of = workload([64, 32, 16, 8], 2, GIB)
    alone = {(0, 1): 5.0, (0, 2): 2.8, (1, 1): 3.0, (1, 2): 1.7, (2, 1): 1.1, (3, 1): 0.4}
    for memory, column in ((GIB, 0.0), (GIB, 0.1), (GIB // 4, 0.01)):
        sizes = {
            (t, n): of.tables[t]["rows"] * anytime.dim(of.tables[t]) * 4 // n for t, n in alone
        }
        of.cluster["device_memory_bytes"] = memory
        given = Prices(alone, sizes, column)
        slices, cost, proven = anytime.solve(of, given, 60)
        assert slices is not None and proven
        assert cost == pytest.approx(least(of, given))
        assert cost == pytest.approx(cost_of(of, given, slices))
        for i, t in enumerate(of.tables):
            columns = sorted(s.columns for s in slices if s.table == i)
            assert columns == anytime.cut(t, len(columns))
    of.cluster["device_memory_bytes"] = GIB // 32
    assert anytime.solve(of, given, 60)[0] is None


def cost_of(of: Workload, given: Prices, slices: list[Slice]) -> float:
    """The cost of a plan as the linear program states it; infinite if the plan does not fit."""
    parts = [sum(s.table == i for s in slices) for i in range(len(of.tables))]
    longest = widest = 0.0
    for d in range(of.cluster["devices"]):
        on = [s for s in slices if s.device == d]
        if sum(given.alone_bytes[s.table, parts[s.table]] for s in on) > of.budget:
            return float("inf")
        longest = max(longest, sum(given.alone_ms[s.table, parts[s.table]] for s in on))
        widest = max(widest, sum(s.columns[1] - s.columns[0] for s in on))
    return longest + given.column_ms * widest


def least(of: Workload, given: Prices) -> float:
    """The least cost of all plans."""
    best = float("inf")
    devices = range(of.cluster["devices"])
    ways = [[n for t, n in given.alone_ms if t == i] for i in range(len(of.tables))]
    for parts in itertools.product(*ways):
        cut = [(i, c) for i, n in enumerate(parts) for c in anytime.cut(of.tables[i], n)]
        for on in itertools.product(devices, repeat=len(cut)):
            slices = [Slice(i, c, d) for (i, c), d in zip(cut, on, strict=True)]
            best = min(best, cost_of(of, given, slices))
    return best


def test_errors(
    binary: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "beside.json"
    to = ["--out", str(file), "--binary", binary]
    assert anytime.main(["no-such-workload", "--no-solver", *to]) == 2
    assert "no-such-workload" in capsys.readouterr().err
    assert anytime.main(["criteo-kaggle", "--no-solver", "--out", "x", "--binary", "absent"]) == 2
    assert "absent" in capsys.readouterr().err

    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    assert anytime.main(["criteo-kaggle", *to]) == 2
    shown = capsys.readouterr().err.splitlines()
    assert shown == [
        "anytime: error: No module named 'highspy'",
        "anytime: hint: pip install highspy, or --no-solver",
    ]
    assert not file.exists()
    assert logging.root.manager.disable == logging.NOTSET  # the caller's warnings are heard
