"""Layers that read a sequence step by step and remember."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.activation import ActivationName
from nn.activation.activation import Activation
from nn.activation.sigmoids import Tanh
from nn.arrays import BATCH, LENGTH, Array, Shape
from nn.extension import checked_call
from nn.initializer import GlorotUniform, Initializer, InitializerName, Orthogonal, Zeros
from nn.layer.layer import Inputs, Layer, bounds, chosen, direct, penalty
from nn.operation.elementwise import StopGradient
from nn.operation.recurrent.cells import (
    DroppingGRU,
    DroppingLSTM,
    DroppingSimpleRNN,
    GRUOperation,
    LSTMOperation,
    SimpleRNNOperation,
)
from nn.operation.recurrent.recurrence import Recurrence
from nn.operation.shape import Concatenate
from nn.value.graph import Carried, Kept
from nn.value.value import Constraint, ConstraintName, Node, Regularizer, RegularizerName, Value


class Recurrent(Layer, configured=True):
    """A layer that reads a sequence step by step and remembers.

    Shapes: x (batch, time, features), kernel (features, gates * units), recurrent_kernel (units, gates * units), bias
    (gates * units,) or, for GRU, (2, gates * units); output (batch, units), the state after the last step, or with
    `return_sequences` the state after every step (batch, time, units). The state before the first step is 0.

    Steps that the mask of x leaves out change no state; the state of such a step is that of the step before.

    ``layer(x, initial_state=h)`` begins with the state h (batch, units), that of `LSTM` with two, ``[h, c]``. With
    `return_state` the layer gives a list, its output and the states after the last step, which another one may begin with: so
    sequences are read in parts, and a decoder goes on where an encoder has ended.

    Raises TypeError or ValueError for arguments that do not fit, ValueError for inputs of another shape.

    Args:
        units: features of the state.
        return_sequences: whether the output has the states of all steps; default: the last one only.
        use_bias: whether biases are added.
        kernel_initializer: of the kernel for the inputs, an object or its word; default: `GlorotUniform`.
        recurrent_initializer: of the kernel for the state; default: `Orthogonal`.
        bias_initializer: of the biases; default: `Zeros`.
        name: name of the layer; default: its class and a number.
        return_state: whether the layer gives the states after the last step as well.
        recurrent_dropout: share of the state's units that the recurrent product does not see in training, from 0 to below 1;
            drawn for each sample, the same in all its steps (Gal and Ghahramani, 2016).
        kernel_regularizer: penalty of the kernel for the inputs, as for `Dense`.
        recurrent_regularizer: that of the kernel for the state.
        bias_regularizer: that of the biases.
        kernel_constraint: set to which the kernel for the inputs is brought back, as for `Dense`.
        recurrent_constraint: that of the kernel for the state.
        bias_constraint: that of the biases.
        stateful: whether a batch begins with the states that the batch before has ended with, sample by sample, as for
            sequences that are too long for one batch; gradients end where a batch begins. It holds in `fit`, `evaluate` and
            `predict` alike, with batches of one size, until `reset_states()`. Model files hold no states.

    >>> class Linear(nn.layer.Recurrent):
    ...     def operation(self):
    ...         return nn.operation.recurrent.SimpleRNNOperation(nn.activation.Linear(), self.return_sequences)
    >>> Linear(8)(nn.Placeholder([-1, 20, 3])).shape
    (-1, 8)
    """

    _further: ClassVar[bool] = True

    def __init__(
        self,
        units: int,
        return_sequences: bool = False,
        use_bias: bool = True,
        kernel_initializer: Initializer | InitializerName | None = None,
        recurrent_initializer: Initializer | InitializerName | None = None,
        bias_initializer: Initializer | InitializerName | None = None,
        name: str | None = None,
        *,
        return_state: bool = False,
        recurrent_dropout: float = 0.0,
        kernel_regularizer: Regularizer | RegularizerName | None = None,
        recurrent_regularizer: Regularizer | RegularizerName | None = None,
        bias_regularizer: Regularizer | RegularizerName | None = None,
        kernel_constraint: Constraint | ConstraintName | None = None,
        recurrent_constraint: Constraint | ConstraintName | None = None,
        bias_constraint: Constraint | ConstraintName | None = None,
        stateful: bool = False,
    ) -> None:
        super().__init__(name)
        self.return_state = arguments.flag(self, "return_state", return_state)
        self.recurrent_dropout = arguments.number(self, "recurrent_dropout", recurrent_dropout, 0, 1)
        self.units = arguments.integer(self, "units", units, minimum=1)
        self.return_sequences = bool(arguments.instance(self, "return_sequences", return_sequences, bool))
        self.use_bias = bool(arguments.instance(self, "use_bias", use_bias, bool))
        self.kernel_initializer = chosen(self, "kernel_initializer", kernel_initializer, GlorotUniform())
        self.recurrent_initializer = chosen(self, "recurrent_initializer", recurrent_initializer, Orthogonal())
        self.bias_initializer = chosen(self, "bias_initializer", bias_initializer, Zeros())
        self.kernel_regularizer = penalty(self, "kernel_regularizer", kernel_regularizer)
        self.recurrent_regularizer = penalty(self, "recurrent_regularizer", recurrent_regularizer)
        self.bias_regularizer = penalty(self, "bias_regularizer", bias_regularizer)
        self.kernel_constraint = bounds(self, "kernel_constraint", kernel_constraint)
        self.recurrent_constraint = bounds(self, "recurrent_constraint", recurrent_constraint)
        self.bias_constraint = bounds(self, "bias_constraint", bias_constraint)
        self.stateful = arguments.flag(self, "stateful", stateful)
        self._kept: list[Kept] = []

    @abstractmethod
    def operation(self) -> Recurrence:
        """Return the operation that this layer applies to x and its variables."""

    def first_bias(self) -> Initializer:
        """Return the initialiser of the first bias."""
        return self.bias_initializer

    def build(self, input_shape: Any) -> None:
        # of x alone, or first of x where states are given as well
        shape: Shape = input_shape[0] if isinstance(input_shape, list) else input_shape
        if len(shape) != 3 or BATCH in shape[1:] or shape[2] == LENGTH:
            raise ValueError(f"expected inputs of shape (batch, time, features), got {shape}")
        # This one tells the numbers of gates and biases only; `call` makes the one of the graph.
        kind = self.operation()
        columns = kind.gates * self.units
        self.kernel = self.add_variable("kernel", (shape[2], columns), self.kernel_initializer)
        self.recurrent_kernel = self.add_variable("recurrent_kernel", (self.units, columns), self.recurrent_initializer)
        # The arguments have Keras's names, and the variable has another one.
        self.recurrent_kernel.regularizer, self.recurrent_kernel.constraint = (
            self.recurrent_regularizer,
            self.recurrent_constraint,
        )
        if self.use_bias:
            # One vector as Keras has it, or two for a cell that adds them at different places.
            biases = (columns,) if kind.biases == 1 else (kind.biases, columns)
            self.bias = self.add_variable("bias", biases, self.first_bias())

    def call(self, x: Any) -> Value:
        x, *states = x if isinstance(x, list) else [x]
        operation = self.operation()
        masks = [] if x.mask is None else [x.mask]
        asked = masks or states or self.return_state or self.recurrent_dropout or self.stateful
        if asked and not operation.carries:
            raise ValueError(
                "expected an operation with 'carries', which heeds masks, states and dropout in forward and backward, got "
                f"{type(operation).__name__}"
            )
        if states and len(states) != operation.states:
            raise ValueError(f"'initial_state' must be {operation.states} values (batch, {self.units}), got {len(states)}")
        carried: list[Carried] = []
        if self.stateful:
            if states:
                raise ValueError("'initial_state' begins every batch, and so does what 'stateful' carries: give one of them")
            self._kept = self._kept or [Kept(self) for _ in range(operation.states)]
            states = carried = [Carried(kept, (BATCH, self.units)) for kept in self._kept]
        operation.masked, operation.given = bool(masks), bool(states)
        operation.with_cell = (self.return_state or self.stateful) and operation.states > 1
        operation.drops = self.recurrent_dropout
        bias = [self.bias] if self.use_bias else []
        made = direct(operation, x, self.kernel, self.recurrent_kernel, *bias, *masks, *states)
        if self.return_sequences:
            # The cell stands behind the last step, as one more.
            longer = masks and operation.with_cell
            made.mask = x.mask.apply(Concatenate(1), x.mask[:, -1:]) if longer else x.mask
        # Nothing is carried without `stateful`, and the loop is empty.
        for state, last in zip(carried, self._last(made, operation.with_cell), strict=False):
            state.following = last.apply(StopGradient())
        if operation.with_cell and not self.return_state:
            # The cell is there for the next batch alone.
            made = made[:, :-1] if self.return_sequences else made[:, 0]
        return made

    def _last(self, made: Node, with_cell: bool) -> list[Node]:
        """Return the states after the last step, of the result of the operation."""
        if not self.return_sequences:
            return [made[:, 0], made[:, 1]] if with_cell else [made]
        return [made[:, -2], made[:, -1]] if with_cell else [made[:, -1]]

    # of the base it takes one value more; what the base takes besides is there to be refused
    @checked_call
    def __call__(  # type: ignore[override]
        self, x: Inputs, initial_state: Value | Sequence[Value] | None = None
    ) -> Any:
        """Return the output for `x`, with `return_state` a list of it and the states.

        Args:
            x: sequences (batch, time, features).
            initial_state: the states before the first step, one for each that the layer has, each (batch, units); None: 0.
        """
        if initial_state is None:
            return self._parts(super().__call__(x))
        states: list[Any] = list(initial_state) if isinstance(initial_state, (list, tuple)) else [initial_state]
        if not states or not all(isinstance(each, Value) for each in states):
            raise TypeError(
                f"{self.describe()} 'initial_state' must be values of a graph, got {arguments.short(initial_state)}"
            )
        return self._parts(super().__call__([*(x if isinstance(x, (list, tuple)) else [x]), *states]))

    def _parts(self, made: Node) -> Any:
        """Return the results of the layer of the one that its operation gives."""
        if not self.return_state:
            return made
        with_cell = self.operation().states > 1
        last = self._last(made, with_cell)
        if not self.return_sequences:
            return [made[:, 0] if with_cell else made, *last]
        return [made[:, :-1] if with_cell else made, *last]

    def reset_states(self) -> None:
        """Begin the next batch with states of 0, where the layer is `stateful`."""
        for kept in self._kept:
            kept.rows = None


class SimpleRNN(Recurrent, configured=True):
    """h_t = activation(x_t @ kernel + h_(t-1) @ recurrent_kernel + bias) (Elman, "Finding structure in time", 1990).

    Shapes: x (batch, time, features), kernel (features, units), recurrent_kernel (units, units), bias (units,), output
    (batch, units) or, with `return_sequences`, (batch, time, units).

    Args:
        units: features of the state, from 1.
        activation: an object or its word; default: tanh.
        return_sequences: whether the output has the states of all steps.
        return_state: whether the layer gives its last state as well.
        stateful: whether a batch begins with the states that the batch before has ended with.

    The other arguments are those of `Recurrent`.

    >>> nn.layer.SimpleRNN(64, activation=nn.activation.ReLU())(nn.Placeholder([-1, 28, 28])).shape
    (-1, 64)
    """

    def __init__(
        self,
        units: int,
        activation: Activation | ActivationName | None = None,
        return_sequences: bool = False,
        use_bias: bool = True,
        kernel_initializer: Initializer | InitializerName | None = None,
        recurrent_initializer: Initializer | InitializerName | None = None,
        bias_initializer: Initializer | InitializerName | None = None,
        name: str | None = None,
        *,
        return_state: bool = False,
        recurrent_dropout: float = 0.0,
        kernel_regularizer: Regularizer | RegularizerName | None = None,
        recurrent_regularizer: Regularizer | RegularizerName | None = None,
        bias_regularizer: Regularizer | RegularizerName | None = None,
        kernel_constraint: Constraint | ConstraintName | None = None,
        recurrent_constraint: Constraint | ConstraintName | None = None,
        bias_constraint: Constraint | ConstraintName | None = None,
        stateful: bool = False,
    ) -> None:
        super().__init__(
            units,
            return_sequences,
            use_bias,
            kernel_initializer,
            recurrent_initializer,
            bias_initializer,
            name,
            return_state=return_state,
            recurrent_dropout=recurrent_dropout,
            kernel_regularizer=kernel_regularizer,
            recurrent_regularizer=recurrent_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            recurrent_constraint=recurrent_constraint,
            bias_constraint=bias_constraint,
            stateful=stateful,
        )
        self.activation = chosen(self, "activation", activation, Tanh())

    def operation(self) -> SimpleRNNOperation:
        kind = DroppingSimpleRNN if self.recurrent_dropout else SimpleRNNOperation
        return kind(self.activation, self.return_sequences)


class LSTM(Recurrent, configured=True):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), with a forget gate (Gers et al., 2000).

        [i f g o] = x_t @ kernel + h_(t-1) @ recurrent_kernel + bias
        c_t = sigmoid(f) * c_(t-1) + sigmoid(i) * tanh(g),  h_t = sigmoid(o) * tanh(c_t)

    Shapes: x (batch, time, features), kernel (features, 4 * units), recurrent_kernel (units, 4 * units), bias (4 * units,),
    gates in the order i, f, g, o of Keras and torch; output (batch, units) or, with `return_sequences`, (batch, time, units).
    `unit_forget_bias` adds 1 to the first bias of the forget gate, so that training begins with a long memory (Jozefowicz et
    al., 2015).

    Args:
        units: features of the state, from 1.
        return_sequences: whether the output has the states of all steps.
        unit_forget_bias: whether the bias of the forget gate begins at 1.
        return_state: whether the layer gives its last two states as well.
        stateful: whether a batch begins with the states that the batch before has ended with.

    The other arguments are those of `Recurrent`.

    >>> x = nn.Placeholder([-1, 28, 28])
    >>> nn.layer.LSTM(128)(x).shape, nn.layer.LSTM(128, return_sequences=True)(x).shape
    ((-1, 128), (-1, 28, 128))
    """

    def __init__(
        self,
        units: int,
        return_sequences: bool = False,
        use_bias: bool = True,
        unit_forget_bias: bool = True,
        kernel_initializer: Initializer | InitializerName | None = None,
        recurrent_initializer: Initializer | InitializerName | None = None,
        bias_initializer: Initializer | InitializerName | None = None,
        name: str | None = None,
        *,
        return_state: bool = False,
        recurrent_dropout: float = 0.0,
        kernel_regularizer: Regularizer | RegularizerName | None = None,
        recurrent_regularizer: Regularizer | RegularizerName | None = None,
        bias_regularizer: Regularizer | RegularizerName | None = None,
        kernel_constraint: Constraint | ConstraintName | None = None,
        recurrent_constraint: Constraint | ConstraintName | None = None,
        bias_constraint: Constraint | ConstraintName | None = None,
        stateful: bool = False,
    ) -> None:
        super().__init__(
            units,
            return_sequences,
            use_bias,
            kernel_initializer,
            recurrent_initializer,
            bias_initializer,
            name,
            return_state=return_state,
            recurrent_dropout=recurrent_dropout,
            kernel_regularizer=kernel_regularizer,
            recurrent_regularizer=recurrent_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            recurrent_constraint=recurrent_constraint,
            bias_constraint=bias_constraint,
            stateful=stateful,
        )
        self.unit_forget_bias = bool(arguments.instance(self, "unit_forget_bias", unit_forget_bias, bool))

    def operation(self) -> LSTMOperation:
        return (DroppingLSTM if self.recurrent_dropout else LSTMOperation)(self.return_sequences)

    def first_bias(self) -> Initializer:
        return _WithForgetBias(self.bias_initializer) if self.unit_forget_bias else self.bias_initializer


class _WithForgetBias(Initializer):
    """Initialiser that adds 1 to the numbers that another one draws for the forget gate, the second of four."""

    def __init__(self, others: Initializer) -> None:
        self.others = others

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        # A copy: the other initialiser may give an array of its own.
        bias = np.array(self.others(shape, generator))
        units = len(bias) // 4
        bias[units : 2 * units] += 1
        return bias


class GRU(Recurrent):
    """Gated recurrent units (Cho et al., 2014), with the reset gate after the recurrent product as in Keras and torch.

        [z r a] = x_t @ kernel + bias[0],  [z' r' q] = h_(t-1) @ recurrent_kernel + bias[1]
        g = tanh(a + sigmoid(r + r') * q),  h_t = sigmoid(z + z') * h_(t-1) + (1 - sigmoid(z + z')) * g

    Shapes: x (batch, time, features), kernel (features, 3 * units), recurrent_kernel (units, 3 * units), bias (2, 3 * units),
    gates in Keras's order z, r, g (torch has r, z, g); output (batch, units) or, with `return_sequences`, (batch, time, units).

    >>> x = nn.Placeholder([-1, 28, 28])
    >>> nn.layer.GRU(128)(x).shape, nn.layer.GRU(128, return_sequences=True)(x).shape
    ((-1, 128), (-1, 28, 128))
    """

    def operation(self) -> GRUOperation:
        return (DroppingGRU if self.recurrent_dropout else GRUOperation)(self.return_sequences)
