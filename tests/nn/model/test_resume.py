"""Save, load, continue equals never stopped, bit for bit: for every layer and every rule of the contract tables."""

from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.model import Model
from nn.random import keyed
from nn.value import Value
from tests.contract.nn_rows import LAYERS, RULES, GraphRow, RuleRow
from tests.nn.model.models import classifier, samples

ROWS = range(len(LAYERS))


def name(row: Any) -> str:
    return f"{row.kind.__name__} {row.label}".strip()


class Around(Model):
    """One row of the table of layers, and a dense layer behind it."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.layer = LAYERS[number].applied()
        self.head = nn.layer.Dense(2, name="head")

    def call(self, x: Value) -> Value:
        return self.head(nn.layer.Flatten(name="rows")(self.layer(x)))

    def get_config(self) -> dict[str, Any]:
        return {"number": self.number}


def data(row: GraphRow) -> tuple[Array, Array]:
    return row.draw(keyed(0, "resume"), (11, *row.sample)), keyed(0, "labels").standard_normal((11, 2))


def go_on(model: Model, x: Array, y: Array, seed: int | None = None) -> None:
    model.fit(x, y, epoch=2, batch_size=4, verbose=0, seed=seed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("number", ROWS, ids=[name(row) for row in LAYERS])
def test_every_layer(number: int, dtype: str) -> None:
    x, y = data(LAYERS[number])
    straight = Around(number)
    straight.dtype = np.dtype(dtype)
    straight.setup(nn.loss.MSELoss(), nn.metric.MeanSquareError())
    straight.compile(nn.gradient_descent.ADAMOptimizer(0.01))
    go_on(straight, x, y, seed=5)
    content = straight.to_bytes()
    resumed = Model.from_bytes(content, {"Around": Around})
    assert resumed.to_bytes() == content
    assert np.array_equal(resumed.predict(x), straight.predict(x))
    go_on(straight, x, y)
    go_on(resumed, x, y)
    assert resumed.to_bytes() == straight.to_bytes()
    assert resumed.fit_history().rows == straight.fit_history().rows
    assert resumed.fit_history()["epoch"] == [1, 2, 3, 4]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("row", RULES, ids=name)
def test_every_rule(row: RuleRow, dtype: str) -> None:
    x, y = samples()
    straight = classifier(dropout=0.3, dtype=dtype)
    straight.compile(row.build())
    go_on(straight, x, y, seed=5)
    resumed = Model.from_bytes(straight.to_bytes())
    assert resumed.epochs_trained == 2
    go_on(straight, x, y)
    go_on(resumed, x, y)
    assert resumed.to_bytes() == straight.to_bytes()
    assert not np.array_equal(straight.store.values, classifier().store.values)
