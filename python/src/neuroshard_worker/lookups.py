"""The lookups of one batch in one table, from the lookup files of the program."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .wire import bad, out_of_memory

CLASSES = 17
"""Use-count classes: rows used 1, 2, 3-4, 5-8, ... and more than 32768 times."""

MAX_BAGS = 1 << 28

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Lookups:
    """One batch's lookups: bag b reads rows indices[offsets[b]:offsets[b + 1]]."""

    indices: Ints
    offsets: Ints
    unique: int
    reuse: list[float]


def realised(indices: Ints) -> tuple[int, list[float]]:
    """Counts distinct rows and the share of them in each use-count class."""
    if not len(indices):
        return 0, [0.0] * CLASSES
    _, uses = np.unique(indices, return_counts=True)
    classes = np.minimum(np.ceil(np.log2(uses)).astype(np.int64), CLASSES - 1)
    counts = np.bincount(classes, minlength=CLASSES)
    return len(uses), [float(x) for x in counts / len(uses)]


def length_cv_of(offsets: Ints) -> float:
    """Returns the coefficient of variation of the lengths of bags: their standard
    deviation over their mean, and 0 if there are no lookups."""
    lengths = np.diff(offsets)
    return float(lengths.std() / lengths.mean()) if lengths.any() else 0.0


# Lookup files, little-endian (package lookups writes them):
#
#   0   "nspool\r\n"
#   8   version, 4 bytes
#   12  CRC-32C of everything else in the file, 4 bytes
#   16  number of bags, 8 bytes
#   24  number of lookups, 8 bytes
#   32  offsets, bags+1 of 8 bytes; then indices, lookups of 8 bytes
_MAGIC = b"nspool\r\n"
_HEADER = 32


def read_file(path: str, rows: int, bags: int, most_bytes: int) -> Lookups:
    """Reads a lookup file. Its check sum is left to the program, which wrote it."""
    try:
        size = Path(path).stat().st_size
        if size > most_bytes:
            raise out_of_memory(f"file {path}: {size} bytes, and lookups may take {most_bytes}")
        data = np.fromfile(path, dtype=np.uint8)
    except OSError as e:
        raise bad(f"file {path}: {e.strerror or e}") from e
    if len(data) < _HEADER or data[:8].tobytes() != _MAGIC:
        raise bad(f"file {path}: not a lookup file")
    version, _, has_bags, has_lookups = struct.unpack("<IIQQ", data[8:_HEADER].tobytes())
    if version != 1:
        raise bad(f"file {path}: version {version}, and this worker reads version 1")
    if len(data) != _HEADER + 8 * (has_bags + 1 + has_lookups):
        raise bad(f"file {path}: {len(data)} bytes, and its header says otherwise: cut short?")
    if has_bags != bags:
        raise bad(f"file {path}: {has_bags} bags, and features times batch is {bags}")
    numbers = data[_HEADER:].view("<i8").astype(np.int64)
    offsets, indices = numbers[: bags + 1].copy(), numbers[bags + 1 :].copy()
    if offsets[0] != 0 or offsets[-1] != len(indices) or (np.diff(offsets) < 0).any():
        raise bad(f"file {path}: its offsets do not rise from 0 to the number of lookups")
    if len(indices) and not (indices.min() >= 0 and indices.max() < rows):
        raise bad(f"file {path}: row {indices.max()} in a table of {rows} rows, or a negative one")
    unique, reuse = realised(indices)
    return Lookups(indices, offsets, unique, reuse)
