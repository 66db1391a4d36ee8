"""neuroshard beside TorchRec: tables out of a model, plans into it.

``tables_from_model``   a model's tables, for ``neuroshard plan``
``load_plan``           what neuroshard planned, as TorchRec's ShardingPlan
``NeuroShardPlanner``   both in one: takes the arguments of TorchRec's planner
``NeuroShardPlannerProvider``, ``NeuroShardPlannerConfig``
                        the planner where TorchRec 1.9 takes a PlannerProvider
``reshard``             the tables of a running job, from one plan to the next
``StepTimes``           what each step keeps a rank busy, for ``neuroshard watch``

It runs with TorchRec 1.5 to 1.9 (versions.py); a newer release is a warning. Importing it raises
TorchRecVersionError where PyTorch or TorchRec is missing, or lacks a name that is used.
docs/TORCHREC.md has examples.
"""

from typing import Any

from .versions import (
    NEWEST,
    OLDEST,
    SUPPORTED,
    TorchRecVersionError,
    TorchRecVersionWarning,
    missing_name,
)

try:
    # The errors are TorchRec's, too.
    from .arch import tables_from_model_arch
    from .errors import (
        BinaryError,
        InputError,
        NeuroShardError,
        PlanError,
        Problem,
        RankError,
        ReplicatedTablesWarning,
        ServiceError,
        UnequalSlicesWarning,
    )
    from .fixed import FixedTable
    from .planner import NeuroShardPlanner
    from .plans import load_plan
    from .reshard import Moved, reshard
    from .tables import tables_from_model, write_tables
    from .times import StepTimes
except ImportError as e:
    if e.name != "torch" and (e.name or "").partition(".")[0] != "torchrec":
        raise
    raise missing_name(e) from e

__all__ = [
    "NEWEST",
    "OLDEST",
    "SUPPORTED",
    "BinaryError",
    "FixedTable",
    "InputError",
    "Moved",
    "NeuroShardError",
    "NeuroShardPlanner",
    "PlanError",
    "Problem",
    "RankError",
    "ReplicatedTablesWarning",
    "ServiceError",
    "StepTimes",
    "TorchRecVersionError",
    "TorchRecVersionWarning",
    "UnequalSlicesWarning",
    "load_plan",
    "reshard",
    "tables_from_model",
    "tables_from_model_arch",
    "write_tables",
]

_OF_1_9 = ("NeuroShardPlannerConfig", "NeuroShardPlannerProvider")


def __getattr__(name: str) -> Any:
    """Imports what only some of the supported releases of TorchRec have, when it is asked for."""
    if name not in _OF_1_9:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from . import provider
    except ImportError as e:
        if not (e.name or "").startswith("torchrec."):
            raise
        raise TorchRecVersionError(
            f"{name} needs TorchRec 1.9 or newer: this one has no {e.name}\n"
            f"  hint: NeuroShardPlanner plans with every release, {SUPPORTED}",
            name=e.name,
        ) from e
    return getattr(provider, name)
