"""Modules of each kind that TorchRec shards: planned, loaded, trained and resumed.

Four ranks train one model with a module of each kind. The losses of each step must be those of the
same model trained whole by one process, for each module; and a checkpoint must go on under two
other plans.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torchrec_modules as modules
import torchrec_ranks as ranks
from test_torchrec_training import blocks, of_kind, slices, table
from torch import nn
from torchrec import EmbeddingBagCollection, EmbeddingCollection, JaggedTensor
from torchrec.distributed import embedding
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import Topology
from torchrec.modules.embedding_configs import DataType
from torchrec.modules.fused_embedding_modules import FusedEmbeddingCollection
from torchrec.modules.hash_mc_evictions import HashZchEvictionConfig, HashZchEvictionPolicyName
from torchrec.modules.hash_mc_modules import HashZchManagedCollisionModule
from torchrec.modules.itep_embedding_modules import ITEPEmbeddingBagCollection
from torchrec.modules.mc_embedding_modules import ManagedCollisionEmbeddingBagCollection
from torchrec.modules.mc_modules import (
    DistanceLFU_EvictionPolicy,
    LFU_EvictionPolicy,
    LRU_EvictionPolicy,
    ManagedCollisionCollection,
    MCHManagedCollisionModule,
)
from torchrec.optim import apply_optimizer_in_backward
from torchrec.quant import EmbeddingBagCollection as QuantEmbeddingBagCollection
from torchrec_releases import COUNTS_IDS

from neuroshard_torchrec import (
    InputError,
    NeuroShardPlanner,
    PlanError,
    ReplicatedTablesWarning,
    flags,
    load_plan,
    tables_from_model,
)
from neuroshard_torchrec._modules import _id_map
from neuroshard_torchrec._torchrec import ShardingEnv

Json = dict[str, Any]

LOSS = 2e-6
"""Losses may differ by this share: sums are taken in another order, in float32."""

PLANNER: Json = {"profile": "a100-80", "batch_per_rank": 4096}
MANAGED = ("managed", "listed")
DEDUPLICATED = ["sequence", "listed"]
"""The kinds with sequences, whose indices each rank may send once."""


SEQUENCES = {"s0": [0, 1, 2, 3], "s1": [2, 0, 2, 1], "s2": [3]}
"""The ranks of equal slices of the tables of sequences: two of a table on one rank, beside a whole
table."""


def by_columns(turn: str = "") -> Json:
    """A plan by hand: slices of columns, replicas, and whole tables. The tables of one kind
    of module are a rank further if it is named."""
    model = modules.Model(list(modules.KINDS))
    plan: Json = {}
    for i, (kind, found) in enumerate(modules.tables_of(model).items()):
        own: Json = {}
        for j, (name, rows, dim) in enumerate((t.name, t.rows, t.dim) for t in found):
            first = i + j + (kind == turn)
            on = [first % 4, (first + 1) % 4]
            if kind == "sequence":
                on = [(rank + (kind == turn)) % 4 for rank in SEQUENCES[name]]
            if kind in MANAGED:
                own[name] = table("row_wise", blocks(rows, 0, dim, [0, 1, 2, 3]))
            elif kind == "single" or (j == 2 and kind in ("pooled", "processed")):
                own[name] = table("data_parallel", [])
            else:
                parts = slices([dim // len(on)] * len(on), on, rows)
                own[name] = table("column_wise" if len(on) > 1 else "table_wise", parts)
        plan[f"sparse.{kind}"] = own
    head = {"format": "neuroshard-torchrec-plan", "version": 1, "accelerator": "cpu"}
    return head | {"world_size": 4, "local_size": 2, "plan": plan}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, binary: str) -> list[Json]:
    folder = tmp_path_factory.mktemp("modules")
    for name, turn in (("columns", ""), ("moved", "pooled"), ("refused", "sequence")):
        (folder / f"{name}.json").write_text(json.dumps(by_columns(turn)))
    kinds = list(modules.KINDS)
    rows = PLANNER | {"arguments": ["--types", "row_wise"]}
    saved, columns = str(folder / "saved"), str(folder / "columns.json")
    planned: Json = {"plan": "neuroshard", "planner": PLANNER, "kinds": kinds}
    cases: list[Json] = [
        planned | {"name": "planned", "save": saved},
        planned | {"name": "rows", "planner": rows},
        {
            **{"name": "columns", "plan": columns, "kinds": kinds},
            "moved": str(folder / "moved.json"),
            "refused": str(folder / "refused.json"),
        },
        {"name": "to columns", "plan": columns, "resume": saved, "kinds": kinds},
        {"name": "adagrad", "plan": columns, "optimizer": "adagrad", "kinds": kinds},
    ]
    # Rank 0 also trains the model whole.
    for optimizer in ("sgd", "adagrad"):
        cases.append({"name": f"whole, {optimizer}", "optimizer": optimizer, "kinds": kinds})
    cases.append({"name": "whole, sequences", "optimizer": "sgd", "kinds": DEDUPLICATED})
    for only in ("column_wise", "row_wise"):
        # Managed collisions have no other sharding type than row_wise.
        planner = PLANNER | {"arguments": ["--types", f"{only},row_wise"]}
        deduplicated = DEDUPLICATED if only == "row_wise" else DEDUPLICATED[:1]
        case = {"name": f"deduplicated, {only}", "plan": "neuroshard", "planner": planner}
        cases.append(case | {"dedup": True, "kinds": deduplicated})
    recipe = ranks.recipe()
    found = ranks.trained(modules.run, cases, recipe)
    fewer = [planned | {"name": "fewer", "resume": saved}]
    for r, more in enumerate(ranks.trained(modules.run, fewer, recipe, count=modules.FEWER)):
        found[r] |= more
    return found


def whole(results: list[Json], kind: str, optimizer: str = "sgd") -> list[float]:
    """Returns the losses of a module in the model whole."""
    losses: list[float] = results[0][f"whole, {optimizer}"][kind]
    return losses


@pytest.mark.parametrize("kind", modules.KINDS)
@pytest.mark.parametrize("case", ["planned", "rows", "columns"])
def test_losses_are_those_of_the_whole_model(results: list[Json], case: str, kind: str) -> None:
    want = whole(results, kind)
    for of_rank in results:
        assert of_rank[case]["losses"][kind] == pytest.approx(want, rel=LOSS)
    assert want[-1] < want[0]


@pytest.mark.parametrize("kind", modules.KINDS)
@pytest.mark.parametrize(("case", "count"), [("to columns", ranks.RANKS), ("fewer", modules.FEWER)])
def test_a_checkpoint_goes_on_under_another_plan(
    results: list[Json], case: str, count: int, kind: str
) -> None:
    want = whole(results, kind)[modules.HALF :]
    for of_rank in results[:count]:
        assert of_rank[case]["losses"][kind] == pytest.approx(want, rel=LOSS)


@pytest.mark.parametrize("kind", modules.KINDS)
def test_another_optimizer(results: list[Json], kind: str) -> None:
    want = whole(results, kind, "adagrad")
    for of_rank in results:
        assert of_rank["adagrad"]["losses"][kind] == pytest.approx(want, rel=LOSS)
    assert want != whole(results, kind)


@pytest.mark.parametrize("only", ["column_wise", "row_wise"])
def test_modules_train_with_deduplicated_indices(results: list[Json], only: str) -> None:
    for of_rank in results:
        case = of_rank[f"deduplicated, {only}"]
        assert any("sparse.sequence" in name for name in case["deduplicated"])
        for kind, losses in case["losses"].items():
            assert losses == pytest.approx(whole(results, kind, "sequences"), rel=LOSS)


def test_plans_differ_where_torchrec_has_a_choice(results: list[Json]) -> None:
    planned, rows, columns = (results[0][c]["plan"] for c in ("planned", "rows", "columns"))
    for name in planned:
        if any(name.startswith(f"sparse.{kind}.") for kind in MANAGED):
            # TorchRec splits managed collisions by rows only.
            assert planned[name] == rows[name] == columns[name]
            assert planned[name]["kind"] == "row_wise"
        else:
            assert planned[name]["kind"] in ("table_wise", "column_wise")
            assert rows[name]["kind"] == "row_wise"
            assert columns[name] not in (planned[name], rows[name])
    # TorchRec has no table_wise for an nn.EmbeddingBag: one slice has all columns.
    assert planned["sparse.single.weight"]["kind"] == "column_wise"
    assert len(planned["sparse.single.weight"]["shards"]) == 1


def test_other_modules_stay_where_they_are(results: list[Json]) -> None:
    for of_rank in results:  # and the losses go on as if nothing had moved
        assert of_rank["columns"]["moved"] == ["b0", "b1"]
        refused = of_rank["columns"]["refused"]
        assert '"s0", "s1", "s2": tables of a module of EmbeddingCollection are not' in refused


def refused(model: nn.Module, plan: Json, **options: Any) -> list[str]:
    with pytest.raises(PlanError) as e:
        env = ShardingEnv.from_local(4, 0)
        load_plan(plan, model, env, local_size=2, device_type="cpu", **options)
    return [str(p) for p in e.value.problems]


def test_what_torchrec_does_not_run_is_refused() -> None:
    model = modules.Model(list(modules.KINDS))
    sharders = modules.sharders()
    for module, name, kind, message in (
        ("sequence", "s0", "grid_shard", "grid_shard does not go with EmbeddingCollection"),
        ("sequence", "s0", "table_row_wise", "table_row_wise does not go with EmbeddingCollec"),
        ("sequence", "s0", "data_parallel", "data_parallel does not go with EmbeddingCollection"),
        ("managed", "m0", "table_wise", "table_wise does not go with ManagedCollisionEmbedd"),
        ("single", "weight", "column_wise", "column_wise does not go with EmbeddingBag"),
        ("fused", "u0", "grid_shard", "grid_shard does not go with FusedEmbeddingBagColl"),
        ("fused", "u0", "data_parallel", "data_parallel does not go with FusedEmbeddingBagC"),
    ):
        plan = by_columns()
        (own,) = (t for t in modules.tables_of(model)[module] if t.name == name)
        config = SimpleNamespace(num_embeddings=own.rows, embedding_dim=own.dim)
        plan["plan"][f"sparse.{module}"][name] = of_kind(kind, 1, config)
        (problem,) = refused(model, plan, sharders=sharders)
        assert message in problem and "hint: TorchRec runs" in problem


def test_the_sharder_says_whose_indices_are_deduplicated() -> None:
    model = modules.Model(["pooled", "sequence", "listed", "managed"])

    def deduplicated(dedup: bool) -> set[str]:
        tables = tables_from_model(model, sharders=modules.sharders(dedup=dedup))["tables"]
        return {t["module"] for t in tables if t.get("index_dedup", False)}

    assert deduplicated(False) == set()
    assert deduplicated(True) == {"sparse.sequence", "sparse.listed"}
    embedding.EC_INDEX_DEDUP = True  # as TorchRec's older set_ec_index_dedup leaves it
    try:
        assert deduplicated(False) == {"sparse.sequence"}
    finally:
        embedding.EC_INDEX_DEDUP = False


def test_an_embedding_bag_needs_its_sharder() -> None:
    model = modules.Model(["sequence", "single"])
    plan = by_columns()
    plan["plan"] = {f"sparse.{k}": plan["plan"][f"sparse.{k}"] for k in ("sequence", "single")}
    (problem,) = refused(model, plan)
    assert 'module "sparse.single" is not in the model' in problem
    assert "an nn.EmbeddingBag also needs sharders=" in problem
    env = ShardingEnv.from_local(4, 0)
    with pytest.warns(ReplicatedTablesWarning):
        load_plan(plan, model, env, local_size=2, device_type="cpu", sharders=modules.sharders())


def told(model: nn.Module, **options: Any) -> list[str]:
    with pytest.raises(InputError) as e:
        tables_from_model(model, **options)
    return [str(p) for p in e.value.problems]


def test_embedding_bags_that_torchrec_gets_wrong() -> None:
    model = nn.Module()
    model.bag = nn.EmbeddingBag(8, 8, mode="mean")
    apply_optimizer_in_backward(torch.optim.SGD, model.bag.parameters(), {"lr": 1.0})
    mode, last, optimizer = told(model, sharders=modules.sharders())
    assert 'has the mode "mean": TorchRec sums' in mode
    assert "TorchRec would lose the last bag of a batch" in last
    assert "EmbeddingBagSharder does not take over" in optimizer


def test_modules_that_are_refused_say_why() -> None:
    meta = torch.device("meta")
    rate = {"lr": 1.0}
    model = nn.Module()
    model.fused = FusedEmbeddingCollection(modules.sequences("s", 1), torch.optim.SGD, rate, meta)
    model.pruned = ITEPEmbeddingBagCollection(
        EmbeddingBagCollection(tables=modules.bags("b", 1)), nn.Module()
    )
    model.sub = modules.SubCollection(tables=modules.bags("c", 1))
    model.two = ManagedCollisionEmbeddingBagCollection(
        EmbeddingBagCollection(tables=(two := modules.shared())), modules.collisions(two)
    )
    model.quantised = QuantEmbeddingBagCollection(
        [replace(c, data_type=DataType.INT8) for c in modules.bags("q", 1)], False, meta
    )
    fused, pruned, sub, two_, quantised = told(model)
    assert "is of EmbeddingBagCollection, which neuroshard cannot plan: it is quan" in quantised
    assert "FusedEmbeddingCollection, which neuroshard cannot plan: TorchRec's sharder" in fused
    assert "ITEPEmbeddingBagCollection, which neuroshard cannot plan: its rows" in pruned
    assert "a subclass of EmbeddingBagCollection that no sharder is for" in sub
    assert 'several tables look up "shared", which TorchRec' in two_


def test_collections_that_send_ahead_are_refused() -> None:
    pec = pytest.importorskip("torchrec.modules.pec_embedding_modules", reason="SKIPPED: not 1.9")
    model = nn.Module()
    inner = EmbeddingCollection(tables=modules.sequences("s", 1), device=torch.device("meta"))
    model.ahead = pec.PECEmbeddingCollection(inner)
    (problem,) = told(model)
    assert "PECEmbeddingCollection, which neuroshard cannot plan: it sends the vectors" in problem


def test_tables_say_what_torchrec_runs() -> None:
    model = modules.Model(list(modules.KINDS))
    tables = tables_from_model(model, sharders=modules.sharders())["tables"]
    of = {t["name"]: t for t in tables}
    assert of["s0"]["pooling"] == of["l0"]["pooling"] == "none"
    assert "min_width" not in of["s1"]["constraints"]
    assert of["m0"]["constraints"]["sharding_types"] == ["row_wise"]
    assert "column_wise" not in of["weight"]["constraints"]["sharding_types"]
    assert of["weight"]["weighted"] and of["p0"]["weighted"] and not of["s0"]["weighted"]
    assert [f["name"] for f in of["weight"]["features"]] == ["sparse.single"]
    assert {t["optimizer"] for t in tables} == {"sgd"}
    assert "constraints" not in of["b0"]


def test_a_feature_processor_without_its_sharder_is_sharded_inside() -> None:
    model = modules.Model(["processed"])
    tables = tables_from_model(model, sharders=[EmbeddingBagCollectionSharder()])["tables"]
    assert {t["module"] for t in tables} == {"sparse.processed._embedding_bag_collection"}


def test_means_of_processed_features_are_not_split_by_rows() -> None:
    tables = modules.bags("p", 1, pooling=modules.PoolingType.MEAN)
    inner = EmbeddingBagCollection(tables=tables, is_weighted=True)
    processors = {"p0_f": modules.PositionWeightedModule(4)}
    model = nn.Sequential(modules.FeatureProcessedEmbeddingBagCollection(inner, processors))
    (own,) = tables_from_model(model)["tables"]
    assert own["constraints"]["sharding_types"] == ["data_parallel", "table_wise", "column_wise"]


def test_rows_that_cut_a_bucket_are_refused() -> None:
    for buckets, count in ((4, 0), (6, 1)):  # four ranks of 12 rows
        tables = [replace(c, num_embeddings=48) for c in modules.bags("h", 1)]
        hashed = HashZchManagedCollisionModule(
            zch_size=48, device=torch.device("cpu"), total_num_buckets=buckets
        )
        model = nn.Sequential(
            ManagedCollisionEmbeddingBagCollection(
                EmbeddingBagCollection(tables=tables),
                ManagedCollisionCollection({"h0": hashed}, tables),
            )
        )
        plan = by_columns()
        plan["plan"] = {"0": {"h0": table("row_wise", blocks(48, 0, 8, [0, 1, 2, 3]))}}
        problems = refused(model, plan) if count else []
        assert len(problems) == count
        assert all("cuts its 6 buckets of ids" in p for p in problems)
        if not count:
            load_plan(plan, model, ShardingEnv.from_local(4, 0), local_size=2, device_type="cpu")


def hashed(**options: Any) -> HashZchManagedCollisionModule:
    return HashZchManagedCollisionModule(
        zch_size=48, device=torch.device("meta"), total_num_buckets=4, **options
    )


def mapped(policy: Any) -> MCHManagedCollisionModule:
    return MCHManagedCollisionModule(
        zch_size=48, device=torch.device("meta"), eviction_interval=3, eviction_policy=policy
    )


EVICTION: Json = {
    "eviction_policy_name": HashZchEvictionPolicyName.SINGLE_TTL_EVICTION,
    "eviction_config": HashZchEvictionConfig(features=["f"], single_ttl=1),
}


MAPS: dict[str, tuple[Any, int]] = {
    "lfu": (mapped(LFU_EvictionPolicy()), 24),
    "lru": (mapped(LRU_EvictionPolicy()), 24),
    "distance_lfu": (mapped(DistanceLFU_EvictionPolicy()), 32),
    "hashed": (hashed(), 8),
    "hashed_evicted": (hashed(**EVICTION), 12),
}
"""Maps from ids to rows, and the bytes of a row."""
if COUNTS_IDS:
    MAPS["hashed_counted"] = (hashed(**EVICTION, track_id_freq=True), 20)


@pytest.mark.parametrize("name", MAPS)
def test_the_bytes_of_a_map_are_those_of_its_tensors(name: str) -> None:
    module, row = MAPS[name]
    id_map = _id_map(module)
    assert id_map.row == row
    of_rank = module.rebuild_with_output_id_range(
        (12, 24), [0, 12, 24, 36, 48], torch.device("cpu")
    )
    assert tensor_bytes(of_rank) == id_map.size(12, 0)
    if isinstance(module, MCHManagedCollisionModule):
        ids = JaggedTensor(values=torch.arange(20), lengths=torch.tensor([20]))
        of_rank.profile({"f": ids})
        # The history of ids is no buffer, and what goes with it is.
        assert tensor_bytes(of_rank) + of_rank._history_accumulator.nbytes == id_map.size(12, 20)


def tensor_bytes(module: nn.Module) -> int:
    tensors = dict(module.named_buffers()) | dict(module.named_parameters())
    return sum(t.nbytes for t in tensors.values())


def test_the_maps_of_managed_collisions_are_kept_free(
    tmp_path: Path,
    binary: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = modules.Model(["managed", "listed"])

    def reserve(**options: Any) -> int:
        where = {} if "topology" in options else PLANNER | {"world_size": 4, "device_type": "cpu"}
        planner = NeuroShardPlanner(binary=binary, keep=tmp_path, **(where | options))
        planner.plan(model, modules.sharders())
        plan = json.loads((tmp_path / "plan.json").read_text())
        return int(plan["cluster"]["reserve_bytes"])

    # Of each row, fixed, and a history of the ids of a step: 1 of each of 5 features a sample.
    rows = 2048 + 13 * 8, 2048 + 13 * 16, 2048 + 64, 2048 + 80
    maps = sum(32 * -(-n // 4) + 8200 + 24 for n in rows) + 5 * 4096 * 16 * 5 // 4
    assert reserve() - reserve(arguments=["--set", "reserve_fixed=0B"]) == maps
    (warning,) = [r.getMessage() for r in caplog.records if "reserve_fixed" in r.getMessage()]
    assert f"the {maps} bytes that the maps" in warning
    of_torchrec: Json = {"topology": Topology(4, compute_device="cpu"), "batch_size": 4096}
    kept = reserve(**of_torchrec)
    monkeypatch.setattr(flags, "reserved", lambda _, map_bytes: 0)
    assert kept - reserve(**of_torchrec) == maps
