"""The bytes that a training step takes on CPUs, under each of TorchRec's train pipelines.

``pytest tests/test_torchrec_memory.py -s`` prints what is counted and what is measured.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torchrec_ranks as ranks
import torchrec_unique
from conftest import neuroshard
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile, record_function
from torchrec import (
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    EmbeddingCollection,
    EmbeddingConfig,
    KeyedJaggedTensor,
)
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.fbgemm_qcomm_codec import (
    CommType,
    QCommsConfig,
    get_qcomm_codecs_registry,
)
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.train_pipeline import train_pipelines, utils
from torchrec_releases import since

from neuroshard_torchrec import load_plan

__all__ = ["torchrec_unique"]

pytestmark = pytest.mark.skipif(not since("1.9"), reason="older pipelines hold batches for longer")

META = torch.device("meta")
STEPS = 8
SETTLED = 4  # from this step on all take the same: pipelines are full, buckets are made
BATCH = 300  # of a rank
ROWS = 600
MANY = 100_000
ZIPF = 1.2
SORTED = 24  # bytes in which a GPU sorts a lookup

# By name: the tables as dim, pooling factor, sharding type, and device if a table lies on one.
FORMS: dict[str, list[tuple[Any, ...]]] = {
    "table_wise": [(128, 2, "table_wise", 0), (192, 3, "table_wise", 1)],
    "five table_wise": [(96 + 32 * d, 2, "table_wise", d) for d in (0, 1, 2, 3, 3)],
    "column_wise": [(512, 2, "column_wise"), (256, 1, "column_wise")],
    "row_wise": [(128, 2, "row_wise"), (192, 1, "row_wise")],
    "data_parallel": [(128, 2, "data_parallel"), (64, 1, "data_parallel")],
    "mixed": [
        (128, 2, "table_wise", 0),
        (96, 1, "row_wise"),
        (128, 1, "data_parallel"),
        (64, 2, "table_wise", 1),
    ],
    "sequences": [(128, 2, "table_wise", 0), (128, 3, "table_wise", 1)],
    "sequences, row_wise": [(128, 2, "row_wise"), (128, 3, "row_wise")],
    "sequences, row_wise, skewed": [(128, 2, "row_wise"), (128, 3, "row_wise")],
    "table_wise, encoded": [(128, 2, "table_wise", 0), (192, 3, "table_wise", 1)],
    "all on one rank, encoded": [(128, 2, "table_wise", 0), (128, 2, "table_wise", 0)],
    "row_wise, encoded": [(128, 2, "row_wise"), (128, 1, "row_wise")],
    "sequences, encoded": [(128, 2, "table_wise", 0), (128, 3, "table_wise", 1)],
    "sequences, all on one rank, encoded": [(128, 2, "table_wise", 0), (128, 2, "table_wise", 0)],
    "sequences, row_wise, encoded": [(128, 2, "row_wise"), (128, 3, "row_wise")],
    "two modules": [
        (160, 2, "table_wise", 0),
        (160, 3, "table_wise", 1),
        (112, 1, "table_wise", 0),
        (112, 2, "table_wise", 1),
    ],
    "dense": [(128, 2, "table_wise", 0), (192, 3, "table_wise", 1)],
    "sequences, dense": [(128, 2, "table_wise", 0), (128, 3, "table_wise", 1)],
    "deduplicated": [(128, 2, "table_wise", 0), (128, 3, "table_wise", 1)],
    "deduplicated, many rows": [(128, 1, "table_wise", 0), (128, 1, "table_wise", 1)],
}
OPTIONS = ("enqueue_batch_after_forward", "free_features_storage_early", "clear_data_dist_inputs")
CASES = [
    *((1, "base", form) for form in ("table_wise", "sequences")),
    *((2, "base", form) for form in FORMS if form != "five table_wise"),
    *((2, "sparse-dist", form) for form in ("table_wise", "row_wise", "mixed")),
    *((2, "sparse-dist", form) for form in ("sequences, row_wise", "deduplicated")),
    *((2, "prefetch", form) for form in ("column_wise", "mixed", "sequences")),
    *((2, "semi-sync", form) for form in ("table_wise", "column_wise", "sequences, row_wise")),
    *((2, pipeline, "dense") for pipeline in ("sparse-dist", "prefetch", "semi-sync")),
    *((2, "sparse-dist+" + option, "dense") for option in OPTIONS),
    (2, "sparse-dist", "sequences, dense"),
    *((2, "base", form) for form in FORMS if "encoded" in form),
    *((4, "sparse-dist", f"{form}row_wise, encoded") for form in ("", "sequences, ")),
    (1, "base", "dense"),
    (2, "semi-sync", "deduplicated"),
    *((4, "base", form) for form in ("five table_wise", "sequences, row_wise")),
    (4, "base", "sequences, row_wise, skewed"),
    (4, "sparse-dist", "five table_wise"),
]
PIPELINES: dict[str, Any] = {
    "base": train_pipelines.TrainPipelineBase,
    "sparse-dist": train_pipelines.TrainPipelineSparseDist,
    "prefetch": train_pipelines.PrefetchTrainPipelineSparseDist,
    "semi-sync": train_pipelines.TrainPipelineSemiSync,
}


def pooled(form: str) -> bool:
    return not form.startswith(("sequences", "deduplicated"))


def rows(form: str) -> int:
    return MANY if "many rows" in form else ROWS


def module_of(form: str, table: int) -> str:
    return "others" if form == "two modules" and table > 1 else "tables"


def activations(form: str) -> int:
    """Returns the bytes that a model keeps from its forward to its backward, beside vectors."""
    return 20_000_000 if form.endswith("dense") else 0


class Keep(torch.autograd.Function):
    """Keeps some bytes from the forward to the backward, as dense layers do."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, size: int) -> torch.Tensor:
        ctx.save_for_backward(torch.zeros(size, dtype=torch.uint8))
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad, None


class Exchange(dist.Work):
    """An exchange that is over when gloo's threads have let go of what was sent. They may do so
    late, and would then free it where the profiler does not see it."""

    def __init__(self, work: Any, sent: Any, holders: int) -> None:
        super().__init__()
        self.work, self.sent, self.holders = work, sent, holders

    def wait(self, *_: Any) -> bool:
        if self.work is not None:
            self.work.wait()
            sent, self.sent, self.work = self.sent, None, None
            while sent._use_count() > self.holders:
                os.sched_yield()
        return True


def exchanged(all_to_all: Any) -> Any:
    """Returns PyTorch's all_to_all_single whose work is an Exchange."""

    def exchange(output: Any, input: Any, *more: Any, **stated: Any) -> Any:
        holders = input._use_count()
        work = all_to_all(output, input, *more, **stated)
        return None if work is None else Exchange(work, input, holders)

    return exchange


class Model(nn.Module):
    """Tables of one feature each under a dense layer; returns what pipelines ask for."""

    def __init__(self, form: str) -> None:
        super().__init__()
        tables, self.pooled = FORMS[form], pooled(form)
        config = EmbeddingBagConfig if self.pooled else EmbeddingConfig
        module = EmbeddingBagCollection if self.pooled else EmbeddingCollection
        configs = [
            config(
                name=f"t{i}", num_embeddings=rows(form), embedding_dim=t[0], feature_names=[f"f{i}"]
            )
            for i, t in enumerate(tables)
        ]
        self.features = [f"f{i}" for i in range(len(tables))]
        self.kept = activations(form)
        if form == "two modules":
            self.tables = module(device=META, tables=configs[:2])
            self.others = module(device=META, tables=configs[2:])
        else:
            self.tables, self.others = module(device=META, tables=configs), None
        self.dense = nn.Linear(sum(t[0] for t in tables) if self.pooled else tables[0][0], 1)

    def forward(self, batch: KeyedJaggedTensor) -> tuple[torch.Tensor, torch.Tensor]:
        vectors = self.tables(batch)
        if not self.pooled:
            out = torch.cat([self.dense(vectors[f].values()) for f in self.features])
        elif self.others is None:
            out = self.dense(vectors.values())
        else:
            others = self.others(batch)  # before the first exchange is waited for
            out = self.dense(torch.cat([vectors.values(), others.values()], 1))
        loss = Keep.apply(out, self.kept).sum()
        return loss.unsqueeze(0), loss.detach()


def batch_of(form: str) -> KeyedJaggedTensor:
    """Returns random lookups, evenly of the rows of each rank. If skewed, the most used row of each
    table is the first, in a block with the mean uses of such a block. Features come in the reverse
    of the plan's order, as plans count a copy in theirs."""
    count = dist.get_world_size()
    uses = torch.arange(1, ROWS + 1).double().pow(-ZIPF)
    uses[1:] = uses[1:][torch.randperm(ROWS - 1, generator=torch.Generator().manual_seed(7))]
    values, lengths = [], []
    for _, pooling, *_ in reversed(FORMS[form]):
        lookups = BATCH * pooling
        if "skewed" in form:
            values.append(torch.multinomial(uses, lookups, replacement=True))
        else:
            block, own = torch.arange(lookups) % count, rows(form) // count
            values.append(block * own + torch.randint(0, own, (lookups,)))
        lengths.append(torch.full((BATCH,), pooling))
    return KeyedJaggedTensor(
        keys=[f"f{i}" for i in reversed(range(len(values)))],
        values=torch.cat(values),
        lengths=torch.cat(lengths),
    )


def copied(batch: KeyedJaggedTensor, *_: Any, **__: Any) -> KeyedJaggedTensor:
    """Stands for the copy to the device."""
    return KeyedJaggedTensor(
        keys=batch.keys(), values=batch.values().clone(), lengths=batch.lengths().clone()
    )


def prefetched(context: Any, modules: list[Any], *_: Any) -> None:
    """Does what TorchRec's prefetch_embeddings does, without its streams."""
    for module in modules:
        name = module.forward.name
        lookups = context.input_dist_tensors_requests.pop(name).wait()
        own = context.module_contexts.pop(name)
        module.prefetch(ctx=own, dist_input=lookups, forward_stream=None)
        context.module_input_post_prefetch[name] = lookups
        context.module_contexts_post_prefetch[name] = own


class Event:
    """Stands for the event of a stream."""

    def record(self) -> None: ...


@pytest.fixture(scope="module")
def without_streams() -> Iterator[None]:
    """Lets the pipelines of GPUs run on CPUs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "record_stream", lambda *_: None)
        for device in (torch.cuda, torch.cpu):
            patch.setattr(device, "current_stream", lambda *_: None)
        patch.setattr(torch.cpu, "Event", Event, raising=False)
        for module in (train_pipelines, utils):
            patch.setattr(module, "_to_device", copied)
            patch.setattr(module, "_wait_for_events", lambda *_: None)
        patch.setattr(train_pipelines, "prefetch_embeddings", prefetched)
        patch.setattr(dist, "all_to_all_single", exchanged(dist.all_to_all_single))
        yield


def storages() -> set[int]:
    """Returns the addresses of all tensors that are younger than the last gc.freeze."""
    gc.collect()
    tensors = [o for o in gc.get_objects() if issubclass(type(o), torch.Tensor)]
    return {t.untyped_storage().data_ptr() for t in tensors if t.device == ranks.CPU}


def peaks(events: list[Any], left: list[set[int]]) -> list[int]:
    """Returns the most bytes that were live in each step, without the buffers that gloo makes for
    itself, which NCCL does not need. What is left after a step is known by address: the profiler
    does not see what other threads free."""
    changes = []
    stack = [(event, False) for event in events]
    while stack:
        event, gloo = stack.pop()
        if event.typed[0] == _EventType.Allocation:
            size = 0 if gloo else event.typed[1].alloc_size
            changes.append((event.start_time_ns, event.typed[1].ptr, size))
        elif event.name == "a step":
            changes.append((event.end_time_ns, 0, 0))
        gloo = gloo or event.name.startswith(("c10d::", "gloo:"))
        stack += [(child, gloo) for child in event.children]
    live: dict[int, int] = {}
    found, most = [], 0
    for _, address, size in sorted(changes, key=lambda c: c[0]):
        if address == 0:
            found.append(most)
            live = {a: s for a, s in live.items() if a in left[len(found) - 1]}
            most = 0
            continue
        live.pop(address, 0)
        if size > 0:
            live[address] = size
        most = max(most, sum(live.values()))
    return found


def measured(case: dict[str, Any]) -> int:
    """Returns the most bytes of a training step on this rank: every tensor of TorchRec, FBGEMM and
    autograd, and none that is older than the pipeline. It is the least of some steps, in one of
    which gloo's threads hold nothing for longer."""
    torch.manual_seed(dist.get_rank())
    model = Model(case["form"])
    fused = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": 0.01}
    dedup = case["form"].startswith("deduplicated")
    half = QCommsConfig(forward_precision=CommType.FP16, backward_precision=CommType.FP16)
    codecs = get_qcomm_codecs_registry(half) if "encoded" in case["form"] else None
    sharded = DistributedModelParallel(
        model,
        device=ranks.CPU,
        plan=load_plan(case["plan"], model, device_type="cpu"),
        sharders=[
            EmbeddingBagCollectionSharder(fused_params=fused, qcomm_codecs_registry=codecs),
            EmbeddingCollectionSharder(
                fused_params=fused, qcomm_codecs_registry=codecs, use_index_dedup=dedup
            ),
        ],
    )
    replicated = [f".t{i}." for i, t in enumerate(FORMS[case["form"]]) if t[2] == "data_parallel"]
    optimizer = torch.optim.SGD(
        [p for n, p in sharded.named_parameters() if any(t in n for t in ("dense", *replicated))],
        lr=0.01,
    )
    name, *options = case["pipeline"].split("+")
    settings = {"start_batch": 0} if name == "semi-sync" else dict.fromkeys(options, True)
    pipeline = PIPELINES[name](sharded, optimizer, ranks.CPU, **settings)
    batches = iter([batch_of(case["form"]) for _ in range(STEPS + 3)])
    left = []
    gc.collect()
    gc.freeze()
    gc.disable()  # garbage in cycles goes in storages, between steps
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for _ in range(STEPS):
            with record_function("a step"):
                pipeline.progress(batches)
                dist.barrier()
            left.append(storages())
    gc.enable()
    gc.unfreeze()
    assert profiler.profiler is not None
    tree = profiler.profiler.kineto_results.experimental_event_tree()
    return min(peaks(tree, left)[SETTLED:])


@pytest.fixture(scope="module")
def found(
    binary: str, tmp_path_factory: pytest.TempPathFactory, without_streams: None
) -> dict[str, list[Any]]:
    """Returns, by case, what is counted for each rank, and what it took."""
    folder = tmp_path_factory.mktemp("memory")
    cases: list[dict[str, Any]] = [
        {"name": " ".join(map(str, case)), "ranks": case[0], "pipeline": case[1], "form": case[2]}
        | {"plan": str(folder / f"plan-{case[0]}-{case[1]}-{case[2]}.json")}
        for case in CASES
    ]
    for case in cases:
        plan(binary, case, folder)
    taken: dict[str, list[Any]] = {}
    for count in (1, 2, 4):
        own = [case for case in cases if case["ranks"] == count]
        for rank, took in enumerate(ranks.trained(measured, own, count=count, per_host=count)):
            for case in own:
                taken.setdefault(case["name"], []).append((counted(case, rank), took[case["name"]]))
    return taken


def plan(binary: str, case: dict[str, Any], folder: Path) -> None:
    """Writes the case's plan, which has no choice."""
    tables = {
        "format": "neuroshard-tables",
        "version": 1,
        "batch": BATCH * case["ranks"],
        "tables": [
            {
                "name": f"t{i}",
                "module": module_of(case["form"], i),
                "rows": rows(case["form"]),
                "dim": dim,
                "features": [{"name": f"f{i}", "pooling_factor": pooling}],
                "optimizer": "sgd",
                "pooling": "sum" if pooled(case["form"]) else "none",
                "index_dedup": case["form"].startswith("deduplicated"),
                "access": {"zipf": ZIPF} if "skewed" in case["form"] else {"uniform": True},
                "constraints": {"sharding_types": [sharding]}
                | ({"device": device[0] % case["ranks"]} if device else {}),
            }
            for i, (dim, pooling, sharding, *device) in enumerate(FORMS[case["form"]])
        ],
    }
    (folder / "tables.json").write_text(json.dumps(tables))
    cluster = ("--gpus", str(case["ranks"]), "--gpu", "a100-80")
    kept = f"activations={activations(case['form'])}B"
    exchange = f"comm_precision={'fp16' if 'encoded' in case['form'] else 'fp32'}"
    options = ("--set", f"pipeline={case['pipeline']}", "--set", kept, "--set", exchange)
    neuroshard(binary, "plan", "tables.json", *cluster, *options, "-o", case["plan"], cwd=folder)
    kinds = [t["kind"] for t in json.loads(Path(case["plan"]).read_text())["tables"]]
    assert kinds == [t[2] for t in FORMS[case["form"]]]


@pytest.mark.parametrize("case", CASES, ids=lambda c: " ".join(map(str, c)))
def test_steps_take_what_is_counted(found: dict[str, list[Any]], case: tuple[Any, ...]) -> None:
    count, _, form = case
    for rank, (counted, took) in enumerate(found[" ".join(map(str, case))]):
        print(f"rank {rank}: counted {counted}, taken {took}: {100 * (counted / took - 1):+.2f} %")
        more, less = 0.03 * took, 0.01 * took
        if form == "mixed":
            # With several sharding types in a module, the vectors of one are still there when the
            # gradients of the next go back. Plans count each type for itself.
            less += max(
                4 * BATCH * dim * (1 + (count if sharding == "row_wise" or device == [rank] else 0))
                for dim, _, sharding, *device in FORMS[form]
            )
        if "skewed" in form and rank > 0:
            # Each block has room for the lookups of the block with the most used row, the first.
            more = counted
        assert -less <= counted - took <= more


def counted(case: dict[str, Any], rank: int) -> int:
    """Returns the bytes of the plan's rank but those that are older than the pipeline, and those in
    which only GPUs sort lookups."""
    device = json.loads(Path(case["plan"]).read_text())["devices"][rank]
    older = ("weights_bytes", "optimizer_bytes", "cache_bytes", "reserve_bytes")
    lines = sum(size for line, size in device["memory"].items() if line not in older)
    dedup = case["form"].startswith("deduplicated")
    if device["phase"] != ("forward_exchange" if dedup else "lookups_backward"):
        return lines
    # Lookups of a rank's own samples, be it of replicas or to find distinct rows.
    return lines - SORTED * BATCH * sum(pooling for _, pooling, *_ in FORMS[case["form"]])
