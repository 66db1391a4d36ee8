"""What the tests expect of each release of TorchRec, where releases differ."""

from __future__ import annotations

from neuroshard_torchrec._torchrec import RELEASE


def since(release: str) -> bool:
    """Returns whether TorchRec is of this release, such as "1.6", or of a later one."""
    return _number(RELEASE) >= _number(release)


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


NVLINK_DOMAINS = since("1.6")
"""A Topology has domains of several hosts (``pod_size``), and a bandwidth of SSDs."""

COUNTS_IDS = since("1.6")
"""A HashZchManagedCollisionModule has ``track_id_freq``."""
