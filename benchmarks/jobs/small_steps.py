"""Steps of a small model on two workers: digits, 64-128-64-10, blocks of 32, Plain. What a step costs here is the exchange.

A round submits a job to agents that live as long as the contender. The argument is the number of epochs, and "seen" for a job
with `page=True` whose page a process follows to the end; a round gives the seconds of a step in all epochs but the first, from
the slower worker's own table.
"""

from __future__ import annotations

import contextlib
import csv
import logging
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import nn
import parallel_sgd
from benchmarks.network.workload import held
from nn.dataset.transforms import ImageCls, Shuffle
from nn.gradient_descent import SGDOptimizer
from rpc.logs import SUBMIT_LOGGER

WORKERS, BLOCK, TITLE = 2, 32, "small"
VIEWER = "import sys, urllib.request as web; print(sum(map(len, web.urlopen(sys.argv[1].replace('/?', '/events?')))))"


def model() -> nn.model.Model:
    """The perceptron 64-128-64-10."""
    made = nn.model.SequentialModel(input_shape=[-1, 64], seed=1)
    made.add(nn.layer.Dense(128, activation=nn.activation.Tanh()))
    made.add(nn.layer.Dense(64, activation=nn.activation.Tanh()))
    made.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    made.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return made


class Viewer(logging.Handler):
    """Opens the page of a job as soon as its address is told, and reads all that comes."""

    process: subprocess.Popen[bytes] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        _, found, address = record.getMessage().partition("http://")
        if found:
            self.process = subprocess.Popen([sys.executable, "-c", VIEWER, found + address], stdout=subprocess.PIPE)

    def seen(self) -> int:
        """How much it has been told, in bytes; it has ended with the job."""
        return 0 if self.process is None else int(self.process.communicate(timeout=60)[0])


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Jobs in the block are looked at."""
    logger, viewer = logging.getLogger(SUBMIT_LOGGER), Viewer(logging.INFO)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(viewer)
    try:
        yield
    finally:
        logger.removeHandler(viewer)
        if not viewer.seen():
            raise RuntimeError("Nobody has seen the page.")


def prepare(argument: str) -> Callable[[], float]:
    epochs, _, seen = argument.partition(" ")
    logging.getLogger(SUBMIT_LOGGER).setLevel(logging.ERROR)
    return held(lambda: rounds(int(epochs), bool(seen)))


def rounds(epochs: int, seen: bool) -> Iterator[Callable[[], float]]:
    job = parallel_sgd.ParallelSGD(model(), nn.dataset.Digits(), Shuffle().add(ImageCls()))
    with tempfile.TemporaryDirectory() as folder, parallel_sgd.local_workers(WORKERS) as nodes:

        def run() -> float:
            with watched() if seen else contextlib.nullcontext():
                job.parallel(
                    nodes,
                    epoch=epochs,
                    block_size=BLOCK,
                    gd_type=SGDOptimizer,
                    gd_params=(0.1,),
                    mission_title=TITLE,
                    checkpoint_every=None,
                    directory=folder,
                    page=seen,
                )
            return max(step(Path(folder, f"Node-{node}-Retrieve", f"TR-{TITLE}-N({node}).csv")) for node in range(WORKERS))

        yield run


def step(table: Path) -> float:
    """The mean time of a step, evaluation of each epoch included."""
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    begin = max(number for number, row in enumerate(rows) if row["Epochs"] == "1")
    return (float(rows[-1]["Time"]) - float(rows[begin]["Time"])) / (len(rows) - 1 - begin)
