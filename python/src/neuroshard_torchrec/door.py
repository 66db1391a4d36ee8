"""TorchRec's EmbeddingPlannerBase, with neuroshard as the search: the arguments of TorchRec's
planner, the attributes that scripts read, and the steps to a plan.

    sharders == []      -> an empty plan
    plan_loader         -> an earlier plan, if its hash is that of this job
    else                -> the export that ``_made`` returns, as a ShardingPlan by ``_load``
    callbacks           -> change the plan, as a list of TorchRec's ShardingOptions
    stats               -> get the plan

ShardingOptions, their estimates and TorchRec's search space take longer than planning, so they
are made only when something reads them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch import nn

from . import _torchrec as torchrec
from . import options, parts
from .agree import together
from .errors import InputError, NeuroShardError, Problem, escaped

Json = dict[str, Any]


@contextmanager
def _raised() -> Iterator[None]:
    """Raises TorchRec's own PlannerError as an error of this package, too."""
    try:
        yield
    except parts.PlannerError as e:
        if isinstance(e, NeuroShardError):
            raise
        raise InputError([Problem(str(e))], e.error_type) from e


def _told(e: Exception) -> NeuroShardError:
    """Returns an error of rank 0 as the other ranks raise it."""
    if isinstance(e, NeuroShardError):
        return e
    if isinstance(e, parts.PlannerError):
        return InputError([Problem(str(e))], e.error_type)
    return NeuroShardError([Problem(escaped(f"rank 0: {type(e).__name__}: {e}"))])


class Door(parts.EmbeddingPlannerBase):  # type: ignore[misc] # it is untyped
    """A planner that makes plan files, as a subclass of TorchRec's EmbeddingPlannerBase. The
    constructor of that class makes a topology, which needs a process group. This class makes
    the topology when it is read, so a planner needs no process group before."""

    def __init__(
        self,
        topology: Any,
        batch_size: int | None,
        enumerator: Any,
        storage_reservation: Any,
        stats: Any,
        constraints: Mapping[str, Any] | None,
        debug: bool,
        callbacks: Sequence[Callable[[list[Any]], list[Any]]] | None,
        timeout_seconds: int | None,
        plan_loader: Any,
        reserved_share: float,
    ) -> None:
        batch_size, constraints, self._differences = parts.of_enumerator(
            enumerator, topology, batch_size, constraints
        )
        self._given_topology = topology
        self._given_batch = batch_size
        self._given_enumerator = enumerator
        self._storage_reservation = storage_reservation or parts.HeuristicalStorageReservation(
            percentage=reserved_share
        )
        self._stats = parts.stats_of(stats)
        self._constraints = constraints
        self._debug = debug
        self._callbacks = list(callbacks or ())
        self._timeout_seconds = timeout_seconds
        self.plan_loader = plan_loader
        self._num_proposals = 0
        self._num_plans = 0
        self._planning_for: int | None = None  # the number of ranks
        self._best: Any = None  # the last plan's ShardingOptions, or what makes them
        self._last: tuple[nn.Module, list[Any]] | None = None  # what the last plan is for

    # What a subclass does.

    def _ranks(self, pg: dist.ProcessGroup | None = None) -> int:
        """Returns the number of ranks to plan for."""
        raise NotImplementedError

    def _per_host(self, world_size: int) -> int:
        """Returns the number of ranks of a host."""
        raise NotImplementedError

    def _device(self) -> str:
        """Returns the type of the ranks' devices."""
        raise NotImplementedError

    def _batch(self) -> int:
        """Returns the samples of a step on one rank."""
        raise NotImplementedError

    def _made(self, module: nn.Module, sharders: Sequence[Any] | None, world_size: int) -> Json:
        """Makes the plan, and returns its export."""
        raise NotImplementedError

    def _fields(self, module: nn.Module, sharders: Sequence[Any] | None) -> Any:
        """Returns what this rank's constraints and sharders state beside an export."""
        raise NotImplementedError

    def _load(
        self,
        plan: Json,
        module: nn.Module,
        sharders: Sequence[Any] | None,
        env: Any,
        fields: Any = None,
    ) -> Any:
        """Returns the ShardingPlan of an export, with the fields of ``_fields``, by default
        this rank's own."""
        raise NotImplementedError

    def _whole(self, plan: Any, module: nn.Module, sharders: Sequence[Any]) -> Any:
        """Returns a ShardingPlan with the tables that no search places."""
        return plan

    def _placed(self, plan: Any, module: nn.Module, sharders: Sequence[Any]) -> Any:
        """Returns a ShardingPlan without the tables that no search places."""
        return plan

    # What TorchRec's EmbeddingPlannerBase and code around it read.

    @property
    def _topology(self) -> Any:
        """The topology of the ranks that hold all tables once: what TorchRec calls the
        planner's topology."""
        return self._of_group(self._whole_topology)

    def _of_group(self, whole: Any) -> Any:
        """Returns the topology of a sharding group, or the whole one without groups."""
        return whole

    def _groups_told(self) -> int | None:
        """Returns what the other ranks must know of the groups of a plan that is no file."""
        return None

    def _take_groups(self, size: int | None, ranks: int) -> None:
        """Takes over what the first rank sent about the groups."""

    @property
    def _whole_topology(self) -> Any:
        if self._given_topology is None:
            world_size = self._planning_for or self._ranks()
            self._given_topology = parts.Topology(
                world_size=world_size,
                local_world_size=self._per_host(world_size),
                compute_device=self._device(),
            )
        return self._given_topology

    @property
    def _batch_size(self) -> int:
        return self._batch()

    @property
    def _enumerator(self) -> Any:
        if self._given_enumerator is None:
            self._given_enumerator = options.SearchSpace(
                topology=self._topology,
                batch_size=self._batch_size,
                constraints=parts.theirs(self._constraints),
            )
            if self._last is not None:
                self._given_enumerator.ask(*self._last)
        return self._given_enumerator

    @property
    def _best_plan(self) -> list[Any] | None:
        if callable(self._best):
            self._best = self._best()
        return self._best

    def get_selected_options(self) -> list[Any]:
        """Returns the ShardingOptions of the last plan, for TorchRec's PlannerExecutor; none on
        ranks that did not plan."""
        return list(self._best_plan or [])

    def get_search_space(self) -> list[Any] | None:
        """Returns all that TorchRec's planner would choose from for the last plan's model; None
        before there was a plan. TorchRec's enumerator runs for it, once a plan."""
        return None if self._last is None else self._search_space()

    def hash_planner_context_inputs(self) -> int:
        """Returns TorchRec's hash of what the last plan was made from: the one of TorchRec's
        planner with the same arguments. TorchRec's enumerator runs for it, once a plan."""
        return int(parts.hash_planner_context_inputs(*self._context()))

    def hash_planner_context_inputs_str(self) -> str:
        """As ``hash_planner_context_inputs``, as text: what a PlanLoader is compared with."""
        return str(parts.hash_planner_context_inputs_str(*self._context()))

    def _context(self) -> tuple[Any, ...]:
        """Returns what TorchRec hashes. It cannot hash constraints in the words of tables.json."""
        self._search_space()
        return (
            self._topology,
            self._batch_size,
            self._enumerator,
            self._storage_reservation,
            parts.theirs(self._constraints),
        )

    def _search_space(self) -> list[Any]:
        """Returns all that TorchRec's planner would choose from for the last plan's model."""
        if self._last is not None:
            module, sharders = self._last
            if parts.reserved(self._storage_reservation) is None:
                self._reserve(module, sharders)
            if not isinstance(self._enumerator, options.SearchSpace):
                self._enumerator.enumerate(module, sharders)
        found = self._enumerator.last_stored_search_space
        if found is None or parts.reserved(self._storage_reservation) is None:
            hint = "call plan or collective_plan first"
            raise InputError([Problem("there is no hash before there is a plan", hint)])
        return list(found)

    def _reserve(self, module: nn.Module, sharders: Sequence[Any]) -> None:
        """Has the reservation count what it keeps for this model."""
        self._storage_reservation.reserve(
            topology=self._topology,
            batch_size=self._batch_size,
            module=module,
            sharders=list(sharders),
            constraints=parts.theirs(self._constraints),
        )

    # Planning.

    def plan(self, module: nn.Module, sharders: Sequence[Any] | None = None) -> Any:
        """Returns the plan for the module, made by this process alone. NeuroShardError
        says what is wrong: InputError, BinaryError, ServiceError or PlanError; each is
        TorchRec's PlannerError, too. With an empty list of sharders the plan is empty."""
        with _raised():
            world_size = self._ranks()
            made = self._planned(module, sharders, world_size)
            if isinstance(made, dict):
                env = torchrec.ShardingEnv.from_local(world_size, 0)
                return self._load(made, module, sharders, env)
            return made

    def collective_plan(
        self,
        module: nn.Module,
        sharders: Sequence[Any] | None = None,
        pg: dist.ProcessGroup | None = None,
    ) -> Any:
        """Returns the plan for the module; all ranks of the group call it.
        Without ``pg`` it is the default group. The first rank makes the plan, and an
        error there is raised on all ranks. An error on another rank is raised there,
        and as RankError on the others. Each is TorchRec's PlannerError, too."""
        with _raised():
            return self._collective(module, sharders, pg)

    def _collective(
        self, module: nn.Module, sharders: Sequence[Any] | None, pg: dist.ProcessGroup | None
    ) -> Any:
        if pg is None:
            if not dist.is_initialized():
                hint = "call torch.distributed.init_process_group first, or use plan"
                raise InputError([Problem("there is no process group", hint)])
            pg = dist.group.WORLD
        assert pg is not None
        told: list[Any] = [None]
        failure: Exception | None = None
        if dist.get_rank(pg) == 0:
            try:
                plan = self._planned(module, sharders, self._ranks(pg))
                told = [{"plan": plan, "groups": self._groups_told()}]
                if isinstance(plan, dict):  # the ranks run one plan, as in TorchRec
                    told[0]["fields"] = self._fields(module, sharders)
            except Exception as e:  # of any type: the other ranks wait for it
                failure = e
                told = [_told(e)]
        dist.broadcast_object_list(told, src=dist.get_global_rank(pg, 0), group=pg)
        if failure is not None:
            raise failure
        if isinstance(told[0], NeuroShardError):
            raise told[0]
        plan = told[0]["plan"]
        if not isinstance(plan, dict):  # of a loader or of callbacks, for all ranks
            self._take_groups(told[0]["groups"], pg.size())
            return plan
        loaded = None
        try:
            loaded = self._load(plan, module, sharders, pg, told[0]["fields"])
        except Exception as e:
            failure = e
        together(pg, failure)
        return loaded

    def _planned(self, module: nn.Module, sharders: Sequence[Any] | None, world_size: int) -> Any:
        """Returns an export, or a ShardingPlan that is empty, loaded, or of callbacks."""
        if self._differences:
            raise InputError(self._differences)
        start = time.perf_counter()
        self._num_proposals, self._num_plans = 0, 0
        self._best, self._last, self._planning_for = None, None, world_size
        if sharders is not None and not sharders:
            return torchrec.ShardingPlan({})
        usual = torchrec.get_default_sharders() if sharders is None else list(sharders)
        self._last = (module, usual)
        if isinstance(self._given_enumerator, options.SearchSpace):
            self._given_enumerator.ask(module, usual)
        made: Any = None
        if (chosen := self._loaded()) is not None:
            self._best = chosen
        else:
            made = self._searched(module, sharders, usual, world_size)
            self._num_proposals, self._num_plans = 1, 1
            self._best = self._lazily(made, module, usual, world_size)
        if self._callbacks or chosen is not None:
            chosen = self._best_plan or []
            for callback in self._callbacks:
                chosen = callback(chosen)
            self._best = chosen
            made = self._whole(options.sharding_plan(chosen, self._topology), module, usual)
        if parts.wanted(self._stats):
            self._tell(made, module, usual, world_size, time.perf_counter() - start)
        return made

    def _searched(
        self,
        module: nn.Module,
        sharders: Sequence[Any] | None,
        usual: Sequence[Any],
        world_size: int,
    ) -> Json:
        """Makes the plan; if nothing fits, the error says why in TorchRec's terms."""
        try:
            return self._made(module, sharders, world_size)
        except NeuroShardError as e:
            if not e.nothing_fits:
                raise
            e.error_type = self._why(module, usual)
            raise

    def _why(self, module: nn.Module, sharders: Sequence[Any]) -> parts.PlannerErrorType:
        """Returns whether the tables take more than all devices have, by TorchRec's count of
        whole tables, or whether they only cannot be placed."""
        try:
            tables = options.whole(module, sharders, self._topology, self._batch_size)
            chosen = options.estimated(tables, self._enumerator, sharders)
        except Exception:  # the estimate is for the type of an error that is raised anyway
            return parts.PlannerErrorType.INSUFFICIENT_STORAGE
        if parts.fits(chosen, self._topology, self._storage_reservation):
            return parts.PlannerErrorType.STRICT_CONSTRAINTS
        return parts.PlannerErrorType.INSUFFICIENT_STORAGE

    def _loaded(self) -> list[Any] | None:
        """Returns the plan of the loader, None if there is none. As in TorchRec, its hash must
        be that of this planner, and its tables those of the search space."""
        if self.plan_loader is None:
            return None
        theirs = self.plan_loader.plan_context_hash()
        if theirs is not None and theirs != (ours := self.hash_planner_context_inputs_str()):
            message = (
                "planner input mismatch: the plan of plan_loader was made from other arguments "
                f"or for another model: its hash is {theirs}, and that of this planner is {ours}"
            )
            hint = "leave plan_loader out to plan anew"
            mismatch = parts.PlannerErrorType.PLANNER_INPUT_CONTEXT_MISMATCH
            raise InputError([Problem(message, hint)], mismatch)
        loaded = self.plan_loader.load()
        if loaded is None:
            return None
        same = theirs is not None
        return options.extracted(self._search_space(), loaded, same) or None

    def _lazily(
        self, made: Json, module: nn.Module, sharders: Sequence[Any], world_size: int
    ) -> Callable[[], list[Any]]:
        """Returns what makes the ShardingOptions of an export."""

        def best() -> list[Any]:
            env = torchrec.ShardingEnv.from_local(world_size, 0)
            plan = self._placed(self._load(made, module, sharders, env), module, sharders)
            constraints = parts.theirs(self._constraints)
            chosen = options.options(
                plan, module, sharders, self._topology, self._batch_size, constraints
            )
            return options.estimated(chosen, self._enumerator, sharders)

        return best

    def _tell(
        self, made: Any, module: nn.Module, sharders: Sequence[Any], world_size: int, time_s: float
    ) -> None:
        """Tells the Stats of the plan."""
        if parts.reserved(self._storage_reservation) is None:
            self._reserve(module, sharders)
        chosen = self._best_plan or []
        for stats in self._stats:
            stats.log(
                sharding_plan=options.sharding_plan(chosen, self._topology),
                topology=self._topology,
                batch_size=self._batch_size,
                storage_reservation=self._storage_reservation,
                num_proposals=self._num_proposals,
                num_plans=self._num_plans,
                run_time=time_s,
                best_plan=chosen,
                constraints=parts.theirs(self._constraints),
                sharders=list(sharders),
                enumerator=self._enumerator,
                debug=self._debug,
                debug_stats=parts.PlanDebugStats(
                    planner_type=type(self).__name__, timeout_seconds=self._timeout_seconds
                ),
            )
