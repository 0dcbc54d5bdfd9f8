"""Stochastic gradient descent: plain, with a learning rate that decays, with momentum, and Nesterov's."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent
from nn.gradient_descent.numerics import flush_to_zero
from nn.gradient_descent.schedule import Schedule


class SGDOptimizer(IGradientDescent):
    """w <- w - learn_rate * g (Robbins and Monro, 1951).

    The arguments that all rules share (a schedule as learning rate, weight decay, clipping) are told in `IGradientDescent`.

    >>> rule, w = nn.gradient_descent.SGDOptimizer(0.1), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.95, 2.1]
    """

    concurrent: ClassVar[bool] = True

    @arguments.also(learning_rate="learn_rate", clipvalue="clip_value", global_clipnorm="clip_norm")
    def __init__(
        self,
        learn_rate: float | Schedule = 0.01,
        weight_decay: float = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        np.multiply(gradient, -self.rate, out=out)


class GradientDecay(SGDOptimizer, configured=True):
    """w <- w - learn_rate / (1 + decay * t) * g, where t counts the steps before this one.

    Decay with the inverse of time is the sequence for which Robbins and Monro (1951) prove convergence: the rates add up to
    infinity, their squares do not. A schedule as `learn_rate` is divided likewise.

    >>> rule, w = nn.gradient_descent.GradientDecay(0.1, decay=0.5), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.95, 2.1]
    """

    @arguments.also(learning_rate="learn_rate", clipvalue="clip_value", global_clipnorm="clip_norm")
    def __init__(
        self,
        learn_rate: float | Schedule = 0.01,
        decay: float = 1e-3,
        weight_decay: float = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm)
        self.decay = arguments.number(self, "decay", decay, 0)

    def begin_step(self) -> None:
        self._keep(rate=self.rate / (1 + self.decay * (self.step - 1)))


class MomentumOptimizer(IGradientDescent, configured=True):
    """The heavy ball (Polyak, 1964): v <- momentum * v + g,  w <- w - learn_rate * v.

    The learning rate stands outside of v, as in torch, so that v does not depend on rates that have passed.

    >>> rule, w = nn.gradient_descent.MomentumOptimizer(0.1, momentum=0.9), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.95, 2.1]
    """

    slots = ("velocity",)
    concurrent: ClassVar[bool] = True

    @arguments.also(learning_rate="learn_rate", clipvalue="clip_value", global_clipnorm="clip_norm")
    def __init__(
        self,
        learn_rate: float | Schedule = 0.01,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm)
        self.momentum = arguments.number(self, "momentum", momentum, 0, 1)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        np.multiply(self.roll(gradient, *slots), -self.rate, out=out)

    def roll(self, gradient: Array, velocity: Array) -> Array:
        """Return the velocity after this step."""
        np.multiply(velocity, self.momentum, out=velocity)
        np.add(velocity, gradient, out=velocity)
        flush_to_zero(self.step, velocity)
        return velocity


class NesterovOptimizer(MomentumOptimizer):
    """Accelerated gradient (Nesterov, 1983), in the variables of Sutskever et al. (2013), whose gradient is that at w itself:

    v <- momentum * v + g,  w <- w - learn_rate * (g + momentum * v).

    >>> rule, w = nn.gradient_descent.NesterovOptimizer(0.1, momentum=0.9), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.905, 2.19]
    """

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        velocity = self.roll(gradient, *slots)
        np.multiply(velocity, self.momentum, out=out)
        np.add(out, gradient, out=out)
        np.multiply(out, -self.rate, out=out)
