"""The plan of TorchRec's own planner, as a baseline of a plan of neuroshard.

    model, sharders, Topology, constraints, reservation      copies: TorchRec changes some
        |  TorchRec's EmbeddingShardingPlanner
        v
    ShardingPlan, or why there is none
        |  neuroshard convert --from torchrec
        v
    plan file  ->  neuroshard plan --set compare_plan=torchrec=FILE ->  a row of the report

The program estimates the cost of this plan as it estimates that of its own, and says so if the
plan breaks a rule of the problem.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from . import binary as program
from ._torchrec import EmbeddingShardingPlanner, ParameterConstraints
from .errors import BinaryError, escaped
from .parts import PlannerError, Topology
from .tables import Json

NAME = "torchrec"
"""The name of the row in the report."""

MAX_REASON = 300
"""The most characters of the reason why there is no plan."""


class NoPlanError(RuntimeError):
    """TorchRec's planner finds no plan; the message is the first line of its reasons."""


@dataclass(frozen=True)
class Job:
    """The arguments of TorchRec's planner, by their names there. ``limit_s`` are the
    seconds that its search is given, None for no limit."""

    topology: Any
    batch_size: int
    constraints: Mapping[str, Any]
    storage_reservation: Any = None
    limit_s: int | None = None


def plan(module: nn.Module, sharders: Sequence[Any], job: Job) -> Any:
    """Returns the ShardingPlan of TorchRec's planner, which gets copies of what it may change.
    NoPlanError where it finds none. The statistics, which the planner would only print, are left
    out."""
    try:
        planner = EmbeddingShardingPlanner(
            topology=copy.deepcopy(job.topology),
            batch_size=job.batch_size,
            constraints=copy.deepcopy(dict(job.constraints)),
            storage_reservation=copy.deepcopy(job.storage_reservation),
            stats=[],
            timeout_seconds=job.limit_s,
        )
        return planner.plan(module, list(sharders))
    except PlannerError as e:
        raise NoPlanError(first_line(e)) from e


def first_line(error: BaseException) -> str:
    """Returns the first line of what an error says."""
    return str(error).strip().partition("\n")[0].strip()


def topology_of(cluster: Json) -> Any:
    """Returns TorchRec's Topology of GPUs for a cluster as plan files state it, with TorchRec's
    default bandwidths. Tables may use the memory of hosts that the cluster states, none if it
    states none."""
    ranks, per_host = cluster["devices"], cluster["devices_per_host"]
    made = Topology(
        world_size=ranks,
        local_world_size=per_host,
        compute_device="cuda",
        hbm_cap=cluster["device_memory_bytes"],
    )
    for rank, memory in enumerate(cluster.get("device_memories_bytes", ())):
        made.devices[rank].storage.hbm = memory
    same = [cluster.get("host_memory_bytes", 0)] * (-(-ranks // per_host))
    hosts = cluster.get("host_memories_bytes", same)
    for rank, device in enumerate(made.devices):
        device.storage.ddr = hosts[rank // per_host] // per_host
    return made


def pooling_factors(tables: Json) -> dict[str, list[float]]:
    """Returns the lookups of one bag of the features of each table of tables.json, by the
    table's name in its module. tables.json states the lookups of all bags of a sample."""
    return {
        local_name(t): [f["pooling_factor"] / f.get("bags", 1.0) for f in t["features"]]
        for t in tables["tables"]
    }


def bags(tables: Json) -> dict[str, list[float]]:
    """Returns the bags of a sample of the features of each table of tables.json, by the table's
    name in its module."""
    return {local_name(t): [f.get("bags", 1.0) for f in t["features"]] for t in tables["tables"]}


def local_name(table: Json) -> str:
    """Returns the name of a table of tables.json in its module."""
    name: str = table["name"]
    return name.removeprefix(table.get("module", "") + "/")


def with_factors(
    constraints: Mapping[str, Any],
    factors: Mapping[str, Sequence[float]],
    bags: Mapping[str, Sequence[float]],
) -> dict[str, ParameterConstraints]:
    """Returns the constraints that are TorchRec's own objects, with these lookups of a bag where
    no pooling factors are stated: TorchRec's planner takes 1 for these. It also takes one bag
    of a sample. So ``bags``, those of a sample, become num_poolings, unless the constraints
    state them, or batches, from which they follow."""
    own = {n: c for n, c in constraints.items() if isinstance(c, ParameterConstraints)}
    usual = ParameterConstraints()
    for name, counted in factors.items():
        stated = own.get(name, usual)
        if stated.pooling_factors == usual.pooling_factors:
            stated = replace(stated, pooling_factors=list(counted))
            several = list(bags.get(name, ()))
            open_ = stated.num_poolings is None and stated.batch_sizes is None
            if open_ and any(n != 1 for n in several):
                stated = replace(stated, num_poolings=several)
        own[name] = stated
    return own


def unconstrained(tables: Json) -> Json:
    """Returns tables.json without constraints: another planner's plan need not keep to them to
    be read."""
    stripped = [{k: v for k, v in t.items() if k != "constraints"} for t in tables["tables"]]
    return {**tables, "tables": stripped}


def exported(made: Any, ranks: int, per_host: int, cluster: Json | None = None) -> Json:
    """Returns a ShardingPlan that ``neuroshard convert`` reads, for a cluster as plan files state
    it, or for one that flags of ``import`` state."""
    return {
        "format": "neuroshard-torchrec-plan",
        "version": 1,
        "world_size": ranks,
        "local_size": per_host,
        **dict(made._serialize()),
        **({} if cluster is None else {"cluster": cluster}),
    }


def compared(
    make: Callable[[], Any],
    ranks: int,
    per_host: int,
    tables: Json,
    binary: str,
    profile: str,
    timeout: float,
    folder: Path,
) -> tuple[Path, list[str]]:
    """Calls ``make`` for TorchRec's plan, writes what it returned into the folder, or the reason
    why there is no plan, and returns the file and the arguments of ``neuroshard plan`` that put it
    into the report. No error of TorchRec's planner passes: the plan of neuroshard does not depend
    on it. ``timeout`` are the seconds that the program may take to read the plan."""
    found: Json = {"valid": False}
    start, made, reason = time.perf_counter(), None, ""
    try:
        made = make()
    except NoPlanError as e:
        reason = f"TorchRec's planner found no plan: {e}"
    except Exception as e:
        reason = f"TorchRec's planner failed: {type(e).__name__}: {first_line(e)}"
    found["wall_ms"] = 1000 * (time.perf_counter() - start)
    if made is not None:
        stated = folder / "theirs-tables.json"
        stated.write_text(json.dumps(unconstrained(tables)))
        read = ["convert", "-", "--from", "torchrec", "--tables", str(stated), "--gpu", profile]
        read += ["--gpus", str(ranks), "--set", f"devices_per_host={per_host}", "-o", "-"]
        source = json.dumps(exported(made, ranks, per_host)).encode()
        try:
            found |= {"valid": True, "plan": json.loads(program.run(binary, read, timeout, source))}
        except BinaryError as e:
            reason = f"TorchRec's plan cannot be compared: {e.problems[0].message}"
    if reason:
        cut = "..." if len(reason) > MAX_REASON else ""
        found["error"] = {"message": escaped(reason[:MAX_REASON]) + cut}
    file = folder / f"{NAME}.json"
    file.write_text(json.dumps(found))
    return file, ["--set", f"compare_plan={NAME}={file}"]
