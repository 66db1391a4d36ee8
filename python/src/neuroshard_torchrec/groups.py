"""Sharding groups, the 2D parallelism of TorchRec's DMPCollection: how the ranks of a job
divide into groups that hold all tables by the same plan.

    4 ranks, 2 a host, groups of 2; a letter says which shards a rank holds
                                rank    0   1  |  2   3
    replicas are neighbours            1a  2a  | 1b  2b
    use_inter_host_allreduce           1a  1b  | 2a  2b

A plan is that of one group: its ranks are 0 to size - 1, which DMPCollection renames to the
ranks of each group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

from ._modules import Collected
from .errors import Problem, quote

AUTO = "auto"
"""The size of a sharding group that ``neuroshard`` chooses."""

_MANAGED = ("ManagedCollisionEmbeddingBagCollection", "ManagedCollisionEmbeddingCollection")


@dataclass(frozen=True)
class Groups:
    """The sharding groups of a job: the number of all ranks, of the ranks of a group, of the
    ranks of a group on one host, and whether the ranks of a group are consecutive."""

    world_size: int
    size: int
    per_host: int
    inter_host: bool = False

    @classmethod
    def of(
        cls, world_size: int, local_size: int, size: int, inter_host: bool
    ) -> tuple[Groups, list[Problem]]:
        """Returns the groups of the given size of all ranks, ``local_size`` on each host, and
        a problem if the ranks cannot be divided so."""
        if not 1 <= size <= world_size or world_size % size:
            message = f"sharding_group_size {size} does not divide the {world_size} ranks"
            hint = f"pass a divisor of {world_size}"
            return cls(world_size, world_size, local_size), [Problem(message, hint)]
        replicas = world_size // size
        run = size if inter_host else replicas  # ranks that no host may cut
        inside = min(run, local_size)
        found = cls(world_size, size, inside if inter_host else local_size // inside, inter_host)
        if replicas > 1 and ((run % local_size and local_size % run) or world_size % local_size):
            message = f"{replicas} sharding groups of {size} ranks do not divide hosts of "
            message += f"{local_size} ranks evenly"
            hint = "pass another sharding_group_size, or the other use_inter_host_allreduce"
            return found, [Problem(message, hint)]
        return found, []

    @property
    def replicas(self) -> int:
        """The number of groups."""
        return self.world_size // self.size


def arguments(o: SimpleNamespace, world_size: int) -> list[str]:
    """Returns the arguments of ``neuroshard plan`` for the groups of the planner's options."""
    size = o.sharding_group_size
    if size is None or size == world_size:
        return []
    replicas = AUTO if isinstance(size, str) else str(world_size // size)
    every = [] if o.sync_every == 1 else ["--set", f"sync_every={o.sync_every}"]
    between = ["--set", "inter_host_allreduce"] if o.use_inter_host_allreduce else []
    return ["--set", f"replicas={replicas}", *every, *between]


def unused(o: SimpleNamespace, world_size: int) -> list[Problem]:
    """Returns a problem for each option of the all-reduce if all ranks are one group."""
    if o.sharding_group_size != world_size:
        return []
    hint = "leave it out, or pass a smaller sharding_group_size"
    message = f"sharding_group_size {world_size} is all ranks, so there is nothing to average"
    given = {
        "use_inter_host_allreduce": o.use_inter_host_allreduce,
        "sync_every": o.sync_every != 1,
    }
    return [Problem(f"{option}: {message}", hint) for option, so in given.items() if so]


def modules_problems(found: Sequence[Collected], groups: Groups | None) -> list[Problem]:
    """Returns a problem for each module whose tables several groups cannot average: the maps
    from ids to rows of managed collisions follow the ids that their own group has seen."""
    if groups is None or groups.replicas == 1:
        return []
    return [
        Problem(
            f"module {quote(c.path)} is a {c.kind}: each sharding group maps ids to rows by "
            "itself, so averages would be of rows of different ids",
            "plan it for one sharding group, or leave it out with ignore=",
        )
        for c in found
        if c.kind in _MANAGED
    ]


def plan_problems(
    groups: Groups | None, size: int, per_host: int, replicas: int, inter_host: bool
) -> list[Problem]:
    """Returns why a plan for ``replicas`` groups of ``size`` ranks is not one for these
    groups; None stands for a job without sharding groups."""
    if groups is None:
        if replicas == 1:
            return []
        message = f"the plan is that of one of {replicas} sharding groups of {size} ranks"
        hint = f"pass sharding_group_size={size}, and give the plan to DMPCollection"
        return [Problem(message, hint)]

    def of_ranks(number: int, size: int, per_host: int, inter_host: bool) -> str:
        side = "consecutive ranks" if inter_host else "ranks whose replicas are neighbours"
        return f"{number} sharding groups of {size} {side}, {per_host} of a group on each host"

    theirs = of_ranks(replicas, size, per_host, inter_host)
    ours = of_ranks(groups.replicas, groups.size, groups.per_host, groups.inter_host)
    one = replicas == groups.replicas == 1  # which has no replicas
    if theirs == ours or (one and (size, per_host) == (groups.size, groups.per_host)):
        return []
    hint = f"plan again with --gpus {groups.world_size} --set replicas={groups.replicas}, or pass "
    hint += "the sharding_group_size, use_inter_host_allreduce and local_size of the plan"
    return [Problem(f"the plan is for {theirs}, and there are {ours}", hint)]
