"""Every engine agrees with float64, and the check notices one that does not."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
import torch
from conftest import python

from neuroshard_worker.engines import NotAvailableError, choose
from neuroshard_worker.engines.plain import TorchEngine, TorchOperation
from neuroshard_worker.group import ADAM, DTYPES, OPTIMIZERS, ROWWISE_ADAGRAD, SGD, Group, Mode
from neuroshard_worker.reference import check

CPU = torch.device("cpu")
MODES = [Mode(*m) for m in itertools.product(OPTIMIZERS, DTYPES, (False, True))]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_torch_agrees_with_float64(mode: Mode) -> None:
    for lanes in (4, 64):
        assert check(TorchEngine(CPU), mode, lanes) == ""


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_fbgemm_agrees_with_float64(mode: Mode, fbgemm: Any) -> None:
    engine = choose("fbgemm", CPU)
    if mode.optimizer not in engine.optimizers:
        assert mode.optimizer == ADAM
        return
    for lanes in (4, 64, 128):
        assert check(engine, mode, lanes) == ""


@pytest.mark.parametrize(
    ("mode", "lanes"),
    [
        (Mode(SGD, "fp32", False), 136),  # two blocks of columns in the forward
        (Mode(SGD, "fp16", True), 4),
        (Mode("rowwise_adagrad", "fp16", False), 8),
        (Mode("adagrad", "fp32", False), 8),
        (Mode(ADAM, "fp32", False), 8),
    ],
    ids=str,
)
def test_triton_agrees_with_float64(mode: Mode, lanes: int, triton: Any) -> None:
    engine = choose("triton", CPU)
    assert "interpreted" in engine.kernel
    assert check(engine, mode, lanes) == ""


def test_triton_again_and_with_wide_keys(triton: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row numbers beyond 32 bits, and an engine whose windows are used a second time."""
    from neuroshard_worker.engines import triton as module

    engine = choose("triton", CPU)
    assert check(engine, Mode(ROWWISE_ADAGRAD, "fp32", False), 8, seed=2) == ""
    monkeypatch.setattr(module, "_NARROW_KEYS", 0)
    assert check(engine, Mode(SGD, "fp16", False), 8, seed=3) == ""


class Wrong(TorchEngine):
    """An engine with a fault, which its name says."""

    def __init__(self, fault: str) -> None:
        super().__init__(CPU)
        self.fault = fault

    def prepare(self, group: Group, mode: Mode, rate: float) -> TorchOperation:
        op = super().prepare(group, mode, rate * (1.001 if self.fault == "rate" else 1))
        forward, update = op.forward, op._update

        def wrong_forward() -> None:
            forward()
            if self.fault == "nan":
                op.output[3, 5] = float("nan")
            if self.fault == "unwritten":
                op.output[-1] = float("nan")
            if self.fault == "one number":
                op.output[2, 1] += 0.001

        def wrong_update(i: int, rows: torch.Tensor, sums: torch.Tensor) -> None:
            if self.fault == "a row twice":
                update(i, rows[:1], sums[:1])
            if self.fault == "last row":
                rows, sums = rows[:-1], sums[:-1]
            update(i, rows, sums)

        op.forward = wrong_forward  # type: ignore[method-assign]
        op._update = wrong_update  # type: ignore[method-assign]
        return op


@pytest.mark.parametrize(
    "fault", ["rate", "nan", "unwritten", "one number", "a row twice", "last row"]
)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_check_notices(fault: str, optimizer: str) -> None:
    assert "off" in check(Wrong(fault), Mode(optimizer, "fp32", False), 16)


def test_faults_in_half_precision_are_noticed_too() -> None:
    for fault in ("nan", "a row twice", "last row"):
        assert "off" in check(Wrong(fault), Mode(SGD, "fp16", False), 16)


def test_engines_that_cannot_run_say_why(monkeypatch: pytest.MonkeyPatch, triton: Any) -> None:
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(NotAvailableError, match="triton needs a GPU"):
        choose("triton", CPU)
    assert choose("auto", CPU).name == "torch"


_COMPILE = """
import json, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from neuroshard_worker.engines import kernels

wide = {"indices", "offsets", "order", "slot_window", "slot_state", "slot_row", "slot_rows"}
floats = {"state", "gradient", "per_sample", "output", "of_lookups", "partial"}
sizes = {"batch", "bags", "width", "lookups"}
numbers = {"rate", "epsilon", "beta1", "beta2", "bias1", "bias2"}

def kind(name):
    if name.isupper(): return "constexpr"
    if name == "weights": return weights
    if name in floats: return "*fp32"
    if name in numbers: return "fp32"
    if name in sizes: return "i32"
    return "*i64" if name in wide else "*i32"

for capability, weights, block, optimizer, weighted, load in json.loads(sys.argv[1]):
    runs = max(1, 256 // block)
    constants = {"WEIGHTED": weighted, "BAGS": runs, "RUNS": runs, "BLOCK": block, "UNROLL": 4,
                 "STEP": 16, "SHORT": 32, "PIECE": 512, "OPTIMIZER": optimizer}
    for name in "forward lookup_gradient linearise mark begin update pieces combine".split():
        fn = getattr(kernels, name)
        signature = {a: kind(a) for a in fn.arg_names}
        source = ASTSource(
            fn=fn, signature=signature,
            constexprs={(i,): constants[a] for i, a in enumerate(fn.arg_names) if a.isupper()},
            attrs={(i,): [["tt.divisibility", 16]]
                   for i, a in enumerate(fn.arg_names) if signature[a].startswith("*")},
        )
        built = triton.compile(source, target=GPUTarget("cuda", capability, 32),
                               options={"num_warps": 2})
        assert built.asm["cubin"], name
        assert name != "forward" or load in built.asm["ptx"]
"""


def test_kernels_compile_for_gpus(triton: Any) -> None:
    """No GPU is needed for that. Rows are read 4 numbers at a time."""
    configs = [
        [80, "*fp32", 128, "sgd", False, "ld.global.v4.b32"],
        [90, "*fp16", 64, "rowwise_adagrad", True, "ld.global.v2.b32"],
    ]
    done = python("-c", _COMPILE, json.dumps(configs))
    assert done.returncode == 0, done.stderr.decode()
