"""TorchRec's own seams: its orchestrators with our PlannerProvider, and a PlanCache.

test_torchrec_fingerprint.py has the hashes, test_torchrec_arch.py models that TorchRec stores.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torchrec.distributed.planner.provider", reason="SKIPPED: TorchRec before 1.9")

import torchrec_ranks as ranks
from test_torchrec_tables import collection, sample, table
from torch import nn
from torchrec import KeyedJaggedTensor
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner.api import ProductionPlannerOrchestrator
from torchrec.distributed.planner.dry_run import (
    CacheMetadata,
    DryRunOrchestrator,
    DryRunRequest,
    PlanCache,
    SkuOverride,
)
from torchrec.distributed.planner.executor import DefaultPlannerExecutor
from torchrec.distributed.planner.provider import PlannerProvider
from torchrec.distributed.planner.storage_reservations import (
    FixedAbsoluteStorageReservation,
    HeuristicalStorageReservation,
)
from torchrec.distributed.planner.types import (
    ParameterConstraints,
    PlannerConfig,
    PlannerSessionContext,
    PlannerVariant,
    ShardingPlanRequest,
    StorageReservationPolicy,
)
from torchrec.distributed.types import ShardingPlan

import neuroshard_torchrec
from neuroshard_torchrec import (
    InputError,
    NeuroShardPlannerConfig,
    NeuroShardPlannerProvider,
    TorchRecVersionError,
)

RANKS = 2
SKU = "CPU"
TABLES = {"a": (100, 8), "b": (300, 16), "c": (50, 32), "d": (400, 8)}
FACTORS = dict.fromkeys(TABLES, 2.0)


def model() -> nn.Module:
    own = (table(n, num_embeddings=r, embedding_dim=d) for n, (r, d) in TABLES.items())
    return nn.ModuleDict({"embeddings": collection(*own)})


def batch(length: int) -> KeyedJaggedTensor:
    return sample({name: [length] * 16 for name in TABLES})


def planned() -> dict[str, Any]:
    """Plans by TorchRec's orchestrator on this rank."""
    request = ShardingPlanRequest(
        model=model(),
        sharders=[EmbeddingBagCollectionSharder()],
        world_size=RANKS,
        local_world_size=RANKS,
        batch_size=16,
        compute_device="cpu",
        planner_config=NeuroShardPlannerConfig(options={"sample": batch(2)}),
    )
    executor = DefaultPlannerExecutor(NeuroShardPlannerProvider())
    context = PlannerSessionContext(request=request, results={})
    result = ProductionPlannerOrchestrator(executor, SKU).plan(request, context)[SKU]
    assert result.success, result.planner_failure_reason
    return {
        "plan": str(result.sharding_plan),
        "planning": result.is_planning_rank,
        "options": sorted(o.fqn for o in result.sharding_options),
        "bytes": result.estimated_max_ddr_bytes,
    }


def test_two_ranks_plan_by_torchrecs_orchestrator(binary: str) -> None:
    seen = ranks.on_ranks(RANKS, planned)
    assert seen[0]["plan"] == seen[1]["plan"]
    assert [s["planning"] for s in seen] == [True, False]
    # TorchRec's executor has the options of the plan, and what they take, on the first rank.
    assert seen[0]["options"] == [f"embeddings.{name}" for name in sorted(TABLES)]
    assert seen[0]["bytes"] > 0 and seen[1]["options"] == []


def request(
    binary: str | Path, options: dict[str, Any] | None = None, **stated: Any
) -> DryRunRequest:
    config = stated.pop("config", {})
    ours = {"pooling_factors": FACTORS, "binary": binary} | (options or {})
    fields: dict[str, Any] = {
        "model": model(),
        "sharders": [EmbeddingBagCollectionSharder()],
        "sku_list": ["A100", "V100"],
        "training_framework": "apf",
        "world_size": RANKS,
        "local_world_size": RANKS,
        "batch_size": 64,
        "planner_config": NeuroShardPlannerConfig(options=ours, **config),
    }
    return DryRunRequest(**(fields | stated))


def dry_run(asked: DryRunRequest) -> tuple[Any, PlannerSessionContext]:
    context = PlannerSessionContext(request=asked, results={})
    orchestrator = DryRunOrchestrator(DefaultPlannerExecutor(NeuroShardPlannerProvider()))
    return orchestrator.plan(asked, context), context


def test_a_dry_run_has_a_profile_and_a_memory_for_each_sku(binary: str, tmp_path: Path) -> None:
    profiles = {"A100": "a100-80", "V100": "v100-32"}
    overrides = {"A100": SkuOverride(hbm_gb=80), "V100": SkuOverride(hbm_gb=32)}
    asked = request(
        binary,
        {"profile": profiles, "keep": tmp_path},
        per_sku_overrides=overrides,
        storage_reservation=FixedAbsoluteStorageReservation.from_gb(5),
        capture_search_space=True,
    )
    results, context = dry_run(asked)
    assert all(r.success for r in results.values()), results
    for sku, size in (("A100", 80), ("V100", 32)):
        assert results[sku].request_fingerprint == asked.fingerprint(sku)
        assert {o.fqn for o in results[sku].sharding_options} == {
            f"embeddings.{name}" for name in TABLES
        }
        assert {d.storage.hbm for d in context.topology_cache[sku, 2, 2].devices} == {size << 30}
        assert len(context.search_space[sku]) > len(TABLES)
    kept = json.loads((tmp_path / "plan.json").read_text())["cluster"]  # of the last SKU
    assert kept["profile"] == "v100-32"
    assert (kept["device_memory_bytes"], kept["reserve_bytes"]) == (32 << 30, 5 << 30)


def test_what_the_request_states_is_used(binary: str, tmp_path: Path) -> None:
    asked = request(
        binary,
        {"keep": tmp_path},
        sku_list=["A100"],
        hbm_gb=1,
        batch_size=96,
        constraints={"a": ParameterConstraints(sharding_types=["row_wise"])},
        config={
            "storage_reservation_percentage": 0.25,
            "dense_tensor_estimate": 1000,
            "timeout_seconds": 1,
        },
    )
    results, context = dry_run(asked)
    (a,) = (o for o in results["A100"].sharding_options if o.fqn == "embeddings.a")
    assert a.sharding_type == "row_wise"
    assert json.loads((tmp_path / "tables.json").read_text())["batch"] == 2 * 96
    kept = json.loads((tmp_path / "plan.json").read_text())["cluster"]
    used = context.storage_reservations_used["A100"]
    assert isinstance(used, HeuristicalStorageReservation)
    left = used.last_reserved_topology.devices[0].storage.hbm
    assert kept["device_memory_bytes"] - kept["reserve_bytes"] == left < (3 << 30) // 4


def test_nothing_fits_is_a_failed_result(binary: str) -> None:
    keeps = FixedAbsoluteStorageReservation((1 << 30) - 1000)
    results, _ = dry_run(request(binary, sku_list=["A100"], hbm_gb=1, storage_reservation=keeps))
    assert not results["A100"].success
    assert results["A100"].planner_error_type.name == "INSUFFICIENT_STORAGE"


class Cache:
    """A PlanCache as a user has one: files by the fingerprint of a request."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, request_fingerprint: str) -> tuple[ShardingPlan, CacheMetadata] | None:
        path = self._folder / request_fingerprint
        return pickle.loads(path.read_bytes()) if path.exists() else None

    def put(self, request_fingerprint: str, plan: ShardingPlan, metadata: CacheMetadata) -> None:
        (self._folder / request_fingerprint).write_bytes(pickle.dumps((plan, metadata)))


def cached(cache: PlanCache, asked: DryRunRequest) -> tuple[ShardingPlan, bool]:
    """Returns the plan of a request for the A100, and whether it was kept before."""
    key = asked.fingerprint("A100")
    if (hit := cache.get(key)) is not None:
        return hit[0], True
    result = dry_run(asked)[0]["A100"]
    assert result.success, result.planner_failure_reason
    cache.put(key, result.sharding_plan, CacheMetadata(sku="A100", world_size=2))
    return result.sharding_plan, False


def test_a_plan_cache_keeps_plans_by_all_that_changes_them(binary: str, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert isinstance(cache, PlanCache)

    def ask(options: dict[str, Any] | None = None, **stated: Any) -> tuple[ShardingPlan, bool]:
        return cached(cache, request(binary, options, sku_list=["A100"], **stated))

    plan, hit = ask()
    assert not hit
    # The same request, made anew: the plan as it was, with all fields of the kernels.
    assert ask() == (plan, True)
    assert ask({"binary": "/does/not/exist", "timeout": 7, "keep": tmp_path}) == (plan, True)
    # What the plan depends on has another plan, or at least another entry.
    types = ["--types", "table_wise"]
    other, hit = ask({"arguments": types})
    assert not hit and other != plan
    kept = {request(binary).fingerprint("A100")}
    for options in (
        {"arguments": types},
        {"profile": "a100-80"},
        {"sample": batch(2)},
        {"sample": batch(3)},
        {"pooling_factors": FACTORS | {"a": 3.0}},
        {"optimizer": "adagrad"},
        {"access": {"a": {"zipf": 1.2}}},
        {"ignore": ["dense"]},
    ):
        kept.add(request(binary, options).fingerprint("A100"))
    kept.add(request(binary, batch_size=65).fingerprint("A100"))
    assert len(kept) == 10
    # A plan of TorchRec's own planner is another entry, too.
    assert request(binary, planner_config=PlannerConfig()).fingerprint("A100") not in kept


@pytest.mark.parametrize(
    ("stated", "message", "hint"),
    [
        ({"planner_config": PlannerConfig()}, "is of type PlannerConfig", "=NeuroShardPlannerC"),
        (
            {"config": {"planner_variant": PlannerVariant.LINEAR_PROGRAMMING}},
            'planner_variant "linear_programming" has no effect',
            "leave it out",
        ),
        ({"config": {"partitioner_type": "memory_balanced"}}, "partitioner_type", "method="),
        ({"config": {"proposer_type": "dynamic_col_dim"}}, "proposer_type", "method="),
        ({"config": {"use_hardware_based_compute": True}}, "use_hardware_based", "profile"),
        ({"config": {"bwd_compute_multiplier": 3.0}}, "bwd_compute", "build_topology"),
        (
            {"config": {"storage_reservation_policy": StorageReservationPolicy.SKU_AWARE}},
            'storage_reservation_policy "sku_aware" has no effect',
            "storage_reservation= of the request",
        ),
        (
            {
                "config": {
                    "storage_reservation_policy": StorageReservationPolicy.FIXED_PERCENTAGE,
                    "dense_tensor_estimate": 5,
                }
            },
            "dense_tensor_estimate 5 has no effect",
            "storage_reservation= of the request",
        ),
        (
            {
                "config": {"storage_reservation_percentage": 0.5},
                "storage_reservation": FixedAbsoluteStorageReservation(5),
            },
            "storage_reservation_percentage 0.5 has no effect",
            "storage_reservation= of the request",
        ),
        (
            {"per_sku_overrides": {"A100": SkuOverride(intra_host_bw=300)}},
            'intra_host_bw of "A100" is 300',
            "override build_topology",
        ),
        ({"options": {"profile": "a100-80"}}, "hbm_gb of the request is not", "state hbm_gb"),
        (
            {"options": {"profile": {"H100": "h100-80"}}, "hbm_gb": 80},
            'profile: there is none of SKU "A100"',
            "H100",
        ),
    ],
)
def test_requests_that_are_refused(stated: dict[str, Any], message: str, hint: str) -> None:
    asked = request("/does/not/exist", sku_list=["A100"], **stated)
    provider = NeuroShardPlannerProvider()
    context = PlannerSessionContext(request=asked, results={})
    with pytest.raises(InputError) as e:
        DefaultPlannerExecutor(provider).run("A100", context)
    (problem,) = e.value.problems
    assert message in problem.message and hint in problem.hint
    assert isinstance(provider, PlannerProvider)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("constraints", "The request itself states"),
        ("callbacks", "fingerprint"),
        ("profil", 'did you mean "profile"?'),
    ],
)
def test_options_that_are_refused(name: str, hint: str) -> None:
    with pytest.raises(InputError) as e:
        NeuroShardPlannerConfig(options={name: None, "profile": "a100-80"})
    (problem,) = e.value.problems
    assert name in problem.message and hint in problem.hint


def test_a_token_is_not_shown() -> None:
    assert "secret" not in repr(NeuroShardPlannerConfig(options={"token": "secret"}))


def test_releases_without_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "neuroshard_torchrec.provider")
    monkeypatch.delattr(neuroshard_torchrec, "provider")
    monkeypatch.setitem(sys.modules, PlannerProvider.__module__, None)
    with pytest.raises(
        TorchRecVersionError, match=r"NeuroShardPlannerProvider needs TorchRec 1\.9"
    ):
        from neuroshard_torchrec import NeuroShardPlannerProvider  # noqa: F401
    with pytest.raises(AttributeError, match="no attribute 'another'"):
        neuroshard_torchrec.another  # noqa: B018
