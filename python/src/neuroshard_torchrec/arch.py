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

    InputError names the tables of sharders other than
    EmbeddingBagCollectionSharder and EmbeddingCollectionSharder, whose modules ModelArch does
    not describe.
    """
    if is_dataclass(arch) and not isinstance(arch, type):
        arch = asdict(arch)
    try:
        tables, sharders = list(arch["tables"]), list(arch.get("sharders", ()))
        problems = []
        by_sharder: dict[str, list[Any]] = {}
        for table in tables:
            kind = table["sharder_type"]
            if kind in _KINDS:
                by_sharder.setdefault(kind, []).append(_config(kind, table))
                continue
            message = f"table {quote(table['name'])}: its sharder is {shown(kind)}, whose "
            hint = f"sharders that are read: {quoted(_KINDS)}; for others, tables_from_model"
            problems.append(Problem(message + "module is not in a ModelArch", hint))
        fused: dict[str, dict[str, Any]] = {}
        for sharder in sharders:
            name, optimizer = sharder["sharder_type"], sharder.get("optimizer")
            own = {} if optimizer is None else {"optimizer": EmbOptimType(optimizer)}
            if fused.setdefault(name, own) != own:
                message = f"{shown(name)} has several optimizers, and a ModelArch does not say "
                hint = "read the model by tables_from_model"
                problems.append(Problem(message + "which tables have which", hint))
    except (AttributeError, KeyError, TypeError, ValueError) as e:
        hint = "pass ctx.model_arch of TorchRec, or the JSON of dataclasses.asdict(ctx.model_arch)"
        message = f"this is no ModelArch of TorchRec: {type(e).__name__}: {e}"
        raise InputError([Problem(message, hint)]) from e
    if problems:
        raise InputError(problems)
    model = nn.ModuleDict()
    for kind, configs in by_sharder.items():
        # A name that says where the tables were, as a ModelArch has no paths.
        model[kind.removesuffix("Sharder")] = _KINDS[kind][1](tables=configs, device="meta")
    made = [_KINDS[kind][0](fused_params=fused.get(kind)) for kind in by_sharder]
    return tables_from_model(model, sharders=made, **options)


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
