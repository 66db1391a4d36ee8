"""TorchRec's planner and neuroshard's side by side on a model of the user's.

    python -m neuroshard_compare MODULE:FUNCTION --device a100-80 --devices 8

The steps, in order: the function is called and returns the model; both planners plan it,
each as a training job would call it; TorchRec's estimator and neuroshard's SIMULATED
device estimate every plan; one table shows all. Nothing is run but this function, the
planners and the program ``neuroshard``.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import logging
import os
import re
import statistics
import subprocess
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

from . import report

REFERENCE = re.compile(r"(?P<module>[\w./\-]*[\w]):(?P<function>[A-Za-z_][\w.]*)")
"""MODULE:FUNCTION, where the module is a name that Python imports or a file."""

FORMAT, VERSION = "neuroshard-compare-model", 1

# A plan that took longer, in seconds, is not made again to take the median of its times.
_LONG = 10.0

_KEYS = ("model", "sharders", "sample", "constraints")


class ModelError(Exception):
    """What is wrong with a comparison, each fault with what to do about it."""

    def __init__(self, message: str, hint: str = "", *more: tuple[str, str]) -> None:
        self.faults: tuple[tuple[str, str], ...] = ((message, hint), *more)
        super().__init__(message)


@dataclass(frozen=True)
class Subject:
    """What is planned: a model, and what the function returned beside it."""

    model: Any
    sharders: Sequence[Any] | None = None
    sample: Any = None
    constraints: Mapping[str, Any] = field(default_factory=dict)


def main(args: Sequence[str] | None = None) -> int:
    """Runs the comparison; 0 when it is printed, 2 where something is wrong."""
    given = list(sys.argv[1:] if args is None else args)
    # All after -- goes to neuroshard plan.
    cut = given.index("--") if "--" in given else len(given)
    options = _parser().parse_args(given[:cut])
    options.arguments = given[cut + 1 :]
    logging.disable(logging.WARNING)  # FBGEMM and TorchRec warn of versions, each time
    try:
        results = compare(options)
    except ModelError as e:
        return _failed(e.faults)
    except KeyboardInterrupt:
        return 130
    finally:
        logging.disable(logging.NOTSET)
    print(json.dumps(results, indent=1) if options.json else report.beside(results))
    return 0


def _failed(faults: Sequence[tuple[str, str]]) -> int:
    for message, hint in faults:
        print(f"neuroshard_compare: error: {message}", file=sys.stderr)
        if hint:
            print(f"neuroshard_compare: hint: {hint}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m neuroshard_compare",
        description="Plans a model with TorchRec's planner and with neuroshard, and estimates all"
        " plans alike: with TorchRec's estimator, and on neuroshard's SIMULATED device.",
        epilog="What follows -- is passed to neuroshard plan, such as -- --sharding-types all.",
    )
    p.add_argument(
        "model",
        metavar="MODULE:FUNCTION",
        help="a function without arguments that returns the model, or the model, its sharders and"
        f" a sample batch, or a dict with the keys {', '.join(_KEYS)}; the module is imported, or"
        " is a file such as train.py",
    )
    p.add_argument("--device", required=True, help="device profile, as neuroshard devices lists")
    p.add_argument("--devices", required=True, type=int, help="ranks of the job")
    p.add_argument("--devices-per-host", type=int, help="ranks of a host (default: 8, or all)")
    p.add_argument(
        "--batch-per-rank",
        type=int,
        help="samples of a step on one rank (default: those of the sample batch)",
    )
    p.add_argument(
        "--memory", default="", help="memory of a device, such as 40GiB (default: the profile's)"
    )
    p.add_argument(
        "--limit", type=int, help="seconds that TorchRec's planner is given (default: no limit)"
    )
    p.add_argument("--repeats", type=int, default=3, help="plans made, for the median of times")
    p.add_argument("--json", action="store_true", help="print one JSON object")
    p.add_argument(
        "--binary",
        default=os.environ.get("NEUROSHARD_BINARY", "neuroshard"),
        help="the Go program; $NEUROSHARD_BINARY, else the one on PATH",
    )
    return p


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the comparison as JSON has it. ModelError where something is wrong."""
    _check(options)
    per_host = options.devices_per_host or min(8, options.devices)
    try:
        # It checks the versions of TorchRec and of what belongs to it; it takes seconds.
        from neuroshard_torchrec import NeuroShardError
    except ImportError as e:
        message, _, hint = str(e).partition("\n  hint: ")
        raise ModelError(message, hint or "pip install './python[torchrec]'") from e
    subject = load(options.model)
    try:
        with tempfile.TemporaryDirectory(prefix="neuroshard") as folder:
            return _Comparison(options, per_host, subject, Path(folder)).results()
    except NeuroShardError as e:
        # The hints name options of the planner: here the batch of a rank is a flag.
        hints = [p.hint.replace("batch_per_rank", "--batch-per-rank") for p in e.problems]
        (message, hint), *more = zip((p.message for p in e.problems), hints, strict=True)
        raise ModelError(message, hint, *more) from e


def _check(options: argparse.Namespace) -> None:
    faults = [
        (f"--{name} {value} is not at least 1", "")
        for name, value in (
            ("devices", options.devices),
            ("devices-per-host", options.devices_per_host),
            ("batch-per-rank", options.batch_per_rank),
            ("limit", options.limit),
            ("repeats", options.repeats),
        )
        if value is not None and value < 1
    ]
    per_host = options.devices_per_host
    if not faults and per_host is not None and options.devices % per_host:
        faults = [
            (f"--devices-per-host {per_host} does not divide --devices {options.devices}", "")
        ]
    if faults:
        (message, hint), *more = faults
        raise ModelError(message, hint, *more)


# What the user named.


def load(reference: str) -> Subject:
    """Calls the function that ``reference`` names, and returns what is to be planned."""
    match = REFERENCE.fullmatch(reference)
    if match is None:
        hint = "name a function that returns the model: train:make_model, or train.py:make_model"
        raise ModelError(f"{reference!r} is not MODULE:FUNCTION", hint)
    function: Any = _module(match["module"])
    for name in match["function"].split("."):
        function = getattr(function, name, None)
    if not callable(function):
        what = "has no function" if function is None else "does not call a function"
        message = f"module {match['module']} {what} {match['function']}"
        raise ModelError(message, "name a function that returns the model")
    return _subject(reference, _run(f"{reference} failed", function))


def _module(name: str) -> ModuleType:
    if name.endswith(".py"):
        path = Path(name)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise ModelError(f"there is no file {name}", "give the path of a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        sys.path.insert(0, str(path.resolve().parent))  # as python FILE has it
        _run(f"{name} failed", lambda: spec.loader.exec_module(module))  # type: ignore[union-attr]
        return module
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name is None or not (name == e.name or name.startswith(e.name + ".")):
            raise _raised(f"module {name} failed", e) from e
        hint = "run in the folder that holds the module, or give its file: folder/train.py:FUNCTION"
        raise ModelError(f"there is no module {name}", hint) from e
    except Exception as e:
        raise _raised(f"module {name} failed", e) from e


def _run(what: str, function: Callable[[], Any]) -> Any:
    try:
        # What the user's code prints is not a part of the output.
        with contextlib.redirect_stdout(sys.stderr):
            return function()
    except Exception as e:
        raise _raised(what, e) from e


def _raised(what: str, e: BaseException) -> ModelError:
    """The error of the user's code, with the line that raised it."""
    frames = traceback.extract_tb(e.__traceback__)
    at = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return ModelError(f"{what}: {type(e).__name__}: {e}{at}")


def _subject(reference: str, made: Any) -> Subject:
    from torch import nn

    fields: dict[str, Any]
    if isinstance(made, Mapping):
        if unknown := sorted(str(k) for k in made if k not in _KEYS):
            message = f"{reference} returned a dict with {', '.join(unknown)}"
            raise ModelError(message, f"the keys are {', '.join(_KEYS)}")
        fields = {k: v for k, v in made.items() if v is not None}
    elif isinstance(made, tuple):
        if len(made) > 3:
            message = f"{reference} returned {len(made)} values"
            raise ModelError(
                message, "return the model, its sharders and a sample batch, or a dict"
            )
        fields = {k: v for k, v in zip(_KEYS, made, strict=False) if v is not None}
    else:
        fields = {"model": made}
    if not isinstance(fields.get("model"), nn.Module):
        of = type(fields.get("model")).__name__
        message = f"{reference} returned no model: {of} is not a torch.nn.Module"
        raise ModelError(message, "return the model that DistributedModelParallel will wrap")
    return Subject(**fields)


# Plans and what they cost.


class _Comparison:
    """One model, planned by both in a folder for files."""

    def __init__(
        self, options: argparse.Namespace, per_host: int, subject: Subject, folder: Path
    ) -> None:
        self.options = options
        self.per_host = per_host
        self.subject = subject
        self.folder = folder

    def results(self) -> dict[str, Any]:
        from .torchrec_model import warm

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
            {"format": FORMAT, "version": VERSION, "model": self.options.model}
            | facts
            | {"plans": plans}
        )

    def _ours(self) -> dict[str, Any]:
        o = self.options
        return self._searched(
            "neuroshard",
            "ours",
            profile=o.device,
            batch_per_rank=o.batch_per_rank,
            world_size=o.devices,
            devices_per_host=self.per_host,
            device_type="cuda",
            arguments=[*(("--memory", o.memory) if o.memory else ()), *o.arguments],
        )

    def _by_formulas(self, engine: Any) -> dict[str, Any]:
        """The plan of a planner that takes the place of TorchRec's, with its arguments."""
        return self._searched(
            "neuroshard, TorchRec's formulas",
            "formulas",
            topology=engine.topology(),
            batch_size=engine.cluster.batch_per_rank,
            arguments=self.options.arguments,
        )

    def _searched(self, name: str, file: str, **arguments: Any) -> dict[str, Any]:
        from neuroshard_torchrec import NeuroShardPlanner

        keep = self.folder / file
        s = self.subject

        def make() -> Any:
            planner = NeuroShardPlanner(
                sample=s.sample,
                constraints=dict(s.constraints),
                stats=[],
                binary=self.options.binary,
                keep=keep,
                **arguments,
            )
            return planner.plan(s.model, s.sharders)

        plan = self._timed(name, file, make)
        plan["own_cost_ms"] = _read(keep / "plan.json")["predicted"]["cost_ms"]
        return plan

    def _theirs(self, engine: Any) -> dict[str, Any]:
        from .torchrec_model import NoPlanError

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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as of slices of unequal widths
            for _ in range(self.options.repeats):
                start = time.perf_counter()
                plan["plan"] = make()
                plan["plan_s"].append(time.perf_counter() - start)
                if plan["plan_s"][-1] > _LONG:
                    break
        return plan

    def _engine(self) -> tuple[Any, dict[str, Any]]:
        """TorchRec for the model, on the cluster that our plan states, and what that is."""
        from neuroshard_torchrec.baseline import bags, pooling_factors

        from .torchrec_model import Cluster, Engine

        tables = _read(self.folder / "ours" / "tables.json")
        cluster = self._cluster()
        factors = pooling_factors(tables)
        one = Cluster(
            devices=self.options.devices,
            devices_per_host=self.per_host,
            memory_bytes=cluster["device_memory_bytes"],
            batch_per_rank=tables["batch"] // self.options.devices,
        )
        facts = {
            "tables": len(tables["tables"]),
            "profile": cluster["profile"],
            "devices": one.devices,
            "devices_per_host": one.devices_per_host,
            "memory_bytes": one.memory_bytes,
            "batch_per_rank": one.batch_per_rank,
        }
        s = self.subject
        return Engine(s.model, s.sharders, one, s.constraints, factors, bags(tables)), facts

    def _by_torchrec(self, engine: Any, plan: dict[str, Any]) -> None:
        from .torchrec_model import sharding_types

        cost, hbm = engine.estimate(plan["plan"])
        plan["sharding_types"] = sharding_types(plan["plan"])
        plan["torchrec"] = {
            "cost_ms": max(cost),
            "mean_ms": statistics.fmean(cost),
            "fullest_bytes": max(hbm),
        }

    def _by_us(self, plan: dict[str, Any]) -> None:
        """Adds the costs of a plan by neuroshard's model and on the SIMULATED device."""
        of_ours = plan["file"] == "ours"
        tables = self.folder / "ours" / "tables.json"
        path = self.folder / plan["file"] / "plan.json"
        out = self.folder / plan["file"] / "costs.json"
        try:
            if not of_ours:
                path, tables = out.with_name("imported.json"), self._unconstrained(tables)
                self._imported(plan["plan"], path, str(tables))
            arguments = (str(path), "--tables", str(tables), "--json", str(out))
            self._neuroshard("bench", "plans", *arguments)
        except ModelError as e:
            plan["not_estimated"] = str(e)
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
        from neuroshard_torchrec.baseline import unconstrained

        other = self.folder / "tables.json"
        other.write_text(json.dumps(unconstrained(_read(path))))
        return other

    def _imported(self, plan: Any, path: Path, tables: str) -> None:
        """Writes a plan of TorchRec's formulas as a plan of neuroshard, for the cluster of ours."""
        from neuroshard_torchrec.baseline import exported

        cluster = self._cluster()
        # The bytes are counted, not kept to, and so are the rules of ours for TorchRec's plans:
        # this plan is TorchRec's own.
        cluster |= {"reserve_bytes": 0}
        cluster.pop("engine", None)
        path.parent.mkdir(exist_ok=True)
        source = path.with_name("serialized.json")
        made = exported(plan, cluster["devices"], cluster["devices_per_host"], cluster)
        source.write_text(json.dumps(made))
        self._neuroshard("import", str(source), "--tables", tables, "-o", str(path))

    def _cluster(self) -> dict[str, Any]:
        """The cluster as our plan states it."""
        return dict(_read(self.folder / "ours" / "plan.json")["cluster"])

    def _neuroshard(self, *arguments: str) -> None:
        done = subprocess.run(
            [self.options.binary, *arguments],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode:
            from neuroshard_torchrec.binary import problems

            raise ModelError("; ".join(p.message for p in problems(done.stderr)))


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


if __name__ == "__main__":
    sys.exit(main())
