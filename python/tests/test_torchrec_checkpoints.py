"""Checkpoints under real TorchRec: what one plan writes, other plans and other numbers of
ranks go on from.

The recipe is the code of docs/TORCHREC.md itself. The losses after a resume must be
those of the training that was not interrupted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("torchrec", reason="SKIPPED: torchrec is not installed")

import test_torchrec_training as training
import torchrec_checkpoints as checkpoints
import torchrec_ranks as ranks
from torchrec.optim import RowWiseAdagrad
from torchrec_binary import binary, neuroshard

from neuroshard_torchrec import tables_from_model, write_tables
from neuroshard_torchrec._torchrec import OPERATORS

__all__ = ["binary"]

Json = dict[str, Any]

SAME = 1e-6
"""Losses may differ by this share: another plan takes sums in another order, in float32."""

STATE = 2e-6
"""Optimizer states may differ by this share: 1.2e-6 was measured with PyTorch 2.14, Adagrad."""

OTHER = 1e-4
"""Losses that differ by more are those of another training."""

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


def unequal() -> Json:
    return training.plan_of(["column_wise"])


def halves(first: Callable[[int], int]) -> Json:
    """Returns a plan where tables are in two slices; first says how wide the first one is."""
    plan = layout(4, 0, lambda _: 1, replicated=())
    for i, config in enumerate(ranks.configs()):
        rows, dim = config.num_embeddings, config.embedding_dim
        if dim % 8 == 0:
            cut = training.slices([first(dim), dim - first(dim)], [i % 4, (i + 1) % 4], rows)
            plan["plan"]["sparse.plain"][config.name] = training.table("column_wise", cut)
    return plan


def other_slices(i: int) -> int:
    return fitting((2, 1, 3, 4)[i % 4], i)


@dataclass(frozen=True)
class Problem:
    """What is planned: features of many lookups, the ranks that tables may lie on, the global
    batch, and more arguments of ``neuroshard plan``."""

    hot: dict[str, float]
    devices: dict[str, list[int]]
    batch: int = 65536
    arguments: tuple[str, ...] = ()


PROBLEMS = [
    # Half of t27 does not fit on rank 1, and all of it not on rank 0: equal slices are four or
    # more, and rank 0 has several.
    Problem(
        {"f5": 160.0, "f15": 120.0},
        {"t27": [0, 1]},
        batch=64,
        arguments=("--reserve-share", "0", "--device-memories", "0=1200KiB,1=600KiB,2-3=80GiB"),
    ),
    # Two tables have nearly all lookups. The larger one is cut on both its ranks, and the
    # smaller one lies on one of these: the cheapest slices are of two widths.
    Problem({"f7": 4000.0, "f17": 1000.0}, {"t7": [0, 1], "t17": [1]}),
    Problem({"f27": 4000.0, "f17": 1000.0}, {"t27": [0, 1], "t17": [1]}),
]
"""Problems whose good plans all cut a table, into slices of several widths if they may."""


def plan_for_torchrec(folder: Path, binary: str) -> None:
    """Plans each problem for four ranks, the last one for two as well, freely and with
    --for torchrec, and exports what was planned for TorchRec."""
    names = [f for c in TABLES for f in c.feature_names]
    for i, problem in enumerate(PROBLEMS):
        tables = tables_from_model(
            ranks.Model(),
            batch=problem.batch,
            pooling_factors=dict.fromkeys(names, 1.0) | problem.hot,
            optimizer="adagrad",
            constraints={name: {"devices": on} for name, on in problem.devices.items()},
        )
        write_tables(tables, folder / f"tables-{i}.json")
        for on in (4, 2) if i == len(PROBLEMS) - 1 else (4,):
            args = ["plan", f"tables-{i}.json", "--devices", str(on), "--devices-per-host", "2"]
            args += ["--device", "a100-80", "--sharding-types", "table_wise,column_wise"]
            args += [*problem.arguments, "-o"]
            name = f"planned-{i}-{on}.json"
            neuroshard(binary, *args, f"free-{name}", cwd=folder)
            neuroshard(binary, *args, f"native-{name}", "--for", "torchrec", cwd=folder)
            to = ["--to", "torchrec", "--accelerator", "cpu", "-o", name]
            neuroshard(binary, "export", f"native-{name}", *to, cwd=folder)


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
        "no replicas": layout(4, 1, replicated=()),
        "on two": layout(2, 1),
        "cut anew on two": layout(2, 2, other_slices),
        "unequal": unequal(),
        "equal": layout(4, 0, replicated=()),
        "lopsided": halves(lambda _: 4),
        "halves": halves(lambda dim: dim // 2),
    }
    for name, plan in plans.items():
        (folder / f"{name}.json").write_text(json.dumps(plan))

    def case(name: str, optimizer: str, plan: str, **more: Any) -> Json:
        path = str(folder / f"{plan}.json")
        more |= {"whole": True} if f"{optimizer}, {name}" in (*RESUMED, *FIRST) else {}
        return {"name": f"{optimizer}, {name}", "optimizer": optimizer, "plan": path} | more

    def store(of: str, optimizer: str) -> str:
        return str(folder / f"{of}, {optimizer}")

    saved = [case("first", o, "first", save=store("first", o)) for o in OPTIMIZERS]
    saved.append(
        case("unequal", "adagrad", "unequal", save=store("unequal", "adagrad"), fails=True)
    )
    saved += [
        case("planned", o, "planned-0-4", save=store("planned", o))
        for o in ("adagrad", "rowwise_adagrad")
    ]
    saved.append(
        case("divided", "rowwise_adagrad", "divided", save=store("divided", "rowwise_adagrad"))
    )
    lopsided = store("lopsided", "rowwise_adagrad")
    saved.append(case("lopsided", "rowwise_adagrad", "lopsided", save=lopsided, fails=True))
    saved.append(case("order", "sgd", "first", order=True))

    def resumed(plan: str, optimizer: str, of: str = "first", **more: Any) -> Json:
        how = f" by {more['how']}" if "how" in more else ""
        name = f"{of} to {plan}{how}"
        return case(name, optimizer, plan, resume=store(of, optimizer), **more)

    four = [
        resumed("moved", "rowwise_adagrad"),
        resumed("divided", "rowwise_adagrad"),
        resumed("divided", "adagrad"),
        resumed("first", "rowwise_adagrad", "divided"),
        resumed("cut anew", "rowwise_adagrad"),
        resumed("cut anew", "rowwise_adagrad", how="weights"),
        resumed("cut anew", "adagrad"),
        resumed("no replicas", "adagrad"),
        resumed("no replicas", "sgd"),
        resumed("moved", "sgd", how="default planner"),
        resumed("halves", "rowwise_adagrad", "lopsided"),
        resumed("planned-0-4", "rowwise_adagrad", "planned"),
        resumed("planned-1-4", "adagrad", "planned"),
        resumed("planned-2-4", "adagrad", "planned"),
        resumed("equal", "adagrad", "unequal"),
        resumed("unequal", "adagrad", "unequal"),
        resumed("unequal", "adagrad", "unequal", how="in place"),
    ]
    two = [
        resumed("on two", "rowwise_adagrad"),
        resumed("cut anew on two", "adagrad"),
        resumed("cut anew on two", "sgd"),
        resumed("planned-2-2", "adagrad", "planned"),
    ]
    out: dict[str, list[Json]] = {}
    for count, wave in ((4, saved), (4, four), (2, two)):  # each a job that is started again
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
    "adagrad, first to cut anew on two",
    "sgd, first to no replicas",
    "sgd, first to cut anew on two",
]


FIRST = [f"{o}, first" for o in OPTIMIZERS]


@pytest.mark.parametrize("name", RESUMED)
def test_resumed(seen: dict[str, list[Json]], name: str) -> None:
    optimizer, _, _ = name.partition(",")
    want = seen[f"{optimizer}, first"][0]
    for result in seen[name]:
        assert "error" not in result, result["error"]
        assert result["after"] == near(want["after"])
        assert result["plan"] != want["plan"]
        assert result["state"] < STATE
        assert result["off"] < WEIGHT[optimizer]


def test_a_division_into_operators_is_not_in_a_checkpoint(seen: dict[str, list[Json]]) -> None:
    """A plan that divides operators loads what the same plan without numbers saved, and the
    other way round."""
    for optimizer, of, name in (
        ("rowwise_adagrad", "first", "first to divided"),
        ("adagrad", "first", "first to divided"),
        ("rowwise_adagrad", "divided", "divided to first"),
    ):
        saved, resumed = seen[f"{optimizer}, {of}"], seen[f"{optimizer}, {name}"]
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


@pytest.mark.parametrize("optimizer", ["adagrad", "rowwise_adagrad"])
def test_plans_for_torchrec_load_their_checkpoints(
    seen: dict[str, list[Json]], folder: Path, optimizer: str
) -> None:
    assert not [f for f in folder.glob("native-*.json") if unequal_tables(f)]
    free = [*folder.glob("free-*.json")]
    assert free and all(map(unequal_tables, free)), "free plans have equal slices, too"
    saved = seen[f"{optimizer}, planned"]
    for result in saved:
        assert "own" not in result, result["own"]
        assert result["again"] == near(result["after"])
    onto = [name for name in seen if name.startswith(f"{optimizer}, planned to ")]
    assert len(onto) == (3 if optimizer == "adagrad" else 1)
    for name in onto:
        for result in seen[name]:
            assert "error" not in result, result["error"]
            assert result["after"] == near(saved[0]["after"])
            assert any(n > 1 for n in slices(result["plan"]).values())
    on = [[s[4] for s in t["shards"] or []] for t in saved[0]["plan"].values()]
    assert any(len(own) > len({*own}) for own in on), "no rank has several slices of a table"


def test_plans_have_what_they_are_to_prove(seen: dict[str, list[Json]]) -> None:
    first, moved, anew, two, none = (
        seen[f"{name}"][0]["plan"]
        for name in ("sgd, first", *RESUMED[:1], *RESUMED[2:3], RESUMED[1], RESUMED[4])
    )
    every = {*ONE, *SEVERAL, "data_parallel"}
    assert sharding_types(first) == sharding_types(moved) == every
    assert sharding_types(anew) >= every - {"row_wise"}
    assert sharding_types(two) >= every - {"grid_shard"}
    assert replicated(first) == replicated(moved) == replicated(anew) == replicated(two)
    assert replicated(first) and not replicated(none)
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
    # The weights alone can be loaded; the optimizer then starts anew.
    want = seen["rowwise_adagrad, first"][0]["after"]
    for result in seen["rowwise_adagrad, first to cut anew by weights"]:
        assert result["after"][0] == pytest.approx(want[0], rel=SAME)
        assert result["after"][-1] != pytest.approx(want[-1], rel=OTHER)


def test_optimizer_state_of_replicated_tables_stays_theirs(seen: dict[str, list[Json]]) -> None:
    for result in seen["adagrad, first to no replicas"]:
        assert "Missing key in checkpoint state_dict" in result["error"]
        assert "momentum1" in result["error"]


def test_optimizers_without_state_need_the_planner(seen: dict[str, list[Json]]) -> None:
    for result in seen["sgd, first to moved by default planner"]:
        assert "Missing key in checkpoint state_dict: optimizer." in result["error"]


def test_row_wise_adagrad_is_for_tables_alone() -> None:
    with pytest.raises(IndexError):
        RowWiseAdagrad([torch.nn.Parameter(torch.zeros(8))], lr=ranks.RATE)


UNEQUAL = re.compile(r"shape '\[-1, \d+\]' is invalid|the shape in current model is")
"""TorchRec takes every shard of a table for as wide as its first one."""


def test_unequal_slices_do_not_load(seen: dict[str, list[Json]]) -> None:
    own = [r.get("own", "") for r in seen["adagrad, unequal"]]
    assert any(UNEQUAL.search(text) for text in own), "TorchRec loads its own state_dict()"
    again = [r.get("error", "") for r in seen["adagrad, unequal to unequal"]]
    assert any(UNEQUAL.search(text) for text in again), "TorchRec loads this right"


@pytest.mark.parametrize("how", ["unequal to equal", "unequal to unequal by in place"])
def test_checkpoints_of_unequal_slices_can_be_read(seen: dict[str, list[Json]], how: str) -> None:
    want = seen["adagrad, unequal"][0]["after"]
    for result in seen[f"adagrad, {how}"]:
        assert "error" not in result, result["error"]
        assert result["after"] == near(want)


def test_row_wise_state_of_other_slices_loads_in_silence(seen: dict[str, list[Json]]) -> None:
    want = seen["rowwise_adagrad, lopsided"][0]["after"]
    for result in seen["rowwise_adagrad, lopsided to halves"]:
        assert result["after"][0] == pytest.approx(want[0], rel=SAME)
        assert result["after"] != pytest.approx(want, rel=10 * SAME)


def test_the_order_of_values_depends_on_the_plan(seen: dict[str, list[Json]]) -> None:
    for result in seen["sgd, order"]:
        assert sorted(result["sharded"]) == sorted(result["whole"])
        assert result["sharded"] != result["whole"]
        assert not result["same values"]
        assert result["same by name"]
