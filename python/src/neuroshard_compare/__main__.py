"""``python -m neuroshard_compare``: the command line."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence

from . import report


def main(args: Sequence[str] | None = None) -> int:
    """Runs the comparison; 0 when it is printed, 2 where something is wrong."""
    given = list(sys.argv[1:] if args is None else args)
    # All after -- goes to neuroshard plan.
    cut = given.index("--") if "--" in given else len(given)
    options = _parser().parse_args(given[:cut])
    options.arguments = given[cut + 1 :]
    logging.disable(logging.WARNING)  # FBGEMM and TorchRec warn of versions, each time
    try:
        # It checks the versions of TorchRec and of what belongs to it; it takes seconds.
        from neuroshard_torchrec import NeuroShardError
    except ImportError as e:
        return _failed(str(e).partition("\n  hint: ")[::2])
    try:
        from .model import compare

        results = compare(options)
    except NeuroShardError as e:
        # The hints name options of the planner: here the batch of a rank is a flag.
        return _failed(
            *((p.message, p.hint.replace("batch_per_rank", "--batch-per-rank")) for p in e.problems)
        )
    except KeyboardInterrupt:
        return 130
    finally:
        logging.disable(logging.NOTSET)
    print(json.dumps(results, indent=1) if options.json else report.beside(results))
    return 0


def _failed(*faults: tuple[str, str]) -> int:
    for message, hint in faults:
        print(f"neuroshard_compare: error: {message}", file=sys.stderr)
        if hint:
            print(f"neuroshard_compare: hint: {hint}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    """The flags of ``neuroshard compare``, which explains and checks them, and the program's own
    path."""
    p = argparse.ArgumentParser(prog="python -m neuroshard_compare")
    p.add_argument("model", metavar="MODULE:FUNCTION")
    for flag in ("--gpu", "--binary"):
        p.add_argument(flag)
    for flag in ("--gpus", "--devices-per-host", "--batch-per-rank", "--limit"):
        p.add_argument(flag, type=int)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--memory", default="")
    p.add_argument("--json", action="store_true")
    return p


if __name__ == "__main__":
    sys.exit(main())
