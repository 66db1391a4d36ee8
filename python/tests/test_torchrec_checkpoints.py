"""Checkpoints under real TorchRec: what one plan writes, other plans and other numbers of
ranks go on from.

The recipe is the code of docs/TORCHREC.md itself. The losses after a resume must be
those of the training that was not interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_torchrec_training as training
import torchrec_checkpoints as checkpoints
import torchrec_ranks as ranks
from conftest import neuroshard

from neuroshard_torchrec import tables_from_model, write_tables
from neuroshard_torchrec._torchrec import OPERATORS

Json = dict[str, Any]

SAME = 1e-6
"""Losses may differ by this share: another plan takes sums in another order, in float32."""

WEIGHT = training.WEIGHT | {"rowwise_adagrad": 1e-5}
"""So much may weights differ, as a share of a table's largest one: Adagrad makes small
differences larger."""

TABLES = [*ranks.configs(), *ranks.weighted_configs()]
REPLICATED = {6, 14, 22}
ONE = ("table_wise", "row_wise", "table_row_wise")
SEVERAL = ("column_wise", "grid_shard")


def slices_of(i: int) -> int:
    """The slices of table i in the first plan."""
    return fitting((1, 2, 4, 3)[i % 4], i)


def fitting(count: int, i: int) -> int:
    """A number of equal slices that table i can be cut in."""
    return count if TABLES[i].embedding_dim % (4 * count) == 0 else 1


def layout(
    on: int, turn: int, slices: Callable[[int], int] = slices_of, replicated: Any = REPLICATED
) -> Json:
    """Returns a plan for a number of ranks, in hosts of two, where all slices of a table
    have one width. Tables take turns in the sharding types and in the ranks."""
    plan: Json = {"sparse.plain": {}, "sparse.weighted": {}}
    for i, config in enumerate(TABLES):
        rows, dim, n = config.num_embeddings, config.embedding_dim, slices(i)
        step = (i // 4 + 2) % 3  # 0: all slices on one rank; 2: in turns on two of four
        if config.pooling is training.MEAN:  # TorchRec does not cut it by rows right
            kinds = ["table_wise"] if n == 1 else ["column_wise"]
        else:
            kinds = [*ONE] if n == 1 else [*SEVERAL]
        kind = kinds[(i // 4 + turn) % len(kinds)]
        host = (i + turn) % (on // 2)
        if i in replicated:
            entry = training.table("data_parallel", [])
            entry["ranks"] = list(range(on))
        elif kind == "row_wise":
            entry = training.table(kind, training.blocks(rows, 0, dim, list(range(on))))
        elif kind == "table_row_wise":
            entry = training.table(kind, training.blocks(rows, 0, dim, [2 * host, 2 * host + 1]))
        elif kind == "grid_shard":
            rectangles = []
            for k in range(n):
                at = 2 * ((host + k * step) % (on // 2))
                rectangles += training.blocks(rows, k * dim // n, dim // n, [at, at + 1])
            entry = training.table(kind, rectangles)
        else:
            at = [(i + turn + k * step) % on for k in range(n)]
            entry = training.table(kind, training.slices([dim // n] * n, at, rows))
        plan["sparse.plain" if i < ranks.TABLES else "sparse.weighted"][config.name] = entry
    return {
        "format": "neuroshard-torchrec-plan",
        "version": 1,
        "world_size": on,
        "local_size": 2,
        "accelerator": "cpu",
        "plan": plan,
    }


def divided(plan: Json) -> Json:
    """Returns the plan with the tables in operators of every number."""
    for tables in plan["plan"].values():
        for i, entry in enumerate(tables.values()):
            entry["operator"] = i % OPERATORS
    return plan


def other_slices(i: int) -> int:
    return fitting((2, 1, 3, 4)[i % 4], i)


def plan_for_torchrec(folder: Path, binary: str) -> None:
    """Plans for four ranks and for two, freely and with --for torchrec. Two tables have nearly all
    lookups. The larger one is cut on both its ranks, and the smaller one lies on one of these: the
    cheapest slices are of two widths."""
    names = [f for c in TABLES for f in c.feature_names]
    tables = tables_from_model(
        ranks.Model(),
        batch=65536,
        pooling_factors=dict.fromkeys(names, 1.0) | {"f27": 4000.0, "f17": 1000.0},
        optimizer="adagrad",
        constraints={"t27": {"devices": [0, 1]}, "t17": {"devices": [1]}},
    )
    write_tables(tables, folder / "tables.json")
    for on in (4, 2):
        args = ["plan", "tables.json", "--gpus", str(on), "--set", "devices_per_host=2"]
        args += ["--gpu", "a100-80", "--types", "table_wise,column_wise", "-o"]
        neuroshard(binary, *args, f"free-{on}.json", cwd=folder)
        neuroshard(binary, *args, f"planned-{on}.json", "--engine", "torchrec", cwd=folder)


OPTIMIZERS = ("sgd", "adagrad", "rowwise_adagrad")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def seen(folder: Path, binary: str) -> dict[str, list[Json]]:
    """What each rank saw of each case, by name."""
    plan_for_torchrec(folder, binary)
    plans = {
        "first": layout(4, 0),
        "divided": divided(layout(4, 0)),
        "moved": layout(4, 1),  # other ranks and sharding types, the same number of slices
        "cut anew": layout(4, 1, other_slices),
        "on two": layout(2, 1),
        "cut anew on two": layout(2, 2, other_slices),
        "unequal": training.plan_of(["column_wise"]),
        "equal": layout(4, 0, replicated=()),
    }
    for name, plan in plans.items():
        (folder / f"{name}.json").write_text(json.dumps(plan))

    def case(name: str, optimizer: str, plan: str, **more: Any) -> Json:
        path = str(folder / f"{plan}.json")
        return {"name": f"{optimizer}, {name}", "optimizer": optimizer, "plan": path} | more

    def store(of: str, optimizer: str) -> str:
        return str(folder / f"{of}, {optimizer}")

    def saved(of: str, optimizer: str, plan: str, **more: Any) -> Json:
        return case(of, optimizer, plan, save=store(of, optimizer), **more)

    def resumed(plan: str, optimizer: str, of: str = "first") -> Json:
        return case(f"{of} to {plan}", optimizer, plan, resume=store(of, optimizer))

    first = [
        *(saved("first", o, "first") for o in OPTIMIZERS),
        saved("unequal", "adagrad", "unequal", fails=True),
        saved("planned", "adagrad", "planned-4"),
        saved("divided", "rowwise_adagrad", "divided"),
    ]
    four = [
        resumed("moved", "rowwise_adagrad"),
        resumed("divided", "rowwise_adagrad"),
        resumed("first", "rowwise_adagrad", "divided"),
        resumed("cut anew", "rowwise_adagrad"),
        resumed("cut anew", "adagrad"),
        resumed("equal", "adagrad", "unequal"),
    ]
    two = [
        resumed("on two", "rowwise_adagrad"),
        resumed("cut anew on two", "sgd"),
        resumed("planned-2", "adagrad", "planned"),
    ]
    out: dict[str, list[Json]] = {}
    for count, wave in ((4, first), (4, four), (2, two)):  # each a job that is started again
        found = ranks.trained(checkpoints.run, wave, ranks.recipe(), count=count)
        out |= {c["name"]: [r[c["name"]] for r in found] for c in wave}
    return out


def near(losses: list[float]) -> Any:
    return pytest.approx(losses, rel=SAME)


def sharding_types(plan: Json) -> set[str]:
    return {t["kind"] for t in plan.values()}


def slices(plan: Json) -> dict[str, int]:
    """Returns the slices of columns of each table that is not replicated."""
    return {k: len({s[1] for s in t["shards"]}) for k, t in plan.items() if t["shards"]}


def replicated(plan: Json) -> set[str]:
    return {k for k, t in plan.items() if not t["shards"]}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_state_dict_and_load_state_dict(seen: dict[str, list[Json]], optimizer: str) -> None:
    for result in seen[f"{optimizer}, first"]:
        assert "own" not in result, result["own"]
        assert result["again"] == near(result["after"])
        assert result["after"][0] != pytest.approx(result["before"][0], rel=0.01)


RESUMED = [
    "rowwise_adagrad, first to moved",
    "rowwise_adagrad, first to on two",
    "adagrad, first to cut anew",
    "sgd, first to cut anew on two",
]


@pytest.mark.parametrize("name", RESUMED)
def test_resumed(seen: dict[str, list[Json]], name: str) -> None:
    optimizer, _, _ = name.partition(",")
    want = seen[f"{optimizer}, first"][0]
    for result in seen[name]:
        assert "error" not in result, result["error"]
        assert result["after"] == near(want["after"])
        assert result["plan"] != want["plan"]
        assert result["off"] == 0


def test_a_division_into_operators_is_not_in_a_checkpoint(seen: dict[str, list[Json]]) -> None:
    """A plan that divides operators loads what the same plan without numbers saved, and the
    other way round."""
    for of, name in (("first", "first to divided"), ("divided", "divided to first")):
        saved, resumed = seen[f"rowwise_adagrad, {of}"], seen[f"rowwise_adagrad, {name}"]
        for before, after in zip(saved, resumed, strict=True):
            assert "error" not in after, after["error"]
            assert after["plan"] == before["plan"]
            assert after["after"] == near(before["after"])
            few, many = sorted((before["operators"], after["operators"]))
            assert few < many
    whole, apart = (seen[f"rowwise_adagrad, {plan}"] for plan in ("first", "divided"))
    for one, other in zip(whole, apart, strict=True):
        assert other["after"] == near(one["after"])
        assert other["again"] == near(other["after"])


def unequal_tables(file: Path) -> list[str]:
    """Returns the tables of a plan file that have slices of several widths."""
    return [
        t["name"]
        for t in json.loads(file.read_text())["tables"]
        if len({s["columns"][1] - s["columns"][0] for s in t["shards"]}) > 1
    ]


def test_plans_for_torchrec_load_their_checkpoints(
    seen: dict[str, list[Json]], folder: Path
) -> None:
    for on in (4, 2):
        assert unequal_tables(folder / f"free-{on}.json"), "free plans have equal slices, too"
        assert not unequal_tables(folder / f"planned-{on}.json")
    saved = seen["adagrad, planned"]
    for result in saved:
        assert "own" not in result, result["own"]
        assert result["again"] == near(result["after"])
    for result in seen["adagrad, planned to planned-2"]:
        assert "error" not in result, result["error"]
        assert result["after"] == near(saved[0]["after"])
        assert any(n > 1 for n in slices(result["plan"]).values())


def test_plans_have_what_they_are_to_prove(seen: dict[str, list[Json]]) -> None:
    first, moved, two, anew = (
        seen[name][0]["plan"] for name in ("rowwise_adagrad, first", *RESUMED[:3])
    )
    every = {*ONE, *SEVERAL, "data_parallel"}
    assert sharding_types(first) == sharding_types(moved) == every
    assert sharding_types(anew) >= every - {"row_wise"}
    assert sharding_types(two) >= every - {"grid_shard"}
    assert replicated(first) == replicated(moved) == replicated(anew) == replicated(two)
    assert slices(first) == slices(moved) == slices(two)
    changed = [k for k, n in slices(anew).items() if n != slices(first)[k]]
    assert len(changed) > 10
    on = {k: [s[4] for s in t["shards"] or []] for k, t in first.items()}
    cut = [k for k, t in first.items() if t["kind"] == "column_wise"]
    assert any(len(on[k]) > len({*on[k]}) == 1 for k in cut), "no table is on one rank"
    assert any(len(on[k]) > len({*on[k]}) == 2 for k in cut), "no table is on two ranks in turns"


def test_row_wise_adagrad_keeps_the_number_of_slices(seen: dict[str, list[Json]]) -> None:
    for result in seen["rowwise_adagrad, first to cut anew"]:
        assert "Size mismatch between saved" in result["error"]


def test_checkpoints_of_unequal_slices_can_be_read(seen: dict[str, list[Json]]) -> None:
    """TorchRec takes every shard of a table for as wide as its first one, so the state_dict of the
    job itself does not load."""
    assert any("own" in result for result in seen["adagrad, unequal"])
    want = seen["adagrad, unequal"][0]["after"]
    for result in seen["adagrad, unequal to equal"]:
        assert "error" not in result, result["error"]
        assert result["after"] == near(want)
