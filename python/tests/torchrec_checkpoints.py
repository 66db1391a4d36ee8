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
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.optim import RowWiseAdagrad
from torchrec.optim.keyed import CombinedOptimizer, KeyedOptimizerWrapper
from torchrec.optim.optimizers import in_backward_optimizer_filter

HALF = 4
"""The steps before a checkpoint, and the steps after it."""

Recipe = dict[str, Any]


def build(case: dict[str, Any], seed: int) -> tuple[nn.Module, Any]:
    """Returns the model under the case's plan, and the optimizer of what is not fused."""
    name = case["optimizer"]
    sharders = ranks.sharders_of(name)
    torch.manual_seed(seed)
    model = ranks.Model()
    start = dict(model.state_dict())
    plan = ranks.plan_of(case, model, sharders)
    sharded = DistributedModelParallel(model, device=ranks.CPU, plan=plan, sharders=sharders)
    if "resume" not in case:  # else the weights stay as they were drawn, on each rank
        sharded.load_state_dict(start)
    parameters = dict(in_backward_optimizer_filter(sharded.named_parameters()))
    if name != "rowwise_adagrad":
        return sharded, KeyedOptimizerWrapper(parameters, lambda p: ranks.optimizer_of(name, p))
    tables = {k: v for k, v in parameters.items() if ".embedding_bags." in k}
    others = {k: v for k, v in parameters.items() if k not in tables}
    parts = [KeyedOptimizerWrapper(others, lambda p: ranks.optimizer_of("adagrad", p))]
    if tables:
        parts += [KeyedOptimizerWrapper(tables, lambda p: RowWiseAdagrad(p, lr=ranks.RATE))]
    return sharded, CombinedOptimizer(parts)


def save(case: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Trains without interruption; in the middle the state is kept, in two ways."""
    sharded, dense = build(case, seed=0)
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
    sharded, dense = build(case, seed=1 + dist.get_rank())
    how = case.get("how", "recipe")
    try:
        if how == "recipe":
            recipe["resume"](sharded, dense, case["resume"])
        elif how == "default planner":
            _, state = recipe["state_of"](sharded, dense)
            dcp.load(state, checkpoint_id=case["resume"])
        elif how == "weights":
            state = {"model": sharded.state_dict()}
            dcp.load(state, checkpoint_id=case["resume"])
            sharded.load_state_dict(state["model"])
        elif how == "in place":
            sharded.load_state_dict = lambda _: None
            recipe["resume"](sharded, dense, case["resume"])
    except (RuntimeError, ValueError, dcp.api.CheckpointException) as e:
        return {"error": str(e), "plan": ranks.planned(sharded.plan)}
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


def order(case: dict[str, Any], _: Recipe) -> dict[str, Any]:
    """Looks up one batch in the whole collection and in the sharded one."""
    torch.manual_seed(0)
    whole = ranks.Model().sparse.plain
    sharded, _ = build(case, seed=0)
    plain, _, _ = ranks.batch(0, [dist.get_rank()])
    one, other = whole(plain), sharded.module.sparse.plain(plain)
    by_name = one.to_dict()
    return {
        "whole": one.keys(),
        "sharded": other.keys(),
        "same values": torch.allclose(one.values(), other.values(), atol=1e-6),
        "same by name": all(
            torch.allclose(v, by_name[k], atol=1e-6) for k, v in other.to_dict().items()
        ),
    }


def run(case: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Does what the case has."""
    do = order if case.get("order") else save if "save" in case else resume
    return do(case, recipe)
