"""What the machine of a run can do: its CPU, the BLAS behind NumPy's products, and how fast both are with nothing around them.

Figures of one machine mean nothing on another one, so every benchmark begins with this line. `python -m benchmarks.machine`
prints it for the threads that `OMP_NUM_THREADS` gives.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.pairing import run_child
from nn.threads import describe_blas
from rpc.support.processors import usable_cores

SIDE = 1024
"""Of the matrices that are multiplied: large enough for the full rate, small enough for the caches of most machines."""

PASS_BYTES = 1 << 26
"""Of each of the three arrays of a pass over memory: more than caches hold."""

ROUNDS = 12


def show(threads: int = 1) -> None:
    """Print the line as a process with so many BLAS threads sees the machine."""
    print(run_child("benchmarks.machine", [], threads).strip(), flush=True)


def cpu() -> str:
    """The CPU's model as it calls itself."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def blas() -> str:
    """Name and version of the BLAS for which NumPy was built."""
    built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{built['name']} {built['version']}"


def product_rate() -> float:
    """Floating-point operations per second of a product of float32 matrices."""
    left, right = np.random.default_rng(0).standard_normal((2, SIDE, SIDE), dtype=np.float32)
    out = np.empty_like(left)
    return float(2 * SIDE**3 / best(lambda: np.matmul(left, right, out=out)))


def pass_rate() -> float:
    """Bytes per second that an addition of two arrays into a third one moves, by one thread."""
    left, right, out = (np.ones(PASS_BYTES // 4, np.float32) for _ in range(3))
    return 3 * PASS_BYTES / best(lambda: np.add(left, right, out=out))


def best(work: Callable[[], object]) -> float:
    """The seconds of the fastest of some rounds: neighbours on the machine only ever add time."""
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def status(field: str) -> int:
    """Return a field of /proc/self/status in bytes: VmRSS now, VmHWM at the peak.

    The peak that `getrusage` tells is no less than the memory of the process that started this one, by a rule of Linux.

    Args:
        field: its name.
    """
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/self/status has no {field}")


def main() -> None:
    print(
        f"{cpu()}, {usable_cores()} cores, load {os.getloadavg()[0]:.1f}; {describe_blas()}, built for {blas()}; bare GEMM "
        f"{product_rate() / 1e9:.0f} GFLOP/s in float32, one pass over memory {pass_rate() / 1e9:.1f} GB/s"
    )


if __name__ == "__main__":
    main()
