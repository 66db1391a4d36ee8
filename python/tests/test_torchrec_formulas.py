"""A plan without a profile costs what TorchRec's own estimators say of it, whatever
ParameterConstraints state, and at most what TorchRec's own plan of the model costs: models drawn
from seeds, through the whole planner."""

from __future__ import annotations

import json
import os
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from test_torchrec_tables import collection, table
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

from neuroshard_compare.torchrec_model import Cluster, Engine, NoPlanError
from neuroshard_torchrec import NeuroShardPlanner
from neuroshard_torchrec.baseline import bags as bags_of
from neuroshard_torchrec.baseline import pooling_factors

META = torch.device("meta")
TABLES = 9
BATCH = 384
SHARDERS = [EmbeddingBagCollectionSharder()]
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
    binary: str,
    keep: Path,
    model: nn.Module,
    topology: Topology,
    constraints: dict[str, ParameterConstraints],
    factors: dict[str, list[float]] | None = None,
    bags: dict[str, list[float]] | None = None,
    sharders: Sequence[Any] = SHARDERS,
    **options: Any,
) -> dict[str, Any]:
    """Plans, and holds the cost and the bytes of HBM of the plan against TorchRec's estimators;
    returns the plan's file."""
    planner = NeuroShardPlanner(
        topology, BATCH, constraints=constraints, binary=binary, keep=keep, **options
    )
    cluster = Cluster(topology.world_size, topology.local_world_size, 1 << 30, BATCH)
    engine = Engine(model, sharders, cluster, constraints, factors or {}, bags)
    engine.topology = lambda: topology  # type: ignore[method-assign]
    cost, hbm = engine.estimate(planner.plan(model, sharders))
    plan: dict[str, Any] = json.loads((keep / "plan.json").read_text())
    assert plan["predicted"]["cost_ms"] == pytest.approx(max(cost), rel=1e-12)
    if topology.compute_device == "cuda":
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
    configs = [*model["bags"].embedding_bag_configs(), *model["sequences"].embedding_configs()]  # type: ignore[index]
    ones = {c.name: [1.0] * len(c.feature_names) for c in configs if c.name not in constraints}
    costs_agree(binary, tmp_path, model, topology, constraints, ones, sharders=sharders)


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
    model = bag_model([table("t", ["f0", "f1"], num_embeddings=100_000)])
    fields: dict[str, Any] = {
        "num_poolings": {"num_poolings": [2.0, 0.5]},
        "batch_sizes": {"batch_sizes": [96, 384]},
        "sample": {},
    }
    constraints = {"t": ParameterConstraints(sharding_types=["row_wise"], **fields[stated])}
    reads: dict[str, Any] = {"sample": sample}
    if stated == "num_poolings":
        reads = {"pooling_factors": {"f0": 6.0, "f1": 4.0}}
    topology = Topology(2, "cuda", local_world_size=2, hbm_cap=1 << 30)
    bags = {"t": [2.0, 0.5] if stated == "num_poolings" else [0.25, 1.0]}
    factors = {"t": [3.0, 8.0]}
    costs_agree(binary, tmp_path, model, topology, constraints, factors, bags, **reads)
    tables = json.loads((tmp_path / "tables.json").read_text())
    assert (pooling_factors(tables), bags_of(tables)) == (factors, bags)


def test_plans_for_cpus_cost_what_torchrec_says(binary: str, tmp_path: Path) -> None:
    """CPUs read tables by the bandwidth of ddr, and the backward has multipliers of its own."""
    types = ["table_wise", "row_wise", "column_wise", "data_parallel"]
    topology = Topology(
        2,
        "cpu",
        ddr_mem_bw=1.5e8,
        bwd_compute_multiplier=2.75,
        weighted_feature_bwd_compute_multiplier=1.25,
        uneven_sharding_perf_multiplier=3.0,
    )
    tables = [table(f"t{i}", embedding_dim=16 << i) for i in range(4)]
    model = bag_model(tables, weighted=True)
    plan = costs_agree(binary, tmp_path, model, topology, of_types(types))
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
    model = bag_model([table(f"t{i}", num_embeddings=20_000) for i in range(4)])
    plan = costs_agree(binary, tmp_path, model, topology, of_types(types))
    assert not any("no effect" in w for w in plan["provenance"].get("warnings", []))


def bag_model(tables: list[EmbeddingBagConfig], weighted: bool = False) -> nn.Module:
    return nn.ModuleDict({"bags": collection(*tables, weighted=weighted)})


def of_types(types: list[str]) -> dict[str, ParameterConstraints]:
    """Constraints by which table ti has the i-th type."""
    return {
        f"t{i}": ParameterConstraints(sharding_types=[kind], pooling_factors=[7.5])
        for i, kind in enumerate(types)
    }


DRAWS = 8
"""The models that both planners plan. NEUROSHARD_DRAWS=120 pytest -s draws 120 of them."""


def small(
    seed: int,
) -> tuple[nn.Module, dict[str, ParameterConstraints], Cluster]:
    """A model of 1 to 12 tables, what its features look up, and the ranks to plan it for."""
    draw = random.Random(seed)
    configs, constraints = [], {}
    for i in range(draw.randint(1, 12)):
        features = [f"f{i}_{k}" for k in range(draw.choice((1, 1, 1, 2)))]
        configs.append(
            EmbeddingBagConfig(
                name=f"t{i}",
                num_embeddings=int(10 ** draw.uniform(1.5, 6.5)),
                embedding_dim=draw.choice((8, 16, 32, 64, 128, 256)),
                feature_names=features,
            )
        )
        # Of a table without constraints, TorchRec's planner counts one feature only.
        if draw.random() < 0.8 or len(features) > 1:
            factors = [round(10 ** draw.uniform(0, 2), 1) for _ in features]
            constraints[f"t{i}"] = ParameterConstraints(pooling_factors=factors)
    model = bag_model(configs)
    devices, per_host = draw.choice(((2, 2), (4, 4), (8, 8), (4, 2), (8, 4), (16, 8)))
    memory, batch = draw.choice((8, 16, 32)) << 30, draw.choice((64, 512, 4096))
    return model, constraints, Cluster(devices, per_host, memory, batch)


def test_no_plan_costs_more_than_torchrecs(binary: str) -> None:
    """Neither planner gets an optimizer, so both may replicate tables."""
    shares: dict[int, float] = {}
    for seed in range(int(os.environ.get("NEUROSHARD_DRAWS", DRAWS))):
        model, constraints, cluster = small(seed)
        engine = Engine(model, None, cluster, constraints, {})
        # Memory and bandwidths are those of the topology that TorchRec's planner gets.
        arguments: dict[str, Any] = {
            "topology": Topology(
                cluster.devices,
                "cuda",
                local_world_size=cluster.devices_per_host,
                hbm_cap=cluster.memory_bytes,
            ),
            "batch_size": cluster.batch_per_rank,
            "constraints": constraints,
        }
        try:
            theirs = max(engine.estimate(engine.plan(None))[0])
        except NoPlanError:
            continue
        ours = NeuroShardPlanner(**arguments, binary=binary).plan(model, engine.sharders)
        shares[seed] = max(engine.estimate(ours)[0]) / theirs
    assert shares
    print(
        f"{len(shares)} models: {statistics.median(shares.values()):.3f} of the cost of TorchRec's "
        f"plan in the median, {max(shares.values()):.6f} at most"
    )
    assert {s: x for s, x in shares.items() if x > 1 + 1e-9} == {}
