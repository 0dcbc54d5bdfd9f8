"""The losses."""

from __future__ import annotations

import itertools
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


def focal(y: Array, z: Array, gamma: float, alpha: float | None = None) -> float:
    p = 1 / (1 + np.exp(-z))
    weight = 1 if alpha is None else y * alpha + (1 - y) * (1 - alpha)
    missed = 1 - (y * p + (1 - y) * (1 - p))
    return float(-(weight * missed**gamma * (y * np.log(p) + (1 - y) * np.log(1 - p))).mean())


def focal_of_classes(y: Array, z: Array, gamma: float, alpha: float) -> float:
    p = softmax(z)
    return float(-alpha * (one_hot(y, z.shape[-1]) * (1 - p) ** gamma * np.log(p)).sum(axis=-1).mean())


def divergence(y: Array, p: Array) -> float:
    return float((y * np.log(y / p)).sum(axis=-1).mean())


def cosine(y: Array, p: Array) -> float:
    return float(-((y * p).sum(axis=-1) / np.linalg.norm(y, axis=-1) / np.linalg.norm(p, axis=-1)).mean())


def dice(y: Array, p: Array, smooth: float) -> float:
    axes = tuple(range(1, p.ndim))
    return float((1 - (2 * (p * y).sum(axes) + smooth) / (p.sum(axes) + y.sum(axes) + smooth)).mean())


def triplet(y: Array, z: Array, margin: float) -> float:
    near, far = (((z[:, 0] - z[:, place]) ** 2).sum(axis=-1) for place in (1, 2))
    return float(np.maximum(near - far + margin, 0).mean())


def squared_hinge(y: Array, z: Array) -> float:
    return float((np.maximum(0, 1 - np.where(y.reshape(z.shape) == 1, 1, -1) * z) ** 2).mean())


def squared_hinge_of_classes(y: Array, z: Array) -> float:
    others = np.where(one_hot(y, z.shape[1]) == 1, -np.inf, z)
    return float((np.maximum(0, 1 + others.max(axis=1) - z[np.arange(len(y)), y]) ** 2).mean())


def spread(y: Array, z: Array, blank: int) -> float:
    """CTC, by all ways there are."""
    found = []
    for label, p in zip(y, softmax(z), strict=True):
        total = 0.0
        for way in itertools.product(range(p.shape[1]), repeat=len(p)):
            if [each for each, _ in itertools.groupby(way) if each != blank] == label[label != blank].tolist():
                total += float(np.prod(p[np.arange(len(p)), way]))
        found.append(-np.log(total))
    return float(np.mean(found))


Scores = loss.Cross_Entropy_With_Softmax
Focal, FocalOfClasses = loss.Binary_Focal_Cross_Entropy, loss.Focal_Cross_Entropy_With_Softmax
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
    LossRow(loss.SquaredHinge, loss.SquaredHinge, samples.decisions, squared_hinge, "decisions"),
    LossRow(loss.SquaredHinge, loss.SquaredHinge, samples.signed_decisions, squared_hinge, "signed decisions"),
    LossRow(loss.SquaredHinge, loss.SquaredHinge, samples.classes, squared_hinge_of_classes, "class numbers"),
    LossRow(Focal, Focal, samples.decisions, lambda y, z: focal(y, z, 2), "decisions"),
    LossRow(Focal, lambda: Focal(1.5, 0.25), samples.probable_decisions, lambda y, z: focal(y, z, 1.5, 0.25), "probable"),
    LossRow(Focal, lambda: Focal(1, 0.7), samples.decisions, lambda y, z: focal(y, z, 1, 0.7), "weighted"),
    LossRow(Focal, lambda: Focal(0.5), samples.probable_decisions, lambda y, z: focal(y, z, 0.5), "small gamma"),
    LossRow(Focal, lambda: Focal(0), samples.decisions, lambda y, z: focal(y, z, 0), "no gamma"),
    LossRow(FocalOfClasses, FocalOfClasses, samples.classes, lambda y, z: focal_of_classes(y, z, 2, 1), "class numbers"),
    LossRow(FocalOfClasses, lambda: FocalOfClasses(0.5), samples.classes, lambda y, z: focal_of_classes(y, z, 0.5, 1), "small"),
    LossRow(FocalOfClasses, lambda: FocalOfClasses(0), samples.classes, lambda y, z: focal_of_classes(y, z, 0, 1), "no gamma"),
    LossRow(
        FocalOfClasses,
        lambda: FocalOfClasses(1.5, 0.25),
        samples.sequences_of_distributions,
        lambda y, z: focal_of_classes(y, z, 1.5, 0.25),
        "sequences of rows",
    ),
    LossRow(
        loss.KLDivergence,
        loss.KLDivergence,
        samples.divergent_rows,
        divergence,
    ),
    LossRow(loss.CosineSimilarity, loss.CosineSimilarity, samples.directions, cosine),
    LossRow(loss.Dice, loss.Dice, samples.masks, lambda y, p: dice(y, p, 1e-7)),
    LossRow(loss.Dice, lambda: loss.Dice(1.0), samples.masks, lambda y, p: dice(y, p, 1.0), "smooth"),
    LossRow(
        loss.Contrastive,
        loss.Contrastive,
        samples.distances,
        lambda y, d: float(((1 - y) * d**2 + y * np.maximum(1 - d, 0) ** 2).mean()),
    ),
    LossRow(loss.CTC, loss.CTC, samples.spread_labels, lambda y, z: spread(y, z, 0)),
    LossRow(loss.CTC, lambda: loss.CTC(blank=2), samples.spread_labels_behind, lambda y, z: spread(y, z, 2), "blank behind"),
    LossRow(loss.Triplet, lambda: loss.Triplet(0.5), samples.triplets, lambda y, z: triplet(y, z, 0.5)),
    LossRow(
        loss.QuantileLoss,
        lambda: loss.QuantileLoss(0.9),
        samples.far_numbers,
        lambda y, p: float(np.where(y > p, 0.9 * (y - p), 0.1 * (p - y)).mean()),
    ),
    LossRow(loss.PoissonLoss, loss.PoissonLoss, samples.counts, lambda y, p: float((p - y * np.log(p)).mean())),
]
