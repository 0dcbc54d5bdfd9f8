"""Codecs in the form that version 0.9 has taught: where they import from, and what they may not expect here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import nn
from nn.gradient_descent import SGDOptimizer
from nn.optimizer import GradientAveragingOptimizer, ParameterAveragingOptimizer, PSGDOptimizer
from parallel_sgd import JobResult, ParallelSGD, in_process
from parallel_sgd.codec import Codec, netEncapsulation
from parallel_sgd.codec.interface import Codec as CodecOfTheReadme
from tests.parallel_sgd.codec.seed_codecs import Client, Differences, FromTheStart, FromZero, Introduced
from tests.parallel_sgd.networks import mlp

MARK = "replaces the parameters under"


def train(folder: Path, codec: type[Codec], server: type[Codec], op_type: type[nn.IOptimizer], **further: Any) -> JobResult:
    settings = {"epoch": 1, "block_size": 125, "gd_type": SGDOptimizer, "gd_params": (0.1,), "directory": folder, **further}
    with in_process(2, ps=True) as nodes:
        job = ParallelSGD(mlp(), nn.dataset.Digits(), nn.dataset.transforms.ImageCls())
        return job.parallel(nodes, codec=codec, ps_codec=server, op_type=op_type, **settings)


def test_places() -> None:
    assert CodecOfTheReadme is Codec
    assert netEncapsulation({0, 2}, "x").target() == [0, 2]


def test_a_server_of_differences_trains(tmp_path: Path) -> None:
    """What workers put comes back: differences of sums are sums, whatever is summed."""
    assert train(tmp_path, Client, Differences, PSGDOptimizer, epoch=8)["accuracy"] > 0.6


def test_increments_in_the_place_of_parameters_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The server knows nothing of the model's parameters, so what it gives cannot replace them; it trains all the same."""
    train(tmp_path, Client, FromZero, GradientAveragingOptimizer)
    (told,) = [record.getMessage() for record in caplog.records if MARK in record.getMessage()]
    assert told.startswith("What Client gives replaces the parameters under GradientAveraging")
    assert "send it the parameters with the first batch (GlobalSettings.get_value()), or use AsyncPS or SyncPS" in told


@pytest.mark.parametrize(
    ("codec", "server", "op_type"),
    [
        (Introduced, FromTheStart, GradientAveragingOptimizer),
        (Client, Differences, PSGDOptimizer),  # nothing is replaced
        (Client, FromZero, ParameterAveragingOptimizer),  # it puts parameters, so parameters are what the server has
    ],
)
def test_nothing_is_told_of_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, codec: type[Codec], server: type[Codec], op_type: type[nn.IOptimizer]
) -> None:
    train(tmp_path, codec, server, op_type)
    assert not [record for record in caplog.records if MARK in record.getMessage()]
