"""What can go wrong, all of it at once, each with what to do about it.

A script that catches TorchRec's PlannerError, and reads its error_type, works as with TorchRec's
planner.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torchrec.distributed.planner.types import PlannerError, PlannerErrorType  # isort: skip

SHOWN = 50
"""The most problems that a message lists; the exception holds all of them."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and what to do about it ("" where that is plain)."""

    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class NeuroShardError(PlannerError):  # type: ignore[misc] # it is untyped
    """Everything that was found to be wrong, as ``problems``; at least one. ``error_type`` is
    TorchRec's PlannerErrorType."""

    nothing_fits = False
    """Whether what is wrong is that the search found no plan that fits."""

    exit_code: int | None = None
    """The exit code of the program, None if it did not end by itself or did not run."""

    def __init__(
        self, problems: Iterable[Problem], error_type: PlannerErrorType = PlannerErrorType.OTHER
    ) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        lines = [f"- {p}" if len(self.problems) > 1 else str(p) for p in self.problems[:SHOWN]]
        if len(self.problems) > 1:
            lines.insert(0, f"{len(self.problems)} problems:")
        if len(self.problems) > SHOWN:
            lines.append(f"and {len(self.problems) - SHOWN} more")
        super().__init__("\n".join(lines), error_type)

    def __reduce__(self) -> Any:
        """Ranks send each other errors."""
        return type(self), (self.problems,), self.__dict__


class InputError(NeuroShardError):
    """A model, a sample batch or an argument that tables cannot be made of."""


class PlanError(NeuroShardError):
    """A plan that cannot be read, or does not belong to this model and these ranks."""


class BinaryError(NeuroShardError):
    """The program ``neuroshard`` is absent, failed, or found that nothing fits."""


class ServiceError(NeuroShardError):
    """The service of ``neuroshard serve`` cannot be asked, refuses, or found that nothing fits."""


class RankError(NeuroShardError):
    """A plan that this rank could use and another could not."""


class ReplicatedTablesWarning(UserWarning):
    """Tables that every rank keeps whole, and that only an optimizer of the script trains."""


class UnequalSlicesWarning(UserWarning):
    """Tables in slices of unequal widths: TorchRec trains them, and its load_state_dict
    fails on them."""


NAME_SHOWN = 60
"""The most characters of a name that a message shows."""


def escaped(text: str) -> str:
    """Returns a text with all that does not print escaped, but for tabs and ends of lines."""
    return "".join(
        c if c in "\n\t" or c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


def quote(name: str, most: int = NAME_SHOWN) -> str:
    """Returns a name in quotes for a message: cut short, quotes and backslashes and
    what does not print escaped."""
    text = name if len(name) <= most else name[:most] + "..."
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped(text).replace("\n", "\\n").replace("\t", "\\t") + '"'


def shown(value: object) -> str:
    """Returns a value for a message: cut short, what does not print escaped."""
    if isinstance(value, int) and abs(value) > 1 << 63:
        return "a huge number"
    if isinstance(value, str):
        return quote(value)
    text = escaped(repr(value))
    return text if len(text) <= NAME_SHOWN else text[:NAME_SHOWN] + "..."


def quoted(names: Iterable[str]) -> str:
    """Returns the first five names in quotes, and how many more there are."""
    names, most = list(names), 5
    text = ", ".join(quote(n) for n in names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most} more"


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Returns the known name that is most like this one, None where none is."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return near[0] if near else None
