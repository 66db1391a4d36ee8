"""The worker as a process, and its answers to what is wrong."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pytest
import torch
from conftest import HELLO, INIT, TABLES, Json, drawn_table, lookup_file, talk

from neuroshard_worker import ceilings
from neuroshard_worker.__main__ import _device
from neuroshard_worker.engines import choose
from neuroshard_worker.engines.plain import TorchEngine
from neuroshard_worker.reference import check_all
from neuroshard_worker.server import Fatal, Server
from neuroshard_worker.wire import MAX_LINE, LineTooLongError


def compute(**changes: Any) -> Json:
    group = [{"t": 0, "dim": 32}, {"t": 3, "dim": 64}, {"t": 0, "dim": 4}]
    return {"op": "compute", "id": "s1", "group": group, "opt": "sgd", "dtype": "fp32"} | changes


def server(engine: TorchEngine | None = None, **init: Any) -> Server:
    s = Server(engine or TorchEngine(torch.device("cpu")), "eager")
    for request in (INIT | init, TABLES):
        assert ask(s, request)["op"] == request["op"]
    return s


def ask(s: Server, request: Json | str) -> Json:
    line = request if isinstance(request, str) else json.dumps(request)
    return s.answer(line.encode())


def test_a_whole_conversation() -> None:
    hello, init, tables, *computed, warm = talk(
        [
            HELLO,
            INIT,
            TABLES,
            compute(),
            compute(opt="rowwise_adagrad", dtype="fp16", weighted=True),
            INIT | {"cache": "warm"},
        ]
    )
    assert hello["v"] == 1 and hello["backend"] == "torch" and hello["measured"] is True
    assert {"compute", "ceilings", "weighted", "pools"} <= set(hello["caps"])
    assert {"fp32", "fp16", "sgd"} <= set(hello["caps"])
    assert "comm" not in hello["caps"]
    assert hello["memory_bytes"] > 0 and hello["cache_bytes"] > 0 and hello["threads"] == 1
    assert "torch 2" in hello["kernel"] and hello["device"] and hello["clocks"]
    assert init["op"] == "init" and init["cache"].startswith("flushed 1MiB")
    assert [t["t"] for t in tables["tables"]] == [0, 3]
    first = tables["tables"][0]
    assert len(first["reuse"]) == 17 and abs(sum(first["reuse"]) - 1) < 1e-9
    assert 500 < first["unique_rows"] < 1536 and first["length_cv"] == 0
    for response in computed:
        assert response["op"] == "compute" and response["id"] == "s1"
        assert response["n"] == 3 and response["source"] == "measured"
        assert response["fwd_ms"] > 0 and response["bwd_ms"] > 0
        assert response["fwd_iqr"] >= 0 and response["bwd_iqr"] >= 0
    assert warm["cache"] == "warm"


def test_the_fbgemm_engine_converses(fbgemm: Any) -> None:
    s = server(choose("fbgemm", torch.device("cpu")))
    hello = ask(s, HELLO)
    assert hello["backend"] == "fbgemm" and "fbgemm_gpu" in hello["kernel"]
    assert "adam" not in hello["caps"]
    assert ask(s, compute())["op"] == "compute"
    assert ask(s, compute(opt="adam"))["code"] == "unsupported"


def test_one_process_refuses_comm() -> None:
    response = ask(server(), {"op": "comm", "id": "c1", "dims": [8, 8]})
    assert (response["id"], response["code"]) == ("c1", "unsupported")
    assert "start this worker under torchrun" in response["msg"]


def test_bad_lines_get_answers_and_the_conversation_goes_on() -> None:
    s = server()
    for line in (b"{", b"[1]", b"null", b'{"op":"hello","v":NaN}', b"\xff\xfe", b'{"op":5}', b"{}"):
        assert s.answer(line)["code"] == "bad_request"
    assert ask(s, HELLO)["op"] == "hello"


def test_a_line_that_is_too_long_ends_the_conversation() -> None:
    out = io.BytesIO()
    with pytest.raises(LineTooLongError):
        server().serve(io.BytesIO(b" " * (MAX_LINE + 2) + b"\n"), out)
    assert json.loads(out.getvalue())["code"] == "bad_request"


def test_devices_that_are_not_here() -> None:
    with pytest.raises(ValueError, match='device "tpu" is unknown'):
        _device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="cuda:99"):
            _device("cuda:99")


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        ({"op": "nonsense"}, "bad_request", 'op "nonsense" is unknown'),
        ({"op": "hello", "v": 2}, "unsupported", "version 2"),
        (INIT | {"batch": 0}, "bad_request", "batch: 0"),
        (INIT | {"batch": "x"}, "bad_request", "batch: 'x' is not a whole number"),
        (INIT | {"repeats": None}, "bad_request", "repeats: missing"),
        (INIT | {"cache": "tepid"}, "bad_request", 'cache: "tepid"'),
        (INIT | {"flush_bytes": 1 << 34}, "oom", "flush_bytes"),
        (compute(opt="lamb"), "bad_request", 'opt: "lamb" is unknown'),
        (compute(dtype="int8"), "unsupported", 'dtype: "int8"'),
        (compute(group=[]), "bad_request", "group: 0 members"),
        (compute(group=[{"t": 9, "dim": 4}]), "bad_request", "table 9 is not known"),
        (compute(group=[{"t": 0, "dim": 6}]), "bad_request", "dim 6 of table 0"),
        (compute(group=[{"t": 0}]), "bad_request", "dim: missing"),
        (compute(group=[1]), "bad_request", "group: 1 is not an object"),
        (compute(weighted=1), "bad_request", "weighted: 1"),
    ],
    ids=str,
)
def test_bad_requests(request_: Json, code: str, message: str) -> None:
    s = server()
    s.memory_bytes = 1 << 33
    response = ask(s, request_)
    assert response["op"] == "error" and response["code"] == code
    assert message in response["msg"]
    if "id" in request_:
        assert response["id"] == request_["id"]


@pytest.mark.parametrize(
    ("table", "code", "message"),
    [
        ({"rows": 0}, "bad_request", "table 1: rows: 0"),
        ({"features": 3}, "bad_request", "128 bags, and features times batch is 384"),
        ({"batch": 1 << 20, "features": 1 << 10}, "bad_request", "bags"),
        ({"rows": 100}, "bad_request", "in a table of 100 rows"),
        ({"pool": None}, "unsupported", "makes up no lookups"),
        ({"pool": "/nowhere"}, "bad_request", "No such file"),
        (drawn_table(1, 5, 128, 100), "oom", "bytes, and lookups may take"),
    ],
    ids=["rows", "features", "batch", "lookups", "unsupported", "no file", "memory"],
)
def test_bad_tables(table: Json, code: str, message: str) -> None:
    s = server()
    s.index_bytes = 60_000
    good = TABLES["tables"][0] | {"t": 1}  # type: ignore[index]
    response = ask(s, {"op": "tables", "tables": [good | {"t": 0}, good | table]})
    assert response["op"] == "error" and response["code"] == code
    assert message in response["msg"]
    assert sorted(s.tables) == [0, 3]  # none of the request's tables came


def test_order_matters_and_init_forgets() -> None:
    s = Server(TorchEngine(torch.device("cpu")), "eager")
    for request in (TABLES, compute(), {"op": "comm", "dims": [1, 1]}):
        assert "before init" in ask(s, request)["msg"]
    s = server()
    assert ask(s, compute())["op"] == "compute"
    ask(s, INIT)
    assert "not known" in ask(s, compute())["msg"]


def test_batches_of_a_group_are_one() -> None:
    s = server()
    ask(s, {"op": "tables", "tables": [drawn_table(5, 5000, 64, 12, batch=64)]})
    response = ask(s, compute(group=[{"t": 0, "dim": 4}, {"t": 5, "dim": 4}]))
    assert response["code"] == "bad_request" and "batch of 64" in response["msg"]
    assert ask(s, compute(group=[{"t": 5, "dim": 4}]))["op"] == "compute"


def test_no_lookups_take_no_time() -> None:
    s = server()
    ask(s, {"op": "tables", "tables": [{"t": 8, "rows": 9, "pool": lookup_file([0] * 129, [])}]})
    response = ask(s, compute(group=[{"t": 8, "dim": 8}]))
    assert response["code"] == "bad_request" and "no time" in response["msg"]
    assert ask(s, compute(group=[{"t": 8, "dim": 8}, {"t": 0, "dim": 8}]))["op"] == "compute"


class Broken(TorchEngine):
    """Fails on request."""

    error: BaseException | None = None

    def prepare(self, *args: Any) -> Any:
        if self.error is not None:
            raise self.error
        return super().prepare(*args)


def test_allocations_that_fail_are_oom_with_memory_given_back() -> None:
    engine = Broken(torch.device("cpu"))
    s = server(engine)
    assert ask(s, compute())["op"] == "compute" and engine.windows.blocks
    for error in (
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to ..."),
    ):
        engine.error = error
        assert ask(s, compute())["code"] == "oom"
        assert not engine.windows.blocks
        engine.error = None
        assert ask(s, compute())["op"] == "compute"


def test_failures_of_the_device_end_the_process_after_the_response() -> None:
    engine = Broken(torch.device("cpu"))
    s = server(engine)
    engine.error = RuntimeError("CUDA error: an illegal memory access was encountered")
    with pytest.raises(Fatal) as e:
        ask(s, compute())
    assert e.value.response["code"] == "internal" and e.value.response["id"] == "s1"
    engine.error = KeyError("a mistake of ours")
    assert ask(s, compute())["code"] == "internal"


def test_a_wrong_kernel_is_never_timed() -> None:
    from test_engines import Wrong

    s = Server(Wrong("one number"), "eager")
    response = ask(s, INIT)
    assert response["code"] == "internal"
    assert "off by up to" in response["msg"] and "not timed" in response["msg"]
    assert "before init" in ask(s, compute())["msg"]


def test_each_kind_of_operation_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from neuroshard_worker import reference

    seen = []
    monkeypatch.setattr(
        reference, "check", lambda engine, mode, lanes: seen.append(str(mode)) or ""
    )
    s = server()
    for optimizer in ("sgd", "adam", "adam"):
        ask(s, compute(opt=optimizer))
    assert seen == ["sgd fp32", "adam fp32"]


def test_nan_never_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    s = server()
    monkeypatch.setattr(s.watch, "_on_cpu", lambda phases: [float("nan")] * 2)
    response = ask(s, compute())
    assert response["code"] == "internal" and "nan" in response["msg"]

    monkeypatch.setattr(s, "_ceilings", lambda q: {"ceilings": {"copy_gbps": float("nan")}})
    out = io.BytesIO()
    s.serve(io.BytesIO(b'{"op":"ceilings","id":"x"}\n'), out)
    assert json.loads(out.getvalue())["code"] == "internal"
    assert b"NaN" not in out.getvalue()


def test_any_request_gets_one_response() -> None:
    """Requests with fields exchanged for rubbish never raise."""
    draw = random.Random(1)
    rubbish: list[Any] = [None, True, -1, 0, 3, 1e300, "", "x", [], [[]], {}, [{}], 2**70, [1, "a"]]
    s = server()
    for _ in range(400):
        request = dict(draw.choice([HELLO, INIT, TABLES, compute()]))
        request.pop("flush_bytes", None)
        for name in draw.sample(sorted(request), k=draw.randint(1, 2)):
            request[name] = draw.choice(rubbish)
        if draw.random() < 0.3 and isinstance(request.get("tables"), list):
            request["tables"] = [dict(TABLES["tables"][0])]  # type: ignore[index]
            request["tables"][0][draw.choice(["rows", "features", "batch", "pool", "t"])] = (
                draw.choice(rubbish)
            )
        response = ask(s, request)
        assert response["op"] in ("error", request["op"])
        assert response.get("code") in (None, "bad_request", "unsupported", "oom"), response
        json.dumps(response, allow_nan=False)


def small_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ceilings._MOST_BYTES, "cpu", 1 << 22)
    monkeypatch.setitem(ceilings._KEYS, "cpu", 1 << 14)


def test_ceilings_make_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    small_ceilings(monkeypatch)
    response = ask(server(), {"op": "ceilings"})
    for name in ("copy_gbps", "gather_gbps", "cached_gather_gbps", "sort_mkeys"):
        assert response["ceilings"][name] > 0
    profile = response["profile"]
    assert profile["name"] == "cpu-torch" and profile["hbm_efficiency"] == 1
    for name in ("memory_bytes", "hbm_gbps", "l2_bytes", "l2_gbps", "sms", "clock_ghz"):
        assert profile[name] > 0
    assert profile["granule_bytes"] == 64 and profile["nic_gbps"] == 0


def test_what_an_engine_lacks_is_stated_and_refused() -> None:
    engine = TorchEngine(torch.device("cpu"))
    engine.lacks = (("adam", "fp16"),)
    s = server(engine)
    assert ask(s, {"op": "hello", "v": 1})["lacks"] == ["adam fp16"]
    refused = ask(s, compute(opt="adam", dtype="fp16"))
    assert (refused["op"], refused["code"]) == ("error", "unsupported")
    assert "no adam with fp16" in refused["msg"]
    assert ask(s, compute(opt="adam"))["op"] == ask(s, compute(dtype="fp16"))["op"] == "compute"
    kinds = {(mode.optimizer, mode.dtype) for mode, _, _ in check_all(engine)}
    assert ("adam", "fp16") not in kinds and ("adam", "fp32") in kinds
    assert "lacks" not in ask(server(), {"op": "hello", "v": 1})
