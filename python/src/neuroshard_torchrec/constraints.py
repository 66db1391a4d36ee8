"""TorchRec's ParameterConstraints in neuroshard's words: honoured, or refused by name.

``translated``  a table's ParameterConstraints -> the constraints of tables.json, what the
                table's features read, and how its kernels are set
``settings``    how the kernels of a table are set, as one text
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _torchrec as torchrec
from . import fixed, requests
from ._modules import NONE, Table
from .errors import Problem, quoted

Json = dict[str, Any]

KERNEL_FIELDS = ("enforce_hbm", "stochastic_rounding", "bounds_check_mode", "output_dtype")
"""The fields that a plan hands on to the kernels of a table, but for cache_params."""

_CACHE_FIELDS = {
    "algorithm": "cache_algorithm",
    "reserved_memory": "cache_reserved_memory",
    "precision": "cache_precision",
    "prefetch_pipeline": "prefetch_pipeline",
    "multipass_prefetch_config": "multipass_prefetch_config",
}
"""The fused parameters that CacheParams set, by its fields, but for the share of rows."""

_DIFFERS = "{} does not agree with the model"

_REFUSED = ("key_value_params", "use_virtual_table")
"""The fields of ParameterConstraints without a counterpart: of tables outside of the memory of
devices and hosts."""


@dataclass
class Constraints:
    """ParameterConstraints of a table in neuroshard's words.

    ``json`` are constraints of tables.json. ``types`` are the sharding types that the compute
    kernels leave, None for all. ``factors`` are the lookups of a sample of each feature, and
    ``bags`` its bags; both empty if they are not stated. ``assumed`` are the lookups of a sample
    if nothing else states them, empty for 1. ``placed`` are the fields
    of the table's ParameterSharding, and ``fused`` the fused parameters that these set.
    ``prefetch`` is whether the table is prefetched, None if it is not stated.
    """

    json: Json = field(default_factory=dict)
    types: tuple[str, ...] | None = None
    factors: tuple[float, ...] = ()
    bags: tuple[float, ...] = ()
    assumed: tuple[float, ...] = ()
    placed: dict[str, Any] = field(default_factory=dict)
    fused: dict[str, Any] = field(default_factory=dict)
    prefetch: bool | None = None
    problems: list[Problem] = field(default_factory=list)

    def fault(self, message: str, hint: str = "") -> None:
        """Adds a problem."""
        self.problems.append(Problem(message, hint))


def translated(
    stated: Any, name: str, table: Table, weighted: bool, device_type: str, batch: int | None
) -> Constraints:
    """Returns TorchRec's ParameterConstraints of a table in neuroshard's words. ``name`` is the
    table's in neuroshard's files, and ``weighted`` says whether its lookups carry weights.
    ``batch`` is the batch of a rank, None if it is not known."""
    found = Constraints()
    given = {k: v for k, v in torchrec.constraint_fields(stated).items() if v is not None}
    _places(found, given, table)
    _reads(found, given, table, batch)
    _agrees(found, given, table, weighted, device_type)
    _kernels(found, given, table)
    for field_name in _REFUSED:
        if field_name in given:
            found.fault(f"{field_name} has no counterpart", fixed.hint(name))
    for field_name in sorted(set(given) - torchrec.CONSTRAINT_FIELDS):
        kind = type(stated).__name__
        found.fault(f"{field_name} of {kind} is no field of TorchRec's", fixed.hint(name))
    return found


def _places(found: Constraints, given: Mapping[str, Any], of: Table) -> None:
    """Adds where the table may lie: its sharding types, memory tiers and slices."""
    types = None
    if "sharding_types" in given:
        names = [str(t) for t in given["sharding_types"]]
        types, more = requests.sharding_types(names)
        if label := requests.labels(names).get("column_wise"):
            found.fused["sharding_type"] = label  # TorchRec runs such tables in a module apart
        found.problems += [Problem(f"sharding_types: {p.message}", p.hint) for p in more]
        found.json["sharding_types"] = list(types)
        if requests.on_one_host(names):
            found.json["one_host"] = True
    if width := int(given.get("min_partition", 0)):
        # As in TorchRec, a table that is narrower than the narrowest slice stays whole.
        found.json["min_width"] = min(width, of.dim)
    tiers: tuple[str, ...] | None = None
    if "compute_kernels" in given:
        kernels = [str(k) for k in given["compute_kernels"]]
        every = requests.every_type() if types is None else types
        kept, tiers = requests.of_kernels(lambda _: kernels, every)
        if not kept:
            found.problems.append(requests.no_kernel("compute_kernels", kernels))
        elif types is not None:
            found.json["sharding_types"] = list(kept)
        elif kept != every:
            found.types = kept
    if given.get("enforce_hbm"):
        # FBGEMM then puts all rows of host memory into HBM, beside the cache.
        if tiers is not None and "hbm" not in tiers:
            message = "enforce_hbm keeps all rows in HBM, and compute_kernels allow "
            hint = 'leave one of them out, or add "fused" to compute_kernels'
            found.fault(message + quoted(given["compute_kernels"]), hint)
        tiers = ("hbm",)
    if tiers is not None:
        found.json["tiers"] = list(tiers)


def _reads(found: Constraints, given: Mapping[str, Any], of: Table, batch: int | None) -> None:
    """Adds what a sample reads: the lookups of a bag, and the bags."""
    each = f"one for each of {quoted(of.features)}"
    lists: dict[str, tuple[float, ...]] = {}
    for name in ("pooling_factors", "num_poolings", "batch_sizes"):
        if name not in given:
            continue
        values = tuple(map(float, given[name]))
        if len(values) != len(of.features):
            found.fault(_DIFFERS.format(name), each)
        else:
            lists[name] = values
    bags = lists.get("num_poolings", (1.0,) * len(of.features))
    lookups = lists.get("pooling_factors", (1.0,) * len(of.features))
    # In the order of TorchRec's products, so that both round alike: TorchRec rounds up bytes.
    lookups = tuple(f * b for f, b in zip(lookups, bags, strict=False))
    if "batch_sizes" in lists:
        if batch is None:
            hint = "pass num_poolings: the feature's samples over those of the batch"
            found.fault("batch_sizes are those of a rank, and its batch is not known", hint)
            return
        samples = lists["batch_sizes"]
        bags = tuple(b * n / batch for b, n in zip(bags, samples, strict=True))
        lookups = tuple(f * n / batch for f, n in zip(lookups, samples, strict=True))
    if "pooling_factors" in lists:
        found.factors = lookups
    if set(bags) != {1.0}:
        found.assumed = lookups
        # The vectors of a table without pooling are its lookups.
        found.bags = () if of.pooling == NONE else bags


def _agrees(
    found: Constraints, given: Mapping[str, Any], of: Table, weighted: bool, device_type: str
) -> None:
    """Adds a problem for each field that says something else than the model."""
    if given.get("is_weighted", weighted) != weighted:
        found.fault(_DIFFERS.format("is_weighted"), "the collection's is_weighted decides")
    if sorted(given.get("feature_names", of.features)) != sorted(of.features):
        found.fault(_DIFFERS.format("feature_names"), f"the features are {quoted(of.features)}")
    if given.get("device_group", device_type) != device_type:
        found.fault(_DIFFERS.format("device_group"), f'all tables are on "{device_type}"')


def _kernels(found: Constraints, given: Mapping[str, Any], of: Table) -> None:
    """Adds how the table's kernels are set."""
    for name in KERNEL_FIELDS:
        if name in given:
            found.placed[name] = found.fused[name] = given[name]
    cache = given.get("cache_params")
    if cache is None:
        return
    found.placed["cache_params"] = cache
    for ours, theirs in _CACHE_FIELDS.items():
        if (value := getattr(cache, ours)) is not None:
            found.fused[theirs] = value
    found.prefetch = cache.prefetch_pipeline
    cached = "host_cached" in found.json.get("tiers", ["host_cached"])
    if cache.load_factor is not None and cached:
        found.json["cache_share"] = cache.load_factor
    if cache.stats is not None:
        hint = "pass access={...}: how often a batch uses each row"
        found.fault("cache_params: stats are TorchRec's own statistics", hint)
    precision = torchrec.format_of(cache.precision)
    if cache.precision is not None and not cached_in(precision, of.precision):
        message = f"cache_params: precision {precision}, and the table is in {of.precision}"
        found.fault(message, "caches are counted in the table's format: leave precision out")


def cached_in(precision: str, table: str) -> bool:
    """Returns whether the rows of a table may be cached in a number format. A cache is counted in
    the table's format, so a cache of fewer bytes a number fits, too."""
    return precision == table or (precision in ("fp16", "bf16") and table == "fp32")


def settings(
    names: Sequence[str],
    own: Mapping[str, Any],
    fused: Mapping[str, Any],
    more: Sequence[str] = (),
) -> str:
    """Returns how the kernels of a table are set, as one text: the fused parameters of these
    names, its own before those of its sharder. TorchRec fuses tables of one module that have
    the same fused parameters. ``more`` follows them."""
    stated: list[str] = []
    for name in names:
        value = own.get(name, fused.get(name))
        if value is not None:
            value = getattr(value, "name", value)
            stated.append(f"{name}={value}")
    return "; ".join([*stated, *more])
