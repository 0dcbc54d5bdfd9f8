"""Adam and its relatives: AdamW, LAMB."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from nn import arguments
from nn.arrays import Array, empty
from nn.gradient_descent.interface import IGradientDescent, chunks, keras_names
from nn.gradient_descent.numerics import flush_squares_to_zero, flush_to_zero, norm
from nn.gradient_descent.schedule import Schedule


class ADAMOptimizer(IGradientDescent, configured=True):
    """Adaptive moment estimation (Kingma and Ba, 2015), step t:

        m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,
        w <- w - learn_rate * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon).

    The slots hold M = m / (1 - b1) and V = v / (1 - b2): their recurrences need one multiplication less each; the factors
    move into the two numbers that all parameters share:

        w <- w - learn_rate * f * M / (sqrt(V) + e)  with  c = sqrt((1 - b2^t) / (1 - b2)),  f = c * (1 - b1) / (1 - b1^t),
        e = epsilon * c.

    Args:
        learn_rate: number from 0 on, or a schedule.
        beta1: b1, share of the mean of gradients that stays at each step, from 0 to below 1.
        beta2: b2, that of the mean of squares.
        epsilon: above 0, so that a parameter without gradients is not divided by 0.
        weight_decay: told in `IGradientDescent`, as are the three arguments that clip gradients.

    >>> rule, w = nn.gradient_descent.ADAMOptimizer(0.1), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.9, 2.1]
    """

    slots = ("momentum", "square")
    concurrent: ClassVar[bool] = True

    @keras_names(alpha="learn_rate", beta_1="beta1", beta_2="beta2")
    def __init__(
        self,
        learn_rate: float | Schedule = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm, clip_variable_norm)
        self.beta1 = arguments.number(self, "beta1", beta1, 0, 1)
        self.beta2 = arguments.number(self, "beta2", beta2, 0, 1)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)

    def begin_step(self) -> None:
        """Compute the factor of M / (sqrt(V) + e) and e for this step."""
        self.correct(-self.rate)

    def correct(self, factor: float) -> None:
        """Have `increment` write `factor` times the quotient of the corrected moments."""
        scale = math.sqrt((1 - self.beta2**self._step_number) / (1 - self.beta2))
        share = factor * scale * (1 - self.beta1) / (1 - self.beta1**self._step_number)
        # arrays without axes, which NumPy takes in half the time of a float
        shared = (self.beta1, self.beta2, share, self.epsilon * scale)
        # Of the type of the vectors: arrays of float64 would widen every operation with them.
        self._numbers = tuple(np.array(number, self._scratch.dtype) for number in shared)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        momentum, square = slots
        beta1, beta2, scale, epsilon = self._numbers
        np.multiply(momentum, beta1, momentum)
        np.add(momentum, gradient, momentum)
        # Denormal numbers slow each operation on them down many times over.
        flush_to_zero(self._step_number, momentum)
        # `out` serves as work space: g^2, then the root, then the quotient.
        np.multiply(gradient, gradient, out)
        np.multiply(square, beta2, square)
        np.add(square, out, square)
        flush_squares_to_zero(self._step_number, self.beta2, square)
        np.sqrt(square, out)
        np.add(out, epsilon, out)
        np.divide(momentum, out, out)
        np.multiply(out, scale, out)


class ADAMWOptimizer(ADAMOptimizer):
    """Adam with a weight decay that does not pass through the moments (Loshchilov and Hutter, 2019):

    w <- w - learn_rate * weight_decay * w - (the step of `ADAMOptimizer`).

    >>> rule, w = nn.gradient_descent.ADAMWOptimizer(0.1, weight_decay=0.1), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.89, 2.08]
    """

    decoupled: ClassVar[bool] = True
    # Said again, because it does not count for subclasses.
    concurrent: ClassVar[bool] = True

    @keras_names(beta_1="beta1", beta_2="beta2")
    def __init__(
        self,
        learn_rate: float | Schedule = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, beta1, beta2, epsilon, weight_decay, clip_value, clip_norm, clip_variable_norm)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        super().increment(value, gradient, out, *slots)
        if self.weight_decay:
            # In `spare`: the step is in `out`, and the gradient's scratch may be in use.
            decay = np.multiply(value, -self.rate * self.weight_decay, out=self.spare(out))
            np.add(out, decay, out=out)


class LAMBOptimizer(ADAMOptimizer):
    """Adam with a step for each variable in proportion to its norm, for large batches (You et al., 2020):

    r = m^ / (sqrt(v^) + epsilon) + weight_decay * w,  w <- w - learn_rate * (|w| / |r|) * r,

    with the corrected moments m^ and v^ of Adam; the quotient is 1 where either norm is 0. The paper's phi is the identity.
    Norms are those of one variable, so the rule must know where each begins: `partition(sizes)` tells it. It works on the
    whole vector only.

    >>> rule, w = nn.gradient_descent.LAMBOptimizer(0.1), np.array([1.0, 2.0])
    >>> rule.partition([2])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.8395, 2.1557]
    """

    decoupled: ClassVar[bool] = True

    @keras_names(beta_1="beta1", beta_2="beta2")
    def __init__(
        self,
        learn_rate: float | Schedule = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay: float = 0.01,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, beta1, beta2, epsilon, weight_decay, clip_value, clip_norm, clip_variable_norm)
        self._change: Array = np.empty(0)

    @property
    def elementwise(self) -> bool:
        """No: a parameter changes by the norm of its variable."""
        return False

    def update(self, parameters: Array, gradients: Array) -> None:
        # The step of each variable is scaled when all of it is known, so it needs room for the whole vector.
        if self._change.shape != parameters.shape or self._change.dtype != parameters.dtype:
            self._change = empty(parameters.shape, parameters.dtype)
        self.write_change(parameters, gradients, self._change)
        np.add(parameters, self._change, out=parameters)

    def write_change(self, parameters: Array, gradients: Array, out: Array) -> None:
        """Write the increment of one step into `out`; raise ValueError unless `partition` fits the vector."""
        # Vectors that do not fit each other are refused further on, in better words.
        if parameters.shape == gradients.shape:
            self._whole_variables(parameters.size)
        super().write_change(parameters, gradients, out)
        for variable in self._variables:
            change = out[variable]
            # Of the parameters before the step.
            length, step = norm(chunks(parameters[variable])), norm(chunks(change))
            np.multiply(change, -self.rate * (length / step if length and step else 1.0), out=change)

    def begin_step(self) -> None:
        """Have `increment` write the direction r: its length is known when a whole variable is done."""
        self.correct(1.0)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        super().increment(value, gradient, out, *slots)
        if self.weight_decay:
            np.add(out, np.multiply(value, self.weight_decay, out=self.spare(out)), out=out)
