"""The transforms of a plan: what is applied to samples between the table and the model, with the statistics of training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from nn.arrays import Array
from nn.dataset.interface import Arrays
from nn.dataset.plan.plan import Plan
from nn.dataset.transforms.abstract import AbsTransformer, build, describe
from nn.dataset.transforms.normalize import NormalizeLabels, Standardization

__all__ = ["apply_steps", "built", "described", "restore", "transformed"]


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


def built(plan: Plan) -> list[AbsTransformer]:
    """Return the transforms of a plan, made once; raises ValueError for a name or arguments that there are not."""
    made: list[AbsTransformer] | None = plan.__dict__.get("_built")
    if made is None:
        try:
            made = [build([step]) for step in plan.steps]
        except TypeError as error:
            raise ValueError(f"a step of a plan: {error}") from error
        plan.__dict__["_built"] = made
    return made


def apply_steps(plan: Plan, x: Array, labels: Callable[[], Array] | None) -> Array:
    """Return samples after the transforms.

    Args:
        plan: of which the transforms are.
        x: samples ``(n, ...)``.
        labels: gives the labels of the same rows, for a transform that needs them; None where there are none.

    Raises:
        ValueError: where labels are needed and there are none.
    """
    steps = built(plan)
    y: Array | None = None
    needing = next((step for step in steps if step.needs_labels), None)
    if needing is not None:
        if labels is None:
            raise ValueError(
                f"{type(needing).__name__} needs the labels of past rows: give rows by name, with the label column"
            )
        y = labels()
    for step in steps:
        x, y = step.at_prediction(x, y)
    return x


def restore(plan: Plan, prediction: Array) -> Array:
    """Return the values to predict that an output stands for."""
    for step in reversed(built(plan)):
        if isinstance(step, NormalizeLabels):
            prediction = step.restore(prediction)
    return prediction


def transformed(transform: AbsTransformer | None, arrays: Arrays, seed: int, plan: Plan | None) -> tuple[Arrays, Plan | None]:
    """Return the four arrays transformed, of equal bits as by a call, and the plan with the transforms behind its steps.

    Args:
        transform: as a job has it, or None.
        arrays: those of the data set.
        seed: that of the job.
        plan: that of the data set; None where there is none to be kept.

    Returns:
        arrays and plan, None in place of the plan where a transform does not say what it does at prediction.
    """
    for step in () if transform is None else transform.steps:
        if plan is not None and not step.for_training_only:
            try:
                fitted = step.fitted(arrays[0], arrays[1])
                plan = plan if fitted is None else plan.followed_by(fitted)
                step = fitted or step
            except TypeError:
                plan = None
        arrays = step(*arrays, seed=seed)
    return arrays, plan


def with_rows(plan: Plan, rows: dict[str, str]) -> Plan:
    """Return a plan with the checksums of the rows of a data set."""
    return replace(plan, rows=rows)
