"""Rules that divide gradients by their size so far: AdaGrad, RMSProp, AdaDelta."""

from __future__ import annotations

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent, KernelDecay, keras_names
from nn.gradient_descent.numerics import flush_squares_to_zero, flush_to_zero
from nn.gradient_descent.schedule import Schedule


class AdaGradOptimizer(IGradientDescent, configured=True):
    """Adaptive subgradients (Duchi, Hazan and Singer, 2011): s <- s + g^2,  w <- w - learn_rate * g / (sqrt(s) + epsilon).

    Parameters that seldom have a gradient keep a large rate. s only grows, so training on end comes to a halt.

    Args:
        learn_rate: number from 0 on, or a schedule.
        epsilon: above 0, so that a parameter without gradients is not divided by 0.
        weight_decay: told in `IGradientDescent`, as are the three arguments that clip gradients.

    >>> rule, w = nn.gradient_descent.AdaGradOptimizer(0.1), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.9, 2.1]
    """

    slots = ("square_sum",)

    @keras_names()
    def __init__(
        self,
        learn_rate: float | Schedule = 0.01,
        epsilon: float = 1e-10,
        weight_decay: float | KernelDecay = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm, clip_variable_norm)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        (square_sum,) = slots
        np.multiply(gradient, gradient, out=out)
        # A sum that never fades: unlike a running mean it needs no look for denormal numbers.
        np.add(square_sum, out, out=square_sum)
        np.sqrt(square_sum, out=out)
        # Behind the root, as torch has it.
        np.add(out, self.epsilon, out=out)
        np.divide(gradient, out, out=out)
        np.multiply(out, -self.rate, out=out)


class RMSPropOptimizer(IGradientDescent, configured=True):
    """Gradients divided by their root mean square (Tieleman and Hinton, 2012, lecture 6.5):

    s <- rho s + (1 - rho) g^2,  d = g / (sqrt(s) + epsilon),  w <- w - learn_rate * d.

    `centered` (Graves, 2013) divides by sqrt(s - m^2) + epsilon instead, where m <- rho m + (1 - rho) g. `momentum` > 0
    makes it v <- momentum * v + d,  w <- w - learn_rate * v.

    Args:
        learn_rate: number from 0 on, or a schedule.
        rho: share of the means that stays at each step, from 0 to below 1.
        epsilon: above 0, so that a parameter without gradients is not divided by 0.
        momentum: share of the velocity that stays at each step; 0: there is none.
        centered: whether the variance of the gradients stands in place of the mean of their squares.
        weight_decay: told in `IGradientDescent`, as are the three arguments that clip gradients.

    >>> rule, w = nn.gradient_descent.RMSPropOptimizer(0.1), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.6838, 2.3162]
    """

    @keras_names()
    def __init__(
        self,
        learn_rate: float | Schedule = 1e-3,
        rho: float = 0.9,
        epsilon: float = 1e-8,
        momentum: float = 0.0,
        centered: bool = False,
        weight_decay: float | KernelDecay = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm, clip_variable_norm)
        self.rho = arguments.number(self, "rho", rho, 0, 1)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)
        self.momentum = arguments.number(self, "momentum", momentum, 0, 1)
        self.centered = arguments.instance(self, "centered", centered, bool)
        # Of the object: arrays that these arguments do not need take memory, too.
        self.slots = ("square", *(["mean"] if centered else []), *(["velocity"] if self.momentum else []))

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        square, *others = slots
        np.multiply(gradient, gradient, out=out)
        # `out` is work space until the increment is known.
        _mix(square, out, self.rho)
        if self.centered:
            mean = others[0]
            # A copy, since the gradient is needed once more and `_mix` overwrites.
            np.copyto(out, gradient)
            _mix(mean, out, self.rho)
            np.multiply(mean, mean, out=out)
            np.subtract(square, out, out=out)
            # rounding may leave a variance of 0 a little below it
            np.maximum(out, 0, out=out)
            np.sqrt(out, out=out)
        else:
            np.sqrt(square, out=out)
        # Behind the root, as torch has it.
        np.add(out, self.epsilon, out=out)
        np.divide(gradient, out, out=out)
        if self.momentum:
            velocity = others[-1]
            np.multiply(velocity, self.momentum, out=velocity)
            np.add(velocity, out, out=velocity)
            np.multiply(velocity, -self.rate, out=out)
        else:
            np.multiply(out, -self.rate, out=out)
        flush_to_zero(self._step_number, *others)
        flush_squares_to_zero(self._step_number, self.rho, square)


class AdaDeltaOptimizer(IGradientDescent, configured=True):
    """Steps in the units of the parameters, without a rate to choose (Zeiler, 2012):

    s <- rho s + (1 - rho) g^2,  d = sqrt((u + epsilon) / (s + epsilon)) * g,  u <- rho u + (1 - rho) d^2,
    w <- w - learn_rate * d.

    The paper's rule has learn_rate = 1.

    Args:
        learn_rate: number from 0 on, or a schedule.
        rho: share of the means that stays at each step, from 0 to below 1.
        epsilon: above 0; it also sets the length of the first steps.
        weight_decay: told in `IGradientDescent`, as are the three arguments that clip gradients.

    >>> rule, w = nn.gradient_descent.AdaDeltaOptimizer(), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.9968, 2.0032]
    """

    slots = ("square", "step_square")

    @keras_names()
    def __init__(
        self,
        learn_rate: float | Schedule = 1.0,
        rho: float = 0.9,
        epsilon: float = 1e-6,
        weight_decay: float | KernelDecay = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm, clip_variable_norm)
        self.rho = arguments.number(self, "rho", rho, 0, 1)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        square, step_square = slots
        other = self.spare(out)
        np.multiply(gradient, gradient, out=other)
        _mix(square, other, self.rho)
        # Below the root, as the paper has it.
        np.add(square, self.epsilon, out=other)
        # u before it takes in this step, as in the paper.
        np.add(step_square, self.epsilon, out=out)
        np.divide(out, other, out=out)
        np.sqrt(out, out=out)
        np.multiply(out, gradient, out=out)
        np.multiply(out, out, out=other)
        _mix(step_square, other, self.rho)
        flush_squares_to_zero(self._step_number, self.rho, square, step_square)
        np.multiply(out, -self.rate, out=out)


def _mix(mean: Array, fresh: Array, share: float) -> None:
    """Compute mean <- share * mean + (1 - share) * fresh; `fresh` is overwritten."""
    np.multiply(fresh, 1 - share, out=fresh)
    np.multiply(mean, share, out=mean)
    np.add(mean, fresh, out=mean)
