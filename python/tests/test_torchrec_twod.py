"""2D parallelism: plans of sharding groups, and a training by them of four processes.

The losses of each step must be those of the
model whole, and so must the weights. DMPCollection itself is TorchRec's, without its check for
GPUs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torchrec_checkpoints as checkpoints
import torchrec_modules as modules
import torchrec_ranks as ranks
import torchrec_twod as twod
from conftest import neuroshard
from test_torchrec_tables import collection, table
from torch import nn
from torchrec import PoolingType
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DMPCollection
from torchrec.distributed.planner import ParameterConstraints, Topology
from torchrec.distributed.types import ShardingEnv
from torchrec.modules.mc_embedding_modules import ManagedCollisionEmbeddingBagCollection

from neuroshard_torchrec import (
    BinaryError,
    InputError,
    NeuroShardPlanner,
    PlanError,
    StepTimes,
    load_plan,
    reshard,
    tables_from_model,
    write_tables,
)
from neuroshard_torchrec import binary as program
from neuroshard_torchrec.groups import Groups

Json = dict[str, Any]

LOSS = 2e-6
"""Losses may differ by this share: sums are taken in another order, in float32."""

TENSORS = 2e-6
"""By so much may weights differ."""


# Plans without a training.


def model() -> nn.Module:
    tables = (table(n, [f"f_{n}"], embedding_dim=16) for n in ("a", "b", "c", "d"))
    return nn.ModuleDict({"embeddings": collection(*tables)})


def planner(binary: str, **options: Any) -> NeuroShardPlanner:
    options = {"profile": "a100-80", "batch_per_rank": 64, "world_size": 8} | options
    usual = {
        "devices_per_host": 4,
        "device_type": "cpu",
        "pooling_factors": dict.fromkeys(FEATURES, 2),
    }
    if "topology" in options:
        usual, options["world_size"] = {}, None
    return NeuroShardPlanner(binary=binary, **(usual | options))


FEATURES = ("f_a", "f_b", "f_c", "f_d")
SHARDERS = [EmbeddingBagCollectionSharder()]


def test_a_plan_is_that_of_one_group(
    binary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[list[str]] = []
    real = program.run
    monkeypatch.setattr(program, "run", lambda *a: runs.append(a[1]) or real(*a))
    made = planner(binary, sharding_group_size=4, sync_every=50, keep=tmp_path)
    plan = made.plan(model(), SHARDERS)
    cluster = json.loads((tmp_path / "plan.json").read_text())["cluster"]
    assert (cluster["devices"], cluster["devices_per_host"], cluster["replicas"]) == (4, 2, 2)
    assert (cluster["batch"], cluster["sync_every"]) == (256, 50)
    assert {r for p in plan.plan["embeddings"].values() for r in p.ranks} <= set(range(4))
    assert "the all-reduce of 2 replicas" in made.report
    assert made.sharding_group_size == 4
    assert made.dmp_collection_options == {
        "world_size": 8,
        "sharding_group_size": 4,
        "node_group_size": 2,
        "use_inter_host_allreduce": False,
    }
    between = planner(binary, sharding_group_size=4, use_inter_host_allreduce=True, keep=tmp_path)
    between.plan(model(), SHARDERS)
    cluster = json.loads((tmp_path / "plan.json").read_text())["cluster"]
    assert (cluster["devices_per_host"], cluster["inter_host_allreduce"]) == (4, True)
    assert between.dmp_collection_options["node_group_size"] == 4
    assert ["replicas=2" in r for r in runs if r[0] == "plan"] == [True, True]
    assert ["inter_host_allreduce" in r for r in runs if r[0] == "plan"] == [False, True]


def test_the_program_chooses_the_size(binary: str, tmp_path: Path) -> None:
    rare = planner(binary, sharding_group_size="auto", sync_every=1_000_000, keep=tmp_path)
    assert rare.sharding_group_size == "auto"
    with pytest.raises(InputError, match="no sharding groups before there is a plan"):
        rare.dmp_collection_options  # noqa: B018
    rare.plan(model(), SHARDERS)
    chosen = json.loads((tmp_path / "plan.json").read_text())["cluster"]
    assert rare.sharding_group_size == chosen["devices"] == 8 // chosen.get("replicas", 1)
    assert f"{chosen['replicas']} sharding groups" in rare.report
    constraints = {n: {"sharding_types": ["data_parallel"]} for n in "abcd"}
    with pytest.warns(UserWarning, match="replicated on every rank"):
        rare = planner(
            binary,
            sharding_group_size="auto",
            optimizer="adam",
            constraints={**constraints, "a": {"sharding_types": ["table_wise"]}},
        )
        rare.plan(model(), SHARDERS)
    assert rare.sharding_group_size == 8  # nothing averages the state of Adam


def test_replicated_tables_state_their_ranks(binary: str) -> None:
    constraints = {n: {"sharding_types": ["data_parallel"]} for n in "abcd"}
    with pytest.warns(UserWarning, match="replicated on every rank"):
        plan = planner(binary, sharding_group_size=2, constraints=constraints).plan(
            model(), SHARDERS
        )
    assert [p.ranks for p in plan.plan["embeddings"].values()] == [[0, 1]] * 4


def test_topologies_are_those_of_all_ranks(binary: str, tmp_path: Path) -> None:
    topology = Topology(world_size=8, local_world_size=4, compute_device="cuda", hbm_cap=1 << 34)
    made = planner(
        binary, topology=topology, sharding_group_size=4, profile=None, keep=tmp_path, debug=False
    )
    made.plan(model(), SHARDERS)
    cluster = json.loads((tmp_path / "plan.json").read_text())["cluster"]
    assert (cluster["devices"], cluster["devices_per_host"], cluster["replicas"]) == (4, 2, 2)
    assert (made._topology.world_size, made._topology.local_world_size) == (4, 2)
    assert made._topology.devices[0].storage.hbm == 1 << 34
    assert {o.shards[0].rank for o in made._best_plan or []} <= set(range(4))
    assert made.hash_planner_context_inputs() == made.hash_planner_context_inputs()
    seen: list[str] = []
    made = planner(
        binary,
        topology=topology,
        profile=None,
        sharding_group_size=4,
        callbacks=[lambda options: seen.extend(o.name for o in options) or options],
    )
    plan = made.plan(model(), SHARDERS)
    assert sorted(seen) == ["a", "b", "c", "d"] and set(plan.plan["embeddings"]) == set(seen)
    assert made.sharding_group_size == 4


def test_groups_that_cannot_be(binary: str) -> None:
    def refused(error: type[Exception], message: str, **options: Any) -> None:
        with pytest.raises(error, match=message):
            planner(binary, **options).plan(model(), SHARDERS)

    refused(InputError, "3 does not divide the 8 ranks", sharding_group_size=3)
    refused(
        InputError,
        "4 sharding groups of 2 .* hosts of 3",
        sharding_group_size=2,
        world_size=8,
        devices_per_host=3,
    )
    refused(InputError, "so there is nothing to average", sharding_group_size=8, sync_every=2)
    refused(BinaryError, "averages no state of adam", sharding_group_size=4, optimizer="adam")
    cached = {"a": ParameterConstraints(compute_kernels=["fused_uvm_caching"])}
    topology = Topology(world_size=8, local_world_size=4, compute_device="cuda")
    refused(
        BinaryError,
        "host_cached alone",
        sharding_group_size=4,
        topology=topology,
        profile=None,
        constraints=cached,
    )


def test_a_topology_of_a_group_is_refused(binary: str, tmp_path: Path) -> None:
    topology = Topology(world_size=2, local_world_size=2, compute_device="cpu")
    one = NeuroShardPlanner(topology, binary=binary)

    class Group:
        def size(self) -> int:
            return 4

    with pytest.raises(InputError, match=r"2 ranks, and the process group has 4") as e:
        one._ranks(Group())  # type: ignore[arg-type]
    assert "sharding_group_size=2" in str(e.value)


def test_ranks_of_groups_are_those_of_the_program() -> None:
    """By docs/TORCHREC.md: 8 ranks, 4 a host."""
    for size, inter_host, per_host in (
        (4, False, 2),
        (4, True, 4),
        (2, False, 1),
        (2, True, 2),
        (1, False, 1),
        (8, True, 4),
    ):
        found, problems = Groups.of(8, 4, size, inter_host)
        assert not problems and found.per_host == per_host, (size, inter_host)
    assert Groups.of(12, 4, 6, True)[1] and not Groups.of(12, 4, 6, False)[1]


def test_managed_collisions_are_refused() -> None:
    tables = [table("a", ["f_a"], embedding_dim=16)]
    inner = collection(*tables)
    managed = nn.Module()
    managed.module = ManagedCollisionEmbeddingBagCollection(inner, modules.collisions(tables))
    env = ShardingEnv.from_local(4, 0)
    for size, message in (
        (2, "averages would be of rows of different ids"),
        (4, "not in the plan"),
    ):
        plan = {"format": "neuroshard-torchrec-plan", "version": 1, "plan": {}}
        plan |= {"world_size": size, "local_size": size, "cluster": {"replicas": 4 // size}}
        options: Json = {"local_size": 4, "device_type": "cpu", "sharding_group_size": size}
        options["use_inter_host_allreduce"] = True
        with pytest.raises(PlanError, match=message) as e:
            load_plan(plan, managed, env, sharders=modules.sharders(), **options)
        assert ("different ids" in str(e.value)) == (size == 2)


def test_a_running_job_of_groups_is_refused(tmp_path: Path) -> None:
    of_groups = DMPCollection.__new__(DMPCollection)
    with pytest.raises(PlanError, match="is a DMPCollection, not a DistributedModelParallel"):
        reshard(of_groups, None, {})
    with pytest.raises(PlanError, match="is a DMPCollection, not a DistributedModelParallel"):
        StepTimes(of_groups, tmp_path / "times.jsonl")


# Loading.


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, binary: str) -> Path:
    """Plans of the program for 8 devices as 2 groups, and for 4 devices as one."""
    folder = tmp_path_factory.mktemp("files")
    tables = tables_from_model(model(), batch=512, pooling_factors=dict.fromkeys(FEATURES, 2.0))
    write_tables(tables, folder / "tables.json")
    common = ("plan", "tables.json", "--gpu", "a100-80", "--set", "devices_per_host=4")
    common += ("--engine", "torchrec", "--types", "table_wise,column_wise")
    two = (*common, "--gpus", "8", "--set", "replicas=2")
    neuroshard(binary, *two, "-o", "two.json", cwd=folder)
    neuroshard(binary, *two, "--set", "inter_host_allreduce", "-o", "between.json", cwd=folder)
    neuroshard(binary, *common, "--gpus", "4", "-o", "one.json", cwd=folder)
    neuroshard(binary, "convert", "two.json", "--to", "torchrec", "-o", "exported.json", cwd=folder)
    return folder


def loaded(path: Path, ranks: int = 8, size: int | None = 4, **options: Any) -> Any:
    env = ShardingEnv.from_local(ranks, 0)
    return load_plan(
        path, model(), env, local_size=4, device_type="cpu", sharding_group_size=size, **options
    )


def test_plans_of_groups_are_loaded(files: Path) -> None:
    for name in ("two.json", "exported.json"):
        plan = loaded(files / name)
        assert {r for p in plan.plan["embeddings"].values() for r in p.ranks} <= set(range(4))
    assert loaded(files / "between.json", use_inter_host_allreduce=True)
    assert loaded(files / "one.json", ranks=4)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("two.json", {"size": None}, "one of 2 sharding groups of 4 ranks"),
        ("two.json", {"size": None, "ranks": 4}, "one of 2 sharding groups of 4 ranks"),
        ("exported.json", {"size": None}, "one of 2 sharding groups of 4 ranks"),
        (
            "two.json",
            {"size": 2},
            "2 sharding groups of 4 ranks .* there are 4 sharding groups of 2 ranks",
        ),
        ("two.json", {"ranks": 16}, "2 sharding groups of 4 ranks .*, and there are 4"),
        ("one.json", {}, "1 sharding groups of 4 ranks .*, and there are 2"),
        (
            "between.json",
            {},
            "4 consecutive ranks, 4 .* there are 2 sharding groups of 4 ranks whose",
        ),
        (
            "two.json",
            {"use_inter_host_allreduce": True},
            "4 ranks whose replicas are neighbours, .* 4 consecutive ranks",
        ),
        ("two.json", {"size": 3}, "sharding_group_size 3 does not divide the 8 ranks"),
    ],
)
def test_plans_of_other_groups_are_refused(
    files: Path, name: str, options: Json, message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        loaded(files / name, **options)


def test_a_host_of_other_ranks_is_refused(files: Path) -> None:
    env = ShardingEnv.from_local(8, 0)
    with pytest.raises(PlanError, match=r"2 of a group on each host, .* 4 of a group on each host"):
        load_plan(
            files / "two.json", model(), env, local_size=8, device_type="cpu", sharding_group_size=4
        )


# Training.


def of_kinds(turn: int, fourth: str) -> Json:
    """The planner of a case: its tables take turns in the sharding types, from ``turn`` on.
    Every fifth one is replicated in all cases, because its optimizer is another one."""
    kinds = ("row_wise", "column_wise", "table_wise", fourth)
    constraints = {"sparse.weighted/t3": "table_wise", "v": "column_wise"}
    for i, config in enumerate(ranks.configs()):
        kind = "data_parallel" if i % 5 == 2 else kinds[(i + turn) % 4]
        if config.pooling is PoolingType.MEAN and kind in ("row_wise", "table_row_wise"):
            kind = "column_wise"
        constraints["sparse.plain/t3" if config.name == "t3" else config.name] = kind
    of_one = {f: 1.0 for c in ranks.configs() for f in c.feature_names}
    # One table takes longer than all others together, so its columns are cut.
    cut = [c for c in ranks.configs() if constraints.get(c.name) == "column_wise"]
    busiest = max(cut, key=lambda c: c.embedding_dim).feature_names[0]
    return {
        "profile": "a100-80",
        "batch_per_rank": 16384,  # for the plan; training uses smaller batches
        "pooling_factors": of_one | {busiest: 160.0, "w0": 1.0, "w1": 1.0},
        "constraints": {name: {"sharding_types": [kind]} for name, kind in constraints.items()},
        "arguments": ["--types", "all", "--set", "baselines=false"],
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, binary: str) -> list[Json]:
    folder = tmp_path_factory.mktemp("twod")
    checkpoint = str(folder / "checkpoint")
    goes_on: Json = {"optimizer": "adagrad", "resume": checkpoint}
    rows, hosts = "row_wise", "table_row_wise"
    groups: Json = {"shard": twod.shard, "sharding_group_size": 2, "per_host": 1}
    groups |= {"use_inter_host_allreduce": False}
    training: list[Json] = [
        groups | {"name": "neighbours", "planner": of_kinds(0, rows)},
        {
            **groups,
            "name": "between hosts",
            "use_inter_host_allreduce": True,
            "per_host": 2,
            "planner": {**of_kinds(1, hosts), "keep": str(folder)},
            "file": str(folder / "plan.json"),
        },
    ]
    stored: list[Json] = [
        groups
        | {"name": "save", "optimizer": "adagrad", "planner": of_kinds(0, rows)}
        | {"save": checkpoint},
        groups | goes_on | {"name": "another plan", "planner": of_kinds(2, rows)},
        {**goes_on, "name": "no groups", "plan": "neuroshard", "planner": of_kinds(3, hosts)},
    ]

    def run(case: Json, recipe: Json) -> Json:
        return ranks.run(case) if case in training else checkpoints.run(case, recipe)

    return ranks.trained(run, [*training, *stored], ranks.recipe())


@pytest.mark.parametrize("name", ["neighbours", "between hosts"])
def test_groups_train_as_the_whole_model(trained: list[Json], name: str) -> None:
    results = [of[name] for of in trained]
    want = {"row_wise", "column_wise", "table_wise", "data_parallel"}
    want |= {"table_row_wise"} if name == "between hosts" else set()
    for result in results:
        assert {t["kind"] for t in result["plan"].values()} == want
        assert result["losses"] == pytest.approx(results[0]["reference"], rel=LOSS)
    assert max(results[0]["off"].values()) < TENSORS


def test_a_checkpoint_goes_on_under_another_plan(trained: list[Json]) -> None:
    """With the same groups the losses are those without an interruption."""
    for of in trained:
        assert of["another plan"]["plan"] != of["save"]["plan"]
        assert of["another plan"]["off"] == 0
        assert of["another plan"]["after"] == pytest.approx(of["save"]["after"], rel=LOSS)


def test_a_checkpoint_is_read_without_groups(trained: list[Json]) -> None:
    """Weights and optimizer states are what was stored, to the bit."""
    for of in trained:
        assert of["no groups"]["off"] == 0
