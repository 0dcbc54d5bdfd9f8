"""Stochastic gradient descent: plain, with a learning rate that decays, with momentum, and Nesterov's."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent, KernelDecay, keras_names
from nn.gradient_descent.numerics import flush_to_zero
from nn.gradient_descent.schedule import Schedule


class SGDOptimizer(IGradientDescent, configured=True):
    """w <- w - learn_rate * g (Robbins and Monro, 1951); with `momentum` the step of `MomentumOptimizer`, bit for bit, and with
    `nesterov` that of `NesterovOptimizer`.

    The arguments that all rules share (a schedule as learning rate, weight decay, clipping) are told in `IGradientDescent`.

    Args:
        learn_rate: number from 0 on, or a schedule.
        weight_decay: told in `IGradientDescent`, as are the three arguments that clip gradients.
        momentum: share of the velocity that stays at each step, from 0 to below 1; 0: there is none.
        nesterov: whether the step looks ahead, which needs a momentum.

    >>> rule, w = nn.gradient_descent.SGDOptimizer(0.1), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.95, 2.1]
    """

    concurrent: ClassVar[bool] = True

    @keras_names()
    def __init__(
        self,
        learn_rate: float | Schedule = 0.01,
        weight_decay: float | KernelDecay = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
        momentum: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm, clip_variable_norm)
        self.momentum = arguments.number(self, "momentum", momentum, 0, 1)
        self.nesterov = bool(arguments.instance(self, "nesterov", nesterov, bool))
        if nesterov and not momentum:
            raise ValueError(f"{type(self).__name__} 'nesterov' needs a 'momentum' > 0, got {momentum}")
        # Of the object: a rule without momentum keeps no array.
        self.slots = ("velocity",) if momentum else ()

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        if not slots:
            # Negative: an increment is added.
            np.multiply(gradient, -self.rate, out=out)
        else:
            _roll(self._step_number, self.momentum, gradient, *slots)
            _fall(self.momentum, -self.rate, gradient, slots[0], out, ahead=self.nesterov)


class GradientDecay(SGDOptimizer, configured=True):
    """w <- w - learn_rate / (1 + decay * t) * g, where t counts the steps before this one.

    Decay with the inverse of time is the sequence for which Robbins and Monro (1951) prove convergence: the rates add up to
    infinity, their squares do not. The rate of a schedule as `learn_rate` is divided in the same way.

    Args:
        learn_rate: number from 0 on, or a schedule.
        decay: by which the divisor grows at each step, at least 0.
        weight_decay: told in `IGradientDescent`, as are the three arguments that clip gradients.

    >>> rule, w = nn.gradient_descent.GradientDecay(0.1, decay=0.5), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.95, 2.1]
    """

    @keras_names()
    def __init__(
        self,
        learn_rate: float | Schedule = 0.01,
        decay: float = 1e-3,
        weight_decay: float | KernelDecay = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm, clip_variable_norm)
        self.decay = arguments.number(self, "decay", decay, 0)

    def begin_step(self) -> None:
        # The first step has the whole rate.
        self._keep(rate=self.rate / (1 + self.decay * (self._step_number - 1)))


class MomentumOptimizer(IGradientDescent, configured=True):
    """The heavy ball (Polyak, 1964): v <- momentum * v + g,  w <- w - learn_rate * v.

    The learning rate stands outside of v, as in torch, so that v does not depend on rates that have passed.

    Args:
        learn_rate: number from 0 on, or a schedule.
        momentum: share of the velocity that stays at each step, from 0 to below 1.
        weight_decay: told in `IGradientDescent`, as are the three arguments that clip gradients.

    >>> rule, w = nn.gradient_descent.MomentumOptimizer(0.1, momentum=0.9), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.95, 2.1]
    """

    slots = ("velocity",)
    concurrent: ClassVar[bool] = True

    @keras_names()
    def __init__(
        self,
        learn_rate: float | Schedule = 0.01,
        momentum: float = 0.9,
        weight_decay: float | KernelDecay = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm, clip_variable_norm)
        self.momentum = arguments.number(self, "momentum", momentum, 0, 1)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        _fall(self.momentum, -self.rate, gradient, self.roll(gradient, *slots), out, ahead=False)

    def roll(self, gradient: Array, velocity: Array) -> Array:
        """Return the velocity after this step.

        Args:
            gradient: the gradients of a chunk.
            velocity: its velocity before the step.
        """
        return _roll(self._step_number, self.momentum, gradient, velocity)


class NesterovOptimizer(MomentumOptimizer):
    """Accelerated gradient (Nesterov, 1983), in the variables of Sutskever et al. (2013), with the gradient at w itself:

    v <- momentum * v + g,  w <- w - learn_rate * (g + momentum * v).

    >>> rule, w = nn.gradient_descent.NesterovOptimizer(0.1, momentum=0.9), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.905, 2.19]
    """

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        _fall(self.momentum, -self.rate, gradient, self.roll(gradient, *slots), out, ahead=True)


def _roll(step: int, momentum: float, gradient: Array, velocity: Array) -> Array:
    """Change the velocity by one step and return it."""
    np.multiply(velocity, momentum, out=velocity)
    np.add(velocity, gradient, out=velocity)
    flush_to_zero(step, velocity)
    return velocity


def _fall(momentum: float, factor: float, gradient: Array, velocity: Array, out: Array, *, ahead: bool) -> None:
    """Write the increment for a velocity, `ahead` that of Nesterov's gradient."""
    if ahead:
        np.multiply(velocity, momentum, out=out)
        np.add(out, gradient, out=out)
        # The velocity itself must stay as it is; only the step looks ahead.
        velocity = out
    np.multiply(velocity, factor, out=out)
