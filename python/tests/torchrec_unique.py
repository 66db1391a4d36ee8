"""FBGEMM's jagged_unique_indices for CPUs, on which FBGEMM has none.

TorchRec deduplicates the indices of a rank with it. The import registers it, so that processes
on CPUs run all of TorchRec's own code around it.
"""

from __future__ import annotations

from itertools import pairwise

import torch

Four = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def unique(
    starts: torch.Tensor, firsts: torch.Tensor, offsets: torch.Tensor, indices: torch.Tensor
) -> Four:
    """Returns the distinct indices of each table, with lengths and offsets that spread them
    evenly over the table's features and samples, and the place of each index among them.

    Index i of feature f is ``starts[f] + i`` among those of all tables, and the features of a
    table lie between two different ``firsts``.
    """
    lengths = offsets.diff()
    samples = len(lengths) // (len(starts) - 1)
    start_of = starts[:-1].repeat_interleave(samples).repeat_interleave(lengths)
    found, places = torch.unique(indices + start_of, return_inverse=True)
    spread = torch.zeros_like(lengths)
    own = found.clone()
    for first, end in pairwise(firsts.tolist()):
        if first == end:
            continue
        of_table = (found >= starts[first]) & (found < starts[end])
        own[of_table] -= starts[first]
        slots = spread[first * samples : end * samples]
        slots += int(of_table.sum()) // len(slots)
        slots[: int(of_table.sum()) % len(slots)] += 1
    ends = torch.ops.fbgemm.asynchronous_complete_cumsum(spread)
    return spread, ends, own, places


LIBRARY = torch.library.Library("fbgemm", "IMPL")
"""Keeps the registration alive."""
LIBRARY.impl("jagged_unique_indices", unique, "CPU")
