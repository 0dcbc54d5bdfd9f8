"""Parts of an array, and rows of a table by their numbers."""

import math
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any, ClassVar, TypeAlias

import numpy as np

from nn.arrays import BATCH, LENGTH, Array, Shape
from nn.operation.operation import Operation, batch_leads

Entry: TypeAlias = int | slice | EllipsisType | Sequence[int] | Array | None
"""Entry for one axis between the brackets of `a[...]`."""


class Index(Operation):
    """a[key] as in NumPy, for integers, slices, None, Ellipsis and one list or array of integers; the batch stays whole.

    An array of integers may name an element several times, and its gradients then add up; it stands with slices only: next to
    an integer NumPy would move its axes, so write `a[:, 0][:, [2, 1]]`. Raises TypeError or ValueError naming entry, axis and
    shape.
    """

    reads_inputs: ClassVar[bool] = False

    def __init__(self, key: Entry | tuple[Entry, ...]) -> None:
        entries = key if isinstance(key, tuple) else (key,)
        self._key = tuple(_checked(entry) for entry in entries)
        arrays = [entry for entry in self._key if isinstance(entry, np.ndarray)]
        if len(arrays) > 1 or (arrays and any(isinstance(entry, int) for entry in self._key)):
            raise ValueError(f"Index: an array of integers stands with slices only, got {key!r}; index in two steps")
        self._list: Array | None = arrays[0] if arrays else None

    def infer(self, *shapes: Shape) -> Shape:
        output: list[int] = []
        axis = 0
        for entry in self._full_key(shapes[0]):
            if entry is None:
                output.append(1)
                continue
            output += _lengths(entry, axis, shapes[0])
            axis += 1
        return tuple(output)

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return batch_leads(shapes[0]) and batch_leads(self.infer(*shapes))

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        key = self._full_key(shapes[0])
        # Slices alone give a view; the list is applied to it by `take`.
        self._view = tuple(slice(None) if isinstance(entry, np.ndarray) else entry for entry in key)
        self._axis, self._rows, self._unique = 0, np.zeros(0, np.intp), True
        self._part: Array | None = None
        if self._list is not None:
            place = next(place for place, entry in enumerate(key) if isinstance(entry, np.ndarray))
            self._axis = place
            length = shapes[0][place - key[:place].count(None)]
            # Negative numbers count from the end; after this `mode="clip"` changes none.
            self._rows = (self._list % length).astype(np.intp)
            # Known here, because the key is constant: the fast way of backward is right for distinct rows only.
            self._unique = np.unique(self._rows).size == self._rows.size
            part = (*output[:place], length, *output[place + self._rows.ndim :])
            cut = any(isinstance(entry, slice) and entry != slice(None) for entry in key)
            self._part = self.scratch.empty(part, dtype) if cut else None

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        view = inputs[0][self._view]
        if self._list is None:
            np.copyto(out, view)
        else:
            if self._part is not None:
                # take would make its own copy of what is not contiguous
                np.copyto(self._part, view)
                view = self._part
            # With mode="raise" NumPy would write to a buffer first; `infer` has checked the numbers.
            np.take(view, self._rows, axis=self._axis, out=out, mode="clip")

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        target = wanted[0]
        if target is None:
            return
        # Elements that the key leaves out have the gradient 0.
        target.fill(0)
        view = target[self._view]
        if self._list is None:
            np.copyto(view, gradient)
            return
        before = view.shape[: self._axis]
        rows = self._rows.reshape(-1)
        parts = gradient.reshape((*before, rows.size, *view.shape[self._axis + 1 :]))
        lead: tuple[Any, ...] = (slice(None),) * self._axis
        if self._unique:
            view[(*lead, rows)] = parts
            return
        # An assignment would keep only the last gradient of a row that is named several times.
        for place, row in enumerate(rows.tolist()):
            part = view[(*lead, slice(row, row + 1))]
            np.add(part, parts[(*lead, slice(place, place + 1))], out=part)

    def steps(self, shape: Shape) -> slice | None:
        """Return which steps of sequences (batch, time, ...) it leaves, as a slice; None where it changes batch or time."""
        key = self._full_key(shape)
        first, second = (*key, None, None)[:2]
        return second if first == slice(None) and isinstance(second, slice) else None

    def _full_key(self, shape: Shape) -> tuple[Any, ...]:
        """Return the key with one entry for each axis, besides None: axes that it leaves out are taken whole."""
        named = sum(entry is not None and entry is not Ellipsis for entry in self._key)
        dots = [place for place, entry in enumerate(self._key) if entry is Ellipsis]
        if named > len(shape):
            raise ValueError(f"Index: {named} indices for the {len(shape)} axes of shape {shape}")
        if len(dots) > 1:
            raise ValueError("Index: '...' may stand once")
        whole = (slice(None),) * (len(shape) - named)
        place = dots[0] if dots else len(self._key)
        return (*self._key[:place], *whole, *self._key[place + 1 :])


def _checked(entry: Entry) -> Any:
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return entry
    if isinstance(entry, (list, tuple, range, np.ndarray)):
        array = np.asarray(entry)
        if array.dtype.kind in "iu" and array.size:
            return array
    elif isinstance(entry, (int, np.integer)) and not isinstance(entry, bool):
        return int(entry)
    raise TypeError(f"Index: an index is an integer, a slice, None, '...' or a list of integers, got {entry!r}")


def _lengths(entry: Any, axis: int, shape: Shape) -> Sequence[int]:
    """Return the lengths that an entry leaves of an axis: none, its length, or the axes of a list of integers."""
    length = shape[axis]
    if isinstance(entry, slice) and entry == slice(None):
        return (length,)
    if length == BATCH:
        raise ValueError(f"Index: axis {axis} of shape {shape} is the batch, where only ':' may stand, got {entry!r}")
    if length == LENGTH:  # whether it is long enough shows when it is known
        return (length,) if isinstance(entry, slice) else tuple(np.shape(entry))
    if isinstance(entry, slice):
        found = len(range(*entry.indices(length)))
        if not found:
            raise ValueError(f"Index: {entry!r} leaves nothing of axis {axis} of shape {shape}")
        return (found,)
    for single in np.ravel(entry).tolist():
        if not -length <= single < length:
            raise ValueError(f"Index: {single} is out of range for axis {axis} of shape {shape}")
    return tuple(np.shape(entry))


def read_ids(owner: Callable[[], str], ids: Array, count: int, out: Array, work: tuple[Array, Array]) -> None:
    """Write ids, which are numbers of the type of a model, as integers.

    Args:
        owner: returns the name in front of an error.
        ids: the ids, of any shape.
        count: the first number beyond them.
        out: memory for the integers, of the shape of `ids`.
        work: memory of the type of `ids`, and of booleans.

    Raises:
        ValueError: for an id that is no whole number, or not from 0 to `count` - 1.
    """
    whole, equal = work
    np.rint(ids, out=whole)
    # NaN fails this comparison as well
    if whole.size and not (whole.min() >= 0 and whole.max() < count):
        wrong = ids[~((whole >= 0) & (whole < count))]
        raise ValueError(f"{owner()}: ids must be from 0 to {count - 1}, got {wrong[0]:g}")
    np.equal(ids, whole, out=equal)
    if not equal.all():
        raise ValueError(f"{owner()}: ids must be whole numbers, got {ids[~equal][0]!s}")
    # Whole and within bounds, as checked above, so the cast loses nothing.
    np.copyto(out, whole, casting="unsafe")


class Lookup(Operation):
    """table[ids]: ids (batch, ...) and table (rows, features) give (batch, ..., features). Ids have no gradient.

    Raises ValueError for ids that are no whole numbers or no rows of the table, and for a table with more rows than the type
    tells apart, 2**24 for float32; the text of `describe`, by default the name of the operation, stands in front.
    """

    reads_inputs: ClassVar[bool] = False
    bounds: ClassVar[tuple[float, float] | None] = (-math.inf, math.inf)

    def __init__(self, describe: Callable[[], str] | None = None) -> None:
        self._describe = describe

    def infer(self, *shapes: Shape) -> Shape:
        ids, table = shapes
        if len(table) != 2 or BATCH in table:
            raise ValueError(f"{self._owner()}: a table must have the shape (rows, features), got {table}")
        return (*ids, table[1])

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return batch_leads(shapes[0])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._count, features = shapes[1]
        # up to here all whole numbers are numbers of the type
        limit = 1 << (np.finfo(dtype).nmant + 1)
        if self._count > limit:
            raise ValueError(f"{self._owner()}: {dtype} tells at most {limit} rows apart, the table has {self._count}")
        # Own memory: backward reads the rows, and the ids may have been overwritten by then.
        self._rows = self._lasting.empty(shapes[0], np.dtype(np.intp))
        self._whole = self.scratch.empty(shapes[0], dtype)
        self._equal = self.scratch.empty(shapes[0], np.dtype(bool))
        self._columns = np.arange(features, dtype=np.intp)
        self._places = self.scratch.empty(output, np.dtype(np.intp))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        ids, table = inputs
        read_ids(self._owner, ids, self._count, self._rows, (self._whole, self._equal))
        # Checked, so clipping changes nothing; mode="raise" would buffer the output.
        np.take(table, self._rows, axis=0, out=out, mode="clip")

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        for_ids, for_table = wanted
        if for_ids is not None:
            for_ids.fill(0)
        if for_table is not None:
            for_table.fill(0)
            np.multiply(self._rows[..., None], self._columns.size, out=self._places)
            np.add(self._places, self._columns, out=self._places)
            # one index per element: NumPy adds fast only along flat arrays
            np.add.at(for_table.reshape(-1), self._places.reshape(-1), gradient.reshape(-1))

    def _owner(self) -> str:
        return type(self).__name__ if self._describe is None else self._describe()
