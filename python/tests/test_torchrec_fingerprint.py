"""Hashes of the options that a plan depends on, beside TorchRec's hashes of its own inputs."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from test_torchrec_door import MODEL, SHARDERS, Loader, topology
from test_torchrec_tables import sample
from torchrec.distributed.planner import EmbeddingShardingPlanner
from torchrec.distributed.planner.types import PlannerError, PlannerErrorType
from torchrec.distributed.types import ParameterSharding

from neuroshard_torchrec import FixedTable, InputError, NeuroShardPlanner, fingerprint

ELSEWHERE = {
    # In TorchRec's hash: sharding_group_size by its topology.
    *("topology", "batch_size", "batch_per_rank", "enumerator", "storage_reservation"),
    *("heuristical_storage_reservation_percentage", "world_size", "devices_per_host"),
    *("device_type", "sharding_group_size"),
    # TorchRec's hash has none of these either.
    *("proposer", "partitioner", "performance_model", "stats", "debug", "callbacks"),
    *("timeout_seconds", "plan_loader"),
    # The plan does not depend on them.
    *("binary", "url", "token", "token_file", "name", "timeout", "keep", "torchrec_baseline"),
}


def test_every_option_is_hashed_or_said_to_be_elsewhere() -> None:
    parameters = signature(NeuroShardPlanner.__init__).parameters
    options = {n for n, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    assert options - {"self"} == set(fingerprint.DEFAULTS) | ELSEWHERE
    for name, usual in fingerprint.DEFAULTS.items():
        assert parameters[name].default == usual, name


def test_defaults_have_no_hash_and_equal_values_one() -> None:
    assert fingerprint.of({}) == fingerprint.of({"arguments": [], "ignore": set()}) == ""
    assert fingerprint.of({"ignore": {"b", "a"}}) == fingerprint.of({"ignore": ["a", "b"]}) != ""
    one = fingerprint.of({"access": {"a": {"zipf": 1.1}, "b": {}}})
    assert one == fingerprint.of({"access": {"b": {}, "a": {"zipf": 1.1}}})


def test_samples_count_by_what_they_hold() -> None:
    hashes = {
        fingerprint.of({"sample": kjt})
        for kjt in (
            sample({"f": [1, 2], "g": [0, 3]}),
            sample({"f": [2, 1], "g": [0, 3]}),
            sample({"g": [1, 2], "f": [0, 3]}),
            {"path": sample({"f": [1, 2], "g": [0, 3]})},
        )
    }
    assert len(hashes) == 4
    again = fingerprint.of({"sample": sample({"f": [1, 2], "g": [0, 3]})})
    assert again in hashes


@pytest.mark.parametrize(
    "options",
    [
        lambda path: {"arguments": ["--model", str(path)]},
        lambda path: {"arguments": [f"--model={path}"]},
        lambda path: {"arguments": ["--model", str(path.parent)]},
        lambda path: {"from_plan": path},
        lambda path: {"profile": str(path)},
        lambda path: {"profile": {"H100": str(path)}},
    ],
)
def test_the_content_of_files_counts(options: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    absent = fingerprint.of(options(path))
    path.write_text("one")
    one = fingerprint.of(options(path))
    path.write_text("two")
    assert len({absent, one, fingerprint.of(options(path))}) == 3


def test_texts_that_name_no_file() -> None:
    assert fingerprint.of({"arguments": ["--seed", "7", "x" * 5000, "\0", "--explain"]})


def test_what_has_no_fingerprint() -> None:
    with pytest.raises(InputError) as e:
        fingerprint.of({"sample": object(), "access": {"a": len}})
    assert [p.message for p in e.value.problems] == [
        "sample: a value of type object has no fingerprint",
        "access: a value of type builtin_function_or_method has no fingerprint",
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"arguments": ["--memory", "40GiB"]},
        {"pooling_factors": {"t0": 3.0}},
        {"constraints": {"t0": {"no_split": True}}},
    ],
)
def test_a_loaded_plan_was_made_by_the_same_options(binary: str, options: Any) -> None:
    """A plan is loaded by the planner that stored it, and not where options differ."""

    def planner(loader: Any = None, **stated: Any) -> NeuroShardPlanner:
        return NeuroShardPlanner(topology(), 64, plan_loader=loader, binary=binary, **stated)

    stored = planner(**options)
    plan = stored.plan(MODEL, SHARDERS)
    loader = Loader(stored.hash_planner_context_inputs_str(), stored.get_selected_options())
    again = planner(loader, **options)
    assert again.plan(MODEL, SHARDERS) == plan
    assert again.hash_planner_context_inputs() == stored.hash_planner_context_inputs()
    with pytest.raises(PlannerError) as e:
        planner(loader).plan(MODEL, SHARDERS)
    assert e.value.error_type is PlannerErrorType.PLANNER_INPUT_CONTEXT_MISMATCH


def test_the_executor_reads_options_and_search_space(binary: str) -> None:
    planner = NeuroShardPlanner(topology(), 64, binary=binary)
    assert (planner.get_selected_options(), planner.get_search_space()) == ([], None)
    plan = planner.plan(MODEL, SHARDERS)
    assert {o.name for o in planner.get_selected_options()} == set(plan.plan[""])
    theirs = EmbeddingShardingPlanner(topology=topology(), batch_size=64)
    theirs.plan(MODEL, SHARDERS)
    found = planner.get_search_space()
    assert found is not None
    assert len(found) == len(theirs._enumerator.last_stored_search_space)


def test_fixed_tables_are_hashed_and_stand_beside_a_loaded_plan(binary: str) -> None:
    def planner(fixed: Any, loader: Any = None) -> NeuroShardPlanner:
        return NeuroShardPlanner(topology(), 64, fixed=fixed, plan_loader=loader, binary=binary)

    hashes = set()
    for size in (None, "1GiB", "2GiB"):
        fixed = size and {"t3": FixedTable(bytes=size, sharding=ParameterSharding("row_wise", "k"))}
        stored = planner(fixed)
        plan = stored.plan(MODEL, SHARDERS)
        hashes.add(stored.hash_planner_context_inputs_str())
    loader = Loader(stored.hash_planner_context_inputs_str(), stored.get_selected_options())
    assert planner(fixed, loader).plan(MODEL, SHARDERS) == plan
    assert plan.plan[""]["t3"].compute_kernel == "k"
    assert len(hashes) == 3
