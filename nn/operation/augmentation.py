"""Operations that change images by draws in training: mirrored, moved, cut, and with another contrast."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.operation import Mode, Operation, batch_leads
from nn.random import keyed
from nn.resampling import Interpolation

FillMode: TypeAlias = Literal["reflect", "wrap", "constant", "nearest"]
"""Pixels beyond an edge: mirrored at it, those of the other edge, one number, or those of the edge."""

Range: TypeAlias = tuple[float, float]

_CHUNK = 1 << 14  # pixels that are in hand at a time: their places and weights stay in cache


class Drawn(Operation):
    """Images (batch, height, width, channels) changed by draws that are keyed by seed, epoch, batch, block and place.

    Each sample has draws of its own, so that a block has the same images on any worker.
    """

    reads_inputs: ClassVar[bool] = False
    draws: ClassVar[int]
    """Numbers that are drawn for a sample, each uniform in [0, 1)."""

    def __init__(self) -> None:
        self._active = False

    def infer(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Return whether the batch leads; draws are those of the whole batch, so in training no plan makes use of it."""
        return batch_leads(shapes[0])

    def begin(self, mode: Mode, position: int) -> None:
        self._active = mode.training
        if self._active:
            seed, *counters = mode.key
            keyed(seed, "augmentation", *counters, position).random(out=self._drawn)
            self.settle(self._drawn)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        # Drawn in `begin`, before other operations run, and read by backward. In double precision for models of any type, which
        # then have the same images.
        self._drawn = self._lasting.empty((output[0], self.draws), np.dtype(np.float64))

    @abstractmethod
    def settle(self, drawn: Array) -> None:
        """Turn the draws `drawn`, (batch, draws), into what `change` and `undo` go by, in place."""

    @abstractmethod
    def change(self, x: Array, out: Array) -> None:
        """Write the changed images `x` into `out`."""

    @abstractmethod
    def undo(self, output: Array, gradient: Array, out: Array) -> None:
        """Write the gradient of the images into `out`.

        Args:
            output: result of `change`; its content counts only with `reads_output`.
            gradient: gradient of the loss for it.
            out: memory for that of the images.
        """

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        if self._active:
            self.change(inputs[0], out)
        else:
            np.copyto(out, inputs[0])

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        # Images at the begin of a model need no gradient, which is the common case.
        if wanted[0] is None:
            return
        if self._active:
            self.undo(output, gradient, wanted[0])
        else:
            np.copyto(wanted[0], gradient)


class Flip(Drawn):
    """Images mirrored along each of the axes, 1 for the height and 2 for the width, with probability 1/2."""

    draws: ClassVar[int] = 2

    def __init__(self, axes: Sequence[int]) -> None:
        super().__init__()
        self.axes = tuple(axes)

    def settle(self, drawn: Array) -> None:
        np.less(drawn, 0.5, out=drawn)

    def change(self, x: Array, out: Array) -> None:
        # One by one: an index of all mirrored samples would copy them to new memory.
        for image, target, mirrored in zip(x, out, self._drawn, strict=True):
            steps = [slice(None, None, -1 if axis in self.axes and mirrored[axis - 1] else 1) for axis in (1, 2)]
            np.copyto(target, image[tuple(steps)])

    def undo(self, output: Array, gradient: Array, out: Array) -> None:
        # Mirrored twice, an image is what it was.
        self.change(gradient, out)


class Moves(NamedTuple):
    """Bounds of the uniform draws of `Affine`.

    Args:
        angle: of the rotation, in radians, from the x axis to the y axis.
        height: factor of distances from the centre, along the height; above 1 the image gets smaller.
        width: that along the width; None: that of the height, draw by draw.
        down: shift of the image as a share of its height.
        right: shift of the image as a share of its width.
    """

    angle: Range = (0.0, 0.0)
    height: Range = (1.0, 1.0)
    width: Range | None = None
    down: Range = (0.0, 0.0)
    right: Range = (0.0, 0.0)


class Affine(Drawn):
    """Images rotated and zoomed about their centre, and shifted, by draws within bounds.

    Args:
        moves: the bounds.
        interpolation: 'bilinear' mixes the four pixels around a place by their distance, 'nearest' takes the nearest one.
        fill_mode: pixels beyond the edges: 'reflect' (d c b a | a b c d | d c b a), 'wrap' (a b c d | a b c d | a b c d),
            'nearest' (a a a a | a b c d | d d d d), or 'constant', the number `fill_value`.
        fill_value: that number.
    """

    draws: ClassVar[int] = 5

    def __init__(self, moves: Moves, interpolation: Interpolation, fill_mode: FillMode, fill_value: float) -> None:
        super().__init__()
        self.moves, self.interpolation, self.fill_mode, self.fill_value = moves, interpolation, fill_mode, fill_value

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        batch, height, width, channels = output
        self._rows, self._columns = np.arange(height)[:, None], np.arange(width)
        self._matrices = self._lasting.empty((batch, 6), np.dtype(np.float64))
        self._samples = min(batch, max(_CHUNK // (height * width), 1))
        part = (self._samples, height, width)
        double, whole = np.dtype(np.float64), np.dtype(np.intp)
        self._y, self._x, self._term = (self.scratch.empty(part, double) for _ in range(3))
        self._low_y, self._low_x, self._place, self._mirror = (self.scratch.empty(part, whole) for _ in range(4))
        self._weight = self.scratch.empty(part, dtype)
        self._inside, self._other = (self.scratch.empty(part, np.dtype(bool)) for _ in range(2))
        self._pixels = self.scratch.empty((*part, channels), dtype)
        self._places = self.scratch.empty((*part, channels), whole)
        self._first = np.arange(self._samples)[:, None, None] * (height * width)
        self._channels = np.arange(channels)

    def settle(self, drawn: Array) -> None:
        moves, (height, width) = self.moves, (len(self._rows), len(self._columns))
        bounds = (moves.angle, moves.height, moves.width or moves.height, moves.down, moves.right)
        # With the same draw for both axes the image keeps its proportions.
        picked = (0, 1, 1 if moves.width is None else 2, 3, 4)
        angle, tall, wide, down, right = (
            low + (high - low) * drawn[:, column] for (low, high), column in zip(bounds, picked, strict=True)
        )
        cosine, sine = np.cos(angle), np.sin(angle)
        middle_x, middle_y = (width - 1) / 2, (height - 1) / 2
        # From a place of the result, x then y, to the place in the image that it shows.
        of_x, of_y = (wide * cosine, -wide * sine), (tall * sine, tall * cosine)
        self._matrices[:, 0], self._matrices[:, 1] = of_x
        self._matrices[:, 2] = middle_x - middle_x * of_x[0] - middle_y * of_x[1] - right * width
        self._matrices[:, 3], self._matrices[:, 4] = of_y
        self._matrices[:, 5] = middle_y - middle_x * of_y[0] - middle_y * of_y[1] - down * height

    def change(self, x: Array, out: Array) -> None:
        channels = x.shape[3]
        for begin in range(0, len(x), self._samples):
            rows = slice(begin, begin + self._samples)
            count = len(x[rows])
            source = x[rows].reshape(-1, channels)
            target, pixels, weight = out[rows], self._pixels[:count], self._weight[:count]
            target.fill(0)
            self._locate(rows, count)
            for corner in self._corners():
                self._weigh(corner, count)
                np.take(source, self._place[:count], axis=0, out=pixels, mode="clip")
                np.multiply(pixels, weight[..., None], out=pixels)
                np.add(target, pixels, out=target)
                if self.fill_mode == "constant" and self.fill_value:
                    # The weights of pixels beyond the edge, which `_weigh` has left in the place of theirs.
                    np.multiply(self._term[:count], self.fill_value, out=weight)
                    np.add(target, weight[..., None], out=target)

    def undo(self, output: Array, gradient: Array, out: Array) -> None:
        channels = out.shape[3]
        out.fill(0)
        for begin in range(0, len(out), self._samples):
            rows = slice(begin, begin + self._samples)
            count = len(out[rows])
            target, pixels, places = out[rows].reshape(-1), self._pixels[:count], self._places[:count]
            self._locate(rows, count)
            for corner in self._corners():
                self._weigh(corner, count)
                np.multiply(gradient[rows], self._weight[:count, ..., None], out=pixels)
                # One index per element: NumPy adds fast only along flat arrays.
                np.multiply(self._place[:count, ..., None], channels, out=places)
                np.add(places, self._channels, out=places)
                np.add.at(target, places.reshape(-1), pixels.reshape(-1))

    def _corners(self) -> tuple[tuple[int, int], ...]:
        """Return which pixels around a place count, as steps down and right from the one above and left of it."""
        return ((0, 0),) if self.interpolation == "nearest" else ((0, 0), (0, 1), (1, 0), (1, 1))

    def _locate(self, rows: slice, count: int) -> None:
        """Find the places of some samples: whole parts in `_low_y` and `_low_x`, the rest in `_y` and `_x`."""
        numbers = self._matrices[rows].T[..., None, None]
        term = self._term[:count]
        pairs = ((self._x, self._low_x, numbers[:3]), (self._y, self._low_y, numbers[3:]))
        for exact, low, (by_column, by_row, shift) in pairs:
            place = exact[:count]
            np.multiply(by_column, self._columns, out=place)
            np.multiply(by_row, self._rows, out=term)
            np.add(place, term, out=place)
            np.add(place, shift, out=place)
            if self.interpolation == "nearest":
                np.add(place, 0.5, out=place)
            np.floor(place, out=term)
            np.copyto(low[:count], term, casting="unsafe")
            np.subtract(place, term, out=place)

    def _weigh(self, corner: tuple[int, int], count: int) -> None:
        """Write number and weight of one of the pixels around each place into `_place` and `_weight`.

        Args:
            corner: which of them, as steps down and right.
            count: number of samples.
        """
        term, inside = self._term[:count], self._inside[:count]
        down, right = corner
        if self.interpolation == "nearest":
            term.fill(1)
        else:
            shares = self._y[:count], self._x[:count]
            weight = self._weight[:count]
            for share, other_side, out in ((shares[0], down, term), (shares[1], right, weight)):
                np.copyto(out, share)
                if not other_side:
                    np.subtract(1, out, out=out)
            np.multiply(term, weight, out=term)
        inside.fill(True)
        place, mirror = self._place[:count], self._mirror[:count]
        self._within(self._low_y[:count], down, len(self._rows), place)
        self._within(self._low_x[:count], right, len(self._columns), mirror)
        np.multiply(place, len(self._columns), out=place)
        np.add(place, mirror, out=place)
        np.add(place, self._first[:count], out=place)
        np.multiply(term, inside, out=self._weight[:count])
        if self.fill_mode == "constant":
            np.logical_not(inside, out=inside)
            np.multiply(term, inside, out=term)

    def _within(self, low: Array, step: int, length: int, out: Array) -> None:
        """Write pixels of an axis into `out`, those beyond its edges as the fill mode says.

        Args:
            low: numbers of pixels, which may lie beyond the edges.
            step: added to them.
            length: of the axis.
            out: memory for numbers from 0 to `length` - 1.
        """
        np.add(low, step, out=out)
        if self.fill_mode == "wrap":
            np.remainder(out, length, out=out)
        elif self.fill_mode == "reflect":
            # One period is the axis and its mirror image; the nearer one of a number and its counterpart lies on the axis.
            np.remainder(out, 2 * length, out=out)
            other = self._places.reshape(-1)[: out.size].reshape(out.shape)
            np.subtract(2 * length - 1, out, out=other)
            np.minimum(out, other, out=out)
        else:
            if self.fill_mode == "constant":
                inside, within = self._inside[: len(out)], self._other[: len(out)]
                for limit, compare in ((0, np.greater_equal), (length, np.less)):
                    compare(out, limit, out=within)
                    np.logical_and(inside, within, out=inside)
            np.clip(out, 0, length - 1, out=out)


class Crop(Drawn):
    """A part (height, width) of each image: at a place that is drawn in training, from the middle otherwise."""

    draws: ClassVar[int] = 2

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.height, self.width = height, width

    def infer(self, *shapes: Shape) -> Shape:
        batch, height, width, channels = shapes[0]
        if height < self.height or width < self.width:
            raise ValueError(f"Crop: a part of {self.height} x {self.width} needs larger images, got shape {shapes[0]}")
        return (batch, self.height, self.width, channels)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        self._spare = [shapes[0][axis] - output[axis] for axis in (1, 2)]

    def settle(self, drawn: Array) -> None:
        # From 0 to what is spare, each as likely as any other.
        np.multiply(drawn, [spare + 1 for spare in self._spare], out=drawn)
        np.floor(drawn, out=drawn)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        if self._active:
            self.change(inputs[0], out)
        else:
            np.copyto(out, inputs[0][self._window(*(spare // 2 for spare in self._spare), lead=True)])

    def change(self, x: Array, out: Array) -> None:
        for image, target, (top, left) in zip(x, out, self._drawn, strict=True):
            np.copyto(target, image[self._window(int(top), int(left))])

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        if wanted[0] is not None:
            self.undo(output, gradient, wanted[0])

    def undo(self, output: Array, gradient: Array, out: Array) -> None:
        out.fill(0)
        if not self._active:
            np.copyto(out[self._window(*(spare // 2 for spare in self._spare), lead=True)], gradient)
            return
        for target, part, (top, left) in zip(out, gradient, self._drawn, strict=True):
            np.copyto(target[self._window(int(top), int(left))], part)

    def _window(self, top: int, left: int, *, lead: bool = False) -> tuple[slice, ...]:
        """Return the index of a part of an image, with `lead` of all images of a batch."""
        place = (slice(top, top + self.height), slice(left, left + self.width))
        return (slice(None), *place) if lead else place


class Contrast(Drawn):
    """Images of which the distance of each pixel from the mean of its channel is multiplied by one draw for each image.

    Args:
        factors: bounds of the factor.
        limits: least and greatest value of a pixel, to which results are clipped.
    """

    draws: ClassVar[int] = 1
    reads_output: ClassVar[bool] = True

    def __init__(self, factors: Range, limits: Range) -> None:
        super().__init__()
        self.factors, self.limits = factors, limits

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        self._factor, self._rest = (self._lasting.empty((output[0], 1, 1, 1), dtype) for _ in range(2))
        self._mean = self.scratch.empty((output[0], 1, 1, output[3]), dtype)
        self._inside, self._other = (self.scratch.empty(output, np.dtype(bool)) for _ in range(2))

    def settle(self, drawn: Array) -> None:
        low, high = self.factors
        np.multiply(drawn, high - low, out=drawn)
        np.add(drawn, low, out=self._factor[..., 0, 0])
        np.subtract(1, self._factor, out=self._rest)

    def change(self, x: Array, out: Array) -> None:
        np.mean(x, axis=(1, 2), keepdims=True, out=self._mean)
        np.subtract(x, self._mean, out=out)
        np.multiply(out, self._factor, out=out)
        np.add(out, self._mean, out=out)
        np.clip(out, *self.limits, out=out)

    def undo(self, output: Array, gradient: Array, out: Array) -> None:
        low, high = self.limits
        # What was clipped does not depend on the image.
        np.greater(output, low, out=self._inside)
        np.less(output, high, out=self._other)
        np.logical_and(self._inside, self._other, out=self._inside)
        np.multiply(gradient, self._inside, out=out)
        np.mean(out, axis=(1, 2), keepdims=True, out=self._mean)
        np.multiply(out, self._factor, out=out)
        # The mean of the channel goes into each pixel with what the factor leaves of it.
        np.multiply(self._mean, self._rest, out=self._mean)
        np.add(out, self._mean, out=out)
