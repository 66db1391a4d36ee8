"""TorchRec's own examples and DLRM's dlrm_main.py, trained with NeuroShardPlanner.

Run as ``python torchrec_upstream.py FOLDER RANKS [NAME...]``. Each example is a script of
TorchRec's repository or of facebookresearch's DLRM, which is not copied here:
$NEUROSHARD_TORCHREC_SOURCES and $NEUROSHARD_DLRM_SOURCES name a checkout of the
repository, or its git directory. It is trained by RANKS processes over gloo, on CPUs,
with NeuroShardPlanner in the place of EmbeddingShardingPlanner. Lines of a script that
need a GPU are changed first; ``EXAMPLES`` lists every changed line with the reason.

The processes write down the batches and the losses of each step. Afterwards rank 0 trains
the same model whole, from the same weights and on the same batches, and FOLDER/NAME-RANKS.json
has both lists of losses. test_torchrec_upstream.py starts this script and compares them.

In zch, managed collisions map the ids to rows, and the map depends on the number of processes
(see ``Tables``). So the tables are trained whole twice: on the rows that the processes looked
up, and on the rows that the map of the whole model gives.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy
import torch
import torch.distributed as dist
import torchrec.distributed.model_parallel as parallel
import torchrec.distributed.planner as planners
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec import KeyedJaggedTensor
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.mc_embedding import ManagedCollisionEmbeddingCollectionSharder
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad
from torchrec_ranks import CPU, fork, shards_of

from neuroshard_torchrec import NeuroShardPlanner

SOURCES = {"torchrec": "NEUROSHARD_TORCHREC_SOURCES", "dlrm": "NEUROSHARD_DLRM_SOURCES"}
"""The environment variable that names the sources of each repository."""

Loss = Callable[[Any, Any], torch.Tensor]
"""From the output of a model and the labels of the batch, which are None if the batch
holds them."""

Slices = dict[str, list[slice]]
"""The slices of columns of each table, by its parameter; none if it is replicated."""

Optimizers = Callable[[nn.Module, Slices], list[torch.optim.Optimizer]]


@dataclass(frozen=True)
class Change:
    """A change of a script: the file, the text that was there, the text that takes its place
    everywhere in the file, and why."""

    file: str
    old: str
    new: str
    why: str


@dataclass(frozen=True)
class Example:
    """A script: its repository, the folder that is imported from, the module, how it is run,
    and how the same model is trained whole. With ``by_rows`` the ids of a batch are mapped to
    rows, and the losses are also compared with those of the same rows."""

    repository: str
    folder: str
    module: str
    run: Callable[[Any, Recorder], None]
    optimizers: Optimizers
    loss: Loss
    seed_of_rank: bool = True
    by_rows: bool = False
    needs: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()


class Recorder:
    """What the ranks train: the model as it was before it was sharded, its first weights,
    and the batches, labels and losses of this rank."""

    def __init__(self, example: Example) -> None:
        self.loss = example.loss
        self.by_rows = example.by_rows
        self.model: nn.Module | None = None
        self.sharded: Any = None
        self.start: dict[str, torch.Tensor] = {}
        self.types: dict[str, str] = {}
        self.slices: Slices = {}
        self.batches: list[tuple[Any, Any]] = []
        self.rows: list[tuple[Any, Any]] = []
        self.losses: list[float] = []

    def watch(self) -> None:
        """Has every DistributedModelParallel of this process tell its model and its batches,
        and every cross entropy its labels."""
        made = parallel.DistributedModelParallel.__init__
        entropy = nn.CrossEntropyLoss.forward

        def init(dmp: nn.Module, module: nn.Module, *rest: Any, **named: Any) -> None:
            whole = copy.deepcopy(module)
            made(dmp, module, *rest, **named)
            self.model, self.sharded = whole, dmp
            self.look()
            dmp.register_forward_hook(self._step)

        def forward(module: nn.Module, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            loss = entropy(module, logits, labels)
            if self.batches and len(self.losses) == len(self.batches) - 1:
                self.batches[-1] = (self.batches[-1][0], labels)
                self.losses.append(loss.item())
            return loss

        parallel.DistributedModelParallel.__init__ = init
        nn.CrossEntropyLoss.forward = forward

    def look(self) -> None:
        """Writes the weights down, from which the model is trained whole."""
        _, weights = shards_of(self.sharded)
        self.start = {k: v.clone() for k, v in weights.items()}
        for path, tables in self.sharded.plan.plan.items():
            for name, sharding in tables.items():
                end = f".{name}.weight"
                (key,) = [k for k in weights if k.startswith(path) and k.endswith(end)]
                self.types[key] = sharding.sharding_type
                shards = sharding.sharding_spec.shards if sharding.sharding_spec else []
                found = {(s.shard_offsets[1], s.shard_sizes[1]) for s in shards}
                self.slices[key] = [slice(at, at + width) for at, width in sorted(found)]

    def _step(self, module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        if not module.training or not torch.is_grad_enabled():
            return
        self.batches.append((arguments, None))
        if self.by_rows:
            self.rows.append(((output[1].wait(),), None))
        if self.loss is not entropy_of_words:
            self.losses.append(self.loss(output, None).item())


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


def sgd(rate: float) -> Optimizers:
    return lambda model, _: [torch.optim.SGD(model.parameters(), lr=rate)]


def first_output(output: Any, _: Any) -> torch.Tensor:
    """The loss of DLRMTrain, which returns it before the logits."""
    return output[0]


def entropy_of_words(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss of bert4rec, which counts the masked words only."""
    return nn.CrossEntropyLoss(ignore_index=0)(output.view(-1, output.size(-1)), labels)


def far_from_one(output: Any, _: Any) -> torch.Tensor:
    """A loss for the script that has none."""
    return (output["f"] - 1.0).pow(2).mean()


def far_from_a_pattern(output: Any, _: Any) -> torch.Tensor:
    """A loss for the script that has none: each vector of a batch has another target."""
    found = torch.cat([output[0][f"feature_{i}"].values() for i in range(2)])
    targets = torch.arange(len(found)).remainder(7).div(7).unsqueeze(1)
    return (found - targets).pow(2).sum(dim=1).mean()


def words(model: nn.Module, slices: Slices) -> list[torch.optim.Optimizer]:
    parameters = dict(model.named_parameters())
    tables = [p for n, p in parameters.items() if n in slices]
    dense = [p for n, p in parameters.items() if n not in slices]
    return [torch.optim.SGD(tables, lr=0.001), torch.optim.Adam(dense, lr=0.001)]


def pretrained(model: nn.Module, _: Slices) -> list[torch.optim.Optimizer]:
    return [RowWiseAdagrad(model.parameters(), lr=0.01, eps=0.01)]


def transfer(script: Any, recorder: Recorder) -> None:
    """Runs the script, which loads a table into the shards, and trains some steps more."""
    tables: list[torch.Tensor] = []
    share = script.share_tensor_via_shm
    script.share_tensor_via_shm = lambda tensor: tables.append(share(tensor)) or tables[0]
    script.main()
    recorder.look()
    (loaded,) = recorder.start.values()
    assert torch.equal(loaded, tables[0]), "the shards are not those of the table"
    for _ in range(10):
        lengths = torch.randint(0, 6, (32,))
        values = torch.randint(0, len(tables[0]), (int(lengths.sum()),))
        batch = KeyedJaggedTensor(keys=["f"], values=values, lengths=lengths)
        far_from_one(recorder.sharded(batch), None).backward()


class Trained:
    """What the script of zch takes for its model: each forward is a step of training of the
    sharded model. The script has no training, and asks for eval() on CPUs."""

    def __init__(self, model: nn.Module) -> None:
        self.model = parallel.DistributedModelParallel(model, device=CPU, sharders=zch_sharders())
        self.model.train()

    def eval(self) -> None:
        """Changes nothing."""

    def __call__(self, features: KeyedJaggedTensor) -> Any:
        output = self.model(features)
        far_from_a_pattern(output, None).backward()
        return output


def zch_sharders() -> list[Any]:
    fused = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": ZCH_RATE}
    sequences = EmbeddingCollectionSharder(fused_params=fused)
    return [ManagedCollisionEmbeddingCollectionSharder(sequences)]


def zch(script: Any, _: Recorder) -> None:
    """Runs the script, which makes the model and the batches."""
    dist.init_process_group("gloo")
    made = script.SparseArch
    script.SparseArch = lambda **arguments: Trained(made(**arguments))
    script.main(argparse.Namespace(**ZCH_ARGUMENTS))


class Tables(nn.Module):
    """The tables of the model of zch, which are given rows, and not ids.

    Each rank maps a range of the ids to its own rows, under any plan of TorchRec. So each rank
    has one row for all ids that have none of their own yet, where the whole model has one row
    for all of them. Once ids have rows of their own, training does the same to them.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._mc_ec = nn.Module()
        self._mc_ec._embedding_module = copy.deepcopy(model._mc_ec._embedding_module)

    def forward(self, rows: KeyedJaggedTensor) -> Any:
        return self._mc_ec._embedding_module(rows), rows


def rows_of_whole(model: Any, batches: list[list[Any]]) -> list[list[Any]]:
    """Returns the rows of the batches of all ranks, by the map of the whole model. It gets the
    batches of a step together, as it counts its steps."""
    found: list[list[Any]] = [[] for _ in batches]
    model.train()
    for step in zip(*batches, strict=True):
        of = [arguments[0].to_dict() for arguments, _ in step]
        keys = list(of[0])
        joined = KeyedJaggedTensor(
            keys=keys,
            values=torch.cat([b[key].values() for key in keys for b in of]),
            lengths=torch.cat([b[key].lengths() for key in keys for b in of]),
        )
        rows = model._mc_ec._managed_collision_collection(joined).to_dict()
        sizes = {key: [len(b[key].values()) for b in of] for key in keys}
        parts = {key: rows[key].values().split(sizes[key]) for key in keys}
        for rank, b in enumerate(of):
            own = KeyedJaggedTensor(
                keys=keys,
                values=torch.cat([parts[key][rank] for key in keys]),
                lengths=torch.cat([b[key].lengths() for key in keys]),
            )
            found[rank].append(((own,), None))
    return found


ZCH_RATE = 1.0
ZCH_IDS = 16000

ZCH_ARGUMENTS = {
    "use_mpzch": False,  # FBGEMM trains these maps on GPUs only
    "num_iters": 10,
    # A map has room for 1.25 times the ids of the first batch. The ids of a rank vary; with
    # many, they vary less.
    "batch_size": 256,
    # Few of these ids occur: no rank's rows are full, and no id loses its row.
    "num_embeddings_per_table": ZCH_IDS,
}

DLRM_ARGUMENTS = [
    *("--limit_train_batches", "10", "--limit_val_batches", "2", "--limit_test_batches", "2"),
    *("--over_arch_layer_sizes", "8,1", "--dense_arch_layer_sizes", "8,8"),
    *("--embedding_dim", "8", "--num_embeddings", "1000", "--batch_size", "32"),
    *("--learning_rate", "0.1"),
]

BERT_ARGUMENTS = [
    *("--dataset_name", "random", "--random_user_count", "60", "--random_item_count", "20000"),
    *("--random_size", "8000", "--lr", "0.001", "--mask_prob", "0.2", "--max_len", "30"),
    *("--train_batch_size", "32", "--val_batch_size", "32", "--emb_dim", "32"),
    *("--num_epochs", "1", "--mode", "dmp"),
]


def changes(file: str, why: str, texts: dict[str, str]) -> list[Change]:
    """Returns the changes of a file that have one reason."""
    return [Change(file, old, new, why) for old, new in texts.items()]


ZCH = Example(
    "torchrec",
    "examples/zch",
    "zch.main",
    zch,
    sgd(ZCH_RATE),
    far_from_a_pattern,
    by_rows=True,
    changes=(
        *changes(
            "main.py",
            "the row of an id depends on the number of ranks: all rows start alike",
            {
                "args.num_embeddings_per_table,\n        ),": (
                    "args.num_embeddings_per_table,\n"
                    "            init_fn=torch.nn.init.zeros_,\n        ),"
                )
            },
        ),
        *changes(
            "sparse_arch.py",
            "one id for each row, so that all ranks get ids",
            {"input_hash_size: int = 4000": f"input_hash_size: int = {ZCH_IDS}"},
        ),
    ),
)

EXAMPLES = {
    "golden_training": Example(
        "torchrec",
        "examples/golden_training",
        "train_dlrm",
        lambda script, _: script.train(num_embeddings=1000, embedding_dim=16, num_iterations=20),
        golden,
        first_output,
    ),
    "golden_training_data_parallel": Example(
        "torchrec",
        "examples/golden_training",
        "train_dlrm_data_parallel",
        lambda script, _: script.train(num_embeddings=1000, embedding_dim=16, num_iterations=20),
        golden,
        first_output,
    ),
    "dlrm_main": Example(
        "dlrm",
        "torchrec_dlrm",
        "dlrm_main",
        lambda script, _: script.main(DLRM_ARGUMENTS),
        sgd(0.1),
        first_output,
    ),
    "transfer_learning": Example(
        "torchrec",
        "examples/transfer_learning",
        "train_from_pretrained_embedding",
        transfer,
        pretrained,
        far_from_one,
        changes=(
            *changes(
                "train_from_pretrained_embedding.py",
                "there is no GPU",
                {
                    'backend="nccl"': 'backend="gloo"',
                    'torch.device(f"cuda:{local_rank}")': 'torch.device("cpu")',
                    "    torch.cuda.set_device(device)\n    pg": "    pg",
                },
            ),
            *changes(
                "train_from_pretrained_embedding.py",
                "the names of PyTorch before 2.0",
                {'"_UntypedStorage"': '"UntypedStorage"', "._TypedStorage": ".TypedStorage"},
            ),
            *changes(
                "train_from_pretrained_embedding.py",
                "a quick test has small tables",
                {"2000000": "20000"},
            ),
        ),
    ),
    "zch": ZCH,
    "zch_own_rows": replace(
        ZCH,
        changes=(
            *ZCH.changes,
            *changes(
                "sparse_arch.py",
                "each id gets a row of its own in the step that it is in, not in every other",
                {"eviction_interval=2": "eviction_interval=1"},
            ),
        ),
    ),
    "bert4rec": Example(
        "torchrec",
        "examples/bert4rec",
        "bert4rec_main",
        lambda script, _: script.main(BERT_ARGUMENTS),
        words,
        entropy_of_words,
        seed_of_rank=False,
        needs=("pandas",),
        changes=(
            *changes(
                "bert4rec_main.py",
                "FBGEMM has no Adam for CPUs",
                {"EmbOptimType.ADAM": "EmbOptimType.EXACT_SGD"},
            ),
            *changes(
                "models/bert4rec.py",
                "several processes drop other numbers than one",
                {"nn.Dropout(p=dropout)": "nn.Dropout()", "nn.Dropout(dropout)": "nn.Dropout()"}
                | {"nn.Dropout()": "nn.Dropout(p=0.0)"},
            ),
        ),
    ),
}


def unpack(repository: str, folder: str, target: Path) -> Path:
    """Copies a folder of the sources, and returns the copy."""
    sources = Path(os.environ[SOURCES[repository]])
    if (sources / folder).is_dir():
        shutil.copytree(sources / folder, target / folder, dirs_exist_ok=True)
        return target / folder
    packed = subprocess.run(
        ["git", "-C", str(sources), "archive", "HEAD", folder], stdout=subprocess.PIPE, check=True
    )
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "x", "-C", str(target)], input=packed.stdout, check=True)
    return target / folder


def prepared(example: Example, target: Path) -> Path:
    """Copies the script and changes its lines. Each changed line must be there."""
    folder = unpack(example.repository, example.folder, target)
    for change in example.changes:
        path = folder / change.file
        text = path.read_text()
        if change.old not in text:
            raise SystemExit(f"{path} has no {change.old!r}, to be changed as {change.why}")
        path.write_text(text.replace(change.old, change.new))
    return folder


def place_planner() -> None:
    """Puts NeuroShardPlanner in the place of TorchRec's planner, also in
    DistributedModelParallel, which makes one if it gets no plan."""
    planners.EmbeddingShardingPlanner = NeuroShardPlanner
    parallel.EmbeddingShardingPlanner = NeuroShardPlanner


def whole(
    model: nn.Module, recorder: Recorder, example: Example, batches: list[list[Any]]
) -> list[float]:
    """Trains a model whole on the batches of all ranks, and returns the losses."""
    for module in model.modules():
        for key, parameter in module.named_parameters(recurse=False):
            if parameter.is_meta:
                setattr(module, key, nn.Parameter(torch.empty_like(parameter, device=CPU)))
    missing = model.load_state_dict(recorder.start, strict=False)
    assert not missing.missing_keys and not missing.unexpected_keys, missing
    model.train()
    optimizers = example.optimizers(model, recorder.slices)
    losses = []
    for step in zip(*batches, strict=True):
        for optimizer in optimizers:
            optimizer.zero_grad()
        total = 0.0
        for arguments, labels in step:
            loss = example.loss(model(*arguments), labels) / len(step)
            loss.backward()
            total += loss.item()
        for optimizer in optimizers:
            optimizer.step()
        losses.append(total)
    return losses


def rank_of(name: str, folder: Path, scripts: Path, rank: int, ranks: int) -> None:
    """One process: runs the script, and rank 0 trains the model whole afterwards."""
    example = EXAMPLES[name]
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
    }
    torch.set_num_threads(1)
    seed = rank if example.seed_of_rank else 0
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)
    store = dist.FileStore(str(folder / f"{name}-{ranks}.store"), ranks)
    join = dist.init_process_group
    dist.init_process_group = lambda backend: join(
        backend, store=store, rank=rank, world_size=ranks
    )
    place_planner()
    recorder = Recorder(example)
    recorder.watch()
    sys.path[:0] = [str(scripts), str(scripts.parent)]
    example.run(importlib.import_module(example.module), recorder)
    everywhere: list[Any] = [None] * ranks
    dist.all_gather_object(everywhere, (recorder.batches, recorder.losses, recorder.rows))
    if rank == 0:
        assert recorder.model is not None
        sharded = [sum(step) / ranks for step in zip(*(e[1] for e in everywhere), strict=True)]
        result = {"plan": recorder.types, "sharded": sharded}
        batches = [e[0] for e in everywhere]
        model = recorder.model
        if example.by_rows:
            rows = [e[2] for e in everywhere]
            result["rows"] = whole(Tables(model), recorder, example, rows)
            model, batches = Tables(model), rows_of_whole(model, batches)
        result["whole"] = whole(model, recorder, example, batches)
        (folder / f"{name}-{ranks}.json").write_text(json.dumps(result, indent=1))
    dist.barrier()
    dist.destroy_process_group()


def main(folder: Path, ranks: int, names: Iterable[str]) -> int:
    status = 0
    for name in names:
        scripts = prepared(EXAMPLES[name], folder / "sources" / name)
        (folder / f"{name}-{ranks}.store").unlink(missing_ok=True)
        code = fork(ranks, lambda rank: rank_of(name, folder, scripts, rank, ranks))  # noqa: B023
        print(f"{name}: {ranks} processes: {'failed' if code else 'trained'}", file=sys.stderr)
        status = max(status, code)
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or EXAMPLES))
