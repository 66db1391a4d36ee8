"""What a TorchRec user may set is honoured, or refused by name with what to write instead."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from test_torchrec_planner import planner as any_planner
from test_torchrec_planner import script
from test_torchrec_tables import META, collection, table, told
from torch import nn
from torchrec import (
    EmbeddingBagCollection,
    EmbeddingCollection,
    EmbeddingConfig,
    KeyedJaggedTensor,
)
from torchrec.distributed.embedding_tower_sharding import EmbeddingTowerSharder
from torchrec.distributed.embeddingbag import (
    EmbeddingBagCollectionSharder,
    EmbeddingBagSharder,
)
from torchrec.distributed.fbgemm_qcomm_codec import (
    CommType,
    QCommsConfig,
    get_qcomm_codecs_registry,
)
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import (
    BoundsCheckMode,
    CacheAlgorithm,
    CacheParams,
    CommOp,
    DataType,
)
from torchrec.modules.embedding_configs import PoolingType
from torchrec.modules.embedding_tower import EmbeddingTower
from torchrec.optim import RowWiseAdagrad, apply_optimizer_in_backward

from neuroshard_torchrec import (
    BinaryError,
    InputError,
    NeuroShardPlanner,
    tables_from_model,
)

USUAL = [EmbeddingBagCollectionSharder()]
MODEL = collection(table("a"), table("b"))


class Sharder(EmbeddingBagCollectionSharder):
    """A sharder of one's own: what it overrides is given to it."""

    def __init__(
        self,
        types: list[str] | None = None,
        kernels: list[str] | None = None,
        left_out: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._left_out = left_out
        if types is not None:
            self.sharding_types = lambda _: types  # type: ignore[method-assign]
        if kernels is not None:
            self.compute_kernels = lambda *_: kernels  # type: ignore[method-assign]

    def shardable_parameters(self, module: EmbeddingBagCollection) -> dict[str, nn.Parameter]:
        every = super().shardable_parameters(module)
        return {name: p for name, p in every.items() if name not in self._left_out}


def planner(**options: Any) -> NeuroShardPlanner:
    return any_planner(**({"batch_per_rank": 64, "pooling_factors": {"a": 2, "b": 3}} | options))


FORMULAS = ["--model", "torchrec"]


def passed(
    folder: Path, sharders: list[Any], model: nn.Module = MODEL, **options: Any
) -> tuple[str, list[Any]]:
    """Returns the arguments that the program gets after -o, and its tables."""
    after = 'while [ "$1" != -o ]; do shift; done; shift 2'
    path = script(
        folder, f'[ "$1" != version ] || exit; cat > "$0.json"; {after}; echo "<$*>" >&2; exit 2'
    )
    with pytest.raises(BinaryError) as e:
        planner(binary=path, **options).plan(model, sharders)
    (arguments,) = re.findall("<(.*)>", str(e.value))
    return arguments, json.loads(Path(path + ".json").read_text())["tables"]


def refused(sharder: Any, **options: Any) -> str:
    with pytest.raises(InputError) as e:
        planner(binary="/bin/false", **options).plan(MODEL, [sharder])
    for problem in e.value.problems:
        assert problem.hint, problem
    return str(e.value)


def test_sharding_types_of_a_sharder(tmp_path: Path) -> None:
    arguments, tables = passed(tmp_path, [Sharder(types=["row_wise"])])
    assert arguments == "--types row_wise"
    assert [t["constraints"] for t in tables] == [{"sharding_types": ["row_wise"]}] * 2
    # The usual types come first where the sharder allows them.
    every = ["data_parallel", "table_wise", "grid_shard"]
    arguments, tables = passed(tmp_path, [Sharder(types=every)])
    assert arguments == "--types table_wise"
    assert tables[0]["constraints"] == {"sharding_types": ["table_wise"]}
    stated = ["--types", "all"]
    arguments, tables = passed(tmp_path, [Sharder(types=every)], arguments=stated)
    assert arguments == "--types all"
    assert tables[0]["constraints"]["sharding_types"] == ["data_parallel", "table_wise", "grid"]
    # Of a table's own types those remain that the sharder allows.
    own = {"a": {"sharding_types": ["row_wise", "grid"], "min_width": 8}}
    arguments, tables = passed(tmp_path, [Sharder(types=every)], constraints=own)
    assert arguments == "--types table_wise,grid"
    assert tables[0]["constraints"] == {"sharding_types": ["grid"], "min_width": 8}
    assert tables[1]["constraints"] == {"sharding_types": ["table_wise"]}
    text = refused(Sharder(types=["table_wise"]), constraints=own)
    assert 'constraints of table "a": sharding_types "row_wise", "grid" are not those' in text


def test_the_plan_has_the_sharding_types_that_are_asked_for(binary: str) -> None:
    """A whole table is one slice of columns, and blocks on one host are one slice of a grid."""
    for types in (["row_wise"], ["data_parallel"], ["table_wise"]):
        plan = planner(binary=binary).plan(MODEL, [Sharder(types=types)])
        assert [p.sharding_type for p in plan.plan[""].values()] == types * 2
    for asked, want in (
        (["row_wise"], "row_wise"),
        (["column_wise"], "column_wise"),
        (["grid_shard"], "grid_shard"),
        (["column_wise", "table_wise"], "table_wise"),
    ):
        stated = {"a": ParameterConstraints(sharding_types=asked, min_partition=64)}
        placed = planner(binary=binary, constraints=stated).plan(MODEL, USUAL).plan[""]
        assert placed["a"].sharding_type == want
        assert placed["b"].sharding_type in ("table_wise", "column_wise")


def test_compute_kernels_of_a_sharder(tmp_path: Path) -> None:
    for kernels, tiers in (
        (["fused_uvm_caching"], ["host_cached"]),
        (["fused", "fused_uvm", "key_value"], ["hbm", "host"]),
    ):
        hosts = ["--host-memory", "1TiB"]
        arguments, tables = passed(tmp_path, [Sharder(kernels=kernels)], arguments=hosts)
        types = {"sharding_types": ["table_wise", "column_wise"]}
        assert arguments == "--types table_wise,column_wise --host-memory 1TiB"
        assert [t["constraints"] for t in tables] == [types | {"tiers": tiers}] * 2
    # A table's own kernels are among those of the sharder.
    stated = {"a": ParameterConstraints(compute_kernels=["fused_uvm", "fused"])}
    both = Sharder(kernels=["fused_uvm_caching", "fused"])
    _, tables = passed(tmp_path, [both], constraints=stated)
    assert [t["constraints"]["tiers"] for t in tables] == [["hbm"], ["hbm", "host_cached"]]
    text = refused(Sharder(kernels=["fused_uvm_caching"]), constraints=stated)
    assert 'table "a": its memory tiers are not those of the sharder' in text
    text = refused(Sharder(kernels=["key_value"]))
    assert 'compute_kernels of the sharder: "key_value": none is for the sharding types' in text


def test_compute_kernels_and_caches_are_kept(binary: str) -> None:
    """Without the constraints, all tables lie in HBM, which has room for all."""
    stated = {
        "a": ParameterConstraints(compute_kernels=["fused_uvm"], min_partition=64),
        "b": ParameterConstraints(
            compute_kernels=["fused_uvm_caching"],
            cache_params=CacheParams(load_factor=0.3, algorithm=CacheAlgorithm.LFU),
        ),
    }
    arguments = ["--host-memory", "1GiB"]
    free = planner(binary=binary, arguments=arguments).plan(MODEL).plan[""]
    assert {p.compute_kernel for p in free.values()} == {"fused"}
    kept = planner(binary=binary, arguments=arguments, constraints=stated).plan(MODEL).plan[""]
    assert kept["a"].compute_kernel == "fused_uvm"
    assert kept["b"].compute_kernel == "fused_uvm_caching"
    assert kept["b"].cache_params.load_factor == 0.3
    assert kept["b"].cache_params.algorithm == CacheAlgorithm.LFU
    # The plan marks operators in the bytes that a cache leaves free.
    assert kept["b"].cache_params.reserved_memory == pytest.approx(6 / 9)
    sharder = Sharder(fused_params={"cache_load_factor": 0.1}, kernels=["fused_uvm_caching"])
    kept = planner(binary=binary, arguments=arguments).plan(MODEL, [sharder]).plan[""]
    assert {p.cache_params.load_factor for p in kept.values()} == {0.1}
    with pytest.raises(BinaryError, match="are in host memory, and the cluster states none"):
        planner(binary=binary, constraints=stated).plan(MODEL)


def test_settings_of_kernels_are_in_the_plan(binary: str, tmp_path: Path) -> None:
    stated = {
        "a": ParameterConstraints(
            enforce_hbm=True,
            stochastic_rounding=False,
            bounds_check_mode=BoundsCheckMode.WARNING,
            output_dtype=DataType.FP16,
        ),
    }
    options: dict[str, Any] = {"binary": binary, "constraints": stated, "keep": tmp_path}
    plan = planner(**options, arguments=["--host-memory", "1GiB"]).plan(MODEL).plan[""]
    fields = ("enforce_hbm", "stochastic_rounding", "bounds_check_mode", "output_dtype")
    want = [True, False, BoundsCheckMode.WARNING, DataType.FP16]
    assert [getattr(plan["a"], f) for f in fields] == want
    assert [getattr(plan["b"], f) for f in fields] == [None] * 4
    a, b = json.loads((tmp_path / "tables.json").read_text())["tables"]
    assert a["kernel_settings"] == (
        "bounds_check_mode=WARNING; enforce_hbm=True; output_dtype=FP16; stochastic_rounding=False"
    )
    assert a["constraints"]["tiers"] == ["hbm"] and "kernel_settings" not in b
    # What the sharder sets alike for a table without own constraints is the same setting.
    sharder = Sharder(fused_params={"bounds_check_mode": BoundsCheckMode.WARNING})
    same = {"a": ParameterConstraints(bounds_check_mode=BoundsCheckMode.WARNING)}
    _, tables = passed(tmp_path, [sharder], constraints=same)
    assert {t["kernel_settings"] for t in tables} == {"bounds_check_mode=WARNING"}


def test_columns_on_one_host(binary: str) -> None:
    """Without the constraint the wide table is cut over all ranks, which are those of two hosts.
    With it, the table is cut over the ranks of one host."""
    model = collection(table("wide", num_embeddings=2_000_000, embedding_dim=256), table("b"))
    options: dict[str, Any] = {"binary": binary, "batch_per_rank": 16384}
    options["pooling_factors"] = {"wide": 100, "b": 1}
    only = {"wide": ParameterConstraints(sharding_types=["table_column_wise"])}
    free = planner(**options).plan(model).plan[""]["wide"]
    assert {r // 2 for r in free.ranks} == {0, 1}
    kept = planner(**options, constraints=only).plan(model).plan[""]
    assert kept["wide"].sharding_type == "table_column_wise" and len(kept["wide"].ranks) > 1
    assert len({r // 2 for r in kept["wide"].ranks}) == 1
    assert kept["b"].sharding_type in ("table_wise", "column_wise")
    one = planner(**options | {"devices_per_host": 4}, constraints=only)
    wide = one.plan(model).plan[""]["wide"]
    assert wide.sharding_type == "table_column_wise" and len(wide.ranks) > 1
    sharder = Sharder(types=["table_column_wise", "data_parallel"])
    of_sharder = planner(**options).plan(model, [sharder]).plan[""]
    assert {p.sharding_type for p in of_sharder.values()} <= {"table_column_wise", "data_parallel"}
    assert (
        len(of_sharder["wide"].ranks) > 1 and len({r // 2 for r in of_sharder["wide"].ranks}) == 1
    )


def test_columns_on_one_host_are_a_constraint_of_the_tables(tmp_path: Path) -> None:
    """A table on one host may have other sharding types, too, and with column_wise any host."""
    model = collection(table("a"), table("b"), table("c"))
    stated = {
        "a": ParameterConstraints(sharding_types=["table_column_wise", "row_wise"]),
        "b": ParameterConstraints(sharding_types=["table_column_wise", "column_wise"]),
    }
    a, b, c = tables_from_model(model, constraints=stated)["tables"]
    assert a["constraints"] == {"sharding_types": ["row_wise", "column_wise"], "one_host": True}
    assert b["constraints"] == {"sharding_types": ["column_wise"]} and "constraints" not in c
    sharder = Sharder(types=["table_column_wise"], kernels=["fused"])
    for t in tables_from_model(model, sharders=[sharder])["tables"]:
        assert t["constraints"]["one_host"] and t["constraints"]["tiers"] == ["hbm"]
    config = EmbeddingConfig(num_embeddings=10, embedding_dim=8, name="s", feature_names=["s"])
    sequences = EmbeddingCollection(tables=[config], device=META)
    only = {"s": ParameterConstraints(sharding_types=["table_column_wise"])}
    with pytest.raises(InputError, match="are not what TorchRec runs"):
        tables_from_model(sequences, constraints=only)


def test_formats_of_vectors(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    half = ParameterConstraints(output_dtype=DataType.FP16)
    usual = "--types table_wise,column_wise"
    arguments, _ = passed(tmp_path, USUAL, constraints={"a": half, "b": half})
    assert arguments == f"{usual} --set comm_precision=fp16"
    # TorchRec's estimator does not look at output_dtype, so its formulas do not either.
    arguments, _ = passed(tmp_path, USUAL, constraints={"a": half, "b": half}, arguments=FORMULAS)
    assert arguments == f"{usual} --model torchrec"
    sharder = Sharder(fused_params={"output_dtype": DataType.BF16})
    assert passed(tmp_path, [sharder])[0] == f"{usual} --set comm_precision=bf16"
    assert passed(tmp_path, USUAL, constraints={"a": half})[0] == usual
    assert "tables have fp16, fp32: the plan counts exchanges in fp32" in caplog.text


def test_tables_that_a_sharder_leaves_out() -> None:
    text = refused(Sharder(left_out=("b",)))
    assert 'shardable_parameters of the sharder leave out "b" of module ""' in text


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tower = EmbeddingTower(collection(table("a")), nn.Linear(64, 2))
        self.bag = nn.EmbeddingBag(10, 8, device=META, mode="sum", include_last_offset=True)


def test_sharders_of_other_modules() -> None:
    own = EmbeddingBagCollectionSharder()
    (message,) = told(Tower(), sharders=[own, EmbeddingTowerSharder(), EmbeddingBagSharder()])
    assert 'module "tower" is of EmbeddingTower, which neuroshard cannot plan: Torch' in message
    assert "leave its sharder out" in message
    # Without its sharder TorchRec shards what is in the tower, and leaves the bag whole.
    tables = tables_from_model(Tower(), sharders=[own])["tables"]
    assert [(t["name"], t["module"]) for t in tables] == [("a", "tower.embedding")]
    tables = tables_from_model(Tower(), sharders=[own, EmbeddingBagSharder()])["tables"]
    assert [(t["name"], t["module"]) for t in tables] == [
        ("a", "tower.embedding"),
        ("weight", "bag"),
    ]


def registry(forward: CommType, backward: CommType, ops: list[CommOp] | None = None) -> Any:
    config = QCommsConfig(forward_precision=forward, backward_precision=backward)
    return get_qcomm_codecs_registry(config, comm_ops=ops, device=torch.device("cuda"))


@pytest.mark.parametrize(
    ("forward", "backward", "want"),
    [
        (CommType.FP16, CommType.FP16, "fp16"),
        (CommType.FP16, CommType.BF16, "fp16"),  # TorchRec's golden example
        (CommType.BF16, CommType.BF16, "bf16"),
        (CommType.FP32, CommType.FP32, ""),
    ],
)
def test_formats_of_exchanges(
    tmp_path: Path, forward: CommType, backward: CommType, want: str
) -> None:
    sharder = Sharder(qcomm_codecs_registry=registry(forward, backward))
    usual = "--types table_wise,column_wise"
    arguments, _ = passed(tmp_path, [sharder])
    assert arguments == (f"{usual} --set comm_precision={want}" if want else usual)
    if want:
        same = ["--set", f"comm_precision={want}"]
        assert passed(tmp_path, [sharder], arguments=same)[0] == f"{usual} {' '.join(same)}"
        text = refused(sharder, arguments=["--set=comm_precision=fp32"])
        assert 'comm_precision "fp32", and the sharder\'s qcomm_codecs_registry ex' in text


def test_formats_of_exchanges_that_are_refused() -> None:
    for forward in (CommType.INT8, CommType.FP8):
        codecs = registry(forward, CommType.FP16, [CommOp.POOLED_EMBEDDINGS_ALL_TO_ALL])
        text = refused(Sharder(qcomm_codecs_registry=codecs))
        assert f'POOLED_EMBEDDINGS_ALL_TO_ALL: forward in "{forward}", which neuroshard' in text
    text = refused(Sharder(qcomm_codecs_registry=registry(CommType.FP16, CommType.FP32)))
    assert "numbers of 4 and of 2 bytes" in text
    codecs = registry(CommType.FP16, CommType.FP16, [CommOp.POOLED_EMBEDDINGS_ALL_TO_ALL])
    assert "numbers of 4 and of 2 bytes" in refused(Sharder(qcomm_codecs_registry=codecs))


def test_a_file_of_tables_does_not_state_the_format(caplog: pytest.LogCaptureFixture) -> None:
    codecs = registry(CommType.BF16, CommType.BF16)
    tables_from_model(MODEL, sharders=[Sharder(qcomm_codecs_registry=codecs)])
    assert "pass --set comm_precision=bf16 to neuroshard plan" in caplog.text


def test_fused_params() -> None:
    text = refused(Sharder(fused_params={"cache_sets": 7}))
    assert "fused_params of the sharder: cache_sets is not what a plan uses" in text
    sharder = Sharder(fused_params={"cache_load_factor": 0.2})
    stated = {"b": ParameterConstraints(cache_params=CacheParams(load_factor=0.4))}
    tables = tables_from_model(MODEL, sharders=[sharder], constraints=stated)["tables"]
    assert [t["constraints"]["cache_share"] for t in tables] == [0.2, 0.4]


def test_several_optimizers_of_a_parameter() -> None:
    model = collection(table("a"))
    for optimizer in (torch.optim.SGD, RowWiseAdagrad):
        apply_optimizer_in_backward(optimizer, model.parameters(), {"lr": 0.1})
    message = told(model)[0]
    assert 'table "a": its parameter has several optimizers: SGD, RowWiseAdagrad' in message
    tables = tables_from_model(model, optimizer="rowwise_adagrad")["tables"]
    assert tables[0]["optimizer"] == "rowwise_adagrad"


def test_batches_of_features() -> None:
    lengths = torch.cat([torch.full((8,), 3), torch.full((512,), 2)])
    batch = KeyedJaggedTensor(
        keys=["a", "b"],
        values=torch.zeros(int(lengths.sum()), dtype=torch.long),
        lengths=lengths,
        stride_per_key_per_rank=[[8], [512]],
    )
    tables = tables_from_model(MODEL, sample=batch)["tables"]
    assert tables[0]["features"] == [{"name": "a", "pooling_factor": 24 / 512, "bags": 8 / 512}]
    assert tables[1]["features"] == [{"name": "b", "pooling_factor": 2.0}]
    same = KeyedJaggedTensor(
        keys=["a", "b"],
        values=torch.zeros(16, dtype=torch.long),
        lengths=torch.ones(16, dtype=torch.long),
        stride_per_key_per_rank=[[8], [8]],
    )
    tables = tables_from_model(MODEL, sample=same)["tables"]
    assert [t["features"][0]["pooling_factor"] for t in tables] == [1, 1]


def test_replicas_need_an_optimizer_that_is_not_fused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a profile, tables have all types of TorchRec's planner; but those whose optimizer
    the script fuses into the backward are not replicated."""
    every = "--types table_wise,column_wise,data_parallel,grid,row_wise,table_row_wise"
    formulas: dict[str, Any] = {"profile": None, "topology": None}
    arguments, tables = passed(tmp_path, USUAL, **formulas)
    assert arguments == every
    assert "constraints" not in tables[0] and "not replicated" not in caplog.text
    for fused in ({"optimizer": EmbOptimType.EXACT_SGD}, {"learning_rate": 0.1}):
        sharder = EmbeddingBagCollectionSharder(fused_params=fused)
        arguments, _ = passed(tmp_path, [sharder], **formulas)
        assert arguments == every.replace("data_parallel,", "")
        assert "2 tables are not replicated" in caplog.text
        caplog.clear()
    model = collection(table("a"), table("b"))
    weight = model.get_parameter("embedding_bags.a.weight")
    apply_optimizer_in_backward(torch.optim.SGD, [weight], {"lr": 0.1})
    arguments, tables = passed(tmp_path, USUAL, model=model, **formulas)
    assert arguments == every
    assert "data_parallel" not in tables[0]["constraints"]["sharding_types"]
    assert "constraints" not in tables[1] and "1 tables are not replicated" in caplog.text


@pytest.mark.parametrize("profile", ["a100-80", None])
@pytest.mark.parametrize("arguments", [[], ["--types", "all"]])
def test_tables_of_means_are_cut_by_rows_together(
    binary: str, profile: str | None, arguments: list[str]
) -> None:
    """The search keeps to what TorchRec runs right of tables pooled by means."""
    mean = {"pooling": PoolingType.MEAN}
    model = collection(table("a", **mean), table("b", **mean))
    options: dict[str, Any] = {"profile": profile, "arguments": arguments, "binary": binary}
    rows = {"a": ParameterConstraints(sharding_types=["row_wise"])}
    (placed,) = planner(constraints=rows, **options).plan(model, USUAL).plan.values()
    assert placed["a"].sharding_type == "row_wise"
    assert placed["b"].sharding_type in ("row_wise", "table_row_wise")
    assert planner(**options).plan(model, USUAL).plan


def test_constraints_of_torchrec(tmp_path: Path) -> None:
    stated = {
        "a": ParameterConstraints(
            sharding_types=["grid_shard", "table_wise"],
            min_partition=32,
            pooling_factors=[7.0],
            device_group="cuda",
            feature_names=["a"],
            is_weighted=False,
            compute_kernels=["fused"],
        ),
        "b": ParameterConstraints(compute_kernels=["dense"]),
    }
    arguments, tables = passed(tmp_path, USUAL, constraints=stated, pooling_factors={"b": 2})
    assert arguments == "--types table_wise,data_parallel,grid"
    assert tables[0]["constraints"] == {
        "sharding_types": ["grid", "table_wise"],
        "min_width": 32,
        "tiers": ["hbm"],
    }
    assert tables[0]["features"] == [{"name": "a", "pooling_factor": 7.0}]
    assert tables[1]["constraints"] == {"sharding_types": ["data_parallel"]}
    # A sharding type of one table does not allow it for the others.
    arguments, tables = passed(tmp_path, USUAL, constraints={"a": {"sharding_types": ["row_wise"]}})
    assert arguments == "--types table_wise,column_wise,row_wise"
    assert tables[1]["constraints"] == {"sharding_types": ["table_wise", "column_wise"]}
    # A table that is narrower than the narrowest slice stays whole.
    _, tables = passed(tmp_path, USUAL, constraints={"a": ParameterConstraints(min_partition=4096)})
    assert tables[0]["constraints"] == {"min_width": tables[0]["dim"]}
    _, tables = passed(tmp_path, USUAL, constraints={"a": ParameterConstraints()})
    assert tables[0]["constraints"] == {} and "constraints" not in tables[1]


def test_bags_of_torchrec(tmp_path: Path) -> None:
    """Lookups are those of a bag in TorchRec, and those of a sample in neuroshard."""
    stated = {
        "a": ParameterConstraints(pooling_factors=[3.0], num_poolings=[2.0], batch_sizes=[16]),
        "b": ParameterConstraints(num_poolings=[4.0]),
    }
    _, (a, b) = passed(tmp_path, USUAL, constraints=stated, pooling_factors=None)
    assert a["features"] == [{"name": "a", "pooling_factor": 1.5, "bags": 0.5}]
    assert b["features"] == [{"name": "b", "pooling_factor": 4.0, "bags": 4.0}]
    # In the order of TorchRec's own products.
    stated["a"] = ParameterConstraints(pooling_factors=[0.1], num_poolings=[3.0], batch_sizes=[7])
    _, (a, _) = passed(tmp_path, USUAL, constraints=stated, pooling_factors=None)
    (feature,) = a["features"]
    assert feature["pooling_factor"] == 0.1 * 3.0 * 7 / 64 and feature["bags"] == 3.0 * 7 / 64
    assert "batch_sizes are those of a rank" in told(MODEL, constraints={"a": stated["a"]})[0]


@pytest.mark.parametrize(
    ("stated", "parts"),
    [
        ({"sharding_types": ["odd"]}, ['sharding_types: "odd" is not known']),
        ({"compute_kernels": ["key_value"]}, ['compute_kernels: "key_value": none is for the']),
        ({"compute_kernels": ["dense"], "sharding_types": ["row_wise"]}, ["none is for the shar"]),
        ({"compute_kernels": ["fused_uvm"], "enforce_hbm": True}, ["enforce_hbm keeps all rows"]),
        ({"pooling_factors": [1.0, 2.0]}, ["pooling_factors does not agree", 'each of "a"']),
        ({"batch_sizes": [8, 8]}, ["batch_sizes does not agree", 'each of "a"']),
        ({"is_weighted": True}, ["is_weighted does not agree with the model"]),
        ({"cache_params": CacheParams(precision=DataType.INT8)}, ["precision int8, and the table"]),
        ({"cache_params": CacheParams(stats=object())}, ["stats are TorchRec's own statistics"]),
        ({"feature_names": ["b"]}, ["feature_names does not agree", 'features are "a"']),
        ({"device_group": "cpu"}, ["device_group does not agree", 'all tables are on "cuda"']),
        ({"use_virtual_table": True}, ["use_virtual_table has no counterpart"]),
    ],
)
def test_constraints_of_torchrec_that_are_refused(stated: dict[str, Any], parts: list[str]) -> None:
    (usual,) = USUAL
    text = refused(usual, constraints={"a": ParameterConstraints(**stated)})
    for part in ['constraints of table "a": ', *parts]:
        assert part in text


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"num_poolings": [0.0]}, "bags: 0 "),
        ({"cache_params": CacheParams(load_factor=1.0)}, "cache_share: 1 "),
        ({"output_dtype": DataType.INT4}, "int4"),
        ({"min_partition": 3}, "min_width: 3 "),
        ({"min_partition": -4}, "min_width: -4 "),
    ],
)
def test_numbers_that_the_program_refuses(
    binary: str, stated: dict[str, Any], message: str
) -> None:
    constraints = {"a": ParameterConstraints(**stated)}
    with pytest.raises(BinaryError, match=message) as e:
        planner(binary=binary, constraints=constraints).plan(MODEL, USUAL)
    assert '"a"' in str(e.value)


def test_caches_of_tables_without_a_cache_and_prefetched_ones(tmp_path: Path) -> None:
    """A load_factor is the share of a cache that the table may have. A table is prefetched if
    its own cache_params say so, whatever its sharder says."""
    own = CacheParams(load_factor=0.3, prefetch_pipeline=True)
    stated = {
        "a": ParameterConstraints(compute_kernels=["fused"], cache_params=own),
        "b": ParameterConstraints(cache_params=CacheParams(prefetch_pipeline=False)),
    }
    sharder = Sharder(fused_params={"prefetch_pipeline": True})
    _, (a, b) = passed(tmp_path, [sharder], constraints=stated)
    assert a["constraints"]["tiers"] == ["hbm"] and "cache_share" not in a["constraints"]
    assert a["prefetch"] is True and "prefetch" not in b
    stated["a"] = ParameterConstraints(
        compute_kernels=["fused", "fused_uvm_caching"], cache_params=own
    )
    _, (a, b) = passed(tmp_path, USUAL, constraints=stated)
    assert a["constraints"]["cache_share"] == 0.3
    assert a["prefetch"] is True and "prefetch" not in b


def test_lookups_that_disagree() -> None:
    """A feature has the same lookups for all tables that it reads."""
    model = collection(table("t", ["f"]), table("u", ["f"]))
    stated = {n: ParameterConstraints(pooling_factors=[x]) for n, x in (("t", 3.0), ("u", 5.0))}
    (message,) = told(model, constraints=stated)
    assert 'table "u": pooling_factors: feature "f" has 5 lookups, and 3 for table "t"' in message
    stated["u"] = stated["t"]
    assert len(tables_from_model(model, constraints=stated)["tables"]) == 2


def test_collections_without_tables() -> None:
    assert "the collections of the model have no tables" in told(collection())[0]


def test_the_last_sharder_counts_as_in_torchrec(tmp_path: Path) -> None:
    sharders = [Sharder(types=["row_wise"]), EmbeddingBagCollectionSharder()]
    assert passed(tmp_path, sharders)[0] == "--types table_wise,column_wise"
