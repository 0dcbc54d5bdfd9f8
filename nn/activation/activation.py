"""Base class of activations, and the identity."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from nn.arguments import Configurable
from nn.arrays import BATCH, Array, Shape
from nn.operation.elementwise import Elementwise


class Activation(Configurable, Elementwise, ABC):
    """A function that keeps the shape of its input, given to a layer (`Dense(10, activation=Tanh())`) or called on a value.

    To add one: give `forward` and `derive`, and say by `reads_inputs` and `reads_output` which arrays `derive` looks at. One
    that computes its gradient from its output alone works in place. Its name and its word go into `nn/activation/__init__.py`,
    its name into the table of nn/README.md, a row into `tests/contract/nn_rows/activations.py`, and its form in ONNX files into
    `nn/onnx/operators/elements.py`; tests demand the last two.

    >>> class Cube(nn.activation.Activation):
    ...     reads_inputs = True
    ...     def forward(self, inputs, out):
    ...         np.power(inputs[0], 3, out=out)
    ...     def derive(self, x, output, gradient, out):
    ...         np.multiply(gradient, 3 * x * x, out=out)
    >>> nn.testing.check_gradients(Cube(), (4,))
    """

    reads_inputs: ClassVar[bool] = False
    reads_output: ClassVar[bool] = True

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Return whether the batch axis leads: an activation looks at one element alone, or at the last axis of a sample."""
        return shapes[0][0] == BATCH and len(shapes[0]) > 1


class Linear(Activation):
    """f(x) = x, at no cost inside a model.

    >>> nn.layer.Dense(10, activation=nn.activation.Linear()).activation
    Linear()
    """

    aliases: ClassVar[bool] = True
    reads_output: ClassVar[bool] = False

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Copy x, unless the output already is its memory."""
        if not np.may_share_memory(inputs[0], out):
            np.copyto(out, inputs[0])

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        """Copy the gradient, unless it already is there."""
        if not np.may_share_memory(gradient, out):
            np.copyto(out, gradient)
