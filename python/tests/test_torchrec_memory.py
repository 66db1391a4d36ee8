"""The bytes that a plan counts for pooled vectors are those that TorchRec allocates.

``pytest tests/test_torchrec_memory.py -s`` prints both.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torchrec", reason="SKIPPED: torchrec is not installed")

from conftest import environment, ranks_of
from torchrec_binary import binary, neuroshard

__all__ = ["binary"]

RANKS = Path(__file__).parent / "torchrec_memory.py"

OPTIONS = ("ranks", "batch", "dim", "tables", "rows", "pooling", "kind")
CASES: dict[str, tuple[Any, ...]] = {
    # The batch is that of a rank.
    "table_wise": (2, 512, 64, 4, 100, 1, "pooled"),
    "more lookups": (2, 512, 64, 4, 100, 20, "pooled"),
    "row_wise": (2, 512, 64, 4, 1000, 1, "pooled"),
    "data_parallel": (2, 128, 64, 4, 5000, 1, "pooled"),
    "one rank": (1, 512, 64, 4, 100, 1, "pooled"),
    "four ranks": (4, 256, 64, 8, 100, 1, "pooled"),
    "sequences": (2, 512, 64, 4, 100, 5, "sequences"),
    "sequences, row_wise": (2, 512, 64, 4, 1000, 5, "sequences"),
    "sequences, four ranks": (4, 256, 64, 8, 100, 5, "sequences"),
    "sequences, one table": (2, 512, 64, 1, 100, 5, "sequences"),
    "deduplicated": (2, 512, 64, 4, 500, 5, "deduplicated"),
    "deduplicated, row_wise": (2, 512, 64, 4, 1000, 5, "deduplicated"),
    "deduplicated, four ranks": (4, 256, 64, 8, 100, 5, "deduplicated"),
    "deduplicated, one rank": (1, 256, 64, 4, 100, 5, "deduplicated"),
    "deduplicated, many rows": (2, 512, 64, 4, 100_000, 1, "deduplicated"),
    "batches, one rank": (1, 512, 64, 4, 100, 1, "batches"),
    "batches": (2, 512, 64, 4, 100, 1, "batches"),
    "batches, row_wise": (2, 512, 64, 4, 1000, 1, "batches"),
    "batches, four ranks": (4, 256, 64, 8, 100, 1, "batches"),
}


SEQUENCES = ("sequences", "deduplicated")


def feature(case: dict[str, Any], i: int) -> dict[str, Any]:
    """The feature of a table; the first half of them have a quarter of the batch."""
    found = {"name": f"f{i}", "pooling_factor": case["pooling"]}
    if case["kind"] == "batches" and i < case["tables"] // 2:
        found |= {"pooling_factor": case["pooling"] / 4, "bags": 0.25}
    return found


@pytest.fixture(scope="module")
def found(binary: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Returns, by case, what the plan states of each device, and what its rank took."""
    folder = tmp_path_factory.mktemp("memory")
    cases = {name: dict(zip(OPTIONS, values, strict=True)) for name, values in CASES.items()}
    for name, case in cases.items():
        case["replicated"] = name == "data_parallel"
    (folder / "cases.json").write_text(json.dumps(cases))
    for name, case in cases.items():
        tables = {
            "format": "neuroshard-tables",
            "version": 1,
            "batch": case["batch"] * case["ranks"],
            "tables": [
                {
                    "name": f"t{i}",
                    "module": "ebc",
                    "rows": case["rows"],
                    "dim": case["dim"],
                    "features": [feature(case, i)],
                    "optimizer": "sgd",
                    "pooling": "none" if case["kind"] in SEQUENCES else "sum",
                    "index_dedup": case["kind"] == "deduplicated",
                    "access": {"uniform": True},
                }
                for i in range(case["tables"])
            ],
        }
        (folder / "tables.json").write_text(json.dumps(tables))
        only = next(
            (t for t in ("row_wise", "column_wise", "data_parallel") if t in name), "table_wise"
        )
        cluster = ("--devices", str(case["ranks"]), "--device", "a100-80", "--batch")
        cluster += (str(tables["batch"]), "--sharding-types", only)
        neuroshard(binary, "plan", "tables.json", *cluster, "-o", f"plan-{name}.json", cwd=folder)
    taken: dict[str, list[Any]] = {name: [] for name in CASES}
    groups = sorted({case["ranks"] for case in cases.values()})
    for ranks in groups:
        command = [sys.executable, str(RANKS), str(folder), str(ranks)]
        code, _, log = ranks_of(command, folder, env=environment())
        assert code == 0, log
    for name, case in cases.items():
        plan = json.loads((folder / f"plan-{name}.json").read_text())
        for rank in range(case["ranks"]):
            took = json.loads((folder / f"memory-{case['ranks']}-{rank}.json").read_text())
            taken[name].append((plan["devices"][rank]["memory"], took[name]))
    return taken


# The bytes of vectors and dense gradients are more than nine tenths of what the ranks take in these
# cases; the rest are indices, which plans count with buffers that only GPUs need.
@pytest.mark.parametrize("name", list(CASES))
def test_vectors_are_counted_as_allocated(found: dict[str, list[Any]], name: str) -> None:
    for memory, took in found[name]:
        outputs, received = memory["outputs_bytes"], memory["received_bytes"]
        vectors = outputs + memory["gradients_bytes"] + received
        print(f"{name}: plan {vectors} + {memory['indices_bytes']} of indices, taken {took}")
        # A device without outputs takes as much as it receives in the backward (BackwardRoom).
        room = received if outputs == 0 and name != "data_parallel" else 0
        assert took <= 1.01 * (vectors + memory["indices_bytes"] + room)
        if name == "sequences, row_wise":
            # A block of rows has room for twice its even share of the lookups.
            assert outputs + received <= took
        elif name.startswith("deduplicated"):
            # Outputs are gone when each lookup has got its vector, and CPUs sort in less room.
            assert 0.9 * received <= took
        elif name.startswith("batches"):
            assert received <= took  # outputs are gone when each sample has got its vectors
        elif name != "more lookups":
            assert vectors <= took
