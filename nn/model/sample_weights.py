"""How much each sample counts: weights of samples and of classes."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.loss import Loss


def combine_weights(
    loss: Loss, label: Array, sample_weight: Any, class_weight: Mapping[int, float] | None, dtype: np.dtype[Any]
) -> Array | None:
    """Return one weight for each label, the product of both kinds, or None where there is neither.

    Raises ValueError naming a weight that is negative, not finite or of the wrong number.
    """
    weight: Array | None = None
    if sample_weight is not None:
        weight = loss.check_weights(sample_weight, len(label), dtype)
    if class_weight is not None:
        by_class = class_weights(label, class_weight, dtype)
        weight = by_class if weight is None else np.multiply(weight, by_class, dtype=dtype)
    return weight


def class_weights(label: Array, class_weight: Mapping[int, float], dtype: np.dtype[Any]) -> Array:
    """Return the weight of each label's class (batch,); classes that `class_weight` leaves out have the weight 1.

    Labels are class numbers (batch,) or (batch, 1), or one-hot rows (batch, classes).
    """
    if not isinstance(class_weight, Mapping):
        raise TypeError(f"'class_weight' must map class numbers to weights, got {type(class_weight).__name__}")
    for number, weight in class_weight.items():
        if isinstance(number, bool) or not isinstance(number, Integral) or number < 0:
            raise ValueError(f"'class_weight' must have class numbers as keys, got {number!r}")
        arguments.number("fit()", f"class_weight[{number}]", weight, 0)
    numbers = _class_numbers(label)
    weights = np.ones(len(numbers), dtype)
    for number, weight in class_weight.items():
        weights[numbers == number] = weight
    return weights


def _class_numbers(label: Array) -> Array:
    if label.ndim == 2 and label.shape[1] > 1:
        numbers: Array = label.argmax(axis=1)
        return numbers
    numbers = label.reshape(-1)
    if label.ndim > 2 or (numbers != np.floor(numbers)).any() or numbers.min() < 0:
        raise ValueError(f"'class_weight' needs class numbers or one-hot rows as labels, got shape {label.shape}")
    return numbers.astype(np.intp)
