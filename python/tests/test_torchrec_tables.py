"""Tables out of models: names, features, pooling factors, optimizers, and what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import neuroshard
from torch import nn
from torchrec import (
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    KeyedJaggedTensor,
)
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.optim import RowWiseAdagrad, apply_optimizer_in_backward

from neuroshard_torchrec import InputError, tables_from_model, write_tables

META = torch.device("meta")


def table(name: str, features: list[str] | None = None, **changes: Any) -> EmbeddingBagConfig:
    fields = {"num_embeddings": 1000, "embedding_dim": 64} | changes
    return EmbeddingBagConfig(name=name, feature_names=features or [name], **fields)


def collection(*tables: EmbeddingBagConfig, weighted: bool = False) -> EmbeddingBagCollection:
    return EmbeddingBagCollection(tables=list(tables), device=META, is_weighted=weighted)


def sample(lengths: dict[str, list[int]]) -> KeyedJaggedTensor:
    flat = [n for own in lengths.values() for n in own]
    return KeyedJaggedTensor(
        keys=list(lengths),
        values=torch.zeros(sum(flat), dtype=torch.long),
        lengths=torch.tensor(flat),
    )


class Two(nn.Module):
    """Two collections that share a table's name."""

    def __init__(self) -> None:
        super().__init__()
        self.user = collection(table("id"), table("age", ["age", "other_age"], embedding_dim=8))
        self.item = collection(table("id", ["item"]), table("word"), weighted=True)


def told(*args: Any, **options: Any) -> list[str]:
    with pytest.raises(InputError) as e:
        tables_from_model(*args, **options)
    for problem in e.value.problems:
        assert problem.message in str(e.value) and problem.hint in str(e.value)
    return [str(p) for p in e.value.problems]


def test_tables() -> None:
    batch = sample(
        {
            "id": [1, 1, 1, 1],
            "age": [0, 0, 0, 1],
            "other_age": [2, 4, 6, 8],
            "item": [3, 3, 3, 3],
            "word": [0, 0, 0, 0],
            "not ours": [1, 2, 3, 4],
        }
    )
    tables = tables_from_model(Two(), batch=4096, sample=batch, optimizer="adam")
    assert {k: v for k, v in tables.items() if k != "tables"} == {
        "format": "neuroshard-tables",
        "version": 1,
        "batch": 4096,
    }
    assert [t["name"] for t in tables["tables"]] == ["user/id", "age", "item/id", "word"]
    assert tables["tables"][1] == {
        "name": "age",
        "module": "user",
        "rows": 1000,
        "dim": 8,
        "features": [
            {"name": "age", "pooling_factor": 0.25, "length_cv": 1.732051},  # sqrt(3)
            {"name": "other_age", "pooling_factor": 5.0, "length_cv": 0.447214},  # sqrt(5) / 5
        ],
        "weighted": False,
        "precision": "fp32",
        "optimizer": "adam",
    }
    assert [t["weighted"] for t in tables["tables"]] == [False, False, True, True]
    assert tables["tables"][2]["features"] == [{"name": "item", "pooling_factor": 3.0}]


def test_prefetched_tables_say_so() -> None:
    model = collection(table("a"), table("b"))
    sharders = [EmbeddingBagCollectionSharder(fused_params={"prefetch_pipeline": True})]

    def prefetched(sharders: Any) -> list[bool]:
        tables = tables_from_model(model, sharders=sharders)["tables"]
        return [t.get("prefetch", False) for t in tables]

    assert prefetched(None) == [False, False]
    assert prefetched(sharders) == [True, True]
    weight = model.embedding_bags["b"].weight
    apply_optimizer_in_backward(RowWiseAdagrad, [weight], {"prefetch_pipeline": False})
    assert prefetched(sharders) == [True, False]  # the parameter's own comes first
    weight._optimizer_kwargs[0]["prefetch_pipeline"] = True
    assert prefetched(None) == [False, True]


def test_the_spread_of_lengths_is_that_of_the_sample() -> None:
    model = collection(table("a", ["longest", "empty"]), table("b", ["given"]))
    # All lookups of one sample, which no table may state beyond its limit.
    batch = sample({"longest": [1] + [0] * 1_000_001, "empty": [0] * 1_000_002})
    factors = {"given": 2.0, "empty": 3.0}
    tables = tables_from_model(model, sample=batch, pooling_factors=factors)["tables"]
    assert [f.get("length_cv", 0) for t in tables for f in t["features"]] == [1000, 0, 0]


def test_factors_that_are_given_come_first() -> None:
    model = collection(table("a"), table("b"))
    tables = tables_from_model(model, sample=sample({"a": [2, 2]}), pooling_factors={"b": 7})
    assert [t["features"][0]["pooling_factor"] for t in tables["tables"]] == [2.0, 7.0]
    # The model itself is the collection: it has no path.
    assert all("module" not in t for t in tables["tables"])


def test_a_sample_for_each_collection() -> None:
    one = sample({"id": [1], "age": [1], "other_age": [1]})
    tables = tables_from_model(
        Two(), sample={"user": one, "item": sample({"item": [9], "word": [8]})}
    )
    factors = [f["pooling_factor"] for t in tables["tables"] for f in t["features"]]
    assert factors == [1, 1, 1, 9, 8]


def test_without_a_sample_one_is_assumed(caplog: pytest.LogCaptureFixture) -> None:
    tables = tables_from_model(collection(table("a")))
    assert tables["tables"][0]["features"] == [{"name": "a", "pooling_factor": 1.0}]
    assert tables["tables"][0]["optimizer"] == "sgd"
    assert "1 features have no pooling factor" in caplog.text
    assert "1 tables state no optimizer" in caplog.text


def test_optimizers_are_found() -> None:
    from fbgemm_gpu.split_embedding_configs import EmbOptimType

    model = collection(table("a"))
    sharder = EmbeddingBagCollectionSharder(fused_params={"optimizer": EmbOptimType.EXACT_ADAGRAD})
    assert tables_from_model(model, sharders=[sharder])["tables"][0]["optimizer"] == "adagrad"
    apply_optimizer_in_backward(RowWiseAdagrad, model.parameters(), {"lr": 0.1})
    found = tables_from_model(model, sharders=[sharder])["tables"][0]["optimizer"]
    assert found == "rowwise_adagrad"  # the parameter's own comes first
    assert tables_from_model(model, optimizer="adam")["tables"][0]["optimizer"] == "adam"
    other = EmbeddingBagCollectionSharder(fused_params={"optimizer": EmbOptimType.LAMB})
    found = tables_from_model(collection(table("b")), sharders=[other])["tables"][0]["optimizer"]
    assert found == "LAMB"  # which the program refuses


def test_names_that_could_be_taken_for_others() -> None:
    model = nn.Module()
    model.a = collection(table("a/t"), table("u"))  # its own name begins like a long one
    model.b = collection(table("a/u"))  # what a/u would be called, if it were long
    names = [t["name"] for t in tables_from_model(model)["tables"]]
    assert names == ["a/a/t", "u", "a/u"]
    model.c = collection(table("u"))
    names = [t["name"] for t in tables_from_model(model)["tables"]]
    assert names == ["a/a/t", "a/u", "b/a/u", "c/u"]


def test_no_collection() -> None:
    assert "has no EmbeddingBagCollection" in told(nn.Linear(2, 2))[0]


def test_features_missing_in_the_sample_and_more_at_once() -> None:
    messages = told(
        Two(),
        sample=sample({"id": [1, 1], "age": [1, 1]}),
        pooling_factors={"wrod": 1},
        access={"age": {"zipf": 1.1}, "agee": {"zipf": 1.1}},
        constraints={"nobody": {"no_split": True}},
        ignore=["dense"],
    )
    text = "\n".join(messages)
    for part in (
        'the model has no module "dense"',
        'collection "user": features missing in the sample: "other_age"',
        'collection "item": features missing in the sample: "item", "word"',
        "add them to the batch, or pass their pooling_factors",
        'the model has no feature "wrod"',
        'did you mean "word"?',
        'the model has no table "agee"',
        'did you mean "age"?',
        'the model has no table "nobody"',
    ):
        assert part in text, part


def test_more_that_is_wrong() -> None:
    model = collection(table("a"))
    assert "dict" in told(model, sample={"": {}})[0]
    assert "the batch is empty" in told(model, sample=sample({"a": []}))[0]
    assert 'no collection "x"' in told(model, sample={"x": sample({"a": [1]})})[0]
    assert (
        "sharders is for EmbeddingBagCollection"
        in told(model, sharders=[EmbeddingCollectionSharder()])[0]
    )


def test_other_embeddings_are_not_passed_over() -> None:
    class Quantized(nn.Module):
        """As a module of torchrec.quant."""

    class QuantizedSharder(EmbeddingBagCollectionSharder):
        @property
        def module_type(self) -> Any:
            return Quantized

    model = nn.Module()
    model.bags = collection(table("a"))
    model.other = Quantized()
    sharders = [EmbeddingBagCollectionSharder(), QuantizedSharder()]
    messages = told(model, sharders=sharders)
    assert 'module "other" is of Quantized, which neuroshard cannot plan' in messages[0]
    assert 'ignore=["other"]' in messages[0]
    tables = tables_from_model(model, sharders=sharders, ignore=["other"])
    assert len(tables["tables"]) == 1


def test_the_binary_reads_what_is_written(tmp_path: Path, binary: str) -> None:
    path = tmp_path / "tables.json"
    tables = tables_from_model(
        Two(),
        batch=4096,
        pooling_factors={"id": 3, "age": 1, "other_age": 2.5, "item": 1, "word": 40},
        optimizer="rowwise_adagrad",
        access={"user/id": {"zipf": 1.2}},
        constraints={"word": {"no_split": True}},
    )
    write_tables(tables, path)
    assert json.loads(path.read_text()) == tables
    assert [p.name for p in tmp_path.iterdir()] == ["tables.json"]
    out = ["--gpus", "2", "--gpu", "a100-80", "-o", "plan.json"]
    neuroshard(binary, "plan", "tables.json", *out, cwd=tmp_path)
    neuroshard(
        binary,
        "check",
        "plan.json",
        "tables.json",
        "--gpu",
        "a100-80",
        "--gpus",
        "2",
        cwd=tmp_path,
    )
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert [(t["name"], t["module"]) for t in plan["tables"]] == [
        ("user/id", "user"),
        ("age", "user"),
        ("item/id", "item"),
        ("word", "item"),
    ]


def test_writing_is_whole_or_not(tmp_path: Path) -> None:
    path = tmp_path / "tables.json"
    path.write_text("before")
    tables = tables_from_model(collection(table("a")))
    with pytest.raises(ValueError):
        write_tables(tables | {"batch": float("nan")}, path)
    assert path.read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1
