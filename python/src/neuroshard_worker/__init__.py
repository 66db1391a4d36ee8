"""The worker of the measurement backend `worker`: it times embedding kernels of PyTorch.

It speaks JSON lines on stdin and stdout (protocol/protocol.go states them), logs
on stderr, and is started as ``python -m neuroshard_worker``. The steps:

``wire``       lines in, checked fields out
``lookups``    a lookup file -> the lookups of one batch
``group``      tables and dims -> tensors on the device
``engines``    FBGEMM, Triton and plain PyTorch, behind one interface
``reference``  float64, which every engine is checked against before it is timed
``timing``     flush, warm up, repeat, median
``comm``       all-to-alls between the processes that torchrun starts
``server``     the conversation

Importing it raises ImportError where NumPy or PyTorch is missing, which says what to install.
"""

from importlib.util import find_spec as _find_spec

for _name in ("numpy", "torch"):
    if _find_spec(_name) is None:
        raise ImportError(
            f"neuroshard_worker needs {_name}, which is not installed\n"
            '  hint: pip install "neuroshard-planner[worker]"',
            name=_name,
        )

__version__ = "0.1.0"
