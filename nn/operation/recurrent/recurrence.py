"""Common parts of recurrent operations: their inputs, which outputs are wanted, and gradients that are sums over the steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from nn.arrays import BATCH, LENGTH, Array, Shape
from nn.operation.operation import Mode, Operation, batch_leads
from nn.random import keyed
from nn.threads import adding_product_of_rows, transpose


class Recurrence(Operation, ABC):
    """State h_t (batch, units), computed from x_t and h_(t-1) for each step of time; h before the first step is 0, or given.

    Inputs: x (batch, time, features), kernel (features, gates * units), recurrent kernel (units, gates * units), and a bias
    or none; then, with `masked`, a mask (batch, time), and with `given` the states before the first step (batch, units).
    Where the mask is 0 a step leaves the states as they are. Output: the last state (batch, units), or with
    `return_sequences` all of them (batch, time, units). With `with_cell` that of a kind with a second state has this, after
    the last step, as one more row: (batch, 2, units), or (batch, time + 1, units).
    """

    multiplies: ClassVar[bool] = True

    gates: ClassVar[int] = 1
    """Blocks of `units` columns in the kernels."""

    biases: ClassVar[int] = 1
    """1 for a bias (gates * units,); 2 for (2, gates * units), of which the second is added to the recurrent part."""

    states: ClassVar[int] = 1
    """Arrays (batch, units) that a step leaves to the next one."""

    carries: ClassVar[bool] = False
    """Whether it takes masks and states. A subclass with a `forward` of its own says so where it does."""

    masked: bool = False
    given: bool = False
    with_cell: bool = False
    drops: float = 0.0
    """Share of the state's units that the recurrent product does not see in training, the same in all steps of a sample."""

    training: bool = True
    """Whether backward will be run. If not, `allocate` makes no room for it."""

    def __init__(self, return_sequences: bool = False) -> None:
        self.return_sequences = return_sequences

    @property
    def extras(self) -> int:
        """The number of inputs behind the variables."""
        return self.masked + self.given * self.states

    def infer(self, *shapes: Shape) -> Shape:
        x, kernel, recurrent, *rest = shapes
        name = type(self).__name__
        if len(x) != 3 or BATCH in x[1:]:
            raise ValueError(f"{name}: expected inputs of shape (batch, time, features), got {x}")
        units, columns = recurrent[0], self.gates * recurrent[0]
        if x[2] != kernel[0]:
            raise ValueError(f"{name}: expected inputs with {kernel[0]} features on axis 2, got shape {x}")
        # Behind the biases stand the mask and the states to begin with.
        bias, extra = rest[: len(rest) - self.extras], rest[len(rest) - self.extras :]
        fitting = ((kernel[0], columns), (units, columns), (columns,) if self.biases == 1 else (2, columns))
        for what, found, expected in zip(
            ("kernel", "recurrent kernel", "bias"), (kernel, recurrent, *bias), fitting, strict=False
        ):
            if found != expected:
                raise ValueError(f"{name}: the {what} must have shape {expected}, got {found}")
        if self.masked and extra[0] != x[:2]:
            raise ValueError(f"{name}: the mask must have the shape {x[:2]} of batch and time, got {extra[0]}")
        for state in extra[self.masked :]:
            if state != (x[0], units):
                raise ValueError(f"{name}: a state must have the shape {(x[0], units)}, (batch, units), got {state}")
        if not self.return_sequences:
            return (x[0], 2, units) if self.with_cell else (x[0], units)
        time = x[1] if x[1] == LENGTH else x[1] + self.with_cell
        return (x[0], time, units)

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Return whether the batch is the first axis of x and no axis of a variable: samples do not see each other."""
        count = len(shapes) - self.extras
        leading = all(batch_leads(shape) for shape in shapes[count:])
        return leading and shapes[0][0] == BATCH and all(BATCH not in shape for shape in shapes[1:count])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._batch, self._time, self._features = shapes[0]
        self._units = shapes[2][0]
        self._further = self.extras
        self._ones = self.biases if len(shapes) - self._further > 3 else 0
        self._absent: Array | None = None
        if self.masked:
            self._absent = self._lasting.empty((self._time, self._batch), np.dtype(bool))
        self._dropping = self.drops > 0 and self.training
        self.prepare(dtype)

    @abstractmethod
    def prepare(self, dtype: np.dtype[Any]) -> None:
        """Allocate the arrays that the steps need, of this `dtype`."""

    def apart(self, inputs: Sequence[_Input]) -> tuple[Sequence[_Input], Sequence[_Input], Sequence[_Input]]:
        """Return of `inputs` x and the variables; the mask, if there is one; and the states that are given."""
        count = len(inputs) - self._further
        return inputs[:count], inputs[count : count + self.masked], inputs[count + self.masked :]

    def note_mask(self, mask: Sequence[Array]) -> None:
        """Note at which steps a sample has nothing to read."""
        if self._absent is not None:
            np.equal(mask[0].T, 0, out=self._absent)

    def incoming(self, gradient: Array, step: int) -> Array | None:
        """Return the gradient (batch, units) that reaches the state of a step from outside, None where there is none.

        Args:
            gradient: gradient of the output.
            step: number of the step.
        """
        if self.return_sequences:
            part: Array = gradient[:, step]
            return part
        if step < self._time - 1:
            return None
        return gradient[:, 0] if self.with_cell else gradient


_Input = TypeVar("_Input")


class FeatureMajor(Recurrence):
    """A recurrence that computes with transposed matrices, (features, batch), one after the other in time.

    Then each gate of a step is contiguous, and several of them are computed by one pass. `slab` (time + 1, rows, batch) holds
    for each step its x, a row of ones for the bias, the state before the step, and ones for the second bias if there is one.
    `packed` (rows, gates * units) holds the factors of these. Its columns are negative for all gates but the third, the one
    with a tanh: `logistic_of_negative` takes -z.
    """

    carries: ClassVar[bool] = True

    _drop: Array

    def prepare(self, dtype: np.dtype[Any]) -> None:
        features, units, biased = self._features, self._units, min(self._ones, 1)
        rows, columns = features + units + self._ones, self.gates * units
        self._state_rows = slice(features + biased, features + biased + units)
        # One step more: `h` of a step is written where the next one reads it.
        self._slab = self._lasting.empty((self._time + 1, rows, self._batch), dtype)
        self._x_slab = self._slab[:-1, :features].transpose(2, 0, 1)
        seen = self._slab[:, self._state_rows]
        # With dropout the product sees other numbers than those that are given out.
        kept = self._lasting.empty(seen.shape, dtype) if self._dropping else seen
        self._seen: list[Array] = list(seen) if self._dropping else []
        self._states = list(kept)
        self._state_slab = kept[1:].transpose(2, 0, 1)
        # An array: NumPy would convert a number of Python in each call.
        self._one = np.asarray(1, dtype)
        self._scale = np.full(columns, -1, dtype)
        self._scale[2 * units : 3 * units] = 1
        self._packed = self.scratch.empty((rows, columns), dtype)
        # Turned once, as the product of each step would turn it.
        self._turned = self.scratch.empty((columns, rows), dtype)
        if self.training:
            self._prepare_backward(rows, dtype)

    def _prepare_backward(self, rows: int, dtype: np.dtype[Any]) -> None:
        """Make room for the gradients of a step, of its x, and of the variables.

        Those of a step are dz, four blocks of `units` rows, that of its state, dh, and the part that goes straight to the step
        before.
        """
        gradients = 4 * self._units
        self._dh, self._carry = (self.scratch.empty((self._units, self._batch), dtype) for _ in range(2))
        self._x_gradient = self.scratch.empty((self._features, self._batch), dtype)
        self._dz = self.scratch.empty((gradients, self._batch), dtype)
        # Turned as `_turned` is: the product of a step adds to it, and reads both factors as they lie.
        self._total = self.scratch.empty(self._turned.shape, dtype)

    def read(self, variables: Sequence[Array], mask: Sequence[Array], states: Sequence[Array]) -> None:
        """Copy x and the first state into the slab, and the variables into `packed`."""
        x, kernel, recurrent, *bias = variables
        np.copyto(self._x_slab, x)
        # Each time: between two runs the memory is that of other plans.
        if self._ones:
            self._slab[:, self._features] = 1
        if self._ones == 2:
            self._slab[:, -1] = 1
        if states:
            np.copyto(self._states[0], states[0].T)
        else:
            self._states[0].fill(0)
        if self._seen:
            self.show(0)
        if mask:
            self.note_mask(mask)
        np.multiply(kernel, self._scale, out=self._packed[: self._features])
        np.multiply(recurrent, self._scale, out=self._packed[self._state_rows])
        # The second bias, if there is one, has the last row.
        for row, values in zip((self._features, -1), bias[0].reshape(self.biases, -1) if bias else (), strict=False):
            np.multiply(values, self._scale, out=self._packed[row])
        transpose(self._packed, self._turned)

    def show(self, step: int) -> None:
        """Have the recurrent product see the state before a step without the units that are dropped."""
        np.multiply(self._states[step], self._drop, out=self._seen[step])

    def write_states(self, out: Array) -> None:
        """Write the last state or all of them into the output."""
        np.copyto(out, self._state_slab if self.return_sequences else self._states[-1].T)

    def write_first(self, wanted: Sequence[Array | None], *gradients: Array) -> None:
        """Write the gradients of the states before the first step, those that are wanted."""
        for target, gradient in zip(wanted, gradients, strict=False):
            if target is not None:
                np.copyto(target, gradient.T)

    def add_incoming(self, gradient: Array, step: int, total: Array) -> None:
        """Add the gradient that reaches the state of a step from outside."""
        incoming = self.incoming(gradient, step)
        if incoming is not None:
            np.add(total, incoming.T, out=total)

    def adding_steps(self, gradients: Array, rows: slice) -> list[Callable[[], None]]:
        """Return for each step a function that adds gradients @ inputs^T of the step to the gradient of the variables.

        The BLAS adds a step's product to the sum in the time of the product: one over many steps at once would first copy what
        they have, and is no faster.

        Args:
            gradients: of a step, as many rows as the variables have columns.
            rows: of the slab, which these gradients belong to.
        """
        return [adding_product_of_rows(gradients, step[rows], self._total[:, rows]) for step in self._slab[:-1]]

    def write_variables(self, wanted: Sequence[Array | None]) -> None:
        """Write the gradients of those variables that need one."""
        for target, rows in zip(wanted, (slice(self._features), self._state_rows), strict=False):
            if target is not None:
                # Not scaled: the gradients of a step are those of the pre-activations, before the signs of the columns.
                transpose(self._total[:, rows], target)
        for target in wanted[2:]:
            if target is not None:
                for row, values in zip((self._features, -1), target.reshape(self.biases, -1), strict=False):
                    np.copyto(values, self._total[:, row])


class Dropping(Recurrence):
    """Recurrence that drops units of its state in the recurrent product (Gal and Ghahramani, 2016); base beside another one.

    Draws are keyed as those of dropout, one for each unit of a sample, the same in all steps, and those kept are scaled up.
    """

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        batch, units = shapes[0][0], shapes[2][0]
        self._drop = self._lasting.empty((units, batch), dtype)
        self._draws = self._lasting.empty((batch, units), np.dtype(np.float32))
        super().allocate(shapes, output, dtype)

    def begin(self, mode: Mode, position: int) -> None:
        if not self._dropping:
            return
        # A plan for training that predicts for once: the product sees all units.
        if not mode.training:
            self._drop.fill(1)
            return
        seed, *counters = mode.key
        keyed(seed, "dropout", *counters, position).random(dtype=np.float32, out=self._draws)
        np.greater_equal(self._draws.T, self.drops, out=self._drop)
        np.multiply(self._drop, 1 / (1 - self.drops), out=self._drop)


def logistic_of_negative(negative: Array, one: Array) -> None:
    """Write 1 / (1 + exp(-z)) in place of -z, with all digits also where it is close to 0; `one` is a 1 of the same type.

    (1 + tanh(z / 2)) / 2 is faster by a quarter and loses digits to the left: in a long sequence errors of small gates add up
    in the state, to 1e-5 of an output after a thousand steps. An overflow of exp gives the right 0.
    """
    np.exp(negative, negative)
    np.add(negative, one, negative)
    np.divide(one, negative, negative)


def clear(wanted: Sequence[Array | None]) -> None:
    """Write the gradient of a mask, which is 0 everywhere."""
    for target in wanted:
        if target is not None:
            target.fill(0)
