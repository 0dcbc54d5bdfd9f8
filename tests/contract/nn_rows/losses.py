"""The losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nn import loss
from nn.arrays import Array
from tests.contract.nn_rows.graph_row import softmax
from tests.contract.nn_rows.samples import classes, distributions, numbers


@dataclass
class LossRow:
    """A loss with outputs and labels that suit it, for a number of samples, and its value by plain NumPy."""

    kind: type[loss.Loss]
    build: Callable[[], loss.Loss]
    sample: Callable[[np.random.Generator, int], tuple[Array, Array]]
    value: Callable[[Array, Array], float]
    label: str = ""


LOSSES = [
    LossRow(
        loss.Cross_Entropy_With_Softmax,
        loss.Cross_Entropy_With_Softmax,
        classes,
        lambda y, z: float(-np.log(softmax(z))[np.arange(len(y)), y].mean()),
        "class numbers",
    ),
    LossRow(
        loss.Cross_Entropy_With_Softmax,
        loss.Cross_Entropy_With_Softmax,
        distributions,
        lambda y, z: float(-(y * np.log(softmax(z))).sum(axis=1).mean()),
        "rows",
    ),
    LossRow(loss.MSELoss, loss.MSELoss, numbers, lambda y, z: float(((z - y) ** 2).mean())),
]
