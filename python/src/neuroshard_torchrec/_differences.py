"""What differs between the releases of TorchRec that versions.py lists, each with its first
release.

TorchRec's objects are asked for what they have, so a release between two of these is right, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchrec.distributed.planner import utils


def ranks_linked(topology: Any) -> int:
    """Returns the ranks of a Topology that the fast links of an NVLink domain connect. 1.6 has
    domains of several hosts; before, a domain is a host."""
    return int(getattr(topology, "intra_group_size", topology.local_world_size))


def since_1_6(topology: Any) -> dict[str, Any]:
    """Returns the arguments of Topology that 1.6 added, as a Topology has them: hosts of an NVLink
    domain, and SSDs. Nothing in 1.5."""
    if not hasattr(topology, "intra_group_size"):
        return {}
    hosts = topology.intra_group_size // topology.local_world_size
    return {
        "pod_size": hosts if hosts > 1 else None,
        "ssd_cap": topology.devices[0].storage.ssd,
        "ssd_mem_bw": topology.ssd_mem_bw,
    }


def give_sharders(enumerator: Any, sharders: Sequence[Any]) -> None:
    """Gives an enumerator the sharders that its estimators read, as its ``enumerate`` does.
    Since 1.7 estimators read a copy of the sharders' fields, ``_sharder_data_map``."""
    by_name = {utils.sharder_name(s.module_type): s for s in sharders}
    enumerator._sharder_map = by_name
    if hasattr(enumerator, "_sharder_data_map"):
        enumerator._sharder_data_map = utils.build_sharder_data_map(by_name)


def add_stashes(options: Sequence[Any], enumerator: Any) -> None:
    """Sets which tables give their HBM away in the dense part of a step: 1.9 has this field of a
    ShardingOption, which its storage estimator reads."""
    for option in options:
        if hasattr(option, "stash_weights"):
            option.stash_weights = enumerator._get_stash_weights(option.name, option.module[1])
