"""Long short-term memory over a sequence."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nn.arrays import Array, empty, zeros
from nn.operation.recurrent.feature_major import FeatureMajor


class _Step(NamedTuple):
    """Views of what one step computes; each gate is (units, batch)."""

    joined: Array  # x, ones and the state before
    gates: Array
    sigmoids: Array  # input and forget gate together
    i: Array
    f: Array
    g: Array
    o: Array
    c_before: Array
    c: Array
    squashed: Array  # tanh(c)
    h: Array


class LSTMOperation(FeatureMajor):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997) with a forget gate (Gers et al., 2000).

    [i f g o] = x_t @ kernel + h_(t-1) @ recurrent kernel + bias, each (batch, units);
    c_t = sigmoid(f) * c_(t-1) + sigmoid(i) * tanh(g),  h_t = sigmoid(o) * tanh(c_t).

    One product for a step gives all gates. With w = dh * h and d = dc * g * i the gradients of the pre-activations are
    w - w * o for o, d - d * i for i and dc * i - d * g for g: no derivative of an activation is computed on its own.
    """

    gates: ClassVar[int] = 4

    def prepare(self, dtype: np.dtype[Any]) -> None:
        """Allocate the history of the steps, and the work space."""
        super().prepare(dtype)
        units, batch = self._units, self._batch
        kept = self._time if self.training else 1
        gates = empty((kept, 4 * units, batch), dtype)
        cells = zeros((kept + 1, units, batch), dtype)
        squashed = empty((kept, units, batch), dtype)
        self._steps = []
        for t in range(self._time):
            slot = t if self.training else 0
            both, (i, f, g, o) = gates[slot, : 2 * units], gates[slot].reshape(4, units, batch)
            before, after = cells[min(t, kept)], cells[slot + 1]
            views = (self._slab[t], gates[slot], both, i, f, g, o, before, after, squashed[slot], self._states[t + 1])
            self._steps.append(_Step(*views))
        self._pair = self.scratch.empty((2 * units, batch), dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Walk from the first step to the last."""
        self.read(inputs)
        weights, half, product = self._packed.T, self._half, self._pair[: self._units]
        for step in self._steps:
            np.matmul(weights, step.joined, out=step.gates)
            np.tanh(step.gates, out=step.gates)
            for gate in (step.sigmoids, step.o):
                np.multiply(gate, half, out=gate)
                np.add(gate, half, out=gate)
            np.multiply(step.f, step.c_before, out=step.c)
            np.multiply(step.i, step.g, out=product)
            np.add(step.c, product, out=step.c)
            np.tanh(step.c, out=step.squashed)
            np.multiply(step.o, step.squashed, out=step.h)
        self.write_states(out)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Walk back from the last step to the first."""
        _, kernel, recurrent, *_ = inputs
        for_x, *for_variables = wanted
        trained = any(target is not None for target in for_variables)
        self._dh.fill(0)
        self._carry.fill(0)
        for window in self._windows:
            for t in reversed(range(window.start, window.stop)):
                self.add_incoming(gradient, t, self._dh)
                self._step_back(self._steps[t])
                window.take_gradient(t, self._dz)
                if t:
                    np.matmul(recurrent, self._dz, out=self._dh)
            if trained:
                window.take_inputs(self._slab)
                self.accumulate(window, slice(None), window.gradients)
            if for_x is not None:
                self.write_x_gradient(kernel, window.gradients, window, for_x)
        self.write_variables(for_variables)

    def _step_back(self, step: _Step) -> None:
        """Turn dh and dc of a step into the gradient of its pre-activations and the dc of the step before."""
        dh, dc, pair = self._dh, self._carry, self._pair
        units = self._units
        product = pair[:units]
        di, df, dg, do = self._dz.reshape(4, units, self._batch)
        np.multiply(dh, step.h, out=do)
        np.multiply(dh, step.o, out=product)
        np.add(dc, product, out=dc)
        np.multiply(do, step.squashed, out=product)
        np.subtract(dc, product, out=dc)
        np.multiply(do, step.o, out=product)
        np.subtract(do, product, out=do)
        np.multiply(dc, step.i, out=dg)
        np.multiply(dg, step.g, out=di)
        np.multiply(di, step.g, out=product)
        np.subtract(dg, product, out=dg)
        np.multiply(dc, step.f, out=dc)
        np.multiply(dc, step.c_before, out=df)
        both = self._dz[: 2 * units]
        np.multiply(both, step.sigmoids, out=pair)
        np.subtract(both, pair, out=both)
