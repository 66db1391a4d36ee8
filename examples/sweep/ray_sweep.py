"""Plans a sweep as tasks of Ray, one task for each part, and prints the joined table.

    pip install ray
    python ray_sweep.py --parts 8 -o sweep.jsonl workload:mlperf-dlrm-dcnv2 \
        --gpus 4,8,16,32 --set devices_per_host=8 --gpu a100-80,h100-80

Ray runs the tasks on the cluster of RAY_ADDRESS, or else on this machine. Every node needs
the neuroshard binary ($NEUROSHARD_BINARY, or on the path), and files that the sweep names
must be at the same path on every node. All arguments but --parts and -o are those of
neuroshard sweep.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import ray


@ray.remote(num_cpus=1)
def plan(binary: str, sweep: list[str], folder: str, index: int, parts: int) -> bytes:
    """Plans one part, and returns its file."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "part.jsonl"
        part = ["--part", f"{index}/{parts}", "--set", "threads=1", "--output", str(path)]
        done = subprocess.run(
            [binary, "sweep", *sweep, *part], cwd=folder, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise RuntimeError(f"part {index}/{parts}: {done.stderr}")
        return path.read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(description="Plans a sweep as tasks of Ray.")
    parser.add_argument("--parts", type=int, required=True, help="number of tasks")
    parser.add_argument("-o", "--output", type=Path, required=True, help="file of the sweep")
    options, sweep = parser.parse_known_args()
    binary = os.environ.get("NEUROSHARD_BINARY", "neuroshard")
    # Without RAY_ADDRESS, a cluster of this machine's cores starts, and ends with this script.
    ray.init(include_dashboard=False, log_to_driver=False)
    tasks = [
        plan.remote(binary, sweep, os.getcwd(), i, options.parts)
        for i in range(1, options.parts + 1)
    ]
    with tempfile.TemporaryDirectory() as scratch:
        files = []
        for i, content in enumerate(ray.get(tasks), start=1):
            files.append(Path(scratch) / f"{i}.jsonl")
            files[-1].write_bytes(content)
        join = [binary, "sweep", "join", *map(str, files), "--output", str(options.output)]
        return subprocess.run(join).returncode


if __name__ == "__main__":
    sys.exit(main())
