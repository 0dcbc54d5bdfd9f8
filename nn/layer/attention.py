"""Multi-head attention."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.arrays import BATCH, LENGTH, Array, Shape
from nn.initializer import GlorotUniform, Initializer, InitializerName, Zeros
from nn.layer.layer import Layer, chosen
from nn.operation.attention import Attention, DropoutAttention
from nn.operation.matmul import TensorDot
from nn.operation.rotary import Rotary
from nn.value.value import Value, Variable, joint_mask


class MultiHeadAttention(Layer, configured=True):
    """Attention of several heads: every position of a sequence takes weighted means of the values at positions of a sequence.

    `layer(x)` attends to itself, `layer([query, value])` to another sequence, `layer([query, value, key])` finds by `key` the
    places of `value`. Per head: softmax(q k^T / sqrt(key_dim)) v, where q, k and v are linear in query, key and value; the
    heads' results together are mapped to `output_dim` (as many features as the query has). With `causal`, position i sees
    the positions 0 to i only. Positions that the mask of value or key leaves out are not seen. (Vaswani et al., "Attention Is
    All You Need", 2017) With `rotary_base` queries and keys are turned by their positions, so that a head can go by distances
    (Su et al., "RoFormer", 2021; `nn.operation.Rotary`).

    Shapes: query (batch, targets, in), value and key (batch, sources, ...), output (batch, targets, output_dim). Variables,
    named and shaped as in Keras: query_kernel, key_kernel (in, heads, key_dim), value_kernel (in, heads, value_dim), their
    biases without the first axis, output_kernel (heads, value_dim, output_dim), output_bias (output_dim,).

    Args:
        num_heads: number of heads.
        key_dim: features of query and key in each head.
        value_dim: features of the value in each head; default: `key_dim`.
        causal: whether a position sees only itself and those before it.
        use_bias: whether the four products have biases.
        output_dim: features of the output; default: those of the query.
        kernel_initializer: of the four kernels, an object or its word; default: `GlorotUniform`.
        bias_initializer: of the biases; default: `Zeros`.
        name: name of the layer; default: its class and a number.
        rotary_base: base of the turns, such as 10,000, for an even `key_dim`; None: none.
        dropout: rate at which training leaves out single weights of the means, from 0 to below 1.

    Raises ValueError for inputs of other ranks and for sequences with lengths that do not fit together.

    >>> x = nn.Placeholder([-1, 20, 64])
    >>> nn.layer.MultiHeadAttention(num_heads=4, key_dim=16, causal=True)(x).shape
    (-1, 20, 64)
    """

    several: ClassVar[bool] = True

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        causal: bool = False,
        use_bias: bool = True,
        output_dim: int | None = None,
        kernel_initializer: Initializer | InitializerName | None = None,
        bias_initializer: Initializer | InitializerName | None = None,
        name: str | None = None,
        *,
        rotary_base: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(name)
        self.num_heads = arguments.integer(self, "num_heads", num_heads, minimum=1)
        self.key_dim = arguments.integer(self, "key_dim", key_dim, minimum=1)
        self.value_dim = self.key_dim if value_dim is None else arguments.integer(self, "value_dim", value_dim, minimum=1)
        self.causal = bool(arguments.instance(self, "causal", causal, bool))
        self.use_bias = bool(arguments.instance(self, "use_bias", use_bias, bool))
        self.output_dim = None if output_dim is None else arguments.integer(self, "output_dim", output_dim, minimum=1)
        self.kernel_initializer = chosen(self, "kernel_initializer", kernel_initializer, GlorotUniform())
        self.bias_initializer = chosen(self, "bias_initializer", bias_initializer, Zeros())
        self.rotary_base = None if rotary_base is None else arguments.number(self, "rotary_base", rotary_base, 1)
        self.dropout = arguments.number(self, "dropout", dropout, 0, 1)
        if self.rotary_base is not None and self.key_dim % 2:
            raise ValueError(f"MultiHeadAttention 'key_dim' must be even with a 'rotary_base', got {self.key_dim}")

    def build(self, input_shape: Sequence[Shape]) -> None:
        query, value, key = _three(input_shape)
        for role, shape in (("query", query), ("value", value), ("key", key)):
            if len(shape) != 3 or shape[-1] in (BATCH, LENGTH):
                raise ValueError(f"expected {role} of shape (batch, positions, features), got {shape}")
        inner = (self.num_heads, self.key_dim)
        # In the order of Keras's variables, which is not that of the inputs: query, value, key.
        self._query = self._map("query", query[-1:], inner)
        self._key = self._map("key", key[-1:], inner)
        self._value = self._map("value", value[-1:], (self.num_heads, self.value_dim))
        features = query[-1] if self.output_dim is None else self.output_dim
        self._output = self._map("output", (self.num_heads, self.value_dim), (features,))

    def call(self, x: Sequence[Value]) -> Value:
        query, value, key = _three(x)
        for role, given, kernel in (("query", query, self._query), ("value", value, self._value), ("key", key, self._key)):
            features = kernel[0].shape[0]
            if len(given.shape) != 3 or given.shape[-1] != features:
                raise ValueError(f"expected {role} of shape (batch, positions, {features}), got {given.shape}")
        if value.shape[1] != key.shape[1]:
            raise ValueError(f"value and key must have equally many positions on axis 1, got {value.shape} and {key.shape}")
        # The last axis of the input is contracted, so that heads and features come out as axes of their own.
        queries, keys, values = _apply(self._query, query, 1), _apply(self._key, key, 1), _apply(self._value, value, 1)
        if self.rotary_base is not None:
            queries, keys = queries.apply(Rotary(self.rotary_base)), keys.apply(Rotary(self.rotary_base))
        mask = joint_mask(value, [value, key])
        attention = DropoutAttention(self.causal, self.dropout) if self.dropout else Attention(self.causal)
        heads = queries.apply(attention, keys, values, *([] if mask is None else [mask]))
        # Two axes contracted: the heads are joined by the product itself.
        made = _apply(self._output, heads, 2)
        # The result has the positions of the query.
        made.mask = query.mask
        return made

    def _map(self, role: str, inputs: Shape, outputs: Shape) -> list[Variable]:
        # The axes of the heads are no receptive field, for which an initialiser would take them.
        initializer = _AsMatrix(self.kernel_initializer, (math.prod(inputs), math.prod(outputs)))
        made = [self.add_variable(f"{role}_kernel", (*inputs, *outputs), initializer)]
        if self.use_bias:
            made.append(self.add_variable(f"{role}_bias", outputs, self.bias_initializer))
        return made


class _AsMatrix(Initializer):
    """Draws a kernel of several axes as the matrix that it is: its fans are the numbers of inputs and outputs."""

    def __init__(self, initializer: Initializer, matrix: Shape) -> None:
        self._initializer, self._matrix = initializer, matrix

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        return self._initializer(self._matrix, generator).reshape(shape)


def _three(given: Sequence[Any]) -> tuple[Any, Any, Any]:
    if len(given) > 3:
        raise ValueError(f"expected x, [query, value] or [query, value, key], got {len(given)} values")
    query = given[0]
    value = given[1] if len(given) > 1 else query
    return query, value, given[2] if len(given) > 2 else value


def _apply(variables: Sequence[Variable], x: Value, axes: int) -> Value:
    product = x.apply(TensorDot(axes), variables[0])
    return product + variables[1] if len(variables) > 1 else product
