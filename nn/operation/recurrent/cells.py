"""Long short-term memory, gated recurrent units and simple recurrent units over a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nn.activation.activation import Activation
from nn.arrays import Array, Scratch, Shape, zeros
from nn.operation.recurrent.recurrence import Dropping, FeatureMajor, Recurrence, clear, logistic_of_negative


class _LSTMStep(NamedTuple):
    """Views of the results of one step; each gate is (units, batch).

    Of i, f and o, which are logistic, they hold the inverses, 1 + exp(-z): dividing by these spares a pass over all three, and
    has all digits also of gates that are close to 0, as `logistic_of_negative` has. An overflow gives the right 0.
    """

    weights: Array
    joined: Array  # x, ones and the state before; x and ones alone where that is 0
    gates: Array
    sigmoids: Array  # input and forget gate together
    i: Array
    f: Array
    g: Array
    o: Array
    c_before: Array
    c: Array
    squashed: Array  # tanh(c)
    h_before: Array
    h: Array
    absent: Array | None  # samples that have nothing to read


class LSTMOperation(FeatureMajor):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997) with a forget gate (Gers et al., 2000).

        [i f g o] = x_t @ kernel + h_(t-1) @ recurrent kernel + bias, each (batch, units);
        c_t = sigmoid(f) * c_(t-1) + sigmoid(i) * tanh(g),  h_t = sigmoid(o) * tanh(c_t).

    One product for a step gives all gates. With w = dh * h and d = dc * g * i the gradients of the pre-activations are
    w - w * o for o, d - d * i for i and dc * i - d * g for g: no derivative of an activation is computed on its own.
    """

    gates: ClassVar[int] = 4
    states: ClassVar[int] = 2

    def prepare(self, dtype: np.dtype[Any]) -> None:
        super().prepare(dtype)
        units, batch = self._units, self._batch
        # Prediction needs one step's results at a time; backward reads those of all.
        kept = self._time if self.training else 1
        gates = self._lasting.empty((kept, 4 * units, batch), dtype)
        # With a mask a step needs both cells apart, so in prediction two take turns.
        turns = kept if self.training else 1 + self.masked
        cells = self._lasting.empty((turns, units, batch), dtype)
        # Before the first step: stays 0 where none is given.
        self._first_cell = self._lasting.empty((units, batch), dtype) if self.given else zeros((units, batch), dtype)
        if self.training:
            squashed = self._lasting.empty((kept, units, batch), dtype)
            self._pair = self.scratch.empty((2 * units, batch), dtype)
            self._product = self._pair[:units]
            self._adds = self.adding_steps(self._dz, slice(None))
        else:
            # Prediction has read f when it comes to tanh(c), and g when it divides g: fewer arrays leave more of the cache.
            squashed, self._product = gates[:, units : 2 * units], gates[0, 2 * units : 3 * units]
        self._steps = []
        for t in range(self._time):
            slot = t if self.training else 0
            both, (i, f, g, o) = gates[slot, : 2 * units], gates[slot].reshape(4, units, batch)
            before, after = cells[(t - 1) % turns] if t else self._first_cell, cells[t % turns]
            absent = None if self._absent is None else self._absent[t]
            # What a state of 0 adds to the gates need not be computed.
            rows = slice(None) if t or self.given else slice(self._state_rows.start)
            gate_views = (gates[slot], both, i, f, g, o, before, after, squashed[slot])
            factors = (self._turned[:, rows], self._slab[t, rows])
            self._steps.append(_LSTMStep(*factors, *gate_views, self._states[t], self._states[t + 1], absent))
        if self.training and self.masked:
            self._held_h, self._held_c = (self.scratch.empty((units, batch), dtype) for _ in range(2))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        variables, mask, states = self.apart(inputs) if self._further else (inputs, (), ())
        self.read(variables, mask, states)
        if states:
            np.copyto(self._first_cell, states[1].T)
        # Around all steps: what is divided by 1 + inf is the right 0.
        with np.errstate(over="ignore"):
            self._read_steps()
        if not self.with_cell:
            self.write_states(out)
            return
        self.write_states(out[:, :-1] if self.return_sequences else out[:, 0])
        np.copyto(out[:, -1], self._steps[-1].c.T)

    def _read_steps(self) -> None:
        # Results as arguments by place, here and in `_step_back`: a name costs each call 50 ns, and a step has 28 of them.
        product, one = self._product, self._one
        for number, step in enumerate(self._steps, start=1):
            np.matmul(step.weights, step.joined, step.gates)
            # Each result is read by the next calls, while it lies in the cache.
            np.exp(step.sigmoids, step.sigmoids)
            np.add(step.sigmoids, one, step.sigmoids)
            np.divide(step.c_before, step.f, step.c)
            np.tanh(step.g, step.g)
            np.divide(step.g, step.i, product)
            np.add(step.c, product, step.c)
            np.tanh(step.c, step.squashed)
            np.exp(step.o, step.o)
            np.add(step.o, one, step.o)
            np.divide(step.squashed, step.o, step.h)
            if step.absent is not None:
                np.copyto(step.c, step.c_before, where=step.absent)
                np.copyto(step.h, step.h_before, where=step.absent)
            if self._seen:
                self.show(number)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        _, kernel, recurrent, *_ = inputs
        (for_x, *for_variables), for_mask, for_states = self.apart(wanted) if self._further else (wanted, (), ())
        trained = any(target is not None for target in for_variables)
        self._dh.fill(0)
        self._total.fill(0)
        if self.with_cell:
            np.copyto(self._carry, gradient[:, -1].T)
        else:
            self._carry.fill(0)
        for t in reversed(range(self._time)):
            self.add_incoming(gradient, t, self._dh)
            absent = self._steps[t].absent
            if absent is not None:
                np.copyto(self._held_h, self._dh)
                np.copyto(self._held_c, self._carry)
            self._step_back(self._steps[t])
            if absent is not None:
                # The states went past this step, and so do their gradients.
                np.copyto(self._dz, 0, where=absent)
                np.copyto(self._carry, self._held_c, where=absent)
            if trained:
                self._adds[t]()
            if for_x is not None:
                np.matmul(kernel, self._dz, self._x_gradient)
                np.copyto(for_x[:, t], self._x_gradient.T)
            # A state before the first step that is not given is a constant 0.
            if t or for_states:
                np.matmul(recurrent, self._dz, self._dh)
                if self._seen:
                    np.multiply(self._dh, self._drop, self._dh)
                if absent is not None:
                    np.add(self._dh, self._held_h, out=self._dh, where=absent)
        self.write_variables(for_variables)
        if self._further:
            self.write_first(for_states, self._dh, self._carry)
            clear(for_mask)

    def _step_back(self, step: _LSTMStep) -> None:
        """Turn dh and dc of a step into the gradient of its pre-activations and the dc of the step before."""
        dh, dc, pair = self._dh, self._carry, self._pair
        units = self._units
        product = pair[:units]
        di, df, dg, do = self._dz.reshape(4, units, self._batch)
        # w.
        np.multiply(dh, step.h, do)
        np.divide(dh, step.o, product)
        np.add(dc, product, dc)
        # As h = o tanh(c), the gradient for c is dh o (1 - tanh(c)^2) = dh o - w tanh(c).
        np.multiply(do, step.squashed, product)
        np.subtract(dc, product, dc)
        np.divide(do, step.o, product)
        np.subtract(do, product, do)
        np.divide(dc, step.i, dg)
        # d, from which the gradients of both i and g come.
        np.multiply(dg, step.g, di)
        np.multiply(di, step.g, product)
        np.subtract(dg, product, dg)
        # First the dc of the step before: it is also a factor in the gradient of f.
        np.divide(dc, step.f, dc)
        np.multiply(dc, step.c_before, df)
        both = self._dz[: 2 * units]
        # The derivatives of both sigmoids, s (1 - s), in one pass; the s are factors of di and df already.
        np.divide(both, step.sigmoids, pair)
        np.subtract(both, pair, both)


class _GRUStep(NamedTuple):
    """Views of the results of one step; each gate is (units, batch)."""

    x: Array  # x and ones
    joined: Array  # the state before and ones
    gates: Array
    sigmoids: Array  # update and reset gate together
    z: Array
    r: Array
    g: Array
    q: Array  # the candidate's part of the recurrent product
    h_before: Array
    h: Array
    absent: Array | None  # samples that have nothing to read


class GRUOperation(FeatureMajor):
    """Gated recurrent units (Cho et al., 2014), with the reset gate after the recurrent product as in Keras and torch.

    [z r a] = x_t @ kernel + bias[0],  [z' r' q] = h_(t-1) @ recurrent kernel + bias[1],  each (batch, units);
    g = tanh(a + sigmoid(r + r') * q),  h_t = sigmoid(z + z') * h_(t-1) + (1 - sigmoid(z + z')) * g.
    """

    gates: ClassVar[int] = 3
    biases: ClassVar[int] = 2

    def prepare(self, dtype: np.dtype[Any]) -> None:
        super().prepare(dtype)
        units, batch = self._units, self._batch
        kept = self._time if self.training else 1
        gates = self._lasting.empty((kept, 3 * units, batch), dtype)
        recurrent = self._lasting.empty((kept, units, batch), dtype)
        self._first = self._features + min(self._ones, 1)
        self._steps = []
        for t in range(self._time):
            slot = t if self.training else 0
            x, joined, (before, h) = self._slab[t, : self._first], self._slab[t, self._first :], self._states[t : t + 2]
            both, (z, r, g) = gates[slot, : 2 * units], gates[slot].reshape(3, units, batch)
            absent = None if self._absent is None else self._absent[t]
            self._steps.append(_GRUStep(x, joined, gates[slot], both, z, r, g, recurrent[slot], before, h, absent))
        self._product = self.scratch.empty((3 * units, batch), dtype)
        if self.training:
            # What x is multiplied by goes to the candidate directly, not through the reset gate: rows a z r, and z r q.
            self._of_x, self._of_state = self._dz[: 3 * units], self._dz[units:]
            self._add_x = self.adding_steps(self._of_x, slice(self._first))
            self._add_joined = self.adding_steps(self._of_state, slice(self._first, None))
            self._kernel = self.scratch.empty((self._features, 3 * units), dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        self.read(*(self.apart(inputs) if self._further else (inputs, (), ())))
        # For `logistic_of_negative`, as in `LSTMOperation`.
        with np.errstate(over="ignore"):
            self._read_steps()
        self.write_states(out)

    def _read_steps(self) -> None:
        for_x, for_h = self._turned[:, : self._first], self._turned[:, self._first :]
        product, units = self._product, self._units
        both, candidate, space = product[: 2 * units], product[2 * units :], product[:units]
        for number, step in enumerate(self._steps, start=1):
            np.matmul(for_x, step.x, out=step.gates)
            np.matmul(for_h, step.joined, out=product)
            np.add(step.sigmoids, both, out=step.sigmoids)
            logistic_of_negative(step.sigmoids, self._one)
            # Backward reads the candidate's recurrent part without the reset gate, and the next line overwrites it.
            np.copyto(step.q, candidate)
            np.multiply(step.r, candidate, out=candidate)
            np.add(step.g, candidate, out=step.g)
            np.tanh(step.g, out=step.g)
            # z h + (1 - z) g as g + z (h - g): one product fewer.
            np.subtract(step.h_before, step.g, out=space)
            np.multiply(step.z, space, out=space)
            np.add(step.g, space, out=step.h)
            if step.absent is not None:
                np.copyto(step.h, step.h_before, where=step.absent)
            if self._seen:
                self.show(number)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        _, kernel, recurrent, *_ = inputs
        (for_x, *for_variables), for_mask, for_states = self.apart(wanted) if self._further else (wanted, (), ())
        units, trained = self._units, any(target is not None for target in for_variables)
        self._dh.fill(0)
        self._total.fill(0)
        if for_x is not None:
            # Columns in the order of the rows of the gradients.
            np.concatenate((kernel[:, 2 * units :], kernel[:, : 2 * units]), axis=1, out=self._kernel)
        for t in reversed(range(self._time)):
            self.add_incoming(gradient, t, self._dh)
            self._step_back(self._steps[t])
            absent = self._steps[t].absent
            if absent is not None:
                # The state went past this step, and so does its gradient.
                np.copyto(self._dz, 0, where=absent)
                np.copyto(self._carry, self._dh, where=absent)
            # A state before the first step that is not given is a constant 0.
            if t or for_states:
                np.matmul(recurrent, self._of_state, out=self._dh)
                if self._seen:
                    np.multiply(self._dh, self._drop, out=self._dh)
                np.add(self._dh, self._carry, out=self._dh)
            if trained:
                self._add_joined[t]()
                self._add_x[t]()
            if for_x is not None:
                np.matmul(self._kernel, self._of_x, out=self._x_gradient)
                np.copyto(for_x[:, t], self._x_gradient.T)
        if trained:
            # Columns of the kernel stand in the order z r a.
            self._total[:, : self._first] = np.roll(self._total[:, : self._first], -units, axis=0)
        self.write_variables(for_variables)
        if self._further:
            self.write_first(for_states, self._dh)
            clear(for_mask)

    def _step_back(self, step: _GRUStep) -> None:
        """Turn dh of a step into the gradient of its pre-activations and the part of dh that goes straight to the step before.

        The rows of the gradient are the candidate itself, z, r, and the recurrent part of the candidate.
        """
        units, dh, carry = self._units, self._dh, self._carry
        da, dz, dr, dq = self._dz.reshape(4, units, self._batch)
        pair = self._product[: 2 * units]
        # In the memory of `pair`, which is used when the product is not needed any more.
        product = pair[:units]
        np.multiply(dh, step.z, out=carry)
        np.subtract(step.h_before, step.g, out=dz)
        np.multiply(dz, carry, out=dz)
        np.subtract(dh, carry, out=da)
        # (1 - g^2), the derivative of the tanh.
        np.multiply(da, step.g, out=product)
        np.multiply(product, step.g, out=product)
        np.subtract(da, product, out=da)
        np.multiply(da, step.r, out=dq)
        np.multiply(dq, step.q, out=dr)
        both = self._dz[units : 3 * units]
        # The derivatives of both sigmoids; their s are factors of dz and dr already.
        np.multiply(both, step.sigmoids, out=pair)
        np.subtract(both, pair, out=both)


class SimpleRNNOperation(Recurrence):
    """The recurrence of Elman (1990): h_t = activation(x_t @ kernel + h_(t-1) @ recurrent kernel + bias).

    The kernels and the bias, one below the other, are one matrix, multiplied by x, h and 1 in one product for a step; its
    gradient is one product over all steps.

    Args:
        activation: the activation.
        return_sequences: whether the output is h of every step, or that of the last one.
    """

    carries: ClassVar[bool] = True

    _drop: Array

    def __init__(self, activation: Activation, return_sequences: bool = False) -> None:
        super().__init__(return_sequences)
        self.activation = activation

    def prepare(self, dtype: np.dtype[Any]) -> None:
        time, batch, features, units = self._time, self._batch, self._features, self._units
        rows = features + units + self._ones
        # One step more, so that the last state has a place like all others.
        self._slab = self._lasting.empty((time + 1, batch, rows), dtype)
        # The state before the first step, and that of each step.
        self._all = self._lasting.empty((time + 1, batch, units), dtype)
        self._states = self._all[1:]
        # an activation that needs its input, or cannot work in place, gets it in memory of its own
        shared = self.activation.in_place and not self.activation.reads_inputs
        self._scores = self._states if shared else self._lasting.empty((time, batch, units), dtype)
        replay = _Replay(self.scratch)
        self._activations = [self._activation(replay, dtype) for _ in range(time)]

        self._packed = self.scratch.empty((rows, units), dtype)
        if self.training:
            self._back = self.scratch.empty((units, units), dtype)
            self._dh = self.scratch.empty((batch, units), dtype)
            self._held = self.scratch.empty((batch, units) if self.masked else (0,), dtype)
            self._dz = self.scratch.empty((time, batch, units), dtype)
            self._x_gradient = self.scratch.empty((time * batch, features), dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        variables, mask, states = self.apart(inputs) if self._further else (inputs, (), ())
        x, features, units = inputs[0], self._features, self._units
        np.copyto(self._slab[:-1, :, :features], x.swapaxes(0, 1))
        # Each time: between two runs the memory is that of other plans.
        self._slab[:, :, features + units :] = 1
        if states:
            np.copyto(self._all[0], states[0])
        else:
            self._all[0].fill(0)
        if mask:
            self.note_mask(mask)
        # Each time, because the rule changes the variables between two batches.
        np.concatenate([part.reshape(-1, units) for part in variables[1:]], out=self._packed)
        if self._dropping:
            self._show(0)
        else:
            np.copyto(self._slab[0, :, features : features + units], self._all[0])
        for t, (activation, score, state) in enumerate(zip(self._activations, self._scores, self._states, strict=True)):
            np.matmul(self._slab[t], self._packed, out=score)
            activation.forward([score], state)
            if self._absent is not None:
                np.copyto(state, self._all[t], where=self._absent[t][:, None])
            if self._dropping:
                self._show(t + 1)
            else:
                np.copyto(self._slab[t + 1, :, features : features + units], state)
        np.copyto(out, self._states.swapaxes(0, 1) if self.return_sequences else self._states[-1])

    def _show(self, step: int) -> None:
        """Write the state before a step where the product reads it, without the units that are dropped."""
        np.multiply(self._all[step], self._drop.T, out=self._slab[step, :, self._features : self._features + self._units])

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        _, kernel, recurrent, *_ = inputs
        wanted, for_mask, for_states = self.apart(wanted) if self._further else (wanted, (), ())
        features, units = self._features, self._units
        # A contiguous copy, because it is multiplied in every step.
        np.copyto(self._back, recurrent.T)
        self._dh.fill(0)
        for t in reversed(range(self._time)):
            incoming = self.incoming(gradient, t)
            if incoming is not None:
                np.add(self._dh, incoming, out=self._dh)
            absent = None if self._absent is None else self._absent[t][:, None]
            if absent is not None:
                np.copyto(self._held, self._dh)
            self._activations[t].backward([self._scores[t]], self._states[t], self._dh, [self._dz[t]])
            if absent is not None:
                # The state went past this step, and so does its gradient.
                np.copyto(self._dz[t], 0, where=absent)
            if t or for_states:
                np.matmul(self._dz[t], self._back, out=self._dh)
                if self._dropping:
                    np.multiply(self._dh, self._drop.T, out=self._dh)
                if absent is not None:
                    np.add(self._dh, self._held, out=self._dh, where=absent)
        for target in for_states:
            if target is not None:
                np.copyto(target, self._dh)
        if self._further:
            clear(for_mask)
        flat = self._dz.reshape(-1, units)
        if any(target is not None for target in wanted[1:]):
            # The factors have served: their memory takes their gradients.
            np.matmul(self._slab[:-1].reshape(len(flat), -1).T, flat, out=self._packed)
            bounds = (0, features, features + units, len(self._packed))
            # Without a bias there is one target fewer.
            for start, stop, target in zip(bounds, bounds[1:], wanted[1:], strict=False):
                if target is not None:
                    np.copyto(target, self._packed[start:stop].reshape(target.shape))
        if wanted[0] is not None:
            # One product over all steps, since x_t reaches the loss through dz_t alone.
            np.matmul(flat, kernel.T, out=self._x_gradient)
            np.copyto(wanted[0].swapaxes(0, 1), self._x_gradient.reshape(self._time, self._batch, features))

    def _activation(self, replay: _Replay, dtype: np.dtype[Any]) -> Activation:
        """Return a copy for one step, which may keep something from forward to backward."""
        found, shape = copy(self.activation), (self._batch, self._units)
        # Each copy asks for the same arrays again, and gets those of the first.
        replay.restart()
        # Set past the activation's own checks, as a plan does.
        vars(found).update(scratch=replay)
        found.allocate([shape], shape, dtype)
        return found


class DroppingLSTM(Dropping, LSTMOperation):
    """`LSTMOperation` with dropout of the state in the recurrent product."""


class DroppingGRU(Dropping, GRUOperation):
    """`GRUOperation` with dropout of the state in the recurrent product; the update gate keeps the whole state."""


class DroppingSimpleRNN(Dropping, SimpleRNNOperation):
    """`SimpleRNNOperation` with dropout of the state in the recurrent product."""


class _Replay:
    """Source of the same work arrays in the same order after each `restart`: steps are computed one after the other."""

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
