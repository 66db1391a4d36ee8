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
from torchrec_binary import binary
from torchrec_releases import NVLINK_DOMAINS

from neuroshard_torchrec import InputError, NeuroShardPlanner
from neuroshard_torchrec.topology import Cluster, of_group
from neuroshard_torchrec.topology import request as requested

__all__ = ["binary"]

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
    assert arguments.count(flag) == 1, arguments
    return arguments[arguments.index(flag) + 1]


def test_devices_and_hosts() -> None:
    none = FixedPercentageStorageReservation(0)
    stated, domain = ({"pod_size": 2}, ["--nvlink-domain", "8"]) if NVLINK_DOMAINS else ({}, [])
    cluster = request(topology(16, local_world_size=4, ddr_cap=1 << 20, **stated), none)
    assert cluster.arguments == [
        *("--devices", "16", "--devices-per-host", "4", *domain),
        *("--memory", "1073741824B", "--reserve-share", "0", "--reserve-fixed", "0B"),
        *("--host-memory", f"{4 << 20}B"),
    ]
    assert cluster.warnings == []
    assert "--host-memory" not in request(topology(), none, host_memory=False).arguments
    assert "--nvlink-domain" not in request(topology(), none).arguments


def test_hosts_larger_than_the_job() -> None:
    none = FixedPercentageStorageReservation(0)
    found = request(topology(2, local_world_size=8, ddr_cap=1 << 20), none)
    assert value(found.arguments, "--devices-per-host") == "2"
    assert value(found.arguments, "--host-memory") == f"{2 << 20}B"


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
    free = memory - int(value(arguments, "--reserve-fixed")[:-1])
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
    assert int(value(arguments, "--reserve-fixed")[:-1]) == (1 << 30) - left
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


def test_the_network_between_hosts() -> None:
    none = FixedPercentageStorageReservation(0)
    where = topology(8, local_world_size=4, inter_host_bw=50e6)  # bytes a millisecond
    assert value(request(where, none).arguments, "--network-bandwidth") == "50000000000B/s"
    inside = topology(8, inter_host_bw=50e6)  # the formulas read it on one host, too
    one = request(inside, none)
    assert value(one.arguments, "--network-bandwidth") == "50000000000B/s" and not one.warnings
    one = requested(inside, none, 64, Model(), SHARDERS, None, formulas=False)
    assert "--network-bandwidth" not in one.arguments
    assert len(one.warnings) == 1 and "has no effect" in one.warnings[0]


def test_multipliers_that_torchrecs_formulas_read() -> None:
    none = FixedPercentageStorageReservation(0)
    stated = {"bwd_compute_multiplier": 3.5, "weighted_feature_bwd_compute_multiplier": 4}
    found = request(topology(**stated), none)
    assert value(found.arguments, "--backward-multiplier") == "3.5"
    assert value(found.arguments, "--weighted-backward-multiplier") == "4.0"
    assert found.warnings == []
    with pytest.raises(InputError) as e:
        requested(topology(**stated), none, 64, Model(), SHARDERS, None, formulas=False)
    assert [p.message for p in e.value.problems] == [
        "topology: bwd_compute_multiplier is 3.5",
        "topology: weighted_feature_bwd_compute_multiplier is 4",
    ]


def test_numbers_of_a_topology_that_estimates_do_not_read() -> None:
    none = FixedPercentageStorageReservation(0)
    stated = {"ddr_mem_bw": 3e9, "ssd_mem_bw": 5e9, "uneven_sharding_perf_multiplier": 5.0}
    if not NVLINK_DOMAINS:
        del stated["ssd_mem_bw"]
    found = request(topology(**stated), none)
    assert found.arguments == request(topology(), none).arguments
    assert [w.split(":")[1].split()[0] for w in found.warnings] == list(stated)
    assert all("has no effect on estimates: " in w for w in found.warnings)
    on_cpu = {"hbm_mem_bw": 3e9, "hbm_to_ddr_mem_bw": 5e9}
    found = request(topology(compute_device="cpu", **on_cpu), none)
    assert found.arguments == request(topology(compute_device="cpu"), none).arguments
    assert [w.split(":")[1].split()[0] for w in found.warnings] == list(on_cpu)


def test_cpus_read_tables_by_the_bandwidth_of_ddr() -> None:
    none = FixedPercentageStorageReservation(0)
    found = request(topology(compute_device="cpu", ddr_mem_bw=2e8), none).arguments
    assert value(found, "--hbm-bandwidth") == "200000000000B/s"
    usual = request(topology(compute_device="cpu"), none).arguments
    assert value(usual, "--hbm-bandwidth") == f"{51 << 30}B/s"  # TorchRec's default
    of_profile = requested(
        topology(compute_device="cpu"), none, 64, Model(), SHARDERS, None, formulas=False
    )
    assert "--hbm-bandwidth" not in of_profile.arguments


def test_device_memories_that_differ() -> None:
    """Each rank has its own memory, and tables may use what the reservation leaves of it."""
    caps = [1 << 30, 1 << 31, 1 << 31, 3 << 30]
    custom = CustomTopologyData({"hbm_cap": caps}, 4)
    reservation = FixedPercentageStorageReservation(0.25)
    where = topology(4, local_world_size=2, custom_topology_data=custom, ddr_cap=1 << 20)
    arguments = requested(where, reservation, 64, Model(), SHARDERS, None).arguments
    kept = int(value(arguments, "--reserve-fixed")[:-1])
    assert kept == 1 << 28
    runs = [run.split("=") for run in value(arguments, "--device-memories").split(",")]
    assert [numbers for numbers, _ in runs] == ["0-0", "1-2", "3-3"]
    left = reservation.reserve(where, 64, Model(), SHARDERS).devices
    for numbers, size in runs:
        for rank in {int(n) for n in numbers.split("-")}:
            assert int(size[:-1]) - kept == left[rank].storage.hbm
    assert "--memory" not in arguments
    assert value(arguments, "--host-memory") == f"{2 << 20}B"


def test_groups_of_ranks_that_differ() -> None:
    custom = CustomTopologyData({"hbm_cap": [1 << 30, 1 << 31]}, 2)
    with pytest.raises(InputError, match="differ in memory, and there are several"):
        of_group(topology(2, custom_topology_data=custom), 1, 1)


def test_host_memories_that_differ() -> None:
    def hosts(ddr: list[int]) -> Any:
        custom = CustomTopologyData({"ddr_cap": ddr}, 4)
        where = topology(4, local_world_size=2, custom_topology_data=custom)
        return request(where, FixedPercentageStorageReservation(0))

    cluster = hosts([1 << 20, 1 << 20, 1 << 21, 1 << 21])
    assert value(cluster.arguments, "--host-memories") == f"0-0={2 << 20}B,1-1={2 << 21}B"
    assert cluster.warnings == []
    cluster = hosts([1 << 20, 1 << 20, 1 << 20, 1 << 21])
    assert value(cluster.arguments, "--host-memory") == f"{2 << 20}B"
    assert "the ranks of host 1 have 1048576 to 2097152 bytes of ddr" in cluster.warnings[0]
    cluster = hosts([1 << 20, 1 << 20, 0, 0])
    assert not {"--host-memory", "--host-memories"} & set(cluster.arguments)
    assert "host 1 has no ddr for tables" in cluster.warnings[0]


def test_bandwidths_that_torchrecs_formulas_read() -> None:
    stated = {"intra_host_bw": 3e8, "hbm_mem_bw": 2e9, "hbm_to_ddr_mem_bw": 2.5e7}
    found = request(topology(**stated), FixedPercentageStorageReservation(0)).arguments
    assert value(found, "--link-bandwidth") == "300000000000B/s"
    assert value(found, "--hbm-bandwidth") == "2000000000000B/s"
    assert value(found, "--host-link-bandwidth") == "25000000000B/s"
