"""TorchRec's planner and its estimator for scenarios.

As a program it plans one scenario and prints the placement as JSON:

    python -m neuroshard_compare.torchrec_planner syn_100t_8g --options default --limit 60

No device is needed: tables lie on the meta device, and the planner gets a
topology of GPUs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torchrec import optim
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import (
    EmbeddingShardingPlanner,
    ParameterConstraints,
    Topology,
    utils,
)
from torchrec.distributed.planner.enumerators import get_partition_by_type
from torchrec.distributed.planner.shard_estimators import (
    EmbeddingPerfEstimator,
    EmbeddingStorageEstimator,
)
from torchrec.distributed.planner.storage_reservations import HeuristicalStorageReservation
from torchrec.distributed.planner.types import PlannerError, ShardingOption
from torchrec.distributed.planner.types import Shard as TorchRecShard
from torchrec.distributed.planner.utils import sharder_name
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection

from neuroshard_torchrec import _torchrec
from neuroshard_torchrec.baseline import first_line

from . import scenario as scenarios
from .placement import PlacedTable, Placement, Shard, to_json
from .scenario import Scenario, ScenarioError

# The formulas of this TorchRec as flags of neuroshard plan.
FORMULAS = ("--model", f"torchrec-{_torchrec.RELEASE}")

# What the planner may use. "default" is every sharding type it knows; "column_wise" is whole
# tables and column slices, which is what neuroshard makes.
OPTIONS = ("default", "column_wise")

# TorchRec's planner keeps this share of HBM free unless told otherwise, and beside it
# room for the input batches.
RESERVE_SHARE = 0.15

_OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adagrad": torch.optim.Adagrad,
    "rowwise_adagrad": optim.RowWiseAdagrad,
    "adam": torch.optim.Adam,
}


@dataclass(frozen=True)
class Estimate:
    """What TorchRec's estimator says of a placement, by rank."""

    cost_ms: tuple[float, ...]  # forward, backward and exchanges, summed over shards
    hbm_bytes: tuple[int, ...]  # weights, optimizer state, inputs, outputs
    hbm_budget_bytes: int  # of one rank, after the planner's reservation

    @property
    def fits(self) -> bool:
        """Whether no rank holds more than the planner would allow it."""
        return max(self.hbm_bytes) <= self.hbm_budget_bytes


class Engine:
    """TorchRec for one scenario.

    ScenarioError where TorchRec's reservation leaves no memory for tables at all.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.topology = Topology(
            world_size=scenario.devices,
            local_world_size=scenario.devices_per_host,
            compute_device="cuda",
            hbm_cap=scenario.memory_bytes,
            **dict(scenario.bandwidths),
        )
        self.module = EmbeddingBagCollection(
            tables=[
                EmbeddingBagConfig(
                    name=t.name,
                    embedding_dim=t.dim,
                    num_embeddings=t.rows,
                    feature_names=[t.name],
                )
                for t in scenario.tables
            ],
            device=torch.device("meta"),
        )
        if scenario.optimizer in _OPTIMIZERS:
            for parameter in self.module.parameters():
                # Where the planner looks for the optimizer, whose state it counts.
                parameter._optimizer_classes = [_OPTIMIZERS[scenario.optimizer]]
        self.sharder = EmbeddingBagCollectionSharder()
        try:
            self.hbm_budget_bytes = self._hbm_budget_bytes()
        except PlannerError as e:
            raise ScenarioError(f"{scenario.name}: TorchRec: {first_line(e)}") from e

    def constraints(self, options: str, min_partition: int) -> dict[str, ParameterConstraints]:
        """The pooling factors, which TorchRec takes for 1 unless told, and what is allowed."""
        if options == "default":
            return {
                t.name: ParameterConstraints(pooling_factors=[t.pooling])
                for t in self.scenario.tables
            }
        return {
            t.name: ParameterConstraints(
                pooling_factors=[t.pooling],
                sharding_types=["table_wise", "column_wise"],
                min_partition=min_partition,
            )
            for t in self.scenario.tables
        }

    def planner(self, options: str, min_partition: int, limit: int) -> EmbeddingShardingPlanner:
        """TorchRec's planner, as it is but for the constraints and the limit in seconds.

        Its statistics, which it would only print, are left out.
        """
        return EmbeddingShardingPlanner(
            topology=self.topology,
            batch_size=self.scenario.batch_per_rank,
            constraints=self.constraints(options, min_partition),
            stats=[],
            timeout_seconds=limit,
        )

    def plan(self, planner: EmbeddingShardingPlanner) -> Placement:
        """What the planner finds. PlannerError where it finds nothing that fits."""
        plan = planner.plan(self.module, [self.sharder])
        (module_plan,) = plan.plan.values()
        by_name = {name: self._placed(name, p) for name, p in module_plan.items()}
        return tuple(by_name[t.name] for t in self.scenario.tables)

    def _placed(self, name: str, parameter: Any) -> PlacedTable:
        if parameter.sharding_spec is None:  # data-parallel: every rank has all of it
            rows, dim = self._weight(name).shape
            shards = [Shard(r, (0, rows), (0, dim)) for r in range(self.scenario.devices)]
        else:
            shards = []
            for s in parameter.sharding_spec.shards:
                (row, column), (rows, columns) = s.shard_offsets, s.shard_sizes
                rank = s.placement.rank()
                shards.append(Shard(rank, (row, row + rows), (column, column + columns)))
        return PlacedTable(name, parameter.sharding_type, parameter.compute_kernel, tuple(shards))

    def _weight(self, name: str) -> torch.Tensor:
        return self.module.get_parameter(f"embedding_bags.{name}.weight")

    def _hbm_budget_bytes(self) -> int:
        """What the planner lets shards take of one rank's HBM."""
        reserved = HeuristicalStorageReservation(percentage=RESERVE_SHARE).reserve(
            topology=self.topology,
            batch_size=self.scenario.batch_per_rank,
            module=self.module,
            sharders=[self.sharder],
            constraints=self.constraints("default", 0),
        )
        return int(min(d.storage.hbm for d in reserved.devices))

    def estimate(self, placement: Placement) -> Estimate:
        """Estimates a placement, whoever made it, as the planner estimates its proposals.

        Each shard is estimated by its own size, so that slices may be unequal.
        """
        options = []
        for placed, table in zip(placement, self.scenario.tables, strict=True):
            options.append(
                ShardingOption(
                    name=placed.name,
                    tensor=self._weight(placed.name),
                    module=("", self.module),
                    input_lengths=[table.pooling],
                    batch_size=self.scenario.batch_per_rank,
                    sharding_type=placed.sharding_type,
                    partition_by=get_partition_by_type(placed.sharding_type),
                    compute_kernel=placed.kernel,
                    shards=[
                        TorchRecShard(
                            size=[s.rows[1] - s.rows[0], s.columns[1] - s.columns[0]],
                            offset=[s.rows[0], s.columns[0]],
                            rank=s.rank,
                        )
                        for s in placed.shards
                    ],
                    is_pooled=True,
                )
            )
        constraints = self.constraints("default", 0)
        cost, hbm = by_rank(options, self.topology, constraints, [self.sharder])
        return Estimate(tuple(cost), tuple(hbm), self.hbm_budget_bytes)


def sharder_map(sharders: Sequence[Any]) -> Any:
    """The sharders as TorchRec's estimators take them: by the name of their module, and since
    TorchRec 1.7 as SharderData."""
    of = {sharder_name(s.module_type): s for s in sharders}
    if "sharder_data_map" in signature(EmbeddingPerfEstimator.estimate).parameters:
        return utils.build_sharder_data_map(of)
    return of


def by_rank(
    options: list[ShardingOption],
    topology: Topology,
    constraints: dict[str, ParameterConstraints],
    sharders: Sequence[Any],
) -> tuple[list[float], list[int]]:
    """Milliseconds of a step and bytes of HBM by rank: TorchRec's estimates of the options'
    shards, each by its own size, summed over the shards of a rank."""
    of = sharder_map(sharders)
    EmbeddingPerfEstimator(topology, constraints).estimate(options, of)
    EmbeddingStorageEstimator(topology, constraints).estimate(options, of)
    cost = [0.0] * topology.world_size
    hbm = [0] * topology.world_size
    for option in options:
        for shard in option.shards:
            assert shard.rank is not None and shard.perf is not None
            assert shard.storage is not None
            cost[shard.rank] += shard.perf.total
            hbm[shard.rank] += shard.storage.hbm
    return cost, hbm


def main(args: list[str] | None = None) -> int:
    """Plans one scenario and prints the outcome as JSON on the standard output."""
    parser = argparse.ArgumentParser(prog="python -m neuroshard_compare.torchrec_planner")
    parser.add_argument("scenario", help="a bundled scenario's name, or a file")
    parser.add_argument("--options", choices=OPTIONS, default="default")
    parser.add_argument("--min-partition", type=int, default=32)
    parser.add_argument("--limit", type=int, default=60, help="seconds")
    chosen = parser.parse_args(args)
    engine = Engine(scenarios.load(chosen.scenario))
    outcome: dict[str, Any] = {"placement": None, "error": ""}
    start, used = time.perf_counter(), time.process_time()
    try:
        planner = engine.planner(chosen.options, chosen.min_partition, chosen.limit)
        outcome["placement"] = to_json(engine.plan(planner))
    except PlannerError as e:
        outcome["error"] = first_line(e)
    outcome["plan_s"] = time.perf_counter() - start
    outcome["cpu_s"] = time.process_time() - used
    json.dump(outcome, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
