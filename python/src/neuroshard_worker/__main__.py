"""``python -m neuroshard_worker``: the worker, and the check of its kernels."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from typing import TextIO

import torch

from . import device as facts
from .comm import Ranks, is_leader, world_size
from .engines import NAMES, NotAvailableError, choose
from .reference import check_all
from .server import Fatal, Server
from .timing import EAGER, QUEUED, Stopwatch
from .wire import LineTooLongError, WireError

log = logging.getLogger("neuroshard")


def main(args: list[str] | None = None) -> int:
    options = _parser().parse_args(args)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if options.verbose else logging.WARNING,
        format="neuroshard_worker: %(message)s",
    )
    logging.getLogger("neuroshard").setLevel(logging.INFO)
    with _private_stdout() as stdout:
        try:
            return _run(options, stdout)
        except (NotAvailableError, ValueError, WireError) as e:
            log.error("error: %s", e)
            return 2
        except (Fatal, LineTooLongError, BrokenPipeError) as e:
            log.error("the conversation is over: %s", e)
            return 1
        except KeyboardInterrupt:
            return 130


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m neuroshard_worker",
        description="Times embedding kernels for neuroshard: JSON lines on stdin and stdout.",
    )
    p.add_argument("--backend", choices=("auto", *NAMES), default="auto")
    p.add_argument("--device", default="", help="cuda:0 or cpu; default: a GPU if there is one")
    p.add_argument(
        "--launch",
        choices=(EAGER, QUEUED),
        default=EAGER,
        help="eager: the GPU waits for the host's launches; queued: they are there already",
    )
    p.add_argument("--threads", type=int, default=0, help="threads of a CPU; 0 is PyTorch's choice")
    p.add_argument("--verbose", action="store_true", help="log libraries' messages, too")
    p.add_argument("--check", action="store_true", help="compare the kernels with float64, end")
    return p


def _run(options: argparse.Namespace, stdout: TextIO) -> int:
    # What imports have made stays, so collections need not look at it: they come
    # before each request that is timed.
    gc.collect()
    gc.freeze()
    device = _device(options.device)
    if options.threads > 0:
        torch.set_num_threads(options.threads)
    watch = Stopwatch(device, options.launch, facts.cache_bytes(device))
    if world_size() > 1 and not options.check:
        ranks = Ranks(device, watch)
        if not is_leader():
            ranks.follow()
            ranks.close()
            return 0
        server = Server(choose(options.backend, device), options.launch, ranks)
        try:
            server.serve(sys.stdin.buffer, stdout.buffer)
        except LineTooLongError:
            ranks.close()
            raise
        except (Fatal, BrokenPipeError) as e:
            # The others may wait in a collective that this rank has left; torchrun
            # ends them when this process fails.
            log.error("the conversation is over: %s", e)
            os._exit(1)
        ranks.close()
        return 0
    engine = choose(options.backend, device)
    if options.check:
        wrong = 0
        for mode, columns, fault in check_all(engine):
            wrong += bool(fault)
            stdout.write(f"{mode!s:32}{columns:>5} columns  {fault or 'ok'}\n")
            stdout.flush()
        stdout.write(f"{engine.kernel}, {facts.name(device)}: {wrong} wrong\n")
        return 1 if wrong else 0
    Server(engine, options.launch).serve(sys.stdin.buffer, stdout.buffer)
    return 0


def _device(asked: str) -> torch.device:
    """The device; under torchrun each process has the GPU of its local rank."""
    if not asked:
        asked = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(asked)
    except RuntimeError as e:
        raise ValueError(f'device "{asked}" is unknown: want cuda:0 or cpu') from e
    if device.type not in ("cuda", "cpu"):
        raise ValueError(f'device "{asked}": want cuda:0 or cpu')
    if device.type == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ValueError(f'device "{asked}": this PyTorch sees no GPU here')
    index = device.index
    if world_size() > 1:
        index = int(os.environ.get("LOCAL_RANK", "0"))
    elif index is None:
        index = 0
    if index >= torch.cuda.device_count():
        raise ValueError(f"cuda:{index}: there are {torch.cuda.device_count()} GPUs")
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def _private_stdout() -> TextIO:
    """Returns the real stdout, and turns what libraries print there to stderr: a
    line that is no response would end the conversation."""
    private = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return private


if __name__ == "__main__":
    sys.exit(main())
