"""What a rank does that trains, moves its tables to another plan, and trains on.

test_torchrec_reshard.py has the cases.
"""

from __future__ import annotations

import gc
import io
import time
import weakref
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torchrec_checkpoints as checkpoints
import torchrec_ranks as ranks
from torch import nn
from torch.distributed._shard.api import load_with_process_group

from neuroshard_torchrec import NeuroShardError, StepTimes, reshard

HALF = checkpoints.HALF
LATER_RATE = ranks.RATE / 4
FIRST_STEP = 100


def lower_rate(sharded: nn.Module) -> None:
    for group in sharded.fused_optimizer.param_groups:
        group["lr"] = LATER_RATE
    sharded.fused_optimizer.step()  # the operators take it over


def never(case: dict[str, Any]) -> dict[str, Any]:
    """Trains without a move."""
    sharded, dense = ranks.build(case, seed=0)
    losses = ranks.steps(sharded, dense, 0, HALF)
    if case.get("rate"):
        lower_rate(sharded)
    losses += ranks.steps(sharded, dense, HALF, 2 * HALF)
    return {"losses": losses, "whole": ranks.whole(sharded), "plan": ranks.planned(sharded.plan)}


def moved(case: dict[str, Any], reference: dict[str, Any]) -> dict[str, Any]:
    """Trains, tries to move to one plan after the other, and trains on."""
    sharded, dense = ranks.build(case, seed=0)
    fused, module = sharded.fused_optimizer, sharded.module.sparse.plain
    path = case["times"].replace("{rank}", str(dist.get_rank()))
    Path(path).unlink(missing_ok=True)  # of a job that was aborted
    times = StepTimes(sharded, case["times"], first=FIRST_STEP)
    losses = ranks.steps(sharded, dense, 0, HALF)
    if case.get("rate"):
        lower_rate(sharded)
    called: list[int] = []
    handle = module.register_forward_hook(lambda *_: called.append(1))
    result: dict[str, Any] = {"tries": []}
    before = ranks.whole(sharded)
    for way in case["ways"]:
        result["tries"].append(tried(way, sharded))
        result["tries"][-1]["changed"] = ranks.off(ranks.whole(sharded), before)
    losses += ranks.steps(sharded, dense, HALF, 2 * HALF)
    handle.remove()
    times.close()
    now, want = ranks.whole(sharded), reference["whole"]
    state = {k for k in want if " " in k}
    result |= {
        "losses": losses,
        "wanted": reference["losses"],
        "state": ranks.off({k: now[k] for k in state}, {k: want[k] for k in state}),
        "off": ranks.off(now, want),
        "hook": len(called),
        "rates": sorted({g["lr"] for g in fused.param_groups}),
        "same objects": fused is sharded.fused_optimizer and module is sharded.module.sparse.plain,
    }
    if not case.get("unequal"):  # TorchRec does not load these
        result["loaded"] = loaded(sharded)
    return result


def tried(way: dict[str, Any], sharded: nn.Module) -> dict[str, Any]:
    """Moves from a plan to another one, and returns what came of it."""
    module = sharded.module.sparse.plain
    new = way["other"] if dist.get_rank() == way.get("other_on") else way["new"]
    old_lookups = [weakref.ref(lookup) for lookup in module._lookups]
    generator = torch.get_rng_state()
    begin = time.monotonic()
    try:
        done = reshard(sharded, way["old"], new)
    except (NeuroShardError, OSError) as e:
        return {"error": type(e).__name__, "message": str(e)}
    gc.collect()
    return {
        "tables": list(done.tables),
        "sent": done.sent,
        "received": done.received,
        "total": done.total,
        "seconds are right": 0 < done.seconds <= time.monotonic() - begin,
        "plan": ranks.planned(sharded.plan),
        "held": ranks.held_by(sharded),
        "operators": ranks.operators_of(sharded),
        "weights_bytes": ranks.bytes_of(sharded)[0],
        "same generator": torch.equal(generator, torch.get_rng_state()),
        "old lookups": sum(r() is not None for r in old_lookups),
    }


def loaded(sharded: nn.Module) -> float:
    """Stores the model, forgets its weights, and loads them; returns how much differs."""
    kept, before = io.BytesIO(), ranks.whole(sharded)
    torch.save(sharded.state_dict(), kept)
    for module in sharded.module.sparse.children():
        for lookup in module._lookups:
            for p in lookup.parameters():
                p.data.zero_()
    kept.seek(0)
    with load_with_process_group(dist.group.WORLD):
        sharded.load_state_dict(torch.load(kept, weights_only=False))
    return ranks.off(ranks.whole(sharded), before)


_REFERENCES: dict[Any, Any] = {}


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Does what the case has, beside a training without a move."""
    key = (case["optimizer"], case["plan"], case.get("rate"))
    if key not in _REFERENCES:
        _REFERENCES[key] = never(case)
    return moved(case, _REFERENCES[key])
