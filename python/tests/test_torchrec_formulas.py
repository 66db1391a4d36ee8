"""A plan without a profile costs what TorchRec's own estimators say of it, whatever
ParameterConstraints state: models drawn from seeds, through the whole planner."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.fbgemm_qcomm_codec import (
    CommType,
    QCommsConfig,
    get_qcomm_codecs_registry,
)
from torchrec.distributed.planner import ParameterConstraints, Topology
from torchrec.distributed.types import CacheParams
from torchrec.modules.embedding_configs import DataType, EmbeddingBagConfig, EmbeddingConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor
from torchrec_releases import NVLINK_DOMAINS

from neuroshard_compare.torchrec_model import Cluster, Engine
from neuroshard_torchrec import NeuroShardPlanner
from neuroshard_torchrec.baseline import bags as bags_of
from neuroshard_torchrec.baseline import pooling_factors

META = torch.device("meta")
TABLES = 9
KERNELS = (None, None, ["fused"], ["fused_uvm_caching"], ["fused_uvm"])


def drawn(draw: random.Random) -> tuple[nn.Module, dict[str, ParameterConstraints]]:
    """A model of a pooled and an unpooled module, and constraints of most of its tables."""
    pooled, unpooled, constraints = [], [], {}
    for i in range(TABLES):
        name = f"t{i}"
        features = [f"{name}_{k}" for k in range(draw.choice((1, 1, 2)))]
        fields: dict[str, Any] = {
            "name": name,
            "num_embeddings": int(10 ** draw.uniform(2, 6)),
            "embedding_dim": 32 if i % 3 == 2 else draw.choice((16, 64, 128)),
            "feature_names": features,
            "data_type": draw.choice((DataType.FP32, DataType.FP16, DataType.BF16)),
        }
        stated: dict[str, Any] = {
            "pooling_factors": [round(draw.uniform(0, 30), 1) for _ in features],
            "compute_kernels": draw.choice(KERNELS),
        }
        if draw.random() < 0.5:
            stated["num_poolings"] = [draw.choice((1.0, 2.0, 0.4)) for _ in features]
        if draw.random() < 0.5:
            stated["batch_sizes"] = [draw.randint(1, 384) for _ in features]
        if draw.random() < 0.4:
            stated["sharding_types"] = [draw.choice(("table_wise", "row_wise", "column_wise"))]
            if stated["sharding_types"] == ["row_wise"]:
                stated["compute_kernels"] = None
        if stated["compute_kernels"] == ["fused_uvm_caching"]:
            load_factor = draw.choice((0.05, 0.3))
            stated["cache_params"] = CacheParams(
                load_factor=load_factor, prefetch_pipeline=draw.choice((None, True))
            )
        if i % 3 == 2:
            unpooled.append(EmbeddingConfig(**fields))
        else:
            pooled.append(EmbeddingBagConfig(**fields))
        if draw.random() < 0.8:
            constraints[name] = ParameterConstraints(**stated)
    model = nn.ModuleDict(
        {
            "bags": EmbeddingBagCollection(pooled, is_weighted=draw.random() < 0.3, device=META),
            "sequences": EmbeddingCollection(unpooled, device=META),
        }
    )
    return model, constraints


def costs_agree(
    planner: NeuroShardPlanner, model: nn.Module, sharders: Any, engine: Engine, keep: Path
) -> Any:
    """Plans, and holds the cost and the bytes of HBM of the plan against TorchRec's estimators;
    returns the plan's file."""
    cost, hbm = engine.estimate(planner.plan(model, sharders))
    plan = json.loads((keep / "plan.json").read_text())
    assert plan["predicted"]["cost_ms"] == pytest.approx(max(cost), rel=1e-12)
    if engine.topology().compute_device == "cuda":
        lines = [d["memory"] for d in plan["devices"]]
        others = ("host_bytes", "reserve_bytes")
        assert [sum(n for k, n in m.items() if k not in others) for m in lines] == hbm
    return plan


@pytest.mark.parametrize("seed", range(6))
def test_plans_cost_what_torchrec_says(binary: str, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    model, constraints = drawn(draw)
    registry = None
    if draw.random() < 0.4:
        precision = draw.choice((CommType.FP16, CommType.BF16))
        registry = get_qcomm_codecs_registry(QCommsConfig(precision, precision))
    elif draw.random() < 0.5:  # TorchRec counts memory in it; its costs do not depend on it
        for stated in constraints.values():
            stated.output_dtype = DataType.FP16
    sharders = [
        EmbeddingBagCollectionSharder(qcomm_codecs_registry=registry),
        EmbeddingCollectionSharder(qcomm_codecs_registry=registry),
    ]
    devices, per_host = draw.choice(((4, 2), (8, 8), (2, 2)))
    topology = Topology(devices, "cuda", local_world_size=per_host, hbm_cap=1 << 30)
    planner = NeuroShardPlanner(
        topology=topology, batch_size=384, constraints=constraints, binary=binary, keep=tmp_path
    )
    cluster = Cluster(devices, per_host, 1 << 30, 384)
    engine = Engine(model, sharders, cluster, constraints, {})
    engine.constraints |= {
        f"t{i}": ParameterConstraints(pooling_factors=[1.0] * features)
        for i, features in enumerate(_features(model))
        if f"t{i}" not in constraints
    }
    costs_agree(planner, model, sharders, engine, tmp_path)


@pytest.mark.parametrize("stated", ["num_poolings", "batch_sizes", "sample"])
def test_torchrecs_planner_gets_the_lookups_of_a_bag(
    binary: str, tmp_path: Path, stated: str
) -> None:
    """A feature with several bags of a sample, or with a batch of its own, has the same lookups in
    the constraints that TorchRec's planner gets beside ours."""
    lengths = torch.cat([torch.full((96,), 3), torch.full((384,), 8)])
    sample = KeyedJaggedTensor(
        keys=["f0", "f1"],
        values=torch.zeros(int(lengths.sum()), dtype=torch.long),
        lengths=lengths,
        stride_per_key_per_rank=[[96], [384]],
    )
    config = EmbeddingBagConfig(
        name="t", num_embeddings=100_000, embedding_dim=64, feature_names=["f0", "f1"]
    )
    model = nn.ModuleDict({"bags": EmbeddingBagCollection([config], device=META)})
    fields: dict[str, Any] = {
        "num_poolings": {"num_poolings": [2.0, 0.5]},
        "batch_sizes": {"batch_sizes": [96, 384]},
        "sample": {},
    }
    constraints = {"t": ParameterConstraints(sharding_types=["row_wise"], **fields[stated])}
    if stated == "num_poolings":
        reads: dict[str, Any] = {"pooling_factors": {"f0": 6.0, "f1": 4.0}}
    else:
        reads = {"sample": sample}
    topology = Topology(2, "cuda", local_world_size=2, hbm_cap=1 << 30)
    planner = NeuroShardPlanner(
        topology=topology,
        batch_size=384,
        constraints=constraints,
        binary=binary,
        keep=tmp_path,
        **reads,
    )
    sharders = [EmbeddingBagCollectionSharder()]
    bags = {"t": [2.0, 0.5] if stated == "num_poolings" else [0.25, 1.0]}
    factors = {"t": [3.0, 8.0]}
    engine = Engine(model, sharders, Cluster(2, 2, 1 << 30, 384), constraints, factors, bags)
    costs_agree(planner, model, sharders, engine, tmp_path)
    tables = json.loads((tmp_path / "tables.json").read_text())
    assert (pooling_factors(tables), bags_of(tables)) == (factors, bags)


def test_plans_for_cpus_cost_what_torchrec_says(binary: str, tmp_path: Path) -> None:
    """CPUs read tables by the bandwidth of ddr, and the backward has multipliers of its own."""
    configs = [
        EmbeddingBagConfig(
            name=f"t{i}",
            num_embeddings=1000 * (i + 1),
            embedding_dim=16 << i,
            feature_names=[f"f{i}"],
        )
        for i in range(4)
    ]
    types = ["table_wise", "row_wise", "column_wise", "data_parallel"]
    constraints = {
        c.name: ParameterConstraints(sharding_types=[kind], pooling_factors=[7.5])
        for c, kind in zip(configs, types, strict=True)
    }
    model = nn.ModuleDict({"bags": EmbeddingBagCollection(configs, is_weighted=True, device=META)})
    sharders = [EmbeddingBagCollectionSharder()]
    topology = Topology(
        2,
        "cpu",
        ddr_mem_bw=1.5e8,
        bwd_compute_multiplier=2.75,
        weighted_feature_bwd_compute_multiplier=1.25,
        uneven_sharding_perf_multiplier=3.0,
    )
    planner = NeuroShardPlanner(
        topology=topology, batch_size=384, constraints=constraints, binary=binary, keep=tmp_path
    )
    engine = Engine(model, sharders, Cluster(2, 2, 1 << 30, 384), constraints, {})
    engine.topology = lambda: topology  # type: ignore[method-assign]
    plan = costs_agree(planner, model, sharders, engine, tmp_path)
    assert {t["kind"] for t in plan["tables"]} >= {"table_wise", "row_wise", "data_parallel"}


@pytest.mark.parametrize("hosts", [1, 2])
def test_the_network_counts_inside_a_host_and_a_pod(
    binary: str, tmp_path: Path, hosts: int
) -> None:
    """TorchRec's formulas read inter_host_bw where all ranks are on one host, or in one pod."""
    if hosts > 1 and not NVLINK_DOMAINS:
        pytest.skip("SKIPPED: TorchRec before 1.6 has no pods")
    pods: dict[str, Any] = {"pod_size": hosts} if hosts > 1 else {}
    topology = Topology(
        4, "cuda", local_world_size=4 // hosts, hbm_cap=1 << 30, inter_host_bw=3e6, **pods
    )
    types = ["data_parallel", "table_wise", "row_wise", "table_row_wise"]
    configs = [
        EmbeddingBagConfig(
            name=f"t{i}", num_embeddings=20_000, embedding_dim=64, feature_names=[f"f{i}"]
        )
        for i in range(len(types))
    ]
    constraints = {
        c.name: ParameterConstraints(sharding_types=[kind], pooling_factors=[7.5])
        for c, kind in zip(configs, types, strict=True)
    }
    model = nn.ModuleDict({"bags": EmbeddingBagCollection(configs, device=META)})
    sharders = [EmbeddingBagCollectionSharder()]
    planner = NeuroShardPlanner(
        topology=topology, batch_size=384, constraints=constraints, binary=binary, keep=tmp_path
    )
    engine = Engine(model, sharders, Cluster(4, 4 // hosts, 1 << 30, 384), constraints, {})
    engine.topology = lambda: topology  # type: ignore[method-assign]
    plan = costs_agree(planner, model, sharders, engine, tmp_path)
    assert not any("no effect" in w for w in plan["provenance"].get("warnings", []))


def _features(model: nn.Module) -> list[int]:
    """The number of features of each table, in the order of their names."""
    of = {c.name: len(c.feature_names) for c in model["bags"].embedding_bag_configs()}  # type: ignore[index]
    of |= {c.name: len(c.feature_names) for c in model["sequences"].embedding_configs()}  # type: ignore[index]
    return [of[f"t{i}"] for i in range(TABLES)]
