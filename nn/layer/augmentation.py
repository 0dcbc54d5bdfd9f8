"""Layers that change images at random in training, drawn anew in each step: mirrored, moved, cut, with another contrast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

from nn import arguments
from nn.arrays import BATCH, LENGTH
from nn.layer.layer import Layer, direct
from nn.operation.augmentation import Affine, Contrast, Crop, FillMode, Flip, Moves, Range
from nn.operation.operation import Operation
from nn.resampling import Interpolation
from nn.value.value import Value

Factor = float | Sequence[float]
"""Bounds of a draw: a number for both, or a pair."""


class _OfImages(Layer):
    """Common part of layers that change images (batch, height, width, channels)."""

    def _applied(self, x: Value, operation: Operation) -> Value:
        if len(x.shape) != 4 or BATCH in x.shape[1:] or LENGTH in x.shape:
            raise ValueError(f"expected images of shape (batch, height, width, channels), got {x.shape}")
        return direct(operation, x)

    def _bounds(
        self, name: str, given: Factor, low: float, high: float, *, open_low: bool = False
    ) -> float | tuple[float, ...]:
        """Return an argument of type `Factor` as plain numbers; raise TypeError or ValueError naming it.

        Args:
            name: name of the argument.
            given: the argument.
            low: least value of a bound.
            high: greatest value of a bound.
            open_low: whether `low` itself is refused.
        """
        if isinstance(given, (list, tuple)):
            if len(given) != 2:
                raise ValueError(f"{type(self).__name__} '{name}' must be a number or a pair of numbers, got {given!r}")
            return tuple(self._bound(name, each, low, high, open_low=open_low) for each in given)
        return self._bound(name, given, low, high, open_low=open_low)

    def _bound(self, name: str, given: object, low: float, high: float, *, open_low: bool) -> float:
        # `number` refuses its upper bound, which is allowed here.
        value = arguments.number(self, name, given)
        if not low <= value <= high or (open_low and value == low):
            kind, begin = type(self).__name__, f"above {low:g}" if open_low else f"from {low:g}"
            raise ValueError(f"{kind} '{name}' must be numbers {begin} to {high:g}, got {given!r}")
        return value


def _around(factor: float | tuple[float, ...], shift: float = 0.0, scale: float = 1.0) -> Range:
    """Return shift + scale * u for both bounds u, those of a number being itself to either side of 0."""
    # A pair may stand in either order, and of a number only its distance from 0 counts.
    low, high = sorted(factor) if isinstance(factor, tuple) else (-abs(factor), abs(factor))
    return shift + scale * low, shift + scale * high


class RandomFlip(_OfImages, configured=True):
    """Images mirrored at random in training; the identity otherwise.

    Each sample is mirrored along each axis of `mode` with probability 1/2. Draws are made anew in each step and keyed by seed,
    epoch, batch, block and the place of the layer, as those of `Dropout` are, so that a run can be repeated bit for bit, on any
    number of workers.

    Shapes: (batch, height, width, channels) to the same.

    Args:
        mode: 'horizontal' for left and right, 'vertical' for top and bottom, or 'horizontal_and_vertical'.
        name: name of the layer; default: its class and a number.

    Raises ValueError for another mode, and for inputs that are no images.

    >>> nn.layer.RandomFlip("horizontal")(nn.Placeholder([-1, 32, 32, 3])).shape
    (-1, 32, 32, 3)
    """

    def __init__(
        self,
        mode: Literal["horizontal_and_vertical", "horizontal", "vertical"] = "horizontal_and_vertical",
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.mode = arguments.one_of(self, "mode", mode, ("horizontal_and_vertical", "horizontal", "vertical"))

    def call(self, x: Value) -> Value:
        # A horizontal mirror exchanges left and right, so it turns the axis of the width.
        axes = {"vertical": [1], "horizontal": [2], "horizontal_and_vertical": [1, 2]}[self.mode]
        return self._applied(x, Flip(axes))


class _Moving(_OfImages):
    """Common part of layers that take the pixels of a result from other places of the image."""

    def __init__(self, fill_mode: FillMode, interpolation: Interpolation, fill_value: float, name: str | None) -> None:
        super().__init__(name)
        self.fill_mode = arguments.one_of(self, "fill_mode", fill_mode, get_args(FillMode))
        self.interpolation = arguments.one_of(self, "interpolation", interpolation, get_args(Interpolation))
        self.fill_value = arguments.number(self, "fill_value", fill_value)

    def _moved(self, x: Value, moves: Moves) -> Value:
        return self._applied(x, Affine(moves, self.interpolation, self.fill_mode, self.fill_value))


class RandomRotation(_Moving, configured=True):
    """Images rotated about their centre at random in training; the identity otherwise. Draws are keyed as in `RandomFlip`.

    Shapes: (batch, height, width, channels) to the same.

    Args:
        factor: bounds of the angle as shares of a whole turn, counter-clockwise where positive: 0.1 for 36 degrees to either
            side, or a pair such as (-0.1, 0.3), from -1 to 1.
        fill_mode: pixels beyond the edges: 'reflect' (d c b a | a b c d | d c b a), 'wrap' (a b c d | a b c d | a b c d),
            'nearest' (a a a a | a b c d | d d d d), or 'constant', the number `fill_value`.
        interpolation: 'bilinear' mixes the four pixels around a place, 'nearest' takes the nearest one.
        fill_value: the number of 'constant'.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for other arguments, and for inputs that are no images.

    >>> nn.layer.RandomRotation(0.1)(nn.Placeholder([-1, 32, 32, 3])).shape
    (-1, 32, 32, 3)
    """

    def __init__(
        self,
        factor: Factor,
        fill_mode: FillMode = "reflect",
        interpolation: Interpolation = "bilinear",
        fill_value: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(fill_mode, interpolation, fill_value, name)
        self.factor = self._bounds("factor", factor, -1, 1)

    def call(self, x: Value) -> Value:
        return self._moved(x, Moves(angle=_around(self.factor, scale=2 * math.pi)))


class RandomZoom(_Moving, configured=True):
    """Images made smaller or larger about their centre at random in training; the identity otherwise.

    Draws are keyed as in `RandomFlip`. Shapes: (batch, height, width, channels) to the same.

    Args:
        height_factor: bounds of the change along the height: 0.2 for 20 percent larger to 20 percent smaller, or a pair, above
            -1 to 1, of which positive numbers show more of what surrounds the image, as in Keras.
        width_factor: those along the width; default: the draw of the height, so that proportions stay.
        fill_mode: pixels beyond the edges, as in `RandomRotation`.
        interpolation: 'bilinear' or 'nearest'.
        fill_value: the number of the fill mode 'constant'.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for other arguments, and for inputs that are no images.

    >>> nn.layer.RandomZoom((-0.3, 0.0))(nn.Placeholder([-1, 32, 32, 3])).shape
    (-1, 32, 32, 3)
    """

    def __init__(
        self,
        height_factor: Factor,
        width_factor: Factor | None = None,
        fill_mode: FillMode = "reflect",
        interpolation: Interpolation = "bilinear",
        fill_value: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(fill_mode, interpolation, fill_value, name)
        self.height_factor = self._bounds("height_factor", height_factor, -1, 1, open_low=True)
        self.width_factor = None if width_factor is None else self._bounds("width_factor", width_factor, -1, 1, open_low=True)

    def call(self, x: Value) -> Value:
        width = None if self.width_factor is None else _around(self.width_factor, shift=1)
        # The factor is that of distances between pixels, so one above 1 shows more than the image.
        return self._moved(x, Moves(height=_around(self.height_factor, shift=1), width=width))


class RandomTranslation(_Moving, configured=True):
    """Images shifted at random in training; the identity otherwise. Draws are keyed as in `RandomFlip`.

    Shapes: (batch, height, width, channels) to the same.

    Args:
        height_factor: bounds of the shift down as shares of the height: a number for either side, or a pair, from -1 to 1.
        width_factor: those of the shift to the right as shares of the width.
        fill_mode: pixels beyond the edges, as in `RandomRotation`.
        interpolation: 'bilinear' or 'nearest'.
        fill_value: the number of the fill mode 'constant'.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for other arguments, and for inputs that are no images.

    >>> nn.layer.RandomTranslation(0.1, 0.1, "constant")(nn.Placeholder([-1, 32, 32, 3])).shape
    (-1, 32, 32, 3)
    """

    def __init__(
        self,
        height_factor: Factor,
        width_factor: Factor,
        fill_mode: FillMode = "reflect",
        interpolation: Interpolation = "bilinear",
        fill_value: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(fill_mode, interpolation, fill_value, name)
        self.height_factor = self._bounds("height_factor", height_factor, -1, 1)
        self.width_factor = self._bounds("width_factor", width_factor, -1, 1)

    def call(self, x: Value) -> Value:
        return self._moved(x, Moves(down=_around(self.height_factor), right=_around(self.width_factor)))


class RandomCrop(_OfImages, configured=True):
    """A part of each image, at a place that is drawn in training, from the middle otherwise.

    Draws are keyed as in `RandomFlip`. Shapes: (batch, height, width, channels) to (batch, `height`, `width`, channels).

    Args:
        height: rows of the part.
        width: columns of the part.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for other arguments, and for images that are smaller: `Resizing` in front makes them larger.

    >>> nn.layer.RandomCrop(28, 28)(nn.Placeholder([-1, 32, 32, 3])).shape
    (-1, 28, 28, 3)
    """

    def __init__(self, height: int, width: int, name: str | None = None) -> None:
        super().__init__(name)
        self.height = arguments.integer(self, "height", height, minimum=1)
        self.width = arguments.integer(self, "width", width, minimum=1)

    def call(self, x: Value) -> Value:
        return self._applied(x, Crop(self.height, self.width))


class RandomContrast(_OfImages, configured=True):
    """Images with more or less contrast, drawn in training; the identity otherwise. Draws are keyed as in `RandomFlip`.

    A pixel x of a channel with the mean m becomes (x - m) * f + m, clipped to `value_range`, with one factor f for each image.
    Shapes: (batch, height, width, channels) to the same.

    Args:
        factor: bounds of the factor f: 0.2 for 0.8 to 1.2, or a pair (lower, upper) for 1 - lower to 1 + upper, from 0 to 1.
        value_range: least and greatest value of a pixel: (0, 255), or (0, 1) for images that were divided by 255.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for other arguments, and for inputs that are no images.

    >>> nn.layer.RandomContrast(0.2, (0, 1))(nn.Placeholder([-1, 32, 32, 3])).shape
    (-1, 32, 32, 3)
    """

    def __init__(self, factor: Factor, value_range: Sequence[float] = (0, 255), name: str | None = None) -> None:
        super().__init__(name)
        # At most 1: beyond, the factor 1 - lower would be negative and exchange light and dark.
        self.factor = self._bounds("factor", factor, 0, 1)
        if not isinstance(value_range, (list, tuple)) or len(value_range) != 2:
            raise ValueError(f"RandomContrast 'value_range' must be a pair of numbers, got {value_range!r}")
        low, high = (arguments.number(self, "value_range", each) for each in value_range)
        if low >= high:
            raise ValueError(f"RandomContrast 'value_range' must be a lower and a higher number, got {value_range!r}")
        self.value_range = (low, high)

    def call(self, x: Value) -> Value:
        lower, upper = self.factor if isinstance(self.factor, tuple) else (self.factor, self.factor)
        return self._applied(x, Contrast((1 - lower, 1 + upper), self.value_range))
