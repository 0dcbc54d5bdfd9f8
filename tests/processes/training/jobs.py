"""Jobs for the tests of this folder: small, real, and easy to look into afterwards."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import nn
from network import NodeAssignment
from nn.dataset.transforms import ImageCls, Shuffle
from nn.model import Model, SequentialModel
from parallel_sgd import JobResult, ParallelSGD, Parameter_Server, in_process
from parallel_sgd.nodes import LocalNodes
from parallel_sgd.profiles import FixedBlockAssignment
from rpc.support.logs import SUBMIT_LOGGER
from tests.parallel_sgd.networks import mlp

FOUR_BLOCKS = FixedBlockAssignment.of(blocks=4)


def some(agents: NodeAssignment, count: int) -> LocalNodes:
    """The first agents."""
    nodes = LocalNodes(key_file=agents.key_file)
    for node in range(count):
        nodes.add(node, agents[node])
    return nodes


def digits_job(model: Model | None = None) -> ParallelSGD:
    return ParallelSGD(model or mlp(), nn.dataset.Digits(), Shuffle().add(ImageCls()))


def line_data(samples: int = 24, seed: int = 0) -> nn.dataset.ArrayDataset:
    """y = x @ (1, -2) + 0.5, as many samples to test on as to train on."""
    x = nn.random.keyed(seed, "line").normal(size=(2 * samples, 2)).astype(np.float32)
    y = (x @ np.array([[1.0], [-2.0]], np.float32) + np.float32(0.5)).astype(np.float32)
    return nn.dataset.ArrayDataset(x[:samples], y[:samples], x[samples:], y[samples:])


def line_model() -> Model:
    model = SequentialModel(input_shape=[-1, 2], seed=1)
    model.add(nn.layer.Dense(1))
    model.setup(nn.loss.MSELoss(), nn.metric.MeanSquareError())
    return model


def line_job(samples: int = 24) -> ParallelSGD:
    """Two variables, a kernel of two numbers and a bias: what a test of the exchange needs."""
    return ParallelSGD(line_model(), line_data(samples))


def weights(result: JobResult) -> dict[int, bytes]:
    """The bits of every worker's model."""
    return {node: model.store.values.tobytes() for node, model in result.models.items()}


def only_weights(result: JobResult) -> bytes:
    """The bits that all workers have."""
    (bits,) = set(weights(result).values())
    return bits


def here(job: ParallelSGD, count: int, directory: Path, ps: bool = False, **settings: Any) -> JobResult:
    """The same job inside this process."""
    with in_process(count, ps=ps) as nodes:
        return job.parallel(nodes, directory=directory, **settings)


def log_of(files: Mapping[int, list[Path]], node: int, kind: str = "Fit") -> str:
    """The text of a fetched log."""
    (path,) = (path for path in files[node] if path.name.startswith(kind) and path.suffix == ".log")
    return path.read_text("utf-8")


def assert_serves(agents: NodeAssignment, count: int, directory: Path) -> None:
    """The next job on the same agents works at once."""
    result = line_job().parallel(some(agents, count), epoch=1, block_size=4, directory=directory / "next")
    assert sorted(result.models) == list(range(count))


@contextlib.contextmanager
def hearing(act: Callable[[str], None]) -> Iterator[None]:
    """Calls `act` with every message of the submitter."""

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            act(record.getMessage())

    listener, logger = Listener(), logging.getLogger(SUBMIT_LOGGER)
    level = logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(listener)


@contextlib.contextmanager
def marking(file: Path) -> Iterator[Path]:
    """Make `file` when the submitter knows that all nodes run: an agent that is lost earlier is no failure of a job."""
    with hearing(lambda text: file.touch() if text.startswith("Waiting for (") else None):
        yield file


def with_server(agents: NodeAssignment, workers: int) -> LocalNodes:
    """The first agents as workers, the last one as parameter server."""
    return some(agents, workers).add(Parameter_Server, agents[3])  # type: ignore[return-value]


def rows(directory: Path, kind: str, node: int, title: str = "P-SGD") -> list[list[str]]:
    """A table, without the column of seconds in TR."""
    lines = (directory / f"Node-{node}-Retrieve" / f"{kind}-{title}-N({node}).csv").read_text("utf-8").splitlines()
    return [line.split(",")[1 if kind == "TR" else 0 :] for line in lines]


def said(records: list[logging.LogRecord]) -> list[str]:
    return [record.getMessage() for record in records]
