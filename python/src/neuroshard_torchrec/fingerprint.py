"""What a plan depends on beside what TorchRec hashes: the options of NeuroShardPlanner.

TorchRec keeps plans by hashes: a PlanLoader by ``hash_planner_context_inputs``, a PlanCache by
the fingerprint of a request. Both cover what TorchRec's planner reads: devices, batch and
ParameterConstraints. ``of`` covers the rest, so a plan that was made by other options has
another hash.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from . import _torchrec as torchrec
from . import memory, pipelines
from .errors import InputError, Problem
from .fixed import FixedTable

DEFAULTS: dict[str, Any] = {
    "profile": None,
    "sample": None,
    "pooling_factors": None,
    "optimizer": None,
    "access": None,
    "constraints": None,
    "ignore": (),
    "use_inter_host_allreduce": False,
    "sync_every": 1,
    "arguments": (),
    "from_plan": None,
    "max_bytes": None,
    "pipeline": None,
    "measured_memory": None,
    "fixed": None,
}
"""The options that a plan depends on and that TorchRec's hashes do not have, with their
defaults. The other options choose who plans and where files are left."""

_READ = {"pipeline": pipelines.spec, "measured_memory": memory.overhead}
"""What of an option counts, where that is not all of it."""

_FILES = ("profile", "arguments", "from_plan")
"""The options that may name files, whose content counts."""


def of(options: Mapping[str, Any]) -> str:
    """Returns a hash of the options that a plan depends on, the same one in each process; "" if
    all of them have their defaults. InputError lists those that have a value of a type that
    cannot be hashed."""
    stated, problems = {}, []
    for name, usual in DEFAULTS.items():
        try:
            value = options.get(name, usual)
            value = _content(_READ[name](value) if name in _READ else value)
        except TypeError as e:
            problems.append(Problem(f"{name}: {e}", "it must be what NeuroShardPlanner takes"))
            continue
        if value != _content(usual):
            stated[name] = [value, _files(value)] if name in _FILES else value
    if problems:
        raise InputError(problems)
    return _hash(json.dumps(stated, sort_keys=True).encode()) if stated else ""


def _content(value: Any) -> Any:
    """Returns a value as JSON that is equal for equal values; TypeError for other types."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, FixedTable):
        return [_content(value.bytes), _content(value.ms), value.on(), repr(value.sharding)]
    if isinstance(value, Mapping):
        return {str(key): _content(v) for key, v in value.items()}
    if isinstance(value, torchrec.KeyedJaggedTensor):
        parts = (value.values(), value.lengths())
        sizes = [list(value.keys()), list(value.stride_per_key())]
        return [*sizes, *(_hash(p.detach().cpu().contiguous().numpy().tobytes()) for p in parts)]
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, Collection) and not isinstance(value, (bytes, bytearray)):
        return [_content(v) for v in value]
    raise TypeError(f"a value of type {type(value).__name__} has no fingerprint")


def _files(value: Any) -> list[str]:
    """Returns the hashes of the files that a text, or each of several, names."""
    texts = value.values() if isinstance(value, dict) else value
    texts = [value] if isinstance(value, str) else [str(t) for t in texts]
    named = [text.partition("=")[2] if text.startswith("-") else text for text in texts]
    return [hashed for name in named if name for hashed in _hashes(Path(name))]


def _hashes(path: Path) -> list[str]:
    """Returns the hash of a file, or those of the files in a folder. Only rank 0 needs the files
    of options, so one that cannot be read is passed over: rank 0 says so when it plans."""
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        return [_hash(f.read_bytes()) for f in files if f.is_file()]
    except (OSError, ValueError):  # also of a text that is too long for a path
        return []


def joined(theirs: object, options: Mapping[str, Any]) -> str | None:
    """Returns TorchRec's hash with that of the options as one, None if the options have their
    defaults: the hash is then TorchRec's."""
    ours = of(options)
    return _hash(f"{theirs} {ours}".encode()) if ours else None


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
