"""A group of shards that one fused operation reads: its tensors and its layout.

slots      one per (shard, feature), shard by shard: batch bags each
bags       slot * batch + sample; offsets has one entry more than bags
outputs    batch x width, a sample's columns slot by slot, as FBGEMM lays out
gradients  the same
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

SGD = "sgd"
ROWWISE_ADAGRAD = "rowwise_adagrad"
ADAGRAD = "adagrad"
ADAM = "adam"
OPTIMIZERS = (SGD, ROWWISE_ADAGRAD, ADAGRAD, ADAM)
DTYPES = {"fp32": torch.float32, "fp16": torch.float16}

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Mode:
    """What a kernel is compiled or chosen for, beside the shapes."""

    optimizer: str
    dtype: str
    weighted: bool

    @property
    def torch_dtype(self) -> torch.dtype:
        return DTYPES[self.dtype]

    def row_bytes(self, dim: int) -> int:
        """Bytes of one row's weights."""
        return dim * self.torch_dtype.itemsize

    def state_floats(self, dim: int) -> int:
        """Numbers of optimizer state of one row, 4 bytes each."""
        return {SGD: 0, ROWWISE_ADAGRAD: 1, ADAGRAD: dim, ADAM: 2 * dim}[self.optimizer]

    def __str__(self) -> str:
        return f"{self.optimizer} {self.dtype}{' weighted' if self.weighted else ''}"


@dataclass(frozen=True)
class Shard:
    """One column slice of a table, with the table's lookups of one batch."""

    rows: int
    dim: int
    features: int
    indices: torch.Tensor
    """int64 row numbers, on any device."""
    offsets: torch.Tensor
    """int64, features * batch + 1 of them, starting with 0."""


class Group:
    """The shards of one operation with all lookups in one piece on the device."""

    def __init__(self, shards: list[Shard], batch: int, weighted: bool, device: torch.device):
        self.shards = shards
        self.batch = batch
        self.device = device
        self.slot_shard = [i for i, s in enumerate(shards) for _ in range(s.features)]
        self.slots = len(self.slot_shard)
        self.bags = self.slots * batch
        self.lookups = sum(len(s.indices) for s in shards)
        self.slot_column = []
        column = 0
        for i in self.slot_shard:
            self.slot_column.append(column)
            column += shards[i].dim
        self.width = column
        self.widest = max(s.dim for s in shards)

        self.indices = torch.empty(self.lookups, dtype=torch.int64, device=device)
        self.offsets = torch.empty(self.bags + 1, dtype=torch.int64, device=device)
        self.offsets[-1] = self.lookups
        self.first = [0]  # lookup where each shard's begin
        bag = 0
        for s in shards:
            at = self.first[-1]
            bags = s.features * batch
            self.indices[at : at + len(s.indices)].copy_(s.indices)
            torch.add(
                s.offsets[:-1].to(device, non_blocking=True), at, out=self.offsets[bag : bag + bags]
            )
            self.first.append(at + len(s.indices))
            bag += bags
        # Drawn, not zero: a chip's power and clock depend on the data.
        random = torch.Generator(device).manual_seed(self.lookups)
        self.per_sample: torch.Tensor | None = None
        if weighted:
            self.per_sample = torch.empty(self.lookups, device=device)
            self.per_sample.uniform_(0.5, 1.0, generator=random)
        self.gradient = torch.empty(batch, self.width, device=device)
        self.gradient.uniform_(-1.0, 1.0, generator=random)

    @staticmethod
    def bytes_needed(shards: list[Shard], batch: int, weighted: bool) -> int:
        """What the group's tensors and an engine's buffers take, about.

        Indices, offsets, outputs, gradients; keys and positions of the sort and
        its temporary memory, the bag of each lookup, runs of equal rows.
        """
        width = sum(s.dim * s.features for s in shards)
        lookups = sum(len(s.indices) for s in shards)
        bags = sum(s.features for s in shards) * batch
        return 8 * batch * width + lookups * (64 + 8 * weighted) + 8 * bags
