"""What a rank does that trains one model as two sharding groups (TorchRec's DMPCollection), and
the same training computed by one process. test_torchrec_twod.py has the cases.

DMPCollection runs on GPUs only. ``on_cpus`` makes one that also runs on CPUs, from TorchRec's
own source, with two lines less; gloo has no mean, so the all-reduce is a hook that sums and
divides, which DMPCollection takes as an argument.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
import torchrec.distributed.model_parallel as model_parallel
import torchrec_ranks as ranks
from torch import nn
from torchrec.distributed import comm
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.optim.keyed import KeyedOptimizerWrapper
from torchrec.optim.optimizers import in_backward_optimizer_filter

from neuroshard_torchrec import NeuroShardPlanner, load_plan

STEPS = 8
HALF = 4

Tensors = dict[str, torch.Tensor]


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
    """Returns the model in its sharding groups, and the optimizer of what is not fused."""
    sharders = ranks.sharders_of(case["optimizer"])
    torch.manual_seed(seed)
    model = ranks.Model()
    start = dict(model.state_dict())
    planner = NeuroShardPlanner(
        device_type="cpu",
        sharding_group_size=case["asked"] if "asked" in case else case["size"],
        use_inter_host_allreduce=case.get("inter_host", False),
        sync_every=case["every"],
        **case["planner"],
    )
    plan = planner.collective_plan(model, sharders)
    # TorchRec makes the groups of ranks of a host once in a process, for all DMPCollections.
    comm._INTRA_PG_2D = comm._CROSS_PG_2D = None
    if file := case.get("file"):  # the same plan, from its file
        dist.barrier()
        plan = load_plan(
            file,
            model,
            device_type="cpu",
            sharding_group_size=case["size"],
            use_inter_host_allreduce=case.get("inter_host", False),
        )
    sharded = on_cpus()(
        module=model,
        device=ranks.CPU,
        plan=plan,
        global_pg=dist.group.WORLD,
        sharders=sharders,
        **planner.dmp_collection_options,
    )
    if "resume" not in case:
        sharded.load_state_dict(start)
    dense = KeyedOptimizerWrapper(
        dict(in_backward_optimizer_filter(sharded.named_parameters())),
        lambda parameters: ranks.optimizer_of(case["optimizer"], parameters),
    )
    return sharded, dense, planner


def steps(sharded: Any, dense: Any, first: int, last: int, every: int) -> list[float]:
    """Trains with an average of the replicas each ``every`` steps, and returns the losses."""
    losses = []
    for step in range(first, last):
        losses += ranks.steps(sharded, dense, step, step + 1)
        if (step + 1) % every == 0:
            sharded.sync()
    return losses


def pieces(value: Any) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    """Returns what this rank holds of a tensor: the first row and column of each shard, and
    the shard."""
    if not hasattr(value, "to_local"):
        if hasattr(value, "local_shards"):
            yield from ((tuple(s.metadata.shard_offsets), s.tensor) for s in value.local_shards())
        else:
            yield (0,) * value.dim(), value
        return
    local = value.to_local()
    # A rank without a shard may state an offset all the same.
    offsets = local.local_offsets()
    yield from zip((tuple(o) for o in offsets), local.local_shards(), strict=False)


def whole(sharded: Any, groups: list[list[int]]) -> list[Tensors]:
    """Returns all tensors of each group put together: weights, and the states of optimizers
    by names with a space."""
    values: dict[str, Any] = dict(sharded.state_dict())
    for key, states in sharded.fused_optimizer.state_dict()["state"].items():
        values |= {f"{key} {name}": value for name, value in states.items()}
    own = {
        key: (tuple(value.size()), [(o, t.detach().clone()) for o, t in pieces(value)])
        for key, value in values.items()
    }
    everywhere: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, own)
    found = []
    for group in groups:
        out: Tensors = {}
        for rank in group:
            for key, (size, held) in everywhere[rank].items():
                full = out.setdefault(key, torch.full(size, float("nan")))
                for offsets, tensor in held:
                    at = zip(offsets, tensor.shape, strict=True)
                    full[tuple(slice(o, o + n) for o, n in at)] = tensor
        found.append(out)
    return found


def reference(case: dict[str, Any], replicated: set[str]) -> tuple[list[float], list[Tensors]]:
    """Trains one model for each group in this process, on the batches of its ranks. The
    gradients of the dense layers and of replicated tables are the means over the groups; the
    other tables are averaged each ``every`` steps."""
    torch.manual_seed(0)
    models = [ranks.Model()]
    models += [copy.deepcopy(models[0]) for _ in members(case)[1:]]
    optimizers = [ranks.optimizer_of(case["optimizer"], m.parameters()) for m in models]
    losses = []
    for step in range(STEPS):
        total = 0.0
        for model, optimizer, own in zip(models, optimizers, members(case), strict=True):
            plain, weighted, targets = ranks.batch(step, own)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(plain, weighted), targets)
            loss.backward()
            total += loss.item() / len(models)
        losses.append(total)
        of_all = list(zip(*(m.named_parameters() for m in models), strict=True))
        for same in of_all:
            if same[0][0] in replicated:
                mean = sum(p.grad for _, p in same) / len(models)
                for _, p in same:
                    p.grad = mean.clone()
        for optimizer in optimizers:
            optimizer.step()
        if (step + 1) % case["every"] == 0:
            _average(of_all, optimizers, replicated)
    return losses, [_tensors(m, o) for m, o in zip(models, optimizers, strict=True)]


def _average(of_all: list[Any], optimizers: list[Any], replicated: set[str]) -> None:
    for same in of_all:
        if same[0][0] in replicated:
            continue
        every = [p.data for _, p in same]
        if all("sum" in o.state[p] for o, (_, p) in zip(optimizers, same, strict=True)):
            states = [o.state[p]["sum"] for o, (_, p) in zip(optimizers, same, strict=True)]
            _to_mean(states)
        _to_mean(every)


def _to_mean(tensors: list[torch.Tensor]) -> None:
    mean = torch.stack(tensors).mean(dim=0)
    for tensor in tensors:
        tensor.copy_(mean)


def _tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> Tensors:
    out = {k: v.detach().clone() for k, v in model.state_dict().items()}
    for key, p in model.named_parameters():
        if "sum" in optimizer.state[p]:
            table = key.split(".")[-2]
            out[f"{key} {table}.momentum1"] = optimizer.state[p]["sum"].clone()
    return out


def train(case: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
    """Trains as the case has it, and compares with the reference."""
    sharded, dense, planner = build(case, seed=0)
    kinds = {
        f"{path}.embedding_bags.{name}.weight": p.sharding_type
        for path, tables in sharded.plan.plan.items()
        for name, p in tables.items()
    }
    losses = steps(sharded, dense, 0, STEPS, case["every"])
    found = whole(sharded, members(case))
    result: dict[str, Any] = {
        "losses": losses,
        "kinds": sorted(set(kinds.values())),
        "options": planner.dmp_collection_options,
        "size": planner.sharding_group_size,
        "apart": worst(found[0], found[-1]),
    }
    if dist.get_rank() == 0:
        replicated = {k for k, kind in kinds.items() if kind == "data_parallel"}
        replicated |= {k for k in found[0] if k.startswith("dense")}
        result["reference"], want = reference(case, replicated)
        result["off"] = max(worst(f, w) for f, w in zip(found, want, strict=True))
        result["reference apart"] = worst(want[0], want[-1])
        result["states"] = sum(" " in k for k in found[0])
    return result


def worst(one: Tensors, other: Tensors) -> float:
    """Returns the most that a tensor of ``one`` differs, as a share of its largest value."""
    return ranks.off(one, {k: other[k] for k in one})


def save(case: dict[str, Any], recipe: dict[str, Any]) -> dict[str, Any]:
    """Trains without interruption; in the middle, after a sync, is a checkpoint."""
    sharded, dense, _ = build(case, seed=0)
    steps(sharded, dense, 0, HALF, case["every"])
    sharded.sync()
    recipe["save"](sharded, dense, case["save"])
    tensors = whole(sharded, members(case))
    if dist.get_rank() == 0:
        torch.save(tensors[0], f"{case['save']}.whole")
    return {
        "after": steps(sharded, dense, HALF, STEPS, case["every"]),
        "plan": ranks.planned(sharded.plan),
        "apart": worst(*tensors),
    }


def resume(case: dict[str, Any], recipe: dict[str, Any]) -> dict[str, Any]:
    """Goes on where the checkpoint is; without a size, as one DistributedModelParallel."""
    if "size" in case:
        sharded, dense, _ = build(case, seed=1 + dist.get_rank())
    else:
        sharded, dense = ungrouped(case)
    recipe["resume"](sharded, dense, case["resume"])
    groups = members(case) if "size" in case else [list(range(ranks.RANKS))]
    tensors = whole(sharded, groups)
    want = torch.load(f"{case['resume']}.whole")
    result: dict[str, Any] = {
        "off": max(worst(t, want) for t in tensors),
        "same": all(t.keys() == want.keys() for t in tensors),
        "plan": ranks.planned(sharded.plan),
    }
    if "size" in case:
        result["after"] = steps(sharded, dense, HALF, STEPS, case["every"])
    return result


def ungrouped(case: dict[str, Any]) -> tuple[Any, Any]:
    """Returns the model sharded over all ranks, with other weights, and its optimizer."""
    sharders = ranks.sharders_of(case["optimizer"])
    torch.manual_seed(1 + dist.get_rank())
    model = ranks.Model()
    plan = NeuroShardPlanner(device_type="cpu", **case["planner"]).collective_plan(model, sharders)
    sharded = DistributedModelParallel(model, device=ranks.CPU, plan=plan, sharders=sharders)
    return sharded, KeyedOptimizerWrapper(
        dict(in_backward_optimizer_filter(sharded.named_parameters())),
        lambda parameters: ranks.optimizer_of(case["optimizer"], parameters),
    )


def run(case: dict[str, Any], recipe: dict[str, Any]) -> dict[str, Any]:
    """Does what the case has."""
    do = save if "save" in case else resume if "resume" in case else train
    return do(case, recipe)
