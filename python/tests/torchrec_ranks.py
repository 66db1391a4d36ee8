"""Jobs of several ranks on this machine, forked from the process of the tests, which has imported
TorchRec; and a model that they train under many plans.

The ranks talk over gloo, as hosts of two.
"""

from __future__ import annotations

import functools
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec import (
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    KeyedJaggedTensor,
    PoolingType,
)
from torchrec.distributed import comm
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.types import ShardingEnv
from torchrec.optim import RowWiseAdagrad
from torchrec.optim.keyed import CombinedOptimizer, KeyedOptimizerWrapper
from torchrec.optim.optimizers import in_backward_optimizer_filter

from neuroshard_torchrec import (
    NeuroShardError,
    NeuroShardPlanner,
    ReplicatedTablesWarning,
    load_plan,
)

LIMIT = 900.0
"""The most seconds that a job of several ranks may take. On an idle machine it takes far less."""

PAGE = Path(__file__).parents[2] / "docs" / "TORCHREC.md"

RANKS = 4
PER_HOST = 2
STEPS = 8
BATCH = 16  # of a rank
RATE = 0.05
CPU = torch.device("cpu")

DIMS = (8, 16, 24, 32, 48, 64, 96, 128, 20, 12)
TABLES = 30


def rows_of(i: int) -> int:
    return 40 + 37 * i


def configs() -> list[EmbeddingBagConfig]:
    """Thirty tables of mixed dims; some are read by two features, some take means."""
    return [
        EmbeddingBagConfig(
            name=f"t{i}",
            num_embeddings=rows_of(i),
            embedding_dim=DIMS[i % len(DIMS)],
            feature_names=[f"f{i}", f"g{i}"] if i % 9 == 0 else [f"f{i}"],
            pooling=PoolingType.MEAN if i % 6 == 1 else PoolingType.SUM,
        )
        for i in range(TABLES)
    ]


def weighted_configs() -> list[EmbeddingBagConfig]:
    """Two more, of a collection whose lookups carry weights; one has a name that the
    first collection has, too."""
    return [
        EmbeddingBagConfig(name=name, num_embeddings=60, embedding_dim=dim, feature_names=[feature])
        for name, dim, feature in (("t3", 32, "w0"), ("v", 16, "w1"))
    ]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sparse = nn.Module()
        self.sparse.plain = EmbeddingBagCollection(tables=configs(), device=CPU)
        self.sparse.weighted = EmbeddingBagCollection(
            tables=weighted_configs(), device=CPU, is_weighted=True
        )
        width = sum(c.embedding_dim * len(c.feature_names) for c in configs() + weighted_configs())
        self.dense = nn.Linear(width, 1)

    def forward(self, plain: KeyedJaggedTensor, weighted: KeyedJaggedTensor) -> torch.Tensor:
        # By name: the order of values depends on how tables are sharded.
        outputs = (self.sparse.plain(plain).to_dict(), self.sparse.weighted(weighted).to_dict())
        return self.dense(torch.cat([o[k] for o in outputs for k in sorted(o)], dim=1)).squeeze(1)


def batch(step: int, ranks: list[int]) -> tuple[KeyedJaggedTensor, KeyedJaggedTensor, Any]:
    """Returns what these ranks train on in a step, one after the other."""
    parts = [_part(step, r) for r in ranks]
    targets = torch.cat([p[2] for p in parts])
    return _joined([p[0] for p in parts]), _joined([p[1] for p in parts]), targets


def _part(step: int, rank: int) -> tuple[Any, Any, torch.Tensor]:
    g = torch.Generator().manual_seed(1000 * step + rank)
    bags: list[dict[str, Any]] = [{}, {}]
    for out, tables in zip(bags, (configs(), weighted_configs()), strict=True):
        for c in tables:
            for f in c.feature_names:
                lengths = torch.randint(0, 6, (BATCH,), generator=g)
                n = int(lengths.sum())
                values = torch.randint(0, c.num_embeddings, (n,), generator=g)
                out[f] = (lengths, values, torch.rand(n, generator=g))
    return bags[0], bags[1], torch.randn(BATCH, generator=g)


def _joined(parts: list[Any]) -> KeyedJaggedTensor:
    def column(i: int) -> torch.Tensor:
        return torch.cat([p[k][i] for k in parts[0] for p in parts])

    weights = column(2) if "w0" in parts[0] else None
    return KeyedJaggedTensor(
        keys=list(parts[0]), values=column(1), lengths=column(0), weights=weights
    )


def optimizer_of(name: str, parameters: Any) -> torch.optim.Optimizer:
    if name == "adagrad":
        return torch.optim.Adagrad(parameters, lr=RATE, eps=1e-8)
    return torch.optim.SGD(parameters, lr=RATE)


@functools.cache
def reference(name: str) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Trains the model whole, in this process, on the batches of all ranks."""
    torch.manual_seed(0)
    model = Model()
    optimizer = optimizer_of(name, model.parameters())
    losses = []
    for step in range(STEPS):
        plain, weighted, targets = batch(step, list(range(RANKS)))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(plain, weighted), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {k: v.detach().clone() for k, v in model.state_dict().items()}


def sharders_of(name: str) -> list[Any]:
    kinds = {
        "sgd": EmbOptimType.EXACT_SGD,
        "adagrad": EmbOptimType.EXACT_ADAGRAD,
        "rowwise_adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
    }
    return [
        EmbeddingBagCollectionSharder(
            fused_params={"optimizer": kinds[name], "learning_rate": RATE, "eps": 1e-8}
        )
    ]


def steps(sharded: nn.Module, dense: Any, first: int, last: int) -> list[float]:
    """Trains, and returns the mean losses of all ranks. The batches of a step are the
    same for any number of ranks that divides RANKS."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    own = RANKS // ranks
    losses = []
    for step in range(first, last):
        plain, weighted, targets = batch(step, list(range(own * rank, own * (rank + 1))))
        dense.zero_grad()
        loss = nn.functional.mse_loss(sharded(plain, weighted), targets)
        loss.backward()
        dense.step()
        if hasattr(sharded, "sync"):  # the means of sharding groups
            sharded.sync()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / ranks)
    return losses


def build(case: dict[str, Any], seed: int) -> tuple[Any, Any]:
    """Returns the model under the case's plan, or as the case's ``shard`` shards it, and the
    optimizer of what is not fused. A model that is to resume keeps the weights that were drawn on
    each rank."""
    name = case.get("optimizer", "sgd")
    sharders = sharders_of(name)
    torch.manual_seed(seed)
    model = Model()
    start = dict(model.state_dict())
    if shard := case.get("shard"):
        sharded = shard(case, model, sharders)
    else:
        plan = plan_of(case, model, sharders)
        sharded = DistributedModelParallel(model, device=CPU, plan=plan, sharders=sharders)
    if "resume" not in case:
        sharded.load_state_dict(start)  # it takes entries out
    parameters = dict(in_backward_optimizer_filter(sharded.named_parameters()))
    tables = {k: v for k, v in parameters.items() if ".embedding_bags." in k}
    if not case.get("dense_layer_only") and name != "rowwise_adagrad":
        return sharded, KeyedOptimizerWrapper(parameters, lambda p: optimizer_of(name, p))
    others = {k: v for k, v in parameters.items() if k not in tables}
    parts = [KeyedOptimizerWrapper(others, lambda p: optimizer_of("adagrad", p))]
    if tables and not case.get("dense_layer_only"):
        parts += [KeyedOptimizerWrapper(tables, lambda p: RowWiseAdagrad(p, lr=RATE))]
    return sharded, CombinedOptimizer(parts)


def train(case: dict[str, Any]) -> dict[str, Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sharded, dense = build(case, seed=0)
    losses = steps(sharded, dense, 0, STEPS)
    weights, state = bytes_of(sharded)
    return {
        "losses": losses,
        "plan": planned(sharded.plan),
        "held": held_by(sharded),
        "weights_bytes": weights,
        "optimizer_bytes": state,
        "final": {k: v for k, v in whole(sharded).items() if " " not in k},
        "warned": [str(w.message) for w in caught if w.category is ReplicatedTablesWarning],
    }


def plan_of(case: dict[str, Any], model: nn.Module, sharders: list[Any]) -> Any:
    if case["plan"] == "neuroshard":
        if dist.get_rank() == case.get("other_model_on"):
            model = nn.Sequential(model)
        planner = NeuroShardPlanner(device_type="cpu", **case["planner"])
        return planner.collective_plan(model, sharders)
    env = ShardingEnv.from_process_group(dist.group.WORLD)
    return load_plan(case["plan"], model, env, device_type="cpu")


def planned(plan: Any) -> dict[str, Any]:
    """Returns a ShardingPlan as rank by rank rectangles of each table."""
    out: dict[str, Any] = {}
    for path, tables in plan.plan.items():
        for name, p in tables.items():
            shards = p.sharding_spec.shards if p.sharding_spec else None
            out[f"{path}.{name}"] = {
                "kind": p.sharding_type,
                "shards": shards
                and [[*s.shard_offsets, *s.shard_sizes, s.placement.rank()] for s in shards],
            }
    return out


def pieces(value: Any) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    """Returns what this rank holds of a tensor: the first row and column of each shard, and
    the shard."""
    if hasattr(value, "to_local"):
        local = value.to_local()
        # A rank without a shard may state an offset all the same.
        yield from zip(map(tuple, local.local_offsets()), local.local_shards(), strict=False)
    elif hasattr(value, "local_shards"):
        yield from ((tuple(s.metadata.shard_offsets), s.tensor) for s in value.local_shards())
    else:
        yield (0,) * value.dim(), value


def held_by(sharded: nn.Module) -> dict[str, Any]:
    """Returns the rectangles of tables that this rank holds, "whole" of a replicated one."""
    return {
        key.replace(".embedding_bags.", ".").removesuffix(".weight"): [
            [*offsets, *tensor.shape] for offsets, tensor in pieces(value)
        ]
        if hasattr(value, "local_shards")
        else "whole"
        for key, value in sharded.state_dict().items()
        if ".embedding_bags." in key
    }


def whole(sharded: Any) -> dict[str, torch.Tensor]:
    """Returns the weights of all tables and their optimizer state, collected from all
    ranks by what TorchRec says of its shards. Names of optimizer state have a space. What several
    ranks hold, such as those of sharding groups, must be alike to the bit."""
    values: dict[str, Any] = dict(sharded.state_dict())
    for key, states in sharded.fused_optimizer.state_dict()["state"].items():
        values |= {f"{key} {name}": value for name, value in states.items()}
    own = {
        key: (tuple(value.size()), [(o, t.detach().clone()) for o, t in pieces(value)])
        for key, value in values.items()
    }
    everywhere: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, own)
    out: dict[str, torch.Tensor] = {}
    for of_rank in everywhere:
        for key, (size, held) in of_rank.items():
            full = out.setdefault(key, torch.full(size, float("nan")))
            for offsets, tensor in held:
                at = tuple(slice(o, o + n) for o, n in zip(offsets, tensor.shape, strict=True))
                assert full[at].isnan().all() or torch.equal(full[at], tensor), key
                full[at] = tensor
    return out


def off(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """Returns the most that a tensor differs, as a share of its largest value."""
    if one.keys() != other.keys():
        return float("inf")
    worst = 0.0
    for key, a in one.items():
        b = other[key]
        if a.shape != b.shape or a.isnan().any() or b.isnan().any():
            return float("inf")
        worst = max(worst, ((a - b).abs().max() / b.abs().max().clamp(min=1e-30)).item())
    return worst


def bytes_of(sharded: nn.Module) -> tuple[int, int]:
    """Returns the bytes of weights and of optimizer state in FBGEMM's operators."""
    weights = state = 0
    for module in operators(sharded):
        kind = type(module).__name__
        if kind == "SplitTableBatchedEmbeddingBagsCodegen":
            weights += sum(size(getattr(module, f"weights_{p}")) for p in ("host", "dev", "uvm"))
            if "NONE" in str(module.optimizer) or "SGD" in str(module.optimizer):
                continue  # what is there has no meaning
            state += sum(size(getattr(module, f"momentum1_{p}")) for p in ("host", "dev", "uvm"))
        elif kind == "DenseTableBatchedEmbeddingBagsCodegen":
            weights += size(module.weights)
    return weights, state


def operators_of(sharded: nn.Module) -> list[list[str]]:
    """Returns the tables of each operator of this rank, sorted: FBGEMM's modules, each once.
    A table is there once for each of its shards in the operator."""
    found = []
    for module in operators(sharded):
        config = getattr(module, "_config", None)
        if hasattr(module, "_emb_module") and config is not None and config.embedding_tables:
            assert len(config.embedding_tables) == len(module._emb_module.embedding_specs)
            found.append(sorted(t.name for t in config.embedding_tables))
    return sorted(found)


def operators(sharded: nn.Module) -> list[nn.Module]:
    """Returns all modules, also those that TorchRec keeps in plain lists."""
    found: list[nn.Module] = []
    for module in sharded.modules():
        for lookup in getattr(module, "_lookups", []):
            found += lookup.modules()
    return list(dict.fromkeys(found))


def size(tensor: torch.Tensor | None) -> int:
    return 0 if tensor is None else tensor.numel() * tensor.element_size()


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Trains as the case has it; rank 0 compares with the model whole."""
    try:
        result = train(case)
    except NeuroShardError as e:
        return {"error": type(e).__name__, "message": str(e)}
    final = result.pop("final")
    name = case.get("optimizer", "sgd")
    if dist.get_rank() == 0 and name != "rowwise_adagrad":
        result["reference"], weights = reference(name)
        assert final.keys() == weights.keys(), final.keys() ^ weights.keys()
        result["off"] = {k: (final[k] - weights[k]).abs().max().item() for k in weights}
        torch.manual_seed(0)
        start = Model().state_dict()
        result["untrained"] = [k for k, v in final.items() if torch.equal(v, start[k])]
    return result


# Ranks.


def recipe() -> dict[str, Any]:
    """Returns the functions of docs/TORCHREC.md for checkpoints."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (code,) = [b for b in blocks if "dcp.load" in b]
    found: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), found)
    return found


def on_ranks(
    count: int,
    work: Callable[..., Any],
    *arguments: Any,
    per_host: int = PER_HOST,
    limit: float = LIMIT,
) -> list[Any]:
    """Calls the work on each of some ranks, which are processes of their own, and returns what
    each rank has returned, as JSON has it. RuntimeError if one fails, or at the limit."""
    for _ in range(3):
        with tempfile.TemporaryDirectory(prefix="ranks") as folder:

            def rank_of(rank: int, folder: str = folder) -> None:
                join(rank, count, per_host, Path(folder, "store"))
                Path(folder, f"{rank}.json").write_text(json.dumps(work(*arguments)))
                dist.barrier()
                dist.destroy_process_group()

            if (signalled := fork(count, rank_of, limit)) == 0:
                return [json.loads(Path(folder, f"{r}.json").read_text()) for r in range(count)]
        if signalled != signal.SIGABRT:
            break
        # PyTorch has aborted a process in one of thirty runs, for a reason that is not known.
        warnings.warn("PyTorch aborted a process; the job is run again", stacklevel=2)
    raise RuntimeError("a rank failed, or the ranks took too long")


def trained(
    do: Callable[..., Any],
    cases: Sequence[dict[str, Any]],
    *more: Any,
    count: int = RANKS,
    **options: Any,
) -> list[dict[str, Any]]:
    """Calls ``do`` with each case on all ranks, one case after another, and returns what each rank
    has seen, by the name of the case."""

    def work() -> dict[str, Any]:
        found = {}
        for case in cases:
            found[case["name"]] = do(case, *more)
            dist.barrier()
        return found

    return on_ranks(count, work, **options)


def join(rank: int, ranks: int, per_host: int, store: Path) -> None:
    """Makes this process one of the ranks."""
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % per_host),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(per_host),
    }
    torch.set_num_threads(1)
    random.seed(0)
    warnings.simplefilter("ignore")
    # TorchRec keeps these for all models of a process.
    comm._INTRA_PG = comm._CROSS_PG = comm._INTRA_PG_2D = comm._CROSS_PG_2D = None
    file = dist.FileStore(str(store), ranks)
    dist.init_process_group("gloo", store=file, rank=rank, world_size=ranks)


def fork(ranks: int, work: Callable[[int], None], limit: float = LIMIT) -> int:
    """Runs the work of each rank in a process of its own; returns 0, or the signal that ended the
    first process that failed, -1 without a signal."""
    children = set()
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                work(rank)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        children.add(child)
    end = time.monotonic() + limit
    failed = 0
    while children:
        for child in list(children):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                children.discard(child)
                failed = failed or (os.WTERMSIG(status) or -1 if status else 0)
        if failed or time.monotonic() > end:  # the others would wait for it
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            return failed or -1
        time.sleep(0.02)
    return 0
