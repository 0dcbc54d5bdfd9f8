"""The transforms of a plan, applied to samples between the table and the model, with the statistics of training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nn.arrays import Array
from nn.dataset.transforms.abstract import AbsTransformer, build, describe
from nn.dataset.transforms.normalize import NormalizeLabels, Standardization

__all__ = ["apply_steps", "built", "described", "restored"]


def described(transforms: Iterable[AbsTransformer]) -> list[tuple[str, dict[str, Any]]]:
    """Return name and arguments of the simple transforms that count at prediction.

    Raises:
        TypeError: for one that is not built in.
        ValueError: for one without statistics.
    """
    found = []
    for transform in transforms:
        for step in transform.steps:
            if step.for_training_only:
                continue
            if isinstance(step, Standardization) and (step.mean is None or step.std is None):
                name = type(step).__name__
                raise ValueError(f"{name} must have 'mean' and 'std' to be a step of a plan: make it by {name}.of(data)")
            found += describe(step)
    return found


def built(steps: Iterable[tuple[str, dict[str, Any]]]) -> list[AbsTransformer]:
    """Return the transforms that `described` described as `steps`.

    Raises ValueError for a name or arguments that there are not, for a transform that is for training only, and for one
    without statistics.
    """
    try:
        made = [build([step]) for step in steps]
        # Checks the steps; its result is not needed.
        described(made)
    except TypeError as error:
        raise ValueError(f"a step of a plan: {error}") from error
    for step in made:
        if step.for_training_only:
            raise ValueError(f"a step of a plan must count at prediction, {type(step).__name__} is for training only")
    return made


def apply_steps(steps: Sequence[AbsTransformer], x: Array, labels: Callable[[], Array] | None) -> Array:
    """Return samples after the transforms.

    Args:
        steps: the transforms.
        x: samples ``(n, ...)``.
        labels: gives the labels of the same rows, for a transform that needs them; None where there are none.

    Raises:
        ValueError: where labels are needed and there are none.
    """
    y: Array | None = None
    needing = next((step for step in steps if step.needs_labels), None)
    if needing is not None:
        if labels is None:
            raise ValueError(
                f"{type(needing).__name__} needs the labels of past rows: give rows by name, with the label column"
            )
        # At most once, and only where a transform asks: new rows may have no labels.
        y = labels()
    for step in steps:
        x, y = step.at_prediction(x, y)
    return x


def restored(steps: Sequence[AbsTransformer], prediction: Array) -> Array:
    """Return the values to predict that an output stands for.

    Args:
        steps: transforms in the order of `Plan.steps`.
        prediction: output of the model ``(n, ...)``.
    """
    # The last transform is undone first.
    for step in reversed(steps):
        if isinstance(step, NormalizeLabels):
            prediction = step.restore(prediction)
    return prediction
