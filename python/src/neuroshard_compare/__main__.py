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


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m neuroshard_compare",
        description="Plans a model with TorchRec's planner and with neuroshard, and estimates all"
        " plans alike: with TorchRec's estimator, and on neuroshard's SIMULATED device.",
        epilog="What follows -- is passed to neuroshard plan, such as -- --types all.",
    )
    p.add_argument(
        "model",
        metavar="MODULE:FUNCTION",
        help="a function without arguments that returns the model, or the model, its sharders and"
        " a sample batch, or a dict with the keys model, sharders, sample and constraints; the"
        " module is imported, or is a file such as train.py",
    )
    p.add_argument("--gpu", required=True, help="device profile, as neuroshard list devices lists")
    p.add_argument("--gpus", required=True, type=_count, help="ranks of the job")
    p.add_argument("--devices-per-host", type=_count, help="ranks of a host (default: 8, or all)")
    p.add_argument(
        "--batch-per-rank",
        type=_count,
        help="samples of a step on one rank (default: those of the sample batch)",
    )
    p.add_argument(
        "--memory", default="", help="memory of a device, such as 40GiB (default: the profile's)"
    )
    p.add_argument(
        "--limit", type=_count, help="seconds that TorchRec's planner is given (default: no limit)"
    )
    p.add_argument("--repeats", type=_count, default=3, help="plans made, for the median of times")
    p.add_argument("--json", action="store_true", help="print one JSON object")
    p.add_argument("--binary", help="the program; default: $NEUROSHARD_BINARY, else the installed")
    return p


if __name__ == "__main__":
    sys.exit(main())
