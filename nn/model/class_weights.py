"""Weights of classes, by number, by name, or balanced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from nn import arguments
from nn.arrays import Array

__all__ = ["BALANCED", "ClassWeight", "weights_by_number"]

BALANCED: Final = "balanced"
ClassWeight: TypeAlias = Mapping[int, float] | Mapping[str, float] | Literal["balanced"] | Mapping[str, Any] | None
"""The weight of each class, by its number or by its name in the plan of the data, or "balanced"; of a model of several outputs
one of these for each output, by its name."""


def weights_by_number(given: Any, labels: Any, classes: Sequence[str] | None) -> dict[int, float]:
    """Return the weight of each class by its number.

    "balanced" gives class c the weight ``n / (classes * n_c)`` of n samples, n_c of that class, as in scikit-learn.

    Args:
        given: {class: weight}, by number or name, or "balanced".
        labels: of all training samples: class numbers ``(n,)`` or ``(n, 1)``, or one-hot rows ``(n, classes)``.
        classes: the names of the classes in the order of their numbers, None where there are none.

    Raises:
        ValueError: for a name that is no class, for names where there are none, and for "balanced" with labels that are no
            classes.
    """
    if isinstance(given, str):
        if given != BALANCED:
            arguments.one_of("fit()", "class_weight", given, [BALANCED])
        return _balanced(np.asarray(labels))
    if not isinstance(given, Mapping):
        raise TypeError(
            f"'class_weight' must map class numbers to weights, got {type(given).__name__}; names and 'balanced' are taken, too"
        )
    found = {}
    for name, weight in given.items():
        if not isinstance(name, str):
            found[name] = weight
            continue
        if classes is None:
            raise ValueError(
                f"'class_weight' must have class numbers as keys, got {name!r}: nothing names the classes, as a plan does: "
                "model.inputs = data"
            )
        if name not in classes:
            known = ", ".join(repr(each) if "," in each else each for each in classes)[:400]
            raise ValueError(f"'class_weight' must name classes, {known}, got {name!r}{arguments.did_you_mean(name, classes)}")
        found[list(classes).index(name)] = weight
    return found


def _balanced(labels: Array) -> dict[int, float]:
    if labels.ndim == 2 and labels.shape[1] > 1:
        if not np.isin(labels, (0, 1)).all() or not (labels.sum(axis=1) == 1).all():
            raise ValueError("'class_weight' can be 'balanced' for labels that are one-hot rows, got rows that are not")
        labels = labels.argmax(axis=1)
    values = labels.reshape(-1)
    # One number for each sample.
    if values.size != len(labels) or not np.array_equal(values, np.rint(values)) or values.min(initial=0) < 0:
        raise ValueError(
            f"'class_weight' can be 'balanced' for labels that are class numbers, got {labels.dtype} {labels.shape}"
        )
    numbers, counts = np.unique(values, return_counts=True)
    return {int(number): len(values) / (len(numbers) * int(count)) for number, count in zip(numbers, counts, strict=True)}
