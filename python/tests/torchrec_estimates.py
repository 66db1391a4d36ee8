"""What TorchRec's estimator says of many drawn shards and plans, as JSON.

    PYTHONPATH=python/src python python/tests/torchrec_estimates.py cost/torchrec/testdata

The Go package ``torchrec`` has the same formulas in its own words, and its tests hold
them against these files. Everything is drawn from one seed, so that the same TorchRec
writes the same files. The newest release writes estimator.json. Another one, such as 1.6, writes
estimator-1.6.json, which has only what differs from that file (``changed``).
"""

from __future__ import annotations

import json
import random
import sys
from importlib import metadata
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.fbgemm_qcomm_codec import (
    CommType,
    QCommsConfig,
    get_qcomm_codecs_registry,
)
from torchrec.distributed.planner import Topology, utils
from torchrec.distributed.planner.constants import UVM_CACHING_RATIO
from torchrec.distributed.planner.enumerators import get_partition_by_type
from torchrec.distributed.planner.perf_models import NoopPerfModel
from torchrec.distributed.planner.shard_estimators import EmbeddingPerfEstimator
from torchrec.distributed.planner.types import ParameterConstraints, ShardingOption
from torchrec.distributed.planner.types import Shard as TorchRecShard
from torchrec.distributed.planner.utils import sharder_name
from torchrec.distributed.types import CacheParams
from torchrec.modules.embedding_configs import DataType, EmbeddingBagConfig, EmbeddingConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection

from neuroshard_torchrec import _torchrec, versions

NEWEST = ".".join(map(str, versions.NEWEST))
"""The release whose file has all cases."""

_SEED = 20260
_SHARDS, _PLANS = 400, 6
# Shards and plans with everything that TorchRec's constraints state.
_STATED_SHARDS, _STATED_PLANS = 400, 6
# Shards in topologies with multipliers of their own.
_MULTIPLIED_SHARDS = 60
# Shards in topologies with pods, or with a host that is not full.
_GROUPED_SHARDS = 160
# Devices, and those of a host.
_CLUSTERS = ((1, 1), (2, 2), (4, 1), (8, 8), (16, 8), (12, 4), (32, 8), (128, 8))
# The same, and the hosts of a pod.
_PODS = (
    (8, 4, 2),
    (16, 4, 2),
    (64, 4, 8),
    (24, 8, 2),
    (72, 4, 18),
    (12, 8, 1),
    (7, 4, 1),
    (20, 8, 1),
)
_DIMS = (4, 8, 16, 32, 36, 64, 96, 128, 256)
_SHARDING_TYPES = (
    "table_wise",
    "column_wise",
    "row_wise",
    "table_row_wise",
    "grid",
    "data_parallel",
)
_KERNELS = ("fused", "fused", "fused_uvm", "fused_uvm_caching")
_PRECISIONS = {"fp32": DataType.FP32, "fp16": DataType.FP16, "bf16": DataType.BF16}
_SEQUENCE_TYPES = ("table_wise", "column_wise", "row_wise", "data_parallel")
_COMMS = {"fp32": None, "fp16": CommType.FP16, "bf16": CommType.BF16}


def estimates() -> dict[str, Any]:
    """The file's content: drawn shards, drawn plans, and TorchRec's numbers for both."""
    draw = random.Random(_SEED)
    return {
        "source": f"EmbeddingPerfEstimator of TorchRec {metadata.version('torchrec')},"
        " as python/tests/torchrec_estimates.py called it",
        "shards": [_shard(draw) for _ in range(_SHARDS)]
        + [_shard(draw, bandwidths=True) for draw in [random.Random(_SEED + 1)] for _ in range(60)]
        + [
            _estimated(draw, stated(draw, drawn_shard(draw)), draw.random() < 0.3)
            for draw in [random.Random(_SEED + 2)]
            for _ in range(_STATED_SHARDS)
        ]
        + [
            _estimated(draw, stated(draw, drawn_shard(draw)), False, _multipliers(draw))
            for draw in [random.Random(_SEED + 4)]
            for _ in range(_MULTIPLIED_SHARDS)
        ]
        + [
            _estimated(draw, grouped(draw, drawn_shard(draw)), draw.random() < 0.3)
            for draw in [random.Random(_SEED + 5)]
            for _ in range(_GROUPED_SHARDS)
        ],
        "plans": [_plan(draw) for _ in range(_PLANS)]
        + [
            _plan(draw, all_fields=True)
            for draw in [random.Random(_SEED + 3)]
            for _ in range(_STATED_PLANS)
        ],
    }


def _shard(draw: random.Random, bandwidths: bool = False) -> dict[str, Any]:
    """A shard of a table of its own, with what it takes in ms."""
    return _estimated(draw, drawn_shard(draw), bandwidths)


def _multipliers(draw: random.Random) -> dict[str, float]:
    """Multipliers of a topology that are not TorchRec's defaults; its formulas do not read the
    one of uneven sharding."""
    return {
        "bwd_compute_multiplier": draw.choice((1.0, 2.5, 3.7)),
        "weighted_feature_bwd_compute_multiplier": draw.choice((1.0, 1.3, 0.8)),
        "uneven_sharding_perf_multiplier": draw.choice((1.0, 5.0)),
    }


def _estimated(
    draw: random.Random,
    case: dict[str, Any],
    bandwidths: bool,
    multipliers: dict[str, float] | None = None,
) -> dict[str, Any]:
    """The case with what its shard takes in ms, in a topology with its own bandwidths, or with
    TorchRec's, and with ``multipliers``."""
    if multipliers is not None:
        case["topology"] = multipliers
    if bandwidths:
        case["topology"] = case.get("topology", {}) | {
            "intra_host_bw": draw.choice((3e8, 9e8)),
            "hbm_mem_bw": draw.choice((1e9, 3e9)),
            "hbm_to_ddr_mem_bw": draw.choice((1.5e7, 6e7)),
        }
        if case["devices"] > case["devices_per_host"]:
            case["topology"]["inter_host_bw"] = draw.choice((1e7, 5e7))
    rows, columns = case["shard"]
    option = option_of(case | {"shards": [[0, 0, rows, 0, columns]]}, module_of([case]), case)
    _estimate([option], case, {option.name: case})
    perf = option.shards[0].perf
    assert perf is not None and perf.prefetch_compute == 0
    ms = [perf.fwd_compute, perf.fwd_comms, perf.bwd_comms, perf.bwd_compute]
    return case | {"ms": ms, "total_ms": perf.total}


def drawn_shard(draw: random.Random) -> dict[str, Any]:
    """A cluster, a table of its own and the rows and columns of one of its shards."""
    devices, per_host = draw.choice(_CLUSTERS)
    table = _table(draw) | {
        "precision": draw.choice(("fp32", "fp16")),
        "weighted": draw.random() < 0.3,
    }
    case = {
        "devices": devices,
        "devices_per_host": per_host,
        "batch_per_rank": draw.choice((1, 16, 512, 8192)),
        "comm": draw.choice(tuple(_COMMS)),
        **table,
    }
    return _sized(draw, case | _placing(draw))


def _sized(draw: random.Random, case: dict[str, Any]) -> dict[str, Any]:
    """The case with the rows and columns of a shard."""
    devices, per_host = case["devices"], case["devices_per_host"]
    rows, columns = case["rows"], case["dim"]
    if case["kind"] in ("column_wise", "grid"):
        columns = draw.randrange(4, columns + 1, 4)
    if case["kind"] == "row_wise":
        rows = -(-rows // devices)
    if case["kind"] in ("table_row_wise", "grid"):
        rows = -(-rows // per_host)
    return case | {"shard": [rows, columns]}


def stated(draw: random.Random, case: dict[str, Any]) -> dict[str, Any]:
    """The case with what the module and TorchRec's ParameterConstraints may say of its table:
    lookups that are not pooled, the number of poolings, batches of the features' own, number
    formats, and a cache that is prefetched or has TorchRec's default size."""
    case = _with_fields(draw, case)
    if case["pooling"] == "none" and case["kind"] not in _SEQUENCE_TYPES:
        case |= {"kind": draw.choice(_SEQUENCE_TYPES[:3])}
    return _sized(draw, case) if "shard" in case else case


def grouped(draw: random.Random, case: dict[str, Any]) -> dict[str, Any]:
    """The case in another cluster, of pods or with a host that is not full, where its table may
    lie on the devices of a pod, and have features with less than one lookup a bag."""
    devices, per_host, hosts = draw.choice(_PODS)
    case |= {"devices": devices, "devices_per_host": per_host}
    if hosts > 1:
        case["topology"] = {"pod_size": hosts}
    if draw.random() < 0.5:
        case["kind"] = draw.choice(("table_row_wise", "grid"))
        if case["kernel"] == "dense":
            case["kernel"] = "fused"
    case["poolings"] = [draw.choice((p, round(draw.random(), 2), 0.0)) for p in case["poolings"]]
    return stated(draw, case) if draw.random() < 0.3 else _sized(draw, case)


def _with_fields(draw: random.Random, case: dict[str, Any]) -> dict[str, Any]:
    """The case with the fields of ``stated``, some of them."""
    features = range(len(case["poolings"]))
    pooling = draw.choice(("sum", "none"))
    if "devices" in case:  # not in plans, whose tables have one batch
        case["batch_per_rank"] = draw.choice((1, 96, 384, 512, 1000, 8192))
    case |= {
        "precision": draw.choice(tuple(_PRECISIONS)),
        "pooling": pooling,
        "weighted": pooling == "sum" and draw.random() < 0.3,
    }
    if draw.random() < 0.4:
        case["bags"] = [draw.choice((1.0, 2.0, 2.5, 1 / 3)) for _ in features]
    if draw.random() < 0.4:
        case["batch_sizes"] = [draw.randint(1, case["batch_per_rank"]) for _ in features]
    if draw.random() < 0.3:
        case["output_dtype"] = draw.choice(tuple(_PRECISIONS))
    if case["kernel"] == "fused_uvm_caching":
        case["prefetch"] = draw.random() < 0.5
        if draw.random() < 0.3:
            case |= {"cache": UVM_CACHING_RATIO, "load_factor": "default"}
    return case


def _plan(draw: random.Random, all_fields: bool = False) -> dict[str, Any]:
    """A plan of some tables of all sharding types, with what each rank takes, and its rating.
    Its tables may have ``all_fields`` that TorchRec's constraints state."""
    devices, per_host = draw.choice([c for c in _CLUSTERS if 1 < c[1] < c[0] <= 32])
    case: dict[str, Any] = {
        "devices": devices,
        "devices_per_host": per_host,
        "batch_per_rank": draw.choice((64, 512)),
        "comm": "fp32",
    }
    tables = []
    for i in range(12):
        table = _table(draw) | _placing(draw) | {"name": f"t{i}"}
        if all_fields:
            table = stated(draw, table | {"batch_per_rank": case["batch_per_rank"]})
        table["rows"] = max(table["rows"], 1000)  # every device gets rows
        table["shards"] = _shards(draw, table, devices, per_host)
        tables.append(table)
    # One module, or one for each table if they are of several classes.
    module = module_of(tables[:1] if all_fields else tables)
    options = [option_of(t, module_of([t]) if all_fields else module, case) for t in tables]
    _estimate(options, case, {t["name"]: t for t in tables})
    cost = [0.0] * devices
    for option in options:
        for shard in option.shards:
            assert shard.rank is not None and shard.perf is not None
            cost[shard.rank] += shard.perf.total
    rating = NoopPerfModel(topology_of(case)).rate(options)
    return case | {"tables": tables, "cost_ms": cost, "rating_ms": rating}


def _table(draw: random.Random) -> dict[str, Any]:
    poolings = [
        round(draw.lognormvariate(1.0, 1.0), draw.choice((0, 2, 6)))
        for _ in range(draw.choice((1, 1, 1, 2, 3)))
    ]
    return {
        "rows": int(10 ** draw.uniform(1, 8)),
        "dim": draw.choice(_DIMS),
        "poolings": poolings,
    }


def _placing(draw: random.Random) -> dict[str, Any]:
    sharding_type = draw.choice(_SHARDING_TYPES)
    kernel = "dense" if sharding_type == "data_parallel" else draw.choice(_KERNELS)
    placing: dict[str, Any] = {"kind": sharding_type, "kernel": kernel}
    if kernel == "fused_uvm_caching":
        placing["cache"] = draw.choice((0.01, 0.2, 0.75))
    return placing


def _shards(
    draw: random.Random, table: dict[str, Any], devices: int, per_host: int
) -> list[list[int]]:
    """Each shard's rank, rows and columns."""
    rows, dim, sharding_type = table["rows"], table["dim"], table["kind"]

    def blocks(first: int, ranks: int, columns: tuple[int, int]) -> list[list[int]]:
        size = -(-rows // ranks)
        return [
            [first + i, min(rows, i * size), min(rows, (i + 1) * size), *columns]
            for i in range(ranks)
        ]

    cut = draw.randrange(4, dim, 4) if dim > 4 else 0
    by_columns = cut and sharding_type in ("column_wise", "grid")
    columns = [(0, cut), (cut, dim)] if by_columns else [(0, dim)]
    if sharding_type == "row_wise":
        return blocks(0, devices, (0, dim))
    if sharding_type == "data_parallel":
        return [[rank, 0, rows, 0, dim] for rank in range(devices)]
    if sharding_type in ("table_row_wise", "grid"):
        hosts = draw.sample(range(devices // per_host), len(columns))
        return [
            s
            for h, c in zip(hosts, columns, strict=True)
            for s in blocks(h * per_host, per_host, c)
        ]
    ranks = draw.sample(range(devices), len(columns))
    return [[rank, 0, rows, *c] for rank, c in zip(ranks, columns, strict=True)]


def module_of(tables: list[dict[str, Any]]) -> nn.Module:
    """A module of the tables, on the meta device, that pools lookups or, if the first table
    says so, does not."""
    meta = torch.device("meta")
    fields = [
        {
            "name": t.get("name", "t"),
            "embedding_dim": t["dim"],
            "num_embeddings": t["rows"],
            "feature_names": [f"{t.get('name', 't')}_{i}" for i in range(len(t["poolings"]))],
            "data_type": _PRECISIONS[t.get("precision", "fp32")],
        }
        for t in tables
    ]
    if tables[0].get("pooling") == "none":
        return EmbeddingCollection(tables=[EmbeddingConfig(**f) for f in fields], device=meta)
    return EmbeddingBagCollection(
        tables=[EmbeddingBagConfig(**f) for f in fields],
        is_weighted=any(t.get("weighted", False) for t in tables),
        device=meta,
    )


def option_of(table: dict[str, Any], module: nn.Module, case: dict[str, Any]) -> ShardingOption:
    """The option that TorchRec's enumerator would make of a table and its shards."""
    sharding_type = "grid_shard" if table["kind"] == "grid" else table["kind"]
    name = table.get("name", "t")
    pooled = isinstance(module, EmbeddingBagCollection)
    cache = None
    if "cache" in table:
        load_factor = table["cache"] if table.get("load_factor") != "default" else None
        cache = CacheParams(load_factor=load_factor, prefetch_pipeline=table.get("prefetch"))
    output = table.get("output_dtype")
    return ShardingOption(
        name=name,
        tensor=module.get_parameter(f"embedding{'_bag' if pooled else ''}s.{name}.weight"),
        module=("", module),
        input_lengths=table["poolings"],
        batch_size=case["batch_per_rank"],
        sharding_type=sharding_type,
        partition_by=get_partition_by_type(sharding_type),
        compute_kernel=table["kernel"],
        cache_params=cache,
        shards=[
            TorchRecShard(size=[r1 - r0, c1 - c0], offset=[r0, c0], rank=rank)
            for rank, r0, r1, c0, c1 in table["shards"]
        ],
        is_pooled=ShardingOption.module_pooled(module, ""),
        output_dtype=_PRECISIONS[output] if output else None,
    )


def constraints_of(tables: dict[str, dict[str, Any]]) -> dict[str, ParameterConstraints]:
    """What TorchRec's constraints say of the tables, by name."""
    return {
        name: ParameterConstraints(
            num_poolings=t.get("bags"),
            batch_sizes=t.get("batch_sizes"),
        )
        for name, t in tables.items()
    }


def topology_of(case: dict[str, Any]) -> Topology:
    """The topology of a case. TorchRec 1.5 knows no pods."""
    known = signature(Topology.__init__).parameters
    return Topology(
        world_size=case["devices"],
        local_world_size=case["devices_per_host"],
        compute_device="cuda",
        **{k: v for k, v in case.get("topology", {}).items() if k in known},
    )


def sharders_of(comm: str = "fp32") -> Any:
    """TorchRec's sharders of the modules, whose exchanges are in the number format, as estimators
    take them."""
    registry = None
    if precision := _COMMS[comm]:
        registry = get_qcomm_codecs_registry(
            QCommsConfig(forward_precision=precision, backward_precision=precision)
        )
    sharders = (
        EmbeddingBagCollectionSharder(qcomm_codecs_registry=registry),
        EmbeddingCollectionSharder(qcomm_codecs_registry=registry),
    )
    of = {sharder_name(s.module_type): s for s in sharders}
    if "sharder_data_map" in signature(EmbeddingPerfEstimator.estimate).parameters:
        return utils.build_sharder_data_map(of)  # since TorchRec 1.7
    return of


def _estimate(
    options: list[ShardingOption], case: dict[str, Any], tables: dict[str, dict[str, Any]]
) -> None:
    """Has TorchRec write what each shard takes into it."""
    estimator = EmbeddingPerfEstimator(topology_of(case), constraints_of(tables))
    estimator.estimate(options, sharders_of(case["comm"]))


def text(content: dict[str, Any]) -> str:
    """The file, with one shard or plan a line."""
    lists = [key for key in content if key != "source"]
    parts = [f'"source": {json.dumps(content["source"])}']
    parts += [f'"{k}": [\n' + ",\n".join(map(json.dumps, content[k])) + "]" for k in lists]
    return "{" + ",\n".join(parts) + "}\n"


# What TorchRec says of a case; all other keys are what it is asked.
_SAID = ("ms", "total_ms", "cost_ms", "rating_ms", "hbm", "ddr")


def changed(content: dict[str, Any], newest: dict[str, Any]) -> dict[str, Any]:
    """The content of the file of a release: what it says otherwise than the newest one, with the
    number of the case in its list. The cases must be the same."""
    found: dict[str, Any] = {"source": content["source"]}
    for key, cases in content.items():
        if key == "source":
            continue
        found[key] = []
        for i, (case, base) in enumerate(zip(cases, newest[key], strict=True)):
            said = {k: case[k] for k in _SAID if k in case}
            assert json.loads(json.dumps(case)) | {k: base[k] for k in said} == base
            if not all(_same(said[k], base[k]) for k in said):
                found[key].append({"case": i} | said)
    return found


def _same(a: Any, b: Any) -> bool:
    """Whether numbers or lists of them are equal but for the rounding of float64."""
    if isinstance(a, list):
        return all(map(_same, a, b))
    return bool(abs(a - b) <= 1e-14 * abs(b))


def file_of(folder: Path, name: str, content: dict[str, Any]) -> tuple[Path, str]:
    """The file of the release in use in a folder, and its text. ``name`` is without the release."""
    newest = folder / f"{name}.json"
    if _torchrec.RELEASE == NEWEST:
        return newest, text(content)
    kept = json.loads(newest.read_text("utf-8"))
    return folder / f"{name}-{_torchrec.RELEASE}.json", text(changed(content, kept))


if __name__ == "__main__":
    path, written = file_of(Path(sys.argv[1]), "estimator", estimates())
    path.write_text(written, "utf-8")
