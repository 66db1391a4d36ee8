"""What becomes of each argument and field of TorchRec.

Each argument of TorchRec's planner, of its sharders and of DMPCollection must be listed, and so
must each field of ParameterConstraints, ParameterSharding, CacheParams and the configs of tables.
So a new release of TorchRec with more of them fails here.
"""

from __future__ import annotations

import dataclasses
import json
from inspect import isabstract, signature
from pathlib import Path
from typing import Any

import pytest
import torch
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    SplitTableBatchedEmbeddingBagsCodegen,
)
from test_torchrec_tables import collection, table
from torch import nn
from torchrec import EmbeddingBagConfig, EmbeddingConfig
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.fbgemm_qcomm_codec import (
    CommType,
    QCommsConfig,
    get_qcomm_codecs_registry,
)
from torchrec.distributed.fp_embeddingbag import FeatureProcessedEmbeddingBagCollectionSharder
from torchrec.distributed.mc_embeddingbag import ManagedCollisionEmbeddingBagCollectionSharder
from torchrec.distributed.mc_modules import ManagedCollisionCollectionSharder
from torchrec.distributed.model_parallel import DMPCollection
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints
from torchrec.distributed.train_pipeline import train_pipelines
from torchrec.distributed.types import CacheParams, KeyValueParams, ParameterSharding
from torchrec.modules.embedding_configs import BaseEmbeddingConfig, DataType
from torchrec.modules.feature_processor_ import PositionWeightedModuleCollection
from torchrec.modules.fp_embedding_modules import FeatureProcessedEmbeddingBagCollection
from torchrec.modules.mc_embedding_modules import ManagedCollisionEmbeddingBagCollection
from torchrec.modules.mc_modules import (
    DistanceLFU_EvictionPolicy,
    ManagedCollisionCollection,
    MCHManagedCollisionModule,
)

from neuroshard_torchrec import (
    BinaryError,
    InputError,
    NeuroShardPlanner,
    pipelines,
    requests,
    tables_from_model,
)
from neuroshard_torchrec import _modules as modules
from neuroshard_torchrec.tables import read_model


def test_every_argument_and_field_of_torchrec_is_known() -> None:
    arguments = set(signature(EmbeddingShardingPlanner.__init__).parameters) - {"self"}
    arguments |= set(signature(DMPCollection.__init__).parameters) - {"self"}
    sharders = [kind.sharder for kind in modules.KINDS.values()]
    for sharder in (*sharders, ManagedCollisionCollectionSharder):
        own = set(signature(sharder.__init__).parameters) - {"self"}
        arguments |= own
        kept = {name.lstrip("_") for name in vars(sharder())} - {"e_sharder"}  # ec_ or ebc_sharder
        assert kept <= own | arguments, f"{sharder.__name__} keeps what no argument states"
    fields = {
        f.name
        for kind in (ParameterConstraints, ParameterSharding, CacheParams, *CONFIGS)
        for f in dataclasses.fields(kind)
    }
    assert not (arguments | fields) - HONOURED - ACCEPTED - REFUSED
    assert {f.name for f in dataclasses.fields(KeyValueParams)} <= set(requests.REFUSED) | UNREAD


def test_every_pipeline_of_torchrec_has_a_kind() -> None:
    made = (c for c in vars(train_pipelines).values() if isinstance(c, type))
    made = [c for c in made if issubclass(c, train_pipelines.TrainPipeline)]
    kinds = {c.__name__: pipelines.spec(c) for c in made if not isabstract(c)}
    apart = {
        "TrainPipelineBase": "base",
        "TrainPipelinePT2": "base",
        "TrainPipelineSemiSync": "semi-sync",
        "PrefetchTrainPipelineSparseDist": "prefetch",
    }
    assert kinds == dict.fromkeys(kinds, "sparse-dist") | apart
    with pytest.raises(InputError):
        pipelines.spec(train_pipelines.TrainPipeline)


def test_a_pipelines_options_are_read_and_planned_for(binary: str, tmp_path: Path) -> None:
    kind = train_pipelines.TrainPipelineSparseDist
    stated = {
        name: True
        for name in ("clear_data_dist_inputs", "enqueue_batch_after_forward")
        if name in signature(kind.__init__).parameters
    }
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1)
    made = kind(nn.Linear(1, 1), optimizer, torch.device("cpu"), **stated)
    want = "+".join(["sparse-dist", *sorted(stated, key=list(pipelines._OPTIONS).index)])
    plain, clears = "sparse-dist", "sparse-dist+enqueue_batch_after_forward"
    for pipeline, named in ((made, want), (kind, plain), (clears, clears)):
        NeuroShardPlanner(
            profile="a100-80",
            batch_per_rank=64,
            world_size=2,
            pipeline=pipeline,
            binary=binary,
            keep=tmp_path,
        ).plan(model())
        plan = json.loads((tmp_path / "plan.json").read_text())
        assert plan["cluster"]["pipeline"] == named
    with pytest.raises(BinaryError, match='"sparse-dst" is unknown'):
        NeuroShardPlanner(
            profile="a100-80", batch_per_rank=64, world_size=2, pipeline="sparse-dst", binary=binary
        ).plan(model())


CONFIGS = (BaseEmbeddingConfig, EmbeddingConfig, EmbeddingBagConfig)

HONOURED = {
    *("algorithm", "batch_size", "batch_sizes", "bounds_check_mode", "cache_params"),
    *("callbacks", "compute_kernel", "compute_kernels", "constraints", "data_type", "debug"),
    *("device_group", "ebc_sharder", "ec_sharder", "embedding_dim", "enable_embedding_update"),
    *("enforce_hbm", "enumerator", "feature_names", "fused_params", "is_weighted"),
    *("load_factor", "mc_sharder", "min_partition", "multipass_prefetch_config", "name"),
    *("node_group_size", "num_embeddings", "num_poolings", "output_dtype", "plan_loader"),
    *("pooling", "pooling_factors", "precision", "prefetch_pipeline", "qcomm_codecs_registry"),
    *("ranks", "reserved_memory", "restore_dedup_feature_boundary", "sharding_group_size"),
    *("sharding_spec", "sharding_type", "sharding_types", "stats", "stochastic_rounding"),
    *("storage_reservation", "timeout_seconds", "topology", "use_index_dedup"),
    *("use_inter_host_allreduce", "world_size"),
}
"""What the plan follows, or what must agree with the model."""

ACCEPTED = {
    *("custom_all_reduce", "data_parallel_wrapper", "device", "global_pg"),
    *("init_data_parallel", "init_fn", "init_parameters", "input_dim", "module", "need_pos"),
    *("num_embeddings_post_pruning", "plan", "rs_awaitable_hook_module"),
    *("sharded_module_order_overwrite", "sharders", "sharding_strategy", "submodule_configs"),
    *("total_num_buckets", "use_sharded_relay", "virtual_table_eviction_policy"),
    *("weight_init_max", "weight_init_min"),
}
"""What changes no plan."""

REFUSED = {
    *("enumerator", "key_value_params", "partitioner", "performance_model"),
    *("proposer", "stash_weights", "stats", "use_virtual_table"),
}
"""What is refused, unless it is the default, with what to write instead."""

UNREAD = {
    # TorchRec states them itself.
    *("embedding_specs", "feature_table_map", "table_names", "pooling_mode", "device"),
    *("embedding_shard_info",),
    # They change numbers, not what a step takes.
    *("stochastic_rounding", "gradient_clipping", "max_gradient", "max_norm", "learning_rate"),
    *("eps", "momentum", "weight_decay", "weight_decay_mode", "eta", "beta1", "beta2"),
    *("global_weight_decay", "extra_optimizer_config"),
    # They belong to optimizers that are refused by name.
    *("ensemble_mode", "emainplace_mode", "ar_alpha", "ema_beta", "min_shrinkage"),
    # Memory of the host that is there already.
    "preallocated_host_buffers",
    # They log, or check.
    *("record_cache_metrics", "gather_uvm_cache_stats", "stats_reporter_config"),
    *("tbe_input_multiplexer_config", "bounds_check_mode"),
    # Of caches: the rows that they choose and fetch, not how many.
    *("cache_algorithm", "multipass_prefetch_config", "uvm_host_mapped"),
    # Indices count as numbers of eight bytes.
    *("embedding_table_index_type", "embedding_table_offset_type"),
}
"""The fused parameters that change no plan."""

READ = {
    *("optimizer", "output_dtype", "cache_load_factor", "cache_precision", "enforce_hbm"),
    *("prefetch_pipeline", "use_one_tbe_per_table"),
}
"""The fused parameters that are honoured."""


def test_fused_params_of_fbgemm() -> None:
    """Each argument of FBGEMM's kernels, which fused_params may state, is honoured, refused or
    known to change no plan."""
    kernels = set(signature(SplitTableBatchedEmbeddingBagsCodegen.__init__).parameters) - {"self"}
    assert not kernels - READ - UNREAD - set(requests.REFUSED)
    for name in requests.REFUSED:
        sharder = EmbeddingBagCollectionSharder(fused_params={name: 1})
        with pytest.raises(InputError, match=f"fused_params of the sharder: {name} is not what"):
            tables_from_model(model(), sharders=[sharder])
    unread = dict.fromkeys(UNREAD, 1)
    plain, stated = (
        tables_from_model(model(), sharders=[EmbeddingBagCollectionSharder(fused_params=f)])
        for f in ({}, unread)
    )
    assert plain == stated


def test_fused_params_that_change_what_is_planned() -> None:
    def read(**fused: Any) -> list[Any]:
        sharder = EmbeddingBagCollectionSharder(fused_params=fused)
        return list(tables_from_model(model(), sharders=[sharder])["tables"])

    assert [t["constraints"]["tiers"] for t in read(enforce_hbm=True)] == [["hbm"]] * 2
    apart = [t["kernel_settings"] for t in read(use_one_tbe_per_table=True)]
    assert apart == ["use_one_tbe_per_table=a", "use_one_tbe_per_table=b"]
    assert read(cache_precision=DataType.FP16) == read()
    with pytest.raises(InputError, match='table "a": it is in fp32, and its sharder caches int8'):
        read(cache_precision=DataType.INT8)


class OnlyRows(EmbeddingBagCollectionSharder):  # type: ignore[misc] # it is untyped
    """A sharder of the collection inside of another module."""

    def sharding_types(self, compute_device_type: str) -> list[str]:
        return ["row_wise"]

    def compute_kernels(self, sharding_type: str, compute_device_type: str) -> list[str]:
        return ["fused"]


def test_sharders_inside_of_sharders() -> None:
    found = nn.Module()
    found.processed = FeatureProcessedEmbeddingBagCollection(
        model(weighted=True).embeddings, PositionWeightedModuleCollection({"f_a": 9, "f_b": 9})
    )
    codecs = get_qcomm_codecs_registry(
        QCommsConfig(forward_precision=CommType.FP16, backward_precision=CommType.FP16)
    )
    inner = OnlyRows(qcomm_codecs_registry=codecs)
    for sharder in (
        FeatureProcessedEmbeddingBagCollectionSharder(ebc_sharder=inner),
        FeatureProcessedEmbeddingBagCollectionSharder(inner),
    ):
        read = read_model(found, sharders=[sharder], device_type="cuda")
        assert read.codecs == "fp16"
        for t in read.tables["tables"]:
            assert t["constraints"]["sharding_types"] == ["row_wise"]
    maps = {
        n: MCHManagedCollisionModule(
            zch_size=1000,
            device=torch.device("meta"),
            eviction_interval=1,
            eviction_policy=DistanceLFU_EvictionPolicy(),
        )
        for n in ("a", "b")
    }
    inside = model().embeddings
    managed = nn.Module()
    managed.mapped = ManagedCollisionEmbeddingBagCollection(
        inside, ManagedCollisionCollection(maps, inside.embedding_bag_configs())
    )

    class OnlyWhole(OnlyRows):
        def sharding_types(self, compute_device_type: str) -> list[str]:
            return ["table_wise"]

    of = ManagedCollisionEmbeddingBagCollectionSharder
    rows = tables_from_model(managed, sharders=[of(ebc_sharder=OnlyRows())])["tables"]
    assert [t["constraints"]["sharding_types"] for t in rows] == [["row_wise"]] * 2
    # TorchRec's sharder of the maps allows rows only.
    with pytest.raises(InputError, match=r"TorchRec runs row_wise|the list is empty"):
        tables_from_model(managed, sharders=[of(ebc_sharder=OnlyWhole())])


def model(weighted: bool = False) -> nn.Module:
    tables = (table(n, [f"f_{n}"], embedding_dim=16) for n in ("a", "b"))
    return nn.ModuleDict({"embeddings": collection(*tables, weighted=weighted)})
