"""Places of a window along an axis: sizes, strides and padding, and their checks in the name of the layer that has them."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Literal, NamedTuple, TypeAlias

from nn import arguments
from nn.arrays import BATCH, LENGTH, Shape

Padding: TypeAlias = Literal["valid", "same", "causal"] | int
"""'valid' (none), 'same' (as much as makes ceil(length / stride) outputs), or a number of cells on either side; 'causal', of
sequences alone, as many in front as let no output depend on a later cell."""


class Window(NamedTuple):
    """A window of `size` cells moved by `stride` along an axis of `length` with `before` and `after` cells of padding.

    Its cells are `dilation` cells of the axis apart.
    """

    length: int
    size: int
    stride: int
    before: int
    after: int
    dilation: int = 1

    @property
    def span(self) -> int:
        """The number of cells from the first to the last one of the window."""
        return (self.size - 1) * self.dilation + 1

    @property
    def positions(self) -> int:
        """The number of positions; `LENGTH` along an axis of any length."""
        if self.length == LENGTH:
            return LENGTH
        return (self.length + self.before + self.after - self.span) // self.stride + 1

    def turned(self) -> Window:
        """Return the window that the gradient of the input moves over the output; its padding may be negative."""
        back = self.span - 1
        return Window(self.positions, self.size, 1, back - self.before, back - self.after, self.dilation)

    def reach(self, tap: int) -> tuple[slice, slice]:
        """Return the positions at which cell `tap` of the window lies in the axis, and the cells where it lies then."""
        offset = tap * self.dilation - self.before
        # The least position p with p * stride + offset >= 0, and one behind the greatest with a cell before the end.
        first = max(0, -(offset // self.stride))
        last = min(self.positions, (self.length - 1 - offset) // self.stride + 1)
        if last <= first:
            return slice(0, 0), slice(0, 0)
        start = first * self.stride + offset
        return slice(first, last), slice(start, start + (last - first - 1) * self.stride + 1, self.stride)


def place(
    owner: str,
    lengths: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    padding: Padding,
    dilations: Sequence[int] | None = None,
) -> list[Window]:
    """Return the window along each axis.

    'same' pads as TensorFlow does: if the cells to add are odd in number, the last one goes behind. Raises ValueError naming
    the axis where the window is larger than the padded axis.
    """
    found = []
    apart = dilations or (1,) * len(lengths)
    names = ("height", "width") if len(lengths) == 2 else ("time",)
    for axis, (length, size, stride, dilation) in enumerate(zip(lengths, sizes, strides, apart, strict=True)):
        span = (size - 1) * dilation + 1
        if length == LENGTH:
            found.append(Window(length, size, stride, 0, 0, dilation))
            continue
        if isinstance(padding, int):
            before = after = padding
        elif padding == "causal":
            # In front as many as the window reaches back from its last cell: output t sees cells up to t.
            before, after = span - 1, 0
        else:
            missing = max((-(-length // stride) - 1) * stride + span - length, 0) if padding == "same" else 0
            before, after = missing // 2, missing - missing // 2
        padded = length + before + after
        if padded < span:
            raise ValueError(
                f"{owner}: axis {axis + 1} ({names[axis]}) must have at least {span} cells for a window of {tuple(sizes)}"
                f"{f' with dilation {tuple(apart)}' if dilation > 1 else ''}, "
                f"got {padded} from inputs of {tuple(lengths)} with padding {padding!r}"
            )
        found.append(Window(length, size, stride, before, after, dilation))
    return found


def lengths(owner: object, name: str, value: int | Sequence[int], axes: int) -> tuple[int, ...]:
    """Return one positive integer for each axis, from a list or from a number for all; raise TypeError or ValueError."""
    # A string is a sequence, too.
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        return (arguments.integer(owner, name, value, minimum=1),) * axes
    found = arguments.shape(owner, name, value)
    if len(found) != axes:
        raise ValueError(f"{_name(owner)} '{name}' must be one positive integer or {axes} of them, got {value!r}")
    return found


def padding(owner: object, value: Padding, *, causal: bool = False) -> Padding:
    """Return 'valid', 'same', a number of cells or, where it is allowed, 'causal'; raise TypeError or ValueError otherwise."""
    words: tuple[Literal["valid", "same", "causal"], ...] = ("valid", "same", "causal") if causal else ("valid", "same")
    expected = f"{_name(owner)} 'padding' must be {', '.join(map(repr, words))} or an integer of at least 0, got {value!r}"
    if isinstance(value, str):
        for word in words:
            if word == value.lower():
                return word
        raise ValueError(expected)
    # True and False are integers to Python.
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(expected)
    if value < 0:
        raise ValueError(expected)
    return int(value)


def axes_of(owner: str, shape: Shape) -> int:
    """Return 2 for images (batch, height, width, channels), 1 for sequences (batch, time, channels); raise ValueError else."""
    if len(shape) not in (3, 4) or BATCH in shape[1:]:
        expected = "(batch, height, width, channels) or (batch, time, channels)"
        raise ValueError(f"{owner}: expected inputs of shape {expected}, all but the batch known, got {shape}")
    return len(shape) - 2


def _name(owner: object) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__
