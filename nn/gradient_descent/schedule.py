"""Learning-rate schedules, which a rule takes in place of a number."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from nn import arguments
from nn.arguments import Configurable

__all__ = ["Constant", "Cosine", "ExponentialDecay", "Schedule", "StepDecay", "WarmUp"]


class Schedule(Configurable, ABC):
    """A learning rate as a function of the steps done, given to a rule in place of a number: `SGDOptimizer(Cosine(0.1, 500))`.

    It holds no state: the step count is the rule's, and is saved with it.

    >>> class InverseRoot(nn.gradient_descent.Schedule):
    ...     def __call__(self, step):
    ...         return 0.1 / (1 + step) ** 0.5
    >>> nn.gradient_descent.SGDOptimizer(InverseRoot()).learn_rate
    0.1
    """

    @abstractmethod
    def __call__(self, step: int) -> float:
        """Return the learning rate, >= 0, of the step before which `step` steps were done; the first has 0."""


class Constant(Schedule, configured=True):
    """`rate` at every step, the meaning of a plain number, for places that take a schedule only.

    >>> schedule = nn.gradient_descent.Constant(0.1)
    >>> [round(schedule(step), 4) for step in (0, 100)]
    [0.1, 0.1]
    """

    def __init__(self, rate: float) -> None:
        self.rate = arguments.number(self, "rate", rate, 0)

    def __call__(self, step: int) -> float:
        return self.rate


class StepDecay(Schedule, configured=True):
    """rate * factor^floor(step / steps): the rate is multiplied by `factor` after every `steps` steps.

    >>> schedule = nn.gradient_descent.StepDecay(0.1, steps=100, factor=0.5)
    >>> [round(schedule(step), 4) for step in (0, 99, 100, 200)]
    [0.1, 0.1, 0.05, 0.025]
    """

    @arguments.also(initial_learning_rate="rate", decay_steps="steps", decay_rate="factor")
    def __init__(self, rate: float, steps: int, factor: float = 0.1) -> None:
        self.rate = arguments.number(self, "rate", rate, 0)
        self.steps = arguments.integer(self, "steps", steps, minimum=1)
        self.factor = arguments.number(self, "factor", factor, 0)
        # `number` excludes its upper bound, but 1 is allowed.
        if self.factor > 1:
            raise ValueError(f"{type(self).__name__} 'factor' must be a number from 0 to 1, got {factor}")

    def __call__(self, step: int) -> float:
        return self.rate * float(self.factor ** (step // self.steps))


class ExponentialDecay(StepDecay):
    """rate * factor^(step / steps): like `StepDecay`, but smoothly.

    >>> schedule = nn.gradient_descent.ExponentialDecay(0.1, steps=100, factor=0.5)
    >>> [round(schedule(step), 4) for step in (0, 50, 100)]
    [0.1, 0.0707, 0.05]
    """

    def __call__(self, step: int) -> float:
        return self.rate * float(self.factor ** (step / self.steps))


class Cosine(Schedule, configured=True):
    """final + (rate - final) * (1 + cos(pi * step / steps)) / 2 up to `steps`, then `final` (Loshchilov and Hutter, 2017).

    >>> schedule = nn.gradient_descent.Cosine(0.1, steps=100)
    >>> [round(schedule(step), 4) for step in (0, 50, 100)]
    [0.1, 0.05, 0.0]
    """

    @arguments.also(initial_learning_rate="rate", decay_steps="steps")
    def __init__(self, rate: float, steps: int, final: float = 0.0) -> None:
        self.rate = arguments.number(self, "rate", rate, 0)
        self.steps = arguments.integer(self, "steps", steps, minimum=1)
        self.final = arguments.number(self, "final", final, 0)

    def __call__(self, step: int) -> float:
        # Exactly `final`, without the rounding of the cosine.
        if step >= self.steps:
            return self.final
        return self.final + (self.rate - self.final) * (1 + math.cos(math.pi * step / self.steps)) / 2


class WarmUp(Schedule, configured=True):
    """A straight line from `start` to the first rate of `then` in `steps` steps, then `then` from its beginning.

    start + (then(0) - start) * step / steps  for step < steps, after that  then(step - steps)  (Goyal et al., 2017). `then`
    is a schedule or a number. With start = 0 the first step changes no parameter but fills the averages of the rule.

    >>> schedule = nn.gradient_descent.WarmUp(nn.gradient_descent.Cosine(0.1, steps=100), steps=10)
    >>> [round(schedule(step), 4) for step in (0, 5, 10, 110)]
    [0.0, 0.05, 0.1, 0.0]
    """

    def __init__(self, then: float | Schedule, steps: int, start: float = 0.0) -> None:
        self.then: Schedule = then if isinstance(then, Schedule) else Constant(arguments.number(self, "then", then, 0))
        self.steps = arguments.integer(self, "steps", steps, minimum=1)
        self.start = arguments.number(self, "start", start, 0)

    def __call__(self, step: int) -> float:
        if step >= self.steps:
            return self.then(step - self.steps)
        return self.start + (self.then(0) - self.start) * step / self.steps
