"""What the device reaches at best: bytes copied, rows gathered, keys sorted.

Every ceiling is the best of some repeats: what other load takes away is not the
device's limit. GB is 10^9 bytes.

    copy_gbps           bytes read plus bytes written
    gather_gbps         random rows of 256 bytes, from far more than the cache
    cached_gather_gbps  the same from a quarter of the cache
    sort_mkeys          millions of 32-bit keys sorted with their places a second
    clock_ghz           the sustained clock
    alltoall_us         an all-to-all of nothing, alltoall_gbps what a rank sends
                        in one of much; only with several ranks
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from . import device as facts
from .comm import Ranks
from .timing import Plan, middle

_ROW = 64  # numbers: 256 bytes
_BAG = 32
_REPEATS = 5
_MOST_BYTES = {"cuda": 8 << 30, "cpu": 1 << 29}
_KEYS = {"cuda": 1 << 26, "cpu": 1 << 20}

# What stands in a profile for what one device cannot measure: the latency fitted
# to published measurements of recent GPUs, and about the share of the memory's
# bandwidth that NVLink has on them (docs/SIMULATED.md).
_ASSUMED_LATENCY_US = 40.0
_ASSUMED_INTRA_SHARE = 0.08


def measure(device: torch.device, memory_bytes: int, ranks: Ranks | None) -> dict[str, float]:
    most = min(_MOST_BYTES[device.type], memory_bytes // 4)
    found = {
        "copy_gbps": _copy(device, most),
        "gather_gbps": _gather(device, most),
        "cached_gather_gbps": _gather(device, facts.cache_bytes(device) // 4),
        "sort_mkeys": _sort(device),
        "clock_ghz": clock(device),
    }
    if ranks is not None:
        found |= _all_to_all(ranks)
    return {k: round(v, 6) for k, v in found.items() if v > 0 and math.isfinite(v)}


def profile(
    device: torch.device, memory_bytes: int, cache_bytes: int, found: dict[str, float]
) -> dict[str, Any]:
    """The hardware profile (package hardware) that follows from the ceilings."""
    name = re.sub(r"[^a-z0-9]+", "-", facts.name(device).lower()).strip("-")
    copy = max(found.get("copy_gbps", 0.0), 1e-3)
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        memory = int(properties.total_memory)
        units, granule = int(properties.multi_processor_count), 64 if properties.major >= 8 else 32
    else:
        name, memory, units, granule = "cpu-torch", memory_bytes, facts.threads(device), 64
    return {
        "name": name,
        "memory_bytes": memory,
        "hbm_gbps": copy,  # measured, so that a streaming kernel reaches all of it
        "hbm_efficiency": 1.0,
        "l2_bytes": cache_bytes,
        "l2_gbps": max(found.get("cached_gather_gbps", 0.0), copy),
        "sms": units,
        "clock_ghz": found.get("clock_ghz", 1.0),
        "granule_bytes": granule,
        "alltoall_latency_us": found.get("alltoall_us", _ASSUMED_LATENCY_US),
        "intra_gbps": found.get("alltoall_gbps", _ASSUMED_INTRA_SHARE * copy),
        "nic_gbps": 0.0,
    }


def best_seconds(device: torch.device, run: Callable[[], object]) -> float:
    """The least time of some runs, after one that is not timed."""
    run()
    least = math.inf
    for _ in range(_REPEATS):
        if device.type == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize(device)
            with torch.cuda.device(device):
                start.record()
                run()
                end.record()
            torch.cuda.synchronize(device)
            least = min(least, start.elapsed_time(end) / 1e3)
        else:
            begun = time.perf_counter()
            run()
            least = min(least, time.perf_counter() - begun)
    return max(least, 1e-9)


def _copy(device: torch.device, most: int) -> float:
    count = most // 8
    source = torch.empty(count, device=device).uniform_(0.5, 1.0)
    target = torch.empty_like(source)
    return 8 * count / best_seconds(device, lambda: target.copy_(source)) / 1e9


def _gather(device: torch.device, most: int) -> float:
    """The better of two ways: rows summed in bags, where hardly anything is
    written, and rows copied, where as much is written as read and both count."""
    rows = max(_BAG, most // (4 * _ROW))
    picks = min(1 << 23, max(1 << 17, rows)) // _BAG * _BAG
    if device.type == "cpu":
        picks = min(picks, 1 << 20)
    table = torch.empty(rows, _ROW, device=device).uniform_(0.5, 1.0)
    index = torch.randint(0, rows, (picks,), device=device)
    bags = torch.arange(0, picks + 1, _BAG, device=device)
    summed = best_seconds(
        device,
        lambda: functional.embedding_bag(index, table, bags, mode="sum", include_last_offset=True),
    )
    out = torch.empty(picks, _ROW, device=device)
    copied = best_seconds(device, lambda: torch.index_select(table, 0, index, out=out))
    return max(1 / summed, 2 / copied) * 4 * _ROW * picks / 1e9


def _sort(device: torch.device) -> float:
    count = _KEYS[device.type]
    keys = torch.randint(0, 1 << 30, (count,), dtype=torch.int32, device=device)
    out = (torch.empty_like(keys), torch.empty(count, dtype=torch.int64, device=device))
    return count / best_seconds(device, lambda: torch.sort(keys, out=out)) / 1e6


def clock(device: torch.device) -> float:
    """Returns the sustained clock in GHz; 0 if it is unknown."""
    if device.type != "cuda":
        return facts.cpu_ghz()
    cycles = 100_000_000
    return cycles / best_seconds(device, lambda: torch.cuda._sleep(cycles)) / 1e9


def _all_to_all(ranks: Ranks) -> dict[str, float]:
    n = ranks.size
    big = 1 << 14 if ranks.device.type == "cpu" else 1 << 16
    dim = 64 if ranks.device.type == "cpu" else 1024

    def slowest_ms(batch: int, dim: int) -> float:
        plan = Plan(warmup=3, repeats=15, cold=False)
        times = ranks.all_to_all([dim] * n, batch, "fp32", [], plan)
        return middle([max(t) for t in zip(*times.backward, strict=True)])[0]

    latency, full = slowest_ms(n, 1), slowest_ms(big, dim)
    sent = (n - 1) / n * big * dim * 4 / 1e9
    return {
        "alltoall_us": max(latency * 1e3, 1e-3),
        "alltoall_gbps": sent / max((full - latency) / 1e3, 1e-6),
        "alltoall_ranks": float(n),
    }
