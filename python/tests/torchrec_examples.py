"""Two processes that run every example of python/examples, and train each model whole.

Run as ``python torchrec_examples.py FOLDER``: FOLDER/losses.json has the losses of each
example, and those of its model in one process. test_torchrec_examples.py starts it once.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torchrec_ranks as ranks
import torchrec_twod

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = tuple(sorted(p.stem for p in EXAMPLES.glob("*.py") if p.stem != "common"))
RANKS = 2


def whole(example: Any, start: dict[str, torch.Tensor]) -> list[float]:
    """Trains the model of an example in this process, on the batches of all ranks."""
    common = importlib.import_module("common")
    model = example.Model()
    model.load_state_dict(start, strict=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=common.RATE)
    losses = []
    for step in range(common.STEPS):
        optimizer.zero_grad()
        total = 0.0
        for rank in range(RANKS):
            g = torch.Generator().manual_seed(1000 * step + rank)
            loss = model(example.draw(g)) / RANKS
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


def run(rank: int, folder: Path) -> None:
    ranks.join(rank, RANKS, folder / "store")
    sys.path.insert(0, str(EXAMPLES))
    common = importlib.import_module("common")
    train = common.train
    starts: list[dict[str, torch.Tensor]] = []

    def kept(*arguments: Any) -> list[float]:
        """Trains as an example asks for, and keeps the weights it begins with."""
        starts.append({k: v.clone() for k, v in arguments[4].items()})
        return train(*arguments)

    common.train = kept
    common.DMPCollection = torchrec_twod.on_cpus()
    losses = {}
    for name in NAMES:
        example = importlib.import_module(name)
        sharded = example.main()
        losses[name] = {"sharded": sharded, "whole": whole(example, starts[-1])}
        print(f"{rank}: {name}", file=sys.stderr)
    if rank == 0:
        (folder / "losses.json").write_text(json.dumps(losses))
    dist.barrier()
    dist.destroy_process_group()


def main(folder: Path) -> int:
    return ranks.fork(RANKS, lambda rank: run(rank, folder))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
