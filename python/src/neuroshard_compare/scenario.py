"""Scenarios: tables, a batch and a cluster, which both planners understand.

    {"name": "...", "optimizer": "none", "batch_size_per_rank": 512, "global_batch": 4096,
     "topology": {"world_size": 8, "local_world_size": 8, "hbm_bytes": 85899345920},
     "tables": [{"name": "t0", "rows": 87809, "dim": 8, "pooling": 1.5, "dtype": "fp32"}]}

Each table is read by one feature, its own, with ``pooling`` lookups a sample in the
mean. Memory is that of one device. A topology may also state the bandwidths of BANDWIDTHS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

# A scenario's optimizer, and what neuroshard calls it. TorchRec counts no state for
# "none", and neuroshard none for SGD.
OPTIMIZERS = {
    "none": "sgd",
    "sgd": "sgd",
    "adagrad": "adagrad",
    "rowwise_adagrad": "rowwise_adagrad",
    "adam": "adam",
}

# The bandwidths of TorchRec's Topology that a scenario may state, in its bytes a millisecond, with
# the flags of neuroshard.
BANDWIDTHS = {
    "intra_host_bw": "--link-bandwidth",
    "inter_host_bw": "--network-bandwidth",
    "hbm_mem_bw": "--hbm-bandwidth",
    "hbm_to_ddr_mem_bw": "--host-link-bandwidth",
}

_CLUSTER = ("world_size", "local_world_size", "hbm_bytes")

_NUMBER = re.compile(r"(\d+)")


class ScenarioError(ValueError):
    """A scenario that cannot be read, or values in it that make no sense: all of them."""


@dataclass(frozen=True)
class Table:
    """An embedding table of fp32 weights that one feature reads."""

    name: str
    rows: int
    dim: int  # columns, a multiple of 4
    pooling: float  # mean lookups of a sample


@dataclass(frozen=True)
class Scenario:
    """One planning problem."""

    name: str
    tables: tuple[Table, ...]
    optimizer: str  # a key of OPTIMIZERS
    batch_per_rank: int  # samples of a step on one device
    devices: int
    devices_per_host: int
    memory_bytes: int  # of one device
    bandwidths: Mapping[str, float] = field(default_factory=dict)  # by key of BANDWIDTHS

    @property
    def batch(self) -> int:
        """Samples of a step over all devices."""
        return self.batch_per_rank * self.devices

    def neuroshard_tables(self, min_width: int | None = None) -> dict[str, Any]:
        """The tables as neuroshard reads them, cut into no slice below the width given.

        Accesses are stated to be uniform: the scenario knows nothing of them, and
        TorchRec's estimator counts each lookup as a read from memory.
        """
        return {
            "format": "neuroshard-tables",
            "version": 1,
            "batch": self.batch,
            "tables": [
                {
                    "name": t.name,
                    "rows": t.rows,
                    "dim": t.dim,
                    "pooling_factor": t.pooling,
                    "precision": "fp32",
                    "optimizer": OPTIMIZERS[self.optimizer],
                    "access": {"uniform": True},
                    "constraints": {"min_width": min(min_width, t.dim)} if min_width else {},
                }
                for t in self.tables
            ],
        }


def bundled() -> list[str]:
    """The names of the scenarios that come with this package, sorted, 8 before 128."""
    files = (resources.files(__package__) / "scenarios").iterdir()
    names = [f.name.removesuffix(".json") for f in files if f.name.endswith(".json")]
    return sorted(
        names, key=lambda name: [int(s) if s.isdigit() else s for s in _NUMBER.split(name)]
    )


def load(name: str) -> Scenario:
    """Reads a scenario: one of ``bundled()`` by name, or a file by path."""
    if name in bundled():
        text = (resources.files(__package__) / "scenarios" / f"{name}.json").read_text("utf-8")
        return parse(text, name)
    try:
        text = Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ScenarioError(
            f"{name}: {e}; give a file or one of these: {', '.join(bundled())}"
        ) from e
    return parse(text, name)


def parse(text: str, source: str) -> Scenario:
    """Reads a scenario from JSON. An error lists every wrong value with its place."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as e:
        raise ScenarioError(f"{source}: line {e.lineno}: {e.msg}") from e
    reader = _Reader(source)
    root = reader.object("", data)
    topology = reader.object("topology", root.get("topology"))
    entries = root.get("tables")
    if not isinstance(entries, list) or not entries:
        reader.wrong("tables", "is not a list of at least one table")
        entries = []
    tables = []
    for i, entry in enumerate(entries):
        place, table = f"tables[{i}]", reader.object(f"tables[{i}]", entry)
        tables.append(
            Table(
                name=reader.text(place, table, "name"),
                rows=reader.whole(place, table, "rows"),
                dim=reader.whole(place, table, "dim", 4),
                pooling=reader.positive(place, table, "pooling"),
            )
        )
        if table.get("dtype", "fp32") != "fp32":
            reader.wrong(f"{place}.dtype", f"{table['dtype']!r} is not compared, only 'fp32'")
    if len({t.name for t in tables}) < len(tables):
        reader.wrong("tables", "has a name twice")
    optimizer = root.get("optimizer")
    if optimizer not in OPTIMIZERS:
        reader.wrong("optimizer", f"{optimizer!r} is none of {', '.join(OPTIMIZERS)}")
    scenario = Scenario(
        name=reader.text("", root, "name"),
        tables=tuple(tables),
        optimizer=str(optimizer),
        batch_per_rank=reader.whole("", root, "batch_size_per_rank"),
        devices=reader.whole("topology", topology, "world_size"),
        devices_per_host=reader.whole("topology", topology, "local_world_size"),
        memory_bytes=reader.whole("topology", topology, "hbm_bytes"),
        bandwidths={
            key: reader.bandwidth("topology", topology, key)
            for key in BANDWIDTHS
            if key in topology
        },
    )
    for key in topology:
        if key not in _CLUSTER and key not in BANDWIDTHS:
            known = ", ".join((*_CLUSTER, *BANDWIDTHS))
            reader.wrong(f"topology.{key}", f"is not known; the keys are {known}")
    if scenario.devices % scenario.devices_per_host:
        reader.wrong("topology.local_world_size", "does not divide world_size")
    if root.get("global_batch", scenario.batch) != scenario.batch:
        reader.wrong("global_batch", f"is not {scenario.batch}, batch_size_per_rank x world_size")
    if reader.faults:
        raise ScenarioError("\n".join(reader.faults))
    return scenario


class _Reader:
    """Checks values, and collects what is wrong with them."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.faults: list[str] = []

    def wrong(self, place: str, what: str) -> None:
        self.faults.append(f"{self.source}: {place} {what}")

    def object(self, place: str, value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        self.wrong(place or "the scenario", "is not an object")
        return {}

    def text(self, place: str, of: dict[str, Any], key: str) -> str:
        ok = isinstance(of.get(key), str) and of[key] != ""
        return str(self._value(place, of, key, ok, "a text", lambda: "?"))

    def whole(self, place: str, of: dict[str, Any], key: str, multiple: int = 1) -> int:
        value = of.get(key)
        ok = type(value) is int and 0 < value <= 1 << 40 and value % multiple == 0
        what = "a whole number above 0" + (f", a multiple of {multiple}" if multiple > 1 else "")
        return int(self._value(place, of, key, ok, what, lambda: multiple))

    def positive(self, place: str, of: dict[str, Any], key: str) -> float:
        value = of.get(key)
        ok = type(value) in (int, float) and 0 < float(value or 0) <= 1e6
        return float(self._value(place, of, key, ok, "a number above 0", lambda: 1))

    def bandwidth(self, place: str, of: dict[str, Any], key: str) -> float:
        value = of.get(key)
        ok = type(value) in (int, float) and 1e3 <= float(value or 0) <= 1e11
        what = "a number of bytes a millisecond, 1e3 to 1e11"
        return float(self._value(place, of, key, ok, what, lambda: 1))

    def _value(
        self,
        place: str,
        of: dict[str, Any],
        key: str,
        ok: bool,
        what: str,
        instead: Callable[[], str | int],
    ) -> Any:
        if ok:
            return of[key]
        self.wrong(f"{place}.{key}" if place else key, f"is {of.get(key)!r}, not {what}")
        return instead()
