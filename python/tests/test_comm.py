"""All-to-alls between two processes on this machine, under torchrun."""

from __future__ import annotations

import json

from conftest import HELLO, INIT, TABLES, Json, python

TWO = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "neuroshard_worker"]


def test_two_processes() -> None:
    init = INIT | {"warmup": 1, "repeats": 3}
    requests: list[Json] = [
        HELLO,
        init,
        {"op": "comm", "id": "c1", "dims": [64, 128], "start_ms": [0, 40]},
        {"op": "comm", "id": "c2", "dims": [0, 4], "batch": 7},
        {"op": "comm", "id": "c3", "dims": [4, 4, 4]},
        {"op": "comm", "id": "c4", "dims": [4]},
        {"op": "comm", "id": "c5", "dims": []},
        {"op": "comm", "id": "c6", "dims": [4, 4], "start_ms": [0]},
        {"op": "comm", "id": "c7", "dims": [4, 4], "per_host": 1},
        {"op": "comm", "id": "c8", "dims": [4, 1 << 20], "batch": 1 << 24},
        TABLES,
        {"op": "compute", "id": "s", "group": [{"t": 0, "dim": 8}], "opt": "sgd", "dtype": "fp32"},
        {"op": "comm", "id": "c9", "dims": [8, 8]},
        {"op": "comm", "id": "h1", "dims": [8, 12], "dtype": "bf16"},
        {"op": "comm", "id": "h2", "dims": [0, 12], "batch": 7, "dtype": "fp16"},
        {"op": "comm", "id": "h3", "dims": [8, 8], "dtype": "fp8"},
    ]
    stdin = b"".join(json.dumps(r).encode() + b"\n" for r in requests)
    done = python(*TWO, "--device", "cpu", stdin=stdin)
    assert done.returncode == 0, done.stderr.decode()
    responses = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(responses) == len(requests), done.stderr.decode()
    hello, _, skewed, tiny, *refused, _, compute, last, half, narrow, unknown = responses

    assert {"comm", "comm_fp16", "comm_bf16"} <= set(hello["caps"]) and hello["ranks"] == 2
    assert "all_to_all_single of gloo" in hello["kernel"]
    assert skewed["op"] == "comm" and skewed["id"] == "c1", skewed
    assert skewed["n"] == 3 and skewed["source"] == "measured"
    # Rank 0 is ready 40 ms before rank 1, and its forward contains the wait.
    # It may be a little less where rank 1's processes were scheduled late.
    assert skewed["fwd"][0] > 39
    assert skewed["fwd"][1] < skewed["fwd"][0]
    assert len(skewed["bwd"]) == 2 and min(skewed["bwd"]) > 0 and skewed["iqr"] >= 0
    assert tiny["op"] == "comm", tiny
    codes = [(r["id"], r["code"]) for r in refused]
    assert codes == [
        ("c3", "unsupported"),
        ("c4", "unsupported"),
        ("c5", "bad_request"),
        ("c6", "bad_request"),
        ("c7", "unsupported"),
        ("c8", "oom"),
    ]
    assert compute["op"] == "compute", compute
    assert last["op"] == "comm" and last["id"] == "c9", last
    # The worker checks that every number arrives, in half precision, too.
    for r, name in ((half, "h1"), (narrow, "h2")):
        assert r["op"] == "comm" and r["id"] == name and len(r["fwd"]) == 2, r
    assert unknown["code"] == "unsupported" and "fp8" in unknown["msg"], unknown
