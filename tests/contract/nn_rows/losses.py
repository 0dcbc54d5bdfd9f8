"""The losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nn import loss
from nn.arrays import Array
from tests.contract.nn_rows import samples
from tests.contract.nn_rows.graph_row import softmax


@dataclass
class LossRow:
    """A loss with outputs and labels that suit it, for a number of samples, and its value by plain NumPy."""

    kind: type[loss.Loss]
    build: Callable[[], loss.Loss]
    sample: Callable[[np.random.Generator, int], tuple[Array, Array]]
    value: Callable[[Array, Array], float]
    label: str = ""


def one_hot(y: Array, classes: int) -> Array:
    return np.eye(classes)[y] if y.dtype.kind == "i" else y


def cross_entropy(y: Array, p: Array) -> float:
    return float(-(one_hot(y, p.shape[-1]) * np.log(p)).sum(axis=-1).mean())


def smoothed(y: Array, z: Array) -> float:
    return cross_entropy(0.8 * one_hot(y, z.shape[-1]) + 0.2 / z.shape[-1], softmax(z))


def binary_cross_entropy(y: Array, z: Array) -> float:
    return binary_cross_entropy_of_probabilities(y, 1 / (1 + np.exp(-z)))


def binary_cross_entropy_of_probabilities(y: Array, p: Array) -> float:
    return float(-(y * np.log(p) + (1 - y) * np.log(1 - p)).mean())


def huber(y: Array, p: Array, delta: float) -> float:
    size = np.abs(p - y)
    return float(np.where(size <= delta, size**2 / 2, delta * (size - delta / 2)).mean())


def hinge(y: Array, z: Array) -> float:
    return float(np.maximum(0, 1 - np.where(y.reshape(z.shape) == 1, 1, -1) * z).mean())


def hinge_of_classes(y: Array, z: Array) -> float:
    others = np.where(one_hot(y, z.shape[1]) == 1, -np.inf, z)
    return float(np.maximum(0, 1 + others.max(axis=1) - z[np.arange(len(y)), y]).mean())


Scores = loss.Cross_Entropy_With_Softmax
Chances = loss.Binary_Cross_Entropy_Of_Probabilities
LABELS = {
    "class numbers": samples.classes,
    "rows": samples.distributions,
    "sequences of class numbers": samples.sequences_of_classes,
    "sequences of rows": samples.sequences_of_distributions,
}

LOSSES = [
    *(LossRow(Scores, Scores, draw, lambda y, z: cross_entropy(y, softmax(z)), name) for name, draw in LABELS.items()),
    *(LossRow(Scores, lambda: Scores(0.2), draw, smoothed, f"smoothed {name}") for name, draw in LABELS.items()),
    LossRow(loss.Cross_Entropy, loss.Cross_Entropy, samples.class_probabilities, cross_entropy, "class numbers"),
    LossRow(loss.Cross_Entropy, loss.Cross_Entropy, samples.distribution_probabilities, cross_entropy, "rows"),
    LossRow(loss.Cross_Entropy, loss.Cross_Entropy, samples.sequences_of_class_probabilities, cross_entropy, "sequences"),
    LossRow(loss.Binary_Cross_Entropy, loss.Binary_Cross_Entropy, samples.decisions, binary_cross_entropy, "decisions"),
    LossRow(loss.Binary_Cross_Entropy, loss.Binary_Cross_Entropy, samples.probable_decisions, binary_cross_entropy, "probable"),
    LossRow(Chances, Chances, samples.decided_probabilities, binary_cross_entropy_of_probabilities, "decisions"),
    LossRow(loss.MSELoss, loss.MSELoss, samples.numbers, lambda y, z: float(((z - y) ** 2).mean())),
    LossRow(loss.MSELoss, loss.MSELoss, samples.far_numbers, lambda y, z: float(((z - y) ** 2).mean()), "far"),
    LossRow(loss.MAELoss, loss.MAELoss, samples.numbers, lambda y, z: float(np.abs(z - y).mean())),
    LossRow(loss.HuberLoss, loss.HuberLoss, samples.far_numbers, lambda y, z: huber(y, z, 1.0)),
    LossRow(loss.HuberLoss, lambda: loss.HuberLoss(4), samples.far_numbers, lambda y, z: huber(y, z, 4.0), "wide"),
    LossRow(loss.TanhLoss, loss.TanhLoss, samples.numbers, lambda y, z: float(np.log(np.cosh(z - y)).mean())),
    LossRow(loss.TanhLoss, loss.TanhLoss, samples.far_numbers, lambda y, z: float(np.log(np.cosh(z - y)).mean()), "far"),
    LossRow(loss.Hinge, loss.Hinge, samples.decisions, hinge, "decisions"),
    LossRow(loss.Hinge, loss.Hinge, samples.signed_decisions, hinge, "signed decisions"),
    LossRow(loss.Hinge, loss.Hinge, samples.classes, hinge_of_classes, "class numbers"),
]
