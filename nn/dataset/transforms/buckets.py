"""Batches of sequences of like lengths, cut to the length that they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arrays import LENGTH, Array, Shape
from nn.dataset.interface import Arrays
from nn.dataset.transforms.abstract import AbsTransformer

__all__ = ["Buckets", "Cuts"]


class Buckets(AbsTransformer, configured=True):
    """Deal of a job that puts sequences of like lengths into a batch, and leaves out the padding that all of a block have.

    Samples are padded sequences ``(n, steps, ...)``, zeros behind all of them or in front of all of them, as `pad_sequences`
    and `TextVectorization` make them. They stay as they are: the deal sorts each epoch's order, drawn by (seed, epoch), by
    length, cuts it into batches, and deals these in an order of their own; the samples that fill no batch are drawn before. A
    block is cut to the least of `lengths` that holds its longest sequence, with labels and weights of single steps. So the
    number of lengths, and with it that of plans that are made, is bounded, and the bits do not depend on the workers.

    With ``shuffle=False`` samples keep their order, and blocks are cut. ``fit(.., buckets=[20, 50])`` deals the same way;
    ``evaluate`` and ``predict`` with these compute sequences of like lengths together, with the same results where a mask
    leaves padding out of the model and the loss.

    Args:
        lengths: the limits, rising, in steps; longer sequences are computed with all their steps.

    Raises:
        ValueError: for limits that do not rise.

    >>> x = nn.dataset.pad_sequences([[1], [2, 3], [4], [5, 6, 7]], padding="post")
    >>> model = nn.model.SequentialModel([-1, None], [nn.layer.Embedding(8, 2, mask_zero=True), nn.layer.GRU(1)])
    >>> model.compile("sgd", "mse")
    >>> history = model.fit(x, np.zeros((4, 1)), epochs=1, batch_size=2, buckets=[1, 2], verbose=0)
    """

    for_training_only = True

    def __init__(self, lengths: Sequence[int]) -> None:
        found = [lengths] if isinstance(lengths, Integral) else arguments.sequence(self, "lengths", lengths, "numbers of steps")
        limits = [arguments.integer(self, "lengths", each, minimum=1) for each in found]
        if not limits or any(low >= high for low, high in pairwise(limits)):
            raise ValueError(f"Buckets 'lengths' must be numbers of steps that rise, such as [20, 50], got {lengths!r}")
        self.lengths = tuple(limits)

    @property
    def _limits(self) -> tuple[int, ...]:
        return self.lengths

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return the arrays as they are: batches are cut when they are dealt."""
        return train_x, train_y, test_x, test_y


class _Padded(NamedTuple):
    """Sequences with axes of the same length.

    Args:
        counts: steps of each sample ``(n,)``, at least 1.
        front: whether the padding stands in front.
    """

    counts: NDArray[np.intp]
    front: bool


class Cuts:
    """Cuts of the padded sequences of one training set.

    Sequences with axes of the same length are cut together: all inputs that have it, and labels and weights of outputs with one
    result for each step. Padding is a step whose numbers all are 0, in all of these inputs.

    Args:
        limits: lengths to which a block may be cut, rising.
        samples: arrays of the inputs of the model, padded.
        inputs: the shapes of these in the model.
        outputs: the shapes of the outputs that have labels.

    Raises:
        ValueError: where no input has an axis of any length.
    """

    def __init__(
        self, limits: Sequence[int], samples: Sequence[Array], inputs: Sequence[Shape], outputs: Sequence[Shape]
    ) -> None:
        self._limits = np.asarray(limits)
        self._open = [LENGTH in shape[1:2] for shape in inputs]
        self._stepwise = [LENGTH in shape[1:2] for shape in outputs]
        if not any(self._open):
            raise ValueError(
                f"sequences are cut for a model with an input of any length, [-1, None, ...], got {', '.join(map(str, inputs))}"
            )
        by_length: dict[int, list[Array]] = {}
        for array, is_open in zip(samples, self._open, strict=True):
            if is_open:
                by_length.setdefault(array.shape[1], []).append(array)
        self._padded = {length: _padded(arrays) for length, arrays in by_length.items()}
        # The first decides which samples are alike.
        self._bucket = np.searchsorted(self._limits, next(iter(self._padded.values())).counts)

    def dealt(self, order: NDArray[np.intp], size: int) -> NDArray[np.intp]:
        """Return an order of the samples in which batches hold sequences of like lengths.

        Args:
            order: a random one ``(n,)``.
            size: samples of a batch.
        """
        whole = len(order) // size
        # Drawn before the sort: else the longest would always be those of the shorter last batch.
        first, tail = order[: whole * size], order[whole * size :]
        sorted_places = np.argsort(self._bucket[first], kind="stable").reshape(whole, size)
        # By the places of their first samples in the random order, which mixes batches of all lengths.
        return np.concatenate([first[sorted_places[sorted_places[:, 0].argsort()]].reshape(-1), tail]) if whole else order

    def alike(self, size: int) -> Iterator[NDArray[np.intp]]:
        """Yield the numbers of at most `size` sequences that are cut to the same length, until all were given."""
        order = np.argsort(self._bucket, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(self._bucket[order])) + 1):
            for start in range(0, len(part), size):
                yield part[start : start + size]

    def samples(self, rows: slice | Array, arrays: Sequence[Array]) -> list[Array]:
        """Return the samples of a block without steps that are padding in all of it.

        Args:
            rows: their numbers in the training set.
            arrays: those of each input.
        """
        return [self._cut(rows, each, is_open) for each, is_open in zip(arrays, self._open, strict=True)]

    def labels(self, rows: slice | Array, arrays: Sequence[Any]) -> list[Any]:
        """Return labels, or weights, of a block for the steps that `samples` leaves; None stays.

        Args:
            rows: their numbers in the training set.
            arrays: those of each output that has labels.
        """
        return [
            each if each is None else self._cut(rows, each, is_open and each.ndim > 1)
            for each, is_open in zip(arrays, self._stepwise, strict=True)
        ]

    def _cut(self, rows: slice | Array, array: Array, is_open: bool) -> Array:
        found = self._padded.get(array.shape[1]) if is_open and len(array) else None
        if found is None:
            return array
        place = int(np.searchsorted(self._limits, found.counts[rows].max()))
        length = array.shape[1]
        kept = min(int(self._limits[place]), length) if place < len(self._limits) else length
        if kept == length:
            return array
        # Contiguous, as blocks that are not cut are.
        return np.ascontiguousarray(array[:, length - kept :] if found.front else array[:, :kept])


def _padded(arrays: Sequence[Array]) -> _Padded:
    """Return the number of steps of each sample, and where the padding stands: on the side that has more of it."""
    count, length = arrays[0].shape[:2]
    there: NDArray[np.bool_] = np.zeros((count, length), bool)
    for array in arrays:
        there |= (array != 0).reshape(count, length, -1).any(axis=2)
    # The place of the first step that is there, from either side.
    # Padding alone counts as one step: a block of nothing else must not become empty.
    before, behind = (np.where(there.any(axis=1), side.argmax(axis=1), length - 1) for side in (there, there[:, ::-1]))
    front = bool(before.sum() > behind.sum())
    return _Padded(length - (before if front else behind), front)
