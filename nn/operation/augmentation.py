"""Operations that change images by draws in training: mirrored, moved, cut, and with another contrast."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.broadcasting import ShortBuffer
from nn.operation.operation import Mode, Operation, batch_leads
from nn.random import keyed
from nn.resampling import Interpolation

FillMode: TypeAlias = Literal["reflect", "wrap", "constant", "nearest"]
"""Pixels beyond an edge: mirrored at it, those of the other edge, one number, or those of the edge."""

Range: TypeAlias = tuple[float, float]

_LINE = 2048
"""Numbers of a row that is added to many, at most, unless a row of pixels has more."""

_FEW = 3
"""Channels that are mirrored one by one, at most."""

MOST_MIXED = 256
"""Rows, and numbers of a row, of images whose axes are mixed by products: of larger ones fewer numbers are gathered."""

MOST_UNEQUAL = 4
"""How many times as many of the ones as of the others there may be: thin images, and many channels, are gathered faster."""

_CHUNK = 1 << 15  # pixels that are in hand at a time: their places and weights stay in cache


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
        """Turn the draws `drawn`, (batch, draws), into the numbers that `change` and `undo` go by, in place."""

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
        # Of few channels one after the other: NumPy goes along pixels then, not along the numbers of each.
        channels = range(x.shape[3]) if x.shape[3] <= _FEW else (slice(None),)
        # One by one: an index of all mirrored samples would copy them to new memory.
        for image, target, mirrored in zip(x, out, self._drawn.tolist(), strict=True):
            rows, columns = (slice(None, None, -1 if axis in self.axes and mirrored[axis - 1] else 1) for axis in (1, 2))
            if columns.step > 0:
                np.copyto(target, image[rows])
                continue
            for channel in channels:
                np.copyto(target[..., channel], image[rows, columns, channel])

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
        length: number of pixels of the axis.
        low: numbers of the pixels below each place, (samples, height, width).
        near: their shares in the value at the place.
        far: shares of the pixels above.
    """

    length: int
    low: Array
    near: Array
    far: Array


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
        batch, height, width, _ = output
        self._rows, self._columns = np.arange(height)[:, None], np.arange(width)
        self._matrices = self._lasting.empty((batch, 6), np.dtype(np.float64))
        self._samples = min(batch, max(_CHUNK // (height * width), 1))
        # Along a mirrored axis places are counted from the edge of the first pixel, else from its centre or that of the border.
        self._lead, self._origin = {"reflect": (0.5, 0), "wrap": (0.0, 1)}.get(self.fill_mode, (1.0, 0))
        # Without a turn the row of a place depends on the row of the result alone, and its column on the column.
        fewer, more = sorted((height, width * output[3]))
        self._apart = tuple(self.moves.angle) == (0, 0) and more <= min(MOST_MIXED, MOST_UNEQUAL * fewer)
        if self._apart:
            self._prepare_products(height, width, output[3], dtype)
        else:
            self._prepare_gathering(height, width, dtype)

    def _prepare_products(self, height: int, width: int, channels: int, dtype: np.dtype[Any]) -> None:
        some, lengths = self._samples, (height, width)
        tall, wide = (_Axis(length, *(self.scratch.empty((some, length), dtype) for _ in range(3))) for length in lengths)
        self._axes = tall, wide
        # For each pixel of the result a row of shares, with those of the border at both ends.
        self._shares = [self.scratch.empty((some, length, length + 2), dtype) for length in lengths]
        self._starts = [np.arange(some * length).reshape(some, length) * (length + 2) + self._origin for length in lengths]
        self._between = self.scratch.empty((some, height, width * channels), dtype)
        # A row of pixels has several numbers for each, which are mixed with those of their channel: the zeros between stay.
        self._across = np.zeros((some, width, channels, width, channels), dtype)

    def _prepare_gathering(self, height: int, width: int, dtype: np.dtype[Any]) -> None:
        part, line = (self._samples, height, width), width + 2
        # Places in an image are computed as numbers of this type, which has to hold them exactly.
        precise = dtype if (height + 2) * line < 1 << 24 else np.dtype(np.float64)
        tall, wide = (_Axis(length, *(self.scratch.empty(part, precise) for _ in range(3))) for length in (height, width))
        self._axes = tall, wide
        # One channel at a time: single numbers are gathered and added several times as fast as triples.
        self._source = self.scratch.empty((self._samples, height + 2, line), dtype)
        self._place = self.scratch.empty(part, np.dtype(np.intp))
        self._made, self._work = (self.scratch.empty(part, dtype) for _ in range(2))
        # The pixel below and to the left of each place, then those beside and above it: how much further on they are.
        steps, shares = (0, 1, line, line + 1), [(tall.near, wide.near), (tall.near, wide.far), (tall.far, wide.near)]
        self._corners = [
            (step, pair, self.scratch.empty(part, dtype))
            for step, pair in zip(steps, [*shares, (tall.far, wide.far)], strict=True)
        ]
        if self.interpolation == "nearest":
            del self._corners[1:]
        self._first = np.arange(self._samples)[:, None, None] * ((height + 2) * line) + self._origin * (line + 1)

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
            if self._apart:
                down, across = self._mix(rows, count)
                self._multiply(down, across, x[rows], out[rows])
                self._add_fill(out[rows])
                continue
            self._locate(rows, count)
            made, work, place = self._made[:count], self._work[:count], self._place[:count]
            source = self._source[:count]
            pixels: Array = source.reshape(-1)
            for channel in range(x.shape[3]):
                np.copyto(source[:, 1:-1, 1:-1], x[rows, ..., channel])
                self._surround(source)
                for number, (step, _, weight) in enumerate(self._corners):
                    # No place is beyond the last pixel; of the ways to make sure of that 'wrap' is the fastest.
                    np.take(pixels[step:], place, out=work if number else made, mode="wrap")
                    if self.interpolation == "bilinear":
                        np.multiply(work if number else made, weight[:count], out=work if number else made)
                    if number:
                        np.add(made, work, out=made)
                np.copyto(out[rows, ..., channel], made)

    def undo(self, output: Array, gradient: Array, out: Array) -> None:
        for begin in range(0, len(out), self._samples):
            rows = slice(begin, begin + self._samples)
            count = len(out[rows])
            if self._apart:
                down, across = self._mix(rows, count)
                self._multiply(down.swapaxes(1, 2), across.swapaxes(1, 2), gradient[rows], out[rows])
                continue
            self._locate(rows, count)
            given, work, place = self._made[:count], self._work[:count], self._place[:count].reshape(-1)
            source = self._source[:count]
            pixels: Array = source.reshape(-1)
            for channel in range(out.shape[3]):
                np.copyto(given, gradient[rows, ..., channel])
                source.fill(0)
                for step, _, weight in self._corners:
                    values = given
                    if self.interpolation == "bilinear":
                        values = np.multiply(given, weight[:count], out=work)
                    # A pixel may be seen from several places.
                    np.add.at(pixels[step:], place, values.reshape(-1))
                self._draw_in(source)
                np.copyto(out[rows, ..., channel], source[:, 1:-1, 1:-1])

    def _mix(self, rows: slice, count: int) -> tuple[Array, Array]:
        """Return, for some samples, the matrices that make rows of the result of rows of an image, and numbers of a row."""
        for number, (axis, shares, starts) in enumerate(zip(self._axes, self._shares, self._starts, strict=True)):
            low, near, far = (each[:count] for each in axis[1:])
            # The axes stand as they lie in memory, numbers of the width before those of the height.
            scale, shift = (self._matrices[rows, column, None] for column in ((4, 5), (0, 2))[number])
            np.copyto(far, scale * np.arange(axis.length) + (shift + self._centre), casting="same_kind")
            self._part(low, near, far, axis.length)
            mixed, places = shares[:count], low.astype(np.intp) + starts[:count]
            mixed.fill(0)
            numbers: Array = shares.reshape(-1)
            if self.interpolation == "nearest":
                numbers[places] = 1
            else:
                numbers[places], numbers[places + 1] = near, far
            if self.fill_mode != "constant":
                first, last = (-2, 1) if self.fill_mode == "wrap" else (1, -2)
                for border, inside in ((0, first), (-1, last)):
                    np.add(mixed[..., inside], mixed[..., border], out=mixed[..., inside])
        tall, wide = (shares[:count, :, 1:-1] for shares in self._shares)
        across = self._across[:count]
        for channel in range(across.shape[2]):
            np.copyto(across[:, :, channel, :, channel], wide.swapaxes(1, 2))
        size = across.shape[1] * across.shape[2]
        return tall, across.reshape(count, size, size)

    def _multiply(self, down: Array, across: Array, images: Array, out: Array) -> None:
        """Write images of which rows and columns are mixed by the matrices."""
        between = self._between[: len(images)]
        np.matmul(down, images.reshape(between.shape), out=between)
        np.matmul(between, across, out=out.reshape(between.shape))

    def _add_fill(self, images: Array) -> None:
        """Add, to images that were mixed, the number beyond the edges with the share that pixels of the image leave to it."""
        if self.fill_mode == "constant" and self.fill_value:
            tall, wide = (shares[: len(images), :, 1:-1].sum(axis=2) for shares in self._shares)
            rest = self.fill_value * (1 - tall[:, :, np.newaxis] * wide[:, np.newaxis])
            np.add(images, rest[..., np.newaxis].astype(images.dtype), out=images)

    @property
    def _centre(self) -> float:
        """Point that places are counted from; half a pixel more where they are rounded down to the nearest one."""
        return 0.5 if self.interpolation == "nearest" else self._lead

    def _locate(self, rows: slice, count: int) -> None:
        """Find the pixels around the places of some samples, and their weights."""
        by_column, by_row, shift = self._matrices[rows].T.reshape(2, 3, count, 1, 1).swapaxes(0, 1)
        rounds = self.interpolation == "nearest"
        # The axes stand as they lie in memory, matrices the other way round.
        for axis, number in zip(self._axes, (1, 0), strict=True):
            low, near, far = (each[:count] for each in axis[1:])
            across = by_column[number] * self._columns + (shift[number] + self._centre)
            np.add(across.astype(far.dtype), (by_row[number] * self._rows).astype(far.dtype), out=far)
            self._part(low, near, far, axis.length)
        if not rounds:
            for _, (down, right), weight in self._corners:
                np.multiply(down[:count], right[:count], out=weight[:count])
        (tall, wide), place = (axis.low[:count] for axis in self._axes), self._place[:count]
        np.multiply(tall, self._source.shape[2], out=tall)
        np.add(tall, wide, out=tall)
        np.copyto(place, tall, casting="unsafe")
        np.add(place, self._first[:count], out=place)

    def _part(self, low: Array, near: Array, far: Array, length: int) -> None:
        """Part the places in `far` along an axis of so many pixels into the pixels below them and the shares of both."""
        rounds = self.interpolation == "nearest"
        if rounds:
            np.floor(far, out=far)
            np.add(far, self._lead, out=far)
        self._fold(far, low, length)
        np.floor(far, out=low)
        if not rounds:
            if self.fill_mode == "constant":
                # The last pixel of the border has none above it.
                np.minimum(low, length, out=low)
            elif self.fill_mode == "wrap":
                # The rounded quotient may leave a place at the whole length, where no pixel of the image begins.
                np.minimum(low, length - 1, out=low)
            np.subtract(far, low, out=far)
            np.subtract(1, far, out=near)

    def _fold(self, places: Array, work: Array, length: int) -> None:
        """Bring places along an axis of so many pixels to those between the outermost pixels, or the border around these."""
        if self.fill_mode == "constant":
            np.clip(places, 0, length + 1, out=places)
        elif self.fill_mode == "nearest":
            np.clip(places, 1, length, out=places)
        else:
            # Mirrored pixels return after twice the length: there and back again.
            period = length if self.fill_mode == "wrap" else 2 * length
            np.multiply(places, 1 / period, out=work)
            if self.fill_mode == "wrap":
                np.floor(work, out=work)
            else:
                np.rint(work, out=work)
            np.multiply(work, period, out=work)
            np.subtract(places, work, out=places)
            if self.fill_mode == "reflect":
                # Now from minus to plus the length, with the edge of the first pixel at 0.
                np.abs(places, out=places)
                # Counted from the border's first pixel again, whose centre lies half a pixel before that edge.
                np.add(places, 0.5, out=places)

    def _surround(self, images: Array) -> None:
        """Write the pixels beyond the edges, one on every side, into images (samples, height + 2, width + 2)."""
        if self.fill_mode == "constant":
            for side in (images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1]):
                side.fill(self.fill_value)
            return
        for border, inside in self._borders():
            np.copyto(images[border], images[inside])

    def _draw_in(self, images: Array) -> None:
        """Add the gradients of the pixels beyond the edges to those of the pixels that they repeat."""
        if self.fill_mode == "constant":
            return
        for border, inside in reversed(self._borders()):
            np.add(images[inside], images[border], out=images[inside])

    def _borders(self) -> list[tuple[tuple[slice | int, ...], tuple[slice | int, ...]]]:
        """Return each part of the border, and the pixels that are repeated there: rows last, which hold the corners."""
        first, last = (-2, 1) if self.fill_mode == "wrap" else (1, -2)
        whole, middle = slice(None), slice(1, -1)
        return [
            ((whole, middle, 0), (whole, middle, first)),
            ((whole, middle, -1), (whole, middle, last)),
            ((whole, 0), (whole, first)),
            ((whole, -1), (whole, last)),
        ]


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
        some = min(batch, max(1, _CHUNK // (height * width)))
        self._parts = [slice(first, min(first + some, batch)) for first in range(0, batch, some)]
        # Of several rows of pixels: NumPy adds long rows much faster than short ones, or pixels of three numbers.
        row = width * channels
        together = max(each for each in range(1, max(1, _LINE // row) + 1) if height % each == 0)
        self._average = np.full((1, height), 1 / (height * width), dtype)
        # Products with these add up the pixels of a row, and repeat a pixel along several.
        self._fold = np.tile(np.eye(channels, dtype=dtype), (width, 1))
        self._tile = np.tile(np.eye(channels, dtype=dtype), (1, together * width))
        self._row, self._mean = self.scratch.empty((some, row), dtype), self.scratch.empty((some, channels), dtype)
        self._shift = self.scratch.empty((some, together * row), dtype)
        self._inside, self._other = (self.scratch.empty((some, *output[1:]), np.dtype(bool)) for _ in range(2))
        self._buffer = ShortBuffer(together * row, some * height * row)

    def settle(self, drawn: Array) -> None:
        low, high = self.factors
        np.multiply(drawn, high - low, out=drawn)
        np.add(drawn, low, out=self._factor[..., 0, 0])
        np.subtract(1, self._factor, out=self._rest)

    def change(self, x: Array, out: Array) -> None:
        # (x - m) * f + m = x * f + m * (1 - f)
        for part in self._parts:
            self._spread(x[part], part, out[part])
            np.clip(out[part], *self.limits, out=out[part])

    def undo(self, output: Array, gradient: Array, out: Array) -> None:
        low, high = self.limits
        for part in self._parts:
            made, target = output[part], out[part]
            inside, other = self._inside[: len(made)], self._other[: len(made)]
            # What was clipped does not depend on the image.
            np.greater(made, low, out=inside)
            np.less(made, high, out=other)
            np.logical_and(inside, other, out=inside)
            np.multiply(gradient[part], inside, out=target)
            # The mean of a channel goes into each of its pixels, with the same weight into all.
            self._spread(target, part, target)

    def _spread(self, x: Array, part: slice, out: Array) -> None:
        """Write x * f + m * (1 - f), of which m is the mean of a channel of a sample, into `out`, which may be x.

        Args:
            x: images of a part of the batch.
            part: which part.
            out: memory for these images.
        """
        row, shift, mean = self._row[: len(x)], self._shift[: len(x)], self._mean[: len(x)]
        # Over the height first: products with matrices of three columns are slow.
        np.matmul(self._average, x.reshape(len(x), x.shape[1], -1), out=row[:, None])
        np.matmul(row, self._fold, out=mean)
        np.multiply(mean, self._rest[part, 0, 0], out=mean)
        np.matmul(mean, self._tile, out=shift)
        lines = out.reshape(len(x), -1, shift.shape[1])
        with self._buffer:
            np.multiply(x, self._factor[part], out=out)
            np.add(lines, shift[:, None], out=lines)
