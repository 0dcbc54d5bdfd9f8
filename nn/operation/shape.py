"""The same elements in another shape or order, repeated or with zeros around them, and arrays side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.arrays import BATCH, LENGTH, Array, Shape
from nn.operation.broadcasting import Summation
from nn.operation.operation import MaskOf, Operation, batch_leads


class Reshape(Operation):
    """The elements of a in row-major order, in another shape; one axis may be -1 and takes the rest.

    Raises ValueError where the elements do not fit. While the batch is unknown that is so where neither a sample is cut into
    whole rows of the new shape nor a row takes whole samples; else it shows when data arrive.
    """

    in_place: ClassVar[bool] = True
    aliases: ClassVar[bool] = True
    reads_inputs: ClassVar[bool] = False

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = arguments.shape("Reshape", "shape", shape, unknown=1)

    def infer(self, *shapes: Shape) -> Shape:
        known = math.prod(axis for axis in self.shape if axis != BATCH)
        # Steps of any number become rows: so many features as a step has are a whole row each.
        if LENGTH in shapes[0] and BATCH in self.shape and known == math.prod(n for n in shapes[0] if n not in (BATCH, LENGTH)):
            return self.shape
        if BATCH in shapes[0]:
            sample = math.prod(axis for axis in shapes[0] if axis != BATCH)
            # Either rows of the new shape divide a sample, or samples fill a row; then some batches fit.
            if known % sample and (sample % known or BATCH not in self.shape):
                raise ValueError(
                    f"Reshape: samples of {sample} elements, shape {shapes[0]}, do not fit into rows of {known} elements, "
                    f"shape {self.shape}"
                )
            return self.shape
        size = math.prod(shapes[0])
        if BATCH not in self.shape and known == size:
            return self.shape
        if BATCH not in self.shape or size % known:
            raise ValueError(f"Reshape: {size} elements of shape {shapes[0]} do not fit into shape {self.shape}")
        return tuple(size // known if axis == BATCH else axis for axis in self.shape)

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Return whether the batch stays the first axis and every sample keeps its elements."""
        shape = shapes[0]
        return batch_leads(shape) and batch_leads(self.shape) and math.prod(shape[1:]) == math.prod(self.shape[1:])

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Copy, unless the output already is the input's memory."""
        # A plan lets the output lie in the memory of the input, since `aliases` is set.
        if not np.may_share_memory(inputs[0], out):
            np.copyto(out, inputs[0].reshape(out.shape))

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Copy, unless the wanted gradient already is the output's."""
        if wanted[0] is not None and not np.may_share_memory(gradient, wanted[0]):
            np.copyto(wanted[0], gradient.reshape(wanted[0].shape))


class SplitSteps(Operation):
    """The rows of a as steps of sequences that are as long as those of b: (batch * time, ...), (batch, time, ...) give
    (batch, time, ...). Of b nothing but batch and time matter.

    Raises ValueError where the rows do not fit.
    """

    in_place: ClassVar[bool] = True
    aliases: ClassVar[bool] = True
    reads_inputs: ClassVar[bool] = False

    def infer(self, *shapes: Shape) -> Shape:
        (rows, *features), (batch, time) = shapes[0], shapes[1][:2]
        if BATCH not in (rows, batch) and rows != batch * time:
            raise ValueError(f"SplitSteps: {rows} rows of shape {shapes[0]} are not {batch} sequences of {time} steps")
        return (batch, time, *features)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Copy, unless the output already is the input's memory."""
        if not np.may_share_memory(inputs[0], out):
            np.copyto(out, inputs[0].reshape(out.shape))

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Copy, unless the wanted gradient already is the output's; zeros for b."""
        if wanted[1] is not None:
            wanted[1].fill(0)
        if wanted[0] is not None and not np.may_share_memory(gradient, wanted[0]):
            np.copyto(wanted[0], gradient.reshape(wanted[0].shape))


class Transpose(Operation):
    """The elements of a with its axes in another order: axis i of the output is axis `axes[i]` of a. Without axes, reversed.

    Raises ValueError where `axes` does not name every axis of a once.
    """

    reads_inputs: ClassVar[bool] = False

    def __init__(self, axes: Sequence[int] | None = None) -> None:
        self.axes = None if axes is None else tuple(axes)

    def infer(self, *shapes: Shape) -> Shape:
        return tuple(shapes[0][axis] for axis in self._order(shapes[0]))

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return batch_leads(shapes[0]) and self._order(shapes[0])[0] == 0

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.copyto(out, inputs[0].transpose(self._order(out.shape)))

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        if wanted[0] is not None:
            np.copyto(wanted[0].transpose(self._order(gradient.shape)), gradient)

    def _order(self, shape: Shape) -> tuple[int, ...]:
        rank = len(shape)
        if self.axes is None:
            return tuple(reversed(range(rank)))
        order = tuple(axis + rank if -rank <= axis < 0 else axis for axis in self.axes)
        if sorted(order) != list(range(rank)):
            raise ValueError(f"Transpose: 'axes' must name every axis of shape {shape} once, got {self.axes}")
        return order


class Concatenate(Operation):
    """Arrays joined along one axis, which is not the batch; their other axes are equal.

    Raises ValueError naming shapes that do not fit together or an axis that does not exist.
    """

    mask_of: ClassVar[MaskOf] = "all"
    reads_inputs: ClassVar[bool] = False

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def infer(self, *shapes: Shape) -> Shape:
        first = shapes[0]
        if not -len(first) <= self.axis < len(first):
            raise ValueError(f"Concatenate: axis {self.axis} does not exist in shape {first}")
        axis = self.axis % len(first)
        for shape in shapes:
            # Lengths on the joined axis may differ, all others not.
            if len(shape) != len(first) or shape[:axis] + shape[axis + 1 :] != first[:axis] + first[axis + 1 :]:
                raise ValueError(f"Concatenate: shapes {first} and {shape} differ on other axes than {axis}")
            if shape[axis] == BATCH:
                raise ValueError(f"Concatenate: axis {axis} of shape {shape} is the batch, which cannot grow")
        lengths = [shape[axis] for shape in shapes]
        return (*first[:axis], LENGTH if LENGTH in lengths else sum(lengths), *first[axis + 1 :])

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return all(batch_leads(shape) for shape in shapes)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        axis = self.axis % len(output)
        ends = np.cumsum([shape[axis] for shape in shapes]).tolist()
        starts = [0, *ends[:-1]]
        self._places = [(slice(None),) * axis + (slice(start, end),) for start, end in zip(starts, ends, strict=True)]

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        for array, part in zip(inputs, self._parts(out), strict=True):
            np.copyto(part, array)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        for target, part in zip(wanted, self._parts(gradient), strict=True):
            if target is not None:
                np.copyto(target, part)

    def _parts(self, whole: Array) -> Iterator[Array]:
        return (whole[place] for place in self._places)


class Pad(Operation):
    """a with zeros around it: `widths` are pairs of how many stand before and behind, for the axes after the batch.

    Axes without a pair get none. Raises ValueError where there are more pairs than axes.
    """

    reads_inputs: ClassVar[bool] = False

    def __init__(self, widths: Sequence[Sequence[int]]) -> None:
        self.widths = tuple((before, behind) for before, behind in widths)

    def infer(self, *shapes: Shape) -> Shape:
        (shape,) = shapes
        if len(self.widths) >= len(shape) or BATCH in shape[1:]:
            raise ValueError(
                f"Pad: expected inputs of at least {len(self.widths) + 1} axes, all but the batch known, got {shape}"
            )
        rest = shape[len(self.widths) + 1 :]
        grown = (
            length if length == LENGTH else length + sum(width) for length, width in zip(shape[1:], self.widths, strict=False)
        )
        return (shape[0], *grown, *rest)

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return batch_leads(shapes[0])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        places = [slice(before, before + n) for (before, _), n in zip(self.widths, shapes[0][1:], strict=False)]
        self._inside = (slice(None), *places)
        # Only the cells that `forward` must clear: the inside is overwritten anyway.
        self._borders = []
        for axis, (place, (before, behind)) in enumerate(zip(places, self.widths, strict=True), start=1):
            lead = self._inside[:axis]  # so that no corner is written twice
            self._borders += [(*lead, slice(place.start))] if before else []
            self._borders += [(*lead, slice(place.stop, None))] if behind else []

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        for border in self._borders:
            out[border].fill(0)
        np.copyto(out[self._inside], inputs[0])

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        if wanted[0] is not None:
            np.copyto(wanted[0], gradient[self._inside])


MANY = 8
"""Copies from which on one product adds them up faster than a call for each."""
LONG_ROW = 32
"""Numbers of a copy from which on that is so: one of fewer is a product too small for its call."""


class Repeat(Operation):
    """Each element of a several times, one beside the other: `times` of them along the axes after the batch.

    Axes without a number stay. The gradient of an element is the sum over its copies.
    """

    reads_inputs: ClassVar[bool] = False

    def __init__(self, times: Sequence[int]) -> None:
        self.times = tuple(times)

    def infer(self, *shapes: Shape) -> Shape:
        (shape,) = shapes
        if len(self.times) >= len(shape) or BATCH in shape[1:]:
            raise ValueError(
                f"Repeat: expected inputs of at least {len(self.times) + 1} axes, all but the batch known, got {shape}"
            )
        grown = (length if length == LENGTH else length * count for length, count in zip(shape[1:], self.times, strict=False))
        return (shape[0], *grown, *shape[len(self.times) + 1 :])

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return batch_leads(shapes[0])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        shape = shapes[0]
        pairs = zip(shape[1:], self.times, strict=False)
        # Each axis that is repeated becomes two, the elements and their copies, so that one broadcast writes them all.
        self._apart = (shape[0], *(length for pair in pairs for length in pair), *shape[len(self.times) + 1 :])
        self._spread = (slice(None), *(slice(None), None) * len(self.times))
        self._copies = [
            (slice(None), *(entry for number in numbers for entry in (slice(None), number)))
            for numbers in product(*map(range, self.times))
        ]
        # Copies along one axis lie one behind the other: a product with ones adds up many of them.
        repeated = [axis for axis, count in enumerate(self.times, start=1) if count > 1]
        self._sum: Summation | None = None
        if len(repeated) == 1 and len(self._copies) >= MANY and math.prod(shape[repeated[0] + 1 :]) >= LONG_ROW:
            self._sum = Summation(self._apart, [2 * repeated[0]], dtype, self.scratch)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.copyto(out.reshape(self._apart), inputs[0][self._spread])

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        target = wanted[0]
        if target is None:
            return
        parts, (first, *others) = gradient.reshape(self._apart), self._copies
        if self._sum is not None:
            self._sum(parts, target)
            return
        # The first copy overwrites, so that the target need not be cleared.
        np.copyto(target, parts[first])
        for place in others:
            np.add(target, parts[place], out=target)
