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


class _Axis(NamedTuple):
    """Pixels along one axis that lie around each place, of samples that are in hand.

    Args:
        table: distance in memory of each pixel from the first one; of a mirrored axis, of the pixels of a whole period.
        length: number of pixels of the axis.
        steps: distances of the pixels below and above each place, (samples, height, width) each.
        shares: their shares in the value at the place.
    """

    table: Array
    length: int
    steps: tuple[Array, Array]
    shares: tuple[Array, Array]


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
        part, whole = (self._samples, height, width), np.dtype(np.intp)

        def axis(length: int, step: int) -> _Axis:
            steps = self.scratch.empty(part, whole), self.scratch.empty(part, whole)
            shares = self.scratch.empty(part, dtype), self.scratch.empty(part, dtype)
            pixels = np.arange(length) * step
            # Beyond the edge the axis goes on backwards, until it has come to its begin.
            table = np.concatenate([pixels, pixels[::-1]]) if self.fill_mode == "reflect" else pixels
            return _Axis(table, length, steps, shares)

        self._axes = axis(height, width), axis(width, 1)
        self._first = np.arange(self._samples)[:, None, None] * (height * width)
        self._low, self._place = self.scratch.empty(part, whole), self.scratch.empty(part, whole)
        self._inside = self.scratch.empty(part, np.dtype(bool))
        self._whole, self._weight, self._work = (self.scratch.empty(part, dtype) for _ in range(3))
        # One channel behind the other: single numbers are gathered and added several times as fast as triples.
        self._source, self._made = (self.scratch.empty((channels, *part), dtype) for _ in range(2))

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
        for begin in range(0, len(x), self._samples):
            rows = slice(begin, begin + self._samples)
            count = len(x[rows])
            source, made = self._source[:, :count], self._made[:, :count]
            place, weight, work = (each[:count].reshape(-1) for each in (self._place, self._weight, self._work))
            np.copyto(source, x[rows].transpose(3, 0, 1, 2))
            self._locate(rows, count)
            for number, corner in enumerate(self._corners()):
                self._combine(corner, count)
                for pixels, channel in zip(source, made, strict=True):
                    target = channel.reshape(-1)
                    np.take(pixels.reshape(-1), place, out=work, mode="clip")
                    if number:
                        np.multiply(work, weight, out=work)
                        np.add(target, work, out=target)
                    else:
                        np.multiply(work, weight, out=target)
            if self.fill_mode == "constant" and self.fill_value:
                self._fill(made, count)
            self._return(made, out[rows])

    def undo(self, output: Array, gradient: Array, out: Array) -> None:
        for begin in range(0, len(out), self._samples):
            rows = slice(begin, begin + self._samples)
            count = len(out[rows])
            given, made = self._source[:, :count], self._made[:, :count]
            place, weight, work = (each[:count].reshape(-1) for each in (self._place, self._weight, self._work))
            np.copyto(given, gradient[rows].transpose(3, 0, 1, 2))
            made.fill(0)
            self._locate(rows, count)
            for corner in self._corners():
                self._combine(corner, count)
                for values, channel in zip(given, made, strict=True):
                    np.multiply(values.reshape(-1), weight, out=work)
                    # A pixel may be seen from several places.
                    np.add.at(channel.reshape(-1), place, work)
            self._return(made, out[rows])

    @staticmethod
    def _return(made: Array, out: Array) -> None:
        # Channel by channel: a transposed copy of all takes twice the time.
        for number, channel in enumerate(made):
            np.copyto(out[..., number], channel)

    def _corners(self) -> tuple[tuple[int, int], ...]:
        """Return which pixels around a place count, as numbers of those along both axes: 0 below it, 1 above it."""
        return ((0, 0),) if self.interpolation == "nearest" else ((0, 0), (0, 1), (1, 0), (1, 1))

    def _locate(self, rows: slice, count: int) -> None:
        """Find the pixels around the places of some samples, along each axis."""
        by_column, by_row, shift = self._matrices[rows].T.reshape(2, 3, count, 1, 1).swapaxes(0, 1)
        low, whole, inside = self._low[:count], self._whole[:count], self._inside[:count]
        # The axes stand as they lie in memory, matrices the other way round.
        for axis, number in zip(self._axes, (1, 0), strict=True):
            near, far = (each[:count] for each in axis.shares)
            np.add(by_column[number] * self._columns + shift[number], by_row[number] * self._rows, out=far)
            if self.interpolation == "nearest":
                np.add(far, 0.5, out=far)
            np.floor(far, out=whole)
            np.copyto(low, whole, casting="unsafe")
            if self.interpolation == "nearest":
                near.fill(1)
            else:
                np.subtract(far, whole, out=far)
                np.subtract(1, far, out=near)
            for at, share in enumerate((near, far)[: 1 if self.interpolation == "nearest" else 2]):
                np.add(low, at, out=low)
                if self.fill_mode == "constant":
                    # As numbers without a sign, those below 0 are the largest ones.
                    np.less(low.view(np.uintp), axis.length, out=inside)
                    np.multiply(share, inside, out=share)
                mode: Literal["wrap", "clip"] = "wrap" if self.fill_mode in ("reflect", "wrap") else "clip"
                np.take(axis.table, low, out=axis.steps[at][:count], mode=mode)

    def _combine(self, corner: tuple[int, int], count: int) -> None:
        """Write place in memory and weight of one of the pixels around each place of `count` samples."""
        tall, wide = self._axes
        place, (down, right) = self._place[:count], corner
        np.add(tall.steps[down][:count], wide.steps[right][:count], out=place)
        np.add(place, self._first[:count], out=place)
        np.multiply(tall.shares[down][:count], wide.shares[right][:count], out=self._weight[:count])

    def _fill(self, made: Array, count: int) -> None:
        """Add the number for pixels beyond the edges to `made`, with the weights that these have at `count` samples."""
        weight, work = self._weight[:count], self._work[:count]
        several = self.interpolation == "bilinear"
        for sums, axis in zip((weight, work), self._axes, strict=True):
            near, far = (each[:count] for each in axis.shares)
            np.add(near, far, out=sums) if several else np.copyto(sums, near)
        # All weights of a place add up to 1.
        np.multiply(weight, work, out=work)
        np.subtract(1, work, out=work)
        np.multiply(work, self.fill_value, out=work)
        np.add(made, work, out=made)


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
        batch, height, width, channels = output
        self._factor, self._rest = (self._lasting.empty((batch, 1, 1, 1), dtype) for _ in range(2))
        self._average = np.full((1, height * width), 1 / (height * width), dtype)
        self._mean = self.scratch.empty((batch, 1, channels), dtype)
        # Of a row of pixels: NumPy adds rows much faster than pixels of three numbers.
        self._shift = self.scratch.empty((batch, 1, width, channels), dtype)
        self._inside, self._other = (self.scratch.empty(output, np.dtype(bool)) for _ in range(2))

    def settle(self, drawn: Array) -> None:
        low, high = self.factors
        np.multiply(drawn, high - low, out=drawn)
        np.add(drawn, low, out=self._factor[..., 0, 0])
        np.subtract(1, self._factor, out=self._rest)

    def change(self, x: Array, out: Array) -> None:
        # (x - m) * f + m = x * f + m * (1 - f)
        self._spread(x, out)
        np.clip(out, *self.limits, out=out)

    def undo(self, output: Array, gradient: Array, out: Array) -> None:
        low, high = self.limits
        # What was clipped does not depend on the image.
        np.greater(output, low, out=self._inside)
        np.less(output, high, out=self._other)
        np.logical_and(self._inside, self._other, out=self._inside)
        np.multiply(gradient, self._inside, out=out)
        # The mean of a channel goes into each of its pixels, with the same weight into all.
        self._spread(out, out)

    def _spread(self, x: Array, out: Array) -> None:
        """Write x * f + m * (1 - f), of which m is the mean of a channel of a sample, into `out`, which may be x."""
        np.matmul(self._average, x.reshape(len(x), -1, x.shape[3]), out=self._mean)
        np.multiply(self._mean[:, None], self._rest, out=self._shift)
        np.multiply(x, self._factor, out=out)
        np.add(out, self._shift, out=out)
