"""Models of padded sequences in jobs: masks, ignored labels and recurrent dropout give any number of workers the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.dataset import ArrayDataset
from nn.dataset.transforms import Shuffle
from nn.layer import LSTM, BatchNorm, Dense, Embedding, MultiHeadAttention
from nn.model import SequentialModel
from nn.random import keyed
from parallel_sgd import Clients, JobResult, ParallelSGD, in_process
from parallel_sgd.codec.plain import Plain
from parallel_sgd.profiles import FixedBlockAssignment

DRAW = keyed(0, "masked jobs")
WORDS = DRAW.integers(1, 12, (150, 7))
WORDS[np.arange(7) >= DRAW.integers(1, 8, (150, 1))] = 0
KINDS = np.where(DRAW.random((150, 7)) < 0.1, -100, WORDS % 3)


def model() -> Any:
    made: Any = SequentialModel(
        [-1, None],
        [
            Embedding(12, 4, mask_zero=True),
            LSTM(5, return_sequences=True, recurrent_dropout=0.2),
            MultiHeadAttention(2, 3),
            BatchNorm(0.9),
            Dense(3, "softmax"),
        ],
        seed=5,
    )
    made.compile(nn.gradient_descent.ADAMOptimizer(0.02), nn.loss.Cross_Entropy(ignore_index=-100), ["accuracy"])
    return made


def run(count: int, folder: Path) -> JobResult:
    job = ParallelSGD(model(), ArrayDataset(WORDS, KINDS, test_fraction=0.2), Shuffle())
    return job.parallel(
        in_process(count),
        codec=Plain,
        epoch=2,
        block_size=8,
        assignment_type=FixedBlockAssignment.of(blocks=4),
        seed=7,
        directory=folder,
    )


def test_any_number_of_workers_trains_to_the_same_bits(tmp_path: Path) -> None:
    found = [run(count, tmp_path / str(count)) for count in (1, 2, 4)]
    bits = {
        each.store.values.tobytes() + each.store.buffer_values.tobytes() for result in found for each in result.models.values()
    }
    assert len(bits) == 1
    assert bits != {model().store.values.tobytes() + model().store.buffer_values.tobytes()}
    # The evaluations of a job are those of its model.
    x, y = ArrayDataset(WORDS, KINDS, test_fraction=0.2).load()[2:]
    alone = found[0].models[0].evaluate(x, y)
    assert alone["accuracy"] == pytest.approx(next(value for name, value in found[0].items() if "accuracy" in name))


def test_clients_count_what_masks_and_labels_leave(tmp_path: Path) -> None:
    """Each word has its kind, so every position that counts is learned; the padding and what is ignored would stay wrong."""
    made: Any = SequentialModel([-1, None], [Embedding(12, 4, mask_zero=True), Dense(3, "softmax")], seed=5)
    made.compile("sgd", nn.loss.Cross_Entropy(ignore_index=-100), ["accuracy"])
    result = ParallelSGD(made, ArrayDataset(WORDS, KINDS, test_fraction=0.2)).parallel(
        in_process(2),
        clients=Clients(6, sample=3, epochs=4),
        gd_type="sgd",
        gd_params=(4.0,),
        block_size=8,
        epochs=6,
        directory=tmp_path,
    )
    assert result.history.steps[-1]["accuracy"] == 1
