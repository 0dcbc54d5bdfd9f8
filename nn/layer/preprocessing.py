"""Layers between samples as they come and those that a network learns from: numbers alike in size, encoded ids, equal images.

The statistics that such a layer takes of data, by `adapt`, are part of its configuration, so a model file has them. Texts are
no numbers, and a graph has no place for them: `StringLookup` and `TextVectorization` are transforms, `nn.dataset.transforms`,
which a model file keeps, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

from nn import arguments
from nn.arrays import BATCH, LENGTH, Array, Shape, as_array
from nn.layer.layer import Layer, direct
from nn.layer.spatial import interpolated
from nn.operation.encoding import Encode, Encoding
from nn.resampling import Interpolation, largest_in_proportion, nearest_cells
from nn.value.value import Value

#: Least deviation that is divided by, as in Keras.
_SMALLEST = 1e-7


class Normalization(Layer, configured=True):
    """(x - mean) / sqrt(variance), with the statistics of samples that `adapt` is given, or with given ones.

    Mean and variance stand in the configuration of the layer, so in the model file; they are no variables and are not trained.
    They are those of the transform `Normalize`, which computes them in double precision; where all samples are equal the
    deviation counts as 1, so that constants become 0.

    Shapes: (batch, ...) to the same.

    Args:
        axis: axes that have a mean for each entry, counted with the batch as axis 0: -1 for one for each feature, or channel of
            images; None for a single one.
        mean: a number, or one for each entry of the axes, as (nested) lists; together with `variance`.
        variance: of the same shape, at least 0.
        invert: whether x * sqrt(variance) + mean is computed, which takes normalised numbers back.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for other arguments, for a layer that was not adapted, and for inputs that do not fit.

    >>> layer = nn.layer.Normalization()
    >>> layer.adapt(np.array([[1.0, 10.0], [3.0, 30.0]]))
    >>> layer.mean, layer.variance, layer(nn.Placeholder([-1, 2])).shape
    ((2.0, 20.0), (1.0, 100.0), (-1, 2))
    """

    def __init__(
        self,
        axis: int | Sequence[int] | None = -1,
        mean: float | Sequence[Any] | None = None,
        variance: float | Sequence[Any] | None = None,
        invert: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        listed = isinstance(axis, (list, tuple))
        given = () if axis is None else tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
        axes = tuple([arguments.integer(self, "axis", each, minimum=-32) for each in given])
        if 0 in axes:
            raise ValueError(f"Normalization 'axis' must name axes behind 0, the batch, got {axis!r}")
        self.axis: int | tuple[int, ...] | None = None if axis is None else axes if listed else axes[0]
        if (mean is None) != (variance is None):
            raise ValueError(f"Normalization 'mean' and 'variance' must be given together, got {mean!r} and {variance!r}")
        self.mean: Any = mean if mean is None else self._statistic("mean", mean)
        self.variance: Any = variance if variance is None else self._statistic("variance", variance)
        means, squares = (np.array([] if given is None else given) for given in (self.mean, self.variance))
        if means.shape != squares.shape or (squares < 0).any():
            raise ValueError(
                f"Normalization 'variance' must be numbers of at least 0, as many as in 'mean', got {arguments.short(variance)}"
            )
        self.invert = arguments.flag(self, "invert", invert)

    def adapt(self, data: Any) -> None:
        """Take mean and variance of samples; a layer that is part of a graph refuses.

        Args:
            data: samples ``(n, ...)``, or a data set, of which the training samples count.

        Raises:
            ValueError: where the layer was called already, and for samples with NaN or infinity.
            TypeError: for samples that are no numbers.
        """
        from nn.dataset.transforms.normalize import statistics  # noqa: PLC0415 - with the data sets, for a layer that is adapted

        if self.built:
            raise ValueError(
                f"{self.describe()} is part of a graph: adapt it before it is called, or before setup() of its model"
            )
        x = as_array(f"{self.describe()} adapt() 'data'", data.load()[0] if hasattr(data, "load") else data)
        if x.dtype.kind not in "biuf":
            raise TypeError(f"{self.describe()} adapt() 'data' must be samples that are numbers, got dtype {x.dtype}")
        # One number for each sample is one feature.
        x = x[:, None] if x.ndim == 1 and self.axis is not None else x
        kept = self._kept(x.shape)
        mean, deviation = statistics(type(self).__name__, "samples", x, tuple(axis - 1 for axis in kept))
        shape = tuple(x.shape[axis] for axis in kept)
        found = {"mean": mean.reshape(shape), "variance": np.square(deviation).reshape(shape)}
        self._keep(**{name: self._statistic(name, numbers) for name, numbers in found.items()})

    def build(self, input_shape: Shape) -> None:
        if self.mean is None:
            raise ValueError("has no statistics: call adapt(data) first, or give 'mean' and 'variance'")
        kept = self._kept(input_shape)
        wanted = tuple(input_shape[axis] for axis in kept)
        given = np.shape(self.mean)
        if given and given != wanted:
            raise ValueError(f"expected inputs that fit the statistics of shape {given}, got shape {input_shape} with {wanted}")
        # Broadcast against a sample: lengths at the axes that are kept, 1 at the others.
        shape = [input_shape[axis] if given and axis in kept else 1 for axis in range(1, len(input_shape))]
        self._mean = np.reshape(np.asarray(self.mean, np.float64), shape)
        self._deviation = np.maximum(np.sqrt(np.reshape(np.asarray(self.variance, np.float64), shape)), _SMALLEST)

    def call(self, x: Value) -> Value:
        mean, deviation = (_along(x.shape, each) for each in (self._mean, self._deviation))
        made = x * deviation + mean if self.invert else (x - mean) / deviation
        made.mask = x.mask
        return made

    def argument(self, name: str) -> Any:
        value = super().argument(name)
        # JSON has no tuples, within others neither.
        return np.asarray(value).tolist() if name in ("mean", "variance") and value is not None else value

    def _kept(self, shape: Shape) -> list[int]:
        """Return the axes with a mean for each entry, from 1, in order; raise ValueError where they do not fit a shape."""
        axes = () if self.axis is None else (self.axis,) if isinstance(self.axis, int) else self.axis
        found = sorted(axis + len(shape) if axis < 0 else axis for axis in axes)
        if len(set(found)) < len(found) or any(not 0 < axis < len(shape) or shape[axis] in (BATCH, LENGTH) for axis in found):
            raise ValueError(
                f"'axis' must name different axes of known length behind the batch of shape {shape}, got {self.axis}"
            )
        return found

    def _statistic(self, name: str, given: Any) -> Any:
        """Return a number, or (nested) tuples of numbers."""
        if isinstance(given, np.ndarray):
            given = given.tolist()
        if isinstance(given, (list, tuple)):
            made = tuple(self._statistic(name, each) for each in given)
            if len({np.shape(each) for each in made}) != 1:
                raise ValueError(f"Normalization '{name}' must have as many numbers in each list, got {arguments.short(given)}")
            return made
        return arguments.number(self, name, given)


def _along(shape: Shape, statistic: Array) -> Array:
    """Return numbers of a few features for each place of axes before: NumPy combines long rows several times as fast."""
    if statistic.ndim < 2 or not 1 < shape[-1] < _FEW:
        return statistic
    wide = list(statistic.shape)
    for axis in range(-2, -len(wide) - 1, -1):
        if shape[axis] in (BATCH, LENGTH) or (axis < -2 and math.prod(wide[axis + 1 :]) * shape[axis] > _LONG):
            break
        wide[axis] = shape[axis]
    # A copy lies in one piece, so that NumPy takes these axes for one long row.
    return np.broadcast_to(statistic, wide).copy()


_FEW = 64
"""Features; rows of more are long enough by themselves."""
_LONG = 4096
"""Numbers of a row of more than two axes, at most."""


class CategoryEncoding(Layer, configured=True):
    """Ids as rows of zeros with a one, or a count, for each thing that is there.

    Shapes: ids (batch, n) to (batch, num_tokens); with 'one_hot' to (batch, n, num_tokens), for n = 1 to (batch, num_tokens).

    Args:
        num_tokens: number of things; ids are from 0 to `num_tokens` - 1.
        output_mode: 'multi_hot' gives 1 for each thing that occurs in a sample, 'count' how often it does, 'one_hot' a row for
            each id.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for other arguments and shapes; in a run for an id that is no whole number or out of range.

    >>> nn.layer.CategoryEncoding(100)(nn.Placeholder([-1, 5])).shape
    (-1, 100)
    """

    def __init__(self, num_tokens: int, output_mode: Encoding = "multi_hot", name: str | None = None) -> None:
        super().__init__(name)
        self.num_tokens = arguments.integer(self, "num_tokens", num_tokens, minimum=1)
        self.output_mode = arguments.one_of(self, "output_mode", output_mode, get_args(Encoding))

    def call(self, x: Value) -> Value:
        # A model has a batch axis in front; samples that are one id each are a column of ids.
        ids = x.reshape(BATCH, 1) if len(x.shape) == 1 else x
        # One id for each sample needs no axis of its own, and the row of one is that of all.
        mode: Encoding = "multi_hot" if self.output_mode == "one_hot" and ids.shape[1:] == (1,) else self.output_mode
        return direct(Encode(self.num_tokens, mode, self.describe), ids)


class _OfImages(Layer):
    """Common part of layers that give images (batch, height, width, channels) another height and width."""

    def __init__(self, height: int, width: int, name: str | None) -> None:
        super().__init__(name)
        self.height = arguments.integer(self, "height", height, minimum=1)
        self.width = arguments.integer(self, "width", width, minimum=1)

    def build(self, input_shape: Shape) -> None:
        if len(input_shape) != 4 or BATCH in input_shape[1:] or LENGTH in input_shape:
            raise ValueError(f"expected images of shape (batch, height, width, channels), got {input_shape}")

    def _middle(self, x: Value, height: int, width: int) -> Value:
        """Return a part of each image, with the same rows and columns left out on both sides."""
        top, left = (x.shape[1] - height) // 2, (x.shape[2] - width) // 2
        return x if (height, width) == x.shape[1:3] else x[:, top : top + height, left : left + width]

    def _in_proportion(self, x: Value) -> Value:
        """Return the largest part in the middle of each image that has the proportions of the result."""
        return self._middle(x, *largest_in_proportion((x.shape[1], x.shape[2]), (self.height, self.width)))

    def _resized(self, x: Value, interpolation: Interpolation) -> Value:
        if interpolation == "bilinear":
            return interpolated(interpolated(x, 1, self.height), 2, self.width)
        return x[:, nearest_cells(x.shape[1], self.height)][:, :, nearest_cells(x.shape[2], self.width)]


class Resizing(_OfImages, configured=True):
    """Images brought to one size.

    Shapes: (batch, height, width, channels) to (batch, `height`, `width`, channels). Images of a data set that differ in size
    have no common array: `nn.dataset.ImageFolder` brings them to one size when it reads them.

    Args:
        height: rows of the result.
        width: columns of the result.
        interpolation: 'bilinear' mixes the two nearest cells along each axis by their distance, with centres at halves, and
            without blurring beforehand where images become smaller, as Keras does; 'nearest' takes the cell of the centre.
        crop_to_aspect_ratio: whether images are cut to the proportions of the result first, in place of being stretched.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for other arguments, and for inputs that are no images.

    >>> nn.layer.Resizing(16, 16)(nn.Placeholder([-1, 28, 20, 1])).shape
    (-1, 16, 16, 1)
    """

    def __init__(
        self,
        height: int,
        width: int,
        interpolation: Interpolation = "bilinear",
        crop_to_aspect_ratio: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(height, width, name)
        self.interpolation = arguments.one_of(self, "interpolation", interpolation, get_args(Interpolation))
        self.crop_to_aspect_ratio = arguments.flag(self, "crop_to_aspect_ratio", crop_to_aspect_ratio)

    def call(self, x: Value) -> Value:
        return self._resized(self._in_proportion(x) if self.crop_to_aspect_ratio else x, self.interpolation)


class CenterCrop(_OfImages, configured=True):
    """The middle of images; smaller ones are cut to the proportions and made larger, as Keras does.

    Shapes: (batch, height, width, channels) to (batch, `height`, `width`, channels).

    Args:
        height: rows of the result.
        width: columns of the result.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for other arguments, and for inputs that are no images.

    >>> nn.layer.CenterCrop(24, 24)(nn.Placeholder([-1, 32, 32, 3])).shape
    (-1, 24, 24, 3)
    """

    def __init__(self, height: int, width: int, name: str | None = None) -> None:
        super().__init__(height, width, name)

    def call(self, x: Value) -> Value:
        if x.shape[1] >= self.height and x.shape[2] >= self.width:
            return self._middle(x, self.height, self.width)
        return self._resized(self._in_proportion(x), "bilinear")
