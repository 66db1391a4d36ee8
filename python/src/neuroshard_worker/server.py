"""The conversation: requests in, one response each, in order."""

from __future__ import annotations

import gc
import logging
from typing import Any, BinaryIO

import torch

from . import ceilings, device, lookups
from .comm import ONE_PROCESS, TRAVELS, Ranks, summary
from .engines import Engine
from .group import DTYPES, OPTIMIZERS, Group, Mode, Shard
from .reference import ensure_right
from .timing import Plan, Stopwatch, middle
from .wire import (
    INTERNAL,
    VERSION,
    Json,
    LineTooLongError,
    WireError,
    array,
    bad,
    checked,
    encode,
    failure,
    flag,
    integer,
    lines,
    objects,
    out_of_memory,
    parse,
    text,
    unsupported,
)

log = logging.getLogger("neuroshard")

# Bounds of requests: what is above them is a mistake, and must not become an
# allocation.
MOST_BATCH = 1 << 24
MOST_NUMBER = (1 << 63) - 1  # of a table
MOST_ROWS = 1 << 40
MOST_FEATURES = 1 << 12
MOST_REPEATS = 10_000
MOST_GROUP = 1 << 14
MOST_FLUSH = 16 << 30
MOST_START_MS = 60_000.0
GRANULE = 4

RATE = 1e-12
"""Too small to change a weight: every repeat runs on the same numbers, while the
update does all of its work."""


class Fatal(Exception):  # noqa: N818 - not an error of the request
    """The process cannot go on after this response."""

    def __init__(self, response: Json) -> None:
        super().__init__(response)
        self.response = response


class Table:
    """A table that groups may name, with its lookups on the device."""

    def __init__(
        self, rows: int, batch: int, features: int, made: lookups.Lookups, where: torch.device
    ) -> None:
        self.rows = rows
        self.batch = batch
        self.features = features
        self.indices = torch.from_numpy(made.indices).to(where)
        self.offsets = torch.from_numpy(made.offsets).to(where)

    @property
    def bytes(self) -> int:
        return 8 * (len(self.indices) + len(self.offsets))


class Server:
    """A worker between two requests."""

    def __init__(self, engine: Engine, launch: str, ranks: Ranks | None = None) -> None:
        self.engine = engine
        self.device = engine.device
        self.cache_bytes = device.cache_bytes(self.device)
        self.memory_bytes = device.memory_bytes(self.device)
        self.index_bytes = device.index_bytes(self.device)
        self.watch = ranks.watch if ranks else Stopwatch(self.device, launch, self.cache_bytes)
        self.ranks = ranks
        self.plan: Plan | None = None
        self.batch = 0
        self.tables: dict[int, Table] = {}

    def serve(self, stdin: BinaryIO, stdout: BinaryIO) -> None:
        """Answers until stdin ends, or after what the process cannot survive."""

        def write(response: Json) -> None:
            try:
                line = encode(response)
            except ValueError as e:  # a number that is not finite
                error = WireError(INTERNAL, f"the response to {response.get('op')} has {e}")
                line = encode(failure(error, response.get("id", "")))
            stdout.write(line)
            stdout.flush()

        try:
            for line in lines(stdin):
                write(self.answer(line))
        except Fatal as e:
            write(e.response)
            raise
        except LineTooLongError as e:
            write(failure(bad(str(e))))
            raise

    def answer(self, line: bytes) -> Json:
        """Returns the response to one line; Fatal has it where it is the last."""
        request_id = ""
        try:
            q = parse(line)
            request_id = text(q, "id")
            op = text(q, "op")
            handler = self._handlers().get(op)
            if handler is None:
                raise bad(f'op "{op}" is unknown')
            response = {"op": op, **handler(q)}
            if request_id:
                response["id"] = request_id
            return response
        except WireError as e:
            return failure(e, request_id)
        except (MemoryError, RuntimeError) as e:
            return self._broken(e, request_id)
        except Exception as e:
            log.exception("failed")
            return failure(WireError(INTERNAL, f"{type(e).__name__}: {e}"), request_id)

    def _handlers(self) -> dict[str, Any]:
        return {
            "hello": self._hello,
            "init": self._init,
            "tables": self._tables,
            "compute": self._compute,
            "comm": self._comm,
            "ceilings": self._ceilings,
        }

    def _broken(self, e: MemoryError | RuntimeError, request_id: str) -> Json:
        """The response to a failure of PyTorch's, with memory given back."""
        message = str(e).strip().split("\n")[0]
        if isinstance(e, (MemoryError, torch.OutOfMemoryError)) or "allocate memory" in message:
            e.__traceback__ = None  # its frames hold tensors
            self._release()
            return failure(out_of_memory(message or "out of memory"), request_id)
        log.exception("failed")
        response = failure(WireError(INTERNAL, message), request_id)
        accelerator = getattr(torch, "AcceleratorError", ())
        if isinstance(e, accelerator) or "CUDA error" in message or self.ranks is not None:
            # After an error on the device nothing runs on it; after one in a
            # collective the ranks are out of step.
            raise Fatal(response) from e
        return response

    def _release(self) -> None:
        self.engine.release()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    # One method for each request, in the order in which they come.

    def _hello(self, q: Json) -> Json:
        version = integer(q, "v", -(1 << 31), 1 << 31, 0)
        if version != VERSION:
            raise unsupported(
                f"version {version} of the protocol: this worker speaks version {VERSION}"
            )
        kernel = self.engine.kernel
        if self.device.type == "cuda":
            kernel += f", CUDA {torch.version.cuda}, {self.watch.launch} launch"
        caps = ["compute", "ceilings", "weighted", "pools"]
        response: Json = {"v": VERSION, "backend": self.engine.name}
        if self.ranks is not None:
            caps[1:1] = ["comm", *(f"comm_{dtype}" for dtype in TRAVELS if dtype != "fp32")]
            kernel += f"; {self.ranks.kernel}"
            response["ranks"] = self.ranks.size
        response |= {
            "device": device.name(self.device),
            "kernel": kernel,
            "clocks": device.clocks(self.device),
            "caps": [*caps, *self.engine.dtypes, *self.engine.optimizers],
            "measured": True,
            "memory_bytes": self.memory_bytes,
            "cache_bytes": self.cache_bytes,
        }
        if self.engine.lacks:
            response["lacks"] = [f"{optimizer} {dtype}" for optimizer, dtype in self.engine.lacks]
        threads = device.threads(self.device)
        if threads:
            response["threads"] = threads
        return response

    def _init(self, q: Json) -> Json:
        batch = integer(q, "batch", 1, MOST_BATCH)
        plan = Plan(
            warmup=integer(q, "warmup", 0, MOST_REPEATS, 0),
            repeats=integer(q, "repeats", 1, MOST_REPEATS),
            flush_bytes=integer(q, "flush_bytes", 0, MOST_FLUSH, 0),
        )
        cache = text(q, "cache")
        if cache not in ("cold", "warm"):
            raise bad(f'cache: "{cache}" is neither "cold" nor "warm"')
        plan.cold = cache == "cold"
        if plan.flush_bytes > self.memory_bytes:
            raise out_of_memory(f"flush_bytes: {plan.flush_bytes} of {self.memory_bytes}")
        self.tables.clear()
        self.plan = None
        # A kernel that is wrong must show before anything is asked of it; other
        # kinds of operations are checked when they are first asked for.
        ensure_right(self.engine, Mode("sgd", "fp32", False), 64)
        said = self.watch.set(plan)
        self.plan, self.batch = plan, batch
        return {"cache": said}

    def _tables(self, q: Json) -> Json:
        if self.plan is None:
            raise bad("tables before init")
        made: dict[int, Table] = {}
        answers = []
        for t in objects(q, "tables"):
            number_ = integer(t, "t", 0, MOST_NUMBER, 0)
            if number_ in made:
                raise bad(f"table {number_}: twice in one request")
            try:
                held = sum(table.bytes for n, table in self.tables.items() if n not in made)
                held += sum(table.bytes for table in made.values())
                made[number_], answer = self._table(t, self.index_bytes - held)
            except WireError as e:
                raise WireError(e.code, f"table {number_}: {e.message}") from e
            answers.append({"t": number_, **answer})
        self.tables |= made
        return {"tables": answers}

    def _table(self, t: Json, room: int) -> tuple[Table, Json]:
        rows = integer(t, "rows", 1, MOST_ROWS)
        features = integer(t, "features", 0, MOST_FEATURES, 0) or 1
        batch = integer(t, "batch", 0, MOST_BATCH, 0) or self.batch
        bags = features * batch
        if bags > lookups.MAX_BAGS:
            raise bad(f"{features} features of {batch} samples are above {lookups.MAX_BAGS} bags")
        file = text(t, "pool")
        if not file:
            raise unsupported("this worker makes up no lookups: name a file of them as pool")
        made = lookups.read_file(file, rows, bags, room)
        table = Table(rows, batch, features, made, self.device)
        return table, {
            "unique_rows": made.unique,
            "reuse": made.reuse,
            "length_cv": lookups.length_cv_of(made.offsets),
        }

    def _compute(self, q: Json) -> Json:
        if self.plan is None:
            raise bad("compute before init")
        mode, shards, batch = self._group(q)
        rows_bytes = sum(s.rows * mode.row_bytes(s.dim) for s in shards)
        state_bytes = sum(4 * s.rows * mode.state_floats(s.dim) for s in shards)
        if not sum(len(s.indices) for s in shards):
            raise bad("a group without lookups takes no time")
        if rows_bytes + state_bytes > self.memory_bytes:
            raise out_of_memory(
                f"weights and state need {rows_bytes + state_bytes} bytes, "
                f"{self.memory_bytes} are available"
            )
        buffers = Group.bytes_needed(shards, batch, mode.weighted)
        if buffers > self.memory_bytes // 2:
            raise out_of_memory(
                f"lookups, outputs, gradients and the sort need about {buffers} bytes, "
                f"{self.memory_bytes // 2} are available"
            )
        ensure_right(self.engine, mode, max(s.dim for s in shards))
        group = Group(shards, batch, mode.weighted, self.device)
        op = self.engine.prepare(group, mode, RATE)
        forward, backward = self.watch.times([op.forward, op.backward])
        fwd, fwd_iqr = middle(forward)
        bwd, bwd_iqr = middle(backward)
        return {
            "fwd_ms": fwd,
            "bwd_ms": bwd,
            "fwd_iqr": fwd_iqr,
            "bwd_iqr": bwd_iqr,
            "n": len(forward),
            "source": "measured",
        }

    def _group(self, q: Json) -> tuple[Mode, list[Shard], int]:
        mode = self._mode(q)
        members = objects(q, "group")
        if not 1 <= len(members) <= MOST_GROUP:
            raise bad(f"group: {len(members)} members; it has 1 to {MOST_GROUP}")
        shards: list[Shard] = []
        batch = 0
        for m in members:
            number_ = integer(m, "t", 0, MOST_NUMBER, 0)
            table = self.tables.get(number_)
            if table is None:
                raise bad(f"group: table {number_} is not known since the last init")
            dim = integer(m, "dim", GRANULE, 1 << 14)
            if dim % GRANULE:
                raise bad(f"group: dim {dim} of table {number_} is not a multiple of {GRANULE}")
            if dim > self.engine.most_columns:
                raise unsupported(
                    f"dim {dim}: {self.engine.name} here has {self.engine.most_columns} at most"
                )
            if shards and table.batch != batch:
                raise bad(
                    f"group: table {number_} has a batch of {table.batch} samples, others {batch}"
                )
            batch = table.batch
            shards.append(Shard(table.rows, dim, table.features, table.indices, table.offsets))
        return mode, shards, batch

    def _mode(self, q: Json) -> Mode:
        optimizer, dtype = text(q, "opt"), text(q, "dtype")
        if optimizer not in OPTIMIZERS:
            raise bad(f'opt: "{optimizer}" is unknown: one of {", ".join(OPTIMIZERS)}')
        if dtype not in DTYPES:
            raise unsupported(f'dtype: "{dtype}": this worker has {", ".join(DTYPES)}')
        if optimizer not in self.engine.optimizers:
            raise unsupported(f"opt: {self.engine.name} here has no {optimizer}")
        if (optimizer, dtype) in self.engine.lacks:
            raise unsupported(f"opt: {self.engine.name} here has no {optimizer} with {dtype}")
        return Mode(optimizer, dtype, flag(q, "weighted"))

    def _comm(self, q: Json) -> Json:
        if self.plan is None:
            raise bad("comm before init")
        if self.ranks is None:
            raise unsupported(ONE_PROCESS)
        batch = integer(q, "batch", 0, MOST_BATCH, 0) or self.batch
        dims = [integer({"dims": d}, "dims", 0, 1 << 20) for d in array(q, "dims")]
        starts = [checked(x, "start_ms", 0.0, MOST_START_MS) for x in array(q, "start_ms")]
        dtype = text(q, "dtype") or "fp32"
        if dtype not in TRAVELS:
            raise unsupported(f'dtype: "{dtype}": this worker sends {", ".join(TRAVELS)}')
        self.ranks.check(dims, starts, integer(q, "per_host", 0, 1 << 20, 0))
        # A wide and a tall matrix, each with a second one beside it.
        need = 4 * 4 * batch * max(max(dims), -(-sum(dims) // len(dims)))
        if need > self.memory_bytes:
            raise out_of_memory(f"buffers need {need} bytes, {self.memory_bytes} are available")
        self._release()
        times = self.ranks.all_to_all(dims, batch, dtype, starts, self.plan)
        return {**summary(times), "source": "measured"}

    def _ceilings(self, q: Json) -> Json:
        self._release()
        found = ceilings.measure(self.device, self.memory_bytes, self.ranks)
        if self.plan is not None:
            self.watch.set(self.plan)
        profile = ceilings.profile(self.device, self.memory_bytes, self.cache_bytes, found)
        return {"ceilings": found, "profile": profile}
