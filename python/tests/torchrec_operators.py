"""Processes that shard models under given plans, and say which tables share an operator.

Run as ``python torchrec_operators.py FOLDER``: ``FOLDER/cases.json`` has cases as
plan/export/testdata/operators.json has them, and each rank leaves the operators of each case in
``FOLDER/rank-N.json``. It is no test itself: test_torchrec_operators.py starts it once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torchrec_ranks as ranks
from torch import nn
from torch.distributed.optim import _apply_optimizer_in_backward
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, PoolingType
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.types import BoundsCheckMode, CacheAlgorithm, CacheParams, ShardingEnv
from torchrec.modules.embedding_configs import DataType
from torchrec.optim import RowWiseAdagrad

from neuroshard_torchrec import load_plan
from neuroshard_torchrec._torchrec import add_fields

Json = dict[str, Any]

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
    """Returns the tables as ``neuroshard export --to torchrec`` places them."""
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
    """Returns the operators of this rank. ``marks`` says what keeps them apart: the plan's
    cache_params as load_plan makes them, nothing, or keys as fused parameters can have them.
    ``plan`` is the path of a plan of the tables, which then do not say where they lie."""
    model = model_of(case["tables"])
    env = ShardingEnv.from_process_group(dist.group.WORLD)
    plan = load_plan(case.get("plan") or exported(case["tables"]), model, env, device_type="cpu")
    fields = {(t["module"], t["name"]): fields_of(t) for t in case["tables"]}
    add_fields(plan, fields)
    if (marks := case.get("marks", "plan")) != "plan":
        for t in case["tables"]:
            plan.plan[t["module"]][t["name"]].cache_params = None
            if marks == "keys":
                weight = model.get_submodule(t["module"]).embedding_bags[t["name"]].weight
                weight._optimizer_kwargs[0]["_batch_key"] = t.get("operator", 0)
    sharders = [EmbeddingBagCollectionSharder()]
    sharded = DistributedModelParallel(model, device=ranks.CPU, plan=plan, sharders=sharders)
    return ranks.operators_of(sharded)


def run(rank: int, folder: Path, cases: list[Json]) -> None:
    ranks.join(rank, ranks.RANKS, folder / "store")
    results = {}
    for case in cases:
        results[case["name"]] = case_of(case)
        dist.barrier()
    (folder / f"rank-{rank}.json").write_text(json.dumps(results))
    dist.destroy_process_group()


def main(folder: Path) -> int:
    cases = json.loads((folder / "cases.json").read_text())
    return ranks.fork(ranks.RANKS, lambda rank: run(rank, folder, cases))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
