"""What the planner raises: the package's own errors, which are TorchRec's PlannerError too.

A script that catches PlannerError, and reads its error_type, works as with TorchRec's planner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .errors import (
    BinaryError,
    InputError,
    NeuroShardError,
    PlanError,
    Problem,
    RankError,
    ServiceError,
    escaped,
)
from .parts import PlannerError, PlannerErrorType


class PlanningError(NeuroShardError, PlannerError):  # type: ignore[misc] # it is untyped
    """What went wrong while a plan was made; ``error_type`` is TorchRec's PlannerErrorType."""

    def __init__(
        self,
        problems: Iterable[Problem],
        error_type: PlannerErrorType = PlannerErrorType.OTHER,
    ) -> None:
        super().__init__(problems)
        self.error_type = error_type


class PlanningInputError(PlanningError, InputError):
    """An InputError while a plan was made."""


class PlanningPlanError(PlanningError, PlanError):
    """A PlanError while a plan was made."""


class PlanningBinaryError(PlanningError, BinaryError):
    """A BinaryError while a plan was made: also that nothing fits."""


class PlanningServiceError(PlanningError, ServiceError):
    """A ServiceError while a plan was made: also that nothing fits."""


class PlanningRankError(PlanningError, RankError):
    """A RankError while a plan was made."""


KINDS: tuple[tuple[type[NeuroShardError], type[PlanningError]], ...] = (
    (InputError, PlanningInputError),
    (PlanError, PlanningPlanError),
    (BinaryError, PlanningBinaryError),
    (ServiceError, PlanningServiceError),
    (RankError, PlanningRankError),
    (NeuroShardError, PlanningError),
)
"""The errors of this package, each with the one that is TorchRec's too."""


def planning(
    error: Exception, error_type: PlannerErrorType = PlannerErrorType.OTHER
) -> PlanningError | None:
    """Returns an error of this package or TorchRec's PlannerError as both; None for others."""
    if isinstance(error, PlanningError):
        return error
    if isinstance(error, PlannerError):
        return PlanningInputError([Problem(str(error))], error.error_type)
    for kind, both in KINDS:
        if isinstance(error, kind):
            made = both(error.problems, error_type)
            made.nothing_fits, made.exit_code = error.nothing_fits, error.exit_code
            return made
    return None


@contextmanager
def raised() -> Iterator[None]:
    """Raises what is raised inside as TorchRec's PlannerError too, where it is of this package
    or TorchRec's."""
    try:
        yield
    except (NeuroShardError, PlannerError) as e:
        both = planning(e)
        assert both is not None
        if both is e:
            raise
        raise both from e


def told(e: Exception) -> dict[str, Any]:
    """Returns an error as rank 0 sends it to the other ranks."""
    both = planning(e)
    if both is None:
        problems = [(escaped(f"rank 0: {type(e).__name__}: {e}"), "")]
        return {"error": PlanningError.__name__, "type": None, "problems": problems}
    problems = [(p.message, p.hint) for p in both.problems]
    return {"error": type(both).__name__, "type": both.error_type.value, "problems": problems}


def error(told: dict[str, Any]) -> PlanningError:
    """Returns the error that ``told`` has described."""
    kinds = {both.__name__: both for _, both in KINDS}
    kind = kinds.get(told["error"], PlanningError)
    error_type = PlannerErrorType(told["type"]) if told["type"] else PlannerErrorType.OTHER
    return kind([Problem(message, hint) for message, hint in told["problems"]], error_type)
