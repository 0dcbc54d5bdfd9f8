"""Learning-rate schedules, which a rule takes in place of a number."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from nn import arguments
from nn.arguments import Configurable

__all__ = [
    "Constant",
    "Cosine",
    "CosineRestarts",
    "ExponentialDecay",
    "OneCycle",
    "Piecewise",
    "Polynomial",
    "Schedule",
    "StepDecay",
    "WarmUp",
]


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

    Args:
        rate: of the first steps, at least 0.
        steps: from one change to the next.
        factor: by which the rate is multiplied, from 0 to 1.

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

    Args:
        rate: of the first step, at least 0.
        steps: until the last rate is reached.
        final: the last rate.

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
        return self.final if step >= self.steps else _half_wave(self.rate, self.final, step / self.steps)


class CosineRestarts(Schedule, configured=True):
    """Cosines from a rate down to `final`, one after the other (Loshchilov and Hutter, 2017: warm restarts).

    The first takes `steps` steps and begins at `rate`; each further one takes `stretch` times as many (not rounded) and rises
    `factor` times as far above `final`.

    Args:
        rate: the first rate.
        steps: length of the first cosine.
        stretch: quotient of the lengths of neighbouring cosines, at least 1; Keras's `t_mul`, torch's `T_mult`.
        factor: quotient of their heights above `final`, at most 1; Keras's `m_mul`.
        final: the rate to which each goes down; Keras's `alpha` is its share of `rate`.

    >>> schedule = nn.gradient_descent.CosineRestarts(0.1, steps=100)
    >>> [round(schedule(step), 4) for step in (0, 50, 100, 200, 300)]
    [0.1, 0.05, 0.1, 0.05, 0.1]
    """

    @arguments.also(initial_learning_rate="rate", first_decay_steps="steps", t_mul="stretch", m_mul="factor")
    def __init__(self, rate: float, steps: int, stretch: float = 2.0, factor: float = 1.0, final: float = 0.0) -> None:
        self.rate = arguments.number(self, "rate", rate, 0)
        self.steps = arguments.integer(self, "steps", steps, minimum=1)
        self.stretch = arguments.number(self, "stretch", stretch, 1)
        self.factor = arguments.share(self, "factor", factor)
        self.final = arguments.number(self, "final", final, 0)

    def __call__(self, step: int) -> float:
        begin, length, height = 0.0, float(self.steps), self.rate - self.final
        if self.stretch == 1:
            # As many restarts as there are steps are not gone through one by one.
            restarts, step = divmod(step, self.steps)
            height *= float(self.factor**restarts)
        while step >= begin + length:
            begin, length, height = begin + length, length * self.stretch, height * self.factor
        return _half_wave(self.final + height, self.final, (step - begin) / length)


class OneCycle(Schedule, configured=True):
    """One rise to a large rate and one longer fall to almost 0, both halves of a cosine (Smith and Topin, 2018).

    From rate / divide_start it rises to `rate` at the step rise * steps - 1, then falls to rate / (divide_start * divide_final)
    at the last step, steps - 1, and stays there. The steps are those of torch's `OneCycleLR`, which changes the momentum as
    well unless it is told `cycle_momentum=False`; here the momentum stays.

    Args:
        rate: the largest rate.
        steps: number of all steps.
        rise: share of the steps that go up, above 0 and below 1.
        divide_start: `rate` divided by the first rate.
        divide_final: the first rate divided by the last.

    >>> schedule = nn.gradient_descent.OneCycle(0.1, steps=101, rise=0.5)
    >>> [round(schedule(step), 4) for step in (0, 50, 100, 200)]
    [0.004, 0.1, 0.0, 0.0]
    """

    def __init__(
        self, rate: float, steps: int, rise: float = 0.3, divide_start: float = 25.0, divide_final: float = 1e4
    ) -> None:
        self.rate = arguments.number(self, "rate", rate, 0)
        self.steps = arguments.integer(self, "steps", steps, minimum=2)
        self.rise = arguments.number(self, "rise", rise, 0, 1, open_low=True)
        self.divide_start = arguments.number(self, "divide_start", divide_start, 0, open_low=True)
        self.divide_final = arguments.number(self, "divide_final", divide_final, 0, open_low=True)

    def __call__(self, step: int) -> float:
        start = self.rate / self.divide_start
        top, last = self.rise * self.steps - 1, self.steps - 1
        if step <= top:
            # A rise shorter than a step has no way up: training begins at the largest rate.
            return _half_wave(start, self.rate, step / top if top > 0 else 1.0)
        return _half_wave(self.rate, start / self.divide_final, min((step - top) / (last - top), 1.0))


class Piecewise(Schedule, configured=True):
    """A rate for each stretch of steps: rates[0] up to the step boundaries[0], then rates[1] up to boundaries[1], and so on.

    A boundary belongs to the stretch before it, as in Keras's `PiecewiseConstantDecay`.

    Args:
        boundaries: steps in ascending order, counted from 0.
        rates: one more than there are boundaries.

    >>> schedule = nn.gradient_descent.Piecewise([100, 200], [0.1, 0.05, 0.01])
    >>> [schedule(step) for step in (0, 100, 101, 200, 201)]
    [0.1, 0.1, 0.05, 0.05, 0.01]
    """

    @arguments.also(values="rates")
    def __init__(self, boundaries: Sequence[int], rates: Sequence[float]) -> None:
        limits = arguments.sequence(self, "boundaries", boundaries, "numbers of steps")
        self.boundaries = tuple([arguments.integer(self, "boundaries", boundary, minimum=0) for boundary in limits])
        given = arguments.sequence(self, "rates", rates, "numbers")
        self.rates = tuple([arguments.number(self, "rates", rate, 0) for rate in given])
        if any(after <= before for before, after in pairwise(self.boundaries)):
            raise ValueError(f"{type(self).__name__} 'boundaries' must ascend, got {list(self.boundaries)}")
        if len(self.rates) != len(self.boundaries) + 1:
            raise ValueError(
                f"{type(self).__name__} 'rates' must hold one more than the {len(self.boundaries)} boundaries, "
                f"got {len(self.rates)}"
            )

    def __call__(self, step: int) -> float:
        return self.rates[bisect_left(self.boundaries, step)]


class Polynomial(Schedule, configured=True):
    """final + (rate - final) * (1 - step / steps)^power up to `steps`, then `final`; with a power of 1 a straight line.

    Args:
        rate: the first rate.
        steps: number of steps until `final`.
        final: the last rate; Keras's `end_learning_rate`.
        power: the exponent, above 0.

    >>> schedule = nn.gradient_descent.Polynomial(0.1, steps=100, power=2)
    >>> [round(schedule(step), 4) for step in (0, 50, 100)]
    [0.1, 0.025, 0.0]
    """

    @arguments.also(initial_learning_rate="rate", decay_steps="steps", end_learning_rate="final")
    def __init__(self, rate: float, steps: int, final: float = 0.0, power: float = 1.0) -> None:
        self.rate = arguments.number(self, "rate", rate, 0)
        self.steps = arguments.integer(self, "steps", steps, minimum=1)
        self.final = arguments.number(self, "final", final, 0)
        self.power = arguments.number(self, "power", power, 0, open_low=True)

    def __call__(self, step: int) -> float:
        left = 1 - min(step, self.steps) / self.steps
        return self.final + (self.rate - self.final) * float(left**self.power)


class WarmUp(Schedule, configured=True):
    """A straight line from `start` to the first rate of `then` in `steps` steps, then `then` from its beginning.

    start + (then(0) - start) * step / steps  for step < steps, after that  then(step - steps)  (Goyal et al., 2017). `then`
    is a schedule or a number. With start = 0 the first step changes no parameter but fills the averages of the rule.

    Args:
        then: schedule or rate after the line.
        steps: of the line.
        start: rate of the first step.

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


def _half_wave(start: float, end: float, share: float) -> float:
    """Return the number from `start` to `end` at which half a wave of a cosine is after a share of its length."""
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2
