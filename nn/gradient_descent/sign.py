"""Rules with steps that the learning rate bounds: Lion, Adamax."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent, KernelDecay, keras_names
from nn.gradient_descent.numerics import flush_to_zero
from nn.gradient_descent.schedule import Schedule


class LionOptimizer(IGradientDescent, configured=True):
    """Steps of one length, in the direction of a mean of gradients (Chen et al., Symbolic discovery of optimization
    algorithms, NeurIPS 2023):

    w <- w - learn_rate * (sign(b1 m + (1 - b1) g) + weight_decay * w),  then  m <- b2 m + (1 - b2) g.

    It keeps one array where Adam keeps two. The paper takes a learning rate 3 to 10 times smaller than Adam's, and a weight
    decay as many times larger.

    Args:
        learn_rate: number from 0 on, or a schedule: the length of the step of each parameter.
        beta1: b1, share of m in the direction, from 0 to below 1.
        beta2: b2, share of m that stays at each step.
        weight_decay: decoupled, as the formula says; other arguments are told in `IGradientDescent`.

    >>> rule, w = nn.gradient_descent.LionOptimizer(0.1), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.9, 2.1]
    """

    slots = ("momentum",)
    decoupled: ClassVar[bool] = True
    concurrent: ClassVar[bool] = True

    @keras_names(beta_1="beta1", beta_2="beta2")
    def __init__(
        self,
        learn_rate: float | Schedule = 1e-4,
        beta1: float = 0.9,
        beta2: float = 0.99,
        weight_decay: float | KernelDecay = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm, clip_variable_norm)
        self.beta1 = arguments.number(self, "beta1", beta1, 0, 1)
        self.beta2 = arguments.number(self, "beta2", beta2, 0, 1)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        (momentum,) = slots
        spare = self.spare(out)
        np.multiply(momentum, self.beta1, out=out)
        np.multiply(gradient, 1 - self.beta1, out=spare)
        np.add(out, spare, out=out)
        np.sign(out, out=out)
        np.multiply(out, -self.rate, out=out)
        # Only now: the direction takes m as it was before this step.
        np.multiply(momentum, self.beta2, out=momentum)
        np.multiply(gradient, 1 - self.beta2, out=spare)
        np.add(momentum, spare, out=momentum)
        # Denormal numbers are slow; the sign of what is as small as this is taken for 0.
        flush_to_zero(self._step_number, momentum)
        self._add_decay(value, out)


class AdamaxOptimizer(IGradientDescent, configured=True):
    """Adam with the largest gradient, fading, in place of the root mean square (Kingma and Ba, 2015, section 7.1), step t:

    m <- b1 m + (1 - b1) g,  u <- max(b2 u, |g| + epsilon),  w <- w - learn_rate / (1 - b1^t) * m / u.

    The epsilon stands in the maximum, as in torch; the paper has none, Keras adds it to u.

    Args:
        learn_rate: number from 0 on, or a schedule.
        beta1: b1, share of the mean of gradients that stays at each step, from 0 to below 1.
        beta2: b2, by which the largest gradient fades at each step.
        epsilon: above 0, so that a parameter without gradients is not divided by 0.
        weight_decay: told in `IGradientDescent`, as are the three arguments that clip gradients.

    >>> rule, w = nn.gradient_descent.AdamaxOptimizer(0.1), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.9, 2.1]
    """

    slots = ("momentum", "largest")
    concurrent: ClassVar[bool] = True

    @keras_names(beta_1="beta1", beta_2="beta2")
    def __init__(
        self,
        learn_rate: float | Schedule = 2e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float | KernelDecay = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm, clip_variable_norm)
        self.beta1 = arguments.number(self, "beta1", beta1, 0, 1)
        self.beta2 = arguments.number(self, "beta2", beta2, 0, 1)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        momentum, largest = slots
        np.abs(gradient, out=out)
        np.add(out, self.epsilon, out=out)
        np.multiply(largest, self.beta2, out=largest)
        # At least epsilon, so it never becomes denormal.
        np.maximum(largest, out, out=largest)
        np.multiply(gradient, 1 - self.beta1, out=out)
        np.multiply(momentum, self.beta1, out=momentum)
        np.add(momentum, out, out=momentum)
        flush_to_zero(self._step_number, momentum)
        np.divide(momentum, largest, out=out)
        np.multiply(out, -self.rate / (1 - self.beta1**self._step_number), out=out)
