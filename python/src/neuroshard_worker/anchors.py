"""The anchors: the first measurements on a new device (hardware-model section 4).

They answer by themselves what the simulated device only assumes: how near the
kernels come to the ceilings, and how forward and backward grow with the dim. Every
number is the median of some repeats with cold caches.
"""

from __future__ import annotations

import logging
from typing import Any

import torch

from . import ceilings, device
from .engines import Engine
from .group import Group, Mode, Shard
from .reference import ensure_right
from .server import RATE
from .timing import Plan, Stopwatch, middle

DIMS = (4, 8, 16, 32, 64, 128)
MODES = (
    Mode("sgd", "fp32", False),
    Mode("rowwise_adagrad", "fp32", False),
    Mode("sgd", "fp16", False),
    Mode("sgd", "fp32", True),
)

log = logging.getLogger("neuroshard")


def measure(
    engine: Engine, watch: Stopwatch, batch: int, rows: int, pooling: int, repeats: int = 15
) -> dict[str, Any]:
    """Measures one table of each dim, in each mode; the sizes are those of every operation."""
    where = engine.device
    cache = watch.set(Plan(warmup=3, repeats=repeats))
    found: dict[str, Any] = {
        "device": device.name(where),
        "backend": engine.name,
        "kernel": engine.kernel,
        "clocks": device.clocks(where),
        "cache": cache,
        "source": "measured",
        "batch": batch,
        "rows": rows,
        "pooling_factor": pooling,
        "ceilings": ceilings.measure(where, device.memory_bytes(where), None),
        "single": [],
    }
    random = torch.Generator(where).manual_seed(0)
    lookups = torch.randint(0, rows, (batch * pooling,), generator=random, device=where)
    offsets = torch.arange(batch + 1, device=where) * pooling
    for mode in MODES:
        for dim in DIMS:
            log.info("anchor: %s, dim %s", mode, dim)
            ensure_right(engine, mode, dim)
            group = Group([Shard(rows, dim, 1, lookups, offsets)], batch, mode.weighted, where)
            op = engine.prepare(group, mode, RATE)
            result: dict[str, Any] = {"mode": str(mode), "dim": dim}
            for name, times in zip(
                ("fwd", "bwd"), watch.times([op.forward, op.backward]), strict=True
            ):
                result[f"{name}_ms"], result[f"{name}_iqr"] = middle(times)
            # Bytes of the rows that are read, over the time: against gather_gbps.
            read = group.lookups * mode.row_bytes(dim)
            result["fwd_gbps"] = round(read / max(result["fwd_ms"], 1e-6) / 1e6, 3)
            found["single"].append(result)
    return found
