"""Layers of most models: fully connected, other shapes and orders, and vectors for numbered things."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nn import arguments
from nn.activation import ActivationName
from nn.activation.activation import Activation, Linear
from nn.arrays import BATCH, LENGTH, Shape
from nn.initializer import GlorotUniform, Initializer, InitializerName, Uniform, Zeros
from nn.layer.layer import Layer, bounds, chosen, penalty
from nn.operation.arithmetic import Compare
from nn.operation.index import Lookup
from nn.operation.shape import Repeat
from nn.value.value import Constraint, ConstraintName, Regularizer, RegularizerName, Value, as_value


class Dense(Layer, configured=True):
    """activation(x @ kernel + bias).

    Shapes: x (batch, ..., in), kernel (in, units), bias (units,), output (batch, ..., units).

    Args:
        units: features of the output.
        activation: function of the output, an object or its word; default: none, that is `Linear`.
        use_bias: whether a bias is added.
        kernel_initializer: of the kernel, an object or its word; default: `GlorotUniform`.
        bias_initializer: of the bias; default: `Zeros`.
        name: name of the layer; default: its class and a number.
        kernel_regularizer: penalty of the kernel, an object or its word, part of the loss; default: none.
        bias_regularizer: that of the bias.
        kernel_constraint: set to which each update of the kernel is brought back, an object or its word; default: none.
        bias_constraint: that of the bias.

    >>> nn.layer.Dense(128, activation=nn.activation.Tanh())(nn.Placeholder([-1, 784])).shape
    (-1, 128)
    """

    def __init__(
        self,
        units: int,
        activation: Activation | ActivationName | None = None,
        use_bias: bool = True,
        kernel_initializer: Initializer | InitializerName | None = None,
        bias_initializer: Initializer | InitializerName | None = None,
        name: str | None = None,
        *,
        kernel_regularizer: Regularizer | RegularizerName | None = None,
        bias_regularizer: Regularizer | RegularizerName | None = None,
        kernel_constraint: Constraint | ConstraintName | None = None,
        bias_constraint: Constraint | ConstraintName | None = None,
    ) -> None:
        super().__init__(name)
        self.units = arguments.integer(self, "units", units, minimum=1)
        self.activation = chosen(self, "activation", activation, Linear())
        self.use_bias = bool(arguments.instance(self, "use_bias", use_bias, bool))
        self.kernel_initializer = chosen(self, "kernel_initializer", kernel_initializer, GlorotUniform())
        self.bias_initializer = chosen(self, "bias_initializer", bias_initializer, Zeros())
        self.kernel_regularizer = penalty(self, "kernel_regularizer", kernel_regularizer)
        self.bias_regularizer = penalty(self, "bias_regularizer", bias_regularizer)
        self.kernel_constraint = bounds(self, "kernel_constraint", kernel_constraint)
        self.bias_constraint = bounds(self, "bias_constraint", bias_constraint)

    def build(self, input_shape: Shape) -> None:
        if len(input_shape) < 2 or input_shape[-1] in (BATCH, LENGTH):
            raise ValueError(f"expected inputs of shape (batch, ..., features), got {input_shape}")
        self.kernel = self.add_variable("kernel", (input_shape[-1], self.units), self.kernel_initializer)
        if self.use_bias:
            self.bias = self.add_variable("bias", (self.units,), self.bias_initializer)

    def call(self, x: Value) -> Value:
        if x.shape[-1] != self.kernel.shape[0]:
            raise ValueError(f"expected inputs with {self.kernel.shape[0]} features, got shape {x.shape}")
        # x of more than two axes is seen as rows by the product, without a copy.
        score = x @ self.kernel
        return self.activation(score + self.bias if self.use_bias else score)


class Flatten(Layer, configured=True):
    """One row per sample: (batch, a, b, ...) becomes (batch, a * b * ...). Costs nothing inside a model.

    >>> nn.layer.Flatten()(nn.Placeholder([-1, 4, 4, 16])).shape
    (-1, 256)
    """

    def build(self, input_shape: Shape) -> None:
        # Their product is the length of a row.
        if BATCH in input_shape[1:]:
            raise ValueError(f"expected inputs whose axes after the batch are known, got {input_shape}")

    def call(self, x: Value) -> Value:
        return x.reshape(BATCH, math.prod(x.shape[1:]))


class Reshape(Layer, configured=True):
    """Another shape for each sample: (batch, ...) becomes (batch, *shape).

    Args:
        shape: the axes after the batch; one of them may be -1.
        name: as of `Layer`.

    >>> nn.layer.Reshape([28, -1])(nn.Placeholder([-1, 784])).shape
    (-1, 28, 28)
    """

    @arguments.also(target_shape="shape")
    def __init__(self, shape: Sequence[int], name: str | None = None) -> None:
        super().__init__(name)
        self.shape = arguments.shape(self, "shape", shape, unknown=1)

    def call(self, x: Value) -> Value:
        size = math.prod(x.shape[1:])
        known = math.prod(axis for axis in self.shape if axis != BATCH)
        if size % known or (BATCH not in self.shape and size != known):
            raise ValueError(f"samples of shape {x.shape[1:]} do not fit into shape {self.shape}")
        return x.reshape(BATCH, *(size // known if axis == BATCH else axis for axis in self.shape))


class Permute(Layer, configured=True):
    """The axes of each sample in another order: (batch, a, b) becomes (batch, b, a) with `dims` (2, 1).

    Args:
        dims: number of the axis that stands in each place, from 1; the batch, axis 0, stays in front.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError where `dims` does not name every axis once.

    >>> nn.layer.Permute((2, 1))(nn.Placeholder([-1, 10, 64])).shape
    (-1, 64, 10)
    """

    def __init__(self, dims: Sequence[int], name: str | None = None) -> None:
        super().__init__(name)
        self.dims = arguments.shape(self, "dims", dims)
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(f"Permute 'dims' must name the axes 1 to {len(self.dims)} once each, got {dims!r}")

    def call(self, x: Value) -> Value:
        if len(x.shape) != len(self.dims) + 1:
            raise ValueError(f"'dims' {self.dims} fits inputs of {len(self.dims)} axes after the batch, got shape {x.shape}")
        # `dims` count from 1, as the batch is axis 0.
        return x.transpose(0, *self.dims)


class RepeatVector(Layer, configured=True):
    """Each sample `n` times, as a sequence: (batch, features) becomes (batch, n, features).

    Args:
        n: number of steps.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for another `n` and for inputs of another rank.

    >>> nn.layer.RepeatVector(10)(nn.Placeholder([-1, 64])).shape
    (-1, 10, 64)
    """

    def __init__(self, n: int, name: str | None = None) -> None:
        super().__init__(name)
        self.n = arguments.integer(self, "n", n, minimum=1)

    def call(self, x: Value) -> Value:
        if len(x.shape) != 2 or x.shape[1] == BATCH:
            raise ValueError(f"expected inputs of shape (batch, features), got {x.shape}")
        # `Repeat` sums up the gradients of the copies.
        return x.reshape(BATCH, 1, x.shape[1]).apply(Repeat((self.n,)))


class Rescaling(Layer, configured=True):
    """x * scale + offset, such as pixels of 0 to 255 as numbers of 0 to 1.

    Args:
        scale: factor, a number or one for each feature of the last axis.
        offset: added to the product, a number or one for each feature.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for a value that is no finite number, and for lists that do not fit the features.

    >>> nn.layer.Rescaling(1 / 255)(nn.Placeholder([-1, 32, 32, 3])).shape
    (-1, 32, 32, 3)
    """

    def __init__(self, scale: float | Sequence[float], offset: float | Sequence[float] = 0.0, name: str | None = None) -> None:
        super().__init__(name)
        self.scale = self._numbers("scale", scale)
        self.offset = self._numbers("offset", offset)

    def call(self, x: Value) -> Value:
        for name, given in (("scale", self.scale), ("offset", self.offset)):
            if isinstance(given, list) and x.shape[-1:] != (len(given),):
                raise ValueError(f"'{name}' has {len(given)} numbers, expected one or one for each feature of shape {x.shape}")
        scaled = x * self.scale
        # No operation where nothing is added.
        return scaled if self.offset == 0 else scaled + self.offset

    def _numbers(self, name: str, given: float | Sequence[float]) -> float | list[float]:
        if isinstance(given, (list, tuple)):
            return [arguments.number(self, name, each) for each in given]
        return arguments.number(self, name, given)


class Embedding(Layer, configured=True):
    """A trained vector for each of `input_dim` numbered things, such as words or characters.

    Shapes: ids (batch, ...) from 0 to input_dim - 1, embeddings (input_dim, output_dim), output (batch, ..., output_dim).
    Vectors start uniform in [-0.05, 0.05], as in Keras. Raises ValueError for an id that is no whole number or out of range,
    naming layer, id, and limit. The ids come as numbers of the model's type: a float32 model refuses, when it is first run,
    an `input_dim` above 2**24, up to which it tells all whole numbers apart. `embeddings_regularizer` and
    `embeddings_constraint` are as those of the kernel of `Dense`.

    With `mask_zero` the id 0 stands for padding of ids (batch, time): the output has a mask that leaves these steps out, which
    recurrences, attention, pooling over all steps, `BatchNorm`, losses and metrics heed.

    Args:
        input_dim: number of things, from 1.
        output_dim: length of a vector, from 1.
        initializer: of the vectors, an object or its word; default: uniform, as above.
        name: name of the layer; default: its class and a number.
        embeddings_regularizer: penalty of the vectors.
        embeddings_constraint: set to which the vectors are brought back after each update.
        mask_zero: whether the id 0 is padding.

    >>> nn.layer.Embedding(1000, 32)(nn.Placeholder([-1, 20])).shape
    (-1, 20, 32)
    """

    @arguments.also(embeddings_initializer="initializer")
    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        initializer: Initializer | InitializerName | None = None,
        name: str | None = None,
        *,
        embeddings_regularizer: Regularizer | RegularizerName | None = None,
        embeddings_constraint: Constraint | ConstraintName | None = None,
        mask_zero: bool = False,
    ) -> None:
        super().__init__(name)
        self.input_dim = arguments.integer(self, "input_dim", input_dim, minimum=1)
        self.output_dim = arguments.integer(self, "output_dim", output_dim, minimum=1)
        self.initializer = chosen(self, "initializer", initializer, Uniform(-0.05, 0.05))
        self.embeddings_regularizer = penalty(self, "embeddings_regularizer", embeddings_regularizer)
        self.embeddings_constraint = bounds(self, "embeddings_constraint", embeddings_constraint)
        self.mask_zero = arguments.flag(self, "mask_zero", mask_zero)

    def build(self, input_shape: Any) -> None:
        if self.mask_zero and len(input_shape) != 2:
            raise ValueError(f"'mask_zero' is for ids of shape (batch, time), got {input_shape}")
        self.embeddings = self.add_variable("embeddings", (self.input_dim, self.output_dim), self.initializer)

    def call(self, x: Value) -> Value:
        # The method, not its text: the name may be settled later, and only an error needs it.
        made = x.apply(Lookup(self.describe), self.embeddings)
        if self.mask_zero:
            made.mask = x.apply(Compare("!="), as_value(0))
        return made


class Masking(Layer, configured=True):
    """A mask that leaves out the steps of sequences that are padding: those with `mask_value` in all of their features.

    The numbers of these steps become 0. Recurrences, attention, pooling over all steps, `BatchNorm`, losses and metrics heed
    the mask; layers for single steps, such as `Dense` and `Dropout`, hand it on.

    Shapes: (batch, time, features) to the same.

    Args:
        mask_value: the number that padding consists of.
        name: name of the layer; default: its class and a number.

    Raises ValueError for inputs of another rank.

    >>> x = nn.Placeholder([-1, None, 8])
    >>> y = nn.layer.Masking()(x)
    >>> y.shape, y.mask.shape, nn.layer.LSTM(16)(y).shape
    ((-1, None, 8), (-1, None), (-1, 16))
    """

    def __init__(self, mask_value: float = 0.0, name: str | None = None) -> None:
        super().__init__(name)
        self.mask_value = arguments.number(self, "mask_value", mask_value)

    def call(self, x: Value) -> Value:
        if len(x.shape) != 3:
            raise ValueError(f"expected inputs of shape (batch, time, features), got {x.shape}")
        filled = x.apply(Compare("!="), as_value(self.mask_value))
        # 1 where at least one feature holds another number.
        made = x * filled.max(axis=-1, keepdims=True)
        made.mask = filled.max(axis=-1)
        return made
