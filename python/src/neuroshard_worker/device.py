"""What the device tells of itself."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from pathlib import Path

import torch

_MIB = 1 << 20


def name(device: torch.device) -> str:
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    threads = torch.get_num_threads()
    model = _field("/proc/cpuinfo", "model name") or "CPU"
    return f"{model}, {threads} thread{'s' if threads > 1 else ''}"


def threads(device: torch.device) -> int:
    return torch.get_num_threads() if device.type == "cpu" else 0


def memory_bytes(device: torch.device) -> int:
    """What weights and state of a group may take: the rest is for its buffers and
    for the lookups of all tables."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free) * 6 // 10
    return _host_memory() // 2


def index_bytes(device: torch.device) -> int:
    """What the lookups of all tables since the last init may take."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free) // 16
    return _host_memory() // 8


def cache_bytes(device: torch.device) -> int:
    """The last-level cache."""
    if device.type == "cuda":
        size = int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0))
        return size or 64 * _MIB
    for option in ("SC_LEVEL3_CACHE_SIZE", "SC_LEVEL2_CACHE_SIZE"):
        with contextlib.suppress(OSError, ValueError):
            size = os.sysconf(option)
            if size > 0:
                return size
    return 32 * _MIB


def clocks(device: torch.device) -> str:
    """Limits and policy of the clocks, which stay the same from run to run."""
    if device.type == "cuda":
        fields = _nvidia_smi(
            device,
            "clocks.max.sm,clocks.max.mem,clocks.applications.graphics,power.limit,driver_version",
        )
        if len(fields) == 5:
            sm, memory, set_to, power, driver = fields
            return (
                f"SM at most {sm}, memory {memory}, applications {set_to}, "
                f"power limit {power}, driver {driver}"
            )
        return "not told by the system"
    folder = Path("/sys/devices/system/cpu/cpu0/cpufreq")
    most = _text(folder / "cpuinfo_max_freq")
    if not most.isdigit():
        return "not told by the system"
    governor = _text(folder / "scaling_governor")
    return f"at most {int(most) / 1e6:.2f} GHz" + (f", governor {governor}" if governor else "")


def cpu_ghz() -> float:
    """The CPU's clock as the system tells it; 0 where it does not."""
    mhz = re.match(r"[\d.]+", _field("/proc/cpuinfo", "cpu MHz"))
    return float(mhz[0]) / 1e3 if mhz else 0.0


def _nvidia_smi(device: torch.device, query: str) -> list[str]:
    """The fields of nvidia-smi, found by the GPU's id, as numbers may differ."""
    uuid = str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))
    which = f"GPU-{uuid}" if uuid else str(device.index or 0)
    try:
        done = subprocess.run(
            ["nvidia-smi", "-i", which, f"--query-gpu={query}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    first, _, _ = done.stdout.partition("\n")
    return [field.strip() for field in first.split(",")]


def _host_memory() -> int:
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        told = _text(Path(limit))
        if told.isdigit() and int(told) > 0:
            most = min(most, int(told))
    return most


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _field(path: str, key: str) -> str:
    for line in _text(Path(path)).splitlines():
        found, _, value = line.partition(":")
        if found.strip() == key:
            return value.strip()
    return ""
