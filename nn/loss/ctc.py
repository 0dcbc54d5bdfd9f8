"""Connectionist temporal classification: a loss of sequences of labels that are shorter than the sequences of outputs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.activation.sigmoids import Softmax
from nn.arrays import Array, Shape
from nn.loss.loss import Loss, Taken, check_length
from nn.operation.operation import Operation


class CTC(Loss, configured=True):
    """Mean over the batch of -log p(label | scores), p summed over all ways to spread a label over the steps (Graves et al.,
    "Connectionist Temporal Classification", ICML 2006).

    At each step the model names a class or says nothing, the class `blank`. A way gives the label that is left when classes
    that follow themselves are taken once, and then blanks away. So handwriting and speech are learned without knowing where
    each letter stands.

    Outputs are scores (batch, steps, classes); the softmax belongs to the loss, as in `Cross_Entropy_With_Softmax`, and a model
    may end in `Softmax` as well. Labels are class numbers (batch, length), `blank` behind the end of those that are shorter.
    All steps count. The sums are computed of logarithms, in double precision.

    Args:
        blank: the class that stands for nothing, and pads labels.

    Raises ValueError for outputs of another shape, and for labels that are no class numbers, have a blank in front of a class,
    or need more steps than there are: one for each class, and one between two equal ones.

    >>> loss, output = nn.loss.CTC(), np.zeros((1, 2, 3))
    >>> loss.allocate(output.shape, output.dtype)
    >>> label = loss.prepare(np.array([[1, 0]]), output.shape, output.dtype)
    >>> round(loss.value(label, output), 4)  # -log(3 / 9): of nine ways 11, 10 and 01
    1.0986
    """

    _takes: ClassVar[Taken] = "class scores"
    absorbs: ClassVar[type[Operation] | None] = Softmax

    _probabilities: Array
    _ways: Array
    _states: Array
    _steps: Array
    _ends: Array
    _total: Array

    def __init__(self, blank: int = 0) -> None:
        self.blank = arguments.integer(self, "blank", blank, minimum=0)

    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        self._check(shape)
        check_length(self, label, shape[0])
        if label.ndim != 2 or not label.shape[1] or label.dtype.kind not in "iuf":
            raise ValueError(f"CTC labels must be class numbers (batch, length), got {label.dtype} of shape {label.shape}")
        whole = np.rint(label)
        wrong = label[~((whole == label) & (label >= 0) & (label < shape[2]))]
        if wrong.size:
            raise ValueError(f"CTC labels must be classes in 0..{shape[2] - 1}, got {wrong[0]:g}")
        numbers = whole.astype(np.intp)
        named = numbers != self.blank
        inside = np.flatnonzero((named[:, 1:] & ~named[:, :-1]).any(axis=1))
        if inside.size:
            raise ValueError(f"CTC labels must have the blank, {self.blank}, behind their ends only, got {numbers[inside[0]]}")
        needed = named.sum(axis=1) + (named[:, 1:] & (numbers[:, 1:] == numbers[:, :-1])).sum(axis=1)
        if needed.max() > shape[1]:
            sample = int(needed.argmax())
            raise ValueError(
                f"CTC labels must fit into the {shape[1]} steps of the outputs, got one for sample {sample} that needs "
                f"{needed[sample]}: a step for each class, and one between two equal ones"
            )
        return numbers

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        self._check(shape)
        super().allocate(shape, dtype)
        self._probabilities, self._log = self._memory.empty((2, *shape), dtype)
        self._row = np.empty((*shape[:2], 1), dtype)
        self._losses = np.empty(shape[0], dtype)
        self._samples = np.arange(shape[0])[:, None]

    def each(self, label: Array, output: Array) -> Array:
        p, log, row = self._probabilities, self._log, self._row
        np.subtract(output, output.max(axis=2, keepdims=True), out=log)
        np.exp(log, out=p)
        np.add.reduce(p, axis=2, keepdims=True, out=row)
        np.divide(p, row, out=p)
        np.subtract(log, np.log(row), out=log)
        # The states of a sample: a blank in front of, between and behind the classes of its label.
        count = 2 * label.shape[1] + 1
        states = np.full((len(label), count), self.blank)
        states[:, 1::2] = label
        self._states, self._ends = states, 2 * (label != self.blank).sum(axis=1, keepdims=True)
        # (steps, batch, states): a step is one block of memory.
        self._steps = np.moveaxis(np.take_along_axis(log, states[:, None, :], axis=2), 1, 0).astype(np.float64)
        self._forward(_skips(states, self.blank))
        np.negative(self._total, out=self._losses, casting="same_kind")
        return self._losses

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        states, ways = self._states, self._backward(_skips(self._states, self.blank))
        # d loss / d score: the probability, less that of the ways which pass the class at this step.
        passing = np.zeros(output.shape, np.float64)
        places = np.arange(output.shape[1])[None, :]
        for state in range(states.shape[1]):
            passing[self._samples, places, states[:, state : state + 1]] += ways[:, :, state].T
        np.subtract(self._probabilities, passing, out=out, casting="same_kind")
        np.multiply(out, share, out=out)

    def prediction(self, output: Array) -> Array:
        return self._probabilities

    def decode(self, prediction: Array) -> Array:
        """Return the labels of the likeliest class at each step, (batch, steps), padded with blanks.

        Args:
            prediction: scores or probabilities, (batch, steps, classes).
        """
        self._check(np.shape(prediction))
        best = np.asarray(prediction).argmax(axis=2)
        kept = best != self.blank
        kept[:, 1:] &= best[:, 1:] != best[:, :-1]
        found: Array = np.full(best.shape, self.blank)
        rows, places = np.nonzero(kept)
        found[rows, (kept.cumsum(axis=1) - 1)[rows, places]] = best[rows, places]
        return found

    def _check(self, shape: Shape) -> None:
        if len(shape) != 3 or not self.blank < shape[2] or shape[2] < 2:
            raise ValueError(
                f"CTC takes outputs (batch, steps, classes) with the class 'blank', {self.blank}, among at least 2, got shape "
                f"{shape}; masks and weights of steps are not for it"
            )

    def _forward(self, skips: Array) -> None:
        """Compute the logarithms of the sums of all ways up to each step and state, and of all ways of each sample."""
        steps = self._steps
        ways = self._ways = np.full(steps.shape, -np.inf)
        ways[0, :, :2] = steps[0, :, :2]
        with np.errstate(invalid="ignore"):
            for step in range(1, len(steps)):
                before, here = ways[step - 1], ways[step]
                np.copyto(here, before)
                np.logaddexp(here[:, 1:], before[:, :-1], out=here[:, 1:])
                np.logaddexp(here[:, 2:], before[:, :-2] + skips, out=here[:, 2:])
                here += steps[step]
            last, ends = ways[-1], self._ends
            # A way ends in the last class or in the blank behind it; an empty label has no class.
            before = np.where(ends > 0, np.take_along_axis(last, np.maximum(ends - 1, 0), axis=1), -np.inf)
            self._total = np.logaddexp(np.take_along_axis(last, ends, axis=1), before)[:, 0]

    def _backward(self, skips: Array) -> Array:
        """Return the shares of the ways of each sample that pass a state at a step, (steps, batch, states)."""
        steps, ways, ends = self._steps, self._ways.copy(), self._ends
        places = np.arange(steps.shape[2])
        behind = np.where((places == ends) | (places == ends - 1), 0.0, -np.inf)
        with np.errstate(invalid="ignore"):
            ways[-1] += behind
            for step in range(len(steps) - 2, -1, -1):
                ahead = behind + steps[step + 1]
                behind = ahead.copy()
                np.logaddexp(behind[:, :-1], ahead[:, 1:], out=behind[:, :-1])
                np.logaddexp(behind[:, :-2], ahead[:, 2:] + skips, out=behind[:, :-2])
                ways[step] += behind
            np.subtract(ways, self._total[:, None], out=ways)
            return np.exp(ways, out=ways)


def _skips(states: Array, blank: int) -> Array:
    """Return 0 where a way may come from the state before the last one, else -inf: to a class, unless it follows itself."""
    here = states[:, 2:]
    return np.where((here != blank) & (here != states[:, :-2]), 0.0, -np.inf)
