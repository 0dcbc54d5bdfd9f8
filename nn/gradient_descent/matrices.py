"""Rules that look at variables as matrices: Adafactor and Muon."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from nn import arguments
from nn.arrays import Array, Shape, empty
from nn.gradient_descent.interface import KernelDecay, WholeVariableRule, chunks, keras_names
from nn.gradient_descent.numerics import flush_squares_to_zero, flush_to_zero, norm
from nn.gradient_descent.schedule import Schedule


class MatrixRule(WholeVariableRule, fixed=("_shapes", "_room")):
    """A rule that computes the step of a whole variable at a time, and must know the shapes of all.

    Optimizers tell them by `partition`. It works on the whole vector only.
    """

    _shapes: list[Shape] | None = None
    _room: Array = np.empty((4, 0))

    def partition(self, sizes: Sequence[int], shapes: Sequence[Shape] | None = None) -> None:
        super().partition(sizes, shapes)
        self._shapes = None if shapes is None else [tuple(shape) for shape in shapes]

    def write_change(self, parameters: Array, gradients: Array, out: Array) -> None:
        """Write the increment of one step into `out`; raise ValueError unless `partition` fits the vector."""
        if parameters.shape == gradients.shape:
            self._whole_variables(parameters.size)
            if self._shapes is None:
                raise ValueError(
                    f"{type(self).__name__} must be told the shapes of the variables by partition() (optimizers do), got their "
                    "sizes alone"
                )
        # Clipped gradients stand in `out` first.
        super().write_change(parameters, gradients, out)
        for part, shape in zip(self._variables, self._shapes or (), strict=True):
            value, change = parameters[part], out[part]
            self.turn(value, change, shape, *(slot[part] for slot in self._slots.values()))
            if self.weight_decay and not (self._decays is not None and len(shape) < 2):
                decay = self.room(change)[0]
                np.multiply(value, self.rate * self.weight_decay, out=decay)
                np.subtract(change, decay, out=change)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        """Write the gradient into `out`: `turn` makes the step of it when all of a variable is there."""
        np.copyto(out, gradient)

    @abstractmethod
    def turn(self, value: Array, change: Array, shape: Shape, *slots: Array) -> None:
        """Turn the gradient of a variable, `change`, into its increment without decay, in place.

        Args:
            value: the variable, a vector, which is only read.
            change: its gradient, a vector.
            shape: shape of the variable.
            slots: its parts of the slots, which are changed in place.
        """

    def room(self, change: Array) -> Array:
        """Return four scratch vectors of the length of a variable, (4, length), for use within one `turn`."""
        # One room for all variables, since they are turned one after the other.
        largest = max(part.stop - part.start for part in self._variables)
        if self._room.shape[1] < largest or self._room.dtype != change.dtype:
            self._room = empty((4, largest), change.dtype)
        return self._room[:, : change.size]


class AdafactorOptimizer(MatrixRule, configured=True):
    """Steps scaled by roots of mean squares of which only sums of rows and columns are kept (Shazeer and Stern, "Adafactor:
    adaptive learning rates with sublinear memory cost", ICML 2018):

    r <- b r + (1 - b) mean_columns(g^2 + epsilon1),  c <- b c + (1 - b) mean_rows(g^2 + epsilon1),  v = r c / mean(r),
    u = g / sqrt(v),  w <- w - a u / max(1, rms(u) / clip_threshold),  a = max(epsilon2, rms(w)) * min(learn_rate, 1 / sqrt(t)),

    with b = 1 - t^beta2_decay at step t. Of a variable of several axes the last two are columns and rows, as in Keras; one of a
    single axis keeps v itself. The step is so large as `learn_rate` says in proportion to the variable. Rows and columns stand
    in a slot of the length of the parameters, of which most stays untouched, and so takes no memory until it is saved.

    Args:
        learn_rate: the most that a step changes a variable by, as a share of its root mean square.
        beta2_decay: the power by which b grows, below 0.
        epsilon1: added to squares, above 0.
        epsilon2: the least root mean square that a variable is taken to have, above 0.
        clip_threshold: root mean square of u from which on it is made shorter, above 0.
        weight_decay: decoupled, as in AdamW.
        clip_value: as in every rule.
        clip_norm: as in every rule.
        clip_variable_norm: as in every rule.

    >>> rule, w = nn.gradient_descent.AdafactorOptimizer(0.1), np.array([1.0, 2.0])
    >>> rule.partition([2], [(2,)])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.8419, 2.1581]
    """

    slots = ("square",)

    @keras_names(beta_2_decay="beta2_decay", epsilon_1="epsilon1", epsilon_2="epsilon2")
    def __init__(
        self,
        learn_rate: float | Schedule = 1e-3,
        beta2_decay: float = -0.8,
        epsilon1: float = 1e-30,
        epsilon2: float = 1e-3,
        clip_threshold: float = 1.0,
        weight_decay: float | KernelDecay = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm, clip_variable_norm)
        self.beta2_decay = arguments.number(self, "beta2_decay", beta2_decay, -math.inf, 0)
        self.epsilon1 = arguments.number(self, "epsilon1", epsilon1, 0, open_low=True)
        self.epsilon2 = arguments.number(self, "epsilon2", epsilon2, 0, open_low=True)
        self.clip_threshold = arguments.number(self, "clip_threshold", clip_threshold, 0, open_low=True)

    def turn(self, value: Array, change: Array, shape: Shape, *slots: Array) -> None:
        (square,) = slots
        # 0 at the first step: the means begin as the first squares and need no correction as those of Adam do.
        kept = 1 - float(self._step_number) ** self.beta2_decay
        squares, root, fresh, _ = self.room(change)
        np.multiply(change, change, out=squares)
        # Before the means are taken, as in the paper, so that no root is 0.
        squares += self.epsilon1
        if len(shape) < 2 or min(shape[-2:]) == 1:
            # Of a single row or column the sums are the squares themselves.
            _roll(square, squares, kept, fresh)
            np.divide(change, np.sqrt(square, out=root), out=change)
        else:
            *lead, rows, columns = shape
            count = math.prod(lead)
            # In the slot: the means of the rows, and behind them those of the columns.
            row = square[: count * rows].reshape(count, rows)
            column = square[count * rows : count * (rows + columns)].reshape(count, columns)
            squares = squares.reshape(count, rows, columns)
            _roll(row, squares.mean(axis=2), kept, fresh[: row.size].reshape(row.shape))
            _roll(column, squares.mean(axis=1), kept, fresh[: column.size].reshape(column.shape))
            gradient = change.reshape(count, rows, columns)
            # Root by root: v, which would be a matrix of its own, is never computed.
            gradient /= np.sqrt(row / row.mean(axis=1, keepdims=True))[:, :, None]
            gradient /= np.sqrt(column)[:, None, :]
        # Of all squares in double precision, see `norm`.
        length = math.sqrt(change.size)
        rate = max(self.epsilon2, norm(chunks(value)) / length) * min(self.rate, 1 / math.sqrt(self._step_number))
        change *= -rate / max(1.0, norm(chunks(change)) / length / self.clip_threshold)


class MuonOptimizer(MatrixRule, configured=True):
    """Momentum of matrices, made orthogonal (Jordan et al., "Muon", 2024; scaled as in Liu et al., "Muon is scalable for LLM
    training", 2025), and AdamW for variables that are no matrices:

    m <- momentum m + g,  w <- w - learn_rate * scale * sqrt(max(rows, columns)) * orthogonal(g + momentum m) - learn_rate *
    weight_decay * w

    `orthogonal` makes all singular values about 1, by steps of Newton and Schulz: x <- a x + (b x x' + c (x x')^2) x. Each is
    three products of matrices, so a step costs about as much as some batches of a small layer.

    Matrices are variables of two axes, as in Keras; embeddings among them, which Keras leaves to AdamW by their names, should
    be trained by another rule. Convolutions, biases and norms take AdamW's step, with epsilon behind the corrected root.

    Args:
        learn_rate: of all variables.
        momentum: share of the momentum that stays, from 0 to below 1.
        newton_steps: steps of Newton and Schulz.
        scale: root mean square of the step of a matrix, in learning rates; 0.2 is about that of Adam.
        nesterov: whether the gradient is looked at ahead, g + momentum m; else m.
        beta1: of AdamW.
        beta2: of AdamW.
        epsilon: of AdamW, above 0.
        weight_decay: of all variables.
        clip_value: as in every rule.
        clip_norm: as in every rule.
        clip_variable_norm: as in every rule.

    >>> rule, w = nn.gradient_descent.MuonOptimizer(0.1, weight_decay=0), np.eye(2).reshape(-1)
    >>> rule.partition([4], [(2, 2)])
    >>> rule.update(w, np.eye(2).reshape(-1))
    >>> w.round(3).tolist()
    [0.969, 0.0, 0.0, 0.969]
    """

    slots = ("momentum", "velocity")

    @keras_names(adam_beta_1="beta1", adam_beta_2="beta2", ns_steps="newton_steps", rms_rate="scale")
    def __init__(
        self,
        learn_rate: float | Schedule = 1e-3,
        momentum: float = 0.95,
        newton_steps: int = 5,
        scale: float = 0.2,
        nesterov: bool = True,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float | KernelDecay = 0.004,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_variable_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm, clip_variable_norm)
        self.momentum = arguments.number(self, "momentum", momentum, 0, 1)
        self.newton_steps = arguments.integer(self, "newton_steps", newton_steps, minimum=1)
        self.scale = arguments.number(self, "scale", scale, 0, open_low=True)
        self.nesterov = arguments.flag(self, "nesterov", nesterov)
        self.beta1 = arguments.number(self, "beta1", beta1, 0, 1)
        self.beta2 = arguments.number(self, "beta2", beta2, 0, 1)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)

    def turn(self, value: Array, change: Array, shape: Shape, *slots: Array) -> None:
        momentum, velocity = slots
        if len(shape) != 2:
            self._turn_adam(change, momentum, velocity)
            return
        x, square, polynomial, other = self.room(change)
        np.multiply(momentum, self.momentum, out=momentum)
        np.add(momentum, change, out=momentum)
        flush_to_zero(self._step_number, momentum)
        if self.nesterov:
            np.add(change, np.multiply(momentum, self.momentum, out=x), out=change)
        else:
            np.copyto(change, momentum)
        # The shorter axis first: the products are of its size.
        rows, columns = min(shape), max(shape)
        own = change.reshape(shape) if shape[0] == rows else change.reshape(shape).T
        x, other = x.reshape(rows, columns), other.reshape(rows, columns)
        square, polynomial = (each[: rows * rows].reshape(rows, rows) for each in (square, polynomial))
        # The root of all squares is no less than the largest singular value, so none is above 1 where the steps begin.
        np.divide(own, norm(chunks(change)) + _LEAST, out=x)
        for _ in range(self.newton_steps):
            np.matmul(x, x.T, out=square)
            np.matmul(square, square, out=polynomial)
            polynomial *= _C
            polynomial += np.multiply(square, _B, out=square)
            np.matmul(polynomial, x, out=other)
            x *= _A
            x += other
        # `rows` orthogonal rows of length 1 have a root mean square of 1 / sqrt(columns).
        np.multiply(x, -self.rate * self.scale * math.sqrt(columns), out=own)

    def _turn_adam(self, change: Array, momentum: Array, velocity: Array) -> None:
        step, (squares, fresh, _, _) = self._step_number, self.room(change)
        _roll(momentum, change, self.beta1, fresh)
        flush_to_zero(step, momentum)
        _roll(velocity, np.multiply(change, change, out=squares), self.beta2, fresh)
        flush_squares_to_zero(step, self.beta2, velocity)
        np.divide(velocity, 1 - self.beta2**step, out=change)
        np.sqrt(change, out=change)
        change += self.epsilon
        np.divide(momentum, change, out=change)
        change *= -self.rate / (1 - self.beta1**step)


_A, _B, _C = 3.4445, -4.7750, 2.0315
"""The polynomial of Jordan et al., steepest at 0 of those that keep values about 1 there."""

#: Added to norms of gradients, which may be 0.
_LEAST = 1e-7


def _roll(mean: Array, value: Array, kept: float, scratch: Array) -> None:
    """Move a running mean, of which the share `kept` stays, towards a value; in place."""
    np.multiply(mean, kept, out=mean)
    np.add(mean, np.multiply(value, 1 - kept, out=scratch), out=mean)
