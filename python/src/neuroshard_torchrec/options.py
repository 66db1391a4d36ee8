"""A plan in the words of TorchRec's planner: its ShardingOptions and its search space.

``SearchSpace``  TorchRec's enumerator, which enumerates only when it is asked what it found
``options``      a ShardingPlan -> a ShardingOption for each table, without the enumerator
``estimated``    the same, with TorchRec's estimates of bytes and times in their shards
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator, get_partition_by_type
from torchrec.distributed.planner.planners import extract_plan, to_sharding_plan
from torchrec.distributed.planner.types import (
    ParameterConstraints,
    PlannerError,
    PlannerErrorType,
    Shard,
    ShardingOption,
    Topology,
)

from . import _differences
from .errors import quote, quoted


class SearchSpace(EmbeddingEnumerator):  # type: ignore[misc] # it is untyped
    """TorchRec's enumerator that lists what a table may have when ``last_stored_search_space``
    is read, not when a plan is made: listing takes longer than planning."""

    _asked: tuple[nn.Module, Sequence[Any]] | None = None

    def ask(self, module: nn.Module, sharders: Sequence[Any]) -> None:
        """Has the next reader of the search space get that of this module."""
        self._asked = (module, sharders)

    @property
    def last_stored_search_space(self) -> list[ShardingOption] | None:
        """The sharding options of all tables, None before there was a plan."""
        if self._asked is not None:
            module, sharders = self._asked
            self._asked = None
            self.enumerate(module, list(sharders))
        return self._last_stored_search_space


def options(
    plan: Any,
    module: nn.Module,
    sharders: Sequence[Any],
    topology: Topology,
    batch_size: int,
    constraints: Mapping[str, Any] | None,
) -> list[ShardingOption]:
    """Returns the options that a ShardingPlan of this module chose, in the model's order; their
    shards have ranks, and no estimates. ``batch_size`` is that of a rank."""
    of_type = {s.module_type: s for s in sharders}
    chosen = []
    for path, tables in plan.plan.items():
        owner = module.get_submodule(path)
        sharder = of_type.get(type(owner))
        weights = sharder.shardable_parameters(owner) if sharder else {}
        pooled = ShardingOption.module_pooled(owner, path)
        for name, placed in tables.items():
            stated = (constraints or {}).get(name)
            if not isinstance(stated, ParameterConstraints):
                stated = ParameterConstraints()
            chosen.append(
                ShardingOption(
                    name=name,
                    tensor=weights[name],
                    module=(path, owner),
                    input_lengths=stated.pooling_factors,
                    batch_size=batch_size,
                    sharding_type=placed.sharding_type,
                    partition_by=get_partition_by_type(placed.sharding_type),
                    compute_kernel=placed.compute_kernel,
                    shards=_shards(placed, weights[name], topology.world_size),
                    cache_params=copy.deepcopy(placed.cache_params),
                    enforce_hbm=placed.enforce_hbm,
                    stochastic_rounding=placed.stochastic_rounding,
                    bounds_check_mode=placed.bounds_check_mode,
                    is_pooled=pooled,
                    feature_names=stated.feature_names,
                    output_dtype=placed.output_dtype,
                    key_value_params=placed.key_value_params,
                )
            )
    return chosen


def weights(module: nn.Module, sharders: Sequence[Any]) -> int:
    """Returns the bytes of the tables that the sharders find in a module, each once."""
    of_type = {s.module_type: s for s in sharders}
    found = {
        id(weight): weight.nbytes
        for owner in module.modules()
        if (sharder := of_type.get(type(owner))) is not None
        for weight in sharder.shardable_parameters(owner).values()
    }
    return sum(found.values())


def _shards(placed: Any, weight: Any, world_size: int) -> list[Shard]:
    if placed.sharding_spec is None:  # data_parallel: whole on every rank
        size = list(weight.shape)
        return [Shard(size=size, offset=[0] * len(size), rank=r) for r in range(world_size)]
    return [
        Shard(size=list(s.shard_sizes), offset=list(s.shard_offsets), rank=s.placement.rank())
        for s in placed.sharding_spec.shards
    ]


def estimated(
    chosen: list[ShardingOption], enumerator: EmbeddingEnumerator, sharders: Sequence[Any]
) -> list[ShardingOption]:
    """Returns the options with the bytes and times of their shards, by the estimators of an
    enumerator."""
    _differences.give_sharders(enumerator, sharders)
    _differences.add_stashes(chosen, enumerator)
    enumerator.populate_estimates(chosen)
    return chosen


def sharding_plan(chosen: Sequence[ShardingOption], topology: Topology) -> Any:
    """Returns the ShardingPlan of these options; PlannerError if a shard has no rank of the
    topology."""
    for option in chosen:
        for i, shard in enumerate(option.shards):
            if shard.rank is None or not 0 <= shard.rank < topology.world_size:
                raise PlannerError(
                    f"table {quote(option.name)}: shard {i} has the rank {shard.rank}, which is "
                    f"not from 0 to {topology.world_size - 1}",
                    PlannerErrorType.INVALID_RANK_ASSIGNMENT,
                )
    return to_sharding_plan(list(chosen), topology)


_CHOSEN = ("sharding_type", "compute_kernel", "partition_by", "shards", "cache_params")
"""The fields of a ShardingOption that a plan chooses."""


def extracted(
    search_space: list[ShardingOption], loaded: Mapping[int, ShardingOption], same: bool
) -> list[ShardingOption]:
    """Returns the options of the search space that a loaded plan chose, with its shards;
    PlannerError if the plan has others. If the plan is known to be made from the
    ``same`` input, its options need not be in the search space: TorchRec's enumerator has no
    slices as narrow as ours, and no operators."""
    if not same or not loaded:
        return copy.deepcopy(extract_plan(search_space, dict(loaded)))
    chosen = {option.fqn: option for option in loaded.values()}
    tables = {option.fqn: option for option in search_space}
    if chosen.keys() != tables.keys() or len(chosen) < len(loaded):
        raise PlannerError(
            f"plan_loader: the plan has the tables {quoted(sorted(chosen))}, and the model has "
            f"{quoted(sorted(tables))}",
            PlannerErrorType.PLAN_LOADING_FAILED,
        )
    for name, option in tables.items():
        tables[name] = copy.deepcopy(option)
        for field in _CHOSEN:
            setattr(tables[name], field, copy.deepcopy(getattr(chosen[name], field)))
    return list(tables.values())
