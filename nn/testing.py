"""Proof of gradients, for authors of operations, activations, layers and losses.

The analytic derivative is compared with a difference quotient, in double precision:

>>> from nn.testing import check_gradients
>>> check_gradients(nn.layer.Dense(3, activation=nn.activation.Tanh()), (4,))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nn.arrays import BATCH, Array, Shape
from nn.loss.loss import Loss
from nn.operation.operation import Mode
from nn.plan.plan import Plan
from nn.random import keyed
from nn.value.graph import Graph, Placeholder
from nn.value.store import VariableStore
from nn.value.value import Node, Value

__all__ = ["GradientError", "check_gradients", "check_loss_gradient"]

# The quotient is wrong by about the square of this, and by rounding, 2e-16 over this: both far below the tolerance.
STEP = 1e-5
TOLERANCE = 1e-7

Draw = Callable[[np.random.Generator, Shape], Array]


class GradientError(AssertionError):
    """A gradient is wrong; the message names its function, the batch, and both numbers."""


def normal(generator: np.random.Generator, shape: Shape) -> Array:
    """Draw from the standard normal distribution.

    Args:
        generator: the source of the draws.
        shape: shape of the array that is returned.
    """
    return generator.standard_normal(shape)


def check_gradients(
    build: Callable[[Value], Value],
    sample_shape: Sequence[int],
    *,
    batches: Sequence[int] = (1, 5),
    draw: Draw = normal,
    seed: int = 0,
    tolerance: float = TOLERANCE,
) -> None:
    """Check the gradients of the value that `build` makes of an input (batch, *sample_shape), for the input and every variable.

    For each, one random directional derivative of a random weighting of the outputs is compared with the central difference
    quotient, relative to their size, for contiguous and for strided inputs, in training mode.

    Args:
        build: function from the input to a result, such as a layer.
        sample_shape: shape of one sample.
        batches: numbers of samples to check with.
        draw: draws the inputs.
        seed: seed of variables, inputs and directions.
        tolerance: greatest relative difference.

    Raises GradientError where they differ.
    """
    placeholder = Placeholder((BATCH, *sample_shape))
    output = build(placeholder)
    if not isinstance(output, Node):
        raise TypeError(f"build must return the result of an operation, got {output!r}")
    graph = Graph(placeholder, output)
    trained = [variable for variable in graph.variables if variable.trainable]
    fixed = [variable for variable in graph.variables if not variable.trainable]
    VariableStore(trained, fixed, np.dtype(np.float64), seed)

    for batch in batches:
        plan = Plan(graph, [(batch, *sample_shape)], np.dtype(np.float64), training=True, input_gradient=True)
        for layout in ("contiguous", "strided"):
            # The same key for both layouts, so they have the same numbers.
            generator = keyed(seed, "gradient check", batch)
            x = draw(generator, (batch, *sample_shape))
            if layout == "strided":
                x = _strided(x)
            mode = Mode(training=True, key=(seed, 0, 0, 0))
            weights = generator.standard_normal(plan.output.shape)

            def value(x: Array = x, mode: Mode = mode, weights: Array = weights, plan: Plan = plan) -> float:
                return float(np.vdot(weights, plan.forward((x,), mode)[0]))

            value()
            np.copyto(plan.output_gradient, weights)
            plan.backward()
            targets = [("the input", x, plan.input_gradient)]
            targets.extend((f"'{variable.name}'", variable.value, variable.gradient) for variable in trained)
            # copied first: the difference quotients run the plan again
            found = [(name, array, np.array(gradient)) for name, array, gradient in targets]
            for name, array, gradient in found:
                where = f"the gradient of {name} for a {layout} batch of {batch}"
                _compare(where, value, array, gradient, generator, tolerance)


def check_loss_gradient(
    loss: Loss,
    label: Array,
    output: Array,
    weight: Array | None = None,
    *,
    seed: int = 0,
    tolerance: float = TOLERANCE,
) -> None:
    """Check the gradient of a loss for these labels and outputs, and weights of the samples where given.

    Args:
        loss: the loss.
        label: labels, as the loss takes them.
        output: outputs of a model ``(batch, ...)``.
        weight: weights of the samples ``(batch,)``; None: all 1.
        seed: seed of the direction.
        tolerance: greatest relative difference.

    Raises GradientError where it is wrong.
    """
    output = np.array(output, np.float64, order="C")
    label = loss.prepare(np.asarray(label), output.shape, output.dtype)
    weights = () if weight is None else (loss.check_weights(weight, len(output), output.dtype),)
    loss.allocate(output.shape, output.dtype)
    gradient = np.empty_like(output)
    loss.value(label, output, *weights)
    loss.gradient(label, output, gradient, *weights)
    generator = keyed(seed, "gradient check", len(output))
    where = f"the gradient of {type(loss).__name__} for a {'weighted ' if weights else ''}batch of {len(output)}"
    _compare(where, lambda: loss.value(label, output, *weights), output, gradient, generator, tolerance)


def _compare(
    where: str,
    value: Callable[[], float],
    array: Array,
    gradient: Array,
    generator: np.random.Generator,
    tolerance: float,
) -> None:
    direction = generator.standard_normal(array.shape)
    analytic = float(np.vdot(gradient, direction))
    start = array.copy()
    # In place: these are the arrays that the plan reads.
    np.add(start, STEP * direction, out=array)
    above = value()
    np.subtract(start, STEP * direction, out=array)
    below = value()
    # Bit for bit, which adding the step back would not be.
    np.copyto(array, start)
    numeric = (above - below) / (2 * STEP)
    # written so that NaN counts as wrong
    # Relative to large numbers, absolute for those near 0.
    if not abs(analytic - numeric) <= tolerance * max(1.0, abs(analytic), abs(numeric)):
        raise GradientError(f"{where}: analytic {analytic:.10g}, numeric {numeric:.10g}")


def _strided(x: Array) -> Array:
    wide = np.zeros(tuple(2 * axis for axis in x.shape), x.dtype)
    # Every second cell along each axis.
    view = wide[tuple(slice(None, None, 2) for _ in x.shape)]
    np.copyto(view, x)
    return view
