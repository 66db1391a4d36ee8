"""What a rank does that trains one model as two sharding groups (TorchRec's DMPCollection).
test_torchrec_twod.py has the cases.

DMPCollection runs on GPUs only. ``on_cpus`` makes one that also runs on CPUs, from TorchRec's
own source, with two lines less; gloo has no mean, so the all-reduce is a hook that sums and
divides, which DMPCollection takes as an argument.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torchrec.distributed.model_parallel as model_parallel
import torchrec_ranks as ranks
from torchrec.distributed import comm

from neuroshard_torchrec import NeuroShardPlanner, load_plan

HALF = 4


def on_cpus() -> Any:
    """Returns TorchRec's DMPCollection without its check for GPUs, and with placements on
    CPUs that have no number."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(model_parallel.DMPCollection)))
    body = next(
        node.body
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    checks = [s for s in body if isinstance(s, ast.Assert) and "cuda" in ast.unparse(s)]
    assert len(checks) == 1, "TorchRec's check for GPUs has changed"
    body.remove(checks[0])
    names = dict(vars(model_parallel))
    real = names["_remote_device"]
    names["_remote_device"] = lambda text: real(text.split(":cpu")[0].split("/cpu:")[0] + "/cpu")
    exec(compile(tree, "DMPCollection", "exec"), names)
    real_class: Any = names["DMPCollection"]

    class OnCPUs(real_class):  # type: ignore[misc] # it is untyped
        def __init__(self, *arguments: Any, **options: Any) -> None:
            def mean(tensors: list[torch.Tensor]) -> None:
                means(self._default_ctx.replica_pg)(tensors)

            super().__init__(*arguments, custom_all_reduce=mean, **options)

    return OnCPUs


def means(group: dist.ProcessGroup) -> Callable[[list[torch.Tensor]], None]:
    """Returns the all-reduce of the replicas for gloo."""

    def reduce(tensors: list[torch.Tensor]) -> None:
        for tensor in tensors:
            dist.all_reduce(tensor, group=group)
            tensor /= group.size()

    return reduce


def members(case: dict[str, Any]) -> list[list[int]]:
    """Returns the ranks of each group, as docs/TORCHREC.md draws them."""
    size = case["size"]
    number = ranks.RANKS // size
    if case.get("inter_host"):
        return [list(range(g * size, (g + 1) * size)) for g in range(number)]
    return [list(range(g, ranks.RANKS, number)) for g in range(number)]


def build(case: dict[str, Any], seed: int) -> tuple[Any, Any, NeuroShardPlanner]:
    """Returns the model in its sharding groups, the optimizer of what is not fused, and the
    planner."""
    inter_host = case.get("inter_host", False)
    planner = NeuroShardPlanner(
        device_type="cpu",
        sharding_group_size=case["size"],
        use_inter_host_allreduce=inter_host,
        **case["planner"],
    )

    def shard(model: Any, sharders: list[Any]) -> Any:
        plan = planner.collective_plan(model, sharders)
        # TorchRec makes the groups of ranks of a host once in a process, for all DMPCollections.
        comm._INTRA_PG_2D = comm._CROSS_PG_2D = None
        if file := case.get("file"):  # the same plan, from its file
            dist.barrier()
            of_groups = {
                "sharding_group_size": case["size"],
                "use_inter_host_allreduce": inter_host,
            }
            plan = load_plan(file, model, device_type="cpu", **of_groups)
        return on_cpus()(
            module=model,
            device=ranks.CPU,
            plan=plan,
            global_pg=dist.group.WORLD,
            sharders=sharders,
            **planner.dmp_collection_options,
        )

    return *ranks.build(case, seed, shard), planner


def steps(sharded: Any, dense: Any, first: int, last: int) -> list[float]:
    """Trains with an average of the replicas in each step, and returns the losses."""
    losses = []
    for step in range(first, last):
        losses += ranks.steps(sharded, dense, step, step + 1)
        sharded.sync()
    return losses


def train(case: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
    """Trains by SGD. As the replicas are averaged in each step, this is the training of the model
    whole."""
    sharded, dense, planner = build(case, seed=0)
    losses = steps(sharded, dense, 0, ranks.STEPS)
    found = ranks.whole_of(sharded, members(case))
    result: dict[str, Any] = {
        "losses": losses,
        "kinds": sorted({t["kind"] for t in ranks.planned(sharded.plan).values()}),
        "options": planner.dmp_collection_options,
        "apart": ranks.off(*found),
    }
    if dist.get_rank() == 0:
        result["reference"], want = ranks.reference("sgd")
        result["off"] = max(ranks.off({k: f[k] for k in want}, want) for f in found)
    return result


def save(case: dict[str, Any], recipe: dict[str, Any]) -> dict[str, Any]:
    """Trains without interruption; in the middle is a checkpoint."""
    sharded, dense, _ = build(case, seed=0)
    steps(sharded, dense, 0, HALF)
    recipe["save"](sharded, dense, case["save"])
    tensors = ranks.whole_of(sharded, members(case))
    if dist.get_rank() == 0:
        torch.save(tensors[0], f"{case['save']}.whole")
    return {
        "after": steps(sharded, dense, HALF, ranks.STEPS),
        "plan": ranks.planned(sharded.plan),
        "apart": ranks.off(*tensors),
    }


def resume(case: dict[str, Any], recipe: dict[str, Any]) -> dict[str, Any]:
    """Goes on where the checkpoint is; without a size, as one DistributedModelParallel."""
    grouped = "size" in case
    sharded, dense, *_ = (build if grouped else ranks.build)(case, seed=1 + dist.get_rank())
    recipe["resume"](sharded, dense, case["resume"])
    groups = members(case) if grouped else [list(range(ranks.RANKS))]
    want = torch.load(f"{case['resume']}.whole")
    result: dict[str, Any] = {
        "off": max(ranks.off(t, want) for t in ranks.whole_of(sharded, groups)),
        "plan": ranks.planned(sharded.plan),
    }
    if grouped:
        result["after"] = steps(sharded, dense, HALF, ranks.STEPS)
    return result


def run(case: dict[str, Any], recipe: dict[str, Any]) -> dict[str, Any]:
    """Does what the case has."""
    do = save if "save" in case else resume if "resume" in case else train
    return do(case, recipe)
