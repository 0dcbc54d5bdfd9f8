"""Columns of large numbers that nothing scales are told before the first epoch, once; pixels to 255 and scaled ones are not."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import nn
from nn.dataset import ArrayDataset
from nn.dataset.interface import AbsDataset, Arrays
from nn.dataset.transforms import Normalize
from nn.layer import BatchNorm, Dense, Dropout, Normalization
from nn.model import SequentialModel
from nn.model.scale import unscaled
from parallel_sgd import ParallelSGD, in_process
from rpc.support.logs import SUBMIT_LOGGER

ROWS = nn.random.keyed(3, "rows").normal(size=(400, 3)).astype(np.float32)
LABELS = (ROWS[:, 0] > ROWS[:, 1]).astype(np.int64)
PIXELS = nn.dataset.Digits().load()[0].reshape(-1, 64)
LARGE = (ROWS + 1) * np.float32([1, 3000, 2000])


def made(*layers: nn.layer.Layer, features: int = 3) -> SequentialModel:
    model = SequentialModel([-1, features], [*layers, Dense(16, "relu"), Dense(2, "softmax")], seed=1)
    model.compile("adam", "sparse_categorical_crossentropy", ["accuracy"])
    return model


def test_large_columns_are_told_once_with_the_remedy_which_helps() -> None:
    model = made()
    frame = pd.DataFrame(LARGE, columns=["rooms", "area", "year"])
    told = r"fit\(\) 'x': Samples are far .*: area \(4,\d\d\d\), year \(2,\d\d\d\)\. Normalization\(\) as"
    with pytest.warns(UserWarning, match=told):
        model.fit(frame, LABELS, epochs=4, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stuck = model.fit(frame, LABELS, epochs=26, verbose=0)["accuracy"][-1]
        layer = Normalization()
        layer.adapt(LARGE)
        helped = made(layer).fit(LARGE, LABELS, epochs=30, verbose=0)["accuracy"][-1]
    assert helped > stuck + 0.1, (helped, stuck)
    with pytest.warns(UserWarning, match=r"size: number 2 \("):
        made().fit(LARGE, LABELS, epochs=1, verbose=0)


@pytest.mark.parametrize(
    "fit",
    [
        lambda: made().fit(LARGE / 20, LABELS, epochs=1, verbose=0),
        lambda: made(BatchNorm()).fit(LARGE, LABELS, epochs=1, verbose=0),
        lambda: made(features=64).fit(PIXELS, LABELS[:1].repeat(1500), epochs=1, verbose=0),
    ],
    ids=["hundreds", "normalized", "pixels"],
)
def test_what_trains_is_not_told(fit: Callable[[], object]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit()


def test_a_job_tells_it_unless_its_transform_scales(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, SUBMIT_LOGGER)
    data = ArrayDataset(LARGE, LABELS)
    given = {"epoch": 1, "block_size": 20, "directory": tmp_path, "verbose": 0}
    ParallelSGD(made(Dropout(0.1)), data).parallel(in_process(1), **given)
    ParallelSGD(made(), data, Normalize()).parallel(in_process(1), **given)
    assert "are far from" not in caplog.text
    ParallelSGD(made(), data).parallel(in_process(1), **given)
    (told,) = [each for each in caplog.messages if "are far from" in each]
    assert told.startswith("Samples are far from") and told.endswith("to mean 0 and deviation 1.")


@pytest.mark.parametrize("columns", [3, {"a", "b", "c"}, {"a": 1}, len])
def test_a_data_set_may_have_columns_of_its_own(columns: object, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Mine(AbsDataset):
        def __init__(self) -> None:
            super().__init__()
            self.columns = columns

        def load(self) -> Arrays:
            return LARGE[:300], LABELS[:300], LARGE[300:], LABELS[300:]

    ParallelSGD(made(), Mine()).parallel(in_process(1), epoch=1, block_size=20, directory=tmp_path, verbose=0)
    assert "size: number 2 (" in caplog.text


@pytest.mark.parametrize(
    ("last", "loss", "told"),
    [
        ([Dense(1)], "mse", True),
        ([Dense(1, use_bias=False)], "mae", True),
        ([Dense(1, "exponential")], "poisson", False),
        ([Dense(1), nn.layer.Rescaling(400.0)], "mse", False),
        ([Dense(1, "tanh")], "mse", False),
    ],
)
def test_values_to_predict_are_told_where_dense_alone_makes_them(last: list[nn.layer.Layer], loss: str, told: bool) -> None:
    model = SequentialModel([-1, 3], [Dense(8, "relu"), *last], seed=1)
    model.compile("adam", loss)
    found = list(unscaled(model, ROWS, np.full((400, 1), 431)))
    assert [each.partition(" are far")[0] for each in found] == ["The values to predict"] * told
