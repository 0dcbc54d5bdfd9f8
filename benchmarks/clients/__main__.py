"""CPU of a round of clients over that of a float32 NumPy loop: `python -m benchmarks.clients [ROUNDS]`, a row per network.

Both train in this process on one BLAS thread, with the same clients, orders and batches. The seconds of the rounds are those
of a job with 2 + ROUNDS rounds less those of one with 2, so that the start of a job does not count. Memory is the highest of a
process of its own, of the job less that of the loop.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psgd

import numpy as np

import nn
import parallel_sgd
from benchmarks.clients.loop import Array, Learner
from benchmarks.machine import status
from network.nodes import NodeAssignment
from nn.threads import limited_to_one_thread
from parallel_sgd import Clients
from parallel_sgd.federated import LogNormalSizes
from parallel_sgd.federated.population import Population, deal

SEED, RATE, REPEATS = 11, 0.1, 3


class Case(NamedTuple):
    """A network with its batches: `units` of its layers, the input first."""

    name: str
    units: tuple[int, ...]
    samples: int
    size: int
    most: float


CASES = (
    Case("2NN, 199,210 parameters", (784, 200, 200, 10), 10_000, 10, 1.5),
    Case("digits, 2,410 parameters", (64, 32, 10), 1_500, 5, 2.5),
)


def clients() -> Clients:
    return Clients(100, sample=10, sizes=LogNormalSizes(1.0))


def data(case: Case) -> nn.dataset.ArrayDataset:
    random = np.random.default_rng(0)
    x = random.random((case.samples + 100, case.units[0]), np.float32)
    y = np.eye(case.units[-1], dtype=np.float32)[random.integers(case.units[-1], size=len(x))]
    return nn.dataset.ArrayDataset(x[:-100], y[:-100], x[-100:], y[-100:])


def network(case: Case) -> nn.model.Model:
    layers = [nn.layer.Dense(units, "relu") for units in case.units[1:-1]]
    made = nn.model.SequentialModel([-1, case.units[0]], [*layers, nn.layer.Dense(case.units[-1], "softmax")], seed=5)
    made.setup("crossentropy_with_softmax", "accuracy")
    return made


def job(case: Case, rounds: int, folder: str, on: NodeAssignment | None = None) -> Array:
    """Train so many rounds as one epoch, in this process where no nodes are given; return the parameters."""
    given = clients()
    given = Clients(given.count, given.sample, sizes=given.sizes, rounds=rounds)
    with contextlib.nullcontext(on) if on else parallel_sgd.in_process(1) as nodes:
        result = parallel_sgd.ParallelSGD(network(case), data(case)).parallel(
            nodes,
            clients=given,
            gd_type="sgd",
            gd_params=(RATE,),
            block_size=case.size,
            epochs=1,
            seed=SEED,
            verbose=0,
            directory=folder,
        )
    return result.models[0].store.values


def loop(case: Case, rounds: int, _: str = "") -> Array:
    """The same rounds in plain NumPy."""
    x, y, _, _ = data(case).load()
    rows = deal(clients(), y, SEED)
    population = Population(clients(), [len(each) for each in rows], SEED, case.size)
    common = network(case).store.values.copy()
    learner, total = Learner(case.units, len(common)), np.empty_like(common)
    for number in range(rounds):
        total[:] = 0
        chosen = population.chosen(number)
        samples = sum(len(rows[client]) for client in chosen)
        for client in chosen:
            order = rows[client][population.order(number, client, 0)]
            step = learner.change(common, x, y, case.size, RATE, order)
            step *= len(order) / samples
            total += step
        common += total
    return common


def seconds(work: Callable[[Case, int, str], Array], case: Case, rounds: int, folder: str) -> float:
    """CPU seconds of a round."""
    begin = time.process_time()
    work(case, 2, folder)
    middle = time.process_time()
    work(case, 2 + rounds, folder)
    return ((time.process_time() - middle) - (middle - begin)) / rounds


def peak(what: str, case: Case, rounds: int) -> float:
    """The most memory, in MB, of a process that does one of both."""
    command = [sys.executable, "-m", "benchmarks.clients", "alone", what, str(CASES.index(case)), str(rounds)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    if sys.argv[1:2] == ["alone"]:
        what, number, rounds = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
        with tempfile.TemporaryDirectory() as folder, limited_to_one_thread():
            {"job": job, "loop": loop}[what](CASES[number], rounds, folder)
        print(status("VmHWM") / 2**20)
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("rounds", type=psgd.positive, nargs="?", default=40, help="rounds that are timed (default 40)")
    rounds = parser.parse_args().rounds
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder, limited_to_one_thread():
            ours, theirs = job(case, rounds, folder), loop(case, rounds)
            differs = np.abs(ours - theirs).max() / np.abs(theirs - network(case).store.values).max()
            pairs = [(seconds(job, case, rounds, folder), seconds(loop, case, rounds, folder)) for _ in range(REPEATS)]
            files = len([path for path in Path(folder, "runs", "P-SGD-1").rglob("*") if path.is_file()])
        ratio = statistics.median(a / b for a, b in pairs)
        memory = peak("job", case, rounds) - peak("loop", case, rounds)
        print(
            f"{case.name}: a round {pairs[0][0] * 1e3:.2f} ms, the loop {pairs[0][1] * 1e3:.2f} ms, {ratio:.2f} times (at most "
            f"{case.most}); {memory:.0f} MB above the loop (at most 200); {files} files; parameters differ by {differs:.0e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
