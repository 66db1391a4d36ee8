"""What a rank does that trains, writes a checkpoint, or resumes from one under another plan.

test_torchrec_checkpoints.py has the cases. The recipe has the functions of docs/TORCHREC.md.
"""

from __future__ import annotations

import io
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torchrec_ranks as ranks
from torch.distributed._shard.api import load_with_process_group

HALF = 3
"""The steps before a checkpoint, and the steps after it."""

Recipe = dict[str, Any]


def save(case: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Trains without interruption; in the middle the state is stored, in two ways."""
    sharded, dense = ranks.build(case, seed=0)
    before = ranks.steps(sharded, dense, 0, HALF)
    recipe["save"](sharded, dense, case["save"])
    tensors = ranks.whole(sharded)
    if dist.get_rank() == 0:
        torch.save(tensors, f"{case['save']}.whole")
    kept = io.BytesIO()
    everything, state = recipe["state_of"](sharded, dense)
    torch.save(state, kept)
    result: dict[str, Any] = {
        "before": before,
        "after": ranks.steps(sharded, dense, HALF, 2 * HALF),
        "plan": ranks.planned(sharded.plan),
        "operators": len(ranks.operators_of(sharded)),
    }
    if "shard" in case:
        return result
    kept.seek(0)
    try:  # back to where it was, by state_dict and load_state_dict alone
        with load_with_process_group(dist.group.WORLD):
            state = torch.load(kept, weights_only=False)
        sharded.load_state_dict(state["model"])
        everything.load_state_dict(state["optimizer"])
    except RuntimeError as e:
        result["own"] = str(e)
    dist.barrier()
    if not case.get("fails"):
        result["again"] = ranks.steps(sharded, dense, HALF, 2 * HALF)
    return result


def resume(case: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Goes on where the checkpoint is."""
    sharded, dense = ranks.build(case, seed=1 + dist.get_rank())
    try:
        recipe["resume"](sharded, dense, case["resume"])
    except (RuntimeError, ValueError, dcp.api.CheckpointException) as e:
        return {"error": str(e)}
    off = ranks.off(ranks.whole(sharded), torch.load(f"{case['resume']}.whole"))
    return {
        "off": off,
        "after": ranks.steps(sharded, dense, HALF, 2 * HALF),
        "plan": ranks.planned(sharded.plan),
        "operators": len(ranks.operators_of(sharded)),
    }


def run(case: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Does what the case has."""
    return (save if "save" in case else resume)(case, recipe)
