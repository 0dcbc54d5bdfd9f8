"""A plan completed by the transforms of a training, with their statistics."""

from __future__ import annotations

from nn.dataset.interface import Arrays
from nn.dataset.plan.plan import Plan
from nn.dataset.transforms.abstract import AbsTransformer

__all__ = ["transformed"]


def transformed(transform: AbsTransformer | None, arrays: Arrays, seed: int, plan: Plan | None) -> tuple[Arrays, Plan | None]:
    """Return the four arrays transformed, of equal bits as by a call, and the plan with the transforms behind its steps.

    Args:
        transform: as a job has it, or None.
        arrays: those of the data set.
        seed: that of the job.
        plan: that of the data set; None where there is none to be kept.

    Returns:
        arrays and plan, None in place of the plan where a transform has no form for prediction.
    """
    # One by one: a transform takes its statistics from what those before it have made.
    for step in () if transform is None else transform.steps:
        applied = step
        if plan is not None and not step.for_training_only:
            try:
                fitted = step.fitted(arrays[0], arrays[1])
                plan = plan if fitted is None else plan.followed_by(fitted)
                # With fixed statistics it has the bits that prediction will have.
                applied = fitted or step
            except TypeError:
                # Without a form for prediction no plan can make the samples of a model.
                plan = None
        arrays = applied(*arrays, seed=seed)
    return arrays, plan
