"""Ranks that go on together or not at all."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from .errors import Problem, RankError


def together(group: dist.ProcessGroup, failure: Exception | None, told: Any = None) -> list[Any]:
    """Returns what each rank has told, if none has failed. All ranks of the group call it.
    A rank that has failed raises its own failure, and the others raise RankError."""
    reports: list[Any] = [None] * group.size()
    mine = None if failure is None else str(failure)
    dist.all_gather_object(reports, (mine, told), group=group)
    if failure is not None:
        raise failure
    if problems := [Problem(f"rank {r}: {f}") for r, (f, _) in enumerate(reports) if f is not None]:
        raise RankError(problems)
    return [t for _, t in reports]
