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


def shard(case: dict[str, Any], model: Any, sharders: list[Any]) -> Any:
    """Returns the model in the sharding groups of the case."""
    of_groups = {k: case[k] for k in ("sharding_group_size", "use_inter_host_allreduce")}
    planner = NeuroShardPlanner(device_type="cpu", **of_groups, **case["planner"])
    plan = planner.collective_plan(model, sharders)
    assert planner.dmp_collection_options["node_group_size"] == case["per_host"]
    # TorchRec makes the groups of ranks of a host once in a process, for all DMPCollections.
    comm._INTRA_PG_2D = comm._CROSS_PG_2D = None
    if file := case.get("file"):  # the same plan, from its file
        dist.barrier()
        plan = load_plan(file, model, device_type="cpu", **of_groups)
    return on_cpus()(
        module=model,
        device=ranks.CPU,
        plan=plan,
        global_pg=dist.group.WORLD,
        sharders=sharders,
        **planner.dmp_collection_options,
    )
