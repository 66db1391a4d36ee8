"""TorchRec's Topology and StorageReservations as arguments of neuroshard plan."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import Topology, storage_reservations
from torchrec.distributed.planner.storage_reservations import (
    FixedPercentageStorageReservation,
    HeuristicalStorageReservation,
    InferenceStorageReservation,
)
from torchrec.distributed.planner.types import (
    CustomTopologyData,
    ParameterConstraints,
    PlannerError,
)
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec_releases import NVLINK_DOMAINS

from neuroshard_torchrec import InputError, NeuroShardPlanner, service
from neuroshard_torchrec.topology import Cluster, of_group
from neuroshard_torchrec.topology import request as requested

SHARDERS: list[Any] = [EmbeddingBagCollectionSharder()]


def of_release(name: str, *arguments: Any, **options: Any) -> list[Any]:
    """Returns a reservation that only some releases have, none where this one lacks it."""
    kind = getattr(storage_reservations, name, None)
    return [] if kind is None else [kind(*arguments, **options)]


class Model(nn.Module):
    """A dense layer of 30 fp32 numbers beside one table."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(5, 5)
        config = EmbeddingBagConfig(
            name="t", embedding_dim=8, num_embeddings=100, feature_names=["f", "g"]
        )
        self.ebc = EmbeddingBagCollection(tables=[config], device=torch.device("meta"))


def topology(world_size: int = 8, **stated: Any) -> Topology:
    return Topology(
        **{"compute_device": "cuda", "hbm_cap": 1 << 30} | stated, world_size=world_size
    )


def request(where: Topology, reservation: Any, **others: Any) -> Cluster:
    return requested(where, reservation, 64, Model(), SHARDERS, None, **others)


def value(arguments: list[str], flag: str) -> str:
    (found,) = [text for name, text in service.words(arguments) if name == flag]
    return found


NONE = FixedPercentageStorageReservation(0)
GIB = 1 << 30
POD: dict[str, Any] = {"pod_size": 2} if NVLINK_DOMAINS else {}
SSD: dict[str, Any] = {"ssd_mem_bw": 5e9} if NVLINK_DOMAINS else {}


def of_ranks(count: int, **caps: list[int]) -> Topology:
    custom = CustomTopologyData(caps, count)
    return topology(count, local_world_size=2, custom_topology_data=custom)


CASES: dict[str, tuple[Topology, dict[str, Any]]] = {
    "devices and hosts": (
        topology(16, local_world_size=4, ddr_cap=1 << 20, **POD),
        {"gpus": "16", "devices_per_host": "4", "nvlink_domain": "8" if POD else None}
        | {"memory": f"{GIB}B", "reserve_share": "0", "reserve_fixed": "0B"}
        | {"host-memory": f"{4 << 20}B", "network_bandwidth": None, "hbm_bandwidth": None},
    ),
    "a host larger than the job": (
        topology(2, local_world_size=8, ddr_cap=1 << 20),
        {"devices_per_host": "2", "host-memory": f"{2 << 20}B", "nvlink_domain": None},
    ),
    "bandwidths": (  # in bytes a millisecond
        topology(intra_host_bw=3e8, inter_host_bw=5e7, hbm_mem_bw=2e9, hbm_to_ddr_mem_bw=2.5e7),
        {"link_bandwidth": "300000000000B/s", "network_bandwidth": "50000000000B/s"}
        | {"hbm_bandwidth": "2000000000000B/s", "host_link_bandwidth": "25000000000B/s"},
    ),
    "multipliers": (
        topology(bwd_compute_multiplier=3.5, weighted_feature_bwd_compute_multiplier=4),
        {"backward_multiplier": "3.5", "weighted_backward_multiplier": "4.0"},
    ),
    "ddr of CPUs": (
        topology(compute_device="cpu", ddr_mem_bw=2e8),
        {"hbm_bandwidth": "200000000000B/s", "host-memory": None},
    ),
    "TorchRec's ddr of CPUs": (topology(compute_device="cpu"), {"hbm_bandwidth": f"{51 << 30}B/s"}),
    "memories of devices": (
        of_ranks(4, hbm_cap=[GIB, 2 * GIB, 2 * GIB, 3 * GIB]),
        {"device_memories": f"0-0={GIB}B,1-2={2 * GIB}B,3-3={3 * GIB}B", "memory": None},
    ),
    "memories of hosts": (
        of_ranks(4, ddr_cap=[1 << 20, 1 << 20, 1 << 21, 1 << 21]),
        {"host_memories": f"0-0={2 << 20}B,1-1={2 << 21}B", "host-memory": None},
    ),
    "numbers that GPUs do not read": (
        topology(ddr_mem_bw=3e9, uneven_sharding_perf_multiplier=5.0, **SSD),
        {"warned": ["ddr_mem_bw", *SSD, "uneven_sharding_perf_multiplier"]},
    ),
    "numbers that CPUs do not read": (
        topology(compute_device="cpu", hbm_mem_bw=3e9, hbm_to_ddr_mem_bw=5e9),
        {"warned": ["hbm_mem_bw", "hbm_to_ddr_mem_bw"]},
    ),
    "ranks of a host that differ": (
        of_ranks(4, ddr_cap=[1 << 20, 1 << 20, 1 << 20, 1 << 21]),
        {"host-memory": f"{2 << 20}B", "warned": ["the ranks of host 1 have 1048576 to 2097152"]},
    ),
    "a host without ddr": (
        of_ranks(4, ddr_cap=[1 << 20, 1 << 20, 0, 0]),
        {"host-memory": None, "host_memories": None, "warned": ["host 1 has no ddr for tables"]},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_topology_is_arguments(name: str) -> None:
    where, want = CASES[name]
    found = request(where, NONE)
    warned = want.get("warned", [])
    for warning, part in zip(found.warnings, warned, strict=True):
        assert part in warning
    for flag, text in want.items():
        if flag != "warned":
            texts = [t for name, t in service.words(found.arguments) if name.strip("-") == flag]
            assert texts == ([] if text is None else [text]), flag


def test_costs_of_a_profile_read_less_of_a_topology() -> None:
    where = topology(inter_host_bw=50e6)  # TorchRec's formulas read it on one host, too
    found = request(where, NONE, formulas=False)
    assert "network_bandwidth" not in str(found.arguments)
    assert len(found.warnings) == 1 and "has no effect" in found.warnings[0]
    cpus = request(topology(compute_device="cpu"), NONE, formulas=False)
    assert "hbm_bandwidth" not in str(cpus.arguments)
    with pytest.raises(InputError) as e:
        request(topology(bwd_compute_multiplier=3.5), NONE, formulas=False)
    assert [p.message for p in e.value.problems] == ["topology: bwd_compute_multiplier is 3.5"]
    assert "host_memory" not in str(request(topology(), NONE, host_memory=False).arguments)


@pytest.mark.parametrize(
    "reservation",
    [
        FixedPercentageStorageReservation(0.3),
        HeuristicalStorageReservation(0.05, dense_tensor_estimate=12345),
        InferenceStorageReservation(0.1),
        *of_release("FixedAbsoluteStorageReservation", 12345),
    ],
)
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_reservations_leave_what_torchrec_leaves(reservation: Any, device: str) -> None:
    where = topology(compute_device=device, ddr_cap=1 << 29)
    model = Model()
    constraints = {"t": ParameterConstraints(pooling_factors=[2.0, 30.0])}
    arguments = requested(where, reservation, 64, model, SHARDERS, constraints).arguments
    left = reservation.reserve(where, 64, model, SHARDERS, constraints).devices[0].storage
    memory = int(value(arguments, "--memory")[:-1])
    free = memory - int(value(arguments, "reserve_fixed")[:-1])
    want = (1 << 29, left.ddr) if device == "cpu" else (1 << 30, left.hbm)
    assert (memory, free) == want
    assert ("--host-memory" in arguments) == (device == "cuda")


@pytest.mark.parametrize(
    "stated", [{"margin_bytes": 100}, {"margin_bytes": 0, "model_base_bytes": 7}]
)
def test_a_reservation_for_several_skus_leaves_what_torchrec_leaves(stated: Any) -> None:
    if not (found := of_release("SKUAwareStorageReservation", runtime_overhead_bytes=50, **stated)):
        pytest.skip("SKIPPED: TorchRec before 1.9 has no SKUAwareStorageReservation")
    (reservation,) = found
    arguments = request(topology(), reservation).arguments
    left = reservation.reserve(topology(), 64, Model(), SHARDERS).devices[0].storage.hbm
    # 30 numbers of 4 bytes six times in the dense layer, and indices.
    assert left < (1 << 30) - 50 - stated.get("model_base_bytes", 100 + 720)
    assert int(value(arguments, "reserve_fixed")[:-1]) == (1 << 30) - left
    with pytest.raises(PlannerError, match="leaving no hbm for sharded embedding"):
        request(topology(compute_device="cpu"), reservation)


def test_plans_take_all_that_a_fixed_reservation_leaves_and_no_byte_more(binary: str) -> None:
    def plan(reserved: int) -> Any:
        found = of_release("FixedAbsoluteStorageReservation", reserved)
        if not found:
            pytest.skip("SKIPPED: TorchRec before 1.7 has no FixedAbsoluteStorageReservation")
        only = ParameterConstraints(
            sharding_types=["table_wise"], compute_kernels=["fused"], pooling_factors=[1.0, 1.0]
        )
        planner = NeuroShardPlanner(
            topology(1), 64, storage_reservation=found[0], constraints={"t": only}, binary=binary
        )
        planner.plan(Model(), SHARDERS)
        return planner

    (option,) = plan(0)._best_plan
    taken = option.total_storage.hbm
    assert plan((1 << 30) - taken)._best_plan[0].total_storage.hbm == taken
    with pytest.raises(PlannerError, match="missing"):
        plan((1 << 30) - taken + 1)


def test_nothing_left() -> None:
    with pytest.raises(InputError, match="leaves nothing for tables"):
        request(topology(), FixedPercentageStorageReservation(1))
    for reservation in of_release("FixedAbsoluteStorageReservation", 1 << 40):
        with pytest.raises(InputError, match="pass a reservation that keeps less"):
            request(topology(), reservation)
    with pytest.raises(PlannerError, match="negative"):
        request(topology(hbm_cap=100), HeuristicalStorageReservation(0.15))


def test_each_rank_keeps_what_a_reservation_leaves_of_its_memory() -> None:
    where = of_ranks(4, hbm_cap=[GIB, 2 * GIB, 2 * GIB, 3 * GIB])
    reservation = FixedPercentageStorageReservation(0.25)
    arguments = request(where, reservation).arguments
    kept = int(value(arguments, "reserve_fixed")[:-1])
    left = [d.storage.hbm for d in reservation.reserve(where, 64, Model(), SHARDERS).devices]
    runs = [run.split("=") for run in value(arguments, "device_memories").split(",")]
    sizes = [int(size[:-1]) - kept for _, size in runs]
    assert kept == GIB // 4 and sizes == [left[0], left[1], left[3]]


def test_groups_of_ranks_that_differ() -> None:
    custom = CustomTopologyData({"hbm_cap": [1 << 30, 1 << 31]}, 2)
    with pytest.raises(InputError, match="differ in memory, and there are several"):
        of_group(topology(2, custom_topology_data=custom), 1, 1)
