from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import LIMIT, SOURCE, environment

from neuroshard_worker.__main__ import main
from neuroshard_worker.engines.plain import TorchEngine
from neuroshard_worker.lanes import (
    EXPONENTIAL,
    Case,
    Lanes,
    Sizes,
    cases,
    ratio,
    report,
    verdict,
)
from neuroshard_worker.timing import Stopwatch

CPU = torch.device("cpu")
TINY = Sizes(
    dims=(8,), poolings=(1, 10), rows=(50,), batch=16, lookups=160, repeats=2, rehearsal=True
)
SCRIPT = SOURCE.parents[1] / "scripts" / "measure-gpu"


def start(path: Path, sizes: Sizes = TINY) -> Lanes:
    return Lanes(TorchEngine(CPU), Stopwatch(CPU, "queued", 1 << 12), sizes, path)


def test_every_case_is_measured_and_written(tmp_path: Path) -> None:
    path = tmp_path / "lanes.json"
    found = start(path).run()
    assert json.loads(path.read_text()) == found and list(tmp_path.iterdir()) == [path]
    for case, entry in zip(cases(TINY), found["lanes"], strict=True):
        assert dataclasses.asdict(case).items() <= entry.items()
    assert len(found["lanes"]) == 2 * 2 * 2 * 2  # modes x L x lengths
    assert len(found["wide"]) == 4 and not found["skipped"]  # one batch in four modes
    for entry in found["lanes"]:
        for name in ("alone", "beside"):
            for phase in ("fwd_ms", "bwd_ms"):
                low, median, high = entry[name][phase]
                assert 0 < low <= median <= high
    assert found["verdict"]["rule"] == "unknown" and "rehearsal" in report(found)


def test_a_run_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lanes.json"
    measured: list[Case] = []
    whole = Lanes._measure

    def stop(self: Lanes, case: Case) -> None:
        if len(measured) == 3:
            raise KeyboardInterrupt
        measured.append(case)
        whole(self, case)

    monkeypatch.setattr(Lanes, "_measure", stop)
    with pytest.raises(KeyboardInterrupt):
        start(path).run()
    first = json.loads(path.read_text())["lanes"]
    monkeypatch.setattr(Lanes, "_measure", lambda s, c: (measured.append(c), whole(s, c))[1])
    found = start(path).run()
    assert found["lanes"][:3] == first
    assert measured == list(cases(TINY))
    measured.clear()
    assert start(path).run() == found and not measured


def test_times_of_another_machine_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "lanes.json"
    other = start(path)
    other.found["device"] = "another"
    other._write()
    with pytest.raises(ValueError, match="has other times than these: give another file"):
        start(path)


def test_what_does_not_fit_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = start(tmp_path / "lanes.json")
    whole = lanes._lanes

    def full(case: Case) -> dict[str, Any]:
        if case.pooling_factor == 10:
            raise torch.OutOfMemoryError("out of memory\nmore")
        return whole(case)

    monkeypatch.setattr(lanes, "_lanes", full)
    found = lanes.run()
    assert {e["pooling_factor"] for e in found["lanes"]} == {1}
    assert {s["pooling_factor"] for s in found["skipped"]} == {10}
    assert "skipped: fp32, 50 x 8: out of memory\n" in report(found)


def test_lengths_and_the_hardly_read_table(tmp_path: Path) -> None:
    lanes = start(tmp_path / "lanes.json")
    case = Case(dim=8, rows=50, batch=1000, pooling_factor=10, lengths=EXPONENTIAL)
    for shard in lanes._narrow(case):
        lengths = shard.offsets.diff().double()
        assert int(shard.offsets[0]) == 0 and int(shard.offsets[-1]) == 10_000 == len(shard.indices)
        assert 0.9 < float(lengths.std() / lengths.mean()) < 1.1
    for shard in lanes._narrow(dataclasses.replace(case, lengths="equal")):
        assert shard.offsets.diff().unique().tolist() == [10]
    wide = lanes._wide_table(1000)
    assert wide.offsets.diff().nonzero().flatten().tolist() == list(range(0, 1000, 100))
    assert (wide.rows, wide.dim, len(wide.indices)) == (1000, 128, 10)


def made(forward: float, others: float) -> dict[str, Any]:
    """Times whose decisive ratios are forward and whose other ratios are others."""
    sizes = dataclasses.asdict(Sizes())
    found: dict[str, Any] = {"sizes": sizes, "lanes": [], "wide": []}
    for case in cases(Sizes()):
        # The wide table's bags take 2 ms beyond the fixed time of 1 ms.
        key = {"batch": case.batch, "dtype": case.dtype, "weighted": case.weighted}
        found["wide"].append({**key, "wide": phases(3), "floor": phases(1)})
        times = {"alone": phases(10), "beside": phases(10 * others + 2)}
        if case.decisive:
            times["beside"]["fwd_ms"] = [0, 10 * forward + 2, 99]
        found["lanes"].append({**dataclasses.asdict(case), **times})
    found["wide"] = list({json.dumps(w): w for w in found["wide"]}.values())
    return found


def phases(ms: float) -> dict[str, list[float]]:
    return {"fwd_ms": [0, ms, 99], "bwd_ms": [0, ms, 99]}


@pytest.mark.parametrize(
    ("forward", "others", "rule"),
    [
        (1.0, 1.0, "own"),
        (1.49, 1.4, "own"),
        (1.4, 1.6, "between"),
        (2.0, 1.2, "between"),
        (2.5, 1.1, "widest"),
        (3.9, 2.7, "widest"),
    ],
)
def test_verdict(forward: float, others: float, rule: str) -> None:
    found = made(forward, others)
    assert math.isclose(ratio(found, found["lanes"][0], "bwd"), others)
    most = max(forward, others)
    assert verdict(found) == {"rule": rule, "ratio": forward, "largest": most}


def test_no_verdict_without_decisive_cases() -> None:
    found = made(3, 2)
    found["lanes"] = [e for e in found["lanes"] if e["dim"] > 16]
    assert verdict(found) == {"rule": "unknown", "why": "no decisive case was measured"}


def rehearse(out: Path, *steps: str, **changes: str) -> subprocess.CompletedProcess[str]:
    env = environment(PYTHON=sys.executable, REHEARSAL="1", OPTIONS="--device cpu") | changes
    for name in ("COLLECT", "COUNT", "RUNS", "LANES_SECONDS", "PROFILE"):
        if name not in changes:
            env.pop(name, None)
    return subprocess.run(
        [SCRIPT, out, *steps], capture_output=True, text=True, timeout=LIMIT, env=env, check=False
    )


def test_the_script_rehearses_on_a_cpu(tmp_path: Path, binary: str) -> None:
    out = tmp_path / "my results"
    out.mkdir()
    (out / "anchors.json").write_text("{}")  # what is done is kept
    done = rehearse(out, "anchors", "lanes", "samples", "plans", NEUROSHARD=binary)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("is there: not measured again") == 1
    assert "verdict: none, because the times of a rehearsal mean nothing" in done.stdout
    assert json.loads((out / "lanes.json").read_text())["launch"] == "queued"
    assert "20 groups over 20 tables" in done.stdout
    assert "all-to-alls are SIMULATED, not measured" in (out / "plans.txt").read_text()


def test_the_script_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    out = tmp_path / "mine"
    for folder, step, changes, said in (
        (out, "lane", {}, '"lane" is no step: choose among check'),
        (out, "check", {"COUNT": "2"}, "a rehearsal has sizes of its own"),
        ("lanes", "check", {}, "name the folder of the results first"),
        ("", "check", {}, "name the folder of the results first"),
    ):
        done = rehearse(folder, step, **changes)  # type: ignore[arg-type]
        assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not out.exists()


def test_a_run_with_a_limit_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "lanes.json"
    found = start(path).run(1e-9)
    count = len(list(cases(TINY)))
    assert found["left"] == count and not found["lanes"]
    assert f"{count} cases are left" in report(found)
    assert json.loads(path.read_text())["left"] == count
    found = start(path).run()
    assert found["left"] == 0 and len(found["lanes"]) == count
    assert "are left" not in report(found)
    for limit in ("0", "-1", "nan"):
        assert main(["--lanes", str(path), "--device", "cpu", "--limit", limit]) == 2
    assert main(["--check", "--limit", "5", "--device", "cpu"]) == 2
