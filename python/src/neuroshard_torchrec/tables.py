"""A TorchRec model in, neuroshard's tables out: the format of docs/FORMATS.md.

model -> its modules with tables (_modules.py) -> tables with names of their own
sample batch, or numbers given       -> pooling factors
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from . import _modules as modules
from . import _torchrec as torchrec
from . import fixed as fixed_tables
from . import requests
from ._modules import Collected
from .constraints import KERNEL_FIELDS, Constraints, cached_in, settings, translated
from .errors import SHOWN, InputError, Problem, nearest, quote, quoted
from .fixed import FixedTable

log = logging.getLogger("neuroshard")

_OPTIMIZER = ("optimizer", "learning_rate")
"""The fused_params that say that a script has the optimizer of tables fused into the backward."""

Json = dict[str, Any]

Fields = dict[tuple[str, str], dict[str, Any]]
"""Fields of ParameterShardings, by the path of a table's module and the table's name there."""


@dataclass(frozen=True)
class Named:
    """A table of the model under the name that neuroshard's files know it by."""

    name: str
    path: str  # of the collection that holds it
    table: modules.Table


def named(found: Sequence[Collected]) -> list[Named]:
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
    fixed: Mapping[str, FixedTable] | None = None,
) -> Json:
    """Returns the tables of a model's modules as ``tables.json`` has them, ready for
    ``write_tables``. The model is only looked at; it may be on the meta device.

    The modules are those that TorchRec shards with these ``sharders``. ``batch`` is the *global*
    batch: samples of a training step over all ranks. ``sample`` is a KeyedJaggedTensor, or one
    for each collection by its path; a feature that neither it nor ``pooling_factors`` has is an
    error, and without a sample 1 lookup is assumed, with a warning in the log ``neuroshard``.

    The other options are those of NeuroShardPlanner (docs/TORCHREC.md). The file does not state
    the number format of the sharder's exchanges, and a warning says so. InputError reports
    everything that is wrong at once.
    """
    given = dict(locals())
    read = read_model(**given)
    if read.comm_precision != "fp32":
        log.warning(
            "the sharder's exchanges are in %s: pass --set comm_precision=%s to neuroshard plan",
            *(read.comm_precision, read.comm_precision),
        )
    if read.map_bytes:
        log.warning(
            "the maps from ids to rows of managed collisions take at least %d bytes beside the "
            "tables, an equal part on each rank: pass it to neuroshard plan by --set reserve_fixed",
            read.map_bytes,
        )
    return read.tables


@dataclass(frozen=True)
class Read:
    """A model as tables.json has it, the number format of its exchanges, that of the sharders'
    codecs alone, which is all that TorchRec's estimator looks at, the bytes that the maps
    from ids to rows take on each rank, the preferred sharding types of each table by name, and
    what its ParameterSharding states beside its place."""

    tables: Json
    comm_precision: str
    codecs: str
    map_bytes: int
    preferred: Mapping[str, Sequence[str]]
    fields: Fields


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
    ranks: int | None = None,
    fixed: Mapping[str, FixedTable] | None = None,
    group: int | None = None,
) -> Read:
    """Returns what ``tables_from_model`` returns, and more. If a sharder has sharding types
    of its own, tables get those of them that are ``preferred``, or all if none is. data_parallel
    is not preferred for a table whose optimizer is fused into the backward, because TorchRec
    fuses none into that of replicas. ``batch`` is that of all ``ranks``. ``group`` is the number
    of ranks of a sharding group, None without."""
    if wrong := fixed_tables.problems(fixed):
        raise InputError(wrong)
    found, problems = modules.collect(model, ignore, sharders)
    known = sorted({f for c in found for t in c.tables for f in t.features})
    device_type = device_type or torchrec.get_device_type()
    own = {c.path: modules.sharder_of(sharders, model, c, device_type) for c in found}
    found, at, more = fixed_tables.left_out(found, fixed)
    problems += [
        *more,
        *fixed_tables.stated_twice("constraints", constraints or {}, at),
        *fixed_tables.stated_twice("access", access or {}, at),
    ]
    names = fixed_tables.names(at)
    constraints = {k: v for k, v in (constraints or {}).items() if k not in names}
    fields = _placed_fields(constraints, found, named(found), own)
    access = {k: v for k, v in (access or {}).items() if k not in names}
    found = modules.running_on(device_type, found)
    tables = named(found)
    asked = {c.path: requests.asked(own[c.path], c.kind) for c in found}
    problems += dict.fromkeys(p for a in asked.values() for p in a.problems)
    codecs, warning = requests.widest(asked)
    if warning:
        log.warning("%s", warning)
    of_rank = batch // ranks if batch and ranks else None
    limits = _translated(constraints, found, tables, device_type, of_rank)
    problems += [*limits.problems, *limits.disagreements()]
    if found and not tables:
        message = f"the collections of the model have no tables: {quoted(c.path for c in found)}"
        problems.append(Problem(message, "there is nothing to plan"))
    usual = {t.name: _preferred(t, own[t.path], preferred) for t in tables}
    constraints, more = _restricted(limits, asked, usual, tables)
    problems += more
    constraints, more = _in_memory(constraints, asked, tables)
    problems += more
    given = limits.factors(sample is not None) | dict(pooling_factors or {})
    problems += _unknown(given, access, constraints, tables, known)
    features, more = _factors(found, sample, given)
    problems += more
    features.bags |= {(t.path, f): b for t in tables for f, b in limits.bags_of(t).items()}

    weighted = {c.path: c.weighted for c in found}
    assumed = 0
    outputs: set[str] = set()
    out: list[Json] = []
    for t in tables:
        sharder = own[t.path]
        fallback = sharder.optimizer if sharder else None
        stated = optimizer or t.table.optimizer or fallback
        assumed += stated is None
        stated = stated or "sgd"
        problems += _table_problems(t, optimizer is not None)
        problems += _cache_problems(t, sharder)
        entry: Json = {"name": t.name}
        if t.path:
            entry["module"] = t.path
        entry |= {
            "rows": t.table.rows,
            "dim": t.table.dim,
            "features": _features(t, features),
            "weighted": weighted[t.path],
            "precision": t.table.precision,
            "optimizer": stated,
        }
        if t.table.pooling != modules.SUM:
            entry["pooling"] = t.table.pooling
        limit = limits.of.get(t.name, Constraints())
        stating = (limit.prefetch, t.table.prefetch, sharder is not None and sharder.prefetch)
        if next(p for p in stating if p is not None):
            entry["prefetch"] = True
        if sharder is not None and sharder.index_dedup:
            entry["index_dedup"] = True
        fused = sharder.fused if sharder else {}
        if text := settings(sorted(limits.names()), limit.fused, fused, _apart(t, fused)):
            entry["kernel_settings"] = text
        # Only that of constraints: TorchRec does not count the output_dtype of fused_params.
        if "output_dtype" in limit.placed:
            entry["output_precision"] = torchrec.format_of(limit.placed["output_dtype"])
        outputs.add(torchrec.format_of(limit.fused.get("output_dtype", fused.get("output_dtype"))))
        if t.name in access:
            entry["access"] = access[t.name]
        if t.name in constraints:
            entry["constraints"] = constraints[t.name]
        out.append(entry)
    if problems:
        raise InputError(problems)
    if assumed:
        log.warning(
            "%d tables state no optimizer: sgd is assumed, which keeps no state (pass optimizer=)",
            assumed,
        )
    if open_ := [
        f for t in tables for f in t.table.features if (t.path, f) not in features.factors
    ]:
        log.warning(
            "%d features have no pooling factor: 1 is assumed (pass a sample or pooling_factors)",
            len(open_),
        )
    head: Json = {"format": "neuroshard-tables", "version": 1}
    if batch is not None:
        head["batch"] = batch
    if at:
        head["fixed"] = fixed_tables.loads(at, group or ranks)
    precision, warning = requests.exchanged(outputs, codecs)
    if warning:
        log.warning("%s", warning)
    map_bytes = _map_bytes(tables, features, batch or 0, ranks or 1)
    return Read(head | {"tables": out}, precision, codecs, map_bytes, usual, fields)


def _preferred(
    t: Named, sharder: modules.Sharder | None, preferred: Sequence[str]
) -> tuple[str, ...]:
    """Returns the preferred sharding types under which the script's optimizer trains a table."""
    fused = t.table.optimizer is not None
    fused = fused or (sharder is not None and not sharder.fused.keys().isdisjoint(_OPTIMIZER))
    return tuple(k for k in preferred if k != "data_parallel" or not fused)


def _map_bytes(tables: Sequence[Named], features: _Features, batch: int, ranks: int) -> int:
    """Returns the bytes of the maps from ids to rows on the rank with the most rows: TorchRec
    splits such tables evenly by rows. Ids count as if each rank got equally many."""
    return sum(
        t.table.id_map.size(
            -(-t.table.rows // ranks),
            sum(features.factors.get((t.path, f), 1.0) for f in t.table.features) * batch / ranks,
        )
        for t in tables
        if t.table.id_map is not None
    )


@dataclass
class _Limits:
    """The constraints of a model's tables in neuroshard's words: ``json`` of all tables, and
    ``of`` those that TorchRec's ParameterConstraints limit, by the table's name."""

    json: dict[str, Any]
    of: dict[str, Constraints] = field(default_factory=dict)
    tables: dict[str, Named] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def factors(self, sampled: bool) -> dict[str, float]:
        """Returns the lookups of a sample of each feature. Without a sample, a bag has one
        lookup if nothing is stated, as TorchRec's planner assumes."""
        found: dict[str, float] = {}
        for name, one in self.of.items():
            factors = one.factors or (() if sampled else one.assumed)
            found |= dict(zip(self.tables[name].table.features, factors, strict=False))
        return found

    def disagreements(self) -> list[Problem]:
        """Returns a problem for each feature that two tables state other lookups for: a
        feature has the same ones, whichever table reads it."""
        problems = []
        by: dict[str, tuple[str, float]] = {}
        for name, one in self.of.items():
            for feature, x in zip(self.tables[name].table.features, one.factors, strict=False):
                other, before = by.setdefault(feature, (name, x))
                if x != before:
                    message = (
                        f"constraints of table {quote(name)}: pooling_factors: feature "
                        f"{quote(feature)} has {x:g} lookups, and {before:g} for table "
                        f"{quote(other)}"
                    )
                    problems.append(Problem(message, "a feature's bags are those of all tables"))
        return problems

    def bags_of(self, t: Named) -> dict[str, float]:
        """Returns the bags of a sample of each feature of a table that states them."""
        one = self.of.get(t.name)
        return dict(zip(t.table.features, one.bags, strict=False)) if one else {}

    def names(self) -> set[str]:
        """Returns the fused parameters that some table states for itself."""
        return {name for one in self.of.values() for name in one.fused}


def _translated(
    given: Mapping[str, Any],
    found: Sequence[Collected],
    tables: Sequence[Named],
    device_type: str,
    batch: int | None,
) -> _Limits:
    """Returns the constraints with TorchRec's ParameterConstraints in neuroshard's words.
    ``batch`` is that of a rank."""
    limits = _Limits({})
    weighted = {c.path: c.weighted for c in found}
    for name, stated in given.items():
        named_so = tables_of(name, stated, tables)
        if not named_so or not isinstance(stated, torchrec.ParameterConstraints):
            limits.json[name] = stated
            continue
        for t in named_so:
            one = translated(stated, t.name, t.table, weighted[t.path], device_type, batch)
            limits.json[t.name], limits.of[t.name], limits.tables[t.name] = one.json, one, t
            limits.problems += [
                Problem(f"constraints of table {quote(t.name)}: {p.message}", p.hint)
                for p in one.problems
            ]
    return limits


def tables_of(name: str, stated: Any, tables: Sequence[Named]) -> list[Named]:
    """Returns the tables that a constraint is for: the one of that name or, of TorchRec's
    ParameterConstraints, all tables that their modules call so."""
    found = [t for t in tables if t.name == name]
    if not found and isinstance(stated, torchrec.ParameterConstraints):
        found = [t for t in tables if t.table.name == name]
    return found


def _placed_fields(
    constraints: Mapping[str, Any],
    found: Sequence[Collected],
    tables: Sequence[Named],
    own: Mapping[str, modules.Sharder | None],
) -> Fields:
    """Returns what TorchRec's ParameterConstraints and sharders state for ParameterShardings. A
    sharding type is stated as the names of those that are planned."""
    fields: Fields = {}
    for t in tables:
        sharder = own[t.path]
        if labels := requests.labels(sharder.types if sharder else None):
            fields[t.path, t.table.name] = {"sharding_type": labels}
    for name, stated in constraints.items():
        if not isinstance(stated, torchrec.ParameterConstraints):
            continue
        given = torchrec.constraint_fields(stated)
        placed = {n: given[n] for n in (*KERNEL_FIELDS, "cache_params") if n in given}
        if labels := requests.labels(given.get("sharding_types")):
            placed["sharding_type"] = labels
        for t in tables_of(name, stated, tables):
            fields[t.path, t.table.name] = fields.get((t.path, t.table.name), {}) | placed
    # Where all slices have one width, a whole table is none of them.
    whole = {c.path for c in found if modules.KINDS[c.kind].one_width}
    for (path, _), placed in fields.items():
        if path in whole:
            labels = placed.get("sharding_type", {})
            placed["sharding_type"] = {k: v for k, v in labels.items() if k != "table_wise"}
    return fields


def _restricted(
    limits: _Limits,
    asked: Mapping[str, requests.Asked],
    preferred: Mapping[str, Sequence[str]],
    tables: Sequence[Named],
) -> tuple[dict[str, Any], list[Problem]]:
    """Returns the constraints with only the sharding types that TorchRec runs for a table, that
    the sharder of its module allows, by the module's path, and that its compute kernels have."""
    problems = []
    out = dict(limits.json)
    for t in tables:
        own = out.get(t.name, {})
        run, _ = requests.sharding_types(t.table.types)
        allowed = asked[t.path].types
        kernels = limits.of[t.name].types if t.name in limits.of else None
        stated = own.get("sharding_types")
        if allowed is None and kernels is None and t.table.types == modules.ALL_TYPES:
            continue
        on_one_host = asked[t.path].one_host
        if own.get("one_host") is True and t.name in limits.of:
            on_one_host = True
        if on_one_host and requests.HOST_ONLY not in t.table.types:
            run = tuple(k for k in run if k != "column_wise")
        if asked[t.path].one_host:
            own = {**own, "one_host": True}
        both = [k for k in run if all(some is None or k in some for some in (allowed, kernels))]
        if not isinstance(stated, list):
            usual = [k for k in both if k in preferred[t.name]] or both
            if both:
                out[t.name] = {**own, "sharding_types": usual}
                continue
            message = f"table {quote(t.name)}: the sharder allows {quoted(allowed or ())}"
            problems.append(Problem(message, f"TorchRec runs {', '.join(run)}"))
        elif kept := [k for k in stated if k in both]:
            out[t.name] = {**own, "sharding_types": kept}
        else:
            message = f"constraints of table {quote(t.name)}: sharding_types {quoted(stated)}"
            what = "those of the sharder" if allowed is not None else "what TorchRec runs"
            hint = f"the sharder allows {', '.join(both)}" if allowed is not None else ""
            hint = hint or f"they may be {', '.join(both)}"
            problems.append(Problem(f"{message} are not {what}", hint))
    return out, problems


def _in_memory(
    given: Mapping[str, Any], asked: Mapping[str, requests.Asked], tables: Sequence[Named]
) -> tuple[dict[str, Any], list[Problem]]:
    """Returns the constraints with the memory tiers and the cache share of the sharders."""
    problems = []
    out = dict(given)
    for t in tables:
        own, sharder = out.get(t.name, {}), asked[t.path]
        if sharder.tiers is None and sharder.cache_share is None:
            continue
        added = {}
        tiers = own.get("tiers")
        if sharder.tiers is not None:
            tiers = [k for k in sharder.tiers if not isinstance(tiers, list) or k in tiers]
            added["tiers"] = tiers
        if not tiers and sharder.tiers is not None:
            message = f"constraints of table {quote(t.name)}: its memory tiers are not those of"
            hint = f"the sharder allows {', '.join(sharder.tiers)}"
            problems.append(Problem(message + " the sharder's compute_kernels", hint))
            continue
        if sharder.cache_share is not None and (tiers is None or "host_cached" in tiers):
            added["cache_share"] = own.get("cache_share", sharder.cache_share)
        if added:
            out[t.name] = {**own, **added}
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


def _unknown(
    given: Mapping[str, float],
    access: Mapping[str, Json],
    constraints: Mapping[str, Json],
    tables: Sequence[Named],
    features: Sequence[str],
) -> list[Problem]:
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
            near = nearest(str(key), known) if i < SHOWN else None
            hint = f'did you mean "{near}"?' if near else ""
            problems.append(Problem(f'{argument}: the model has no {noun} "{key}"', hint))
    return problems


_ByFeature = dict[tuple[str, str], float]
"""Numbers by the path of a collection and a feature of it."""

_MAX_SPREAD = 1000.0
"""The largest coefficient of variation that tables.json may state."""


@dataclass
class _Features:
    """What a sample reads of the features of a model: the lookups of a sample, the spread of
    the lengths of bags, and the bags of a sample, where they are known."""

    factors: _ByFeature = field(default_factory=dict)
    spreads: _ByFeature = field(default_factory=dict)
    bags: _ByFeature = field(default_factory=dict)


def _factors(
    found: Sequence[Collected], sample: Any, given: Mapping[str, float]
) -> tuple[_Features, list[Problem]]:
    """Returns the features by collection and name: factors that are given first, and what the
    sample says. A feature with a batch of its own has fewer bags, or more."""
    read = _Features()
    problems: list[Problem] = []
    samples = sample if isinstance(sample, Mapping) else {c.path: sample for c in found}
    paths = [c.path for c in found]
    for path in samples:
        if path not in paths:
            near = nearest(str(path), paths)
            hint = f'did you mean "{near}"?' if near else f"they are {quoted(paths)}"
            problems.append(Problem(f'sample: the model has no collection "{path}"', hint))
    for c in found:
        sampled: dict[str, torchrec.Feature] = {}
        size = 0
        kjt = samples.get(c.path)
        if kjt is not None:
            if not isinstance(kjt, torchrec.KeyedJaggedTensor):
                problems.append(Problem(f"sample: {type(kjt).__name__} is not a KeyedJaggedTensor"))
                continue
            sampled, size = torchrec.features(kjt)
            if size < 1:
                problems.append(Problem("sample: the batch is empty"))
                continue
            read.spreads |= {(c.path, f): own.spread for f, own in sampled.items()}
            bags = {f: own.bags for f, own in sampled.items() if 0 < own.bags != size}
            read.bags |= {(c.path, f): n / size for f, n in bags.items()}
        missing = []
        for feature in dict.fromkeys(f for t in c.tables for f in t.features):
            if feature in given:
                read.factors[c.path, feature] = float(given[feature])
            elif feature in sampled:
                read.factors[c.path, feature] = sampled[feature].lookups / size
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
    return read, problems


def _features(t: Named, read: _Features) -> list[Json]:
    features = []
    pooled = t.table.pooling in (modules.SUM, modules.MEAN)
    for f in t.table.features:
        at = (t.path, f)
        entry: Json = {"name": f, "pooling_factor": read.factors.get(at, 1.0)}
        if spread := read.spreads.get(at, 0.0):
            entry["length_cv"] = min(round(spread, 6), _MAX_SPREAD)
        if pooled and (bags := read.bags.get(at, 1.0)) != 1:
            entry["bags"] = bags
        features.append(entry)
    return features


def _apart(t: Named, fused: Mapping[str, Any]) -> list[str]:
    """Returns what gives a table operators without other tables, in addition to the settings of its
    kernels."""
    found = ["enable_embedding_update=True"] if t.table.updated else []
    if fused.get("use_one_tbe_per_table"):
        found.append(f"use_one_tbe_per_table={t.name}")
    return found


def _cache_problems(t: Named, sharder: modules.Sharder | None) -> list[Problem]:
    stated = sharder.fused.get("cache_precision") if sharder else None
    precision = torchrec.format_of(stated)
    if stated is None or cached_in(precision, t.table.precision):
        return []
    message = f'table "{t.name}": it is in {t.table.precision}, and its sharder caches {precision}'
    hint = "caches are counted in the table's format: leave cache_precision out of fused_params"
    return [Problem(message, hint)]


def _table_problems(t: Named, stated: bool) -> list[Problem]:
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
                fixed_tables.hint(t.name),
            )
        )
    if t.table.stashed:
        message = f'table "{t.name}": stash_weights: its weights leave the device in each step'
        hint = "a plan counts weights on the device at all times: leave it out, or "
        problems.append(Problem(message, hint + fixed_tables.hint(t.name)))
    return problems
