"""Operations that draw random numbers in training and are the identity otherwise."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import BATCH, Array, Shape
from nn.operation.elementwise import Elementwise
from nn.operation.operation import Mode, Operation
from nn.random import keyed, write_normal


class Noise(Elementwise):
    """x combined with draws that are keyed by seed, epoch, batch, block and the operation's place in the graph.

    Args:
        strength: of the noise, as each kind defines it.
        by_channel: whether x (batch, ..., channels) has one draw for all places of a channel of a sample, or one for each
            element.
    """

    reads_inputs: ClassVar[bool] = False
    by_sample: ClassVar[Sequence[str]] = ("_active", "_noise")

    def __init__(self, strength: float, by_channel: bool = False) -> None:
        self.strength, self.by_channel = strength, by_channel
        self._active = False

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Return whether the batch leads; draws are those of the whole batch, of which slices take their rows."""
        return shapes[0][0] == BATCH

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        # A plan that only predicts draws nothing.
        batch = output[0] if self.training else 0
        drawn = (batch, *(1,) * (len(output) - 2), output[-1]) if self.by_channel else (batch, *output[1:])
        # Own memory, not scratch: it is drawn in `begin`, before other operations run, and backward reads it.
        self._noise = self._lasting.empty(drawn, dtype)

    def begin(self, mode: Mode, position: int) -> None:
        self._active = mode.training and self.strength > 0
        if self._active:
            self._draw(mode.key, position)

    @abstractmethod
    def _draw(self, key: tuple[int, ...], position: int) -> None:
        """Draw `_noise`; in models of float64 the same draws of float32, at half the work."""

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        if self._active:
            np.multiply(inputs[0], self._noise, out=out)
        elif not np.may_share_memory(inputs[0], out):
            np.copyto(out, inputs[0])

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        if self._active:
            np.multiply(gradient, self._noise, out=out)
        elif not np.may_share_memory(gradient, out):
            np.copyto(out, gradient)


class DropoutOperation(Noise):
    """x * mask, where the mask is 0 with probability `strength`, else 1 / (1 - strength)."""

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        self._draws = self.scratch.empty((min(DRAWS, self._noise.size),), np.dtype(np.float32))

    def _draw(self, key: tuple[int, ...], position: int) -> None:
        write_mask(key, position, self.strength, self._draws, self._noise)


DRAWS = 16_384
"""Numbers that are drawn at once: they are compared while they lie in the cache, and need no memory as large as the mask."""


def write_mask(key: tuple[int, ...], position: int, rate: float, draws: Array, out: Array) -> None:
    """Write 0 with probability `rate`, else 1 / (1 - rate), into a contiguous array.

    Args:
        key: as of `Mode`.
        position: of the operation in the graph.
        rate: from 0 to below 1.
        draws: work space of float32, as many numbers as `out` has, or `DRAWS`.
        out: takes the mask.
    """
    # The seed keys the generator, the counters tell epoch, batch and block.
    seed, *counters = key
    generator = keyed(seed, "dropout", *counters, position)
    cells = out.reshape(-1)
    for start in range(0, cells.size, DRAWS):
        part = cells[start : start + DRAWS]
        drawn = draws[: part.size]
        generator.random(dtype=np.float32, out=drawn)
        # Draws are from [0, 1): just the share `rate` of them lies below it.
        np.greater_equal(drawn, rate, out=part)
        np.multiply(part, 1 / (1 - rate), out=part)


class GaussianDropoutOperation(Noise):
    """x * n for normal n of mean 1 and variance strength / (1 - strength), as `DropoutOperation` has."""

    def _draw(self, key: tuple[int, ...], position: int) -> None:
        seed, *counters = key
        deviation = math.sqrt(self.strength / (1 - self.strength))
        write_normal(keyed(seed, "noise", *counters, position), self._noise, deviation)
        # The mean is added behind the scaling, which would change it.
        np.add(self._noise, 1, out=self._noise)


class GaussianNoiseOperation(Noise):
    """x + n for normal n of mean 0 and standard deviation `strength`."""

    def _draw(self, key: tuple[int, ...], position: int) -> None:
        seed, *counters = key
        write_normal(keyed(seed, "noise", *counters, position), self._noise, self.strength)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        if self._active:
            np.add(inputs[0], self._noise, out=out)
        elif not np.may_share_memory(inputs[0], out):
            np.copyto(out, inputs[0])

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        if not np.may_share_memory(gradient, out):
            np.copyto(out, gradient)


class NormalDraw(Operation):
    """Normal draws of mean 0 and deviation 1 in the shape of x in training, keyed as `Noise` is; zeros otherwise.

    The values of x do not matter, and get no gradient.
    """

    reads_inputs: ClassVar[bool] = False
    differentiable: ClassVar[bool] = False
    by_sample: ClassVar[Sequence[str]] = ("_active", "_draws")

    def __init__(self) -> None:
        self._active = False

    def infer(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Return whether the batch leads; draws are those of the whole batch, of which slices take their rows."""
        return shapes[0][0] == BATCH

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._draws = self._lasting.empty((output[0] if self.training else 0, *output[1:]), np.dtype(np.float32))

    def begin(self, mode: Mode, position: int) -> None:
        self._active = mode.training
        if self._active:
            seed, *counters = mode.key
            write_normal(keyed(seed, "normal", *counters, position), self._draws)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        if self._active:
            np.copyto(out, self._draws)
        else:
            out.fill(0)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write zeros: a draw does not depend on x."""
        for each in wanted:
            if each is not None:
                each.fill(0)
