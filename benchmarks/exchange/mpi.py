"""MPI_Allreduce over shared memory, by mpi4py with the wheel `mpich`. The argument is `<reduction>:<workers>`.

A round starts `mpiexec`, whose processes warm up as the others do.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.exchange.workload import REDUCTIONS
from benchmarks.network.workload import ROOT


def prepare(argument: str) -> Callable[[], float]:
    name, workers = argument.split(":")
    beside = Path(sys.executable).with_name("mpiexec")
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    if mpiexec is None or importlib.util.find_spec("mpi4py") is None:
        raise ModuleNotFoundError("pip install mpi4py mpich")
    command = [mpiexec, "-n", workers, sys.executable, "-m", "benchmarks.exchange.mpi", name]

    def run() -> float:
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        return float(json.loads(done.stdout))

    return run


def reduce(name: str) -> None:
    import numpy as np
    from mpi4py import MPI

    world, reduction = MPI.COMM_WORLD, REDUCTIONS[name]
    data, total = np.ones(reduction.size // 4, np.float32), np.empty(reduction.size // 4, np.float32)
    for _ in range(2):
        world.Allreduce(data, total)
    world.Barrier()
    start = time.perf_counter()
    for _ in range(reduction.count):
        world.Allreduce(data, total)
    seconds = world.reduce(time.perf_counter() - start, MPI.MAX)
    if world.Get_rank() == 0:
        print(json.dumps(seconds))


if __name__ == "__main__":
    reduce(sys.argv[1])
