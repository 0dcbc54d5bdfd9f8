"""How much each sample counts because of its class."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np

from nn import arguments
from nn.arrays import Array, Shape


def with_class_weights(
    weight: Array | None, label: Array, output: Shape, class_weight: Mapping[int, float], dtype: np.dtype[Any]
) -> Array:
    """Return the weight of each label's class (batch,), times `weight` (batch,) where there is one.

    Classes that `class_weight` leaves out have the weight 1. Every sample must be of one class of an output (batch, classes):
    labels, as the loss prepared them, are class numbers (batch,), one-hot rows (batch, classes), or for a single output,
    0 and 1, (batch, 1). Raises ValueError for others, and for a class that the model does not have.
    """
    table = _table(class_weight, max(output[-1], 2) if len(output) == 2 else None, dtype)
    by_class = table[_class_numbers(label, output)]
    return by_class if weight is None else np.multiply(weight, by_class, dtype=dtype)


def _table(class_weight: Mapping[int, float], classes: int | None, dtype: np.dtype[Any]) -> Array:
    """Return the weights of all classes."""
    if not isinstance(class_weight, Mapping):
        raise TypeError(f"'class_weight' must map class numbers to weights, got {type(class_weight).__name__}")
    table = np.ones(classes or 0, dtype)
    for number, weight in class_weight.items():
        if isinstance(number, bool) or not isinstance(number, Integral) or number < 0:
            raise ValueError(f"'class_weight' must have class numbers as keys, got {number!r}")
        arguments.number("fit()", f"class_weight[{number}]", weight, 0)
        if classes is not None:
            if number >= classes:
                raise ValueError(f"'class_weight' must name classes of the model, 0 to {classes - 1}, got {number}")
            table[number] = weight
    return table


def _class_numbers(label: Array, output: Shape) -> Array:
    found = f"labels of shape {label.shape} for outputs of shape {output}"
    if len(output) == 2:
        if label.ndim == 1 and label.dtype.kind in "iu":
            return label
        if label.shape[1:] == output[1:]:
            ones = label == 1
            if (ones | (label == 0)).all():
                numbers: Array = ones[:, 0].astype(np.intp) if output[1] == 1 else ones.argmax(axis=1)
                if output[1] == 1 or (ones.sum(axis=1) == 1).all():
                    return numbers
            found += " that are not " + ("0 and 1" if output[1] == 1 else "one-hot rows")
    raise ValueError(
        f"'class_weight' needs class numbers or one-hot rows as labels, one class for each sample, got {found}; "
        "'sample_weight' weighs any samples"
    )
