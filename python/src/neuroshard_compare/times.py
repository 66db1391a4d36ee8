"""How long TorchRec's planner and neuroshard's take for the same models.

    python -m neuroshard_compare.times --binary bin/neuroshard

Twelve drawn models and the bundled scenarios are planned by EmbeddingShardingPlanner and by
NeuroShardPlanner, with the same topology, batch and constraints: neuroshard's without a
profile, by TorchRec's formulas, and with one. What is timed is the whole call, from the
model to the ShardingPlan: with the constructor, and for neuroshard with the start of its
process. The planners take turns, so that other work on the machine slows all of them.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import random
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
from torchrec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection

from neuroshard_torchrec import NeuroShardError, NeuroShardPlanner

from . import scenario as scenarios
from .torchrec_planner import Engine

PLANNERS = ("TorchRec", "neuroshard, TorchRec's formulas", "neuroshard, a profile")
"""The planners, in the order of the table's columns."""

TABLES = (1, 2, 4, 7, 12, 20, 35, 60, 80, 100, 150, 250)
"""The tables of the drawn models."""

# A call that took longer, in seconds, is not repeated.
_LONG = 10.0

_SEED = 20262
_GIB = 1 << 30
# Devices, and those of a host.
_CLUSTERS = ((2, 2), (4, 4), (8, 8), (16, 8))
_DIMS = (16, 32, 64, 96, 128, 256)


@dataclass(frozen=True)
class Case:
    """A model to plan, and what both planners are given."""

    name: str
    tables: int
    model: nn.Module
    sharders: tuple[Any, ...]
    constraints: dict[str, ParameterConstraints]
    devices: int
    devices_per_host: int
    memory_bytes: int  # of one device
    batch_per_rank: int

    def arguments(self) -> dict[str, Any]:
        """The arguments that both planners take, with a topology of their own."""
        return {
            "topology": Topology(
                world_size=self.devices,
                local_world_size=self.devices_per_host,
                compute_device="cuda",
                hbm_cap=self.memory_bytes,
            ),
            "batch_size": self.batch_per_rank,
            "constraints": self.constraints,
            "stats": [],  # TorchRec's would only be printed
        }


def drawn(tables: int, seed: int = _SEED) -> Case:
    """A model of that number of tables in one to three collections; the third one is of
    sequences. Some tables have several features, some features are of
    several tables, and some constraints limit sharding types or the width of slices."""
    draw = random.Random(f"{seed} {tables}")
    devices, per_host = draw.choice(_CLUSTERS[: 2 if tables < 5 else 4])
    collections = min(tables, draw.choice((1, 1, 2, 3)))
    constraints: dict[str, ParameterConstraints] = {}
    lookups: dict[str, float] = {}  # of a feature, the same for all its tables
    configs: list[list[dict[str, Any]]] = [[] for _ in range(collections)]
    widths = [draw.choice(_DIMS) for _ in range(collections)]
    for i in range(tables):
        of = i % collections
        sequence = of == 2
        before = [f for t in configs[of] for f in t["feature_names"]]
        features = [f"f{i}_{k}" for k in range(draw.choice((1, 1, 1, 2, 3)))]
        if before and draw.random() < 0.15:
            features.append(draw.choice(before))
        configs[of].append(
            {
                "name": f"t{i}",
                "num_embeddings": int(10 ** draw.uniform(2, 7)),
                "embedding_dim": widths[of] if sequence else draw.choice(_DIMS),
                "feature_names": features,
            }
        )
        constraints[f"t{i}"] = ParameterConstraints(
            pooling_factors=[
                lookups.setdefault(f, float(draw.choice((1, 1, 2, 5, 20, 60)))) for f in features
            ],
            min_partition=32 if draw.random() < 0.2 else None,
            sharding_types=["table_wise", "column_wise"] if draw.random() < 0.2 else None,
        )
    meta = torch.device("meta")
    modules: list[nn.Module] = [
        EmbeddingCollection(tables=[EmbeddingConfig(**t) for t in c], device=meta)
        if of == 2
        else EmbeddingBagCollection(tables=[EmbeddingBagConfig(**t) for t in c], device=meta)
        for of, c in enumerate(configs)
    ]
    return Case(
        name=f"drawn, {tables} table{'s' * (tables > 1)}",
        tables=tables,
        model=nn.ModuleList(modules),
        sharders=(EmbeddingBagCollectionSharder(), EmbeddingCollectionSharder()),
        constraints=constraints,
        devices=devices,
        devices_per_host=per_host,
        memory_bytes=40 * _GIB,
        batch_per_rank=draw.choice((512, 2048, 8192)),
    )


def of_scenario(name: str) -> Case:
    """A bundled scenario as a model."""
    s = scenarios.load(name)
    engine = Engine(s)
    return Case(
        name=s.name,
        tables=len(s.tables),
        model=nn.ModuleDict({"ebc": engine.module}),
        sharders=(engine.sharder,),
        constraints=engine.constraints("default", 0),
        devices=s.devices,
        devices_per_host=s.devices_per_host,
        memory_bytes=s.memory_bytes,
        batch_per_rank=s.batch_per_rank,
    )


def measured(
    case: Case, binary: str, profile: str, repeats: int, limit: int | None
) -> dict[str, Any]:
    """The times of all planners for a case, as JSON has them. ``limit`` are the seconds that
    TorchRec's planner is given, None for no limit."""
    calls: dict[str, Callable[[], Any]] = {
        "TorchRec": lambda: EmbeddingShardingPlanner(**case.arguments(), timeout_seconds=limit),
        "neuroshard, TorchRec's formulas": lambda: NeuroShardPlanner(
            **case.arguments(), binary=binary
        ),
        "neuroshard, a profile": lambda: NeuroShardPlanner(
            **case.arguments(), binary=binary, profile=profile
        ),
    }
    times: dict[str, dict[str, list[float]]] = {p: {"wall_s": [], "cpu_s": []} for p in PLANNERS}
    errors: dict[str, str] = {}
    for _ in range(repeats):
        for planner in PLANNERS:
            taken = times[planner]
            if planner in errors or max(taken["wall_s"], default=0) > _LONG:
                continue
            gc.collect()  # nobody pays for the garbage of another
            wall, cpu = time.perf_counter(), _cpu_s()
            try:
                calls[planner]().plan(case.model, list(case.sharders))
            except (RuntimeError, NeuroShardError) as e:
                errors[planner] = str(e).strip().partition("\n")[0]
            taken["wall_s"].append(time.perf_counter() - wall)
            taken["cpu_s"].append(_cpu_s() - cpu)
    return {
        "name": case.name,
        "tables": case.tables,
        "devices": case.devices,
        "planners": [{"planner": p, "error": errors.get(p, "")} | times[p] for p in PLANNERS],
    }


def _cpu_s() -> float:
    """Processor time of this process and of those that it ran and waited for."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in both)


def cases(tables: Sequence[int], names: Sequence[str]) -> Iterator[Case]:
    """The drawn models of these sizes, and the scenarios of these names."""
    yield from (drawn(n) for n in tables)
    yield from (of_scenario(name) for name in names)


def markdown(results: dict[str, Any]) -> str:
    """The medians as a table: processor time, and wall time in brackets."""
    first, *others = results["cases"][0]["planners"]
    head = ["model", "tables", "devices", first["planner"]]
    for p in others:
        head += [p["planner"], "of TorchRec's"]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    for case in results["cases"]:
        theirs, *ours = case["planners"]
        row = [case["name"], str(case["tables"]), str(case["devices"]), _cell(theirs)]
        for p in ours:
            share = statistics.median(p["cpu_s"]) / statistics.median(theirs["cpu_s"])
            row += [_cell(p), f"{share:.1%}" if share < 0.1 else f"{share:.0%}"]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def _cell(planner: dict[str, Any]) -> str:
    cpu, wall = (_words(statistics.median(planner[key])) for key in ("cpu_s", "wall_s"))
    return f"{cpu} ({wall})" + (", no plan" if planner["error"] else "")


def _words(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def main(args: Sequence[str] | None = None) -> int:
    """Measures, and prints the table; 0 when all is done."""
    p = argparse.ArgumentParser(
        prog="python -m neuroshard_compare.times",
        description="Times EmbeddingShardingPlanner and NeuroShardPlanner on the same models:"
        " medians of the processor time, and of the wall time in brackets.",
    )
    p.add_argument(
        "--tables",
        default=",".join(map(str, TABLES)),
        help="the sizes of the drawn models, in tables; empty for none",
    )
    p.add_argument(
        "--scenarios",
        default=",".join(scenarios.bundled()),
        help="bundled scenarios, or files of some; empty for none",
    )
    p.add_argument("--profile", default="a100-80", help="device profile of the third planner")
    p.add_argument("--repeats", type=int, default=5, help="calls of each, but one above 10 s")
    p.add_argument("--limit", type=int, help="seconds that TorchRec's planner is given")
    p.add_argument("--json", action="store_true", help="print all times as one JSON object")
    p.add_argument(
        "--binary",
        default=os.environ.get("NEUROSHARD_BINARY", "neuroshard"),
        help="the Go program; $NEUROSHARD_BINARY, else the one on PATH",
    )
    options = p.parse_args(args)
    sizes = [int(n) for n in options.tables.split(",") if n]
    names = [n for n in options.scenarios.split(",") if n]
    if options.repeats < 1 or not sizes + names or min(sizes, default=1) < 1:
        p.error("--repeats and --tables take numbers of at least 1, and something to plan")
    logging.disable(logging.WARNING)  # TorchRec and FBGEMM warn of versions, each time
    results: dict[str, Any] = {"format": "neuroshard-planning-times", "version": 1, "cases": []}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            measured(drawn(1), options.binary, options.profile, 1, None)  # imports, caches
            for case in cases(sizes, names):
                print(f"{case.name} ...", file=sys.stderr)
                results["cases"].append(
                    measured(case, options.binary, options.profile, options.repeats, options.limit)
                )
    except scenarios.ScenarioError as e:
        print(f"neuroshard_compare.times: error: {e}", file=sys.stderr)
        return 2
    finally:
        logging.disable(logging.NOTSET)
    print(json.dumps(results, indent=1) if options.json else markdown(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
