"""Four processes; on the first one, TorchRec's planner makes a plan as well.

Run as ``python torchrec_beside.py FOLDER``: each rank leaves what it saw in
``FOLDER/rank-N.json``. It is no test itself: test_torchrec_baseline.py starts it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torchrec_ranks as ranks
from test_torchrec_tables import collection, table
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder

from neuroshard_torchrec import NeuroShardPlanner, baseline


def run(rank: int, folder: Path) -> None:
    ranks.join(rank, ranks.RANKS, folder / "store")
    asked: list[int] = []
    plain = baseline.plan

    def plan(*arguments: Any) -> Any:
        asked.append(rank)
        return plain(*arguments)

    baseline.plan = plan
    found: dict[str, Any] = {"asked": asked, "plans": [], "reports": []}
    for option in (False, True):
        model = collection(*(table(f"t{i}", num_embeddings=1000 * (i + 1)) for i in range(6)))
        planner = NeuroShardPlanner(
            profile="a100-80",
            batch_per_rank=256,
            arguments=["--workers", "1"],
            torchrec_baseline=option,
        )
        made = planner.collective_plan(model, [EmbeddingBagCollectionSharder()])
        found["plans"].append(str(made))
        found["reports"].append(planner.report)
    (folder / f"rank-{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(ranks.fork(ranks.RANKS, lambda rank: run(rank, Path(sys.argv[1]))))
