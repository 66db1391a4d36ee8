"""What a TorchRec user may set is honoured, or refused by name with what to write instead."""

from __future__ import annotations

import json
import re
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

pytest.importorskip("torchrec", reason="SKIPPED: torchrec is not installed")

from test_torchrec_planner import script
from test_torchrec_tables import META, collection, table, told
from torchrec import EmbeddingBagCollection, KeyedJaggedTensor
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
from torchrec.distributed.planner import EmbeddingShardingPlanner
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.sharding_plan import get_default_sharders
from torchrec.distributed.types import CacheParams, CommOp, DataType
from torchrec.modules.embedding_tower import EmbeddingTower
from torchrec.optim import RowWiseAdagrad, apply_optimizer_in_backward
from torchrec_binary import binary

from neuroshard_torchrec import (
    BinaryError,
    InputError,
    NeuroShardPlanner,
    tables_from_model,
)

__all__ = ["binary"]

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
    fields: dict[str, Any] = {
        "profile": "a100-80",
        "batch_per_rank": 64,
        "world_size": 4,
        "devices_per_host": 2,
        "device_type": "cuda",
        "pooling_factors": {"a": 2, "b": 3},
    }
    return NeuroShardPlanner(**(fields | options))


def passed(folder: Path, sharders: list[Any], **options: Any) -> tuple[str, list[Any]]:
    """Returns the arguments that the program gets after -o, and its tables."""
    after = 'while [ "$1" != -o ]; do shift; done; shift 2'
    path = script(folder, f'cp "$2" "$0.json"; {after}; echo "<$*>" >&2; exit 2')
    with pytest.raises(BinaryError) as e:
        planner(binary=path, **options).plan(MODEL, sharders)
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
    assert arguments == "--sharding-types row_wise"
    assert [t["constraints"] for t in tables] == [{"sharding_types": ["row_wise"]}] * 2
    # The usual types come first where the sharder allows them.
    every = ["data_parallel", "table_wise", "grid_shard"]
    arguments, tables = passed(tmp_path, [Sharder(types=every)])
    assert arguments == "--sharding-types table_wise"
    assert tables[0]["constraints"] == {"sharding_types": ["table_wise"]}
    stated = ["--sharding-types", "all"]
    arguments, tables = passed(tmp_path, [Sharder(types=every)], arguments=stated)
    assert arguments == "--sharding-types all"
    assert tables[0]["constraints"]["sharding_types"] == ["data_parallel", "table_wise", "grid"]
    # Of a table's own types those remain that the sharder allows.
    own = {"a": {"sharding_types": ["row_wise", "grid"], "min_width": 8}}
    arguments, tables = passed(tmp_path, [Sharder(types=every)], constraints=own)
    assert arguments == "--sharding-types table_wise,grid"
    assert tables[0]["constraints"] == {"sharding_types": ["grid"], "min_width": 8}
    assert tables[1]["constraints"] == {"sharding_types": ["table_wise"]}
    text = refused(Sharder(types=["table_wise"]), constraints=own)
    assert 'constraints of table "a": sharding_types "row_wise", "grid" are not those' in text


def test_the_plan_has_the_sharding_types_of_a_sharder(binary: str) -> None:
    for types in (["row_wise"], ["data_parallel"], ["table_wise"]):
        plan = planner(binary=binary).plan(MODEL, [Sharder(types=types)])
        assert [p.sharding_type for p in plan.plan[""].values()] == types * 2
    stated = {"a": ParameterConstraints(sharding_types=["row_wise"])}
    plan = planner(binary=binary, constraints=stated).plan(MODEL)
    assert plan.plan[""]["a"].sharding_type == "row_wise"
    assert plan.plan[""]["b"].sharding_type in ("table_wise", "column_wise")


def test_a_sharder_of_torchrec_restricts_nothing(tmp_path: Path) -> None:
    for sharders in (get_default_sharders(), [EmbeddingBagCollectionSharder()]):
        arguments, tables = passed(tmp_path, sharders)
        assert arguments == "--sharding-types table_wise,column_wise"
        assert not any("constraints" in t for t in tables)


@pytest.mark.parametrize(
    ("types", "part"),
    [
        (["odd"], 'sharding_types of the sharder: "odd" is not known to neuroshard'),
        (["table_column_wise"], "does not keep all columns of a table on one host"),
        ([], "the list is empty"),
    ],
)
def test_sharding_types_that_are_not_known(types: list[str], part: str) -> None:
    assert part in refused(Sharder(types=types))


def test_compute_kernels_of_a_sharder(tmp_path: Path) -> None:
    text = refused(Sharder(kernels=["fused_uvm_caching"]))
    assert 'tables have the kernel "fused" under neuroshard' in text
    assert 'arguments=["--host-memory", "1TiB"]' in text
    # Tables in the memory of devices are what the default plans have.
    only = Sharder(types=["table_wise"], kernels=["fused"])
    assert passed(tmp_path, [only])[0].startswith("--sharding-types")
    text = refused(only, arguments=["--host-memory", "1TiB"])
    assert "compute_kernels allow no tables in host memory, and arguments do" in text


def test_tables_that_a_sharder_leaves_out() -> None:
    text = refused(Sharder(left_out=("b",)))
    assert 'shardable_parameters of the sharder leave out "b" of module ""' in text


def test_the_last_sharder_counts_as_in_torchrec(tmp_path: Path) -> None:
    sharders = [Sharder(types=["row_wise"]), EmbeddingBagCollectionSharder()]
    assert passed(tmp_path, sharders)[0] == "--sharding-types table_wise,column_wise"


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tower = EmbeddingTower(collection(table("a")), nn.Linear(64, 2))
        self.bag = nn.EmbeddingBag(10, 8, device=META)


def test_sharders_of_other_modules() -> None:
    own = EmbeddingBagCollectionSharder()
    messages = told(Tower(), sharders=[own, EmbeddingTowerSharder(), EmbeddingBagSharder()])
    assert 'module "tower" is of EmbeddingTower, which neuroshard cannot plan' in messages[0]
    assert 'ignore=["tower"]' in messages[0]
    assert 'module "bag" is of EmbeddingBag, which' in messages[1]
    # Without these sharders TorchRec leaves the modules whole, and so do we.
    assert len(tables_from_model(Tower(), sharders=[own])["tables"]) == 1


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
    usual = "--sharding-types table_wise,column_wise"
    arguments, _ = passed(tmp_path, [sharder])
    assert arguments == (f"{usual} --comm-precision {want}" if want else usual)
    if want:
        same = ["--comm-precision", want]
        assert passed(tmp_path, [sharder], arguments=same)[0] == f"{usual} {' '.join(same)}"
        text = refused(sharder, arguments=["--comm-precision=fp32"])
        assert '--comm-precision "fp32", and the sharder\'s qcomm_codecs_registry ex' in text


def test_the_format_of_exchanges_changes_the_cost(binary: str, tmp_path: Path) -> None:
    costs = []
    for codecs in (None, registry(CommType.FP16, CommType.BF16)):
        keep = tmp_path / str(codecs is None)
        sharder = EmbeddingBagCollectionSharder(qcomm_codecs_registry=codecs)
        planner(binary=binary, keep=keep, batch_per_rank=8192).plan(MODEL, [sharder])
        plan = json.loads((keep / "plan.json").read_text())
        costs.append(plan["predicted"]["cost_ms"])
    assert plan["cluster"]["comm_precision"] == "fp16"
    assert costs[1] < costs[0]


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
    assert "pass --comm-precision bf16 to neuroshard plan" in caplog.text


def test_fused_params(caplog: pytest.LogCaptureFixture) -> None:
    text = refused(Sharder(fused_params={"cache_load_factor": 0.2}))
    assert "fused_params of the sharder: cache_load_factor is not what a plan uses" in text
    tables_from_model(MODEL, sharders=[Sharder(fused_params={"output_dtype": DataType.FP16})])
    assert "output_dtype" in caplog.text and "4 bytes a number" in caplog.text


def test_tables_without_rows_of_their_own() -> None:
    model = collection(table("a", use_virtual_table=True))
    assert 'table "a": use_virtual_table: its rows' in told(model)[0]


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
    message = told(MODEL, sample=batch)[0]
    assert 'features have batches of their own ("a" 8, "b" 512 samples)' in message
    assert "pass batch_per_rank= and pooling_factors=" in message
    same = KeyedJaggedTensor(
        keys=["a", "b"],
        values=torch.zeros(16, dtype=torch.long),
        lengths=torch.ones(16, dtype=torch.long),
        stride_per_key_per_rank=[[8], [8]],
    )
    tables = tables_from_model(MODEL, sample=same)["tables"]
    assert [t["features"][0]["pooling_factor"] for t in tables] == [1, 1]


def test_constraints_of_torchrec(tmp_path: Path) -> None:
    stated = {
        "a": ParameterConstraints(
            sharding_types=["grid_shard", "table_wise"],
            min_partition=32,
            pooling_factors=[7.0],
            device_group="cuda",
            feature_names=["a"],
            compute_kernels=["fused"],
        ),
        "b": ParameterConstraints(compute_kernels=["dense"]),
    }
    arguments, tables = passed(tmp_path, USUAL, constraints=stated, pooling_factors={"b": 2})
    assert arguments == "--sharding-types table_wise,data_parallel,grid"
    assert tables[0]["constraints"] == {"sharding_types": ["grid", "table_wise"], "min_width": 32}
    assert tables[0]["features"] == [{"name": "a", "pooling_factor": 7.0}]
    assert tables[1]["constraints"] == {"sharding_types": ["data_parallel"]}
    # A sharding type of one table does not allow it for the others.
    arguments, tables = passed(tmp_path, USUAL, constraints={"a": {"sharding_types": ["row_wise"]}})
    assert arguments == "--sharding-types table_wise,column_wise,row_wise"
    assert tables[1]["constraints"] == {"sharding_types": ["table_wise", "column_wise"]}
    _, tables = passed(tmp_path, USUAL, constraints={"a": ParameterConstraints()})
    assert tables[0]["constraints"] == {} and "constraints" not in tables[1]


@pytest.mark.parametrize(
    ("stated", "parts"),
    [
        ({"sharding_types": ["odd"]}, ['sharding_types: "odd" is not known']),
        ({"compute_kernels": ["fused_uvm"]}, ["neuroshard chooses where a table lies", "--host"]),
        ({"compute_kernels": ["dense"], "sharding_types": ["row_wise"]}, ["are not those of the"]),
        ({"pooling_factors": [1.0, 2.0]}, ["pooling_factors does not agree", 'each of "a"']),
        ({"num_poolings": [2.0]}, ["num_poolings has no counterpart", "pooling_factors={...}"]),
        ({"batch_sizes": [8]}, ["batch_sizes has no counterpart", "batch_per_rank="]),
        ({"is_weighted": True}, ["is_weighted does not agree with the model"]),
        ({"cache_params": CacheParams(load_factor=0.1)}, ["cache_params has no", "--host-memory"]),
        ({"enforce_hbm": True}, ["enforce_hbm is not for the planner", ".enforce_hbm = "]),
        ({"stochastic_rounding": True}, ["stochastic_rounding is not for the planner"]),
        ({"output_dtype": DataType.FP16}, ["output_dtype is not for the planner"]),
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
    ("option", "part"),
    [
        ("topology", "pass profile=, world_size=, devices_per_host="),
        ("batch_size", "pass batch_per_rank="),
        ("storage_reservation", '"--reserve-share"'),
        ("debug", "report has the report"),
        ("stats", "report has the report"),
        ("proposer", '"--method"'),
        ("partitioner", '"--method"'),
        ("enumerator", '"--sharding-types"'),
        ("performance_model", '"--model", "torchrec"'),
        ("callbacks", "change plan.plan after planning"),
        ("timeout_seconds", "pass timeout="),
        ("plan_loader", "pass keep="),
    ],
)
def test_options_of_torchrecs_planner(option: str, part: str) -> None:
    with pytest.raises(InputError) as e:
        planner(**{option: None})
    (problem,) = e.value.problems
    assert problem.message == (
        f'"{option}" is an option of TorchRec\'s planner, and not of NeuroShardPlanner'
    )
    assert part in problem.hint


def test_every_option_of_torchrecs_planner_has_a_hint() -> None:
    for option in list(signature(EmbeddingShardingPlanner.__init__).parameters)[1:]:
        if option == "constraints":
            continue  # ours, too
        with pytest.raises(InputError, match="is an option of TorchRec's planner"):
            planner(**{option: None})


def test_options_without_a_name_and_unknown_ones() -> None:
    with pytest.raises(InputError) as e:
        NeuroShardPlanner(object(), 512, batch=7)
    text = str(e.value)
    assert "argument 1, of type object, has no name" in text
    assert "TorchRec's planner takes it as topology: pass profile=" in text
    assert "TorchRec's planner takes it as batch_size: pass batch_per_rank=" in text
    assert '"batch" is not an option of NeuroShardPlanner' in text
    assert "the options are profile, batch_per_rank," in text
    assert 'profile "" is empty\n  hint: neuroshard devices lists the profiles' in text
    with pytest.raises(InputError, match="has no hash of its inputs\n  hint: pass keep="):
        planner().hash_planner_context_inputs()
