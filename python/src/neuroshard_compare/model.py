"""A model of the user's, planned by TorchRec's planner and by neuroshard.

The steps, in order: the function is called and returns the model; both planners plan it,
each as a training job would call it; TorchRec's estimator and neuroshard's SIMULATED
device estimate every plan. Nothing is run but this function, the planners and the program
``neuroshard``.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from neuroshard_torchrec import NeuroShardPlanner, baseline
from neuroshard_torchrec import binary as program
from neuroshard_torchrec.errors import BinaryError, InputError, Problem

from .report import verdict
from .torchrec_model import Cluster, Engine, NoPlanError, sharding_types, warm

_FORMAT, _VERSION = "neuroshard-compare-model", 1

# A plan that took longer, in seconds, is not made again to take the median of its times.
_LONG = 10.0

# The seconds that the program may take to estimate a plan.
_TIMEOUT = 600.0

_KEYS = ("model", "sharders", "sample", "constraints")


def _error(message: str, hint: str = "") -> InputError:
    return InputError([Problem(message, hint)])


@dataclass(frozen=True)
class Subject:
    """What is planned: a model, and what the function returned beside it."""

    model: nn.Module
    sharders: Sequence[Any] | None = None
    sample: Any = None
    constraints: Mapping[str, Any] = field(default_factory=dict)


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the comparison as JSON has it. NeuroShardError where something is wrong."""
    subject = load(options.model)
    with tempfile.TemporaryDirectory(prefix="neuroshard") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as of slices of unequal widths
        return _Comparison(options, subject, Path(folder)).results()


# What the user named.


def load(reference: str) -> Subject:
    """Calls the function that ``reference`` names, MODULE:FUNCTION, and returns what is to be
    planned. The module is a name that Python imports, or a file."""
    module, _, names = reference.partition(":")
    function: Any = _module(module)
    for name in names.split("."):
        function = getattr(function, name, None)
    if not callable(function):
        what = "has no function" if function is None else "does not call a function"
        hint = "name a function that returns the model"
        raise _error(f"module {module} {what} {names}", hint)
    return _subject(reference, _run(f"{reference} failed", function))


def _module(name: str) -> ModuleType:
    if name.endswith(".py"):
        path = Path(name)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise _error(f"there is no file {name}", "give the path of a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        sys.path.insert(0, str(path.resolve().parent))  # as python FILE has it
        _run(f"{name} failed", lambda: spec.loader.exec_module(module))  # type: ignore[union-attr]
        return module
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except Exception as e:
        missing = e.name or "" if isinstance(e, ModuleNotFoundError) else ""
        if not (name + ".").startswith((missing or "?") + "."):
            raise _raised(f"module {name} failed", e) from e
        hint = "run in the folder that holds the module, or give its file: folder/train.py:FUNCTION"
        raise _error(f"there is no module {name}", hint) from e


def _run(what: str, function: Callable[[], Any]) -> Any:
    try:
        # What the user's code prints is not a part of the output.
        with contextlib.redirect_stdout(sys.stderr):
            return function()
    except Exception as e:
        raise _raised(what, e) from e


def _raised(what: str, e: BaseException) -> InputError:
    """The error of the user's code, with the line that raised it."""
    frames = traceback.extract_tb(e.__traceback__)
    at = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return _error(f"{what}: {type(e).__name__}: {e}{at}")


def _subject(reference: str, made: Any) -> Subject:
    if isinstance(made, tuple) and len(made) > 3:
        hint = "return the model, its sharders and a sample batch, or a dict"
        raise _error(f"{reference} returned {len(made)} values", hint)
    if not isinstance(made, Mapping):
        made = dict(zip(_KEYS, made if isinstance(made, tuple) else (made,), strict=False))
    if unknown := sorted(str(k) for k in made if k not in _KEYS):
        message = f"{reference} returned a dict with {', '.join(unknown)}"
        raise _error(message, f"the keys are {', '.join(_KEYS)}")
    fields: dict[str, Any] = {k: v for k, v in made.items() if v is not None}
    if not isinstance(fields.get("model"), nn.Module):
        of = type(fields.get("model")).__name__
        message = f"{reference} returned no model: {of} is not a torch.nn.Module"
        raise _error(message, "return the model that DistributedModelParallel will wrap")
    return Subject(**fields)


# Plans and what they cost.


class _Comparison:
    """One model, planned by both in a folder for files."""

    def __init__(self, options: argparse.Namespace, subject: Subject, folder: Path) -> None:
        self.options = options
        self.per_host = options.devices_per_host or min(8, options.gpus)
        self.binary = program.find(options.binary)
        self.subject = subject
        self.folder = folder

    def results(self) -> dict[str, Any]:
        warm()
        ours = self._ours()
        engine, facts = self._engine()
        plans = [self._theirs(engine), ours, self._by_formulas(engine)]
        for plan in plans:
            if plan["plan"] is not None:
                self._by_torchrec(engine, plan)
                self._by_us(plan)
            del plan["plan"]
        return (
            {"format": _FORMAT, "version": _VERSION, "model": self.options.model}
            | facts
            | {"verdict": verdict(plans), "plans": plans}
        )

    def _ours(self) -> dict[str, Any]:
        o = self.options
        return self._searched(
            "neuroshard",
            "ours",
            profile=o.gpu,
            batch_per_rank=o.batch_per_rank,
            world_size=o.gpus,
            devices_per_host=self.per_host,
            device_type="cuda",
            arguments=[*(("--memory", o.memory) if o.memory else ()), *o.arguments],
        )

    def _by_formulas(self, engine: Engine) -> dict[str, Any]:
        """The plan of a planner that takes the place of TorchRec's, with its arguments."""
        return self._searched(
            "neuroshard, TorchRec's formulas",
            "formulas",
            topology=engine.topology(),
            batch_size=engine.cluster.batch_per_rank,
            arguments=self.options.arguments,
        )

    def _searched(self, name: str, file: str, **arguments: Any) -> dict[str, Any]:
        keep = self.folder / file
        s = self.subject

        def make() -> Any:
            planner = NeuroShardPlanner(
                sample=s.sample,
                constraints=dict(s.constraints),
                stats=[],
                binary=self.binary,
                keep=keep,
                **arguments,
            )
            return planner.plan(s.model, s.sharders)

        plan = self._timed(name, file, make)
        plan["own_cost_ms"] = _read(keep / "plan.json")["predicted"]["cost_ms"]
        return plan

    def _theirs(self, engine: Engine) -> dict[str, Any]:
        limit = self.options.limit
        try:
            plan = self._timed("TorchRec", "theirs", lambda: engine.plan(limit))
        except NoPlanError as e:
            return _plan("TorchRec", "theirs") | {"error": str(e)}
        plan["hit_limit"] = limit is not None and max(plan["plan_s"]) >= limit
        return plan

    def _timed(self, name: str, file: str, make: Callable[[], Any]) -> dict[str, Any]:
        """A plan with the times of the whole call: model in, plan out."""
        plan = _plan(name, file)
        for _ in range(self.options.repeats):
            start = time.perf_counter()
            plan["plan"] = make()
            plan["plan_s"].append(time.perf_counter() - start)
            if plan["plan_s"][-1] > _LONG:
                break
        return plan

    def _engine(self) -> tuple[Engine, dict[str, Any]]:
        """TorchRec for the model, on the cluster that our plan states, and what that is."""
        tables = _read(self.folder / "ours" / "tables.json")
        cluster = self._cluster()
        one = Cluster(
            devices=self.options.gpus,
            devices_per_host=self.per_host,
            memory_bytes=cluster["device_memory_bytes"],
            batch_per_rank=tables["batch"] // self.options.gpus,
        )
        facts = {"tables": len(tables["tables"]), "profile": cluster["profile"], **vars(one)}
        s, factors, bags = self.subject, baseline.pooling_factors(tables), baseline.bags(tables)
        return Engine(s.model, s.sharders, one, s.constraints, factors, bags), facts

    def _by_torchrec(self, engine: Engine, plan: dict[str, Any]) -> None:
        cost, hbm = engine.estimate(plan["plan"])
        plan["sharding_types"] = sharding_types(plan["plan"])
        plan["torchrec"] = {
            "cost_ms": max(cost),
            "mean_ms": statistics.fmean(cost),
            "fullest_bytes": max(hbm),
        }

    def _by_us(self, plan: dict[str, Any]) -> None:
        """Adds the costs of a plan by neuroshard's model and on the SIMULATED device."""
        tables = self.folder / "ours" / "tables.json"
        path = self.folder / plan["file"] / "plan.json"
        out = self.folder / plan["file"] / "costs.json"
        try:
            if plan["file"] != "ours":
                path, tables = out.with_name("imported.json"), self._unconstrained(tables)
                self._imported(plan["plan"], path, tables)
            self._neuroshard("lab", "bench", "plans", path, "--tables", tables, "--json", out)
        except BinaryError as e:
            plan["not_estimated"] = "; ".join(p.message for p in e.problems)
            return
        (record,) = _read(out)["records"]
        if not record["valid"]:
            plan["not_estimated"] = "it does not fit by neuroshard's count"
            return
        plan["neuroshard"] = {
            "simulated_cost_ms": record.get("simulated_cost_ms"),
            "cost_ms": record["cost_ms"],
            "fullest_bytes": max(d["bytes"] for d in record["devices"]),
        }

    def _unconstrained(self, path: Path) -> Path:
        """Writes the tables without constraints: those of our plan are no limits of others."""
        other = self.folder / "tables.json"
        other.write_text(json.dumps(baseline.unconstrained(_read(path))))
        return other

    def _imported(self, plan: Any, path: Path, tables: Path) -> None:
        """Writes a plan of TorchRec's formulas as a plan of neuroshard, for the cluster of ours."""
        cluster = self._cluster()
        # The bytes are counted, not kept to, and so are the rules of ours for TorchRec's plans:
        # this plan is TorchRec's own.
        cluster |= {"reserve_bytes": 0}
        cluster.pop("engine", None)
        path.parent.mkdir(exist_ok=True)
        source = path.with_name("serialized.json")
        made = baseline.exported(plan, cluster["devices"], cluster["devices_per_host"], cluster)
        source.write_text(json.dumps(made))
        self._neuroshard("convert", source, "--from", "torchrec", "--tables", tables, "-o", path)

    def _cluster(self) -> dict[str, Any]:
        """The cluster as our plan states it."""
        return dict(_read(self.folder / "ours" / "plan.json")["cluster"])

    def _neuroshard(self, *arguments: str | Path) -> None:
        program.run(self.binary, [str(a) for a in arguments], _TIMEOUT)


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text("utf-8")))


def _plan(name: str, file: str) -> dict[str, Any]:
    """A plan before anything is known about it."""
    return {
        "planner": name,
        "file": file,
        "plan": None,
        "plan_s": [],
        "own_cost_ms": None,  # by the model that the plan was searched with
        "hit_limit": False,
        "error": "",
        "sharding_types": {},
        "torchrec": None,
        "neuroshard": None,
        "not_estimated": "",
    }
