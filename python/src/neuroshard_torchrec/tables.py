"""A TorchRec model in, neuroshard's tables out: the format of docs/FORMATS.md.

model -> its EmbeddingBagCollections -> tables with names of their own
sample batch, or numbers given       -> pooling factors
"""

from __future__ import annotations

import json
import logging
import math
import os
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from . import _torchrec as torchrec
from . import requests
from .errors import SHOWN, InputError, Problem, nearest, quote, quoted

log = logging.getLogger("neuroshard")

PRECISIONS = ("fp32", "fp16", "bf16")
OPTIMIZERS = ("sgd", "rowwise_adagrad", "adagrad", "adam")

Json = dict[str, Any]


@dataclass(frozen=True)
class Named:
    """A table of the model under the name that neuroshard's files know it by."""

    name: str
    path: str  # of the collection that holds it
    table: torchrec.Table


def named(found: Sequence[torchrec.Collected]) -> list[Named]:
    """Returns the tables in the model's order, under names that are unique.

    That is a table's own name, or, where two collections have a table of that name,
    the path of its collection, a slash, and that name.
    """
    tables = [(c.path, t) for c in found for t in c.tables]
    # An own name that begins with the collection's path is taken for a long one by
    # who reads it, so it is made longer.
    own = Counter(t.name for _, t in tables)
    long = {
        t.name for path, t in tables if own[t.name] > 1 or (path and t.name.startswith(path + "/"))
    }
    names = [f"{p}/{t.name}" if p and t.name in long else t.name for p, t in tables]
    if len(set(names)) < len(names):
        names = [f"{p}/{t.name}" if p else t.name for p, t in tables]
    return [Named(n, p, t) for n, (p, t) in zip(names, tables, strict=True)]


def tables_from_model(
    model: nn.Module,
    *,
    batch: int | None = None,
    sample: Any = None,
    pooling_factors: Mapping[str, float] | None = None,
    optimizer: str | None = None,
    sharders: Sequence[Any] | None = None,
    access: Mapping[str, Json] | None = None,
    constraints: Mapping[str, Any] | None = None,
    ignore: Collection[str] = (),
) -> Json:
    """Returns the tables of a model's EmbeddingBagCollections as ``tables.json`` has
    them, ready for ``write_tables``. The model is only looked at; it may be on the
    meta device.

    ``batch`` is the *global* batch: samples of a training step over all ranks. Where
    it is left out the file states none, and ``neuroshard plan`` wants ``--batch``.

    A feature's pooling factor, its mean lookups per sample, comes from
    ``pooling_factors`` by the feature's name, else from ``sample``: a
    KeyedJaggedTensor, or one for each collection by its path. A feature that
    neither has is an error where a sample is given; where none is, 1 is assumed with
    a warning in the log of ``neuroshard``. The spread of the lengths of bags is that of
    the sample; without a sample all bags of a feature count as of one length.

    ``optimizer`` is ``sgd``, ``rowwise_adagrad``, ``adagrad`` or ``adam``. Left out,
    it is what ``apply_optimizer_in_backward`` left at the parameters, else what the
    ``fused_params`` of the ``sharders`` name, else ``sgd``, which FBGEMM takes too.

    Tables are prefetched if the ``fused_params`` of the sharders, or those at a table's
    parameter, have a true ``prefetch_pipeline``.

    ``access`` and ``constraints`` are those of tables.json, by table name; a constraint
    may also be TorchRec's ParameterConstraints. ``ignore`` has paths of modules to leave
    out. A sharder's own sharding types become constraints of its tables. The file does
    not state the number format of the sharder's exchanges, and a warning says so.

    InputError reports everything that is wrong at once.
    """
    read = read_model(
        model,
        batch=batch,
        sample=sample,
        pooling_factors=pooling_factors,
        optimizer=optimizer,
        sharders=sharders,
        access=access,
        constraints=constraints,
        ignore=ignore,
    )
    if read.comm_precision != "fp32":
        log.warning(
            "the sharder's exchanges are in %s: pass --comm-precision %s to neuroshard plan",
            *(read.comm_precision, read.comm_precision),
        )
    return read.tables


@dataclass(frozen=True)
class Read:
    """A model as tables.json has it, the number format of its sharder's exchanges, and
    whether its tables may lie in host memory."""

    tables: Json
    comm_precision: str
    host_memory: bool


def read_model(
    model: nn.Module,
    *,
    batch: int | None = None,
    sample: Any = None,
    pooling_factors: Mapping[str, float] | None = None,
    optimizer: str | None = None,
    sharders: Sequence[Any] | None = None,
    access: Mapping[str, Json] | None = None,
    constraints: Mapping[str, Any] | None = None,
    ignore: Collection[str] = (),
    device_type: str | None = None,
    preferred: Sequence[str] = (),
) -> Read:
    """Returns what ``tables_from_model`` returns, and more. If a sharder has sharding types
    of its own, tables get those of them that are ``preferred``, or all if none is."""
    found, problems = torchrec.collect(model, ignore, sharders)
    problems += torchrec.unsharded(sharders, found)
    tables = named(found)
    device_type = device_type or torchrec.get_device_type()
    sharder = torchrec.sharder_of(sharders, model, found, device_type)
    asked = requests.asked(sharder)
    problems += asked.problems
    for warning in asked.warnings:
        log.warning("%s", warning)
    limits = _translated(constraints or {}, found, tables, device_type)
    problems += limits.problems
    constraints, more = _restricted(limits.json, asked.types, preferred, tables)
    problems += more
    if batch is not None and (not isinstance(batch, int) or batch < 1):
        problems.append(Problem(f"batch {batch!r} is not a whole number of at least 1"))
    if optimizer is not None and optimizer not in OPTIMIZERS:
        problems.append(Problem(f'optimizer "{optimizer}" is unknown', _one_of(OPTIMIZERS)))
    given = limits.factors | dict(pooling_factors or {})
    problems += _unknown(given, access or {}, constraints, tables)
    problems += _not_json("access", access, '{"zipf": 1.1}')
    problems += _not_json("constraints", constraints, '{"min_width": 32}')
    factors, spreads, more = _factors(found, sample, given)
    problems += more

    weighted = {c.path: c.weighted for c in found}
    fallback = optimizer or (sharder.optimizer if sharder else None)
    assumed = 0
    out: list[Json] = []
    for t in tables:
        own = optimizer or t.table.optimizer or fallback
        assumed += own is None
        own = own or "sgd"
        problems += _table_problems(t, own, optimizer is not None)
        entry: Json = {"name": t.name}
        if t.path:
            entry["module"] = t.path
        entry |= {
            "rows": t.table.rows,
            "dim": t.table.dim,
            "features": _features(t, factors, spreads),
            "weighted": weighted[t.path],
            "precision": t.table.precision,
            "optimizer": own,
        }
        if t.table.mean:
            entry["pooling"] = "mean"
        everywhere = sharder is not None and sharder.prefetch
        if everywhere if t.table.prefetch is None else t.table.prefetch:
            entry["prefetch"] = True
        if access and t.name in access:
            entry["access"] = access[t.name]
        if constraints and t.name in constraints:
            entry["constraints"] = constraints[t.name]
        out.append(entry)
    if problems:
        raise InputError(problems)
    if assumed:
        log.warning(
            "%d tables state no optimizer: sgd is assumed, which keeps no state (pass optimizer=)",
            assumed,
        )
    if open_ := [f for t in tables for f in t.table.features if (t.path, f) not in factors]:
        log.warning(
            "%d features have no pooling factor: 1 is assumed (pass a sample or pooling_factors)",
            len(open_),
        )
    head: Json = {"format": "neuroshard-tables", "version": 1}
    if batch is not None:
        head["batch"] = batch
    host_memory = asked.host_memory and limits.host_memory
    return Read(head | {"tables": out}, asked.comm_precision, host_memory)


@dataclass
class _Limits:
    """The constraints of a model's tables in neuroshard's words, by the table's name, and
    the pooling factors of features that they state."""

    json: dict[str, Any]
    factors: dict[str, float]
    host_memory: bool
    problems: list[Problem]


def _translated(
    given: Mapping[str, Any],
    found: Sequence[torchrec.Collected],
    tables: Sequence[Named],
    device_type: str,
) -> _Limits:
    """Returns the constraints with TorchRec's ParameterConstraints in neuroshard's words."""
    limits = _Limits(dict(given), {}, True, [])
    weighted = {c.path: c.weighted for c in found}
    of = {t.name: t for t in tables}
    for name, stated in given.items():
        if not isinstance(stated, torchrec.ParameterConstraints) or name not in of:
            continue
        t = of[name]
        features = t.table.features
        one = requests.constraints(stated, features, weighted[t.path], device_type)
        limits.json[name] = one.json
        limits.host_memory &= one.host_memory
        limits.problems += [
            Problem(f"constraints of table {quote(name)}: {p.message}", p.hint)
            for p in one.problems
        ]
        if len(one.factors) == len(features):
            limits.factors |= dict(zip(features, one.factors, strict=True))
    return limits


def _restricted(
    given: Mapping[str, Any],
    types: Sequence[str] | None,
    preferred: Sequence[str],
    tables: Sequence[Named],
) -> tuple[dict[str, Any], list[Problem]]:
    """Returns the constraints with only the sharding types that a sharder allows."""
    if types is None:
        return dict(given), []
    problems = []
    usual = [t for t in types if t in preferred] or list(types)
    out = dict(given)
    for t in tables:
        own = out.get(t.name, {})
        if not isinstance(own, Mapping):
            continue  # reported as not JSON
        stated = own.get("sharding_types")
        if not isinstance(stated, list):
            out[t.name] = {**own, "sharding_types": usual}
        elif allowed := [k for k in stated if k in types]:
            out[t.name] = {**own, "sharding_types": allowed}
        else:
            message = f"constraints of table {quote(t.name)}: sharding_types {quoted(stated)}"
            hint = f"the sharder allows {', '.join(types)}"
            problems.append(Problem(message + " are not those of the sharder", hint))
    return out, problems


def write_tables(tables: Json, path: str | os.PathLike[str]) -> None:
    """Writes what ``tables_from_model`` returned. The file is whole or not there."""
    write_whole(path, encoded(tables))


def encoded(tables: Json) -> bytes:
    """Returns tables as the bytes of their file, one table a line."""
    head = {k: v for k, v in tables.items() if k != "tables"}
    lines = ",\n".join("    " + json.dumps(t, allow_nan=False) for t in tables["tables"])
    text = json.dumps(head, allow_nan=False, indent=2).rstrip("}").rstrip()
    return f'{text},\n  "tables": [\n{lines}\n  ]\n}}\n'.encode()


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file beside its place and renames it, so that there is never half."""
    target = Path(path)
    handle, beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(content)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(beside, 0o666 & ~umask)  # as any file that is opened for writing
        os.replace(beside, target)
    except BaseException:
        os.unlink(beside)
        raise


def _one_of(words: Sequence[str]) -> str:
    return "it is one of " + ", ".join(words)


def _not_json(name: str, given: Mapping[str, Json] | None, example: str) -> list[Problem]:
    """What of an option by table is not as tables.json has it."""
    problems = []
    for table, value in (given or {}).items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            problems.append(
                Problem(
                    f'{name} of table "{table}" is a {type(value).__name__}, not JSON',
                    f"state it as tables.json does: {example}",
                )
            )
    return problems


def _unknown(
    given: Mapping[str, float],
    access: Mapping[str, Json],
    constraints: Mapping[str, Json],
    tables: Sequence[Named],
) -> list[Problem]:
    features = sorted({f for t in tables for f in t.table.features})
    names = [t.name for t in tables]
    set_of = {"feature": set(features), "table": set(names)}
    problems = []
    for argument, keys, known, noun in (
        ("pooling_factors", given, features, "feature"),
        ("access", access, names, "table"),
        ("constraints", constraints, names, "table"),
    ):
        unknown = [k for k in dict.fromkeys(keys) if k not in set_of[noun]]
        for i, key in enumerate(unknown):
            near = nearest(key, known) if i < SHOWN else None
            hint = f'did you mean "{near}"?' if near else ""
            problems.append(Problem(f'{argument}: the model has no {noun} "{key}"', hint))
    for feature, factor in given.items():
        number = isinstance(factor, (int, float)) and not isinstance(factor, bool)
        if not number or not math.isfinite(factor) or not 0 <= factor <= 1 << 20:
            message = f'pooling_factors: feature "{feature}": {factor!r} is not from 0 to 1048576'
            problems.append(Problem(message))
    return problems


_ByFeature = dict[tuple[str, str], float]
"""Numbers by the path of a collection and a feature of it."""

_MAX_SPREAD = 1000.0
"""The largest coefficient of variation that tables.json may state."""


def _factors(
    found: Sequence[torchrec.Collected], sample: Any, given: Mapping[str, float]
) -> tuple[_ByFeature, _ByFeature, list[Problem]]:
    """Returns factors by collection and feature, those given first, and the spread of the
    lengths of bags of those features that the sample has."""
    factors: _ByFeature = {}
    spreads: _ByFeature = {}
    problems: list[Problem] = []
    samples = sample if isinstance(sample, Mapping) else {c.path: sample for c in found}
    paths = [c.path for c in found]
    for path in samples:
        if path not in paths:
            near = nearest(str(path), paths)
            hint = f'did you mean "{near}"?' if near else f"they are {quoted(paths)}"
            problems.append(Problem(f'sample: the model has no collection "{path}"', hint))
    for c in found:
        counts: dict[str, int] = {}
        size = 0
        kjt = samples.get(c.path)
        if kjt is not None:
            if not isinstance(kjt, torchrec.KeyedJaggedTensor):
                problems.append(Problem(f"sample: {type(kjt).__name__} is not a KeyedJaggedTensor"))
                continue
            if len(set(torchrec.batches(kjt).values())) > 1:
                problems.append(_own_batches(torchrec.batches(kjt)))
                continue
            counts, size = torchrec.lookups(kjt)
            if size < 1:
                problems.append(Problem("sample: the batch is empty"))
                continue
            spreads |= {(c.path, f): spread for f, spread in torchrec.spreads(kjt).items()}
        missing = []
        for feature in dict.fromkeys(f for t in c.tables for f in t.features):
            if feature in given:
                factors[c.path, feature] = float(given[feature])
            elif feature in counts:
                factors[c.path, feature] = counts[feature] / size
            else:
                missing.append(feature)
        if missing and sample is not None:
            where = f'collection "{c.path}": ' if c.path else ""
            problems.append(
                Problem(
                    f"{where}features missing in the sample: {quoted(missing)}",
                    "add them to the batch, or pass their pooling_factors",
                )
            )
    return factors, spreads, problems


def _own_batches(batches: Mapping[str, int]) -> Problem:
    shown = [f"{quote(f)} {n}" for f, n in batches.items()]
    text = ", ".join(shown[:5]) + (f" and {len(shown) - 5} more" if len(shown) > 5 else "")
    return Problem(
        f"sample: features have batches of their own ({text} samples), and neuroshard plans "
        "one batch for all features",
        "pass batch_per_rank= and pooling_factors={...} (lookups a sample of that batch) "
        "instead of the sample; features of smaller batches are then estimated too expensive",
    )


def _features(t: Named, factors: _ByFeature, spreads: _ByFeature) -> list[Json]:
    features = []
    for f in t.table.features:
        entry: Json = {"name": f, "pooling_factor": factors.get((t.path, f), 1.0)}
        if spread := spreads.get((t.path, f), 0.0):
            entry["length_cv"] = min(round(spread, 6), _MAX_SPREAD)
        features.append(entry)
    return features


def _table_problems(t: Named, optimizer: str, stated: bool) -> list[Problem]:
    problems = []
    if t.table.optimizers and not stated:
        problems.append(
            Problem(
                f'table "{t.name}": its parameter has several optimizers: '
                + ", ".join(t.table.optimizers),
                'apply one in backward, or pass the one that keeps the state: optimizer="adam"',
            )
        )
    if t.table.virtual:
        problems.append(
            Problem(
                f'table "{t.name}": use_virtual_table: its rows exist only once they are trained',
                "leave it out, or pass ignore= with the collection's path and add a plan for it",
            )
        )
    if t.table.dim % 4:
        problems.append(
            Problem(
                f'table "{t.name}": dim {t.table.dim} is not a multiple of 4',
                f"make it {t.table.dim + 3 & ~3}: FBGEMM's kernels need that, too",
            )
        )
    if t.table.precision not in PRECISIONS:
        problems.append(
            Problem(
                f'table "{t.name}": precision {t.table.precision} is not known to neuroshard',
                _one_of(PRECISIONS),
            )
        )
    if optimizer not in OPTIMIZERS:
        problems.append(
            Problem(
                f'table "{t.name}": optimizer {optimizer} is not known to neuroshard',
                'pass the one that keeps as much state, such as optimizer="adam"',
            )
        )
    return problems
