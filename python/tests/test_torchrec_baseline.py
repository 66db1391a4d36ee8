"""The plan of TorchRec's own planner as a row of our report: ``torchrec_baseline``.

The costs of the row are those of ``neuroshard lab bench plans``, as in neuroshard_compare, and the
plan of neuroshard is the same to the byte with and without the row.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import neuroshard
from test_torchrec_tables import collection, table
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
from torchrec.distributed.planner.storage_reservations import FixedPercentageStorageReservation
from torchrec.distributed.planner.types import PlannerError

from neuroshard_torchrec import NeuroShardPlanner, baseline

ROWS = (90_000, 1000, 500, 70, 20_000, 3000)
MODEL = collection(*(table(f"t{i}", num_embeddings=rows) for i, rows in enumerate(ROWS)))
SHARDERS = [EmbeddingBagCollectionSharder()]

OF_PROFILE: dict[str, Any] = {
    "profile": "a100-80",
    "world_size": 4,
    "devices_per_host": 2,
    "device_type": "cuda",
    "batch_per_rank": 256,
}


def of_topology(**options: Any) -> dict[str, Any]:
    topology = Topology(world_size=4, compute_device="cuda", local_world_size=2)
    return {"topology": topology, "batch_size": 256, **options}


def planned(binary: str, keep: Path, **options: Any) -> NeuroShardPlanner:
    """Returns the planner after a plan of the model; its files are in the folder."""
    planner = NeuroShardPlanner(binary=binary, keep=keep, **options)
    planner.plan(MODEL, SHARDERS)
    return planner


def row(report: str) -> list[str]:
    """Returns the cells of TorchRec's row among the baselines of a report."""
    section = report.split("\nbaselines\n")[1].split("\n\n")[0]
    (line,) = [line for line in section.splitlines() if line.startswith("torchrec ")][:1]
    return re.split(r" {2,}", line)


def note(report: str) -> str:
    """Returns the line of a report that says what is wrong with TorchRec's plan."""
    (line,) = re.findall(r"^torchrec(?:: | is not valid here: )(.*)$", report, re.MULTILINE)
    return str(line)


@pytest.mark.parametrize("options", [OF_PROFILE, of_topology()], ids=["profile", "topology"])
def test_the_row_has_the_costs_of_bench(
    binary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    made = []
    plain = EmbeddingShardingPlanner.plan

    def plan(self: Any, *arguments: Any) -> Any:
        made.append(plain(self, *arguments))
        return made[-1]

    monkeypatch.setattr(EmbeddingShardingPlanner, "plan", plan)
    model = [] if "profile" in options else ["--model", "torchrec"]
    report = planned(binary, tmp_path / "beside", torchrec_baseline=True, **options).report
    planned(binary, tmp_path / "alone", **options)
    assert len(made) == 1
    # The plan is the same, and so are the tables that it is for.
    for name in ("plan.json", "tables.json"):
        assert (tmp_path / "beside" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    cluster = json.loads((tmp_path / "alone" / "plan.json").read_text())["cluster"]
    theirs = tmp_path / "theirs.json"
    theirs.write_text(json.dumps(baseline.exported(made[0], 4, 2, {**cluster, "reserve_bytes": 0})))
    tables = ("--tables", str(tmp_path / "alone" / "tables.json"))
    read = ("convert", "theirs.json", "--from", "torchrec")
    neuroshard(binary, *read, *tables, *model, "-o", "p.json", cwd=tmp_path)
    cost = json.loads((tmp_path / "p.json").read_text())["predicted"]["cost_ms"]
    name, valid, predicted, *simulated, takes = row(report)
    assert (name, valid) == ("torchrec", "yes")
    assert float(predicted.removesuffix(" ms")) == pytest.approx(cost, rel=5e-3)
    assert len(simulated) == ("profile" in options)  # nothing is simulated that was not chosen
    for cell in simulated:
        score = ("lab", "bench", "plans", "p.json", *tables, "--json", "score.json")
        neuroshard(binary, *score, cwd=tmp_path)
        (record,) = json.loads((tmp_path / "score.json").read_text())["records"]
        want = pytest.approx(record["simulated_cost_ms"], rel=5e-3)
        assert float(cell.removesuffix(" ms")) == want
    assert takes.endswith("less time") or takes == "as long"
    assert re.search(r"^torchrec planned in [\d.]+ m?s$", report, re.MULTILINE)
    assert re.search(r"^torchrec uses .*B of its fullest device, this plan .*B$", report, re.M)
    # The file that is kept has TorchRec's plan, for the page of the plan.
    assert not (tmp_path / "alone" / "torchrec.json").exists()
    files = ("plan.json", "--tables", "tables.json", "--set", "compare_plan=torchrec=torchrec.json")
    neuroshard(binary, "show", *files, "-o", "plan.html", cwd=tmp_path / "beside")
    assert '"method":"torchrec","valid":true' in (tmp_path / "beside" / "plan.html").read_text()


def test_what_the_user_passes_is_copied(binary: str, tmp_path: Path) -> None:
    """TorchRec's planner changes the topology and the reservation that it gets."""
    left = {}
    for option in (False, True):
        options = of_topology(storage_reservation=FixedPercentageStorageReservation(0.25))
        before = copy.deepcopy(options["topology"])
        planned(binary, tmp_path, torchrec_baseline=option, **options)
        assert options["topology"].devices == before.devices
        left[option] = options["storage_reservation"].last_reserved_topology.devices
    assert left[True] == left[False]


def test_torchrec_gets_the_same_arguments(
    binary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[baseline.Job] = []
    plain = baseline.plan

    def plan(module: Any, sharders: Any, job: baseline.Job) -> Any:
        assert (module, sharders) == (MODEL, SHARDERS)
        jobs.append(job)
        return plain(module, sharders, job)

    monkeypatch.setattr(baseline, "plan", plan)
    constraints = {
        "t1": ParameterConstraints(sharding_types=["row_wise"], pooling_factors=[7.0]),
        "t2": ParameterConstraints(sharding_types=["column_wise"], min_partition=32),
    }
    reservation = FixedPercentageStorageReservation(0.25)
    options = of_topology(storage_reservation=reservation, constraints=constraints)
    factors = {f"t{i}": 3.0 for i in range(6) if i != 1}
    report = planned(
        binary,
        tmp_path,
        pooling_factors=factors,
        timeout_seconds=2,
        torchrec_baseline=True,
        **options,
    ).report
    (job,) = jobs
    assert job.topology is options["topology"] and job.storage_reservation is reservation
    assert (job.batch_size, job.limit_s) == (256, 2)
    assert {n: c.pooling_factors for n, c in job.constraints.items()} == {
        **{f"t{i}": [3.0] for i in range(6)},
        "t1": [7.0],
    }
    assert job.constraints["t2"].min_partition == 32
    assert constraints["t2"].pooling_factors == ParameterConstraints().pooling_factors
    assert row(report)[1] == "yes"


def test_torchrec_gets_the_memory_of_the_profile(
    binary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[baseline.Job] = []
    plain = baseline.plan

    def plan(module: Any, sharders: Any, job: baseline.Job) -> Any:
        jobs.append(job)
        return plain(module, sharders, job)

    monkeypatch.setattr(baseline, "plan", plan)
    more = ["--set", "device_memories=0-1=40GiB,2-3=20GiB", "--set", "host_memories=64GiB,32GiB"]
    for arguments in ([], more):
        planned(binary, tmp_path, arguments=arguments, torchrec_baseline=True, **OF_PROFILE)
    of_profile, stated = [job.topology for job in jobs]
    for topology in (of_profile, stated):
        assert (topology.compute_device, topology.world_size) == ("cuda", 4)
        assert topology.local_world_size == 2
    # Tables may use no memory of hosts unless the cluster states some.
    assert [(d.storage.hbm >> 30, d.storage.ddr) for d in of_profile.devices] == [(80, 0)] * 4
    assert [d.storage.hbm >> 30 for d in stated.devices] == [40, 40, 20, 20]
    assert [d.storage.ddr >> 30 for d in stated.devices] == [32, 32, 16, 16]
    assert [job.limit_s for job in jobs] == [300, 300]


def test_a_planner_that_finds_no_plan(binary: str, tmp_path: Path) -> None:
    """TorchRec keeps 15 % of the memory free, which tables may use here."""
    arguments = ["--memory", "10MB", "--set", "reserve_share=0", "--set", "accounting=torchrec"]
    report = planned(
        binary, tmp_path, arguments=arguments, torchrec_baseline=True, **OF_PROFILE
    ).report
    assert row(report) == ["torchrec", "no", "-", "-", "not compared, see below"]
    want = "TorchRec's planner found no plan: Unable to find a plan for this model because of "
    assert note(report) == want + "insufficient storage."


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (PlannerError("no room\nat all"), "TorchRec's planner found no plan: no room"),
        (KeyError("t9"), "TorchRec's planner failed: KeyError: 't9'"),
        (RuntimeError("a\x1b[2J" + 500 * "b"), "TorchRec's planner failed: RuntimeError: a\\x1b"),
    ],
)
def test_an_error_of_torchrecs_planner_is_a_row(
    binary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, want: str
) -> None:
    def fails(*_: Any) -> Any:
        raise error

    planned(binary, tmp_path / "alone", **OF_PROFILE)
    monkeypatch.setattr(EmbeddingShardingPlanner, "plan", fails)
    report = planned(binary, tmp_path / "beside", torchrec_baseline=True, **OF_PROFILE).report
    assert row(report)[1:4] == ["no", "-", "-"]
    assert note(report).startswith(want)
    assert len(note(report)) < baseline.MAX_REASON + 20
    both = [(tmp_path / n / "plan.json").read_bytes() for n in ("alone", "beside")]
    assert both[0] == both[1]


def test_a_plan_that_cannot_be_stated(
    binary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = EmbeddingShardingPlanner.plan

    def quantised(self: Any, *arguments: Any) -> Any:
        made = plain(self, *arguments)
        made.plan[""]["t0"].compute_kernel = "quant"
        return made

    monkeypatch.setattr(EmbeddingShardingPlanner, "plan", quantised)
    report = planned(binary, tmp_path, torchrec_baseline=True, **OF_PROFILE).report
    assert row(report)[1:4] == ["no", "-", "-"]
    want = "TorchRec's plan cannot be compared: "
    assert note(report).startswith(want + 'plan[""].t0: kernel "quant" ')
    assert re.search(r"^torchrec planned in ", report, re.MULTILINE)


def test_a_sharding_group(binary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TorchRec's planner gets the topology of a group, as for DMPCollection."""
    ranks_of = []
    plain = EmbeddingShardingPlanner.plan

    def plan(self: Any, *arguments: Any) -> Any:
        ranks_of.append(self._topology.world_size)
        return plain(self, *arguments)

    monkeypatch.setattr(EmbeddingShardingPlanner, "plan", plan)
    for options in (OF_PROFILE, of_topology()):
        report = planned(
            binary, tmp_path, sharding_group_size=2, torchrec_baseline=True, **options
        ).report
        assert row(report)[1] == "yes"
    assert ranks_of == [2, 2]
