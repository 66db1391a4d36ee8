"""What the examples of this folder share: the process group, the plan and the training loop.

    torchrun --nproc-per-node 2 sequences.py

Each example is a model with a module that TorchRec shards, and a function ``draw`` that makes
the batches. ``train`` below plans it with neuroshard, shards it and trains it. It runs on GPUs
if there are any, else on CPUs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torchrec.distributed.model_parallel import DistributedModelParallel, DMPCollection
from torchrec.optim.keyed import KeyedOptimizerWrapper
from torchrec.optim.optimizers import in_backward_optimizer_filter

from neuroshard_torchrec import NeuroShardPlanner

STEPS = 10
BATCH = 64  # samples of one rank in a step
RATE = 0.05


def generator(step: int) -> torch.Generator:
    """Returns random numbers that only this rank has in this step."""
    return torch.Generator().manual_seed(1000 * step + dist.get_rank())


def train(
    model: nn.Module,
    sharders: list[Any],
    planner: NeuroShardPlanner,
    draw: Callable[[torch.Generator], Any],
    start: dict[str, torch.Tensor] | None = None,
) -> list[float]:
    """Plans, shards and trains the model, and returns the losses of all ranks in the mean.

    The model returns the loss of a batch. ``start`` has weights to begin with, whole tables
    by their names in the ``state_dict``: each rank takes the rows and columns that it holds.
    """
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    plan = planner.collective_plan(model, sharders)
    if planner.sharding_group_size is None:
        sharded = DistributedModelParallel(model, device=device, plan=plan, sharders=sharders)
    else:
        sharded = DMPCollection(
            model,
            device=device,
            plan=plan,
            sharders=sharders,
            global_pg=dist.group.WORLD,
            **planner.dmp_collection_options,
        )
    if start is not None:
        sharded.load_state_dict(dict(start), strict=False)
    # Every parameter without an optimizer in the backward pass: dense layers, processors of
    # features and replicated tables.
    optimizer = KeyedOptimizerWrapper(
        dict(in_backward_optimizer_filter(sharded.named_parameters())),
        lambda parameters: torch.optim.SGD(parameters, lr=RATE),
    )
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = sharded(draw(generator(step)).to(device))
        loss.backward()
        optimizer.step()
        if planner.sharding_group_size is not None and (step + 1) % planner.sync_every == 0:
            sharded.sync()  # the means of the groups' tables
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
    return losses


def run(main: Callable[[], list[float]]) -> None:
    """Runs an example in the process group of torchrun, and prints its losses."""
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if cuda else "gloo")
    losses = main()
    if dist.get_rank() == 0:
        for step, loss in enumerate(losses):
            print(f"step {step}: loss {loss:.4f}")
    dist.barrier()  # no rank leaves while another still talks to it
    dist.destroy_process_group()
