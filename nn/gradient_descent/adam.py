"""Adam and its relatives: AdamW, Nadam, LAMB."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent, KernelDecay, WholeVariableRule, chunks, keras_names
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
        amsgrad: divide by the root of the largest v so far, so that a step never grows by gradients that become small (Reddi,
            Kale and Kumar, On the convergence of Adam and beyond, ICLR 2018).

    >>> rule, w = nn.gradient_descent.ADAMOptimizer(0.1), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.9, 2.1]
    """

    slots: tuple[str, ...] = ("momentum", "square")
    concurrent: ClassVar[bool] = True

    #: What all chunks of a step share.
    _numbers: tuple[Array, ...]

    @keras_names(alpha="learn_rate", beta_1="beta1", beta_2="beta2")
    def __init__(
        self,
        learn_rate: float | Schedule = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float | KernelDecay = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm, clip_variable_norm)
        self.beta1 = arguments.number(self, "beta1", beta1, 0, 1)
        self.beta2 = arguments.number(self, "beta2", beta2, 0, 1)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)
        self.amsgrad = bool(arguments.instance(self, "amsgrad", amsgrad, bool))
        if amsgrad:
            # Of the object: an array that others do not need.
            self.slots = ("momentum", "square", "largest_square")

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
        dtype = self._scratch.dtype
        # Past a look at each name, as in `_begin`.
        vars(self)["_numbers"] = tuple([np.array(number, dtype) for number in shared])

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        momentum, square, *largest = slots
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
        if largest:
            # Before the correction, as in torch: the factor of V is in the numbers that all parameters share.
            np.maximum(largest[0], square, out=largest[0])
            square = largest[0]
        np.sqrt(square, out)
        np.add(out, epsilon, out)
        np.divide(momentum, out, out)
        np.multiply(out, scale, out)


class ADAMWOptimizer(ADAMOptimizer):
    """Adam with a weight decay that does not pass through the moments (Loshchilov and Hutter, 2019):

    w <- w - learn_rate * weight_decay * w - (the step of `ADAMOptimizer`).

    Args:
        learn_rate: number from 0 on, or a schedule.
        beta1: b1, share of the mean of gradients that stays at each step, from 0 to below 1.
        beta2: b2, that of the mean of squares.
        epsilon: above 0, so that a parameter without gradients is not divided by 0.
        weight_decay: decoupled, as the formula says, or a `KernelDecay`; arguments that clip are told in `IGradientDescent`.
        amsgrad: as in `ADAMOptimizer`.

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
        weight_decay: float | KernelDecay = 0.01,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(learn_rate, beta1, beta2, epsilon, weight_decay, clip_value, clip_norm, clip_variable_norm, amsgrad)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        super().increment(value, gradient, out, *slots)
        self._add_decay(value, out)


class NadamOptimizer(ADAMOptimizer, configured=True):
    """Adam with Nesterov's momentum (Dozat, Incorporating Nesterov momentum into Adam, ICLR workshop 2016), step t:

        m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,  u_t = b1 (1 - 0.96^(t * momentum_decay) / 2),  p_t = u_1 ... u_t,
        w <- w - learn_rate * (u_(t+1) m / (1 - p_(t+1)) + (1 - u_t) g / (1 - p_t)) / (sqrt(v / (1 - b2^t)) + epsilon).

    Args:
        learn_rate: number from 0 on, or a schedule.
        beta1: b1, share of the mean of gradients that stays at each step, from 0 to below 1.
        beta2: b2, that of the mean of squares.
        epsilon: above 0, so that a parameter without gradients is not divided by 0.
        momentum_decay: how fast u_t goes to b1; 0.004 in the paper and in torch, Keras has 1.
        weight_decay: told in `IGradientDescent`, as are the three arguments that clip gradients.

    >>> rule, w = nn.gradient_descent.NadamOptimizer(0.1), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.8944, 2.1056]
    """

    # Said again, because it does not count for subclasses.
    concurrent: ClassVar[bool] = True

    @keras_names(beta_1="beta1", beta_2="beta2")
    def __init__(
        self,
        learn_rate: float | Schedule = 2e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        momentum_decay: float = 4e-3,
        weight_decay: float | KernelDecay = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, beta1, beta2, epsilon, weight_decay, clip_value, clip_norm, clip_variable_norm)
        self.momentum_decay = arguments.number(self, "momentum_decay", momentum_decay, 0)
        # p and the step that it belongs to.
        self._product, self._product_step = 1.0, 0

    def begin_step(self) -> None:
        """Compute the factors of M and g for this step."""
        super().begin_step()
        step = self._step_number
        # A state of fewer steps was loaded.
        if self._product_step > step:
            self._product, self._product_step = 1.0, 0
        # One factor, or after a state was loaded those of all steps before: the product is no part of the state.
        while self._product_step < step:
            self._product_step += 1
            self._product *= self._share(self._product_step)
        scale = -self.rate * math.sqrt((1 - self.beta2**step) / (1 - self.beta2))
        ahead = self._share(step + 1)
        beta1, beta2, _, epsilon = self._numbers
        of_momentum = scale * (1 - self.beta1) * ahead / (1 - self._product * ahead)
        of_gradient = scale * (1 - self._share(step)) / (1 - self._product)
        shares = (np.array(number, self._scratch.dtype) for number in (of_momentum, of_gradient))
        self._numbers = (beta1, beta2, *shares, epsilon)

    def _share(self, step: int) -> float:
        return self.beta1 * (1 - 0.5 * float(0.96 ** (step * self.momentum_decay)))

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        momentum, square = slots
        beta1, beta2, of_momentum, of_gradient, epsilon = self._numbers
        np.multiply(momentum, beta1, momentum)
        np.add(momentum, gradient, momentum)
        flush_to_zero(self._step_number, momentum)
        np.multiply(gradient, gradient, out)
        np.multiply(square, beta2, square)
        np.add(square, out, square)
        flush_squares_to_zero(self._step_number, self.beta2, square)
        root = self.spare(out)
        np.sqrt(square, root)
        np.add(root, epsilon, root)
        np.multiply(gradient, of_gradient, out)
        np.divide(out, root, out)
        # Both quotients one after the other, as there is no third scratch array.
        np.divide(momentum, root, root)
        np.multiply(root, of_momentum, root)
        np.add(out, root, out)


class LAMBOptimizer(WholeVariableRule, ADAMOptimizer, configured=True):
    """Adam with a step for each variable in proportion to its norm, for large batches (You et al., 2020):

    r = m^ / (sqrt(v^) + epsilon) + weight_decay * w,  w <- w - learn_rate * (|w| / |r|) * r,

    with the corrected moments m^ and v^ of Adam; the quotient is 1 where either norm is 0. The paper's phi is the identity.
    Norms are those of one variable, so the rule must know where each begins: `partition(sizes)` tells it. It works on the
    whole vector only.

    Args:
        learn_rate: number from 0 on, or a schedule.
        beta1: b1, share of the mean of gradients that stays at each step, from 0 to below 1.
        beta2: b2, that of the mean of squares.
        epsilon: above 0, so that a parameter without gradients is not divided by 0.
        weight_decay: decoupled, as the formula says; arguments that clip are told in `IGradientDescent`.

    >>> rule, w = nn.gradient_descent.LAMBOptimizer(0.1), np.array([1.0, 2.0])
    >>> rule.partition([2])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.8395, 2.1557]
    """

    @keras_names(beta_1="beta1", beta_2="beta2")
    def __init__(
        self,
        learn_rate: float | Schedule = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay: float | KernelDecay = 0.01,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, beta1, beta2, epsilon, weight_decay, clip_value, clip_norm, clip_variable_norm)

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
            np.add(out, self._decayed(value, self.weight_decay, self.spare(out)), out=out)
