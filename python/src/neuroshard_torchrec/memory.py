"""What a short run measured of the caching allocator, in the program's words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .errors import InputError, Problem, shown

START = "allocated_bytes.all.current"
PEAK = "allocated_bytes.all.peak"
RESERVED = "reserved_bytes.all.peak"

_HINT = (
    "take torch.cuda.memory_stats() after a few steps, once each rank has called "
    f'reset_peak_memory_stats(), with "{START}" as it was at the start of a step'
)


def overhead(measured: Any) -> float | None:
    """Returns what the allocator reserves beyond the buffers of a step, as a share of them: the
    largest of all ranks, rounded up to four digits. ``measured`` is a mapping with the keys of
    torch.cuda.memory_stats(), or one for each rank. InputError lists what is wrong with it."""
    if measured is None:
        return None
    ranks = [measured] if isinstance(measured, Mapping) else measured
    if not isinstance(ranks, Sequence) or not ranks:
        message = f"measured_memory {shown(measured)} is no mapping, and no list of them"
        raise InputError([Problem(message, _HINT)])
    found = [problem for i, stats in enumerate(ranks) for problem in _problems(i, stats)]
    if found:
        raise InputError(found)
    shares = ((s[RESERVED] - s[START]) / (s[PEAK] - s[START]) - 1 for s in ranks)
    return math.ceil(round(1e4 * max(shares), 6)) / 1e4


def _problems(rank: int, stats: Any) -> Iterator[Problem]:
    at = f"measured_memory of rank {rank}"
    if not isinstance(stats, Mapping):
        yield Problem(f"{at} is {shown(stats)}, which is no mapping", _HINT)
        return
    wrong = False
    for key in (START, PEAK, RESERVED):
        value = stats.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            wrong = True
            text = "is missing" if key not in stats else f"{shown(value)} is no number of bytes"
            yield Problem(f'{at}: "{key}" {text}', _HINT)
    if wrong:
        return
    if stats[PEAK] <= stats[START]:
        message = f"{at}: the allocated peak, {stats[PEAK]} bytes, is not above the "
        yield Problem(f"{message}{stats[START]} at the start of a step", _HINT)
    elif stats[RESERVED] < stats[PEAK]:
        message = f"{at}: the reserved peak, {stats[RESERVED]} bytes, is below the "
        yield Problem(f"{message}allocated peak, {stats[PEAK]}", _HINT)
