"""Small runs of this process, and the command `psgd` within it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from psgd import cli

import pytest

import nn
from nn.dataset import SimData
from nn.dataset.interface import AbsDataset
from nn.gradient_descent import SGDOptimizer
from parallel_sgd import JobResult, ParallelSGD, in_process

OPTIONS: dict[str, Any] = {"epoch": 2, "block_size": 8, "gd_type": SGDOptimizer, "gd_params": (0.1,), "seed": 4}


def model(features: int = 6) -> nn.model.Model:
    made = nn.model.SequentialModel(input_shape=[-1, features])
    made.add(nn.layer.Dense(5, activation=nn.activation.Tanh()))
    made.add(nn.layer.Dense(3, activation=nn.activation.Softmax()))
    made.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return made


def samples() -> SimData:
    return SimData(kind="classification", samples=120, features=6, classes=3, seed=1)


def train(data: AbsDataset | None = None, nodes: Any = None, **options: Any) -> JobResult:
    """The result of a job in this process, or on `nodes`."""
    job = ParallelSGD(model(), samples() if data is None else data)
    if nodes is not None:
        return job.parallel(nodes, **{**OPTIONS, **options})
    with in_process(2) as here:
        return job.parallel(here, **{**OPTIONS, **options})


def folder_of(result: JobResult) -> Path:
    assert result.folder is not None
    return result.folder.resolve()


def psgd(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = cli.main([str(each) for each in arguments])
    return code, *capsys.readouterr()
