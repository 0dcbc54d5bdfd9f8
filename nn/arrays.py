"""The array and shape types that every part of `nn` speaks, aligned memory, and the work space that operations share."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BATCH",
    "LENGTH",
    "Array",
    "Block",
    "DType",
    "MaybeNone",
    "OwnMemory",
    "Scratch",
    "Shape",
    "all_finite",
    "as_array",
    "as_dtype",
    "empty",
    "fits",
    "is_rows",
    "plain",
    "zeros",
]

Array: TypeAlias = NDArray[Any]
"""An array of NumPy, of any type."""
DType: TypeAlias = Literal["float32", "float64"] | str
"""The types that a model computes in."""
if TYPE_CHECKING:
    MaybeNone: TypeAlias = Any
else:
    # what is assigned to an attribute of a model is compared with its annotation
    MaybeNone = None
"""In a union in place of None, as in typeshed, for a value that is there after a call that the program itself makes: editors
complete the other types, and type checkers demand no test for None."""
Shape: TypeAlias = tuple[int, ...]
"""Lengths of axes; the batch is `BATCH`."""

BATCH = -1
"""Stands in a shape for the axis of a length that is known only when data arrives."""


class _Length(int):
    """Length of an axis besides the batch that is known only when data arrives, written None.

    As a number it compares and nothing more: an operation that computes with it needs a length that is known, and is refused
    with a sentence to which the layer adds its name.
    """

    def __repr__(self) -> str:
        return "None"

    def __reduce__(self) -> tuple[Any, ...]:
        return _Length, (int(self),)

    def _refuse(self, *others: object) -> Any:
        raise ValueError("expected inputs with lengths that are known, got None, a length that comes with the data")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _refuse
    __mod__ = __rmod__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __neg__ = _refuse


LENGTH = _Length(-2)
"""Stands in a shape for any other axis of a length that differs from batch to batch, such as the steps of sequences; None in
what programs write and read."""


def fits(shape: Shape, expected: Shape) -> bool:
    """Return whether the axes of samples, after the batch, are the expected ones.

    Args:
        shape: shape of the samples.
        expected: the shape that is expected; an axis may be `LENGTH`.
    """
    return len(shape) == len(expected) and all(
        found == axis or axis == LENGTH for found, axis in zip(shape[1:], expected[1:], strict=True)
    )


def plain(shape: Shape) -> list[int | None]:
    """Return a shape as files hold it, None for `LENGTH`."""
    return [None if axis == LENGTH else axis for axis in shape]


CACHE_LINE = 64
"""Bytes that a CPU fetches at once."""


def is_rows(value: object) -> bool:
    """Return whether `value` is rows of a table by column name: a DataFrame, dict, list of dicts, or a Series of one row."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(each, Mapping) for each in value)
    if isinstance(value, Mapping):
        return True
    # By their attributes, so that pandas is not imported for programs that do without.
    axes = getattr(value, "ndim", 0) if hasattr(value, "iloc") else 0
    # One row has the names of the columns as its index, a column has numbers.
    return axes == 2 or (axes == 1 and all(isinstance(name, str) for name in getattr(value, "index", ())))


def empty(shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Return an array that begins at a cache line, which makes vector instructions a tenth faster; not initialised.

    Args:
        shape: numbers of elements along the axes.
        dtype: type of the elements.
    """
    return _aligned(np.empty, shape, dtype)


def zeros(shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Return an array of zeros that begins at a cache line.

    Args:
        shape, dtype: as of `empty`.
    """
    return _aligned(np.zeros, shape, dtype)


def _aligned(allocate: Callable[..., Array], shape: Shape, dtype: np.dtype[Any]) -> Array:
    size = math.prod(shape) * dtype.itemsize
    memory = allocate(size + CACHE_LINE, np.uint8)
    # Up to the next cache line.
    start = -memory.ctypes.data % CACHE_LINE
    return memory[start : start + size].view(dtype).reshape(shape)


def as_array(what: str, value: Any) -> Array:
    """Return a value as an array.

    Args:
        what: begins the text of the error.
        value: an array, or lists or numbers, of which NumPy makes one.

    Raises ValueError for a masked array that masks numbers, and for lists of different lengths.
    """
    refuse_masked(what, value)
    try:
        return np.asarray(value)
    except ValueError as error:
        # One that has its own way to become an array has its own reasons, also within a list.
        if not isinstance(value, (list, tuple)) or (
            error.__traceback__ is not None and error.__traceback__.tb_next is not None
        ):
            raise
        # None: the sentence says all that NumPy does.
        raise ValueError(
            f"{what} must be an array, or lists of one length, got lists of several; nn.dataset.pad_sequences() makes one"
        ) from None


def refuse_masked(what: str, *values: Any) -> None:
    """Raise ValueError for masked arrays, or lists of them, that mask numbers: as arrays they would lose their mask."""
    masked = sys.modules.get("numpy.ma")
    if masked is None:  # then there is no masked array
        return
    for value in values:
        for part in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(part, masked.MaskedArray) and masked.is_masked(part):
                raise ValueError(
                    f"{what} must not be masked, got {masked.count_masked(part)} masked of {part.size} numbers: "
                    "fill them with filled(value), or leave their samples out"
                )


def holds_texts(array: Array) -> bool:
    """Return whether an array has texts, as those of pandas in an array of objects; looks at the first thousand."""
    return array.dtype.kind in "UT" or (array.dtype.kind == "O" and any(isinstance(each, str) for each in array.flat[:1000]))


def described_labels(label: Array) -> str:
    """Return a description of labels that are no numbers, with the transform that makes numbers of texts."""
    if holds_texts(label):
        numbers = "np.unique(labels, return_inverse=True) gives the classes and their numbers"
        return f"texts; {numbers}, labels.astype(float) numbers that were read as texts"
    return str(label.dtype)


def all_finite(array: Array) -> bool:
    """Return whether every element of `array` is finite."""
    # One pass without memory: NaN and infinity stay in a sum of squares, which may overflow without them, too. A product of the
    # BLAS never warns of that; `np.errstate` around it took a seventh of the prediction of one row.
    return math.isfinite(np.vdot(array, array)) or bool(np.isfinite(array).all())


def as_dtype(dtype: str | type[Any] | np.dtype[Any]) -> np.dtype[Any]:
    """Return the floating type a model computes in.

    Raises ValueError for any `dtype`, in each form that NumPy takes, but float32 and float64; TypeError for other objects.
    """
    try:
        # None is float64 to NumPy.
        found = None if dtype is None else np.dtype(dtype)
    except (TypeError, ValueError):
        found = None
    if found is None:
        raise TypeError(f"'dtype' must be float32 or float64, got {repr(dtype)[:80]}")
    if found not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"'dtype' must be float32 or float64, got {found}")
    return found


class Scratch(Protocol):
    """Source of memory that is used during one call of an operation."""

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return an array that begins at a cache line; its content means nothing at the beginning of a call.

        Args:
            shape: numbers of elements along the axes.
            dtype: type of the elements.
        """


class OwnMemory:
    """Scratch that shares nothing: each array has memory of its own."""

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return a new array.

        Args:
            shape: its shape.
            dtype: its type.
        """
        return empty(shape, dtype)


class Measure:
    """Scratch that finds out how much memory the operations need that share an arena."""

    def __init__(self) -> None:
        self._used = 0
        self.size = 0

    def begin(self) -> None:
        """Go on with another operation."""
        self._used = 0

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return an array that only counts towards `size`: the caller does not write to it, so it takes no memory."""
        # Rounded up for each array, as the arena does, so that every one begins at a cache line.
        self._used += _rounded(shape, dtype)
        self.size = max(self.size, self._used)
        return np.empty(shape, dtype)


LEAST_PIECE = 16 * 1024
"""Bytes of a piece of a `Block`, at least."""


class Block:
    """Memory of plans that run in turns: the arrays of one lie side by side, those of two overlap.

    It grows by pieces where a plan asks for more than all before it, so plans stay where they are. Each piece is a good part of
    the whole, so they are few, and all of them together take a small multiple of what the largest plan takes.
    """

    def __init__(self) -> None:
        self.pieces: list[Array] = []
        self._used: list[int] = []

    @property
    def size(self) -> int:
        """Bytes of all pieces."""
        return sum(piece.size for piece in self.pieces)

    def begin(self) -> None:
        """Go on with another plan."""
        self._used = [0] * len(self.pieces)

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return an array that begins at a cache line; its content lasts until another plan runs.

        Args:
            shape: numbers of elements along the axes.
            dtype: type of the elements.
        """
        size = _rounded(shape, dtype)
        for number, piece in enumerate(self.pieces):
            if self._used[number] + size <= piece.size:
                break
        else:
            # Never only what is asked for: the next longer sequence would find no room in any piece.
            number, piece = len(self.pieces), empty((max(size, self.size // 2, LEAST_PIECE),), np.dtype(np.uint8))
            self.pieces.append(piece)
            self._used.append(0)
        start = self._used[number]
        self._used[number] += size
        return piece[start : start + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


class Arena:
    """Memory dealt anew to every operation: the arrays of one lie side by side, those of two overlap."""

    def __init__(self, size: int, memory: Scratch | None = None) -> None:
        self._memory = (memory or OwnMemory()).empty((size,), np.dtype(np.uint8))
        self._used = 0

    def begin(self) -> None:
        """Go on with another operation."""
        self._used = 0

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return a part of the arena; raise MemoryError where it is used up, because `Measure` counted too few bytes."""
        start = self._used
        self._used += _rounded(shape, dtype)
        if self._used > self._memory.size:
            raise MemoryError(f"an operation asks for {self._used} bytes of work space, but {self._memory.size} were measured")
        return self._memory[start : start + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


def _rounded(shape: Shape, dtype: np.dtype[Any]) -> int:
    # Rounded up to whole cache lines.
    return -(-math.prod(shape) * dtype.itemsize // CACHE_LINE) * CACHE_LINE
