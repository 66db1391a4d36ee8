"""The planner by itself: the program found, run and failing; TorchRec of other versions.

test_torchrec_training.py has it on four ranks.
"""

from __future__ import annotations

import importlib
import json
import re
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
import torchrec
import torchrec_ranks as ranks
from conftest import neuroshard, python
from test_torchrec_tables import collection, sample, table
from torch import nn
from torchrec import (
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    EmbeddingCollection,
    EmbeddingConfig,
    KeyedJaggedTensor,
)
from torchrec.distributed.planner.types import ParameterConstraints

from neuroshard_torchrec import (
    BinaryError,
    NeuroShardError,
    NeuroShardPlanner,
    Problem,
    load_plan,
    versions,
)
from neuroshard_torchrec import binary as program
from neuroshard_torchrec._torchrec import ShardingEnv

HUGE = {"embedding_dim": 128, "num_embeddings": 1 << 26}
MODEL = collection(table("a"), table("b", **HUGE), table("c", **HUGE))
FACTORS = {"a": 3, "b": 50, "c": 20}


def planner(**options: Any) -> NeuroShardPlanner:
    fields: dict[str, Any] = {
        "profile": "a100-80",
        "batch_per_rank": 2048,
        "world_size": 4,
        "devices_per_host": 2,
        "device_type": "cuda",
        "pooling_factors": FACTORS,
    }
    return NeuroShardPlanner(**(fields | options))


def script(folder: Path, body: str) -> str:
    path = folder / "neuroshard"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_plan(binary: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    p = planner(binary=binary, keep=tmp_path / "kept", optimizer="rowwise_adagrad")
    plan = p.plan(MODEL)
    tables = plan.plan[""]
    assert set(tables) == {"a", "b", "c"}
    assert max(r for t in tables.values() for r in t.ranks) < 4
    assert "found by" in p.report
    # The report names no file of the folder that is gone.
    assert p.report.split()[1] in ("table", "tables") and tempfile.gettempdir() not in p.report
    assert "SIMULATED" in caplog.text
    # TorchRec counts the batch of a rank, neuroshard that of all.
    kept = tmp_path / "kept"
    assert json.loads((kept / "tables.json").read_text())["batch"] == 4 * 2048
    cluster = json.loads((kept / "plan.json").read_text())["cluster"]
    assert (cluster["devices"], cluster["devices_per_host"], cluster["batch"]) == (4, 2, 8192)
    # What was kept is the same plan, and so is what the program exports of it.
    env = ShardingEnv.from_local(4, 0)
    where = {"local_size": 2, "device_type": "cuda"}
    assert load_plan(kept / "plan.json", MODEL, env, **where) == plan
    to = ["--to", "torchrec", "--set", "module=", "-o", "exported.json"]
    neuroshard(binary, "convert", "plan.json", *to, cwd=kept)
    assert load_plan(kept / "exported.json", MODEL, env, **where) == plan


def test_the_batch_of_the_sample(binary: str, tmp_path: Path) -> None:
    one = sample({"a": [1] * 16, "b": [2] * 16, "c": [3] * 16})
    options = {"sample": one, "batch_per_rank": None, "pooling_factors": None}
    planner(binary=binary, keep=tmp_path, **options).plan(MODEL)
    tables = json.loads((tmp_path / "tables.json").read_text())
    assert tables["batch"] == 64
    assert tables["tables"][2]["features"] == [{"name": "c", "pooling_factor": 3.0}]


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ([], "--engine torchrec -o X --types table_wise,column_wise"),
        (["--seed", "1"], "--engine torchrec -o X --types table_wise,column_wise --seed 1"),
        (["--types", "all"], "--engine torchrec -o X --types all"),
        (
            ["--seed", "1", "--types=grid"],
            "--engine torchrec -o X --seed 1 --types=grid",
        ),
        (["--engine=hugectr"], "-o X --types table_wise,column_wise --engine=hugectr"),
    ],
)
def test_the_types_and_the_engine_that_are_asked_for(
    tmp_path: Path, arguments: list[str], want: str
) -> None:
    skip = 'while [ "$1" != --gpu ]; do shift; done; shift 2'
    body = f"{skip}; echo \"<$*>\" | sed 's/-o [^ ]*/-o X/' >&2; exit 2"
    with pytest.raises(BinaryError, match=re.escape(f"<{want}>")):
        planner(binary=script(tmp_path, body), arguments=arguments).plan(MODEL)


def test_plan_from_an_old_plan(binary: str, tmp_path: Path) -> None:
    old = tmp_path / "old"
    first = planner(binary=binary, keep=old).plan(MODEL)
    plans: Any = (({}, "found by"), ({"max_bytes": "5%"}, "keep the old plan"))
    for options, word in plans:
        p = planner(binary=binary, from_plan=old / "plan.json", **options)
        assert p.plan(MODEL) == first
        assert word in p.report
        p = planner(
            binary=binary, from_plan=old / "plan.json", batch_per_rank=512, keep=tmp_path, **options
        )
        p.plan(MODEL)
        assert json.loads((tmp_path / "plan.json").read_text())["cluster"]["batch"] == 4 * 512
    with pytest.raises(BinaryError, match=r"101%"):
        planner(binary=binary, from_plan=old / "plan.json", max_bytes="101%").plan(MODEL)


def test_exit_codes(binary: str, tmp_path: Path) -> None:
    for options in ({}, {"from_plan": "old.json", "max_bytes": "5%"}):
        for code in (1, 2, 3):
            with pytest.raises(BinaryError, match=f"ended with code {code}") as e:
                planner(binary=script(tmp_path, f"exit {code}"), **options).plan(MODEL)
            assert e.value.nothing_fits == (code == 1)
    with pytest.raises(BinaryError, match="reported no error and wrote no plan"):
        planner(binary=script(tmp_path, "exit 0")).plan(MODEL)


def test_arguments_are_passed_on(binary: str) -> None:
    with pytest.raises(BinaryError) as e:
        planner(binary=binary, arguments=["--memory", "1GiB"]).plan(MODEL)
    (problem,) = e.value.problems
    assert "missing" in problem.message and problem.hint
    with pytest.raises(BinaryError, match=r"unknown flag: --no-such"):
        planner(binary=binary, arguments=["--no-such"]).plan(MODEL)
    with pytest.raises(BinaryError, match=r"a100-8") as e:
        planner(binary=binary, profile="a100-8").plan(MODEL)
    assert any("neuroshard list devices" in p.hint for p in e.value.problems)


def test_the_binary_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEUROSHARD_BINARY", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    monkeypatch.setattr(program, "_scripts", lambda: [str(tmp_path / "none"), str(scripts)])
    with pytest.raises(BinaryError, match=r'"neuroshard" is not beside .*PATH\n  hint: install it'):
        program.find()
    here = script(tmp_path, "exit 0")
    assert program.find() == here
    installed = script(scripts, "exit 0")
    assert program.find() == installed  # with this package, so before the one on PATH
    (tmp_path / "other").mkdir()
    other = script(tmp_path / "other", "exit 0")
    monkeypatch.setenv("NEUROSHARD_BINARY", other)
    assert program.find() == other
    assert program.find(here) == here
    for missing in (tmp_path / "none", tmp_path):
        with pytest.raises(BinaryError, match=r"binary: there is no program"):
            program.find(missing)
    monkeypatch.setenv("NEUROSHARD_BINARY", str(tmp_path / "none"))
    with pytest.raises(BinaryError, match=r"\$NEUROSHARD_BINARY: there is no program"):
        program.find()


def test_a_binary_that_fails(tmp_path: Path) -> None:
    body = "echo 'neuroshard: error: one' >&2; echo 'neuroshard: hint: do it' >&2; exit 2"
    with pytest.raises(BinaryError, match=r"^one\n  hint: do it$"):
        planner(binary=script(tmp_path, body)).plan(MODEL)
    old = "[ $1 = version ] && exec echo neuroshard 0.0.9 go1.26; echo no such flag >&2; exit 2"
    with pytest.raises(BinaryError, match=r"is neuroshard 0\.0\.9, and the Python package is of"):
        planner(binary=script(tmp_path, old)).plan(MODEL)
    with pytest.raises(BinaryError, match=r"took longer than 0.2 s [^$]*\"0.1s\""):
        planner(binary=script(tmp_path, "exec sleep 60"), timeout=0.2).plan(MODEL)
    (tmp_path / "neuroshard").write_bytes(b"\x7fELF")
    with pytest.raises(BinaryError, match=r"cannot be run"):
        planner(binary=tmp_path / "neuroshard").plan(MODEL)


def test_what_a_binary_prints_is_cut_and_escaped(tmp_path: Path) -> None:
    body = r"printf 'neuroshard: error: \033[31m' >&2; yes x | head -c 100000 >&2; exit 2"
    with pytest.raises(BinaryError) as e:
        planner(binary=script(tmp_path, body)).plan(MODEL)
    text = str(e.value)
    assert text.startswith(r"\x1b[31mx") and "\x1b" not in text
    assert len(text) < 2 * program.MAX_PRINTED


def test_errors_with_their_hints() -> None:
    stderr = (
        "neuroshard: error: a\nneuroshard: hint: b\nneuroshard: error: c\nd\n\n"
        "neuroshard: error: e\nneuroshard: hint: f\nneuroshard: hint: g\n"
    )
    assert program.problems(stderr) == [Problem("a", "b"), Problem("c\nd"), Problem("e", "f; g")]
    assert program.problems("panic: no\n") == [Problem("panic: no")]
    many = NeuroShardError(Problem(str(i)) for i in range(60))
    assert str(many).startswith("60 problems:\n- 0\n") and str(many).endswith("\nand 10 more")
    assert len(many.problems) == 60


@pytest.mark.parametrize(
    ("installed", "release", "warned"),
    [
        (("1.5.1",), "1.5", ""),
        (("1.6.1+cpu", "2.11.0+cpu", "1.6.1+cu130"), "1.6", ""),
        (("1.9.2", "2.14.1", None), "1.9", ""),
        (("1.4.0",), "1.5", "TorchRec 1.4.0 is not tested"),
        (("2026.11.1",), "1.9", "TorchRec 2026.11.1 is not tested"),
        (("odd",), "1.9", "TorchRec odd is not tested"),
        (("1.6.1", "2.15.0", "1.6.0"), "1.6", "PyTorch 2.15.0 does not belong to TorchRec 1.6.1"),
        (("1.6.1", "2.11.0", "1.9.0"), "1.6", "FBGEMM 1.9.0 .*torch==2.11.*fbgemm-gpu==1.6"),
    ],
)
def test_versions(installed: tuple[str | None, ...], release: str, warned: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert versions.check(*installed) == release
    assert len(caught) == bool(warned)
    assert not warned or re.search(warned, str(caught[0].message))


@pytest.mark.parametrize(
    ("package", "missing", "extra"),
    [
        ("neuroshard_torchrec", "torch", "torchrec"),
        ("neuroshard_worker", "torch", "worker"),
        ("neuroshard_worker", "numpy", "worker"),
    ],
)
def test_without_pytorch_the_import_names_the_extra(package: str, missing: str, extra: str) -> None:
    code = (
        "import importlib.util, sys\n"
        "real = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name: None if name == {missing!r} else real(name)\n"
        "class Without:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {missing!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Without())\n"
        f"import {package}\n"
    )
    done = python("-c", code)
    assert done.returncode != 0
    last = done.stderr.decode().strip().splitlines()[-1]
    assert last.startswith("  hint: ") and f'pip install "neuroshard-planner[{extra}]"' in last


def test_the_page_lists_the_tested_releases() -> None:
    page = (Path(__file__).parents[2] / "docs" / "TORCHREC.md").read_text()
    (table,) = re.findall(
        r"^\| TorchRec \| PyTorch \| FBGEMM \|\n\|[-|]*\n((?:\|.*\n)*)", page, re.M
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    together = {release: {"PyTorch": torch, "FBGEMM": fbgemm} for release, torch, fbgemm in rows}
    assert together == versions.TOGETHER


def without_torchrec() -> None:
    real = metadata.version

    def version(name: str) -> str:
        if "torchrec" in name:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    metadata.version = version


def without_a_name() -> None:
    del torchrec.distributed.types.ParameterSharding


def without_a_module() -> None:
    sys.modules["torchrec.distributed.planner.perf_models"] = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("spoil", "parts"),
    [
        (without_torchrec, ["is not installed", "hint: install what belongs together: pip inst"]),
        (without_a_name, ["lacks what neuroshard_torchrec uses", "'ParameterSharding' from"]),
        (without_a_module, ["lacks what neuroshard_torchrec uses", "planner.perf_models"]),
    ],
)
def test_what_torchrec_lacks_is_named(spoil: Callable[[], None], parts: list[str]) -> None:
    def imported() -> str:
        for name in [n for n in sys.modules if n.startswith("neuroshard_torchrec")]:
            del sys.modules[name]
        spoil()
        try:
            importlib.import_module("neuroshard_torchrec")
        except ImportError as e:
            return f"{type(e).__name__}: {e}"
        return ""

    (told,) = ranks.on_ranks(1, imported)  # in a process of its own
    assert all(part in told for part in ["TorchRecVersionError", *parts]), told


@pytest.mark.parametrize(
    ("stated", "profile", "pooled"),
    [("constraints", None, False), ("sample", "a100-80", False), ("factors", None, True)],
)
def test_tables_without_lookups_lie_on_all_ranks(
    binary: str, stated: str, profile: str | None, pooled: bool
) -> None:
    """TorchRec's own planner puts 1,000 of them on one rank."""
    names = [f"t{i}" for i in range(1000)]
    kind, config = EmbeddingCollection, EmbeddingConfig
    if pooled:
        kind, config = EmbeddingBagCollection, EmbeddingBagConfig
    tables = [
        config(name=n, num_embeddings=1000 + 37 * i, embedding_dim=64, feature_names=[f"f_{n}"])
        for i, n in enumerate(names)
    ]
    model = nn.Module()
    model.tables = kind(tables=tables, device=torch.device("meta"))
    features = [f"f_{n}" for n in names]
    none = torch.zeros(0, dtype=torch.long)
    without: dict[str, dict[str, Any]] = {
        "constraints": {
            "constraints": {n: ParameterConstraints(pooling_factors=[0.0]) for n in names},
            "pooling_factors": None,
        },
        "sample": {
            "sample": KeyedJaggedTensor.from_lengths_sync(
                features, none, torch.zeros(4 * len(names)).int()
            ),
            "pooling_factors": None,
        },
        "factors": {"pooling_factors": dict.fromkeys(features, 0.0)},
    }
    short = ["--set", "max_evaluations=20000"]
    plan = planner(binary=binary, profile=profile, arguments=short, **without[stated]).plan(model)
    numbers = dict.fromkeys(range(4), 0)
    for own in plan.plan["tables"].values():
        for shard in own.sharding_spec.shards:
            numbers[shard.placement.rank()] += shard.shard_sizes[0] * shard.shard_sizes[1]
    assert max(numbers.values()) <= 1.1 * sum(numbers.values()) / 4
