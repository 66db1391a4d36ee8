"""neuroshard itself: the Go program, asked for plans and for SIMULATED costs."""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .placement import (
    COLUMN_SLICES,
    DENSE,
    FUSED,
    PlacedTable,
    Placement,
    Shard,
    not_estimated,
    serialized,
)
from .scenario import BANDWIDTHS, OPTIMIZERS, Scenario


class BinaryError(RuntimeError):
    """The program is not there, or says what is wrong."""


@dataclass(frozen=True)
class Planned:
    """A plan that the program found."""

    placement: Placement
    cost_ms: float  # by the model that the program planned with
    simulated_ms: float  # as the program estimates its own plan
    wall_s: float  # from the start of the process to its end
    cpu_s: float  # of processors, in that time


class Binary:
    """The program, by name or path, on one device profile."""

    def __init__(self, path: str, device: str) -> None:
        self.path = path
        self.device = device

    def version(self) -> str:
        """The program's version, in one line."""
        return self._run("version").splitlines()[0]

    def plan(
        self,
        scenario: Scenario,
        reserve_share: float,
        reserve_fixed: int,
        min_width: int | None = None,
        options: Sequence[str] = (),
    ) -> Planned | None:
        """The default plan on one thread, or None where nothing fits.

        ``reserve_share`` of each device's memory and ``reserve_fixed`` bytes are kept
        free of tables. No slice is narrower than ``min_width``, where it is given.
        ``options`` are further flags of ``neuroshard plan``.
        """
        formulas = any(o.partition("-")[0] == "torchrec" for o in options)  # as torchrec-1.6
        with tempfile.TemporaryDirectory() as folder:
            tables = Path(folder) / "tables.json"
            tables.write_text(json.dumps(scenario.neuroshard_tables(min_width)))
            arguments = [
                *("plan", str(tables), "--json", "--workers", "1"),
                *self._cluster(scenario, formulas=formulas),
                *("--reserve-share", str(reserve_share)),
                *("--reserve-fixed", f"{reserve_fixed}B"),
                *options,
            ]
            start, used = time.perf_counter(), _children_s()
            answer = json.loads(self._run(*arguments, allowed=(0, 1)))
            wall, cpu = time.perf_counter() - start, _children_s() - used
        if not answer["valid"]:
            return None
        placement = tuple(placed(t, scenario.devices) for t in answer["plan"]["tables"])
        return Planned(placement, answer["cost_ms"], answer["simulated_cost_ms"], wall, cpu)

    def _cluster(self, scenario: Scenario, *, formulas: bool = False) -> list[str]:
        """The flags of the cluster. The nets and the SIMULATED device take no bandwidth but that
        of the network, so the others are for TorchRec's formulas only."""
        links = [
            text
            for key, rate in scenario.bandwidths.items()
            if formulas or key == "inter_host_bw"
            for text in (BANDWIDTHS[key], f"{round(1000 * rate)}B/s")
        ]
        return [
            *links,
            *("--device", self.device, "--devices", str(scenario.devices)),
            *("--devices-per-host", str(scenario.devices_per_host)),
            *("--memory", f"{scenario.memory_bytes}B"),
        ]

    def simulated_ms(self, scenario: Scenario, placement: Placement) -> float:
        """The cost of one step on the SIMULATED device, in ms: the most a rank spends.

        A placement for which ``not_estimated`` has a reason is a ValueError.
        """
        if reason := not_estimated(placement):
            raise ValueError(f"no estimate on the SIMULATED device: {reason}")
        if all(t.sharding_type in COLUMN_SLICES for t in placement):
            return self._simulated_slices(scenario, placement)
        return self._simulated_plan(scenario, placement)

    def _simulated_plan(self, scenario: Scenario, placement: Placement) -> float:
        """The cost of any placement, as a plan that is imported."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            tables, theirs, plan, score = (
                folder / f"{n}.json" for n in ("tables", "theirs", "plan", "score")
            )
            tables.write_text(json.dumps(scenario.neuroshard_tables()))
            theirs.write_text(json.dumps(serialized(placement, scenario.devices_per_host)))
            cluster = [*self._cluster(scenario), "--reserve-share", "0"]
            self._run("import", str(theirs), "--tables", str(tables), *cluster, "-o", str(plan))
            self._run("bench", "plans", str(plan), "--tables", str(tables), "--json", str(score))
            (record,) = json.loads(score.read_text())["records"]
        return float(record["simulated_cost_ms"])

    def _simulated_slices(self, scenario: Scenario, placement: Placement) -> float:
        """The cost of column slices, put together from operators and all-to-alls.

        Every rank runs its slices as one fused operation for each number of an operator,
        forward and backward, and all meet in both all-to-alls; who is ready early waits in
        the forward one.
        """
        held: dict[tuple[int, int], list[dict[str, Any]]] = {}
        sums = [0] * scenario.devices
        for placed, table in zip(placement, scenario.tables, strict=True):
            for s in placed.shards:
                dim = s.columns[1] - s.columns[0]
                entry = {"rows": table.rows, "dim": dim, "pooling_factor": table.pooling}
                held.setdefault((s.rank, placed.operator), []).append({**entry, "reuse": None})
                sums[s.rank] += dim
        operation = {
            "profile": self.device,
            "batch": scenario.batch,
            "weight_bytes": 4,
            "optimizer": OPTIMIZERS[scenario.optimizer],
        }
        exchange: dict[str, Any] = {
            "id": 0,
            "profile": self.device,
            "ranks": scenario.devices,
            "ranks_per_node": scenario.devices_per_host,
            "global_batch": scenario.batch,
            "dim_sums": sums,
        }
        compute = [
            {"id": i, **operation, "tables": tables} for i, tables in enumerate(held.values())
        ]
        answer = self._simulate({"compute": compute, "comm": [exchange]})
        busy = list(answer["comm"][0]["backward_ms"])
        for (rank, _), times in zip(held, answer["compute"], strict=True):
            busy[rank] += times["forward_ms"] + times["backward_ms"]
        exchange["start_ms"] = [b - min(busy) for b in busy]
        forward = self._simulate({"compute": [], "comm": [exchange]})["comm"][0]["forward_ms"]
        return float(max(b + f for b, f in zip(busy, forward, strict=True)))

    def _simulate(self, cases: dict[str, Any]) -> Any:
        return json.loads(self._run("simulate", "-", stdin=json.dumps(cases)))

    def _run(self, *arguments: str, stdin: str = "", allowed: Sequence[int] = (0,)) -> str:
        try:
            done = subprocess.run(
                [self.path, *arguments],
                input=stdin,
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
        except OSError as e:
            raise BinaryError(
                f"{self.path}: {e.strerror}; build it with 'go build -o bin/neuroshard"
                " ./cmd/neuroshard' and give its path with --binary"
            ) from e
        except subprocess.TimeoutExpired as e:
            raise BinaryError(f"{self.path} {arguments[0]}: no answer in 600 s") from e
        if done.returncode not in allowed:
            raise BinaryError(f"{self.path} {arguments[0]}: {done.stderr.strip()}")
        return done.stdout


def placed(table: dict[str, Any], devices: int) -> PlacedTable:
    """A table of a plan file, in TorchRec's words."""
    shards = [
        Shard(rank, tuple(s["rows"]), tuple(s["columns"]))
        for s in table["shards"]
        for rank in (range(devices) if s.get("replicated") else [s["device"]])
    ]
    sharding_type = "grid_shard" if table["kind"] == "grid" else table["kind"]
    # TorchRec runs copies of a table, and nothing else, with the dense kernel.
    kernel = DENSE if sharding_type == "data_parallel" else FUSED
    operator = table.get("operator", 0)
    return PlacedTable(table["name"], sharding_type, kernel, tuple(shards), operator)


def _children_s() -> float:
    """Processor time of all processes that were started from here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
