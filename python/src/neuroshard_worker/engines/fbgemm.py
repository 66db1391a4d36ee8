"""The engine of FBGEMM's table-batched embeddings, which TorchRec trains with.

Its settings are those that TorchRec leaves as they are: indices checked for
bounds with a warning, stochastic rounding of fp16 weights. The operation's
autograd graph is part of what runs, as in training.
"""

from __future__ import annotations

import itertools
import logging
import warnings

import torch

from ..group import (
    ADAGRAD,
    ADAM,
    BETA1,
    BETA2,
    DTYPES,
    EPSILON,
    OPTIMIZERS,
    ROWWISE_ADAGRAD,
    SGD,
    Group,
    Mode,
    Shard,
)
from .base import Engine, Operation

# It warns, once for each of its libraries, that it cannot tell whether it fits
# this version of PyTorch. Whether it works is checked here by running it.
logging.disable(logging.WARNING)
try:
    import fbgemm_gpu
    from fbgemm_gpu.split_embedding_configs import EmbOptimType, SparseType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
        ComputeDevice,
        SplitTableBatchedEmbeddingBagsCodegen,
    )
finally:
    logging.disable(logging.NOTSET)

log = logging.getLogger("neuroshard")

_OPTIMIZERS = {
    SGD: EmbOptimType.EXACT_SGD,
    ROWWISE_ADAGRAD: EmbOptimType.EXACT_ROWWISE_ADAGRAD,
    ADAGRAD: EmbOptimType.EXACT_ADAGRAD,
    ADAM: EmbOptimType.ADAM,
}
_PRECISIONS = {"fp32": SparseType.FP32, "fp16": SparseType.FP16}


class FbgemmEngine(Engine):
    name = "fbgemm"
    dtypes = tuple(DTYPES)
    most_columns = 2048

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        on = ", on a CPU" if device.type == "cpu" else ""
        # FBGEMM has no Adam for CPUs.
        self.optimizers = tuple(o for o in OPTIMIZERS if device.type == "cuda" or o != ADAM)
        if device.type == "cuda":
            # What it prints of a GPU's first backward, and of Adam, is no news to anybody.
            warnings.filterwarnings("ignore", message="TBE B200 optimization")
            warnings.filterwarnings("ignore", message=r"(?s).*\[FBGEMM_GPU\] NOTE")
            fault = _fault(device, Mode(SGD, "fp32", False))
            if fault:
                raise ValueError(f"fbgemm_gpu is there, but cannot run on {device}: {fault}")
            # FBGEMM 1.6 has no Adam of fp16 weights on GPUs: it takes a counter for half.
            lacks = []
            for optimizer, dtype in itertools.product(self.optimizers, self.dtypes):
                if fault := _fault(device, Mode(optimizer, dtype, False)):
                    log.warning("fbgemm has no %s with %s here: %s", optimizer, dtype, fault)
                    lacks.append((optimizer, dtype))
            self.lacks = tuple(lacks)
        self.kernel = (
            f"SplitTableBatchedEmbeddingBagsCodegen of fbgemm_gpu {fbgemm_gpu.__version__}{on}, "
            f"torch {torch.__version__}"
        )
        self._last: FbgemmOperation | None = None

    def prepare(self, group: Group, mode: Mode, rate: float) -> FbgemmOperation:
        # The last one's weights go before these come; its tensors may be kept.
        self.release()
        self._last = FbgemmOperation(group, mode, rate)
        return self._last

    def release(self) -> None:
        if self._last is not None:
            self._last.drop()
            self._last = None


def _fault(device: torch.device, mode: Mode) -> str:
    """Says why FBGEMM cannot run a kind of operation on this GPU, or nothing: it may have been
    built without kernels for it."""
    row = torch.zeros(1, dtype=torch.int64, device=device)
    shard = Shard(4, 4, 1, row, torch.tensor([0, 1], device=device))
    try:
        op = FbgemmOperation(Group([shard], 1, False, device), mode, 1.0)
        op.forward()
        op.backward()
        torch.cuda.synchronize(device)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, NotImplementedError, AssertionError) as e:
        if isinstance(e, getattr(torch, "AcceleratorError", ())) or "CUDA error" in str(e):
            raise  # nothing runs on the device after that
        return str(e).strip().split("\n")[0] or type(e).__name__
    return ""


class FbgemmOperation(Operation):
    def __init__(self, group: Group, mode: Mode, rate: float) -> None:
        self.group = group
        self.mode = mode
        cuda = group.device.type == "cuda"
        location = EmbeddingLocation.DEVICE if cuda else EmbeddingLocation.HOST
        compute = ComputeDevice.CUDA if cuda else ComputeDevice.CPU
        self._module: SplitTableBatchedEmbeddingBagsCodegen | None
        self._module = SplitTableBatchedEmbeddingBagsCodegen(
            [(s.rows, s.dim, location, compute) for s in group.shards],
            feature_table_map=group.slot_shard,
            optimizer=_OPTIMIZERS[mode.optimizer],
            weights_precision=_PRECISIONS[mode.dtype],
            output_dtype=SparseType.FP32,
            learning_rate=rate,
            eps=EPSILON,
            beta1=BETA1,
            beta2=BETA2,
            device=group.device,
        )
        for weights in self._module.split_embedding_weights():
            weights.uniform_(0.5, 1.0)  # never time zeros
        self._per_sample = group.per_sample
        if self._per_sample is not None:
            self._per_sample = self._per_sample.detach().requires_grad_()
        self.output = torch.empty_like(group.gradient)

    def drop(self) -> None:
        self._module = None
        self.output = torch.empty(0)

    def weights(self, shard: int) -> torch.Tensor:
        assert self._module is not None
        weights: torch.Tensor = self._module.split_embedding_weights()[shard]
        return weights

    def state(self, shard: int) -> list[torch.Tensor]:
        assert self._module is not None
        if self.mode.optimizer == SGD:
            return []
        state = self._module.split_optimizer_states()[shard]
        # A list of tensors for Adagrad and Adam; row-wise Adagrad has one number a row.
        return [s.view(-1, 1) if s.dim() == 1 else s for s in state]

    def lookup_gradient(self) -> torch.Tensor | None:
        return None if self._per_sample is None else self._per_sample.grad

    def forward(self) -> None:
        assert self._module is not None
        g = self.group
        self.output = self._module(g.indices, g.offsets, self._per_sample)

    def backward(self) -> None:
        if self._per_sample is not None:
            self._per_sample.grad = None
        self.output.backward(self.group.gradient)
