"""A batch of samples and labels; whether samples fit a model, and whether they are finite; and where the batches of `fit` and
`evaluate` come from: arrays, feeders, or anything that gives batches one by one.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from numbers import Integral
from operator import length_hint
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nn import arguments
from nn.arrays import LENGTH, Array, Shape, all_finite, as_array, empty, fits, holds_texts
from nn.data import DataFeeder
from nn.random import keyed

if TYPE_CHECKING:
    from nn.dataset.transforms.buckets import Cuts

_LOG = logging.getLogger(__name__)


class Batch(NamedTuple):
    """One batch of a training or an evaluation.

    Args:
        x: samples ``(batch, ...)`` of each input in the model's type.
        label: labels of each output with a loss, as the loss takes them.
        weight: weights of the samples ``(batch,)`` for each of these outputs; None: all 1.
        given: the samples as they came.
        places: their numbers in the array that they came from, where there is one.
    """

    x: tuple[Array, ...]
    label: tuple[Array, ...]
    weight: tuple[Array | None, ...] | None
    given: tuple[Array, ...]
    places: Sequence[int] | Array | None = None


def as_type(samples: Array, dtype: np.dtype[Any]) -> Array:
    """Return samples in the type that a model computes in. Numbers too large for it become infinite."""
    if samples.dtype == dtype:
        return samples
    with np.errstate(over="ignore"):
        return samples.astype(dtype)


def check_samples(owner: str, x: Any, input_shape: Shape) -> Array:
    """Return `x` as an array of samples; raise ValueError unless it has at least one and they have the model's shape."""
    samples = as_array(f"{owner} 'x'", x)
    if samples.dtype.kind not in "iufb":
        raise ValueError(f"{owner} 'x' must hold numbers, got {_found_for_numbers(x, samples)}")
    if (samples.ndim != len(input_shape) or samples.shape[1:] != input_shape[1:]) and not fits(samples.shape, input_shape):
        raise ValueError(
            f"{owner} 'x' must have the model's input shape {input_shape}, got {samples.shape}: "
            f"{_difference(samples.shape, input_shape)}"
        )
    if not samples.size and 0 in samples.shape:
        least = "one sample" if not len(samples) else "one step of each sample"
        raise ValueError(f"{owner} 'x' must hold at least {least}, got shape {samples.shape}")
    return samples


def _found_for_numbers(x: Any, samples: Array) -> str:
    """Return what samples hold that are no numbers, and what makes numbers of it."""
    remedy = "nn.dataset.ArrayDataset makes numbers of texts, categories and dates"
    if hasattr(x, "iloc") and samples.ndim == 2:
        others = [str(name) for name, kind in x.dtypes.items() if getattr(kind, "kind", "O") not in "iufb"]
        if others:
            return (
                f"the column{'s' * (len(others) > 1)} {', '.join(map(repr, others[:5]))}{', ..' * (len(others) > 5)}; {remedy}"
            )
    return f"{'texts' if holds_texts(samples) else samples.dtype}; {remedy}"


def _difference(shape: Shape, wanted: Shape) -> str:
    if len(shape) == len(wanted):
        axis = next(axis for axis in range(1, len(wanted)) if shape[axis] != wanted[axis] != LENGTH)
        return f"axis {axis} must have length {wanted[axis]}, got {shape[axis]}"
    if shape == wanted[1:]:
        return "a single sample needs an axis in front, x[None]"
    if (*shape[1:], 1) == wanted[1:]:
        return f"an axis of length 1 is missing at the end, {'x[:, None]' if len(shape) == 1 else 'x[..., None]'}"
    return f"expected {len(wanted)} axes, got {len(shape)}"


def select_rows(array: Array, rows: slice | Array, memory: Array) -> Array:
    """Return these rows: a view of consecutive ones, others in `memory`, which has room for at least as many."""
    if isinstance(rows, slice):
        return array[rows]
    # mode: 'raise' would go through a buffer
    return array.take(rows, axis=0, out=memory[: len(rows)], mode="clip")


def first_bad_sample(x: Array, given: Array | None, places: Sequence[int] | Array | None) -> str | None:
    """Return which sample is not finite, and where in it, as a clause; None if all are finite.

    `x` (batch, ...) are the samples in the type of the model, `given` those before they were converted to it, and
    `places` their numbers in the caller's array, where there is one.
    """
    bad = np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(axis=1))
    if not bad.size:
        return None
    row = int(bad[0])
    inner = tuple(np.argwhere(~np.isfinite(x[row]))[0].tolist())
    value = x[row][inner] if given is None else given[row][inner]
    sample = row if places is None else int(places[row])
    where = "" if places is not None else " of the batch"
    index = ", ".join(str(place) for place in (sample, *inner))
    # what is finite before the conversion was too large for it
    reason = f", which overflows in {x.dtype}" if np.isfinite(value) else ""
    return f"sample {sample}{where} has {value:g} at x[{index}]{reason}"


def first_bad(batch: Batch, names: Sequence[str]) -> str | None:
    """Return which sample of a batch is not finite, and where in which input, as a clause; None if all are finite.

    Args:
        batch: samples of each input.
        names: the names of the inputs.
    """
    for name, x, given in zip(names, batch.x, batch.given, strict=True):
        found = first_bad_sample(x, given, batch.places)
        if found is not None:
            return found.replace("x[", f"x['{name}'][", 1) if len(names) > 1 else found
    return None


def check_finite(owner: str, batch: Batch, names: Sequence[str]) -> None:
    """Raise ValueError where samples of a batch are not all finite.

    Args:
        owner: begins the error.
        batch: the batch.
        names: names of the inputs.
    """
    for x, given in zip(batch.x, batch.given, strict=True):
        if given.dtype.kind == "f" and not all_finite(x):
            raise ValueError(f"{owner} must hold finite numbers: {first_bad(batch, names)}")


Prepare = Callable[[Any, Any, Any], Batch]
"""From samples, labels and weights as they come to a batch as the model takes it, checked."""


class Source(ABC):
    """Batches, one epoch after the other. `samples` and `steps` are those of an epoch, None where that is not known."""

    samples: int | None = None
    steps: int | None = None

    @abstractmethod
    def deal(self, epoch: int) -> Iterator[Batch]:
        """Yield the batches of an epoch; a batch is valid until the next."""


class ArraySource(Source):
    """Arrays in memory, in batches of `size`, the last one as long as the rest.

    With a seed every epoch has an order of its own, keyed by (seed, epoch). Memory for shuffled batches, and for those that are
    converted to `dtype`, is allocated once. `first` is the number of the first sample in the caller's array.
    """

    def __init__(
        self,
        arrays: tuple[tuple[Array, ...], tuple[Array, ...], tuple[Array | None, ...] | None],
        size: int,
        dtype: np.dtype[Any],
        *,
        seed: int | None = None,
        first: int = 0,
    ) -> None:
        self._seed, self._first = seed, first
        self.cuts: Cuts | None = None
        """Puts samples of like lengths into a batch, and leaves out padding."""
        self.by_length = False
        """Whether batches hold samples of one length by these, in whatever order, as no result depends on it."""
        xs, labels, weights = arrays
        count = len(xs[0])
        self._size = min(size, count)
        self.samples, self.steps = count, -(-count // self._size)
        self._xs = [_Rows.of(x, self._size, dtype) for x in xs]
        self._labels = [_Rows.of(label, self._size) for label in labels]
        self._weights = None if weights is None else [None if w is None else _Rows.of(w, self._size) for w in weights]

    @property
    def converts(self) -> bool:
        """Whether it holds memory for samples in the type of the model."""
        return any(each.converted is not None for each in self._xs)

    @property
    def inputs(self) -> list[Array]:
        """The samples of each input."""
        return [each.array for each in self._xs]

    def deal(self, epoch: int) -> Iterator[Batch]:
        for rows in self._rows(epoch):
            count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
            given: list[Array] = []
            x: list[Array] = []
            for array, memory, converted in self._xs:
                found = select_rows(array, rows, memory)
                given += [found]
                if converted is not None:
                    # what is too large for the type becomes infinite
                    with np.errstate(over="ignore"):
                        np.copyto(converted[:count], found, casting="unsafe")
                    found = converted[:count]
                x += [found]
            label: list[Array] = []
            for array, memory, _ in self._labels:
                label += [select_rows(array, rows, memory)]
            weight = None
            if self._weights is not None:
                weight = tuple([None if w is None else select_rows(w.array, rows, w.memory) for w in self._weights])
            # Numbers as the caller counts them: a split keeps its first sample in `first`.
            places = range(self._first + rows.start, self._first + rows.stop) if isinstance(rows, slice) else self._first + rows
            if self.cuts is not None:
                # Cut at the end: padding is known by rows, and `given` must show the same steps to an error.
                x, given = self.cuts.samples(rows, x), self.cuts.samples(rows, given)
                label = self.cuts.labels(rows, label)
                weight = None if weight is None else tuple(self.cuts.labels(rows, weight))
            yield Batch(tuple(x), tuple(label), weight, tuple(given), places)

    def _rows(self, epoch: int) -> Iterator[slice | Array]:
        """Yield the numbers of the samples of each batch of an epoch."""
        count, size = self.samples or 0, self._size
        # No order is drawn here: only evaluation asks for it, which adds up over all samples.
        if self.cuts is not None and self.by_length:
            yield from self.cuts.alike(size)
            return
        order = None if self._seed is None else keyed(self._seed, "order", epoch).permutation(count)
        if self.cuts is not None and order is not None:
            order = self.cuts.dealt(order, size)
        for start in range(0, count, size):
            stop = min(start + size, count)
            yield slice(start, stop) if order is None else order[start:stop]


class _Rows(NamedTuple):
    """An array, memory for the rows of one batch, and memory for these in another type where that is needed."""

    array: Array
    memory: Array
    converted: Array | None

    @staticmethod
    def of(array: Array, size: int, dtype: np.dtype[Any] | None = None) -> _Rows:
        """Return an array with memory for `size` rows, converted to `dtype` where it has another one."""
        memory = empty((size, *array.shape[1:]), array.dtype)
        return _Rows(array, memory, None if dtype in (None, array.dtype) else empty(memory.shape, dtype or array.dtype))


def way_to_arrays(data: Any) -> str:
    """Return a clause that tells how to get arrays from a data set, "" for anything else."""
    return "; load() of a data set returns x, label, test_x, test_label" if callable(getattr(data, "load", None)) else ""


class StreamSource(Source):
    """A feeder or an iterable of (x, label) or (x, label, weight), checked batch by batch.

    An iterator, such as a generator, is read on from epoch to epoch, `steps` batches for each; an iterable that can be
    iterated again begins anew.
    """

    def __init__(self, data: Any, prepare: Prepare, name: str, *, seed: int = 0, steps: int | None = None) -> None:
        if not isinstance(data, (DataFeeder, Iterable)) or isinstance(data, (np.ndarray, str, bytes, dict)):
            raise TypeError(
                f"{name} must be an array with a label, or a DataFeeder or an iterable of (x, label) batches, "
                f"got {type(data).__name__}{way_to_arrays(data)}"
            )
        self._data, self._prepare, self._name = data, prepare, name
        self._seed, self._limit, self._told = seed, steps, False
        # 0 where nothing is known, which is None here.
        self.steps = steps if steps is not None else length_hint(data) or None
        self.samples = data.samples if isinstance(data, DataFeeder) and steps is None else None

    def first(self, epoch: int) -> tuple[Any, Any, Any]:
        """Return samples, labels and weights of the first batch, which is dealt all the same; raise ValueError if none is."""
        batches = self._open(epoch)
        batch = next(batches, None)
        if batch is None:
            raise self._empty()
        if isinstance(self._data, Iterator):
            # The batch that was looked at goes back in front: an iterator gives it only once.
            self._data = chain([batch], self._data)
        return self._parts(batch)

    def check(self, epoch: int) -> None:
        """Raise ValueError unless there is a first batch, which suits the model; it is dealt all the same."""
        self._prepare(*self.first(epoch))

    def deal(self, epoch: int) -> Iterator[Batch]:
        """Yield the batches of an epoch; raise ValueError where there is none, warn once where there are fewer than `steps`."""
        dealt = 0
        # An iterator is read no further than the epoch needs.
        for batch in islice(self._open(epoch), self._limit):
            dealt += 1
            yield self._prepare(*self._parts(batch))
        if not dealt:
            raise self._empty()
        # Once, not in each epoch.
        if self._limit is not None and dealt < self._limit and not self._told:
            self._told = True
            _LOG.warning(
                "%s ended after %d of the %d batches of 'steps_per_epoch': epoch %d is as short as that. Give fewer steps, "
                "or an iterator that goes on.", self._name, dealt, self._limit, epoch + 1,
            )  # fmt: skip

    def _open(self, epoch: int) -> Iterator[Any]:
        return self._data.deal(epoch, self._seed) if isinstance(self._data, DataFeeder) else iter(self._data)

    def _parts(self, batch: Any) -> tuple[Any, Any, Any]:
        if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
            found = f"{len(batch)} of them" if isinstance(batch, (tuple, list)) else type(batch).__name__
            raise ValueError(f"{self._name} must give batches (x, label) or (x, label, weight), got {found}")
        x, label, *weight = batch
        return x, label, weight[0] if weight else None

    def _empty(self) -> ValueError:
        hint = (
            "; an iterator is spent after one pass, so give a list or a DataFeeder, or 'steps_per_epoch' of an endless one"
            if isinstance(self._data, Iterator)
            else ""
        )
        return ValueError(f"{self._name} gave no batch{hint}")


def with_class_weights(
    weight: Array | None, label: Array, output: Shape, class_weight: Mapping[Any, float] | str, dtype: np.dtype[Any]
) -> Array:
    """Return the weight of each label's class (batch,), times `weight` (batch,) where there is one.

    Classes that `class_weight` leaves out have the weight 1. Every sample must be of one class of an output (batch, classes):
    labels, as the loss prepared them, are class numbers (batch,), one-hot rows (batch, classes), or for a single output,
    0 and 1, (batch, 1). Raises ValueError for others, and for a class that the model does not have.
    """
    # A single output decides between two classes.
    table = _table(class_weight, max(output[-1], 2) if len(output) == 2 else None, dtype)
    by_class = table[_class_numbers(label, output)]
    return by_class if weight is None else np.multiply(weight, by_class, dtype=dtype)


def _table(class_weight: Mapping[Any, float] | str, classes: int | None, dtype: np.dtype[Any]) -> Array:
    if not isinstance(class_weight, Mapping):
        raise TypeError(f"'class_weight' must map class numbers to weights, got {type(class_weight).__name__}")
    table = np.ones(classes or 0, dtype)
    for number, weight in class_weight.items():
        if isinstance(number, bool) or not isinstance(number, Integral) or int(number) < 0:
            raise ValueError(f"'class_weight' must have class numbers as keys, got {number!r}")
        if arguments.number("fit()", f"class_weight[{number}]", weight, 0) > float(np.finfo(dtype).max):
            raise ValueError(f"fit() 'class_weight[{number}]' must be a number that {dtype} has, got {weight}")
        if classes is not None:
            if int(number) >= classes:
                raise ValueError(f"'class_weight' must name classes of the model, 0 to {classes - 1}, got {number}")
            table[int(number)] = weight
    return table


def _class_numbers(label: Array, output: Shape) -> Array:
    found = f"labels of shape {label.shape} for outputs of shape {output}"
    if len(output) == 2:
        if label.ndim == 1 and label.dtype.kind in "iu":
            return label
        if label.shape[1:] == output[1:]:
            ones = label == 1
            if (ones | (label == 0)).all():
                numbers: Array = ones[:, 0].astype(np.intp) if output[1] == 1 else ones.argmax(axis=1)
                if output[1] == 1 or (ones.sum(axis=1) == 1).all():
                    return numbers
            found += " that are not " + ("0 and 1" if output[1] == 1 else "one-hot rows")
    raise ValueError(
        f"'class_weight' needs class numbers or one-hot rows as labels, one class for each sample, got {found}; "
        "'sample_weight' weighs any samples"
    )
