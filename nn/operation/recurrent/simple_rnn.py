"""The plain recurrence over a sequence."""

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from nn.activation.activation import Activation
from nn.arrays import Array, Scratch, Shape, empty, zeros
from nn.operation.recurrent.recurrence import Recurrence


class SimpleRNNOperation(Recurrence):
    """The recurrence of Elman (1990): h_t = activation(x_t @ kernel + h_(t-1) @ recurrent kernel + bias).

    The kernels and the bias, one below the other, are one matrix, multiplied by x, h and 1 in one product for a step; its
    gradient is one product over all steps.
    """

    def __init__(self, activation: Activation, return_sequences: bool = False) -> None:
        super().__init__(return_sequences)
        self.activation = activation

    def prepare(self, dtype: np.dtype[Any]) -> None:
        time, batch, features, units = self._time, self._batch, self._features, self._units
        rows = features + units + self._ones
        self._slab = zeros((time + 1, batch, rows), dtype)
        self._slab[:, :, features + units :] = 1
        self._states = empty((time, batch, units), dtype)
        # an activation that needs its input, or cannot work in place, gets it in memory of its own
        shared = self.activation.in_place and not self.activation.reads_inputs
        self._scores = self._states if shared else empty((time, batch, units), dtype)
        replay = _Replay(self.scratch)
        self._activations = [self._activation(replay, dtype) for _ in range(time)]

        self._packed = self.scratch.empty((rows, units), dtype)
        if self.training:
            self._back = self.scratch.empty((units, units), dtype)
            self._dh = self.scratch.empty((batch, units), dtype)
            self._dz = self.scratch.empty((time, batch, units), dtype)
            self._x_gradient = self.scratch.empty((time * batch, features), dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        x, features, units = inputs[0], self._features, self._units
        np.copyto(self._slab[:-1, :, :features], x.swapaxes(0, 1))
        np.concatenate([part.reshape(-1, units) for part in inputs[1:]], out=self._packed)
        for t, (activation, score, state) in enumerate(zip(self._activations, self._scores, self._states, strict=True)):
            np.matmul(self._slab[t], self._packed, out=score)
            activation.forward([score], state)
            np.copyto(self._slab[t + 1, :, features : features + units], state)
        np.copyto(out, self._states.swapaxes(0, 1) if self.return_sequences else self._states[-1])

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        _, kernel, recurrent, *_ = inputs
        features, units = self._features, self._units
        np.copyto(self._back, recurrent.T)
        self._dh.fill(0)
        for t in reversed(range(self._time)):
            incoming = self.incoming(gradient, t)
            if incoming is not None:
                np.add(self._dh, incoming, out=self._dh)
            self._activations[t].backward([self._scores[t]], self._states[t], self._dh, [self._dz[t]])
            if t:
                np.matmul(self._dz[t], self._back, out=self._dh)
        flat = self._dz.reshape(-1, units)
        if any(target is not None for target in wanted[1:]):
            np.matmul(self._slab[:-1].reshape(len(flat), -1).T, flat, out=self._packed)
            bounds = (0, features, features + units, len(self._packed))
            for start, stop, target in zip(bounds, bounds[1:], wanted[1:], strict=False):
                if target is not None:
                    np.copyto(target, self._packed[start:stop].reshape(target.shape))
        if wanted[0] is not None:
            np.matmul(flat, kernel.T, out=self._x_gradient)
            np.copyto(wanted[0].swapaxes(0, 1), self._x_gradient.reshape(self._time, self._batch, features))

    def _activation(self, replay: "_Replay", dtype: np.dtype[Any]) -> Activation:
        """Return a copy for one step, which may keep something from forward to backward."""
        found, shape = copy(self.activation), (self._batch, self._units)
        replay.restart()
        found.scratch = replay
        found.allocate([shape], shape, dtype)
        return found


class _Replay:
    """Gives the same arrays in the same order after each `restart`: steps are computed one after the other."""

    def __init__(self, source: Scratch) -> None:
        self._source = source
        self._given: list[Array] = []
        self._next = 0

    def restart(self) -> None:
        """Begin again with the first array."""
        self._next = 0

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return the next array, a new one only the first time."""
        if self._next == len(self._given):
            self._given.append(self._source.empty(shape, dtype))
        self._next += 1
        return self._given[self._next - 1]
