"""Data-parallel training through the whole product: agents, job processes, codec, sync type, accounts and reports.

The argument is `<network>:<workers>:<optimizer>:<codec>`. A round submits a job to agents that live as long as the contender
and gives the seconds of all its steps but those of the first epoch, from the workers' own tables.
"""

from __future__ import annotations

import csv
import importlib
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import nn
import parallel_sgd
from benchmarks.exchange.workload import NETWORKS
from benchmarks.network.workload import held
from nn.dataset import ArrayDataset
from nn.gradient_descent import ADAMOptimizer
from rpc.support.logs import SUBMIT_LOGGER

TITLE = "bench"


def prepare(argument: str) -> Callable[[], float]:
    logging.getLogger(SUBMIT_LOGGER).setLevel(logging.ERROR)
    return held(lambda: rounds(*argument.split(":")))


def model(name: str) -> nn.model.Model:
    network = NETWORKS[name]
    activation = {"tanh": nn.activation.Tanh, "relu": nn.activation.ReLU}[network.activation]
    made = nn.model.SequentialModel(input_shape=[-1, network.layers[0]])
    for units in network.layers[1:-1]:
        made.add(nn.layer.Dense(units, activation=activation()))
    made.add(nn.layer.Dense(network.layers[-1], activation=nn.activation.Softmax()))
    made.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return made


def rounds(name: str, workers: str, optimizer: str, codec: str) -> Iterator[Callable[[], float]]:
    network, count = NETWORKS[name], int(workers)
    x, y = network.samples()
    job = parallel_sgd.ParallelSGD(model(name), ArrayDataset(x, y, x[:64], y[:64]))
    place, _, kind = codec.rpartition(".")
    with tempfile.TemporaryDirectory() as folder, parallel_sgd.local_workers(count) as nodes:

        def run() -> float:
            job.parallel(
                nodes,
                epoch=network.epochs + 1,
                block_size=network.batch // count,
                op_type=getattr(nn.optimizer, optimizer),
                gd_type=ADAMOptimizer,
                codec=getattr(importlib.import_module(place), kind) if codec else None,
                mission_title=TITLE,
                checkpoint_every=None,
                directory=folder,
            )
            return max(seconds(Path(folder, f"Node-{node}-Retrieve", f"TR-{TITLE}-N({node}).csv")) for node in range(count))

        yield run


def seconds(table: Path) -> float:
    """From the last step of the first epoch to the end of the last step."""
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    warm = [float(row["Time"]) for row in rows if row["Epochs"] == "1"]
    return float(rows[-1]["Time"]) - warm[-1]
