"""The engines, behind one interface, and the choice between them."""

from __future__ import annotations

import logging

import torch

from .base import Engine, Operation

__all__ = ["NAMES", "Engine", "Operation", "choose"]

NAMES = ("fbgemm", "triton", "torch")

log = logging.getLogger("neuroshard")


class NotAvailableError(Exception):
    """An engine cannot run here; the message says why."""


def choose(name: str, device: torch.device) -> Engine:
    """Returns the named engine, or for auto the first that can run on the device.

    On a CPU auto is plain PyTorch: FBGEMM's and Triton's interpreter there are
    for tests of the logic. NotAvailableError says what is missing.
    """
    if name == "auto":
        if device.type == "cpu":
            return _make("torch", device)
        for candidate in NAMES:
            try:
                return _make(candidate, device)
            except NotAvailableError as e:
                log.info("no %s: %s", candidate, e)
        raise NotAvailableError("no engine")  # torch always is
    return _make(name, device)


def _make(name: str, device: torch.device) -> Engine:
    try:
        if name == "fbgemm":
            from .fbgemm import FbgemmEngine

            return FbgemmEngine(device)
        if name == "triton":
            from .triton import TritonEngine

            return TritonEngine(device)
    except (ImportError, OSError) as e:  # OSError: a library built for another PyTorch
        raise NotAvailableError(f"{name} cannot be imported: {e}") from e
    except ValueError as e:
        raise NotAvailableError(str(e)) from e
    from .plain import TorchEngine

    return TorchEngine(device)
