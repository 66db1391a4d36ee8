"""neuroshard beside TorchRec: tables out of a model, plans into it.

``tables_from_model``   a model's tables, for ``neuroshard plan``
``load_plan``           what neuroshard planned, as TorchRec's ShardingPlan
``NeuroShardPlanner``   both in one: takes the arguments of TorchRec's planner
``reshard``             the tables of a running job, from one plan to the next
``StepTimes``           what each step keeps a rank busy, for ``neuroshard watch``

It needs TorchRec of the supported range; importing it raises TorchRecVersionError
where that is not there. docs/TORCHREC.md has examples.
"""

from ._torchrec import NEWEST, OLDEST, SUPPORTED, TorchRecVersionError
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
from .planner import NeuroShardPlanner
from .plans import load_plan
from .reshard import Moved, reshard
from .tables import tables_from_model, write_tables
from .times import StepTimes

__all__ = [
    "NEWEST",
    "OLDEST",
    "SUPPORTED",
    "BinaryError",
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
    "UnequalSlicesWarning",
    "load_plan",
    "reshard",
    "tables_from_model",
    "write_tables",
]
