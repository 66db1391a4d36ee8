"""The errors that are TorchRec's PlannerError too, also as the other ranks raise them."""

from __future__ import annotations

import pytest

pytest.importorskip("torchrec")

from neuroshard_torchrec import failures
from neuroshard_torchrec.errors import BinaryError, InputError, NeuroShardError, Problem
from neuroshard_torchrec.parts import PlannerError, PlannerErrorType

PROBLEMS = (Problem("a is wrong", "state another"), Problem("b is wrong"))
TYPES = [PlannerErrorType.INSUFFICIENT_STORAGE, PlannerErrorType.OTHER]


@pytest.mark.parametrize("kind", [own for own, _ in failures.KINDS])
@pytest.mark.parametrize("error_type", TYPES)
def test_other_ranks_raise_the_error_of_rank_0(
    kind: type[NeuroShardError], error_type: PlannerErrorType
) -> None:
    both = failures.planning(kind(PROBLEMS), error_type)
    assert isinstance(both, kind) and isinstance(both, PlannerError)
    there = failures.error(failures.told(both))
    assert type(there) is type(both) is dict(failures.KINDS)[kind]
    assert there.problems == both.problems == PROBLEMS
    assert there.error_type == both.error_type == error_type


def test_other_errors_of_rank_0() -> None:
    assert failures.planning(ValueError("no")) is None
    there = failures.error(failures.told(ValueError("no\x1b")))
    assert type(there) is failures.PlanningError
    assert there.error_type == PlannerErrorType.OTHER
    assert [p.message for p in there.problems] == [r"rank 0: ValueError: no\x1b"]
    newer = {"error": "PlanningOfLater", "type": "partition", "problems": [("c", "d")]}
    there = failures.error(newer)
    assert type(there) is failures.PlanningError
    assert there.error_type == PlannerErrorType.PARTITION
    assert there.problems == (Problem("c", "d"),)


def test_an_error_keeps_whether_nothing_fits() -> None:
    e = BinaryError(PROBLEMS)
    e.nothing_fits, e.exit_code = True, 1
    both = failures.planning(e)
    assert both is not None and both.nothing_fits and both.exit_code == 1
    assert failures.planning(both) is both


def test_errors_become_planner_errors_once() -> None:
    with pytest.raises(failures.PlanningInputError) as e, failures.raised():
        raise InputError(PROBLEMS)
    assert type(e.value.__cause__) is InputError
    both = failures.PlanningBinaryError(PROBLEMS)
    with pytest.raises(failures.PlanningBinaryError) as e, failures.raised():
        raise both
    assert e.value is both and both.__cause__ is None
    theirs = PlannerError("no storage", PlannerErrorType.STRICT_CONSTRAINTS)
    with pytest.raises(failures.PlanningInputError) as e, failures.raised():
        raise theirs
    assert e.value.__cause__ is theirs
    assert e.value.error_type == PlannerErrorType.STRICT_CONSTRAINTS
    assert e.value.problems == (Problem(str(theirs)),) and "no storage" in str(theirs)
    with pytest.raises(ValueError, match="no"), failures.raised():
        raise ValueError("no")
