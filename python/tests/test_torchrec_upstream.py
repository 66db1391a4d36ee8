"""TorchRec's golden training and DLRM's dlrm_main.py train under NeuroShardPlanner.

The scripts are not part of this repository: $NEUROSHARD_TORCHREC_SOURCES and
$NEUROSHARD_DLRM_SOURCES name checkouts of them, or their git directories, and a test without its
sources is skipped. Two and four processes train each script over gloo, on CPUs, with
NeuroShardPlanner in the place of EmbeddingShardingPlanner. The losses of each step must be those of
the same model trained whole, from the same weights and on the same batches.
"""

from __future__ import annotations

import copy
import importlib
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import torch.distributed as dist
import torchrec.distributed.model_parallel as parallel
import torchrec.distributed.planner as planners
import torchrec_ranks as ranks
from torch import nn
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad

from neuroshard_torchrec import NeuroShardPlanner

LOSS = 1e-5
"""Losses may differ by this share. Adagrad divides by the root of a sum of squares, which is
nearly nothing at first, and so makes the differences of float32 larger."""

LATE_LOSS = 1e-2
"""The share after ten steps of the golden training, whose dense Adagrad has a learning rate of 0.1:
its first step is 0.1 for any gradient, also for one that is zero but for rounding."""

Slices = dict[str, list[slice]]
"""The slices of columns of each table, by its parameter; none if it is replicated."""


class SlicedAdagrad(torch.optim.Optimizer):
    """Rowwise Adagrad as FBGEMM computes it for a table in slices of columns: one number for
    each row of a slice."""

    def __init__(self, tables: dict[nn.Parameter, list[slice]], rate: float) -> None:
        super().__init__(list(tables), {"lr": rate})
        self.tables = tables
        self.squares = {p: torch.zeros(len(p), len(of)) for p, of in tables.items()}

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for table, columns in self.tables.items():
            for i, of in enumerate(columns):
                assert table.grad is not None
                gradient = table.grad[:, of]
                self.squares[table][:, i] += gradient.pow(2).mean(dim=1)
                root = self.squares[table][:, i : i + 1].sqrt()
                table[:, of] -= self.param_groups[0]["lr"] * gradient / (root + 1e-8)


def golden(model: nn.Module, slices: Slices) -> list[torch.optim.Optimizer]:
    """A replicated table has TorchRec's rowwise Adagrad, with another epsilon than FBGEMM's."""
    parameters = dict(model.named_parameters())
    fused = {parameters[n]: of for n, of in slices.items() if of}
    replicated = [parameters[n] for n, of in slices.items() if not of]
    dense = [p for n, p in parameters.items() if n not in slices]
    return [
        SlicedAdagrad(fused, rate=0.1),
        torch.optim.Adagrad(dense, lr=0.1),
        *([RowWiseAdagrad(replicated, lr=0.1)] if replicated else []),
    ]


def sgd(model: nn.Module, _: Slices) -> list[torch.optim.Optimizer]:
    return [torch.optim.SGD(model.parameters(), lr=0.1)]


@dataclass(frozen=True)
class Example:
    """A script: the variable that names its repository, the folder that is imported from, the
    module, how it is run, and how the same model is trained whole."""

    sources: str
    folder: str
    module: str
    run: Callable[[Any], None]
    optimizers: Callable[[nn.Module, Slices], list[torch.optim.Optimizer]]


def trains_golden(script: Any) -> None:
    script.train(num_embeddings=1000, embedding_dim=16, num_iterations=20)


def trains_dlrm(script: Any) -> None:
    script.main(
        [
            *("--limit_train_batches", "10", "--limit_val_batches", "2"),
            *("--limit_test_batches", "2", "--learning_rate", "0.1"),
            *("--over_arch_layer_sizes", "8,1", "--dense_arch_layer_sizes", "8,8"),
            *("--embedding_dim", "8", "--num_embeddings", "1000", "--batch_size", "32"),
        ]
    )


TORCHREC, DLRM = "NEUROSHARD_TORCHREC_SOURCES", "NEUROSHARD_DLRM_SOURCES"
GOLDEN = "examples/golden_training"

EXAMPLES = {
    "golden_training": Example(TORCHREC, GOLDEN, "train_dlrm", trains_golden, golden),
    "golden_training_data_parallel": Example(
        TORCHREC, GOLDEN, "train_dlrm_data_parallel", trains_golden, golden
    ),
    "dlrm_main": Example(DLRM, "torchrec_dlrm", "dlrm_main", trains_dlrm, sgd),
}


class Recorder:
    """The model as it was before it was sharded, its first weights, and the batches and losses of
    this rank. The models return their loss before the logits."""

    def __init__(self) -> None:
        self.model: Any = None
        self.start: dict[str, torch.Tensor] = {}
        self.slices: Slices = {}
        self.batches: list[Any] = []
        self.losses: list[float] = []
        made = parallel.DistributedModelParallel.__init__

        def init(dmp: Any, module: nn.Module, *rest: Any, **named: Any) -> None:
            self.model = copy.deepcopy(module)
            made(dmp, module, *rest, **named)
            self._look(dmp)
            dmp.register_forward_hook(self._step)

        parallel.DistributedModelParallel.__init__ = init

    def _look(self, sharded: Any) -> None:
        weights = {k: v for k, v in ranks.whole(sharded).items() if " " not in k}
        self.start = weights
        for path, tables in sharded.plan.plan.items():
            for name, sharding in tables.items():
                end = f".{name}.weight"
                (key,) = [k for k in weights if k.startswith(path) and k.endswith(end)]
                shards = sharding.sharding_spec.shards if sharding.sharding_spec else []
                found = {(s.shard_offsets[1], s.shard_sizes[1]) for s in shards}
                self.slices[key] = [slice(at, at + width) for at, width in sorted(found)]

    def _step(self, module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        if module.training and torch.is_grad_enabled():
            self.batches.append(arguments)
            self.losses.append(output[0].item())

    def whole(self, example: Example, batches: list[list[Any]]) -> list[float]:
        """Trains the model whole on the batches of all ranks, and returns the losses."""
        model = self.model
        for module in model.modules():
            for key, parameter in module.named_parameters(recurse=False):
                if parameter.is_meta:
                    setattr(module, key, nn.Parameter(torch.empty_like(parameter, device="cpu")))
        model.load_state_dict(self.start)
        model.train()
        optimizers = example.optimizers(model, self.slices)
        losses = []
        for step in zip(*batches, strict=True):
            for optimizer in optimizers:
                optimizer.zero_grad()
            total = 0.0
            for arguments in step:
                loss = model(*arguments)[0] / len(step)
                loss.backward()
                total += loss.item()
            for optimizer in optimizers:
                optimizer.step()
            losses.append(total)
        return losses


def scripts_of(example: Example, target: Path) -> Path:
    """Copies the folder of the sources, and returns the copy."""
    sources = Path(os.environ[example.sources])
    if (sources / example.folder).is_dir():
        shutil.copytree(sources / example.folder, target / example.folder)
    else:
        pack = ["git", "-C", str(sources), "archive", "HEAD", example.folder]
        packed = subprocess.run(pack, stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "x", "-C", str(target)], input=packed.stdout, check=True)
    return target / example.folder


def trained(example: Example, scripts: Path) -> dict[str, Any]:
    """Runs the script on this rank; the first rank trains the model whole afterwards."""
    rank = dist.get_rank()
    torch.manual_seed(rank)
    random.seed(rank)
    numpy.random.seed(rank)
    planners.EmbeddingShardingPlanner = NeuroShardPlanner
    parallel.EmbeddingShardingPlanner = NeuroShardPlanner  # it makes one if it gets no plan
    dist.init_process_group = lambda **_: None  # this rank has joined already
    recorder = Recorder()
    sys.path[:0] = [str(scripts), str(scripts.parent)]
    example.run(importlib.import_module(example.module))
    everywhere: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, (recorder.batches, recorder.losses))
    if rank:
        return {}
    sharded = [sum(step) / len(step) for step in zip(*(e[1] for e in everywhere), strict=True)]
    return {"sharded": sharded, "whole": recorder.whole(example, [e[0] for e in everywhere])}


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_torchrec(tmp_path: Path, binary: str, name: str, count: int) -> None:
    example = EXAMPLES[name]
    if not os.environ.get(example.sources):
        pytest.skip(f"SKIPPED: {name} needs ${example.sources}")
    scripts = scripts_of(example, tmp_path)
    losses = ranks.on_ranks(count, trained, example, scripts, per_host=count)[0]
    assert len(losses["sharded"]) >= 10
    early = len(losses["sharded"]) if name == "dlrm_main" else 10
    assert losses["sharded"][:early] == pytest.approx(losses["whole"][:early], rel=LOSS)
    assert losses["sharded"] == pytest.approx(losses["whole"], rel=LATE_LOSS)
