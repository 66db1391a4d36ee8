"""Both planners side by side: that TorchRec's estimator is used as its planner uses it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torchrec.distributed.planner.perf_models import NoopPerfModel
from torchrec.distributed.planner.types import PlannerError

from neuroshard_compare import __main__ as command
from neuroshard_compare import placement, report, scenario, torchrec_planner
from neuroshard_compare.binary import Binary, placed
from neuroshard_compare.placement import PlacedTable, Shard
from neuroshard_compare.scenario import Scenario, ScenarioError, Table
from neuroshard_compare.torchrec_planner import Engine

REPOSITORY = Path(__file__).parent.parent.parent

TINY = Scenario(
    name="tiny",
    tables=(
        Table("a", 1000, 96, 2.0),
        Table("b", 50000, 64, 7.5),
        Table("c", 200, 8, 1.0),
        Table("d", 3000, 32, 20.0),
    ),
    optimizer="rowwise_adagrad",
    batch_per_rank=16,
    devices=2,
    devices_per_host=2,
    memory_bytes=1 << 30,
)


def text(s: Scenario, **changes: Any) -> str:
    tables = [
        {"name": t.name, "rows": t.rows, "dim": t.dim, "pooling": t.pooling} for t in s.tables
    ]
    topology = {
        "world_size": s.devices,
        "local_world_size": s.devices_per_host,
        "hbm_bytes": s.memory_bytes,
    }
    root = {
        "name": s.name,
        "tables": tables,
        "optimizer": s.optimizer,
        "batch_size_per_rank": s.batch_per_rank,
        "global_batch": s.batch,
        "topology": topology,
    }
    return json.dumps(root | changes)


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Binary:
    go = shutil.which("go")
    if go is None:
        pytest.skip("there is no Go to build neuroshard with")
    path = tmp_path_factory.mktemp("bin") / "neuroshard"
    build = [go, "build", "-o", str(path), "./cmd/neuroshard"]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    subprocess.run(build, cwd=REPOSITORY, check=True, timeout=600, env=environment)
    return Binary(str(path), "a100-80")


# Figures that were found with the planner before this package was written, by its
# own rating of its own plan: MLPerf's DLRM-DCNv2 on eight devices.
@pytest.mark.parametrize(
    ("name", "options", "most", "mean", "fullest", "emptiest"),
    [
        ("dlrm_8x80_none", "default", 4.173, 4.054, 24.1, 4.9),
        ("dlrm_8x80_none", "column_wise", 4.930, None, None, None),
        ("dlrm_8x40_adagrad", "default", 5.029, None, 27.0, None),
    ],
)
def test_known_figures(
    name: str,
    options: str,
    most: float,
    mean: float | None,
    fullest: float | None,
    emptiest: float | None,
) -> None:
    engine = Engine(scenario.load(name))
    planner = engine.planner(options, 32, 60)
    estimate = engine.estimate(engine.plan(planner))
    got = max(estimate.cost_ms)
    assert planner._best_plan is not None
    assert got == pytest.approx(NoopPerfModel(engine.topology).rate(planner._best_plan), rel=1e-12)
    assert round(got, 3) == most
    assert mean is None or round(sum(estimate.cost_ms) / 8, 3) == mean
    assert fullest is None or round(max(estimate.hbm_bytes) / 2**30, 1) == fullest
    assert emptiest is None or round(min(estimate.hbm_bytes) / 2**30, 1) == emptiest
    assert estimate.fits


def slices(*widths: int) -> placement.Placement:
    """TINY's tables, with table a cut into slices of the widths, on ranks by turns."""
    shards, start = [], 0
    for i, width in enumerate(widths):
        shards.append(Shard(i % 2, (0, 1000), (start, start + width)))
        start += width
    kind = "column_wise" if len(widths) > 1 else "table_wise"
    rest = [
        PlacedTable(t.name, "table_wise", "fused", (Shard(1, (0, t.rows), (0, t.dim)),))
        for t in TINY.tables[1:]
    ]
    return (PlacedTable("a", kind, "fused", tuple(shards)), *rest)


def test_unequal_slices_by_hand() -> None:
    # Indices, rows and outputs of the batch over both ranks: bytes over bandwidth,
    # times what the planner takes for narrow rows, and twice again for the backward.
    def cost(dim: int) -> float:
        penalty = 1.15 if dim >= 64 else 1.75
        hbm, intra = 897 * 2**30 / 1000, 600 * 2**30 / 1000
        output = 16 * 2 * dim * 4
        forward = (8 * 32 * 2 + 32 * 2 * max(dim, 32) * 4 + output) * penalty / hbm
        return 3 * forward + 2 * output / intra

    engine = Engine(TINY)
    cut, whole = engine.estimate(slices(28, 68)), engine.estimate(slices(96))
    assert cut.cost_ms[0] == pytest.approx(cost(28), rel=1e-12)
    assert cut.cost_ms[1] - whole.cost_ms[1] == pytest.approx(cost(68), rel=1e-9)
    assert whole.cost_ms[0] == pytest.approx(cost(96), rel=1e-12)
    # Weights, the optimizer's state, which TorchRec takes for 1/96 of them, indices, outputs.
    weights = 1000 * 28 * 4
    assert cut.hbm_bytes[0] == weights + -(-weights // 96) + 8 * 64 + 4 * 32 * 28


def test_bandwidths_of_a_scenario(binary: Binary) -> None:
    rates = {"intra_host_bw": 2e8, "inter_host_bw": 3e6, "hbm_mem_bw": 5e8}
    topology = {"world_size": 4, "local_world_size": 2, "hbm_bytes": 1 << 30}
    s = scenario.parse(text(TINY, global_batch=64, topology=topology | rates), "tiny.json")
    assert s.bandwidths == rates
    usual = replace(s, bandwidths={})
    options = ("--sharding-types", "all", *torchrec_planner.FORMULAS)
    costs = []
    for each in (s, usual):
        planned = binary.plan(each, 0.15, 1000, options=options)
        assert planned is not None
        costs.append(planned.cost_ms)
        estimate = Engine(each).estimate(planned.placement).cost_ms
        assert max(estimate) == pytest.approx(planned.cost_ms, rel=1e-9)
    assert costs[0] > 1.2 * costs[1]
    # The nets read the network's bandwidth only.
    network = replace(s, bandwidths={"inter_host_bw": 3e6})
    by_nets = [binary.plan(each, 0.15, 1000) for each in (s, network, usual)]
    assert by_nets[0] is not None and by_nets[1] is not None and by_nets[2] is not None
    assert by_nets[0].cost_ms == by_nets[1].cost_ms > by_nets[2].cost_ms


def test_what_does_not_fit_is_reported() -> None:
    engine = Engine(replace(TINY, memory_bytes=1 << 20))
    assert not engine.estimate(slices(96)).fits


def test_the_planner_as_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tiny.json"
    file.write_text(text(TINY))
    assert torchrec_planner.main([str(file), "--limit", "5"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["error"] == "" and outcome["plan_s"] > 0 and outcome["cpu_s"] > 0
    found = placement.from_json(outcome["placement"])
    assert [t.name for t in found] == ["a", "b", "c", "d"]
    assert placement.to_json(found) == outcome["placement"]


def test_the_planner_finds_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> placement.Placement:
        raise PlannerError("nothing fits\nand more")

    monkeypatch.setattr(Engine, "plan", fail)
    file = tmp_path / "tiny.json"
    file.write_text(text(TINY))
    assert torchrec_planner.main([str(file)]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["placement"] is None and outcome["error"] == "nothing fits"


def test_no_room_for_the_batch() -> None:
    with pytest.raises(ScenarioError, match=r"^tiny: TorchRec: The reserved topology .* negative"):
        Engine(replace(TINY, memory_bytes=1 << 10))


def test_programs_are_run_with_their_environment() -> None:
    code = "import os; print(os.environ['PYTHONHASHSEED']); raise SystemExit(3)"
    done = command._run([sys.executable, "-c", code], {**os.environ, "PYTHONHASHSEED": "0"}, 60)
    assert (done.returncode, done.stdout) == (3, "0\n")


@pytest.mark.parametrize(
    ("devices", "sharding_types"),
    [
        *[(1, "all"), (2, "all"), (6, "all"), (6, "table_wise,column_wise")],
        *[(2, "row_wise"), (6, "row_wise"), (6, "data_parallel")],
    ],
)
def test_both_costs_of_our_plan(devices: int, sharding_types: str, binary: Binary) -> None:
    s = replace(TINY, devices=devices, devices_per_host=devices // 2 or 1)
    options = ("--sharding-types", sharding_types, *torchrec_planner.FORMULAS)
    planned = binary.plan(s, 0.15, 1000, options=options)
    assert planned is not None
    assert binary.simulated_ms(s, planned.placement) == pytest.approx(
        planned.simulated_ms, rel=1e-9
    )
    estimate = Engine(s).estimate(planned.placement).cost_ms
    assert len(estimate) == devices
    assert max(estimate) == pytest.approx(planned.cost_ms, rel=1e-9)
    if sharding_types in ("row_wise", "data_parallel"):
        assert placement.sharding_types(planned.placement) == {sharding_types: 4}


def test_operators_of_their_own_are_simulated(binary: Binary) -> None:
    """Put together here, and as an imported plan."""
    s = replace(TINY, devices=2, devices_per_host=2)
    costs = set()
    for numbers in ([0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 1, 2]):
        tables = zip(slices(96), numbers, strict=True)
        placed = tuple(replace(t, operator=n) for t, n in tables)
        assert placement.from_json(json.loads(json.dumps(placement.to_json(placed)))) == placed
        cost = binary.simulated_ms(s, placed)
        assert binary._simulated_plan(s, placed) == pytest.approx(cost, rel=1e-9)
        costs.add(round(cost, 9))
    assert len(costs) == 2, "numbers alone change nothing, and a division does"


def test_both_costs_of_each_sharding_type(binary: Binary) -> None:
    s = replace(TINY, devices=4, devices_per_host=2)

    def blocks(ranks: range, *columns: tuple[int, int]) -> tuple[Shard, ...]:
        size = 1000 // (len(ranks) // len(columns))
        firsts = [rank % (1000 // size) * size for rank in ranks]
        return tuple(
            Shard(rank, (first, first + size), columns[i * len(columns) // len(ranks)])
            for i, (rank, first) in enumerate(zip(ranks, firsts, strict=True))
        )

    costs = set()
    for kind, kernel, shards in (
        ("row_wise", "fused", blocks(range(4), (0, 96))),
        ("table_row_wise", "fused", blocks(range(2, 4), (0, 96))),
        ("grid_shard", "fused", blocks(range(4), (0, 48), (48, 96))),
        ("data_parallel", "dense", tuple(Shard(r, (0, 1000), (0, 96)) for r in range(4))),
    ):
        placed = (PlacedTable("a", kind, kernel, shards), *slices(96)[1:])
        assert placement.not_estimated(placed) == ""
        costs.add(binary.simulated_ms(s, placed))
        assert max(Engine(s).estimate(placed).cost_ms) > 0
    assert len(costs) == 4


def test_host_memory_has_no_simulated_cost(binary: Binary) -> None:
    whole = PlacedTable("a", "table_wise", "fused_uvm", (Shard(0, (0, 1000), (0, 96)),))
    cut = (whole, *slices(96)[1:])
    assert placement.not_estimated(cut) == "table_wise (fused_uvm)"
    with pytest.raises(ValueError, match="no estimate on the SIMULATED device: table_wise"):
        binary.simulated_ms(TINY, cut)


def test_costs_must_agree() -> None:
    command._same(TINY, 1.0, None, "by this")
    command._same(TINY, None, 1.0, "by this")
    command._same(TINY, 1.0, 1.0 + 1e-12, "by this")
    with pytest.raises(
        command.BinaryError, match=r"tiny: by this the plan costs 1\.0 ms here, 1\.5"
    ):
        command._same(TINY, 1.0, 1.5, "by this")


def test_every_sharding_type_of_a_plan_file_has_an_estimate() -> None:
    def shard(device: int, first: int, end: int) -> dict[str, Any]:
        return {"device": device, "columns": [0, 96], "rows": [first, end], "tier": "hbm"}

    whole = {"replicated": True, "columns": [0, 96], "rows": [0, 1000], "tier": "hbm"}
    for kind, shards in (
        ("row_wise", [shard(0, 0, 500), shard(1, 500, 1000)]),
        ("table_row_wise", [shard(1, 0, 500), shard(0, 500, 1000)]),
        ("grid", [shard(0, 0, 500), shard(1, 500, 1000)]),
        ("data_parallel", [whole]),
    ):
        a = placed({"name": "a", "kind": kind, "shards": shards}, 2)
        assert sorted(s.rank for s in a.shards) == [0, 1]
        assert placement.not_estimated((a,)) == ""
        estimate = Engine(TINY).estimate((a, *slices(96)[1:]))
        assert 0 < estimate.cost_ms[0] < estimate.cost_ms[1]


def test_nothing_fits(binary: Binary) -> None:
    assert binary.plan(replace(TINY, memory_bytes=1 << 20), 0.15, 0) is None


def test_the_whole_command(
    tmp_path: Path,
    binary: Binary,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def child(arguments: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert torchrec_planner.main(arguments[3:]) == 0
        return subprocess.CompletedProcess(arguments, 0, capsys.readouterr().out, "")

    monkeypatch.setattr(command, "_run", child)
    file = tmp_path / "tiny.json"
    file.write_text(text(TINY))
    out = tmp_path / "out"
    arguments = [str(file), "--out", str(out), "--binary", binary.path, "--repeats", "1"]
    assert command.main(arguments) == 0
    assert sorted(p.name for p in out.iterdir()) == ["engines.json", "engines.md"]
    results = json.loads((out / "engines.json").read_text())
    assert results["format"] == "neuroshard-compare" and results["versions"]["torchrec"]
    (tiny,) = results["scenarios"]
    assert [p["planner"] for p in tiny["plans"]] == [
        "TorchRec, default",
        "TorchRec, table- and column-wise",
        "neuroshard, TorchRec's formulas",
        "neuroshard",
        "neuroshard, table- and column-wise",
        "neuroshard, table- and column-wise, slices of 32 or more",
    ]
    for plan in tiny["plans"]:
        assert ("placement" in plan) == plan["planner"].startswith("TorchRec")
        assert plan["error"] == "" and not plan["hit_limit"] and plan["estimate"]["fits"]
        assert sum(plan["sharding_types"].values()) == 4
        assert (plan["simulated_ms"] is None) == (plan["not_estimated"] != "")
    lines = (out / "engines.md").read_text().splitlines()
    assert lines[0] == (
        "**tiny**: 4 tables on 2 devices of 1 GiB, 2 a host, batch 32, optimizer rowwise_adagrad"
    )
    assert len([line for line in lines if line.startswith("|")]) == 8

    monkeypatch.setattr(command, "_run", None)  # TorchRec's plans are not made again
    kept = out / "engines.json"
    arguments[2] = str(tmp_path / "again")
    assert command.main([*arguments, "--torchrec-from", str(kept)]) == 0
    (again,) = json.loads((tmp_path / "again" / "engines.json").read_text())["scenarios"]
    assert again["plans"][:2] == tiny["plans"][:2] and len(again["plans"]) == 6
    for changed, message in (
        (results | {"min_partition": 4}, "made with another min_partition: plan all again"),
        ({"format": "neuroshard-compare"}, "not a comparison: KeyError('version')"),
    ):
        kept.write_text(json.dumps(changed))
        assert command.main([*arguments, "--torchrec-from", str(kept)]) == 2
        assert message in capsys.readouterr().err


def test_rows_of_the_table() -> None:
    plan = {
        "planner": "TorchRec, default",
        "limit_s": 60,
        "plan_s": [64.2],
        "cpu_s": [58.0],
        "hit_limit": True,
        "error": "",
        "estimate": {"max_ms": 1.5, "mean_ms": 1.25, "hbm_bytes": [2**31, 2**30], "fits": False},
        "simulated_ms": None,
        "sharding_types": {"row_wise": 2, "column_wise": 1},
        "slices": 4,
    }
    assert report._row(plan) == [
        *("TorchRec, default, limit 60 s", "64.2 s (limit)", "58.0 s", "1.500", "1.250"),
        *("2.0 / 1.0 (too much)", "no estimate", "2 row_wise, 1 column_wise (4 slices)"),
    ]
    failed = plan | {"error": "no | plan"}
    assert report._row(failed) == [
        *("TorchRec, default, limit 60 s", "64.2 s (limit)", "58.0 s", "-", "-", "-", "-"),
        "no \\| plan",
    ]
    assert report._row(failed | {"cpu_s": []})[2:7] == ["-"] * 5
    assert [report.seconds(t) for t in ([0.0789], [3, 1, 2], [212.7])] == [
        "79 ms",
        "2.0 s",
        "213 s",
    ]


def test_the_page_shows_the_kept_results() -> None:
    results = json.loads((REPOSITORY / "docs/perf/engines.json").read_text())
    assert report.markdown(results) in (REPOSITORY / "docs/ENGINES.md").read_text()


def test_bundled_scenarios() -> None:
    for name in scenario.bundled():
        assert scenario.load(name).tables
    assert len(scenario.bundled()) == 5


def test_bad_scenarios(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario.parse(
            text(
                TINY,
                optimizer="lion",
                tables=[{"name": "a", "rows": 0, "dim": 6, "pooling": "x", "dtype": "fp8"}, 3],
                topology={
                    **{"world_size": 3, "local_world_size": 2, "hbm_bytes": True},
                    **{"hbm_mem_bw": 5, "ddr": 1},
                },
            ),
            "bad.json",
        )
    assert str(caught.value).splitlines() == [
        "bad.json: tables[0].rows is 0, not a whole number above 0",
        "bad.json: tables[0].dim is 6, not a whole number above 0, a multiple of 4",
        "bad.json: tables[0].pooling is 'x', not a number above 0",
        "bad.json: tables[0].dtype 'fp8' is not compared, only 'fp32'",
        "bad.json: tables[1] is not an object",
        "bad.json: tables[1].name is None, not a text",
        "bad.json: tables[1].rows is None, not a whole number above 0",
        "bad.json: tables[1].dim is None, not a whole number above 0, a multiple of 4",
        "bad.json: tables[1].pooling is None, not a number above 0",
        "bad.json: optimizer 'lion' is none of none, sgd, adagrad, rowwise_adagrad, adam",
        "bad.json: topology.hbm_bytes is True, not a whole number above 0",
        "bad.json: topology.hbm_mem_bw is 5, not a number of bytes a millisecond, 1e3 to 1e11",
        "bad.json: topology.ddr is not known; the keys are world_size, local_world_size, "
        "hbm_bytes, intra_host_bw, inter_host_bw, hbm_mem_bw, hbm_to_ddr_mem_bw",
        "bad.json: topology.local_world_size does not divide world_size",
        "bad.json: global_batch is not 48, batch_size_per_rank x world_size",
    ]
    for content, what in (
        ("{", "line 1"),
        ("[]", "is not an object"),
        (text(TINY, tables=[]), "is not a list of at least one table"),
    ):
        with pytest.raises(ScenarioError, match=what):
            scenario.parse(content, "bad.json")
    with pytest.raises(ScenarioError, match="give a file or one of these: dlrm_8x40_adagrad, "):
        scenario.load(str(tmp_path / "absent.json"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.json"], "absent.json: "),
        (["--limits", "200,60"], "--limits 200,60 is not a list of rising seconds"),
        (["--repeats", "0"], "--repeats 0 is not at least 1"),
        (["--min-partition", "30"], "--min-partition 30 is no multiple of 4"),
        (["--binary", "/absent/neuroshard"], "go build -o bin/neuroshard ./cmd/neuroshard"),
    ],
)
def test_bad_command_lines(
    tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert command.main([*arguments, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()
