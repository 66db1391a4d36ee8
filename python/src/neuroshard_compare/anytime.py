"""Plans of TorchRec's proposers and of a MILP solver, each with its time, for ``bench --beside``.

``python -m neuroshard_compare.anytime paper-d4_m64-0 --out beside.json`` plans workloads that the
Go program knows by name, on their own clusters, and writes the plans as ``neuroshard bench
--json`` does. ``neuroshard bench workloads paper-d4_m64-0 --clusters default --budgets 1s --beside
beside.json`` then estimates their cost like that of any other plan and draws them beside its
curves.

TorchRec's planner runs with one proposer at a time, with tables whole or in slices of columns in
HBM, and with its own estimates of time and memory. None of the memory is reserved, because the
workloads state what tables may take.

The solver is HiGHS (package highspy, which only this module uses). It solves a mixed-integer
linear program:

- A table is kept whole or cut into 2, 4 or 8 equal slices of columns.
- The time and the bytes of a slice are those that our models give for the slice alone on a
  device. The times and the bytes of a device's slices add up.
- The cost is the largest time of a device, plus the largest number of columns of a device times
  the time of the all-to-alls for each column. That time is the one of the plan of method
  ``size``.
- The bytes of each device are limited.

The program leaves out that an operator of several tables takes less time than these tables
alone, and that the widest slice of an operator sets its lanes. The time to ask our models is not
counted as time of the solver.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .binary import Binary, BinaryError

# The ways to cut a table that the solver may choose, as numbers of equal slices.
_SLICES = (1, 2, 4, 8)

# The narrowest slice of our plans, and the number that its columns are a multiple of.
_UNIT = 4

# The width of TorchRec's slices of columns, as in the comparison of docs/ENGINES.md.
_TORCHREC_LEAST = 32

# The seconds that the solver has.
_LIMITS = (1, 10, 60)

# Bytes of a value in fp32.
_BYTES = 4

# The values that an optimizer keeps for each weight, with the weight.
_VALUES = {"sgd": 1, "rowwise_adagrad": 1, "adagrad": 2, "adam": 3}


@dataclass(frozen=True)
class Slice:
    """Columns of a table on a device."""

    table: int
    columns: tuple[int, int]
    device: int


@dataclass(frozen=True)
class Spent:
    """Time spent."""

    wall_s: float
    cpu_s: float  # of processors

    @classmethod
    def now(cls) -> Spent:
        """What this process has spent so far, from some moment on."""
        return cls(time.perf_counter(), time.process_time())

    def since(self, start: Spent) -> Spent:
        """What was spent after the start."""
        return Spent(self.wall_s - start.wall_s, self.cpu_s - start.cpu_s)


@dataclass(frozen=True)
class Workload:
    """A workload of the Go program on its own cluster."""

    name: str
    batch: int
    tables: list[dict[str, Any]]  # as in the file of tables
    cluster: dict[str, Any]  # as in a plan file

    @property
    def budget(self) -> int:
        """The bytes of a device that tables may take."""
        return int(self.cluster["device_memory_bytes"] - self.cluster.get("reserve_bytes", 0))

    def fits(self, table: dict[str, Any], parts: int) -> bool:
        """Whether a table can be cut into equal slices that fit on a device, without buffers."""
        values = 1 if self.cluster.get("weights_only") else _VALUES[table["optimizer"]]
        each = table["rows"] * dim(table) // parts * _BYTES * values
        return bool(cut(table, parts)) and each <= self.budget

    def record(
        self, method: str, slices: list[Slice] | None, cost: float, spent: Spent
    ) -> dict[str, Any]:
        """A record of ``bench --json``; ``cost`` is the planner's own estimate, in ms."""
        cluster = self.cluster
        record = {
            "setting": self.name,
            "task": f"{self.name}/{cluster['devices']}x{cluster['profile']}",
            "method": method,
            "valid": slices is not None,
            "cost_ms": None if slices is None else cost,
            "simulated_cost_ms": None,
            "wall_ms": 1000 * spent.wall_s,
            "cpu_ms": 1000 * spent.cpu_s,
        }
        if slices is not None:
            record["plan"] = [
                {
                    "table": self.tables[s.table]["name"],
                    "columns": list(s.columns),
                    "device": s.device,
                }
                for s in slices
            ]
        return record


class Program(Binary):
    """The Go program, asked about workloads."""

    def workload(self, name: str) -> Workload:
        """The tables of a workload and its cluster."""
        tables = json.loads(self._run("workloads", name))
        first = json.loads(
            self._run(
                *("plan", f"workload:{name}", "--json", "--no-baselines"),
                *("--method", "size", "--sharding-types", "table_wise,column_wise"),
            )
        )
        return Workload(name, tables["batch"], tables["tables"], first["plan"]["cluster"])

    def score(self, of: Workload, slices: list[Slice], devices: int) -> dict[str, Any]:
        """Our model's record of a plan of the workload on another number of devices."""
        profile = of.cluster["profile"]
        record = of.record("given", slices, 1, Spent(0, 0))
        record["task"] = f"{of.name}/{devices}x{profile}"
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "given.json"
            file.write_text(json.dumps(results([record])))
            answer = self._run(
                *("bench", "workloads", of.name, "--clusters", f"{devices}x{profile}"),
                *("--score", str(file), "--json", "-"),
            )
        (scored,) = json.loads(answer)["records"]
        return dict(scored)

    def simple(self, of: Workload) -> dict[str, Any]:
        """Our model's record of the plan of method size on the workload's cluster."""
        answer = self._run(
            *("bench", "workloads", of.name, "--clusters", "default"),
            *("--methods", "size", "--json", "-"),
        )
        (record,) = json.loads(answer)["records"]
        return dict(record)


def results(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The records as a file of results."""
    return {"format": "neuroshard-bench", "version": 1, "models": "", "seed": 0, "records": records}


def dim(table: dict[str, Any]) -> int:
    """The columns of a table."""
    return int(table["dim"])


def pooling(table: dict[str, Any]) -> float:
    """The mean lookups of a sample, over all features of a table."""
    features = table.get("features", [table])
    return float(sum(f["pooling_factor"] for f in features))


def cut(table: dict[str, Any], parts: int) -> list[tuple[int, int]]:
    """The columns of equal slices, or no slices if they would be too narrow."""
    width, rest = divmod(dim(table), parts)
    if rest or (parts > 1 and width % _UNIT):
        return []
    return [(i * width, (i + 1) * width) for i in range(parts)]


def torchrec(of: Workload, limit: int) -> list[dict[str, Any]]:
    """The plans of TorchRec's proposers, each alone."""
    from torchrec.distributed.planner import EmbeddingShardingPlanner, proposers
    from torchrec.distributed.planner.storage_reservations import (
        FixedPercentageStorageReservation,
    )
    from torchrec.distributed.planner.types import PlannerError

    from .scenario import Scenario, Table
    from .torchrec_planner import Engine

    cluster = of.cluster
    optimizers = {t["optimizer"] for t in of.tables}
    scenario = Scenario(
        name=of.name,
        tables=tuple(Table(t["name"], t["rows"], dim(t), pooling(t)) for t in of.tables),
        optimizer="sgd" if cluster.get("weights_only") else optimizers.pop(),
        batch_per_rank=of.batch // cluster["devices"],
        devices=cluster["devices"],
        devices_per_host=cluster["devices_per_host"],
        memory_bytes=of.budget,
    )
    engine = Engine(scenario)
    # A kernel with a cache would keep a table in host memory.
    constraints = {
        name: replace(c, compute_kernels=["fused"])
        for name, c in engine.constraints("column_wise", _TORCHREC_LEAST).items()
    }
    records = []
    for name, proposer in (
        ("greedy", proposers.GreedyProposer()),
        ("grid", proposers.GridSearchProposer()),
        ("uniform", proposers.UniformProposer()),
        ("dynamic programming", proposers.DynamicProgrammingProposer()),
    ):
        planner = EmbeddingShardingPlanner(
            topology=engine.topology,
            batch_size=scenario.batch_per_rank,
            constraints=constraints,
            storage_reservation=FixedPercentageStorageReservation(0),
            proposer=proposer,
            stats=[],
            timeout_seconds=limit,
        )
        start = Spent.now()
        slices: list[Slice] | None = None
        cost = 0.0
        try:
            placement = engine.plan(planner)
        except PlannerError as e:
            print(f"{of.name}: TorchRec, {name}: {str(e).splitlines()[0]}", file=sys.stderr)
        else:
            slices = [
                Slice(i, s.columns, s.rank) for i, t in enumerate(placement) for s in t.shards
            ]
        spent = Spent.now().since(start)
        if slices is not None:
            cost = max(engine.estimate(placement).cost_ms)
        records.append(of.record(f"TorchRec {name}", slices, cost, spent))
    return records


@dataclass(frozen=True)
class Prices:
    """What our models say to the solver."""

    # Of a slice alone on a device, by table and number of slices.
    alone_ms: dict[tuple[int, int], float]
    alone_bytes: dict[tuple[int, int], int]
    column_ms: float  # of the all-to-alls, for each column of the device with most columns


def prices(program: Program, of: Workload) -> Prices:
    """What our models say of slices alone, and of a column in the all-to-alls."""
    alone_ms: dict[tuple[int, int], float] = {}
    alone_bytes: dict[tuple[int, int], int] = {}
    for parts in _SLICES:
        slices: list[Slice] = []
        for i, table in enumerate(of.tables):
            fitting = next((n for n in (parts, *_SLICES) if of.fits(table, n)), None)
            if fitting is None:
                most = max(_SLICES)
                raise BinaryError(
                    f"{of.name}: table {table['name']!r} does not fit in {most} slices"
                )
            for columns in cut(table, fitting):
                slices.append(Slice(i, columns, len(slices)))
        hosts = -(-len(slices) // 8)
        devices = program.score(of, slices, 8 * hosts)["devices"]
        for s in slices:
            if of.fits(of.tables[s.table], parts):
                alone_ms[s.table, parts] = devices[s.device]["compute_ms"]
                alone_bytes[s.table, parts] = devices[s.device]["bytes"]
    devices = program.simple(of)["devices"]
    most = max(d["dim_sum"] for d in devices)
    exchanges = min(d["backward_comm_ms"] + d["forward_comm_ms"] for d in devices)
    return Prices(alone_ms, alone_bytes, exchanges / most)


def highs(of: Workload, given: Prices) -> list[dict[str, Any]]:
    """The plans that HiGHS finds within each limit."""
    records: list[dict[str, Any]] = []
    for limit in _LIMITS:
        start = Spent.now()
        slices, cost, proven = solve(of, given, limit)
        spent = Spent.now().since(start)
        records.append(of.record(f"HiGHS {limit}s", slices, cost, spent))
        if proven:
            break
    return records


def solve(of: Workload, given: Prices, limit: float) -> tuple[list[Slice] | None, float, bool]:
    """The cheapest plan found in a number of seconds, its cost, and whether none is cheaper."""
    highspy = importlib.import_module("highspy")
    h = highspy.Highs()
    h.setOptionValue("output_flag", False)
    h.setOptionValue("threads", 1)
    h.setOptionValue("time_limit", float(limit))
    devices = range(of.cluster["devices"])
    held: dict[tuple[int, int, int], Any] = {}
    for table, parts in given.alone_ms:
        for d in devices:
            held[table, parts, d] = h.addIntegral(0, parts)
    for table in range(len(of.tables)):
        ways = [parts for parts in _SLICES if (table, parts) in given.alone_ms]
        chosen = {parts: h.addBinary() for parts in ways}
        h.addConstr(sum(chosen.values()) == 1)
        for parts in ways:
            h.addConstr(sum(held[table, parts, d] for d in devices) == parts * chosen[parts])
    longest, widest = h.addVariable(0), h.addVariable(0)
    for d in devices:
        on = [(t, parts, x) for (t, parts, device), x in held.items() if device == d]
        h.addConstr(sum(given.alone_ms[t, parts] * x for t, parts, x in on) <= longest)
        columns = sum(dim(of.tables[t]) // parts * x for t, parts, x in on)
        h.addConstr(columns <= widest)
        gib = 1 << 30  # bytes would be large coefficients
        used = sum(given.alone_bytes[t, parts] / gib * x for t, parts, x in on)
        h.addConstr(used <= of.budget / gib)
    h.minimize(longest + given.column_ms * widest)
    values = h.getSolution().col_value
    if h.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None, 0, False
    slices = []
    for table, t in enumerate(of.tables):
        for parts in _SLICES:
            free = iter(cut(t, parts))
            for d in devices:
                if (table, parts, d) in held:
                    for _ in range(round(values[held[table, parts, d].index])):
                        slices.append(Slice(table, next(free), d))
    proven = h.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return slices, float(h.getInfo().objective_function_value), proven


def main(args: Sequence[str] | None = None) -> int:
    """Writes the plans; 0 when they are written, 2 where something is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m neuroshard_compare.anytime",
        description="Plans workloads with TorchRec's proposers and with HiGHS, for"
        " neuroshard bench --beside.",
    )
    parser.add_argument("workloads", nargs="+", metavar="NAME", help="see neuroshard workloads")
    parser.add_argument("--out", required=True, type=Path, help="file of the plans")
    parser.add_argument("--limit", type=int, default=60, help="seconds of a proposer of TorchRec")
    parser.add_argument("--no-solver", action="store_true", help="leave HiGHS out")
    parser.add_argument(
        "--binary",
        default=os.environ.get("NEUROSHARD_BINARY", "neuroshard"),
        help="the Go program; $NEUROSHARD_BINARY, else the one on PATH",
    )
    chosen = parser.parse_args(args)
    # FBGEMM and TorchRec warn of versions, each time.
    logging.disable(logging.WARNING)
    program = Program(chosen.binary, "")
    try:
        if not chosen.no_solver:
            importlib.import_module("highspy")
        records = []
        for name in chosen.workloads:
            workload = program.workload(name)
            records += torchrec(workload, chosen.limit)
            if not chosen.no_solver:
                records += highs(workload, prices(program, workload))
        chosen.out.write_text(json.dumps(results(records)) + "\n")
    except ModuleNotFoundError as e:
        print(f"anytime: error: {e}", file=sys.stderr)
        print("anytime: hint: pip install highspy, or --no-solver", file=sys.stderr)
        return 2
    except (BinaryError, OSError) as e:
        print(f"anytime: error: {e}", file=sys.stderr)
        return 2
    finally:
        logging.disable(logging.NOTSET)
    return 0


if __name__ == "__main__":
    sys.exit(main())
