"""A model as TorchRec's planner API stores it, ModelArch of torchrec/distributed/planner, read
as tables.

    ModelArch, or its JSON    tables with their sharders' names, and the sharders' optimizers
        |  a collection for each sharder, on the meta device
        v
    tables_from_model

ModelArch has less than the model: not which collection a table is in, and not whether its
lookups have weights. Tables of one sharder are read as one collection without weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from torch import nn

from ._torchrec import EmbOptimType
from .errors import InputError, Problem, quote, quoted, shown
from .tables import Json, tables_from_model

# After the tables, whose imports check the versions.
from torchrec.distributed.embedding import EmbeddingCollectionSharder  # isort: skip
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder  # isort: skip
from torchrec.modules.embedding_configs import (  # isort: skip
    DataType,
    EmbeddingBagConfig,
    EmbeddingConfig,
    PoolingType,
)
from torchrec.modules.embedding_modules import (  # isort: skip
    EmbeddingBagCollection,
    EmbeddingCollection,
)

_KINDS: dict[str, tuple[Any, Any, Any]] = {
    s.__name__: (s, collection, config)
    for s, collection, config in (
        (EmbeddingBagCollectionSharder, EmbeddingBagCollection, EmbeddingBagConfig),
        (EmbeddingCollectionSharder, EmbeddingCollection, EmbeddingConfig),
    )
}
"""The sharders whose tables are read, by name, with their collections and configs."""


def tables_from_model_arch(arch: Any, **options: Any) -> Json:
    """Returns the tables of a ModelArch of TorchRec, or of its JSON, as ``tables.json`` has
    them: ``dataclasses.asdict(arch)`` is that JSON. ``options`` are those of
    ``tables_from_model`` but ``sharders``, which ModelArch has itself.

    InputError reports everything that is wrong at once: also tables of sharders other than
    EmbeddingBagCollectionSharder and EmbeddingCollectionSharder, whose modules ModelArch does
    not describe.
    """
    if is_dataclass(arch) and not isinstance(arch, type):
        arch = asdict(arch)
    problems: list[Problem] = []
    by_sharder: dict[str, list[Any]] = {}
    for i, table in enumerate(_entries(arch, "tables", problems)):
        try:
            kind = str(table["sharder_type"])
            if kind not in _KINDS:
                message = f"table {quote(str(table['name']))}: its sharder is {shown(kind)}, whose "
                hint = f"sharders that are read: {quoted(_KINDS)}; for others, tables_from_model"
                problems.append(Problem(message + "module is not in a ModelArch", hint))
                continue
            by_sharder.setdefault(kind, []).append(_config(kind, table))
        except (KeyError, TypeError, ValueError) as e:
            problems.append(Problem(f"tables[{i}] is no TableArch of TorchRec: {_what(e)}"))
    fused = _fused_params(_entries(arch, "sharders", problems), problems)
    if problems:
        raise InputError(problems)
    model = nn.ModuleDict()
    for kind, configs in by_sharder.items():
        # A name that says where the tables were, as a ModelArch has no paths.
        model[kind.removesuffix("Sharder")] = _KINDS[kind][1](tables=configs, device="meta")
    sharders = [_KINDS[kind][0](fused_params=fused.get(kind)) for kind in by_sharder]
    return tables_from_model(model, sharders=sharders, **options)


def _entries(arch: Any, key: str, problems: list[Problem]) -> list[Any]:
    """Returns a list of a ModelArch; what older files do not have is empty."""
    entries = arch.get(key, ()) if isinstance(arch, Mapping) else None
    if not isinstance(entries, (list, tuple)):
        hint = "pass ctx.model_arch of TorchRec, or the JSON of dataclasses.asdict(ctx.model_arch)"
        problems.append(Problem(f"{key} is no list: this is no ModelArch of TorchRec", hint))
        return []
    return list(entries)


def _config(kind: str, table: Any) -> Any:
    """Returns the config of a table."""
    stated: dict[str, Any] = {
        "name": table["name"],
        "num_embeddings": table["num_embeddings"],
        "embedding_dim": table["embedding_dim"],
        "feature_names": list(table["feature_names"]),
        "data_type": DataType(table.get("data_type") or DataType.FP32),
    }
    if kind == EmbeddingBagCollectionSharder.__name__:
        stated["pooling"] = PoolingType(table.get("pooling") or PoolingType.SUM)
    return _KINDS[kind][2](**stated)


def _fused_params(sharders: list[Any], problems: list[Problem]) -> dict[str, dict[str, Any]]:
    """Returns the fused_params of each sharder by its name: its optimizer."""
    found: dict[str, dict[str, Any]] = {}
    for i, sharder in enumerate(sharders):
        try:
            name, optimizer = str(sharder["sharder_type"]), sharder.get("optimizer")
            fused = {} if optimizer is None else {"optimizer": EmbOptimType(optimizer)}
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            problems.append(Problem(f"sharders[{i}] is no SharderArch of TorchRec: {_what(e)}"))
            continue
        if found.setdefault(name, fused) != fused:
            message = f"{shown(name)} has several optimizers, and a ModelArch does not say which "
            problems.append(
                Problem(message + "tables have which", "read the model by tables_from_model")
            )
    return found


def _what(e: Exception) -> str:
    return f"{e.args[0]!r} is missing" if isinstance(e, KeyError) else shown(str(e))
