"""Plans that run: four processes train one model under plans of all kinds, and whole.

The losses of each step must be those of the same model trained whole by one process,
and so must the weights in the end; and each rank must hold the rectangles and the
bytes that the plan says.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torchrec_ranks as ranks
from conftest import neuroshard

from neuroshard_torchrec import PlanError, load_plan
from neuroshard_torchrec._torchrec import ShardingEnv

Json = dict[str, Any]
Rectangle = tuple[int, int, int, int, int]  # row, column, rows, columns, rank

MEAN = ranks.PoolingType.MEAN

LOSS = 2e-6
"""Losses may differ by this share: sums are taken in another order, in float32."""

WEIGHT = {"sgd": 1e-6, "adagrad": 5e-4}
"""So much may weights differ after 20 steps. Adagrad divides by the root of a sum of
squares, which is nearly nothing at first, and so makes small differences larger."""

CUT = {"sparse.plain.t7", "sparse.plain.t27"}

PLANNER: Json = {
    "profile": "a100-80",
    "batch_per_rank": 16384,  # what is planned for; trained on are fewer
    "pooling_factors": {f: 1.0 for c in ranks.configs() for f in c.feature_names}
    | {"f7": 4000.0, "f17": 1000.0, "f27": 4000.0, "f16": 1000.0, "w0": 1.0, "w1": 1.0},
    "constraints": {
        "t7": {"devices": [0, 1]},
        "t17": {"device": 1},
        "t27": {"devices": [2, 3]},
        "t16": {"device": 3},
    },
}
"""Four tables have nearly all lookups. Good plans cut those of CUT on both their ranks, and,
as the other two lie on one of these each, into slices of two widths if they may."""


def table(kind: str, rectangles: list[Rectangle]) -> Json:
    """A table in the form of ``neuroshard convert --to torchrec``."""
    if kind == "data_parallel":
        return {"sharding_type": kind, "compute_kernel": "dense", "ranks": [0, 1, 2, 3]}
    return {
        "sharding_type": kind,
        "compute_kernel": "fused",
        "ranks": [r[4] for r in rectangles],
        "shards": [
            {
                "shard_offsets": [row, column],
                "shard_sizes": [rows, columns],
                "placement": f"rank:{rank}/cpu",
            }
            for row, column, rows, columns, rank in rectangles
        ],
    }


def slices(widths: list[int], on: list[int], rows: int) -> list[Rectangle]:
    return [
        (0, sum(widths[:i]), rows, width, rank)
        for i, (width, rank) in enumerate(zip(widths, on, strict=True))
    ]


def blocks(rows: int, column: int, columns: int, on: list[int]) -> list[Rectangle]:
    size = math.ceil(rows / len(on))
    starts = [min(i * size, rows) for i in range(len(on) + 1)]
    return [(starts[i], column, starts[i + 1] - starts[i], columns, r) for i, r in enumerate(on)]


def of_kind(kind: str, i: int, config: Any) -> Json:
    """The table, cut as the kind has it, elsewhere for each i."""
    rows, dim = config.num_embeddings, config.embedding_dim
    turn = [(i + k) % 4 for k in range(4)]
    host = [2 * (i % 2), 2 * (i % 2) + 1]
    if kind == "data_parallel":
        return table(kind, [])
    if kind == "table_wise":
        return table(kind, [(0, 0, rows, dim, turn[0])])
    if kind == "row_wise":
        return table(kind, blocks(rows, 0, dim, [0, 1, 2, 3]))
    if kind == "table_row_wise":
        return table(kind, blocks(rows, 0, dim, host))
    if kind == "grid_shard":
        other = host if dim == 8 else [(r + 2) % 4 for r in host]  # 4 and 4 on one host
        return table(kind, blocks(rows, 0, 4, host) + blocks(rows, 4, dim - 4, other))
    if kind == "table_column_wise":
        return table(kind, slices([4, dim - 4], host, rows))
    if kind == "column_wise":
        widths = [4, 4, dim - 8] if i % 3 else [4, dim - 4]
        widths = [w for w in widths if w]
        return table(kind, slices(widths, turn[: len(widths)], rows))
    raise AssertionError(kind)


def plan_of(kinds: list[str]) -> Json:
    """A plan whose tables take turns in the kinds. Tables of
    means are not split by rows, unless all are: TorchRec cannot do that right."""
    rows = {"row_wise", "table_row_wise", "grid_shard"}
    plan: Json = {"sparse.plain": {}, "sparse.weighted": {}}
    for path, configs in zip(plan, (ranks.configs(), ranks.weighted_configs()), strict=True):
        for i, config in enumerate(configs):
            kind = kinds[i % len(kinds)]
            if config.pooling is MEAN and kind in rows and not rows.issuperset(kinds):
                kind = "table_wise"
            plan[path][config.name] = of_kind(kind, i, config)
    return {
        "format": "neuroshard-torchrec-plan",
        "version": 1,
        "world_size": ranks.RANKS,
        "local_size": ranks.PER_HOST,
        "accelerator": "cpu",
        "plan": plan,
    }


ALL = [
    "row_wise",
    "data_parallel",
    "table_wise",
    "table_row_wise",
    "column_wise",
    "grid_shard",
    "table_column_wise",
]

REPLICAS_TOO = ["table_wise", "column_wise", "data_parallel"]

HAND_WRITTEN = {
    "rows only": ["table_row_wise", "row_wise"],
    "unequal slices": ["column_wise"],
    "all kinds": ALL,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("training")


def planned(name: str, **more: Any) -> Json:
    return {"name": name, "plan": "neuroshard", "planner": PLANNER | more}


@pytest.fixture(scope="module")
def trained(folder: Path, binary: str) -> list[Json]:
    """What each rank saw of each case, by name."""
    cases: list[Json] = []
    for name, kinds in HAND_WRITTEN.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(plan_of(kinds)))
        cases.append({"name": name, "plan": str(path)})
    cases.append(cases[-1] | {"name": "all kinds, adagrad", "optimizer": "adagrad"})
    cases.append(cases[-2] | {"name": "no optimizer for replicas", "dense_layer_only": True})
    cases += [
        planned("neuroshard", keep=str(folder / "keep")),
        planned("neuroshard, rowwise adagrad", keep=str(folder / "state"))
        | {"optimizer": "rowwise_adagrad"},
        planned("replicas too", arguments=["--types", ",".join(REPLICAS_TOO)]),
        planned("no binary", binary=str(folder / "none")),
        planned("nothing fits", arguments=["--memory", "1MiB"]),
        planned("another model on rank 2") | {"other_model_on": 2},
    ]
    return ranks.trained(ranks.run, cases)


def held_as_planned(case: list[Json]) -> None:
    """Each rank holds the rectangles of the plan, no more, and their bytes."""
    plan = case[0]["plan"]
    sizes = {
        f"{path}.{c.name}": c.num_embeddings * c.embedding_dim
        for path, configs in (
            ("sparse.plain", ranks.configs()),
            ("sparse.weighted", ranks.weighted_configs()),
        )
        for c in configs
    }
    assert plan.keys() == sizes.keys()
    for rank, result in enumerate(case):
        assert result["plan"] == plan  # all have one plan
        elements = 0
        for name, t in plan.items():
            if t["shards"] is None:
                assert result["held"][name] == "whole"
                elements += sizes[name]
                continue
            own = [s[:4] for s in t["shards"] if s[4] == rank]
            assert result["held"].get(name, []) == own, (name, rank)
            elements += sum(rows * columns for _, _, rows, columns in own)
        assert result["weights_bytes"] == 4 * elements, rank


TRAINED = [*HAND_WRITTEN, "all kinds, adagrad", "neuroshard", "replicas too"]


@pytest.mark.parametrize("name", TRAINED)
def test_the_same_as_whole(trained: list[Json], name: str) -> None:
    case = [r[name] for r in trained]
    reference = case[0]["reference"]
    assert len(reference) == ranks.STEPS
    assert reference[-1] != pytest.approx(reference[0], rel=0.01)  # it does learn
    for result in case:
        assert result["losses"] == pytest.approx(reference, rel=LOSS)
    optimizer = "adagrad" if "adagrad" in name else "sgd"
    assert max(case[0]["off"].values()) < WEIGHT[optimizer], case[0]["off"]
    assert not case[0]["untrained"]
    held_as_planned(case)


def replicated(plan: Json) -> list[str]:
    return [name for name, t in plan.items() if t["kind"] == "data_parallel"]


@pytest.mark.parametrize("name", ["all kinds", "replicas too", "neuroshard"])
def test_the_first_rank_warns_of_replicated_tables(trained: list[Json], name: str) -> None:
    first, *others = (r[name]["warned"] for r in trained)
    tables = replicated(trained[0][name]["plan"])
    assert bool(tables) == (name != "neuroshard")
    assert len(first) == bool(tables)
    for text in first:
        assert f'"{tables[0].removeprefix("sparse.plain.")}"' in text
    assert not any(others)


def test_replicated_tables_without_an_optimizer_are_not_trained(trained: list[Json]) -> None:
    case = trained[0]["no optimizer for replicas"]
    paths = [name.rpartition(".") for name in replicated(case["plan"])]
    want = [f"{path}.embedding_bags.{table}.weight" for path, _, table in paths]
    assert want and sorted(case["untrained"]) == sorted(want)


def widths(plan: Json) -> dict[str, list[int]]:
    return {
        name: [s[3] for s in t["shards"]] for name, t in plan.items() if t["kind"] == "column_wise"
    }


def test_plans_have_what_they_are_to_prove(trained: list[Json]) -> None:
    ours, by_hand = (widths(trained[0][n]["plan"]) for n in ("neuroshard", "unequal slices"))
    assert ours.keys() >= CUT, "the planner left large tables whole"
    assert all(len(set(w)) == 1 for w in ours.values()), "the planner made unequal slices"
    assert len(by_hand) == 32 and sum(len(set(w)) > 1 for w in by_hand.values()) > 20
    assert {t["kind"] for t in trained[0]["all kinds"]["plan"].values()} == set(ALL)


def test_files_and_planner_agree(trained: list[Json], folder: Path, binary: str) -> None:
    """A plan is the same of a plan's file, of its export, and of the planner."""
    to = ("--to", "torchrec", "--set", "accelerator=cpu", "-o", "exported.json")
    neuroshard(binary, "convert", "keep/plan.json", *to, cwd=folder)
    env = ShardingEnv.from_local(ranks.RANKS, 0)
    where: Json = {"local_size": ranks.PER_HOST, "device_type": "cpu"}
    files = (folder / "keep" / "plan.json", folder / "exported.json")
    native, exported = (load_plan(f, ranks.Model(), env, **where) for f in files)
    assert native == exported
    assert ranks.planned(native) == trained[0]["neuroshard"]["plan"]


@pytest.mark.parametrize(
    ("name", "file"), [("neuroshard", "keep"), ("neuroshard, rowwise adagrad", "state")]
)
def test_bytes_are_those_of_the_plan_file(
    trained: list[Json], folder: Path, name: str, file: str
) -> None:
    plan = json.loads((folder / file / "plan.json").read_text())
    assert len(plan["devices"]) == ranks.RANKS
    for device, rank in zip(plan["devices"], trained, strict=True):
        assert rank[name]["weights_bytes"] == device["memory"]["weights_bytes"]
        if "rowwise" in name:  # as the sharders' fused_params say
            assert 0 < rank[name]["optimizer_bytes"] == device["memory"]["optimizer_bytes"]


def test_errors_of_rank_0_are_raised_on_every_rank(trained: list[Json]) -> None:
    for rank in trained:
        assert rank["no binary"]["error"] == "BinaryError"
        assert "there is no program" in rank["no binary"]["message"]
        assert "NEUROSHARD_BINARY" in rank["no binary"]["message"]
        assert rank["nothing fits"]["error"] == "BinaryError"
        assert "missing" in rank["nothing fits"]["message"]
        assert "hint: " in rank["nothing fits"]["message"]


def test_an_error_of_one_rank_stops_all(trained: list[Json]) -> None:
    case = [r["another model on rank 2"] for r in trained]
    assert [c["error"] for c in case] == [
        "RankError",
        "RankError",
        "PlanError",
        "RankError",
    ]
    assert all("rank 2: " in c["message"] for i, c in enumerate(case) if i != 2)
    assert 'modules={"sparse.plain": "0.sparse.plain"}' in case[2]["message"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [("grid_shard", "grid_shard"), ("row_wise", "takes means and is split by rows")],
)
def test_means_that_torchrec_gets_wrong_are_refused(kind: str, message: str) -> None:
    plan = plan_of(["table_wise"])
    for i, config in enumerate(ranks.configs()):
        if config.pooling is MEAN:
            plan["plan"]["sparse.plain"][config.name] = of_kind(kind, i, config)
    env = ShardingEnv.from_local(4, 0)
    with pytest.raises(PlanError) as e:
        load_plan(plan, ranks.Model(), env, local_size=2, device_type="cpu")
    assert all(message in problem.message and problem.hint for problem in e.value.problems)
