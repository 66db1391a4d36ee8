"""The arguments and the habits of TorchRec's planner: NeuroShardPlanner has the same.

torchrec_shim.py runs TorchRec's own tests of its planner; here is what they do not look at.
"""

from __future__ import annotations

import json
import logging
import pickle
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from test_torchrec_tables import collection, table
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.partitioners import (
    GreedyPerfPartitioner,
    MemoryBalancedPartitioner,
)
from torchrec.distributed.planner.perf_models import NoopStorageModel
from torchrec.distributed.planner.planners import EmbeddingPlannerBase
from torchrec.distributed.planner.proposers import (
    DynamicProgrammingProposer,
)
from torchrec.distributed.planner.shard_estimators import EmbeddingStorageEstimator
from torchrec.distributed.planner.stats import EmbeddingStats
from torchrec.distributed.planner.storage_reservations import FixedPercentageStorageReservation
from torchrec.distributed.planner.types import (
    ParameterConstraints,
    PlannerError,
    PlannerErrorType,
    Stats,
    Topology,
)
from torchrec.distributed.types import ShardingPlan
from torchrec.modules.embedding_configs import DataType

from neuroshard_torchrec import (
    BinaryError,
    FixedTable,
    InputError,
    NeuroShardPlanner,
    Problem,
    fingerprint,
)

MODEL = collection(*(table(f"t{i}", embedding_dim=64, num_embeddings=1000) for i in range(4)))
SHARDERS = [EmbeddingBagCollectionSharder()]
TOKEN = "tok-5f1e2d-8a7b6c5d"
AUTO = {"sharding_group_size": "auto"}
BESIDE = {"torchrec_baseline": True}


def topology(**options: Any) -> Topology:
    fields: dict[str, Any] = {"world_size": 2, "compute_device": "cuda"}
    return Topology(**(fields | options))


COUNTS = EmbeddingStorageEstimator(topology())


PROFILE = {"profile": "a100-80"}
START = "allocated_bytes.all.current"
SHORT_RUN = {
    START: 1000,
    "allocated_bytes.all.peak": 3000,
    "reserved_bytes.all.peak": 3200,
}


def measured(key: str, value: Any = None) -> dict[str, Any]:
    """The options of a short run in which one key has another value, or is missing."""
    run = {k: v for k, v in SHORT_RUN.items() if k != key}
    return PROFILE | {"measured_memory": run if value is None else run | {key: value}}


def small() -> Any:
    return FixedPercentageStorageReservation(percentage=0.0)


def test_the_arguments_are_torchrecs() -> None:
    theirs = list(signature(EmbeddingShardingPlanner.__init__).parameters)
    assert list(signature(NeuroShardPlanner.__init__).parameters)[: len(theirs)] == theirs
    base = set(signature(EmbeddingPlannerBase.__init__).parameters)
    assert base <= set(signature(NeuroShardPlanner.__init__).parameters)
    assert isinstance(NeuroShardPlanner(), EmbeddingPlannerBase)


def test_a_plan_for_a_topology(binary: str, tmp_path: Path) -> None:
    planner = NeuroShardPlanner(
        topology(world_size=4, local_world_size=2), 128, binary=binary, keep=tmp_path
    )
    plan = planner.plan(MODEL, SHARDERS)
    assert set(plan.plan[""]) == {"t0", "t1", "t2", "t3"}
    kept = json.loads((tmp_path / "plan.json").read_text())
    cluster = kept["cluster"]
    assert (cluster["devices"], cluster["devices_per_host"]) == (4, 2)
    assert cluster["batch"] == 4 * 128
    assert "torchrec" in json.dumps(kept["provenance"])
    assert (planner._num_proposals, planner._num_plans) == (1, 1)


def test_an_empty_plan_for_no_sharders() -> None:
    planner = NeuroShardPlanner(topology())
    assert planner.plan(MODEL, []) == ShardingPlan({})
    assert planner._best_plan is None


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"enumerator": object()}, "enumerator is of type object", "--types"),
        (
            {"enumerator": EmbeddingEnumerator(topology(), 8, estimator=COUNTS)},
            "estimators of its own (EmbeddingStorageEst",
            "method=",
        ),
        ({"proposer": DynamicProgrammingProposer()}, "DynamicProgrammingProposer", "method="),
        ({"partitioner": MemoryBalancedPartitioner()}, "MemoryBalancedPart", "method="),
        (
            {"partitioner": GreedyPerfPartitioner(balance_modules=True)},
            "balances each module",
            "leave balance_modules out",
        ),
        (
            {"performance_model": NoopStorageModel(topology())},
            "NoopStorageModel, which the search does not ask",
            "profile= or",
        ),
        ({"timeout_seconds": 5, "from_plan": "p.json"}, "from_plan are both", "one of them"),
        ({"timeout_seconds": 5, "url": "http://127.0.0.1:1"}, "url are both", "one of them"),
        ({"url": "http://h", "binary": "neuroshard"}, "binary and url are", "one of them"),
        (
            {"profile": "a100-80", "storage_reservation": small()},
            "storage_reservation: the memory of the devices is that of the profile",
            "topology= as well",
        ),
        (
            {"profile": "a100-80", "heuristical_storage_reservation_percentage": 0.9},
            "heuristical_storage_reservation_percentage: the memory of the devices is that of",
            "reserve_share=",
        ),
        ({"batch_size": 8, "batch_per_rank": 9}, "8 and batch_per_rank 9 differ", "leave out one"),
        ({"topology": topology(), "world_size": 3}, "world_size 3 is not that", "leave world"),
        ({"topology": topology(), "device_type": "cpu"}, 'device_type "cpu" is not', "leave dev"),
        ({"sharding_group_size": "most"}, '"most" is not a number', '"auto"'),
        ({"sync_every": 5}, "sync_every is given without sharding_group_size", "pass shard"),
        ({"use_inter_host_allreduce": True}, "given without sharding_group_size", "pass shard"),
        (
            {"sharding_group_size": 4, "enumerator": EmbeddingEnumerator(topology(), 64)},
            "sharding_group_size and enumerator are both",
            "one of them",
        ),
        (AUTO | {"url": "http://h:1"}, "url is for", "pass the size"),
        (AUTO | {"from_plan": "p"}, "from_plan is for", "pass the size"),
        (AUTO | {"plan_loader": object()}, "plan_loader is for", "pass the size"),
        (AUTO | {"torchrec_baseline": True}, "torchrec_baseline is for", "pass the size"),
        (BESIDE | {"url": "http://127.0.0.1:7878"}, "baseline and url", "one of them"),
        (BESIDE | {"from_plan": "p", "max_bytes": "5%"}, "baseline and max_bytes", "one of them"),
        (BESIDE | {"plan_loader": object()}, "baseline and plan_loader", "one of them"),
        (BESIDE | {"fixed": {"t0": FixedTable(0)}}, "baseline and fixed", "one of them"),
        ({"max_bytes": "5%"}, "max_bytes is given without from_plan", "pass from_plan="),
        ({"arguments": ["--set", "replicas=2"]}, "option of the planner", "sharding_group_size="),
        ({"arguments": ["--set", "pipeline=base"]}, "option of the planner", "pass pipeline="),
        ({"pipeline": EmbeddingEnumerator}, "is no pipeline of TorchRec", "TrainPipelineBase, or"),
        ({"pipeline": 3}, "pipeline 3 is no pipeline", "prefetch, semi-sync, sparse-dist, base or"),
        ({"measured_memory": 3} | PROFILE, "measured_memory 3 is no mapping", "memory_stats()"),
        ({"measured_memory": []} | PROFILE, "measured_memory [] is no mapping", "memory_stats()"),
        ({"measured_memory": [SHORT_RUN, 3]} | PROFILE, "of rank 1 is 3, which is", "memory_stats"),
        (measured("reserved_bytes.all.peak"), '"reserved_bytes.all.peak" is missing', "few steps"),
        (measured(START, -1), f'"{START}" -1 is no number of bytes', "few steps"),
        (measured(START, True), f'"{START}" True is no number of bytes', "few steps"),
        (measured(START, 3000), "peak, 3000 bytes, is not above the 3000 at", "few steps"),
        (measured("reserved_bytes.all.peak", 9), "peak, 9 bytes, is below the alloc", "few steps"),
        (
            {"measured_memory": SHORT_RUN, "arguments": ["--set", "allocator_overhead=0"]}
            | PROFILE,
            "measured_memory is given, and arguments state allocator_overhead",
            "one of them",
        ),
        ({"measured_memory": SHORT_RUN}, "which counts no allocator", "pass profile="),
        (
            {"measured_memory": SHORT_RUN, "arguments": ["--set=accounting=torchrec"]} | PROFILE,
            "which counts no allocator",
            "accounting=all",
        ),
        ({"arguments": ["--set=sync_every=2"]}, "option of the planner", "sync_every="),
        ({"token": TOKEN}, "token is given without url", "pass url="),
        ({"token_file": "f"}, "token_file is given without url", "pass url="),
        ({"name": "a"}, "name is given without url", "pass url="),
        ({"url": "127.0.0.1:7878"}, "is not an address of http or https", "serve"),
        ({"url": "file:///etc/passwd"}, "is not an address of http or https", "serve"),
        ({"url": "http://"}, "is not an address of http or https", "serve"),
        ({"url": f"http://me:{TOKEN}@h/"}, "url holds a name or a password", "token_file="),
        ({"url": "http://h", "token": TOKEN, "token_file": "f"}, "token and token_file", "one of"),
        ({"url": "http://h", "token": ""}, "token is empty", "started with"),
        ({"url": "http://h", "token": TOKEN + "\r\nX: 1"}, "holds what no token has", "started"),
    ],
)
def test_what_is_refused(options: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(InputError) as e:
        NeuroShardPlanner(**options)
    (problem,) = e.value.problems
    assert message in problem.message and hint in problem.hint
    assert TOKEN not in str(e.value)


def test_the_overhead_of_a_short_run(binary: str, tmp_path: Path) -> None:
    other = SHORT_RUN | {"reserved_bytes.all.peak": 3626}
    for measured, want in (
        (SHORT_RUN, 0.1),
        ([SHORT_RUN, other], 0.313),
        ([SHORT_RUN | {"reserved_bytes.all.peak": 3000}], None),
    ):
        planner = NeuroShardPlanner(
            profile="a100-80",
            batch_per_rank=64,
            world_size=2,
            measured_memory=measured,
            binary=binary,
            keep=tmp_path,
        )
        planner.plan(MODEL)
        plan = json.loads((tmp_path / "plan.json").read_text())
        assert plan["cluster"].get("allocator_overhead") == want
        memory = plan["devices"][0]["memory"]
        assert ("allocator_bytes" in memory) == (want is not None)
    more = dict(SHORT_RUN, other=3)
    assert fingerprint.of({"measured_memory": more}) == fingerprint.of(
        {"measured_memory": [SHORT_RUN]}
    )
    assert fingerprint.of({"measured_memory": other}) != fingerprint.of({"measured_memory": more})


def test_an_enumerators_batch_and_constraints_count(binary: str, tmp_path: Path) -> None:
    limits = {"t0": ParameterConstraints(sharding_types=["row_wise"])}
    enumerator = EmbeddingEnumerator(topology(), batch_size=64, constraints=limits)
    planner = NeuroShardPlanner(topology(), enumerator=enumerator, binary=binary, keep=tmp_path)
    assert planner.plan(MODEL).plan[""]["t0"].sharding_type == "row_wise"
    assert json.loads((tmp_path / "tables.json").read_text())["batch"] == 2 * 64
    other = {"t0": ParameterConstraints(sharding_types=["table_wise"])}
    with pytest.raises(InputError) as e:
        NeuroShardPlanner(
            topology(world_size=4), 32, constraints=other, enumerator=enumerator
        ).plan(MODEL)
    assert [p.message.split(" ")[0] for p in e.value.problems] == [
        "batch_size",
        "constraints",
        "topology",
    ]


def test_callbacks_get_and_make_the_plan(binary: str) -> None:
    seen: list[list[Any]] = []

    def swap(chosen: list[Any]) -> list[Any]:
        seen.append(chosen)
        for option in chosen:
            for shard in option.shards:
                shard.rank = 1 - shard.rank
        return chosen

    usual = NeuroShardPlanner(topology(), binary=binary).plan(MODEL, SHARDERS)
    planner = NeuroShardPlanner(topology(), callbacks=[swap], binary=binary)
    plan = planner.plan(MODEL, SHARDERS)
    (chosen,) = seen
    assert [o.name for o in chosen] == ["t0", "t1", "t2", "t3"]
    for option in chosen:
        assert option.path == "" and option.tensor.shape == (1000, 64)
        for shard in option.shards:
            assert shard.perf.total > 0 and shard.storage.hbm >= 1000 * 64 * 4 // len(option.shards)
    for name, placed in plan.plan[""].items():
        assert placed.ranks == [1 - r for r in usual.plan[""][name].ranks]
    assert planner._best_plan is chosen


@pytest.mark.parametrize("rank", [None, -1, 2])
def test_a_callback_that_names_no_rank(binary: str, rank: int | None) -> None:
    def away(chosen: list[Any]) -> list[Any]:
        chosen[1].shards[0].rank = rank
        return chosen

    with pytest.raises(PlannerError, match=f'"t1": shard 0 has the rank {rank}, which') as e:
        NeuroShardPlanner(topology(), callbacks=[away], binary=binary).plan(MODEL)
    assert e.value.error_type is PlannerErrorType.INVALID_RANK_ASSIGNMENT
    assert isinstance(e.value, InputError)


def test_other_ranks_raise_the_error_of_rank_0() -> None:
    e = BinaryError([Problem("a is wrong", "state another")], PlannerErrorType.PARTITION)
    e.nothing_fits = True
    there = pickle.loads(pickle.dumps(e))
    assert type(there) is BinaryError and there.problems == e.problems and there.nothing_fits
    assert there.error_type is PlannerErrorType.PARTITION and str(there) == str(e)


def test_a_plan_of_callbacks_is_that_of_the_group(binary: str, tmp_path: Path) -> None:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        planner = NeuroShardPlanner(callbacks=[list], binary=binary, device_type="cuda")
        plan = planner.collective_plan(MODEL, SHARDERS)
        assert [p.ranks for p in plan.plan[""].values()] == [[0]] * 4
        assert planner._topology.world_size == 1
        with pytest.raises(PlannerError, match="broken"):
            NeuroShardPlanner(callbacks=[broken], binary=binary).collective_plan(MODEL, SHARDERS)
        assert planner.collective_plan(MODEL, []) == ShardingPlan({})
    finally:
        dist.destroy_process_group()


def test_all_ranks_have_the_settings_of_rank_0(
    binary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels of other settings on other ranks would exchange other bytes. As in TorchRec, the
    constraints of rank 0 count."""
    told: list[Any] = []

    def alone(_: Any, failure: Exception | None) -> None:
        assert failure is None

    def from_rank_0(objects: list[Any], **_: Any) -> None:
        objects[0] = told[0]

    stated = ParameterConstraints(stochastic_rounding=False, output_dtype=DataType.FP16)
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        options: dict[str, Any] = {"binary": binary, "device_type": "cuda"}
        first = NeuroShardPlanner(constraints={"t1": stated}, **options)
        monkeypatch.setattr(dist, "broadcast_object_list", lambda o, **_: told.extend(o))
        want = first.collective_plan(MODEL, SHARDERS)
        monkeypatch.setattr(dist, "broadcast_object_list", from_rank_0)
        other = ParameterConstraints(stochastic_rounding=True)
        for own in (None, {"t1": other, "t2": other}):
            second = NeuroShardPlanner(constraints=own, **options)
            with monkeypatch.context() as m:
                m.setattr("neuroshard_torchrec.planner.dist.get_rank", lambda _: 1)
                m.setattr("neuroshard_torchrec.planner.together", alone)
                assert second.collective_plan(MODEL, SHARDERS) == want
        assert want.plan[""]["t1"].output_dtype is DataType.FP16
        assert want.plan[""]["t2"].stochastic_rounding is None
    finally:
        dist.destroy_process_group()


def broken(chosen: list[Any]) -> list[Any]:
    raise PlannerError(f"broken: {len(chosen)} tables")


class Kept(Stats):  # type: ignore[misc] # it is untyped
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def log(self, **options: Any) -> None:
        self.calls.append(options)


def test_stats_get_the_plan(binary: str) -> None:
    stats, table_of = Kept(), EmbeddingStats()
    planner = NeuroShardPlanner(topology(), 64, stats=[stats, table_of], binary=binary)
    plan = planner.plan(MODEL, SHARDERS)
    (call,) = stats.calls
    assert set(call) == set(signature(Stats.log).parameters) - {"self"}
    assert call["sharding_plan"] == plan and call["batch_size"] == 64 and call["debug"] is True
    assert call["best_plan"] is planner._best_plan
    assert any("t3" in line for line in table_of._stats_table)


def test_the_usual_stats_are_made_if_their_log_is_on(
    binary: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(EmbeddingStats, "log", lambda *_, **options: made.append(options))
    planner = NeuroShardPlanner(topology(), binary=binary)
    log = "torchrec.distributed.planner.stats"
    with caplog.at_level(logging.WARNING, logger=log):
        planner.plan(MODEL)
    assert made == []
    with caplog.at_level(logging.INFO, logger=log):
        planner.plan(MODEL)
    assert len(made) == 1


class Loader:
    """A PlanLoader of what it is given."""

    def __init__(self, hashed: str | None, chosen: list[Any] | None) -> None:
        self._hash, self._chosen = hashed, chosen

    def plan_context_hash(self) -> str | None:
        return self._hash

    def load(self) -> dict[int, Any] | None:
        return None if self._chosen is None else {o.storage_hash(): o for o in self._chosen}

    def get_plan_id(self) -> str:
        return "one"


def test_a_plan_of_torchrecs_planner_is_loaded() -> None:
    """Both planners have one hash for one problem, so a plan that one stored loads in the other:
    no program runs."""
    theirs = EmbeddingShardingPlanner(topology=topology(), batch_size=64)
    plan = theirs.plan(MODEL, SHARDERS)
    hashed = theirs.hash_planner_context_inputs_str()
    loader = Loader(hashed, theirs._best_plan)
    ours = NeuroShardPlanner(topology(), 64, plan_loader=loader, binary="/does/not/exist")
    assert ours.plan(MODEL, SHARDERS) == plan
    assert ours.hash_planner_context_inputs_str() == hashed
    assert ours.hash_planner_context_inputs() == theirs.hash_planner_context_inputs()
    for wrong, kind in (
        (Loader("another", None), PlannerErrorType.PLANNER_INPUT_CONTEXT_MISMATCH),
        (Loader(None, _renamed(theirs._best_plan)), PlannerErrorType.PLAN_LOADING_FAILED),
    ):
        with pytest.raises(PlannerError) as e:
            NeuroShardPlanner(topology(), 64, plan_loader=wrong).plan(MODEL, SHARDERS)
        assert e.value.error_type is kind


def _renamed(chosen: Any) -> list[Any]:
    chosen[0].name = "another"
    return list(chosen)


def test_a_hash_needs_a_plan() -> None:
    with pytest.raises(InputError, match=r"no hash before there is a plan\n  hint: call plan"):
        NeuroShardPlanner(topology()).hash_planner_context_inputs()


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    ("rows", "hbm", "kind"),
    [
        (1 << 14, 1 << 20, PlannerErrorType.INSUFFICIENT_STORAGE),
        (1 << 13, 3 << 20, PlannerErrorType.STRICT_CONSTRAINTS),
    ],
)
def test_why_nothing_fits(
    tmp_path: Path, binary: str, rows: int, hbm: int, kind: PlannerErrorType, again: bool
) -> None:
    model = collection(table("a", embedding_dim=128, num_embeddings=rows))
    limits = {"a": ParameterConstraints(sharding_types=["table_wise"], compute_kernels=["fused"])}

    def planner(hbm: int, **options: Any) -> NeuroShardPlanner:
        return NeuroShardPlanner(
            topology(hbm_cap=hbm),
            storage_reservation=small(),
            batch_size=8,
            constraints=limits,
            binary=binary,
            **options,
        )

    options: dict[str, Any] = {}
    if again:
        planner(1 << 30, keep=tmp_path).plan(model, SHARDERS)
        options = {"from_plan": tmp_path / "plan.json", "max_bytes": "1GB"}
    with pytest.raises(PlannerError) as e:
        planner(hbm, **options).plan(model, SHARDERS)
    assert e.value.error_type is kind
    assert isinstance(e.value, BinaryError) and "missing" in str(e.value)


def test_a_wrong_old_plan_is_no_lack_of_memory(tmp_path: Path, binary: str) -> None:
    old = tmp_path / "old.json"
    old.write_text("{}")
    with pytest.raises(PlannerError, match=r"old\.json") as e:
        NeuroShardPlanner(topology(), 64, from_plan=old, max_bytes="1GB", binary=binary).plan(
            MODEL, SHARDERS
        )
    assert e.value.error_type is PlannerErrorType.OTHER


def test_a_reservation_of_all_memory() -> None:
    with pytest.raises(PlannerError) as e:
        NeuroShardPlanner(topology(hbm_cap=1)).plan(MODEL, SHARDERS)
    assert e.value.error_type is PlannerErrorType.INSUFFICIENT_STORAGE
    everything = FixedPercentageStorageReservation(1)
    with pytest.raises(PlannerError, match="leaves nothing for tables") as e:
        NeuroShardPlanner(topology(), storage_reservation=everything).plan(MODEL, SHARDERS)
    assert e.value.error_type is PlannerErrorType.INSUFFICIENT_STORAGE
    assert isinstance(e.value, InputError)
