"""TorchRec's Topology and StorageReservation in the words of ``neuroshard plan``.

    Topology             world_size, local_world_size, pod_size, capacities
        |  StorageReservation.reserve: TorchRec's own, called and not copied
        v
    the same Topology with less memory
        |
        v
    Cluster              --gpus 8 --memory ... --set reserve_fixed=...

Sizes are exact: the memory that tables may use here is what TorchRec's planner would leave
them. A planner on CPUs (``compute_device="cpu"``) counts the memory of the host, and so do
the arguments here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from torch import nn

from . import _differences, parts
from .errors import InputError, Problem, shown


@dataclass(frozen=True)
class Cluster:
    """A cluster as arguments of ``neuroshard plan``, and what a user should know of it."""

    arguments: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def request(
    topology: Any,
    storage_reservation: Any,
    batch_size: int,
    module: nn.Module,
    sharders: Sequence[Any],
    constraints: Mapping[str, Any] | None,
    host_memory: bool = True,
    map_bytes: int = 0,
    formulas: bool = True,
) -> Cluster:
    """Returns the cluster that a Topology describes, less what the reservation keeps free.

    The reservation computes what it keeps, as in TorchRec's planner, for the ``batch_size``
    samples of a rank and for ``module``, ``sharders`` and ``constraints``, which are those of
    the plan. A PlannerError of the reservation passes. ``host_memory`` says whether tables
    may lie in the memory of hosts. ``map_bytes`` of each rank are kept free beside what the
    reservation keeps. ``formulas`` says that costs are those of TorchRec's formulas.
    InputError lists everything in the topology that neuroshard cannot plan for.
    """
    left = storage_reservation.reserve(
        topology=topology,
        batch_size=batch_size,
        module=module,
        sharders=list(sharders),
        constraints=constraints,
    )
    problems: list[Problem] = []
    lacking: list[Problem] = []
    arguments = [
        *_devices(topology),
        *_memory(topology, left, map_bytes, lacking),
    ]
    warnings: list[str] = []
    arguments += _numbers(topology, problems, warnings, formulas)
    if host_memory and topology.compute_device != "cpu":
        arguments += _host_memory(topology, left, warnings)
    if problems or lacking:
        error = InputError([*lacking, *problems])
        error.nothing_fits = not problems
        raise error
    return Cluster(arguments, warnings)


def of_group(topology: Any, size: int, per_host: int) -> Any:
    """Returns the Topology of one sharding group of ``size`` ranks, ``per_host`` of them on a
    host, in a cluster of equal devices that a Topology describes: what TorchRec's planner
    gets under 2D parallelism. InputError if the devices differ."""
    device = topology.devices[0].storage
    if any(d.storage != device for d in topology.devices):
        hint = "state one memory for all ranks: each sharding group has the same plan"
        problem = "topology: the ranks differ in memory, and there are several sharding groups"
        raise InputError([Problem(problem, hint)])
    return parts.Topology(
        world_size=size,
        compute_device=topology.compute_device,
        hbm_cap=device.hbm,
        ddr_cap=device.ddr,
        local_world_size=per_host,
        hbm_mem_bw=topology.hbm_mem_bw,
        ddr_mem_bw=topology.ddr_mem_bw,
        hbm_to_ddr_mem_bw=topology.hbm_to_ddr_mem_bw,
        bwd_compute_multiplier=topology.bwd_compute_multiplier,
        weighted_feature_bwd_compute_multiplier=topology.weighted_feature_bwd_compute_multiplier,
        uneven_sharding_perf_multiplier=topology.uneven_sharding_perf_multiplier,
        generalized_comms_bandwidths=topology.comms_bandwidths,
        **_differences.since_1_6(topology),
    )


def _devices(topology: Any) -> list[str]:
    """Returns the arguments for the devices and hosts."""
    world, local = topology.world_size, topology.local_world_size
    arguments = ["--gpus", str(world), "--set", f"devices_per_host={min(local, world)}"]
    if (linked := _differences.ranks_linked(topology)) > local:
        arguments += ["--set", f"nvlink_domain={linked}"]
    return arguments


_OF_GPUS = {
    "intra_host_bw": "link_bandwidth",
    "inter_host_bw": "network_bandwidth",
    "hbm_mem_bw": "hbm_bandwidth",
    "hbm_to_ddr_mem_bw": "host_link_bandwidth",
}
"""The bandwidths that TorchRec's formulas of GPUs read, as arguments."""

_OF_CPUS = {
    "intra_host_bw": "link_bandwidth",
    "inter_host_bw": "network_bandwidth",
    "ddr_mem_bw": "hbm_bandwidth",
}
"""Those of CPUs, which have their tables in ddr."""

_MULTIPLIERS = {
    "bwd_compute_multiplier": "backward_multiplier",
    "weighted_feature_bwd_compute_multiplier": "weighted_backward_multiplier",
}
"""The multipliers that TorchRec's formulas read, as arguments."""

_UNREAD = {
    "ddr_mem_bw": "GPUs read tables in host memory by hbm_to_ddr_mem_bw",
    "hbm_mem_bw": "CPUs read tables by ddr_mem_bw",
    "hbm_to_ddr_mem_bw": "CPUs read tables by ddr_mem_bw",
    "ssd_mem_bw": "no table lies on an SSD",
    "uneven_sharding_perf_multiplier": "TorchRec's own estimator does not read it either",
}
"""Why the formulas of a compute device do not read a number of a Topology."""


def _numbers(
    topology: Any, problems: list[Problem], warnings: list[str], formulas: bool
) -> list[str]:
    """Returns the arguments for the bandwidths and multipliers that are not TorchRec's defaults.
    TorchRec's formulas read the bandwidth between hosts even where all ranks are on one host: the
    all-reduce of replicated tables takes it, and in an NVLink domain all-to-alls do."""
    links = type(topology.comms_bandwidths).__name__
    if links != "BasicCommsBandwidths":
        hint = "state inter_host_bw instead: neuroshard plans with one bandwidth between hosts"
        problems.append(Problem(f"topology: generalized_comms_bandwidths is {shown(links)}", hint))
        return []
    usual = signature(parts.Topology.__init__).parameters
    stated = {
        name: getattr(topology, name)
        for name in dict.fromkeys((*_OF_GPUS, *_MULTIPLIERS, *_UNREAD))
        if name in usual and getattr(topology, name) != usual[name].default
    }
    read = _OF_CPUS if topology.compute_device == "cpu" else _OF_GPUS
    if read is _OF_CPUS and formulas:
        stated["ddr_mem_bw"] = topology.ddr_mem_bw
    alone = topology.world_size <= _differences.ranks_linked(topology)
    arguments = []
    for name, value in stated.items():
        unread = _UNREAD.get(name)
        if name == "inter_host_bw" and alone and not formulas:
            unread = "all ranks are on one host or in one NVLink domain"
        elif name in read:  # TorchRec states bytes a millisecond
            arguments += ["--set", f"{read[name]}={round(value * 1000)}B/s"]
            continue
        elif name in _MULTIPLIERS and formulas:
            arguments += ["--set", f"{_MULTIPLIERS[name]}={float(value)!r}"]
            continue
        elif name in _MULTIPLIERS:
            hint = "leave it out: the cost model of a profile estimates the backward from its "
            hint += "samples; or leave profile out, and costs are those of TorchRec's formulas"
            problems.append(Problem(f"topology: {name} is {value:g}", hint))
            continue
        warnings.append(f"topology: {name} {value:g} has no effect on estimates: {unread}")
    return arguments


def _memory(topology: Any, left: Any, map_bytes: int, problems: list[Problem]) -> list[str]:
    """Returns the arguments for the memory of devices and hosts."""
    on_cpu = topology.compute_device == "cpu"
    caps = [d.storage.ddr if on_cpu else d.storage.hbm for d in topology.devices]
    free = [d.storage.ddr if on_cpu else d.storage.hbm for d in left.devices]
    what = "ddr" if on_cpu else "hbm"
    if min(free, default=0) <= 0:
        rank = free.index(min(free))
        message = (
            f"storage_reservation: {caps[rank] - free[rank]} of {caps[rank]} bytes of "
            f"{what} of rank {rank} are reserved, which leaves nothing for tables"
        )
        hint = f"pass a reservation that keeps less, or a Topology of more {what}_cap"
        problems.append(Problem(message, hint))
        return []
    # Tables may use the same bytes as in TorchRec. If ranks reserve different bytes, as with a
    # share of different memories, the least of them is the reserve of all, and each rank's
    # memory is stated without the bytes that it reserves in addition.
    reserved = min(cap - left for cap, left in zip(caps, free, strict=True))
    return [
        *_each("--memory", "device_memories", [left + reserved for left in free]),
        *("--set", "reserve_share=0", "--set", f"reserve_fixed={reserved + map_bytes}B"),
    ]


def _each(all_of: str, one_by_one: str, sizes: Sequence[int]) -> list[str]:
    """Returns the argument for one size of all, or for the sizes of each by number."""
    if len(set(sizes)) == 1:
        return [all_of, f"{sizes[0]}B"]
    runs: list[list[int]] = []
    for i, size in enumerate(sizes):
        if runs and sizes[runs[-1][0]] == size:
            runs[-1].append(i)
        else:
            runs.append([i])
    texts = [f"{run[0]}-{run[-1]}={sizes[run[0]]}B" for run in runs]
    return ["--set", f"{one_by_one}={','.join(texts)}"]


def _host_memory(topology: Any, left: Any, warnings: list[str]) -> list[str]:
    """Returns the argument for the memory of hosts: TorchRec states it for each rank, and
    neuroshard for each host, as even parts of its ranks."""
    per_host = min(topology.local_world_size, topology.world_size)
    sizes = [d.storage.ddr for d in left.devices]
    hosts = [sizes[i : i + per_host] for i in range(0, len(sizes), per_host)]
    for i, host in enumerate(hosts):
        if max(host) > min(host):
            message = (
                f"the ranks of host {i} have {min(host)} to {max(host)} bytes of ddr: the plan "
                "uses the least for each of them"
            )
            warnings.append(message)
    least = [min(host) for host in hosts]
    if max(least, default=0) <= 0:
        return []
    if min(least) <= 0:
        empty = least.index(min(least))
        message = f"host {empty} has no ddr for tables: the plan has no table in host memory"
        warnings.append(message)
        return []
    return _each("--host-memory", "host_memories", [size * per_host for size in least])
