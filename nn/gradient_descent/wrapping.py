"""Rules that hold a rule: accumulation of gradients over batches, and means of the parameters over steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nn import arguments
from nn.arrays import Array, Shape
from nn.gradient_descent.interface import IGradientDescent, Stretches, parts
from nn.gradient_descent.numerics import flush_to_zero
from nn.gradient_descent.schedule import Schedule

_INNER = "rule."
AVERAGE = "average"
"""The array of a `ParameterMean` in its state."""


class WrappingRule(IGradientDescent):
    """A rule that holds another one, `rule`, which has the learning rate and all arguments of the step.

    Its state is its own beside that of the inner rule, under names that begin with `rule.`.
    """

    rule: IGradientDescent
    """The inner rule: one of its own, made anew from the arguments of the one that was given."""

    def __init__(self, rule: IGradientDescent) -> None:
        given = arguments.instance(self, "rule", rule, IGradientDescent)
        # A rule keeps state, and the same arguments may make rules for several workers.
        self.rule = type(given)(**given.get_config())
        super().__init__(given.argument("learn_rate"))

    @property
    def learn_rate(self) -> float:
        """The learning rate of the inner rule, which may be set at any time."""
        return self.rule.learn_rate

    @learn_rate.setter
    def learn_rate(self, value: float | Schedule) -> None:
        self.rule.learn_rate = value

    @property
    def schedule(self) -> Schedule | None:
        """The schedule of the inner rule, or None where its learning rate is a number."""
        return self.rule.schedule

    @property
    def elementwise(self) -> bool:
        """Whether the inner rule may be given a part of the vector."""
        return self.rule.elementwise

    def partition(self, sizes: Sequence[int], shapes: Sequence[Shape] | None = None) -> None:
        """Tell the inner rule the sizes of the variables, and their shapes."""
        super().partition(sizes, shapes)
        self.rule.partition(sizes, shapes)

    def argument(self, name: str) -> Any:
        """Return one argument; the learning rate as it was set last."""
        return self.rule.argument(name) if name == "learn_rate" else super().argument(name)

    def state_dict(self) -> dict[str, Array | int | float]:
        return {**super().state_dict(), **{f"{_INNER}{name}": value for name, value in self.rule.state_dict().items()}}

    def load_state_dict(self, state: Mapping[str, Array | int | float]) -> None:
        """Take over a copy of a state that `state_dict` returned; `{"step": 0}` starts afresh.

        Raises ValueError where names or lengths do not fit, naming the rule that they do not fit.
        """
        inner = {name.removeprefix(_INNER): value for name, value in state.items() if name.startswith(_INNER)}
        own = {name: value for name, value in state.items() if not name.startswith(_INNER)}
        # `{"step": 0}` names no state of the inner rule, and starts that afresh, too.
        if not inner:
            inner = {"step": 0}
        # First into a rule that is thrown away: a state that is refused changes nothing.
        type(self.rule)(**self.rule.get_config()).load_state_dict(inner)
        super().load_state_dict(own)
        self.rule.load_state_dict(inner)

    @abstractmethod
    def update_from(self, parameters: Array, gradients: Array | Stretches) -> None:
        """Change `parameters` in place by one step."""

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        """Raise TypeError: the inner rule computes increments."""
        raise TypeError(
            f"{type(self).__name__} has no increment of its own: call update(), which steps {type(self.rule).__name__}"
        )

    def _step_inner(self, parameters: Array, gradients: Array | Stretches) -> None:
        # At each step: training gives its team to the outer rule alone.
        self.rule.team = self.team
        if isinstance(gradients, np.ndarray):
            self.rule.update(parameters, gradients)
        else:
            self.rule.update_from(parameters, gradients)
        self._keep(rate=self.rule.rate)

    def _chunks(self) -> Iterator[slice]:
        return parts(0, len(next(iter(self._slots.values()))), self._scratch.shape[1])


class GradientAccumulation(WrappingRule, configured=True):
    """Accumulation of gradients: one step of a rule for the mean gradient of every `steps` batches.

    So a batch may be `steps` times as large as memory holds. `rule.step` of the inner rule, by which schedules go, counts its
    own steps. Batches left over at the end of an epoch count for the next step. On several workers the gradients of every
    batch are exchanged, and each worker adds up the merged ones.

    Args:
        rule: the rule that makes the steps.
        steps: batches for one step of the rule; Keras's `gradient_accumulation_steps`.

    >>> inner = nn.gradient_descent.SGDOptimizer(0.1)
    >>> rule, w = nn.gradient_descent.GradientAccumulation(inner, steps=2), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.tolist()
    [1.0, 2.0]
    >>> rule.update(w, np.array([1.5, -3.0]))
    >>> w.round(4).tolist()
    [0.9, 2.2]
    """

    slots = ("gradient_sum",)

    @arguments.also(gradient_accumulation_steps="steps")
    def __init__(self, rule: IGradientDescent, steps: int) -> None:
        super().__init__(rule)
        self.steps = arguments.integer(self, "steps", steps, minimum=1)

    def update_from(self, parameters: Array, gradients: Array | Stretches) -> None:
        """Add the gradients to the sum, and make a step of the inner rule where it is due."""
        total = self._accumulated(parameters, gradients)
        if total is not None:
            self._step_inner(parameters, total)
            total.fill(0)

    def write_change(self, parameters: Array, gradients: Array, out: Array) -> None:
        """Write the increment of the inner rule into `out`, or zeros where no step is due."""
        total = self._accumulated(parameters, gradients)
        if total is None:
            # To which a sum with any number, 0 and -0 among them, is that number.
            out.fill(-0.0)
        else:
            self.rule.write_change(parameters, total, out)
            self._keep(rate=self.rule.rate)
            total.fill(0)

    def _accumulated(self, parameters: Array, gradients: Array | Stretches) -> Array | None:
        """Add gradients to the sum; return their mean where a step is due."""
        self._begin(parameters, gradients)
        # Divided where it is due, not at each batch: a mean of shares would round at each of them.
        total = self._slots["gradient_sum"]
        due = self._step_number % self.steps == 0
        for part in self._chunks():
            np.add(total[part], gradients[part], out=total[part])
            if due:
                np.divide(total[part], self.steps, out=total[part])
        return total if due else None


class ParameterMean(WrappingRule):
    """A rule that keeps a mean of the parameters over its steps, `average`, beside those that it trains.

    `nn.callback.SwapEMA` puts the mean in place of the parameters when training ends. The mean is part of the state, and so of
    checkpoints. It holds trained parameters, no statistics such as those of `BatchNorm`.
    """

    slots = (AVERAGE,)

    @property
    def average(self) -> Array | None:
        """The mean of the parameters, (parameters,), in the order of the store; None before the first step."""
        return self._slots.get(AVERAGE)

    @property
    def reads_stretches(self) -> bool:
        """Whether the inner rule takes `update_from`."""
        return self.rule.reads_stretches

    def update(self, parameters: Array, gradients: Array) -> None:
        self.update_from(parameters, gradients)

    def update_from(self, parameters: Array, gradients: Array | Stretches) -> None:
        """Make a step of the inner rule, then take its parameters into the mean."""
        self._begin(parameters, gradients)
        self._step_inner(parameters, gradients)
        average = self._slots[AVERAGE]
        for part in self._chunks():
            self.take(average[part], parameters[part])

    def write_change(self, parameters: Array, gradients: Array, out: Array) -> None:
        """Write the increment of the inner rule into `out`, and take the parameters that it leads to into the mean."""
        self._begin(parameters, gradients)
        self.rule.write_change(parameters, gradients, out)
        self._keep(rate=self.rule.rate)
        average = self._slots[AVERAGE]
        for part in self._chunks():
            new = self._scratch[0, : len(out[part])]
            np.add(parameters[part], out[part], out=new)
            self.take(average[part], new)

    @abstractmethod
    def take(self, average: Array, value: Array) -> None:
        """Take the parameters after a step into one chunk of the mean.

        Args:
            average: the mean, changed in place.
            value: the parameters; may be scratch memory.
        """


class MovingAverage(ParameterMean, configured=True):
    """A rule with an exponential moving average of the parameters (Polyak and Juditsky, 1992, with weights that fade):

    average <- momentum * average + (1 - momentum) * w after every step; after the first step it is w, as in Keras.

    Args:
        rule: the rule that makes the steps.
        momentum: share of the average that stays at each step, from 0 to below 1; Keras's `ema_momentum`.

    >>> inner = nn.gradient_descent.SGDOptimizer(0.1)
    >>> rule, w = nn.gradient_descent.MovingAverage(inner, momentum=0.5), np.array([1.0, 2.0])
    >>> for _ in range(2):
    ...     rule.update(w, np.array([1.0, -1.0]))
    >>> w.round(4).tolist(), rule.average.round(4).tolist()
    ([0.8, 2.2], [0.85, 2.15])
    """

    @arguments.also(ema_momentum="momentum")
    def __init__(self, rule: IGradientDescent, momentum: float = 0.99) -> None:
        super().__init__(rule)
        self.momentum = arguments.number(self, "momentum", momentum, 0, 1)

    def take(self, average: Array, value: Array) -> None:
        if self._step_number == 1:
            np.copyto(average, value)
            return
        # The second one, since `value` may lie in the first.
        fresh = self._scratch[1, : len(value)]
        np.multiply(value, 1 - self.momentum, out=fresh)
        np.multiply(average, self.momentum, out=average)
        np.add(average, fresh, out=average)
        # Of parameters that have become 0.
        flush_to_zero(self._step_number, average)


class StochasticAverage(ParameterMean, configured=True):
    """A rule with the equal mean of the parameters after some of its steps (Izmailov et al., Averaging weights leads to wider
    optima and better generalization, UAI 2018: SWA).

    The parameters after the steps start, start + every, start + 2 every ... count alike; before, the mean is the parameters.

    Args:
        rule: the rule that makes the steps, in the paper with a constant learning rate or one that goes in cycles.
        start: number of the first step that counts, from 1.
        every: steps from one that counts to the next, usually an epoch.

    >>> inner = nn.gradient_descent.SGDOptimizer(0.1)
    >>> rule, w = nn.gradient_descent.StochasticAverage(inner, start=2), np.array([1.0, 2.0])
    >>> for _ in range(3):
    ...     rule.update(w, np.array([1.0, -1.0]))
    >>> w.round(4).tolist(), rule.average.round(4).tolist()
    ([0.7, 2.3], [0.75, 2.25])
    """

    def __init__(self, rule: IGradientDescent, start: int = 1, every: int = 1) -> None:
        super().__init__(rule)
        self.start = arguments.integer(self, "start", start, minimum=1)
        self.every = arguments.integer(self, "every", every, minimum=1)

    def take(self, average: Array, value: Array) -> None:
        behind = self._step_number - self.start
        if behind <= 0:
            np.copyto(average, value)
        elif behind % self.every == 0:
            fresh = self._scratch[1, : len(value)]
            # By the difference to the mean: a sum over all steps would grow and lose digits.
            np.subtract(value, average, out=fresh)
            np.divide(fresh, behind // self.every + 1, out=fresh)
            np.add(average, fresh, out=average)


def averages(rule: Any) -> ParameterMean | None:
    """Return the rule with a mean of the parameters among a rule and those that it holds; None where there is none."""
    while isinstance(rule, WrappingRule):
        if isinstance(rule, ParameterMean):
            return rule
        rule = rule.rule
    return None
