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
    _total: Array
    _room: _Room

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
        # Without a blank between them, two equal classes would be read as one.
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
        self._total = np.empty(shape[0])
        self._room = _Room(shape, 0, dtype)

    def each(self, label: Array, output: Array) -> Array:
        p, log, row = self._probabilities, self._log, self._row
        # The maximum first, so that exp cannot overflow.
        np.maximum.reduce(output, axis=2, keepdims=True, out=row)
        np.subtract(output, row, out=log)
        np.exp(log, out=p)
        np.add.reduce(p, axis=2, keepdims=True, out=row)
        np.divide(p, row, out=p)
        np.subtract(log, np.log(row, out=row), out=log)
        if self._room.length != label.shape[1]:
            self._room = _Room(output.shape, label.shape[1], output.dtype)
        self._room.read(label, self.blank, log)
        self._forward()
        np.negative(self._total, out=self._losses, casting="same_kind")
        return self._losses

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        room = self._room
        self._backward()
        # d loss / d score: the probability, less that of the ways which pass the class at this step.
        room.passing.fill(0)
        places = room.places()
        for shares in room.shares:
            # A class that a label has several times is passed in several states, so places repeat.
            np.add.at(room.passing.reshape(-1), places, shares)
            places += output.shape[2]
        np.subtract(self._probabilities, room.passing, out=out, casting="same_kind")
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

    def _forward(self) -> None:
        """Compute the logarithms of the sums of all ways up to each step and state, and of all ways of each sample."""
        room = self._room
        steps, ways, skips, hop = room.steps, room.ways, room.skips, room.hop
        ways[0].fill(-np.inf)
        ways[0, :2] = steps[0, :2]
        with np.errstate(invalid="ignore"):
            for step in range(1, len(steps)):
                before, here = ways[step - 1], ways[step]
                np.copyto(here, before)
                np.logaddexp(here[1:], before[:-1], out=here[1:])
                np.logaddexp(here[2:], np.add(before[:-2], skips, out=hop), out=here[2:])
                here += steps[step]
            last, total = ways[-1].reshape(-1), self._total
            last.take(room.before, out=total, mode="clip")
            # An empty label ends in its blank alone, which is both states and counts once.
            np.copyto(total, -np.inf, where=room.ends == 0)
            np.logaddexp(total, last.take(room.last), out=total)

    def _backward(self) -> None:
        """Compute the shares of the ways of each sample that pass a state at a step."""
        room = self._room
        steps, ways, shares, skips, hop = room.steps, room.ways, room.shares, room.skips, room.hop
        behind, ahead = room.behind, room.ahead
        behind.fill(-np.inf)
        for ends in (room.before, room.last):
            np.put(behind, ends, 0)
        with np.errstate(invalid="ignore"):
            np.add(ways[-1], behind, out=shares[-1])
            for step in range(len(steps) - 2, -1, -1):
                np.add(behind, steps[step + 1], out=ahead)
                np.copyto(behind, ahead)
                np.logaddexp(behind[:-1], ahead[1:], out=behind[:-1])
                np.logaddexp(behind[:-2], np.add(ahead[2:], skips, out=hop), out=behind[:-2])
                np.add(ways[step], behind, out=shares[step])
            for each in shares:
                # As logarithms: the sum of the ways of a long sequence is too small for a number of any type.
                np.subtract(each, self._total, out=each)
            np.exp(shares, out=shares)


class _Room:
    """Memory for labels of one length: the states of ways, their logarithms at each step, and what is computed of them.

    The states of a sample are a blank in front of, between and behind the classes of its label.
    """

    def __init__(self, shape: Shape, length: int, dtype: np.dtype[Any]) -> None:
        samples, steps, classes = shape
        states = 2 * length + 1
        self.length = length
        # States in front of samples: what meets states next to each other are whole blocks of memory.
        self.states = np.empty((states, samples), np.intp)
        self.ends, self.last, self.before = np.empty((3, samples), np.intp)
        self._samples = np.arange(samples)
        self.steps, self.ways, self.shares = np.empty((3, steps, states, samples))
        self.behind, self.ahead = np.empty((2, states, samples))
        self.skips, self.hop = np.empty((2, max(states - 2, 0), samples))
        self.passing = np.empty((samples, steps, classes))
        self._picked = np.empty((states, samples), dtype)
        self._places = np.empty((states, samples), np.intp)
        self._starts = np.arange(0, samples * steps * classes, steps * classes)

    def read(self, label: Array, blank: int, log: Array) -> None:
        """Take in the states of labels, and the logarithms of their probabilities of all classes."""
        states = self.states
        states.fill(blank)
        states[1::2] = label.T
        np.copyto(self.ends, np.count_nonzero(label != blank, axis=1))
        # A way ends in the last class or in the blank behind it; an empty label has no class.
        np.multiply(self.ends, 2 * len(self.ends), out=self.last)
        np.add(self.last, self._samples, out=self.last)
        np.subtract(self.last, np.where(self.ends > 0, len(self.ends), 0), out=self.before)
        # A way comes from the state before the last one to a class only, unless that follows itself.
        here = states[2:]
        self.skips.fill(0)
        np.copyto(self.skips, -np.inf, where=(here == blank) | (here == states[:-2]))
        places, flat = self.places(), log.reshape(-1)
        for step in self.steps:
            # mode: 'raise' would go through a buffer
            flat.take(places, out=self._picked, mode="clip")
            np.copyto(step, self._picked)
            places += log.shape[2]

    def places(self) -> Array:
        """Return where the states of each sample lie among all classes at the first step, to be moved on in place."""
        return np.add(self.states, self._starts, out=self._places)
