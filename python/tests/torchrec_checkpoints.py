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
from torch import nn
from torch.distributed._shard.api import load_with_process_group

HALF = 3
"""The steps before a checkpoint, and the steps after it."""

Recipe = dict[str, Any]


def save(case: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Trains without interruption; in the middle the state is kept, in two ways."""
    sharded, dense = ranks.build(case, seed=0)
    before = ranks.steps(sharded, dense, 0, HALF)
    recipe["save"](sharded, dense, case["save"])
    kept = io.BytesIO()
    everything, state = recipe["state_of"](sharded, dense)
    torch.save(state, kept)
    after = ranks.steps(sharded, dense, HALF, 2 * HALF)
    if case.get("whole"):
        keep_whole(sharded, case["save"])
    result: dict[str, Any] = {
        "before": before,
        "after": after,
        "plan": ranks.planned(sharded.plan),
        "operators": len(ranks.operators_of(sharded)),
    }
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
    result = {
        "after": ranks.steps(sharded, dense, HALF, 2 * HALF),
        "plan": ranks.planned(sharded.plan),
        "operators": len(ranks.operators_of(sharded)),
    }
    if case.get("whole"):
        result |= compare_whole(sharded, case["resume"])
    return result


def keep_whole(sharded: nn.Module, folder: str) -> None:
    """Keeps the weights and the optimizer state of all tables, beside a checkpoint."""
    tensors = ranks.whole(sharded)
    if dist.get_rank() == 0:
        torch.save(tensors, f"{folder}.whole")


def compare_whole(sharded: nn.Module, folder: str) -> dict[str, float]:
    """Returns by how much the optimizer state and all tensors differ from what was kept."""
    now, want = ranks.whole(sharded), torch.load(f"{folder}.whole")
    state = [k for k in want if " " in k]
    return {
        "state": ranks.off({k: now[k] for k in state}, {k: want[k] for k in state}),
        "off": ranks.off(now, want),
    }


def run(case: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Does what the case has."""
    return (save if "save" in case else resume)(case, recipe)
