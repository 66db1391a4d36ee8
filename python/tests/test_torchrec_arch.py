"""A model as TorchRec's planner API stores it, read as tables."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from test_torchrec_tables import collection, sample, table
from torch import nn
from torchrec import EmbeddingCollection, EmbeddingConfig, PoolingType
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.modules.embedding_configs import DataType

from neuroshard_torchrec import InputError, tables_from_model, tables_from_model_arch

ARCH: dict[str, Any] = {
    "tables": [
        {
            "name": "user",
            "num_embeddings": 1000,
            "embedding_dim": 64,
            "feature_names": ["id"],
            "pooling": "MEAN",
            "data_type": "FP16",
            "sharder_type": "EmbeddingBagCollectionSharder",
        },
        {
            "name": "words",
            "num_embeddings": 500,
            "embedding_dim": 32,
            "feature_names": ["title", "text"],
            "pooling": None,
            "data_type": None,
            "sharder_type": "EmbeddingCollectionSharder",
        },
    ],
    "sharder_types": ["EmbeddingBagCollectionSharder", "EmbeddingCollectionSharder"],
    "sharders": [
        {
            "sharder_type": "EmbeddingBagCollectionSharder",
            "optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD.value,
        }
    ],
}
"""As dataclasses.asdict of TorchRec's ModelArch."""


def test_tables_of_json() -> None:
    tables = tables_from_model_arch(
        json.loads(json.dumps(ARCH)), batch=64, pooling_factors={"id": 3, "title": 5, "text": 90}
    )
    user, words = tables["tables"]
    assert tables["batch"] == 64
    assert (user["name"], user["rows"], user["dim"]) == ("user", 1000, 64)
    assert (user["pooling"], user["precision"]) == ("mean", "fp16")
    assert (user["optimizer"], words["optimizer"]) == ("rowwise_adagrad", "sgd")
    assert user["features"] == [{"name": "id", "pooling_factor": 3.0}]
    assert (words["pooling"], words["precision"]) == ("none", "fp32")
    assert [f["name"] for f in words["features"]] == ["title", "text"]
    assert (user["module"], words["module"]) == ("EmbeddingBagCollection", "EmbeddingCollection")


def test_tables_are_those_of_the_model() -> None:
    """What TorchRec extracts of a model has the tables that the model has."""
    planner = pytest.importorskip("torchrec.distributed.planner.model_arch")
    model = nn.Module()
    model.bags = collection(
        table("a", pooling=PoolingType.MEAN, data_type=DataType.FP16), table("b", ["b", "c"])
    )
    config = EmbeddingConfig(name="s", num_embeddings=70, embedding_dim=16, feature_names=["s"])
    model.lists = EmbeddingCollection(tables=[config], device="meta")
    fused = {"optimizer": EmbOptimType.EXACT_ADAGRAD, "learning_rate": 0.1}
    sharders = [EmbeddingBagCollectionSharder(fused), EmbeddingCollectionSharder()]
    arch = planner.extract_model_arch(model, sharders)
    batch = sample({n: [2, 3] for n in ("a", "b", "c", "s")})
    want = tables_from_model(model, batch=8, sample=batch, sharders=sharders)
    for t in want["tables"]:
        t["module"] = {"bags": "EmbeddingBagCollection", "lists": "EmbeddingCollection"}[
            t["module"]
        ]
    assert tables_from_model_arch(arch, batch=8, sample=batch) == want
    assert tables_from_model_arch(asdict(arch), batch=8, sample=batch) == want


def test_what_is_no_model_arch() -> None:
    broken = ARCH | {
        "tables": [ARCH["tables"][0] | {"sharder_type": "PooledEmbeddingArchSharder"}],
        "sharders": [
            *ARCH["sharders"],
            {"sharder_type": "EmbeddingBagCollectionSharder", "optimizer": "none"},
        ],
    }
    with pytest.raises(InputError) as e:
        tables_from_model_arch(broken, batch=64)
    assert [p.message for p in e.value.problems] == [
        'table "user": its sharder is "PooledEmbeddingArchSharder", whose module is not in a '
        "ModelArch",
        '"EmbeddingBagCollectionSharder" has several optimizers, and a ModelArch does not say '
        "which tables have which",
    ]
    half = {"tables": [{"name": "half", "sharder_type": "EmbeddingBagCollectionSharder"}]}
    unknown = ARCH | {"sharders": [{"sharder_type": "s", "optimizer": "newton"}]}
    for other in ([], "arch", {"tables": {"a": 1}}, half, unknown):
        with pytest.raises(InputError, match="this is no ModelArch"):
            tables_from_model_arch(other)
