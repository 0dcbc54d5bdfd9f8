"""A round of FedAvg on two local workers beside Flower's simulation with two actors: `python -m benchmarks.clients.flower`.

Both train the same clients on the same draws. Flower's clients do the plain NumPy loop, so that what differs is the framework.
Processor time is that of all processes. The start of both, and the first rounds, do not count.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psgd

import numpy as np

import parallel_sgd
from benchmarks import machine
from benchmarks.clients.__main__ import CASES, RATE, SEED, Case, clients, data, job, network
from benchmarks.pairing import ROOT, environment
from benchmarks.processes import tree_seconds
from parallel_sgd.federated.population import Population, deal

WARM, WORKERS = 2, 2
_CALL = "import sys; from benchmarks.clients.flower_app import main; main(sys.argv[1])"


class Absent(Exception):
    """The Python that was named cannot run Flower's simulation."""


def task(case: Case, rounds: int, result: Path) -> dict[str, object]:
    """Return what Flower is to do: the samples, the first parameters, and the draws of each round."""
    x, y, _, _ = data(case).load()
    rows = deal(clients(), y, SEED)
    population = Population(clients(), [len(each) for each in rows], SEED, case.size)
    chosen = [population.chosen(number) for number in range(rounds)]
    orders = [rows[each][population.order(number, each, 0)] for number, drawn in enumerate(chosen) for each in drawn]
    ends = np.cumsum([len(each) for each in orders])
    cuts = np.stack([ends - [len(each) for each in orders], ends], axis=1).reshape(rounds, -1, 2)
    return {
        "x": x, "y": y, "start": network(case).store.values, "units": case.units, "size": case.size, "rate": RATE,
        "clients": clients().count, "chosen": chosen, "orders": np.concatenate(orders), "cuts": cuts, "result": str(result),
    }  # fmt: skip


def flower(python: str, case: Case, rounds: int, folder: Path) -> tuple[float, float, np.ndarray]:
    """Return seconds and processor seconds of a round, and the parameters at the end.

    Raises: Absent where it cannot be run.
    """
    given, result = folder / "task.npz", folder / "result.npz"
    np.savez(given, **task(case, WARM + rounds, result))
    surroundings = {**environment(1), "PYTHONPATH": str(ROOT), "RAY_DEDUP_LOGS": "0", "HOME": str(folder)}
    ran = subprocess.run([python, "-c", _CALL, str(given)], env=surroundings, capture_output=True, text=True, check=False)
    if not result.exists():
        raise Absent(ran.stderr.strip().splitlines()[-1] if ran.stderr.strip() else f"exit code {ran.returncode}")
    with np.load(result) as file:
        return float(file["seconds"]) / rounds, float(file["cpu"]) / rounds, file["parameters"]


def ours(case: Case, rounds: int, folder: Path) -> tuple[float, float, np.ndarray]:
    """Return the same of a job on local workers."""
    moments, parameters = [], np.empty(0)
    with parallel_sgd.local_workers(WORKERS) as nodes:
        for number in (WARM, WARM, WARM + rounds):  # the first one starts what the others find
            parameters = job(case, number, str(folder), nodes)
            moments.append((time.perf_counter(), tree_seconds(os.getpid())))
    (begun, before), (middle, cpu), (ended, after) = moments
    seconds, used = (ended - middle) - (middle - begun), (after - cpu) - (cpu - before)
    return seconds / rounds, used / rounds, parameters


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients.flower", description=__doc__.splitlines()[0])
    parser.add_argument("rounds", type=psgd.positive, nargs="?", default=40, help="rounds that are timed (default 40)")
    parser.add_argument("--python", default=sys.executable, help="a Python with flwr[simulation] and NumPy (default: this one)")
    options = parser.parse_args()
    machine.show()
    print(f"Flower's simulation with {WORKERS} actors, and {WORKERS} local workers here; milliseconds of a round")
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                theirs, their_cpu, wanted = flower(options.python, case, options.rounds, Path(folder))
            except Absent as reason:
                print(f"Flower cannot be run by {options.python}: {reason}", file=sys.stderr)
                return 1
            seconds, cpu, found = ours(case, options.rounds, Path(folder))
        start = network(case).store.values
        differs = np.abs(found - wanted).max() / np.abs(wanted - start).max()
        print(
            f"{case.name}: wall {seconds * 1e3:.1f}, Flower {theirs * 1e3:.1f}, {seconds / theirs:.3f} times; processor time "
            f"{cpu * 1e3:.1f}, Flower {their_cpu * 1e3:.1f}, {cpu / their_cpu:.3f} times; parameters differ by {differs:.0e}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
