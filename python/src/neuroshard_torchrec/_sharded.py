"""A model that TorchRec has sharded: what its collections hold on this rank, and how a
collection is made anew under another plan.

_torchrec.py lists the files that import TorchRec. This one depends on parts of
DistributedModelParallel and of ShardedEmbeddingBagCollection that are not public, of the
releases that _torchrec.py checks for.

TorchRec has DistributedModelParallel.reshard for the same purpose. Up to 1.9 it
looks features up in the wrong tables after a move, loses learning rates, and stops or
waits forever in other cases (docs/TORCHREC.md, "Moving tables in a running job"). So a
collection is made by its sharder, as at the start of a job, and takes the place of the
old one inside the same Python object: whatever refers to it stays valid.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from . import _torchrec as torchrec
from ._modules import KINDS, Collected, Table
from ._torchrec import KERNELS, OPERATORS, Placement, Shard
from .errors import PlanError, Problem, quote

# After _torchrec, which checks the versions.
from torchrec.distributed.embeddingbag import ShardedEmbeddingBagCollection  # isort: skip
from torchrec.distributed.model_parallel import (  # isort: skip
    DistributedModelParallel,
    DMPCollection,
)
from torchrec.distributed.sharding.dp_sharding import DpPooledEmbeddingSharding  # isort: skip

WEIGHT = "weight"
"""The name of a table's weights among its tensors."""

ROWS = 1
ELEMENTS = 2
"""What a tensor of a shard has one number for: a row, or an element."""

Tensors = dict[tuple[str, str], list[torch.Tensor]]
"""The tensors of this rank by table and name, one for each shard that it holds, in the
plan's order."""


@dataclass(frozen=True)
class Sharded:
    """A sharded module: its path in the model, TorchRec's module, its tables, where they
    lie, and why they cannot be moved, "" if they can."""

    path: str
    module: Any
    collected: Collected
    placements: Mapping[str, Placement]
    fixed: str = ""


def collect(model: Any) -> tuple[list[Sharded], list[Problem]]:
    """Returns the sharded collections of a model that DistributedModelParallel wraps, in
    the model's order, and why their tables cannot be moved."""
    found: list[Sharded] = []
    problems: list[Problem] = []
    inside: tuple[str, ...] = ()  # of modules that hold a sharded collection
    for path, module in model.module.named_modules():
        if path.startswith(inside):
            continue
        if _kind(module) != _POOLED:
            if (kept := _kept(model, path, module)) is not None:
                found.append(kept)
                inside += (f"{path}." if path else "",)
            continue
        kind = KINDS[_POOLED]
        collected = kind.collected(path, _unsharded(module), kind)
        plan = module.module_sharding_plan
        placed = {name: placement_of(sharding) for name, sharding in plan.items()}
        own = module.unsharded_module_type in model._sharder_map
        fixed = "" if own else "tables of a subclass of EmbeddingBagCollection are not moved"
        found.append(Sharded(path, module, collected, placed, fixed))
        if "forward" in vars(module):
            message = f"module {quote(path)} is run by a pipeline, which holds its batches"
            problems.append(Problem(message, "call the pipeline's detach() first"))
        if module._env.output_dtensor:
            message = f"module {quote(path)} keeps its weights as DTensor"
            problems.append(Problem(message, "write a checkpoint and start again"))
    if all(s.fixed for s in found):
        problems.append(Problem("the model has no sharded EmbeddingBagCollection"))
    if model.model_trackers:
        problems.append(
            Problem("the model tracks the rows that change", "make it without trackers")
        )
    return found, problems


_POOLED = "EmbeddingBagCollection"
"""The kind of module whose tables are moved."""


def _kind(module: Any) -> str:
    """Returns the name of the kind of a sharded module, "" for any other module."""
    name = type(module).__name__
    kind = name.removeprefix("Sharded")
    return kind if kind != name and kind in KINDS else ""


def _kept(model: Any, path: str, module: Any) -> Sharded | None:
    """Returns a sharded module of another kind, whose tables stay where they are, or None if
    the module is not one."""
    name = _kind(module)
    if not name or path not in model.plan.plan:
        return None
    plan = dict(model.plan.plan[path].items())
    kind = KINDS[name]
    inner = getattr(module, kind.inner) if kind.inner else module
    configs = getattr(inner, "_embedding_bag_configs", getattr(inner, "_embedding_configs", None))
    placed = {table: placement_of(sharding) for table, sharding in plan.items()}
    if configs is None:  # an nn.EmbeddingBag
        shapes = {table: _shape(p, module) for table, p in placed.items()}
    else:
        shapes = {c.name: (c.num_embeddings, c.embedding_dim) for c in configs}
    tables = tuple(
        Table(table, rows, dim, (), precision="", optimizer=None, types=kind.types)
        for table, (rows, dim) in shapes.items()
    )
    fixed = f"tables of a module of {name} are not moved"
    return Sharded(path, module, Collected(path, False, tables, name), placed, fixed)


def _shape(p: Placement, module: Any) -> tuple[int, int]:
    """Returns the rows and columns of the only table of a module."""
    if not p.shards:
        rows, columns = next(iter(module.state_dict().values())).shape
        return int(rows), int(columns)
    return max(s.row + s.rows for s in p.shards), max(s.column + s.columns for s in p.shards)


def placement_of(sharding: Any) -> Placement:
    """Returns where a ParameterSharding places a table."""
    shards: tuple[Shard, ...] = ()
    if sharding.sharding_spec is not None:
        shards = tuple(
            Shard(row, column, rows, columns, m.placement.rank())
            for m in sharding.sharding_spec.shards
            for (row, column), (rows, columns) in [(m.shard_offsets, m.shard_sizes)]
        )
    cache = sharding.cache_params
    mark = 0 if cache is None else (cache.reserved_memory or 0) % 1
    operator = round(mark * OPERATORS * len(KERNELS)) % OPERATORS
    cached = None if cache is None else cache.load_factor
    return Placement(sharding.sharding_type, sharding.compute_kernel, shards, cached, operator)


def sharding_of(p: Placement, before: Any, device_type: str, local_size: int) -> Any:
    """Returns the ParameterSharding of a placement. All that a plan does not say stays as
    the script has set it in the ParameterSharding before."""
    after = torchrec.sharding(p, device_type, local_size)
    cache, old = after.cache_params, before.cache_params
    if old is not None:
        own = math.floor(old.reserved_memory or 0)  # the script's bytes, without the mark
        mark = (cache.reserved_memory or 0) if cache is not None else 0
        load = cache.load_factor if cache is not None else None
        cache = replace(old, load_factor=load, reserved_memory=own + mark or None)
    return replace(
        before,
        sharding_type=after.sharding_type,
        compute_kernel=after.compute_kernel,
        ranks=after.ranks,
        sharding_spec=after.sharding_spec,
        cache_params=cache,
    )


def _identity(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _unsharded(module: Any) -> Any:
    """Returns a collection without memory that is as the one that was sharded: the same
    tables, and parameters with the same optimizers. It does not initialize weights."""
    tables = [replace(c, init_fn=_identity) for c in module._embedding_bag_configs]
    unsharded = torchrec.EmbeddingBagCollection(
        tables=tables, device=torch.device("meta"), is_weighted=module._is_weighted
    )
    before = {
        info.embedding_config.name: info.param
        for infos in module.sharding_type_to_sharding_infos.values()
        for info in infos
    }
    for name, bag in unsharded.embedding_bags.items():
        for key, value in vars(before[name]).items():
            setattr(bag.weight, key, value)
    return unsharded


def modules(model: Any) -> list[Any]:
    """Returns TorchRec's modules of the sharded collections, in the model's order."""
    return [m for m in model.module.modules() if isinstance(m, ShardedEmbeddingBagCollection)]


def lookups(module: Any) -> list[Any]:
    """Returns the modules that look up the tables of a collection on this rank: one for each
    sharding type that has tables here."""
    return [m for m in module._lookups if len(getattr(m, "module", m)._emb_modules)]


def group_of(model: Any) -> Any:
    """Returns the process group of the model's ranks; PlanError if the model is not one
    whose tables can be moved."""
    if not isinstance(model, DistributedModelParallel) or isinstance(model, DMPCollection):
        hint = "pass the model that DistributedModelParallel has returned"
        message = f"the model is a {type(model).__name__}, not a DistributedModelParallel"
        raise PlanError([Problem(message, hint)])
    return model._env.process_group


def device_of(model: Any) -> torch.device:
    """Returns the device of this rank."""
    return torch.device(model.device)


def build(model: Any, s: Sharded, plan: Mapping[str, Any]) -> Any:
    """Returns a new collection with the tables of s, sharded by the ParameterSharding of
    each; its weights and its optimizer state are undefined. The random generators stay
    as they are."""
    sharder = model._sharder_map[s.module.unsharded_module_type]
    device = device_of(model)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        return sharder.shard(
            _unsharded(s.module), dict(plan), s.module._env, device, s.module._module_fqn
        )


def tensors(module: Any) -> Tensors:
    """Returns the weights and the optimizer state of a collection on this rank, but for
    replicated tables. They share the memory of the operators."""
    out: Tensors = {}
    for key, value in module.state_dict().items():
        if hasattr(value, "local_shards"):
            out[_table(key), WEIGHT] = [s.tensor for s in value.local_shards()]
    for key, states in module.fused_optimizer.state_dict()["state"].items():
        for name, value in states.items():
            if hasattr(value, "local_shards"):
                own = [s.tensor for s in value.local_shards()]
                out[_table(key), name.rsplit(".", 1)[1]] = own
    return out


def _table(key: str) -> str:
    return key.removesuffix(".weight").rsplit("embedding_bags.", 1)[1]


def states(module: Any) -> dict[str, dict[str, int]]:
    """Returns what optimizer state this rank keeps of each table: ROWS or ELEMENTS by the
    name of the state, 0 for anything else."""
    out: dict[str, dict[str, int]] = {}
    held = tensors(module)
    for (table, name), own in held.items():
        weights = held[table, WEIGHT]
        if name == WEIGHT or not own:
            continue
        shapes = [(w.shape, s.shape) for w, s in zip(weights, own, strict=True)]
        if all(w == s for w, s in shapes):
            kind = ELEMENTS
        else:
            kind = ROWS if all(s == w[:1] for w, s in shapes) else 0
        out.setdefault(table, {})[name] = kind
    return out


@dataclass(frozen=True)
class Rate:
    """The learning rate of a table's operator, and the other settings of its optimizer's
    parameter group, among them a rate that the next step takes over."""

    now: float
    group: tuple[tuple[str, Any], ...]


def rates(module: Any) -> dict[str, Rate]:
    """Returns the learning rates of the tables that this rank trains."""
    out: dict[str, Rate] = {}
    for optimizer, tables in _operators(module):
        (group,) = optimizer.param_groups
        settings = tuple((k, v) for k, v in group.items() if k != "params")
        rate = Rate(float(optimizer._emb_module.get_learning_rate()), settings)
        out |= {t: rate for t in tables}
    return out


def set_rates(module: Any, of: Mapping[str, Rate]) -> list[Problem]:
    """Gives the operators of a collection the learning rates of their tables. It returns a
    problem for each operator whose tables have different ones."""
    problems = []
    for optimizer, tables in _operators(module):
        first = of[tables[0]]
        if other := next((t for t in tables if of[t] != first), None):
            message = f"tables {quote(tables[0])} and {quote(other)} have different learning rates"
            hint = "give them different operators in the new plan, or the same rate"
            problems.append(Problem(f"{message} and would share an operator", hint))
            continue
        optimizer._emb_module.set_learning_rate(first.now)
        optimizer.param_groups[0].update(first.group)
    return problems


def _operators(module: Any) -> Iterator[tuple[Any, list[str]]]:
    """Yields the optimizer of each operator of this rank, and its tables."""
    for _, optimizer in module.fused_optimizer.optimizers:
        if tables := [_table(key) for key in optimizer.params]:
            yield optimizer, tables


_HOOKS = (
    *("_backward_pre_hooks", "_backward_hooks", "_is_full_backward_hook"),
    *("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called"),
    *("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"),
)
"""What nn.Module keeps of the hooks of a script."""


def exchange(model: Any, s: Sharded, new: Any) -> None:
    """Puts the new collection into the place of the old one. The old one's Python objects
    stay: the module, and its optimizer, which a script may hold, too. Replicated tables
    keep their parameters, which an optimizer of the script trains."""
    module = s.module
    new.train(module.training)
    for hooks in _HOOKS:
        setattr(new, hooks, getattr(module, hooks))
    for i, sharding in enumerate(new._embedding_shardings):
        if isinstance(sharding, DpPooledEmbeddingSharding):
            new._lookups[i] = next(
                lookup
                for own, lookup in zip(module._embedding_shardings, module._lookups, strict=True)
                if isinstance(own, DpPooledEmbeddingSharding)
            )
    for name, p in s.placements.items():
        if p.sharding_type == "data_parallel":
            new.embedding_bags[name] = module.embedding_bags[name]
    new._embedding_bag_configs = module._embedding_bag_configs
    new._table_name_to_config = module._table_name_to_config
    optimizer = module._optim
    optimizer._optims = new._optim._optims
    new._optim = optimizer
    module.__dict__ = new.__dict__
    for hook in module._load_state_dict_pre_hooks.values():
        if hook.with_module:  # it knows its module by a weak reference
            hook.module = weakref.ref(module)
    model.plan.plan[s.path] = module.module_sharding_plan
