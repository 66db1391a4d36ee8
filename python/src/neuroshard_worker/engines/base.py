"""What an engine is."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from ..group import Group, Mode

LINE = 256
"""Windows of weights and state start at multiples of this number of bytes."""


class Operation(ABC):
    """One fused operation, prepared: its buffers are there, and it can run.

    forward fills output from the weights; backward turns the group's gradient
    into one update of every distinct row. Neither waits for the device.
    """

    group: Group
    output: torch.Tensor

    @abstractmethod
    def forward(self) -> None: ...

    @abstractmethod
    def backward(self) -> None: ...

    @abstractmethod
    def weights(self, shard: int) -> torch.Tensor:
        """The shard's weights, rows x dim, as a view: writing sets them."""

    @abstractmethod
    def state(self, shard: int) -> list[torch.Tensor]:
        """The optimizer state as views: row-wise Adagrad one number a row, Adagrad
        rows x dim, Adam two of these."""

    def lookup_gradient(self) -> torch.Tensor | None:
        """The gradient of the per-sample weights, of weighted operations."""
        return None


class Engine(ABC):
    """A way to run operations on one device."""

    name: str
    kernel: str
    """The code that runs, with its version."""
    optimizers: tuple[str, ...]
    dtypes: tuple[str, ...]
    lacks: tuple[tuple[str, str], ...] = ()
    """Pairs of an optimizer and a precision that it has, but not together."""
    most_columns: int
    """The widest shard."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.checked: set[tuple[Mode, int]] = set()  # kinds of operations, by mode and lanes

    @abstractmethod
    def prepare(self, group: Group, mode: Mode, rate: float) -> Operation:
        """Returns the operation; rate is the learning rate.

        An operation is valid until the next one is prepared: engines keep one
        block of weights.
        """

    def release(self) -> None:  # noqa: B027 - nothing to release is the common case
        """Gives memory back, after an allocation failed."""

    def lanes(self, widest: int) -> int:
        """Operations of equal lanes run the same code: one check stands for all."""
        return 1 << max(2, (widest - 1).bit_length())


class Windows:
    """One block of weights and one of state, cut into windows for each operation.

    A block grows and is kept, so that measuring allocates rarely. Its numbers
    are small, finite and above zero: as weights, as a sum of squares, as a
    moment that a root is taken of. The tiny learning rate of measurements keeps
    them so.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.blocks: dict[str, torch.Tensor] = {}
        self.filled: dict[str, torch.dtype] = {}

    def cut(
        self, name: str, sizes: list[int], dtype: torch.dtype
    ) -> tuple[torch.Tensor, list[int]]:
        """Returns the block as numbers of dtype, and where each window begins."""
        line = LINE // dtype.itemsize
        starts = []
        at = 0
        for size in sizes:
            starts.append(at)
            at += -(-size // line) * line
        need = max(1, at) * dtype.itemsize
        block = self.blocks.get(name)
        if block is None or block.numel() < need:
            self.blocks.pop(name, None)
            block = None  # the old one goes before its successor comes
            block = torch.empty(need, dtype=torch.uint8, device=self.device)
            self.blocks[name] = block
            self.filled.pop(name, None)
        numbers = block[: block.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
        if self.filled.get(name) != dtype:
            numbers.uniform_(0.5, 1.0)
            self.filled[name] = dtype
        return numbers, starts

    def release(self) -> None:
        self.blocks.clear()
        self.filled.clear()


def window(block: torch.Tensor, start: int, rows: int, columns: int) -> torch.Tensor:
    return block[start : start + rows * columns].view(rows, columns)
