"""Which tables share an operator: what TorchRec does under plans that load_plan loaded.

plan/export/testdata/operators.json has the plans, and the tables of each operator on each
rank. A test of the Go package reads the same file, so the rules by which plans are priced
are those of TorchRec.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torchrec_ranks as ranks
from conftest import ROOT, neuroshard
from torch import nn
from torch.distributed.optim import _apply_optimizer_in_backward
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, PoolingType
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import BoundsCheckMode, CacheAlgorithm, CacheParams, ShardingEnv
from torchrec.modules.embedding_configs import DataType
from torchrec.optim import RowWiseAdagrad

from neuroshard_torchrec import load_plan
from neuroshard_torchrec._modules import Table
from neuroshard_torchrec._torchrec import OPERATORS, Placement, add_fields, sharding_plan
from neuroshard_torchrec.constraints import settings, translated

Json = dict[str, Any]

FILE = ROOT / "plan" / "export" / "testdata" / "operators.json"
CASES: list[Json] = json.loads(FILE.read_text())["cases"]
NAMES = [case["name"] for case in CASES]


PRECISIONS = {"fp32": DataType.FP32, "fp16": DataType.FP16, "bf16": DataType.BF16}
POOLINGS = {"sum": PoolingType.SUM, "mean": PoolingType.MEAN}
OPTIMIZERS = {
    "sgd": torch.optim.SGD,
    "adagrad": torch.optim.Adagrad,
    "rowwise_adagrad": RowWiseAdagrad,
    "adam": torch.optim.Adam,
}
SETTINGS: dict[str, Callable[[str], Any]] = {
    "bounds_check_mode": BoundsCheckMode.__getitem__,
    "cache_algorithm": CacheAlgorithm.__getitem__,
    "enforce_hbm": "True".__eq__,
    "sharding_type": lambda name: {"column_wise": name},
    "stochastic_rounding": "True".__eq__,
}
KERNELS = {"hbm": "fused", "host": "fused_uvm", "host_cached": "fused_uvm_caching"}


def model_of(tables: list[Json]) -> nn.Module:
    """Returns a model whose collections have the tables, each with its own optimizer and
    prefetch_pipeline."""
    model = nn.Module()
    modules: dict[str, list[Json]] = {}
    for t in tables:
        modules.setdefault(t["module"], []).append(t)
    for path, own in modules.items():
        collection = EmbeddingBagCollection(
            device=ranks.CPU,
            is_weighted=own[0].get("weighted", False),
            tables=[
                EmbeddingBagConfig(
                    name=t["name"],
                    num_embeddings=t["rows"],
                    embedding_dim=t["dim"],
                    feature_names=[f"f_{t['name']}"],
                    pooling=POOLINGS[t.get("pooling", "sum")],
                    data_type=PRECISIONS[t.get("precision", "fp32")],
                )
                for t in own
            ],
        )
        for t in own:
            weight = collection.embedding_bags[t["name"]].weight
            _apply_optimizer_in_backward(
                OPTIMIZERS[t.get("optimizer", "sgd")], [weight], {"lr": ranks.RATE}
            )
            if t.get("prefetch", False):
                weight._optimizer_kwargs[0]["prefetch_pipeline"] = True
        model.add_module(path, collection)
    return model


def exported(tables: list[Json]) -> Json:
    """Returns the tables as ``neuroshard convert --to torchrec`` places them."""
    plan: Json = {}
    for t in tables:
        kind = {"grid": "grid_shard"}.get(t["sharding_type"], t["sharding_type"])
        entry: Json = {"sharding_type": kind, "compute_kernel": KERNELS[t.get("tier", "hbm")]}
        if kind == "data_parallel":
            entry |= {"compute_kernel": "dense", "ranks": [*range(ranks.RANKS)]}
        else:
            entry["ranks"] = [s["device"] for s in t["shards"]]
            entry["shards"] = [
                {
                    "shard_offsets": [s["rows"][0], s["columns"][0]],
                    "shard_sizes": [s[k][1] - s[k][0] for k in ("rows", "columns")],
                    "placement": f"rank:{s['device']}/cpu",
                }
                for s in t["shards"]
            ]
        if t.get("tier") == "host_cached":
            entry["cache_params"] = {"load_factor": 0.2}
        if number := t.get("operator", 0):
            entry["operator"] = number
        plan.setdefault(t["module"], {})[t["name"]] = entry
    return {
        "format": "neuroshard-torchrec-plan",
        "version": 1,
        "world_size": ranks.RANKS,
        "local_size": ranks.PER_HOST,
        "accelerator": "cpu",
        "plan": plan,
    }


def fields_of(table: Json) -> Json:
    """Returns the fields of a ParameterSharding that a table's kernel_settings name."""
    stated: Json = {}
    for setting in filter(None, table.get("kernel_settings", "").split("; ")):
        name, _, value = setting.partition("=")
        stated[name] = SETTINGS[name](value)
    algorithm = stated.pop("cache_algorithm", None)
    if algorithm is not None:
        stated["cache_params"] = CacheParams(algorithm=algorithm)
    return stated


def case_of(case: Json) -> list[list[str]]:
    """Returns the operators of this rank. Where ``marks`` is false, the plan's cache_params, which
    keep operators apart, are taken away. ``plan`` is the path of a plan of the tables, which then
    do not say where they lie."""
    model = model_of(case["tables"])
    env = ShardingEnv.from_process_group(dist.group.WORLD)
    plan = load_plan(case.get("plan") or exported(case["tables"]), model, env, device_type="cpu")
    fields = {(t["module"], t["name"]): fields_of(t) for t in case["tables"]}
    add_fields(plan, fields)
    if not case.get("marks", True):
        for t in case["tables"]:
            plan.plan[t["module"]][t["name"]].cache_params = None
    sharders = [EmbeddingBagCollectionSharder()]
    sharded = DistributedModelParallel(model, device=ranks.CPU, plan=plan, sharders=sharders)
    return ranks.operators_of(sharded)


MIXED: list[Json] = [
    {"name": f"narrow{i}", "module": "sparse", "rows": 5000, "dim": 8} for i in range(24)
] + [{"name": f"wide{i}", "module": "sparse", "rows": 5000, "dim": 128} for i in range(8)]
"""Narrow and wide tables; the narrow ones have most lookups. Each is pinned to a device that
holds narrow and wide tables, so that it pays to keep them in operators of their own."""


def plan_mixed(folder: Path, binary: str) -> Json:
    """Plans the mixed tables by the program, and returns the export."""
    tables = [
        t
        | {"pooling_factor": 20 if t["dim"] == 8 else 3, "access": {"zipf": 1.05}}
        | {"constraints": {"devices": [i % ranks.RANKS], "no_split": True}}
        for i, t in enumerate(MIXED)
    ]
    head = {"format": "neuroshard-tables", "version": 1, "batch": 65536}
    (folder / "mixed.json").write_text(json.dumps(head | {"tables": tables}))
    cluster = [*("--gpus", str(ranks.RANKS), "--set", f"devices_per_host={ranks.PER_HOST}")]
    cluster += ["--gpu", "a100-80", "--engine", "torchrec"]
    cluster += ["--types", "table_wise,column_wise"]
    neuroshard(binary, "plan", "mixed.json", *cluster, "-o", "plan.json", cwd=folder)
    to = ["--to", "torchrec", "--set", "accelerator=cpu", "-o", "planned.json"]
    neuroshard(binary, "convert", "plan.json", *to, cwd=folder)
    planned: Json = json.loads((folder / "planned.json").read_text())["plan"]["sparse"]
    return planned


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operators")


@pytest.fixture(scope="module")
def planned(folder: Path, binary: str) -> Json:
    """The tables of a plan of the program, as it is exported."""
    return plan_mixed(folder, binary)


@pytest.fixture(scope="module")
def sharded(folder: Path, planned: Json) -> dict[str, list[list[list[str]]]]:
    """The operators of each case, rank by rank."""
    named = dict(zip(NAMES, CASES, strict=True))
    cases = [
        *CASES,
        named["tiers and numbers"] | {"name": "without marks", "marks": False},
        {"name": "planned", "tables": MIXED, "plan": str(folder / "planned.json")},
    ]
    seen = ranks.trained(case_of, cases)
    return {case["name"]: [rank[case["name"]] for rank in seen] for case in cases}


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_operators_of_torchrec(sharded: dict[str, Any], case: Json) -> None:
    assert sharded[case["name"]] == case["operators"]


def test_a_plan_of_the_program_divides_operators(sharded: dict[str, Any], planned: Json) -> None:
    numbers = {name: t.get("operator", 0) for name, t in planned.items()}
    apart = {numbers[t["name"]] for t in MIXED if t["dim"] == 8}
    assert apart.isdisjoint(numbers[t["name"]] for t in MIXED if t["dim"] == 128)
    for rank, operators in enumerate(sharded["planned"]):
        groups: dict[Any, list[str]] = {}
        for name, t in planned.items():
            key = (t["sharding_type"], numbers[name])
            groups.setdefault(key, []).extend([name] * t["ranks"].count(rank))
        assert operators == sorted(sorted(names) for names in groups.values() if names)


def test_torchrec_alone_fuses_tiers(sharded: dict[str, Any]) -> None:
    """Where this fails, TorchRec has learned something, and load_plan need not mark tiers."""
    (case,) = [c for c in CASES if c["name"] == "tiers and numbers"]
    assert sharded["without marks"][0] == [sorted(t["name"] for t in case["tables"])]


def test_marks_are_parts_of_a_byte() -> None:
    kernels = ("fused", "fused_uvm", "fused_uvm_caching")
    marks = set()
    for kernel in kernels:
        for operator in range(OPERATORS):
            placement = Placement("row_wise", kernel, (), None, operator)
            plan = sharding_plan({"": {"t": placement}}, "cuda", ranks.PER_HOST)
            params = plan.plan[""]["t"].cache_params
            marks.add(params.reserved_memory if params else 0)
    assert len(marks) == len(kernels) * OPERATORS
    assert all(int(mark) == 0 for mark in marks)


def test_the_text_of_settings_is_that_of_constraints() -> None:
    """The tables of the cases state kernel_settings as constraints make them."""
    for t in (t for case in CASES for t in case["tables"]):
        fields = fields_of(t)
        if names := fields.pop("sharding_type", None):
            fields["sharding_types"] = list(names.values())
        stated = ParameterConstraints(**fields)
        table = Table("t", 100, 8, ("f",), "fp32", "sgd")
        found = translated(stated, "t", table, False, "cpu", None)
        assert settings(sorted(found.fused), found.fused, {}) == t.get("kernel_settings", "")
