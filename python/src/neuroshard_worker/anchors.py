"""The anchors: the first measurements on a new device (hardware-model section 4).

They answer by themselves what the simulated device only assumes: how near the
kernels come to the ceilings, how forward and backward grow with the dim, whether
mixed dims cost more together than apart, and what the update costs without the
sort. Every number is the median of some repeats with cold caches.
"""

from __future__ import annotations

import logging
from typing import Any

from . import ceilings, device
from .engines import Engine
from .group import Group, Mode, Shard
from .reference import check
from .server import RATE, Table, uniform_table
from .timing import Plan, Stopwatch, middle

DIMS = (4, 8, 16, 32, 64, 128)
MIXED = 16  # narrow tables beside a wide one

log = logging.getLogger("neuroshard")


class Anchors:
    """Measures; the sizes are those of every operation."""

    def __init__(
        self,
        engine: Engine,
        watch: Stopwatch,
        batch: int,
        rows: int,
        pooling: int,
        repeats: int = 15,
    ) -> None:
        self.engine = engine
        self.watch = watch
        self.plan = Plan(warmup=3, repeats=repeats)
        self.batch = batch
        self.tables = [
            uniform_table(rows, batch, pooling, seed, engine.device) for seed in range(MIXED + 1)
        ]
        self.sizes = {"batch": batch, "rows": rows, "pooling_factor": pooling}
        self.checked: set[tuple[Mode, int]] = set()

    def run(self) -> dict[str, Any]:
        where = self.engine.device
        cache = self.watch.set(self.plan)
        memory = device.memory_bytes(where)
        found: dict[str, Any] = {
            "device": device.name(where),
            "backend": self.engine.name,
            "kernel": self.engine.kernel,
            "clocks": device.clocks(where),
            "cache": cache,
            "source": "measured",
            **self.sizes,
            "ceilings": ceilings.measure(where, memory, None),
        }
        modes = [
            Mode(opt, dtype, weighted)
            for opt, dtype, weighted in (
                ("sgd", "fp32", False),
                ("rowwise_adagrad", "fp32", False),
                ("sgd", "fp16", False),
                ("sgd", "fp32", True),
            )
        ]
        found["single"] = [
            {"mode": str(mode), "dim": dim, **self.time([dim], mode)}
            for mode in modes
            for dim in DIMS
        ]
        found["mixed"] = [self.mixed(narrow, 128) for narrow in (4, 32)]
        found["hot"] = self.hot()
        return found

    def mixed(self, narrow: int, wide: int) -> dict[str, Any]:
        """Narrow tables and a wide one, apart and together."""
        apart = self.time([narrow] * MIXED)
        alone = self.time([wide])
        together = self.time([narrow] * MIXED + [wide])
        result: dict[str, Any] = {
            "narrow": {"tables": MIXED, "dim": narrow, **apart},
            "wide": {"tables": 1, "dim": wide, **alone},
            "together": together,
        }
        for phase in ("fwd_ms", "bwd_ms"):
            result[f"{phase[:3]}_over_sum"] = round(
                together[phase] / max(apart[phase] + alone[phase], 1e-9), 4
            )
        return result

    def hot(self) -> dict[str, Any]:
        """One table whose lookups all read the same few rows: long runs."""
        few = uniform_table(16, self.batch, self.sizes["pooling_factor"], 0, self.engine.device)
        return {"rows": 16, "dim": 64, **self.time([64], tables=[few])}

    def time(
        self,
        dims: list[int],
        mode: Mode = Mode("sgd", "fp32", False),  # noqa: B008 - it is frozen
        tables: list[Table] | None = None,
    ) -> dict[str, Any]:
        log.info("anchor: %s, dims %s", mode, dims)
        key = (mode, self.engine.lanes(max(dims)))
        if key not in self.checked:
            wrong = check(self.engine, *key)
            if wrong:
                raise RuntimeError(f"{self.engine.name} is wrong for {mode}: {wrong}")
            self.checked.add(key)
        shards = [
            Shard(t.rows, dim, 1, t.indices, t.offsets)
            for t, dim in zip(tables or self.tables, dims, strict=False)
        ]
        group = Group(shards, self.batch, mode.weighted, self.engine.device)
        op = self.engine.prepare(group, mode, RATE)
        forward, backward = self.watch.times([op.forward, op.backward])
        result = {}
        for name, times in (("fwd", forward), ("bwd", backward)):
            result[f"{name}_ms"], result[f"{name}_iqr"] = middle(times)
        try:
            (update,) = self.watch.times([op.update])
        except NotImplementedError:
            pass
        else:
            result["update_ms"], result["update_iqr"] = middle(update)
        # Bytes of the rows that are read, over the time: against gather_gbps.
        read = group.lookups * mode.row_bytes(1) * sum(dims) / len(dims)
        result["fwd_gbps"] = round(read / max(result["fwd_ms"], 1e-6) / 1e6, 3)
        return result
