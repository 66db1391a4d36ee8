"""TorchRec's planner, by the Go program or its service: rank 0 plans, all ranks get the plan.

every rank   collective_plan
rank 0         the plan of plan_loader, if it has one; else
               model -> tables.json -> neuroshard plan, or the service at url -> plan.json
               callbacks, if there are any, change the plan
all            broadcast: the plan, or what went wrong
every rank     plan.json -> ShardingPlan for its own model
all            exchange what went wrong there
every rank   the same plan, or an error: no rank is left waiting
"""

from __future__ import annotations

import json
import logging
import math
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch.distributed as dist
from torch import nn

from . import _modules as modules
from . import _torchrec as torchrec
from . import (
    baseline,
    fingerprint,
    flags,
    groups,
    memory,
    options,
    parts,
    pipelines,
    requests,
    service,
)
from . import binary as program
from . import fixed as fixed_tables
from . import topology as clusters
from .agree import together
from .errors import (
    BinaryError,
    InputError,
    NeuroShardError,
    Problem,
    escaped,
    quote,
)
from .fixed import FixedTable
from .plans import load_plan
from .tables import Fields, Json, Read, encoded, read_model, write_whole

log = logging.getLogger("neuroshard")

TIMEOUT = 300.0
"""Seconds that the program may take by default: less than the ten minutes after which
NCCL ends ranks that wait."""

FORMULAS = f"torchrec-{torchrec.RELEASE}"
"""The model of plans without a profile: the formulas of TorchRec's own estimator, and its count of
bytes, in the release in use."""

PROFILE = "torchrec"
"""The device profile if none is given: a device with TorchRec's default memory and bandwidths, on
which nothing is simulated. Costs are those of TorchRec's formulas."""


class NeuroShardPlanner(parts.EmbeddingPlannerBase):  # type: ignore[misc] # it is untyped
    """Plans with the program ``neuroshard`` or with its service; takes the place of
    TorchRec's EmbeddingShardingPlanner, with the same arguments::

        planner = NeuroShardPlanner(topology=topology, batch_size=8192, constraints=constraints)
        model = DistributedModelParallel(model, plan=planner.collective_plan(model, sharders))

    or with a device profile, for costs that neuroshard's model of the device predicts, and for
    all bytes that a step takes::

        planner = NeuroShardPlanner(profile="a100-80", batch_per_rank=8192, sample=batch)

    ``enumerator``, ``proposer``, ``partitioner`` and ``performance_model`` are parts of
    TorchRec's search, which is not run: TorchRec's defaults are taken and change nothing,
    all others are refused. docs/TORCHREC.md explains the other options. Only rank 0 needs what
    tables are made of (``sample``, ``pooling_factors``, ``optimizer``, ``access``, ``ignore``);
    all ranks pass ``fixed``.

    InputError lists all options that contradict each other. After a plan was made, ``report`` has
    the program's report, on rank 0. The plan's warnings go to the log ``neuroshard``. What
    ``plan`` and ``collective_plan`` raise is TorchRec's PlannerError, with its ``error_type``.
    """

    def __init__(
        self,
        topology: Any = None,
        batch_size: int | None = None,
        enumerator: Any = None,
        storage_reservation: Any = None,
        proposer: Any = None,
        partitioner: Any = None,
        performance_model: Any = None,
        stats: Any = None,
        constraints: Mapping[str, Any] | None = None,
        debug: bool = True,
        callbacks: Sequence[Callable[[list[Any]], list[Any]]] | None = None,
        timeout_seconds: int | None = None,
        plan_loader: Any = None,
        *,
        profile: str | None = None,
        batch_per_rank: int | None = None,
        sample: Any = None,
        pooling_factors: Mapping[str, float] | None = None,
        optimizer: str | None = None,
        access: Mapping[str, Json] | None = None,
        ignore: Collection[str] = (),
        fixed: Mapping[str, FixedTable] | None = None,
        heuristical_storage_reservation_percentage: float = flags.SHARE,
        sharding_group_size: int | str | None = None,
        use_inter_host_allreduce: bool = False,
        sync_every: int = 1,
        world_size: int | None = None,
        devices_per_host: int | None = None,
        device_type: str | None = None,
        binary: str | os.PathLike[str] | None = None,
        url: str | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        name: str | None = None,
        arguments: Sequence[str] = (),
        from_plan: str | os.PathLike[str] | None = None,
        max_bytes: str | None = None,
        pipeline: Any = None,
        measured_memory: Any = None,
        timeout: float = TIMEOUT,
        keep: str | os.PathLike[str] | None = None,
        torchrec_baseline: bool = False,
    ) -> None:
        given = SimpleNamespace(**{k: v for k, v in locals().items() if k != "self"})
        problems = [
            *parts.problems(enumerator, proposer, partitioner, performance_model),
            *flags.problems(given),
            *fixed_tables.problems(fixed),
        ]
        if problems:
            raise InputError(problems)
        batch_size = batch_size if batch_size is not None else batch_per_rank
        batch_size, constraints, self._differences = parts.of_enumerator(
            enumerator, topology, batch_size, constraints
        )
        given.arguments = list(arguments)
        given.pipeline = pipelines.spec(pipeline)
        self._overhead = memory.overhead(measured_memory)
        for file in ("token_file", "from_plan"):
            if (path := getattr(given, file)) is not None:
                setattr(given, file, os.fsdecode(path))
        self._given = given
        self._given_topology = topology
        self._given_batch = batch_size
        self._given_enumerator = enumerator
        self._storage_reservation = storage_reservation or parts.HeuristicalStorageReservation(
            percentage=heuristical_storage_reservation_percentage
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
        self._fields: Fields = {}  # of the ParameterShardings of the last plan
        self.report = ""
        self.sync_every = sync_every
        self._groups: groups.Groups | None = None  # of the last plan
        self._clustered = topology is not None or profile is None
        self._fixed = dict(fixed or {})
        self._world_size = world_size
        self._devices_per_host = devices_per_host
        self._device_type = device_type
        if topology is not None:
            self._world_size = topology.world_size
            self._devices_per_host = min(topology.local_world_size, topology.world_size)
            self._device_type = topology.compute_device
        self._keep = None if keep is None else Path(os.fsdecode(keep))

    def hash_planner_context_inputs(self) -> int:
        """Returns the hash of what the last plan was made from: that of TorchRec's planner with
        the same arguments, or another one if options that only this planner has are stated. Of
        these, ``sharding_group_size`` counts by its topology."""
        theirs = int(parts.hash_planner_context_inputs(*self._context()))
        both = fingerprint.joined(theirs, self._hashed_options())
        return theirs if both is None else int(both, 16)

    def hash_planner_context_inputs_str(self) -> str:
        """As ``hash_planner_context_inputs``, as text: what a PlanLoader is compared with."""
        theirs = str(parts.hash_planner_context_inputs_str(*self._context()))
        return fingerprint.joined(theirs, self._hashed_options()) or theirs

    def _hashed_options(self) -> dict[str, Any]:
        """Returns the options that TorchRec's hash does not have, with the constraints in the
        words of tables.json."""
        known = parts.theirs(self._constraints) or {}
        words = {n: c for n, c in (self._constraints or {}).items() if n not in known}
        hashed = {name: getattr(self._given, name) for name in fingerprint.DEFAULTS}
        return hashed | {"constraints": words or None}

    def _fixed_tables(self) -> list[fixed_tables.At]:
        module, sharders = self._planned_for()
        found = modules.collect(module, self._given.ignore, sharders)[0]
        return fixed_tables.left_out(found, self._fixed)[1]

    def _load(
        self,
        plan: Json,
        module: nn.Module,
        sharders: Sequence[Any] | None,
        env: Any,
        fields: Fields,
    ) -> Any:
        world_size = env.size() if isinstance(env, dist.ProcessGroup) else env.world_size
        if self._given.sharding_group_size is not None:
            self._take_groups(plan["world_size"], world_size)
        made = load_plan(
            plan,
            module,
            env,
            local_size=self._per_host(world_size),
            device_type=self._device_type,
            ignore=self._given.ignore,
            sharders=sharders,
            sharding_group_size=None if self._groups is None else self._groups.size,
            use_inter_host_allreduce=self._groups is not None and self._groups.inter_host,
            fixed=self._fixed,
        )
        torchrec.add_fields(made, fields)
        return made

    # Sharding groups.

    @property
    def sharding_group_size(self) -> int | str | None:
        """The ranks of a sharding group, for ``DMPCollection(sharding_group_size=...)``: as
        stated, or, if "auto" is stated, as chosen by the last plan."""
        return self._given.sharding_group_size if self._groups is None else self._groups.size

    @property
    def dmp_collection_options(self) -> dict[str, Any]:
        """The options of DMPCollection that say how the ranks divide into the groups of the
        last plan: world_size, sharding_group_size, node_group_size and
        use_inter_host_allreduce. InputError before there is a plan."""
        found = self._groups
        if found is None:
            message = "there are no sharding groups before there is a plan"
            hint = "pass sharding_group_size=, and call plan or collective_plan first"
            raise InputError([Problem(message, hint)])
        return {
            "world_size": found.world_size,
            "sharding_group_size": found.size,
            "node_group_size": found.per_host,
            "use_inter_host_allreduce": found.inter_host,
        }

    def _take_groups(self, size: int | None, ranks: int) -> None:
        if size is None:
            self._groups = None
            return
        inter_host = self._given.use_inter_host_allreduce
        found, problems = groups.Groups.of(ranks, self._per_host(ranks), size, inter_host)
        if problems:
            raise InputError(problems)
        if found != self._groups and isinstance(self._given_enumerator, options.SearchSpace):
            self._given_enumerator = None  # it is that of another topology
        self._groups = found

    def _divide(self, world_size: int) -> None:
        """Takes over the size of the sharding groups that is stated."""
        stated = self._given.sharding_group_size
        self._take_groups(stated if isinstance(stated, int) else None, world_size)
        if unused := groups.unused(self._given, world_size):
            raise InputError(unused)

    def _per_host(self, world_size: int) -> int:
        return self._devices_per_host or torchrec.get_local_size(world_size)

    def _made(self, module: nn.Module, sharders: Sequence[Any] | None, world_size: int) -> Json:
        """Has the program or the service plan, and returns the export of the plan."""
        batch = self._batch() * world_size
        stated = flags.stated(self._given.arguments, "--types")
        every = flags.SHARDING_TYPES if self._given.profile else requests.every_type()
        preferred = () if stated else every
        read = read_model(
            module,
            batch=batch,
            sample=self._given.sample,
            pooling_factors=self._given.pooling_factors,
            optimizer=self._given.optimizer,
            sharders=sharders,
            access=self._given.access,
            constraints=self._constraints,
            ignore=self._given.ignore,
            device_type=self._device_type,
            preferred=preferred,
            ranks=world_size,
            fixed=self._fixed,
            group=None if self._groups is None else self._groups.size,
        )
        self._fields = read.fields
        types = [] if stated else flags.default_types(read.tables["tables"], read.preferred)
        # TorchRec's estimator of times does not look at output_dtype.
        exchanged = read.codecs if self._formulas() else read.comm_precision
        precision = flags.comm_precision(self._given.arguments, exchanged)
        cluster = [
            *self._cluster(world_size, read),
            *groups.arguments(self._given, world_size),
            *(() if self._timeout_seconds is None else ("--budget", f"{self._timeout_seconds}s")),
            # Beside an old plan, the batch of that plan counts unless one is stated.
            *(() if self._given.from_plan is None else ("--batch", str(read.tables["batch"]))),
            *(
                ()
                if self._given.pipeline is None
                else ("--set", f"pipeline={self._given.pipeline}")
            ),
            *(() if self._overhead is None else ("--set", f"allocator_overhead={self._overhead}")),
            *("--engine", "torchrec"),  # it trains, stores and loads such plans
        ]
        cluster = service.without(cluster, self._given.arguments)
        by = self._by_program if self._given.url is None else self._by_service
        more = [*types, *precision, *self._given.arguments]
        with tempfile.TemporaryDirectory(prefix="neuroshard") as folder:
            if self._given.torchrec_baseline:
                more += self._beside(read.tables, cluster, more, Path(folder))
            plan, exported = by(read.tables, cluster, more)
        if self._given.sharding_group_size is not None:
            self._take_groups(exported["world_size"], world_size)
        self._leave("plan.json", plan)
        self._leave("torchrec_plan.json", json.dumps(exported).encode())
        for warning in exported["provenance"]["warnings"]:
            log.warning("%s", escaped(warning))
        return exported

    def _formulas(self) -> bool:
        """Returns whether costs are those of TorchRec's formulas."""
        model = flags.value(self._given.arguments, "--model") or (
            "" if self._given.profile else FORMULAS
        )
        return model.partition("-")[0] == "torchrec"

    def _cluster(self, world_size: int, read: Read) -> list[str]:
        """Returns the arguments that describe the cluster and how costs are estimated."""
        map_bytes = flags.reserved(self._given.arguments, read.map_bytes)
        costs = ["--gpu", self._given.profile or PROFILE]
        if self._given.profile is None:
            costs += ["--model", FORMULAS, "--set", f"accounting={FORMULAS}"]
        if not self._clustered:
            local = str(self._per_host(world_size))
            reserve = ["--set", f"reserve_fixed={map_bytes}B"] if map_bytes else []
            hosts = ["--set", f"devices_per_host={local}"]
            return ["--gpus", str(world_size), *hosts, *reserve, *costs]
        found = clusters.request(
            self._whole_topology,
            self._storage_reservation,
            self._batch(),
            *self._planned_for(),
            parts.theirs(self._constraints),
            flags.host_memory(read.tables["tables"]),
            map_bytes,
            self._formulas(),
        )
        for warning in found.warnings:
            log.warning("%s", warning)
        if self._groups is not None:  # what is reserved is asked for by the group's topology
            self._reserve()
        return [*found.arguments, *costs]

    def _beside(
        self, tables: Json, cluster: Sequence[str], more: Sequence[str], folder: Path
    ) -> list[str]:
        """Lets TorchRec's planner make a plan for the job, and returns the arguments that put its
        plan into the report."""
        binary = program.find(self._given.binary)
        topology = self._topology if self._clustered else None
        if topology is None:
            # The program knows the memory of the profile. Any plan states it.
            short = ("--set", "max_evaluations=1", "--set", "baselines=false", "-o", "-")
            command = ["plan", "-", *service.without([*cluster, *more], short), *short]
            plan = program.run(binary, command, self._given.timeout, encoded(tables))
            topology = baseline.topology_of(json.loads(plan)["cluster"])
        job = baseline.Job(
            topology=topology,
            batch_size=self._batch(),
            constraints=baseline.with_factors(
                self._constraints or {}, baseline.pooling_factors(tables), baseline.bags(tables)
            ),
            storage_reservation=self._storage_reservation,
            limit_s=math.ceil(self._timeout_seconds or self._given.timeout),
        )
        file, arguments = baseline.compared(
            lambda: baseline.plan(*self._planned_for(), job),
            ranks=topology.world_size,
            per_host=min(topology.local_world_size, topology.world_size),
            tables=tables,
            binary=binary,
            profile=PROFILE,
            timeout=self._given.timeout,
            folder=folder,
        )
        self._leave(file.name, file.read_bytes())
        return arguments

    def _by_program(
        self, tables: Json, cluster: Sequence[str], more: Sequence[str]
    ) -> tuple[bytes, Json]:
        """Has the program plan; returns the plan file, and what the program exports of it."""
        content = encoded(tables)
        binary = program.find(self._given.binary)
        with tempfile.TemporaryDirectory(prefix="neuroshard") as folder:
            target = Path(folder, "plan.json")
            self._leave("tables.json", content)
            command = [*self._command(), *cluster, "-o", str(target), *more]
            timeout = self._given.timeout + (self._timeout_seconds or 0)
            report = program.run(binary, command, timeout, content)
            # The folder is gone when the report is read, so the report names no file of it.
            self.report = report.removeprefix("standard input: ").replace(f"{folder}{os.sep}", "")
            if not target.exists():
                message = f"{quote(binary, 200)} reported no error and wrote no plan"
                raise BinaryError([Problem(message, "is it the program neuroshard?")])
            plan = target.read_bytes()
        return plan, program.export(plan, binary)

    def _by_service(
        self, tables: Json, cluster: Sequence[str], more: Sequence[str]
    ) -> tuple[bytes, Json]:
        """Has the service plan; returns the plan file, and what the service exports of it."""
        assert self._given.url is not None
        fields = service.fields_of([*cluster, *more])
        token = self._given.token
        if self._given.token_file is not None:
            token = service.read_token(self._given.token_file)
        self._leave("tables.json", encoded(tables))
        problem: Json = {"tables": tables, "overrides": fields["overrides"]}
        if self._given.name is not None:
            problem["name"] = self._given.name
        body: Json = {"problem": problem, "options": fields["options"]}
        path = "/v1/plan"
        if self._given.from_plan is not None:
            path = "/v1/replan"
            body["old"] = json.loads(Path(self._given.from_plan).read_bytes())
            if self._given.max_bytes is not None:
                body["options"]["max_bytes"] = self._given.max_bytes
        asked = service.Service(self._given.url, token, self._given.timeout)
        answer = asked.ask(path, body)
        self.report = service.report(self._given.url, answer)
        plan = json.dumps(answer["plan"], indent=1).encode()
        return plan, asked.ask(f"/v1/plans/{answer['id']}/torchrec")

    def _command(self) -> list[str]:
        """Returns the command of the program and what is its own."""
        if self._given.from_plan is None:
            return ["plan", "-", "--full"]
        if self._given.max_bytes is None:
            return ["plan", "-", "--full", "--from", self._given.from_plan]
        return ["replan", self._given.from_plan, "-", "--max-bytes", self._given.max_bytes]

    def _leave(self, name: str, content: bytes) -> None:
        """Writes a file into the folder ``keep``, if there is to be one."""
        if self._keep is not None:
            self._keep.mkdir(parents=True, exist_ok=True)
            write_whole(self._keep / name, content)

    def _batch(self) -> int:
        batch = self._given_batch
        if batch is None:
            samples = self._given.sample
            if isinstance(samples, Mapping):
                samples = next(iter(samples.values()), None)
            if isinstance(samples, torchrec.KeyedJaggedTensor):
                batch = int(samples.stride())
            elif self._given.profile is None:
                batch = parts.BATCH_SIZE  # TorchRec's
            else:
                hint = "pass batch_per_rank, or a sample batch of one rank"
                raise InputError([Problem("the batch of a rank is not known", hint)])
        return batch

    def _ranks(self, pg: dist.ProcessGroup | None = None) -> int:
        if pg is not None and not self._clustered:
            return pg.size()
        if self._world_size is not None:
            if pg is not None and pg.size() != self._world_size:
                message = f"the topology is of {self._world_size} ranks, and the process group "
                hint = "pass the topology of all ranks; for DMPCollection also "
                hint += f"sharding_group_size={self._world_size}, if it is that of a sharding group"
                raise InputError([Problem(f"{message}has {pg.size()}", hint)])
            return self._world_size
        if pg is not None:
            return pg.size()
        if not dist.is_initialized():
            hint = "pass world_size or topology, or call torch.distributed.init_process_group first"
            raise InputError([Problem("the number of ranks is not known", hint)])
        return dist.get_world_size()

    # What TorchRec's EmbeddingPlannerBase and code around it read.

    @property
    def _topology(self) -> Any:
        """The topology of the ranks that hold all tables once: what TorchRec calls the
        planner's topology."""
        whole = self._whole_topology
        if self._groups is None or self._groups.replicas == 1:
            return whole
        return clusters.of_group(whole, self._groups.size, self._groups.per_host)

    @property
    def _whole_topology(self) -> Any:
        if self._given_topology is None:
            world_size = self._planning_for or self._ranks()
            self._given_topology = parts.Topology(
                world_size=world_size,
                local_world_size=self._per_host(world_size),
                compute_device=self._device_type or str(torchrec.get_device_type()),
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

    def _planned_for(self) -> tuple[nn.Module, list[Any]]:
        """Returns the model and the sharders of the plan that is made, or was made last."""
        assert self._last is not None
        return self._last

    def _search_space(self) -> list[Any]:
        """Returns all that TorchRec's planner would choose from for the last plan's model."""
        if self._last is not None:
            if parts.reserved(self._storage_reservation) is None:
                self._reserve()
            if not isinstance(self._enumerator, options.SearchSpace):
                self._enumerator.enumerate(*self._last)
        found = self._enumerator.last_stored_search_space
        if found is None or parts.reserved(self._storage_reservation) is None:
            hint = "call plan or collective_plan first"
            raise InputError([Problem("there is no hash before there is a plan", hint)])
        return list(found)

    def _reserve(self) -> None:
        """Has the reservation count what it keeps for the model."""
        module, sharders = self._planned_for()
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
                return self._load(made, module, sharders, env, self._fields)
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
                told = [{"plan": plan, "groups": self._groups and self._groups.size}]
                if isinstance(plan, dict):  # the ranks run one plan, as in TorchRec
                    told[0]["fields"] = self._fields
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
        self._divide(world_size)
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
            made = self._searched(module, sharders, world_size)
            self._num_proposals, self._num_plans = 1, 1
            self._best = self._lazily(made, world_size)
        if self._callbacks or chosen is not None:
            chosen = self._best_plan or []
            for callback in self._callbacks:
                chosen = callback(chosen)
            self._best = chosen
            made = options.sharding_plan(chosen, self._topology)
            made = fixed_tables.merge(made, self._fixed_tables())
        if parts.wanted(self._stats):
            self._tell(time.perf_counter() - start)
        return made

    def _searched(self, module: nn.Module, sharders: Sequence[Any] | None, world_size: int) -> Json:
        """Makes the plan; if nothing fits, the error says why in TorchRec's terms: whether the
        weights of the tables take more than all devices have, or only cannot be placed."""
        try:
            return self._made(module, sharders, world_size)
        except NeuroShardError as e:
            if e.nothing_fits:
                left = parts.reserved(self._storage_reservation) or self._topology
                memory = "ddr" if left.compute_device == "cpu" else "hbm"
                enough = sum(getattr(d.storage, memory) for d in left.devices)
                kinds, few = parts.PlannerErrorType, options.weights(*self._planned_for()) <= enough
                e.error_type = kinds.STRICT_CONSTRAINTS if few else kinds.INSUFFICIENT_STORAGE
            raise

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
        fixed = {(a.path, a.table.name) for a in self._fixed_tables()}
        placed = [o for o in self._search_space() if (o.path, o.name) not in fixed]
        return options.extracted(placed, loaded, same=theirs is not None) or None

    def _lazily(self, made: Json, world_size: int) -> Callable[[], list[Any]]:
        """Returns what makes the ShardingOptions of an export."""
        module, sharders = self._planned_for()
        fields = self._fields

        def best() -> list[Any]:
            env = torchrec.ShardingEnv.from_local(world_size, 0)
            plan = self._load(made, module, sharders, env, fields)
            plan = fixed_tables.drop(plan, self._fixed_tables())
            constraints = parts.theirs(self._constraints)
            chosen = options.options(
                plan, module, sharders, self._topology, self._batch_size, constraints
            )
            return options.estimated(chosen, self._enumerator, sharders)

        return best

    def _tell(self, time_s: float) -> None:
        """Tells the Stats of the plan."""
        if parts.reserved(self._storage_reservation) is None:
            self._reserve()
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
                sharders=self._planned_for()[1],
                enumerator=self._enumerator,
                debug=self._debug,
                debug_stats=parts.PlanDebugStats(
                    planner_type=type(self).__name__, timeout_seconds=self._timeout_seconds
                ),
            )


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
