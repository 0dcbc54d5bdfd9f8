"""Steps of a small model on two workers: digits, 64-128-64-10, blocks of 32, Plain. What a step costs here is the exchange.

A round submits a job to agents that live as long as the contender. The argument is the number of epochs; a round gives the
seconds of a step in all epochs but the first, from the slower worker's own table.
"""

from __future__ import annotations

import csv
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import nn
import parallel_sgd
from benchmarks.network.workload import held
from network import NodeAssignment
from nn.dataset.transforms import ImageCls, Shuffle
from nn.gradient_descent import SGDOptimizer
from rpc.support.logs import SUBMIT_LOGGER

WORKERS, BLOCK, TITLE = 2, 32, "small"


def model() -> nn.model.Model:
    """The perceptron 64-128-64-10."""
    made = nn.model.SequentialModel(input_shape=[-1, 64], seed=1)
    made.add(nn.layer.Dense(128, activation=nn.activation.Tanh()))
    made.add(nn.layer.Dense(64, activation=nn.activation.Tanh()))
    made.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    made.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return made


def prepare(epochs: str) -> Callable[[], float]:
    logging.getLogger(SUBMIT_LOGGER).setLevel(logging.ERROR)
    return held(lambda: rounds(int(epochs)))


def rounds(epochs: int) -> Iterator[Callable[[], float]]:
    job = parallel_sgd.ParallelSGD(model(), nn.dataset.Digits(), Shuffle().add(ImageCls()))
    with tempfile.TemporaryDirectory() as folder, parallel_sgd.local_workers(WORKERS) as nodes:

        def run() -> float:
            train(job, nodes, folder, epochs)
            return step_of(folder)

        yield run


def train(job: parallel_sgd.ParallelSGD, nodes: NodeAssignment, folder: str, epochs: int, **more: bool) -> None:
    job.parallel(
        nodes,
        epoch=epochs,
        block_size=BLOCK,
        gd_type=SGDOptimizer,
        gd_params=(0.1,),
        mission_title=TITLE,
        checkpoint_every=None,
        directory=folder,
        **more,  # older checkouts have no page
    )


def step_of(folder: str) -> float:
    """That of the slower worker of the last job."""
    return max(step(Path(folder, f"Node-{node}-Retrieve", f"TR-{TITLE}-N({node}).csv")) for node in range(WORKERS))


def step(table: Path) -> float:
    """The mean time of a step, evaluation of each epoch included."""
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    begin = max(number for number, row in enumerate(rows) if row["Epochs"] == "1")
    return (float(rows[-1]["Time"]) - float(rows[begin]["Time"])) / (len(rows) - 1 - begin)
