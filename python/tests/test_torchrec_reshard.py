"""Jobs that move their tables while they run, under real TorchRec on four processes.

The losses, the weights and the optimizer state must be those of a job that never moved.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_torchrec_checkpoints as stored
import test_torchrec_training as training
import torchrec_ranks as ranks
import torchrec_reshard as job
from conftest import neuroshard
from test_torchrec_checkpoints import SAME, divided, layout, near, other_slices

from neuroshard_torchrec import (
    PlanError,
    _sharded,
    load_plan,
    reshard,
    tables_from_model,
    write_tables,
)
from neuroshard_torchrec._torchrec import Placement, Shard, ShardingEnv

Json = dict[str, Any]

moves = sys.modules["neuroshard_torchrec.reshard"]  # the name of the package is the function

FIRST = layout(4, 0)


def halves_of(first: int) -> Json:
    """Returns a plan of whole tables and of tables in two slices, the first of a width."""
    plan = layout(4, 0, lambda _: 1, replicated=())
    for i, c in enumerate(ranks.configs()):
        if c.embedding_dim % 8 == 0:
            widths = [first, c.embedding_dim - first]
            cut = training.slices(widths, [i % 4, (i + 1) % 4], c.num_embeddings)
            plan["plan"]["sparse.plain"][c.name] = training.table("column_wise", cut)
    return plan


def without_the_last(plan: Json) -> Json:
    plan = copy.deepcopy(plan)
    plan["plan"]["sparse.plain"].popitem()
    return plan


PLANS = {
    "first": FIRST,
    "divided": divided(layout(4, 0)),
    "moved": layout(4, 1),  # other ranks and sharding types, the same slices
    "cut anew": layout(4, 1, other_slices),
    "lopsided": halves_of(4),
    "sharded": layout(4, 0, replicated=()),
    "on two": layout(2, 0),
    "short": without_the_last(FIRST),
}


@dataclass(frozen=True)
class Way:
    """A try to move the job, which runs under ``on``, from plan ``old`` to plan ``new``; one
    rank reads another file. ``error`` is what the message of PlanError says, or "" where
    the job moves."""

    on: str
    old: str | None
    new: str
    error: str = ""
    other_on: int = -1
    other: str = ""


JOBS = {
    "sgd": (
        "sgd",
        [
            Way("first", "first", "sharded", "ceases to be replicated"),
            Way("first", "first", "on two", "new plan: the plan is for 2 ranks, and there are 4"),
            Way("first", "first", "short", 'new plan: module "sparse.plain": tables missing'),
            Way("first", "cut anew", "moved", "the model is not sharded as the old plan says"),
            Way("first", "first", "moved", "ranks 0 and 2 have read different", 2, "divided"),
            Way("first", "first", "moved", "No such file", 2, "none"),
            Way("first", None, "moved"),
        ],
    ),
    "adagrad": (
        "adagrad",
        [
            Way("first", "first", "cut anew"),
            Way("cut anew", "cut anew", "first"),
            Way("first", "first", "moved"),
        ],
    ),
    "rowwise_adagrad": (
        "rowwise_adagrad",
        [
            Way("first", "first", "cut anew", "one number for each row of a slice"),
            Way("first", "first", "first"),
            Way("first", "first", "divided"),
            Way("divided", "divided", "moved"),
        ],
    ),
}
REPLICAS = [
    Way("sharded", "sharded", "first", "becomes replicated"),
    Way("sharded", "sharded", "lopsided"),
]
WAYS = {**{k: ways for k, (_, ways) in JOBS.items()}, "replicas": REPLICAS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reshard")


@pytest.fixture(scope="module")
def replanned(folder: Path, binary: str) -> Json:
    """Has the program plan, and plan again for other pooling factors; returns its report.

    Three tables are to lie on rank 0 at first. Then they get most lookups, and may lie anywhere.
    """
    names = [f for c in stored.TABLES for f in c.feature_names]
    for name, lookups, constraint in (("before", 1.0, {"device": 0}), ("after", 100.0, {})):
        tables = tables_from_model(
            ranks.Model(),
            batch=65536,
            pooling_factors=dict.fromkeys(names, 1.0)
            | dict.fromkeys(("f7", "f17", "f27"), lookups),
            optimizer="rowwise_adagrad",
            constraints=dict.fromkeys(("t7", "t17", "t27"), constraint),
        )
        write_tables(tables, folder / f"tables-{name}.json")
    engine = ["--engine", "torchrec", "--types", "table_wise,column_wise"]
    cluster = ["--gpus", "4", "--set", "devices_per_host=2", "--gpu", "a100-80"]
    neuroshard(
        binary, "plan", "tables-before.json", *cluster, *engine, "-o", "planned.json", cwd=folder
    )
    again = [binary, "replan", "planned.json", "tables-after.json", *engine, "--json"]
    done = subprocess.run(
        [*again, "-o", "replanned.json"], cwd=folder, capture_output=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def seen(folder: Path, replanned: Json) -> dict[str, list[Json]]:
    """What each rank saw of each case, by name."""
    assert replanned["verdict"] == "move"
    for name, plan in PLANS.items():
        (folder / f"{name}.json").write_text(json.dumps(plan))

    def path(name: str | None) -> str | None:
        return None if name is None else str(folder / f"{name}.json")

    def case(name: str, optimizer: str, *ways: Way, **more: Any) -> Json:
        case: Json = {"name": name, "optimizer": optimizer, "plan": path(ways[0].on)}
        case["times"] = str(folder / f"{name}.{{rank}}.jsonl")
        case["ways"] = [
            {"old": path(w.old), "new": path(w.new), "other_on": w.other_on, "other": path(w.other)}
            for w in ways
        ]
        return case | more

    cases = [case(name, o, *ways, rate=True) for name, (o, ways) in JOBS.items()]
    cases += [
        case("replanned", "rowwise_adagrad", Way("planned", "planned", "replanned")),
        case("replicas", "sgd", *REPLICAS, unequal=True),
    ]
    results = ranks.trained(job.run, cases)
    return {c["name"]: [r[c["name"]] for r in results] for c in cases}


def owners(entry: Json, rows: int, dim: int) -> np.ndarray:
    """Returns the rank that holds each element of a table."""
    out = np.full((rows, dim), -1)
    for s, rank in zip(entry["shards"], entry["ranks"], strict=True):
        (row, column), (height, width) = s["shard_offsets"], s["shard_sizes"]
        out[row : row + height, column : column + width] = rank
    return out


def bytes_between(before: Json, after: Json, optimizer: str) -> tuple[list[int], list[int]]:
    """Returns the bytes that each rank sends and receives, counted element by element."""
    sent, received = [0] * 4, [0] * 4
    tables = (ranks.configs(), ranks.weighted_configs())
    for path, configs in zip(("sparse.plain", "sparse.weighted"), tables, strict=True):
        for c in configs:
            one, other = (p["plan"][path][c.name] for p in (before, after))
            if one["sharding_type"] == "data_parallel":
                continue
            a, b = (owners(t, c.num_embeddings, c.embedding_dim) for t in (one, other))
            each = 8 if optimizer == "adagrad" else 4
            for source, target in zip(a[a != b], b[a != b], strict=True):
                sent[source] += each
                received[target] += each
            if optimizer == "rowwise_adagrad":
                for column in sorted({s["shard_offsets"][1] for s in one["shards"]}):
                    for source, target in zip(a[:, column], b[:, column], strict=True):
                        if source != target:
                            sent[source] += 4
                            received[target] += 4
    return sent, received


@pytest.mark.parametrize("name", WAYS)
def test_a_job_that_moves(seen: dict[str, list[Json]], name: str) -> None:
    for result in seen[name]:
        assert result["losses"] == near(result["wanted"])
        assert result["state"] < SAME
        assert result["off"] < stored.WEIGHT.get(name, SAME)
        assert result.get("loaded", 0) == 0
        assert result["same objects"]
        assert result["hook"] == job.HALF
        assert [t["changed"] for t in result["tries"]] == [0] * len(WAYS[name])  # to the bit


MOVES = [(name, i) for name, ways in WAYS.items() for i, w in enumerate(ways) if not w.error]
REFUSED = [(name, i) for name, ways in WAYS.items() for i, w in enumerate(ways) if w.error]


@pytest.mark.parametrize(("name", "i"), MOVES)
def test_what_moves(seen: dict[str, list[Json]], name: str, i: int) -> None:
    way = WAYS[name][i]
    optimizer = name if name in JOBS else "sgd"
    before, after = PLANS[way.on], PLANS[way.new]
    sent, received = bytes_between(before, after, optimizer)
    tries = [result["tries"][i] for result in seen[name]]
    replicas = any(t["kind"] == "data_parallel" for t in tries[0]["plan"].values())
    for rank, done in enumerate(tries):
        assert "error" not in done, done
        assert (done["sent"], done["received"]) == (sent[rank], received[rank])
        assert done["total"] == sum(sent) == sum(received)
        assert done["seconds are right"] and done["same generator"]
        if before["plan"]["sparse.plain"] != after["plan"]["sparse.plain"]:
            assert done["old lookups"] == replicas  # they keep their operator
    training.held_as_planned(tries)
    env = ShardingEnv.from_local(4, 0)
    want = load_plan(after, ranks.Model(), env, local_size=2, device_type="cpu")
    assert tries[0]["plan"] == ranks.planned(want)


@pytest.mark.parametrize("name", JOBS)
def test_the_times_of_steps(seen: dict[str, list[Json]], folder: Path, name: str) -> None:
    assert seen[name]
    for rank in range(4):
        lines = [json.loads(t) for t in (folder / f"{name}.{rank}.jsonl").read_text().splitlines()]
        assert [t["step"] for t in lines] == [job.FIRST_STEP + i for i in range(2 * job.HALF)]
        for line in lines:
            assert [*line] == ["step", "device", "forward_ms", "backward_ms", "wait_ms", "time"]
            assert line["device"] == rank
            assert all(line[k] > 0 for k in ("forward_ms", "backward_ms", "wait_ms"))
        assert [t["time"] for t in lines] == sorted(t["time"] for t in lines)


def test_learning_rates_stay(seen: dict[str, list[Json]]) -> None:
    for name in JOBS:
        for result in seen[name]:
            assert result["rates"] == [job.LATER_RATE]


def test_operators_change(seen: dict[str, list[Json]]) -> None:
    for result in seen["rowwise_adagrad"]:
        _, same, divided_now, _ = result["tries"]
        assert same["tables"] == []
        assert divided_now["tables"]
        assert divided_now["total"] == 0
        assert len(divided_now["operators"]) > len(same["operators"])


@pytest.mark.parametrize(("name", "i"), REFUSED)
def test_what_is_refused(seen: dict[str, list[Json]], name: str, i: int) -> None:
    way = WAYS[name][i]
    for rank, result in enumerate(seen[name]):
        got = result["tries"][i]
        wanted = "PlanError"
        if way.other == "none":
            wanted = "OSError" if rank == way.other_on else "RankError"
            wanted = "FileNotFoundError" if wanted == "OSError" else wanted
        assert got["error"] == wanted
        assert way.error in got["message"]


def test_a_plan_of_the_program(seen: dict[str, list[Json]], replanned: Json) -> None:
    """The bytes that the program reports are those that are sent."""
    for result in seen["replanned"]:
        assert result["losses"] == near(result["wanted"])
        assert result["state"] < SAME
        assert result["off"] < stored.WEIGHT["rowwise_adagrad"]
        (done,) = result["tries"]
        assert done["total"] == replanned["moved_bytes"] > 0
        # Others change their operators only.
        assert {*done["tables"]} >= {t["name"] for t in replanned["transfer"]["tables"]}
    sent = [r["tries"][0]["sent"] for r in seen["replanned"]]
    received = [r["tries"][0]["received"] for r in seen["replanned"]]
    devices = replanned["transfer"]["devices"]
    assert sent == [d["out_bytes"] for d in devices]
    assert received == [d["in_bytes"] for d in devices]


def test_rounds_bound_what_a_rank_sends_and_receives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "ROUND", 100)
    piece = moves._Piece("t", "weight", _sharded.ELEMENTS, 0, 0, 1, 0, (0, 33), (4, 12))
    wide = moves._Piece("w", "weight", _sharded.ELEMENTS, 2, 0, 1, 0, (0, 2), (0, 200))
    state = moves._Piece("t", "momentum1", _sharded.ROWS, 3, 0, 2, 0, (0, 250), (0, 8))
    batches = list(moves._rounds([piece, wide, state]))
    for name, count in (("t", 33 * 8 + 250), ("w", 400)):
        assert sum(p.elements for b in batches for p in b if p.table == name) == count
    for batch in batches:
        for rank in range(4):
            for ends in ("source", "target"):
                pieces = [p for p in batch if getattr(p, ends) == rank]
                # A row that is larger goes alone.
                assert sum(p.elements for p in pieces) <= 100 or len(pieces) == 1
    rows = [p.rows for b in batches for p in b if p.table == "w"]
    assert rows == [(0, 1), (1, 2)]


def place(kind: str, *columns: tuple[int, int], kernel: str = "fused") -> Placement:
    return Placement(
        kind, kernel, tuple(Shard(0, a, 9, b - a, i) for i, (a, b) in enumerate(columns))
    )


@pytest.mark.parametrize(
    ("states", "kernel", "to", "want"),
    [
        ({}, "fused", [(0, 4), (4, 8)], []),
        ({"momentum1": _sharded.ELEMENTS}, "fused", [(0, 4), (4, 8)], []),
        ({"momentum1": _sharded.ROWS}, "fused", [(0, 4), (4, 8)], ["row-wise Adagrad has one"]),
        ({"momentum1": 0}, "fused", [(0, 8)], ["the optimizer keeps momentum1"]),
        (
            {"momentum1": _sharded.ELEMENTS, "exp_avg_sq": _sharded.ELEMENTS, "iter": 0},
            "fused",
            [(0, 8)],
            ["the optimizer keeps exp_avg_sq", "the optimizer keeps iter"],
        ),
        ({}, "key_value", [(0, 8)], ["tables of the compute kernel key_value"]),
    ],
)
def test_reasons(states: dict[str, int], kernel: str, to: Any, want: list[str]) -> None:
    before = place("table_wise", (0, 8), kernel=kernel)
    after = Placement("column_wise", "fused", tuple(Shard(0, a, 9, b - a, 3) for a, b in to))
    got = list(moves._reasons(before, after, states))
    assert len(got) == len(want)
    assert all(g.startswith(w) for g, w in zip(got, want, strict=True))


def test_another_model_is_refused() -> None:
    with pytest.raises(PlanError, match="not a DistributedModelParallel"):
        reshard(ranks.Model(), None, FIRST)
