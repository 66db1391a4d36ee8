"""What TorchRec's storage estimator counts of many drawn shards, as JSON.

    PYTHONPATH=python/src python python/tests/torchrec_storages.py problem/testdata

The Go package ``problem`` counts the same bytes in its own words, and its tests hold them
against these files. Everything is drawn from one seed, so that the same TorchRec writes the
same files, one for each release, as those of ``torchrec_estimates``.
"""

from __future__ import annotations

import random
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import torchrec.optim
import torchrec_estimates as estimates
from torchrec.distributed.planner.shard_estimators import EmbeddingStorageEstimator

_SEED = 20261
_SHARDS = 400
# Shards with everything that TorchRec's constraints state.
_STATED_SHARDS = 300
# Shards in topologies with pods, or with a host that is not full.
_GROUPED_SHARDS = 160
_OPTIMIZERS = {
    "sgd": torchrec.optim.SGD,
    "rowwise_adagrad": torchrec.optim.RowWiseAdagrad,
    "adagrad": torchrec.optim.Adagrad,
    "adam": torchrec.optim.Adam,
}


def storages() -> dict[str, Any]:
    """The file's content: drawn shards, and the bytes that TorchRec counts of each."""
    draw = random.Random(_SEED)
    return {
        "source": f"EmbeddingStorageEstimator of TorchRec {metadata.version('torchrec')},"
        " as python/tests/torchrec_storages.py called it",
        "shards": [_shard(draw) for _ in range(_SHARDS)]
        + [
            _counted(estimates.stated(draw, _drawn(draw)))
            for draw in [random.Random(_SEED + 1)]
            for _ in range(_STATED_SHARDS)
        ]
        + [
            _counted(estimates.grouped(draw, _drawn(draw)))
            for draw in [random.Random(_SEED + 2)]
            for _ in range(_GROUPED_SHARDS)
        ],
    }


def _shard(draw: random.Random) -> dict[str, Any]:
    """A shard of a table of its own, with the bytes of device and of host memory."""
    case = _drawn(draw)
    rows, columns = case["shard"]
    if case["kind"].endswith("row_wise") and draw.random() < 0.5:
        rows = draw.randint(1, rows)  # the last block
    case["shard"] = [rows, columns]
    case["pooling"] = draw.choice(("sum", "sum", "none"))
    if case["pooling"] == "sum" and draw.random() < 0.5:
        case["bags"] = [draw.choice((1.0, 2.5, 1 / 3)) for _ in case["poolings"]]
    return _counted(case)


def _drawn(draw: random.Random) -> dict[str, Any]:
    return estimates.drawn_shard(draw) | {"optimizer": draw.choice(tuple(_OPTIMIZERS))}


def _counted(case: dict[str, Any]) -> dict[str, Any]:
    """The case with the bytes of its shard."""
    rows, columns = case["shard"]
    module = estimates.module_of([case])
    option = estimates.option_of(case | {"shards": [[0, 0, rows, 0, columns]]}, module, case)
    option.tensor._optimizer_classes = [_OPTIMIZERS[case["optimizer"]]]
    constraints = estimates.constraints_of({option.name: case})
    estimator = EmbeddingStorageEstimator(estimates.topology_of(case), constraints)
    estimator.estimate([option], estimates.sharders_of())
    storage = option.shards[0].storage
    assert storage is not None
    return case | {"hbm": storage.hbm, "ddr": storage.ddr}


if __name__ == "__main__":
    path, written = estimates.file_of(Path(sys.argv[1]), "storage", storages())
    path.write_text(written, "utf-8")
