"""NeuroShardPlanner where TorchRec's planner API takes a PlannerProvider, from TorchRec 1.9 on.

    ProductionPlannerOrchestrator, DryRunOrchestrator     who asks: for one SKU, or for each
        |  request: model, sharders, ranks, batch, NeuroShardPlannerConfig(options=...)
        v
    DefaultPlannerExecutor(NeuroShardPlannerProvider())
        |  topology and reservation: TorchRec's own, from the request
        v
    NeuroShardPlanner(topology, batch_size, storage_reservation, constraints, **options)

The options are in the request and not in the provider. So they are in the fingerprint of the
request, by which a PlanCache keeps plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from . import fingerprint
from .errors import InputError, Problem, nearest, quote, quoted, shown
from .planner import NeuroShardPlanner

# After the planner, whose imports check the versions.
from torchrec.distributed.planner.provider import DefaultPlannerProvider  # isort: skip
from torchrec.distributed.planner.types import (  # isort: skip
    PlannerConfig,
    StorageReservationPolicy,
)

_AVAILABLE = (
    *("profile", "sample", "pooling_factors", "optimizer", "access", "ignore"),
    *("arguments", "from_plan", "max_bytes", "pipeline", "measured_memory", "timeout", "keep"),
    *("torchrec_baseline", "binary", "url", "token", "token_file", "name"),
)
"""The options of NeuroShardPlanner that a request may state."""


@dataclass(frozen=True)
class NeuroShardPlannerConfig(PlannerConfig):  # type: ignore[misc] # it is untyped
    """TorchRec's PlannerConfig of a request that NeuroShardPlanner plans::

        config = NeuroShardPlannerConfig(options={"profile": "a100-80", "sample": batch})

    ``options`` are those of NeuroShardPlanner that the request does not state by itself.
    ``profile`` may also be a dict of the profiles of several SKUs. The fingerprint of the
    request depends on all options that a plan depends on, and on the content of the files that
    they name. InputError lists the options that cannot be used.
    """

    options: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        problems = [_no_option(name) for name in self.options if name not in _AVAILABLE]
        if problems:
            raise InputError(problems)

    def request_hash_extension(self) -> tuple[object, ...]:
        """Returns what TorchRec's hash of the request has beside TorchRec's own fields."""
        return ("neuroshard", fingerprint.of(self.options))


class NeuroShardPlannerProvider(DefaultPlannerProvider):  # type: ignore[misc] # it is untyped
    """TorchRec's PlannerProvider that builds NeuroShardPlanner::

        executor = DefaultPlannerExecutor(NeuroShardPlannerProvider())
        results = ProductionPlannerOrchestrator(executor, "H100").plan(request, context)

    The request has a NeuroShardPlannerConfig. Its topology and its storage reservation are made
    as by TorchRec's DefaultPlannerProvider. InputError names every field of the request that
    would have no effect.
    """

    def build_topology(self, sku: str, request: Any, ctx: Any) -> Any:
        """Returns the topology of the request, in which an SkuOverride states the memory of the
        SKU. InputError for an override of a bandwidth, and if a profile is given without the
        memory: the memory would then be TorchRec's default, not that of the profile."""
        stated = (getattr(request, "per_sku_overrides", None) or {}).get(sku)
        problems = []
        if stated is not None:
            problems = [
                Problem(
                    f"per_sku_overrides: {name} of {quote(sku)} is {getattr(stated, name):g}",
                    "override build_topology of NeuroShardPlannerProvider: a Topology states it",
                )
                for name in ("intra_host_bw", "inter_host_bw")
                if getattr(stated, name) is not None
            ]
            sizes = {"hbm_gb": stated.hbm_gb, "ddr_gb": stated.ddr_gb}
            request = replace(request, **{k: v for k, v in sizes.items() if v is not None})
        memory = "ddr_gb" if request.compute_device == "cpu" else "hbm_gb"
        if _options(request).get("profile") is not None and getattr(request, memory) is None:
            message = f"{memory} of the request is not stated, and plans have the memory of the "
            hint = f"state {memory}, or hbm_gb and ddr_gb of the SKU in per_sku_overrides"
            problems.append(Problem(message + "request, not that of the profile", hint))
        if problems:
            raise InputError(problems)
        return super().build_topology(sku, request, ctx)

    def build_storage_reservation(self, sku: str, request: Any) -> Any:
        """Returns the storage reservation of the request, or that of its policy."""
        if problems := _unread(request):
            raise InputError(problems)
        return super().build_storage_reservation(sku, request)

    def build_planner(
        self, sku: str, *, topology: Any, storage_reservation: Any, ctx: Any
    ) -> NeuroShardPlanner:
        """Returns the planner of a request, as NeuroShardPlanner checks its options."""
        request = ctx.request
        if problems := _unread(request):
            raise InputError(problems)
        options = {**_options(request)}
        if isinstance(profiles := options.get("profile"), Mapping):
            if sku not in profiles:
                hint = f"profiles are given of {quoted(map(str, profiles))}"
                raise InputError([Problem(f"profile: there is none of SKU {quote(sku)}", hint)])
            options["profile"] = profiles[sku]
        return NeuroShardPlanner(
            topology=topology,
            batch_size=request.batch_size,
            storage_reservation=storage_reservation,
            stats=ctx.stats,
            constraints=request.constraints,
            debug=request.planner_config.debug,
            timeout_seconds=request.planner_config.timeout_seconds,
            **options,
        )


def _options(request: Any) -> Mapping[str, Any]:
    """Returns the options in a request. InputError without a NeuroShardPlannerConfig: the plan
    would have the fingerprint of the plan of TorchRec's planner."""
    config = request.planner_config
    if isinstance(config, NeuroShardPlannerConfig):
        return config.options
    message = f"planner_config of the request is of type {type(config).__name__}, so its "
    message += "fingerprint is that of a plan of TorchRec's planner"
    hint = "pass planner_config=NeuroShardPlannerConfig(options={...})"
    raise InputError([Problem(message, hint)])


def _no_option(name: Any) -> Problem:
    """Returns why an option cannot be in a request."""
    near = nearest(str(name), _AVAILABLE)
    hint = f'did you mean "{near}"? ' if near else ""
    hint += "The request itself states the others, or TorchRec's fingerprint of it cannot have them"
    return Problem(f"options: {shown(name)} is no option of a request", hint)


_RESERVATION = (
    "storage_reservation_policy",
    "storage_reservation_percentage",
    "dense_tensor_estimate",
    "parameter_multiplier",
)
"""The fields of a PlannerConfig for a storage reservation. The heuristical one reads them all."""


def _unread(request: Any) -> list[Problem]:
    """Returns a problem for each stated field of the PlannerConfig that would have no effect."""
    _options(request)
    config = request.planner_config
    read = {"options", "debug", "timeout_seconds", *_reservation_fields(request)}
    hint = 'leave it out; options={"arguments": ["--set", "method=..."]} chooses the search, '
    hint += '{"profile": "..."} a cost model, constraints= says what a table may have, '
    hint += "storage_reservation= of the request what is reserved, and build_topology of "
    hint += "NeuroShardPlannerProvider what devices are"
    return [
        Problem(
            f"planner_config: {f.name} {shown(getattr(value, 'value', value))} has no effect", hint
        )
        for f in fields(config)
        if f.name not in read and (value := getattr(config, f.name)) != f.default
    ]


def _reservation_fields(request: Any) -> tuple[str, ...]:
    """Returns the fields of the PlannerConfig that DefaultPlannerProvider makes the storage
    reservation of."""
    policy = request.planner_config.storage_reservation_policy
    if request.storage_reservation is not None or policy is StorageReservationPolicy.SKU_AWARE:
        return ()
    if policy in (StorageReservationPolicy.UNSET, StorageReservationPolicy.HEURISTICAL):
        return _RESERVATION
    return _RESERVATION[:2]
