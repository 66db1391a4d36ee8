"""The parts that users pass to TorchRec's planner: which ones NeuroShardPlanner takes, and what
takes the place of the others.

    topology, storage_reservation, constraints, stats, callbacks, plan_loader
        are used
    enumerator, proposer, partitioner, performance_model
        are refused unless they are TorchRec's defaults. The defaults change nothing, but for
        the batch and the constraints of an enumerator
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from torchrec.distributed.planner.constants import BATCH_SIZE
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.partitioners import GreedyPerfPartitioner
from torchrec.distributed.planner.perf_models import NoopPerfModel
from torchrec.distributed.planner.planners import EmbeddingPlannerBase
from torchrec.distributed.planner.proposers import (
    GreedyProposer,
    GridSearchProposer,
    UniformProposer,
)
from torchrec.distributed.planner.stats import EmbeddingStats
from torchrec.distributed.planner.storage_reservations import HeuristicalStorageReservation
from torchrec.distributed.planner.types import (
    ParameterConstraints,
    PlanDebugStats,
    PlannerError,
    PlannerErrorType,
    Topology,
    hash_planner_context_inputs,
    hash_planner_context_inputs_str,
)

from .errors import Problem, shown

__all__ = [
    "BATCH_SIZE",
    "EmbeddingEnumerator",
    "EmbeddingPlannerBase",
    "EmbeddingStats",
    "HeuristicalStorageReservation",
    "PlanDebugStats",
    "PlannerError",
    "PlannerErrorType",
    "Topology",
    "hash_planner_context_inputs",
    "hash_planner_context_inputs_str",
]

_DEFAULTS = {
    "enumerator": (EmbeddingEnumerator,),
    "proposer": (GreedyProposer, GridSearchProposer, UniformProposer),
    "partitioner": (GreedyPerfPartitioner,),
    "performance_model": (NoopPerfModel,),
}
"""The parts of the search of TorchRec's planner by default."""


def problems(
    enumerator: Any, proposer: Any, partitioner: Any, performance_model: Any
) -> list[Problem]:
    """Returns what of these options NeuroShardPlanner cannot use, with what to write instead."""
    given = {
        "enumerator": [enumerator],
        "proposer": proposer if isinstance(proposer, Sequence) else [proposer],
        "partitioner": [partitioner],
        "performance_model": [performance_model],
    }
    hint = (
        'leave it out; arguments=["--set", "method=..."] chooses the search, profile= or '
        '"--model" a cost model, and constraints= or "--types" say what a table may have'
    )
    found = [
        Problem(f"{option} is of type {type(p).__name__}, which the search does not ask", hint)
        for option, own in given.items()
        for p in own
        if p is not None and type(p) not in _DEFAULTS[option]
    ]
    if type(enumerator) is EmbeddingEnumerator:
        usual = [type(e) for e in EmbeddingEnumerator(Topology(1, "cpu"), 1)._estimators]
        own = [type(e) for e in enumerator._estimators]
        if own != usual:
            names = ", ".join(e.__name__ for e in own)
            message = f"enumerator has estimators of its own ({names}), which the search does "
            found.append(Problem(message + "not ask", hint))
    if type(partitioner) is GreedyPerfPartitioner and partitioner._balance_modules:
        message = "partitioner balances each module by itself, and the search balances all together"
        found.append(Problem(message, "leave balance_modules out"))
    return found


def stated(constraints: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the constraints that constrain anything."""
    usual = ParameterConstraints()
    return {name: c for name, c in (constraints or {}).items() if c != usual}


def of_enumerator(
    enumerator: Any, topology: Any, batch_size: int | None, constraints: Mapping[str, Any] | None
) -> tuple[int | None, Mapping[str, Any] | None, list[Problem]]:
    """Returns the batch size and the constraints with those that an enumerator was made
    with: TorchRec's planner searches by the enumerator's. A problem where both are stated
    and differ."""
    if enumerator is None:
        return batch_size, constraints, []
    found = []
    theirs = enumerator._batch_size
    if batch_size is None:
        batch_size = theirs if theirs != BATCH_SIZE else None
    elif theirs != batch_size:
        found.append(_differs("batch_size", batch_size, theirs))
    own, others = stated(constraints), stated(enumerator._constraints)
    if others and own and own != others:
        found.append(_differs("constraints", sorted(own), sorted(others)))
    ranks = (topology.world_size, topology.compute_device) if topology is not None else None
    if ranks is not None and ranks != (enumerator._world_size, enumerator._compute_device):
        theirs = (enumerator._world_size, enumerator._compute_device)
        found.append(_differs("topology", ranks, theirs))
    return batch_size, constraints if own or not others else enumerator._constraints, found


def _differs(option: str, ours: Any, theirs: Any) -> Problem:
    message = f"{option} {shown(ours)} is not that of the enumerator, {shown(theirs)}"
    return Problem(message, "leave enumerator= out, or make it with the same values")


def stats_of(stats: Any) -> list[Any]:
    """Returns the Stats that get each plan, by default those of TorchRec's planner."""
    if stats is None:
        return [Quiet()]
    return list(stats) if isinstance(stats, list) else [stats]


class Quiet(EmbeddingStats):  # type: ignore[misc] # it is untyped
    """TorchRec's statistics of a plan, made only where its log shows them: they take longer
    than the plan."""

    def log(self, *args: Any, **options: Any) -> None:
        """As EmbeddingStats, if the log of torchrec.distributed.planner.stats is on."""
        if logging.getLogger(EmbeddingStats.__module__).isEnabledFor(logging.INFO):
            super().log(*args, **options)


def wanted(stats: Sequence[Any]) -> bool:
    """Returns whether any of the Stats would do anything."""
    shown = logging.getLogger(EmbeddingStats.__module__).isEnabledFor(logging.INFO)
    return shown or any(type(s) is not Quiet for s in stats)


def theirs(constraints: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Returns the constraints that are TorchRec's ParameterConstraints, None without any
    constraints: what TorchRec's own parts can read."""
    if constraints is None:
        return None
    return {n: c for n, c in constraints.items() if isinstance(c, ParameterConstraints)}


def reserved(reservation: Any) -> Any:
    """Returns the topology that a reservation has left, None before it was asked."""
    last = reservation.last_reserved_topology
    return last() if callable(last) else last  # TorchRec's for inference is a method
