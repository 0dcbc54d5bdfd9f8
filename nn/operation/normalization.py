"""Normalisation over a batch, with its moving statistics, or of each position over its features."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.broadcasting import LONG, ShortBuffer
from nn.operation.operation import MaskOf, Mode, Operation, batch_leads
from nn.threads import adding_product


class BatchNormalize(Operation):
    """y = gamma * (x - m) / sqrt(v + epsilon) + beta for every feature, the last axis (Ioffe and Szegedy, 2015).

    Inputs: x (batch, ..., features); gamma, beta, and the buffers moving mean and moving variance, (features,) each. In
    training m and v are mean and variance over all other axes, v divided by their number, from the differences to m; backward
    gives as the changes of the buffers (1 - momentum) * (m - moving mean), and the same for v. Otherwise they are the buffers'
    values; so they are in training, and the buffers do not change, where gamma and beta are frozen and the statistics freeze
    with them. A mask (batch, time) may come as one more input: only positions where it is not 0 count.

    Args:
        momentum: share of the moving statistics that stays in one step.
        epsilon: is added to v.
        freeze_statistics: whether the statistics freeze with gamma and beta.
    """

    mask_of: ClassVar[MaskOf] = "first"
    in_place: ClassVar[bool] = True
    bounds: ClassVar[tuple[float, float] | None] = (-math.inf, math.inf)

    def __init__(self, momentum: float, epsilon: float, freeze_statistics: bool = True) -> None:
        self.momentum, self.epsilon, self.freeze_statistics = momentum, epsilon, freeze_statistics
        self._training = False

    def infer(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Return whether the batch leads; with the statistics of a batch, in training, no plan makes use of it."""
        return batch_leads(shapes[0]) and len(shapes[0]) > 1

    def changes_buffers(self, frozen: bool) -> bool:
        return not (frozen and self.freeze_statistics)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._wide = WideRows(output, dtype, self.block_factor)
        # Kept from forward to backward, which does not measure again.
        self._mean, self._variance, self._scale, self._factor = np.zeros((4, self._wide.features), dtype)
        self._sum, self._sum_with_c = np.zeros((2, self._wide.features), dtype)
        self._rows = np.zeros((4, self._wide.width), dtype)
        self._block = self.scratch.empty((self._wide.height, self._wide.width), dtype)
        self._counts: Array | None = None
        if len(shapes) > 5:
            self._counts = self._lasting.empty(output, dtype)
        self._positions: float = self._wide.positions

    def begin(self, mode: Mode, position: int) -> None:
        self._training = mode.training and self.changes_buffers(self.frozen)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        wide, (mean, scale, shift, _) = self._wide, self._rows
        x, gamma, beta, moving_mean, moving_variance, *masks = inputs
        rows, output = wide.view(x), wide.view(out)
        if self._counts is not None:
            mask = masks[0]
            np.not_equal(mask.reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim)), 0, out=self._counts)
            self._positions = max(float(self._counts.sum()) / wide.features, 1.0)
            # of padding alone there is no mean, and the statistics stay
            self._training = self._training and bool(mask.any())
        if self._training:
            self._measure(rows)
        else:
            np.copyto(self._mean, moving_mean)
            np.copyto(self._variance, moving_variance)
        self._invert()
        np.multiply(gamma, self._scale, out=self._factor)
        wide.tile(self._mean, mean)
        wide.tile(self._factor, scale)
        wide.tile(beta, shift)
        for block in wide.blocks:
            # The mean first: x * scale + (beta - m * scale), one pass less, would lose the digits of a large mean.
            np.subtract(rows[block], mean, out=output[block])
            np.multiply(output[block], scale, out=output[block])
            np.add(output[block], shift, out=output[block])

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write the gradients of x, gamma and beta and, in training, the changes of the moving statistics.

        With n positions, s = 1 / sqrt(v + epsilon) and c = x - m: beta's is sum g, gamma's s * sum g c, and that of x is
        gamma * s * (g - sum g / n - c * s^2 * sum g c / n); the last two terms come from m and v, so only in training.
        """
        # Forward has left the mean in the first row; the others are free.
        wide, (mean, with_c, total, _) = self._wide, self._rows
        rows, gradients = wide.view(inputs[0]), wide.view(gradient)
        with_c.fill(0)
        total.fill(0)
        for block in wide.blocks:
            centred = self._block[: len(rows[block])]
            np.subtract(rows[block], mean, out=centred)
            np.multiply(centred, gradients[block], out=centred)
            wide.add_rows(centred, with_c)
            wide.add_rows(gradients[block], total)
        wide.fold(total, self._sum)
        wide.fold(with_c, self._sum_with_c)
        np.multiply(self._sum_with_c, self._scale, out=self._sum_with_c)
        for_x, for_gamma, for_beta, *moving = wanted[:5]
        for target in wanted[5:]:
            if target is not None:
                target.fill(0)
        if for_gamma is not None:
            np.copyto(for_gamma, self._sum_with_c)
        if for_beta is not None:
            np.copyto(for_beta, self._sum)
        self._change(inputs[3:5], moving)
        if for_x is not None:
            self._descend(rows, gradients, wide.view(for_x))

    def _descend(self, rows: Array, gradients: Array, target: Array) -> None:
        """Write the gradient of x from the sums; `target` may be `gradients`."""
        wide, (mean, with_c, total, slope) = self._wide, self._rows
        wide.tile(self._factor, slope)
        if not self._training:
            np.multiply(gradients, slope, out=target)
            return
        # Gamma's gradient has one factor s, that of x two.
        np.multiply(self._sum_with_c, self._scale, out=self._sum_with_c)
        np.divide(self._sum_with_c, -self._positions, out=self._sum_with_c)
        # Negative, so that the loop below only adds.
        np.divide(self._sum, -self._positions, out=self._sum)
        wide.tile(self._sum_with_c, with_c)
        wide.tile(self._sum, total)
        for block in wide.blocks:
            centred = self._block[: len(rows[block])]
            np.subtract(rows[block], mean, out=centred)
            np.multiply(centred, with_c, out=centred)
            if self._counts is not None:
                # Mean and variance are those of the positions that count, and only these are moved by them.
                np.add(centred, total, out=centred)
                np.multiply(centred, wide.view(self._counts)[block], out=centred)
                np.add(centred, gradients[block], out=centred)
                np.multiply(centred, slope, out=target[block])
                continue
            # A block's gradient is read before its target is written: they may be the same memory.
            np.add(centred, gradients[block], out=centred)
            np.add(centred, total, out=centred)
            np.multiply(centred, slope, out=target[block])

    def _measure(self, rows: Array) -> None:
        """Compute mean and variance in two passes: the sum of squares of differences does not cancel."""
        wide, (mean, total, _, _) = self._wide, self._rows
        total.fill(0)
        counts = None if self._counts is None else wide.view(self._counts)
        for block in wide.blocks:
            part = rows[block]
            if counts is not None:
                part = np.multiply(part, counts[block], out=self._block[: len(part)])
            wide.add_rows(part, total)
        wide.fold(total, self._mean)
        np.divide(self._mean, self._positions, out=self._mean)
        wide.tile(self._mean, mean)
        total.fill(0)
        for block in wide.blocks:
            centred = self._block[: len(rows[block])]
            np.subtract(rows[block], mean, out=centred)
            np.square(centred, out=centred)
            if counts is not None:
                np.multiply(centred, counts[block], out=centred)
            wide.add_rows(centred, total)
        wide.fold(total, self._variance)
        np.divide(self._variance, self._positions, out=self._variance)

    def _invert(self) -> None:
        np.add(self._variance, self.epsilon, out=self._scale)
        np.sqrt(self._scale, out=self._scale)
        np.divide(1, self._scale, out=self._scale)

    def _change(self, moving: Sequence[Array], wanted: Sequence[Array | None]) -> None:
        """Write how far this block moves the moving statistics; outside training not at all."""
        rate = 1 - self.momentum if self._training else 0
        for value, statistic, change in zip(moving, (self._mean, self._variance), wanted, strict=True):
            if change is not None:
                np.subtract(statistic, value, out=change)
                np.multiply(change, rate, out=change)


ROW_BLOCK = 131_072
"""Elements of a block: calls for smaller ones cost more than numbers that come from the third cache in place of the second."""

SPAN = 2
"""Blocks of which numbers of positions are computed at once."""

NEAR = 4.0
"""So many times the variance the square of a mean may be."""


class _SampleNormalization(Operation):
    """Base of operations that normalise every sample by itself."""

    sums_by_blas: ClassVar[bool] = True
    mask_of: ClassVar[MaskOf] = "first"
    in_place: ClassVar[bool] = True
    bounds: ClassVar[tuple[float, float] | None] = (-math.inf, math.inf)

    def infer(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return batch_leads(shapes[0]) and len(shapes[0]) > 1


class _RowNormalization(_SampleNormalization):
    """Base of operations that normalise over the last axis, in blocks of rows."""

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._shape = (math.prod(output[:-1]), output[-1])
        positions, features = self._shape
        height = min(positions, max(1, ROW_BLOCK // features) * self.block_factor, LONG)
        self._blocks = [slice(start, min(start + height, positions)) for start in range(0, positions, height)]
        self._average = np.full(features, 1 / features, dtype)
        self._feature = np.empty(features, dtype)
        self._work = self.scratch.empty((height, features), dtype)


class _Block(NamedTuple):
    """Views of memory for one block of positions, or for the blocks of a span.

    Args:
        number: of the block.
        rows: its positions.
        offset: bytes from the first position to those of the block.
        work: room for as many rows of features.
        without: the same, for x without the bases.
        base: of each position, as a column.
        mean: m of each, with the sign turned, so that shifts need no pass for theirs.
        scales: 1 / sqrt(v + epsilon) of each, and zeros.
        shifts: -m / sqrt(v + epsilon) of each, and ones.
        numbers: room for three numbers of each.
        slopes: room for slopes, zeros, and room for shifts, of each.
        add_shifts: adds the shifts times gamma, and beta, to the matrix at an address; None where no function of the BLAS does.
        add_slopes: adds the shifts of `slopes`, each repeated.
    """

    number: int
    rows: slice
    offset: int
    work: Array
    without: Array
    base: Array
    mean: Array
    scales: Array
    shifts: Array
    numbers: Array
    slopes: Array
    add_shifts: Callable[[int], None] | None
    add_slopes: Callable[[int], None] | None


class LayerNormalize(_RowNormalization):
    """y = gamma * (x - m) / sqrt(v + epsilon) + beta, with m and v over the last axis (Ba, Kiros and Hinton, 2016).

    Inputs: x (batch, ..., features), gamma and beta (features,). With n features v = sum x^2 / n - m^2, and where m^2 is more
    than `NEAR` times as large as v, so that this would lose digits, m is the base of the position, and x without it takes the
    place of x, as in `GroupNormalize`.

    Numbers of positions and of features are repeated by products of two columns and two rows: NumPy takes twice as long to
    repeat a number along a row of 128 as to read a whole array, and the BLAS writes one, or adds one, faster than that.
    """

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        positions, features = self._shape
        self._minus, self._share = -self._average, dtype.type(1 / features)
        mean, base = self._lasting.empty((2, positions), dtype)
        self._far = [False] * len(self._blocks)
        without = self.scratch.empty(self._work.shape, dtype)
        rows = min(positions, SPAN * len(self._work))
        numbers = self.scratch.empty((3, rows), dtype)
        # Own memory, as second rows stay what they are.
        scales, shifts, slopes = np.zeros((2, positions), dtype), np.ones((2, positions), dtype), np.zeros((3, rows), dtype)
        # Gamma and beta forward, gamma backward.
        self._both, self._ones = np.ones((2, features), dtype), np.ones((2, features), dtype)
        self._rows = self.scratch.empty((2, features), dtype)

        def views(number: int, rows: slice, start: int) -> _Block:
            count, own = rows.stop - rows.start, slice(rows.start - start, rows.stop - start)
            numbers_of = mean[rows], scales[:, rows], shifts[:, rows], numbers[:, own], slopes[:, own]
            adds = adding_product(shifts[:, rows], self._both), adding_product(slopes[1:, own], self._ones)
            offset = rows.start * features * dtype.itemsize
            return _Block(number, rows, offset, self._work[:count], without[:count], base[rows, None], *numbers_of, *adds)

        # Made once: a view takes half as long as a calculation with the numbers of all positions.
        self._spans = []
        for first in range(0, len(self._blocks), SPAN):
            blocks = self._blocks[first : first + SPAN]
            start = blocks[0].start
            # Numbers of positions are computed for several blocks at once, of which x is still near.
            span = views(first, slice(start, blocks[-1].stop), start)
            self._spans.append((span, [views(number, block, start) for number, block in enumerate(blocks, start=first)]))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        x, output = inputs[0].reshape(self._shape), out.reshape(self._shape)
        both, place = self._both, output.ctypes.data
        both[0], both[1] = inputs[1], inputs[2]
        # In place x is read after the factors are written, elsewhere they are written where they are multiplied.
        apart = not np.may_share_memory(x, output)
        for span, blocks in self._spans:
            self._measure(x, span, blocks)
            np.multiply(span.mean, span.scales[0], out=span.shifts[0])
            # The last ones are still in the cache.
            for block in reversed(blocks):
                result = output[block.rows]
                factors = np.matmul(block.scales.T, both, out=result if apart else block.work)
                np.multiply(self._near(x, block), factors, out=result)
                _add_product(block.add_shifts, block.shifts, both, result, place + block.offset)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write the gradients, with c = x - m and s = 1 / sqrt(v + epsilon) of each position.

        Beta's is sum g and gamma's sum s g c, over the positions; that of x is
        s * (g gamma - mean(g gamma) - c s^2 mean(g c gamma)), with means over the features.
        """
        x, gradients = inputs[0].reshape(self._shape), gradient.reshape(self._shape)
        for_x, for_gamma, for_beta = wanted
        target = None if for_x is None else for_x.reshape(self._shape)
        place = 0 if target is None else target.ctypes.data
        for array in (for_gamma, for_beta):
            if array is not None:
                array.fill(0)
        self._both[0] = inputs[1]
        # -gamma / features, so that a product with it is a mean of something times gamma, with the sign turned as that of m is.
        np.multiply(inputs[1], self._minus, out=self._feature)
        for span, blocks in self._spans:
            self._add_up(x, gradients, blocks, (for_gamma, for_beta))
            if target is None:
                continue
            # It is s gamma g + slope x + shift, with slope = -s^3 mean(g c gamma) and shift = -s mean(g gamma) - slope m.
            (of_gradient, of_product, other), scale = span.numbers, span.scales[0]
            slope, _, shift = span.slopes
            np.multiply(span.mean, of_gradient, out=other)
            np.add(other, of_product, out=slope)
            # One after the other: the cube of a small scale would be 0.
            for _ in range(3):
                np.multiply(slope, scale, out=slope)
            np.multiply(of_gradient, scale, out=of_gradient)
            np.multiply(slope, span.mean, out=shift)
            np.add(shift, of_gradient, out=shift)
            for block in reversed(blocks):
                self._descend(x, block, gradients[block.rows], target[block.rows], place + block.offset)

    def _add_up(self, x: Array, gradients: Array, blocks: Sequence[_Block], wanted: tuple[Array | None, Array | None]) -> None:
        """Add to the gradients of gamma and beta, where they are wanted, and write -mean(g gamma) and -mean(g x gamma)."""
        for_gamma, for_beta = wanted
        sums = self._rows
        for block in blocks:
            part, (of_gradient, of_product, _) = gradients[block.rows], block.numbers
            product = np.multiply(part, self._near(x, block), out=block.work)
            np.matmul(product, self._feature, out=of_product)
            np.matmul(part, self._feature, out=of_gradient)
            if for_beta is None and for_gamma is None:
                continue
            # Of the gradients times -s m, and of the gradients.
            np.matmul(block.shifts, part, out=sums)
            if for_beta is not None:
                np.add(for_beta, sums[1], out=for_beta)
            if for_gamma is not None:
                # sum s g c = sum s g x - sum s m g
                np.add(for_gamma, sums[0], out=for_gamma)
                np.add(for_gamma, np.matmul(block.scales[0], product, out=sums[0]), out=for_gamma)

    def _descend(self, x: Array, block: _Block, gradient: Array, target: Array, place: int) -> None:
        """Write the gradient of a block of x, which lies at an address; `target` may be `gradient`."""
        work = np.matmul(block.scales.T, self._both, out=block.work)
        # The last look at this block of the gradient.
        np.multiply(work, gradient, out=work)
        # The slopes, repeated.
        np.matmul(block.slopes[:2].T, self._ones, out=target)
        np.multiply(target, self._near(x, block), out=target)
        np.add(target, work, out=target)
        _add_product(block.add_slopes, block.slopes[1:], self._ones, target, place)

    def _measure(self, x: Array, span: _Block, blocks: Sequence[_Block]) -> None:
        """Compute the bases of the positions of a span, and mean and 1 / sqrt(v + epsilon) of x without them."""
        for block in blocks:
            self._far[block.number] = False
        variance, square, bound = span.numbers
        # Where squares overflow, those of differences need not: NaN is not near.
        with np.errstate(over="ignore", invalid="ignore"):
            self._moments(x, span, blocks)
            np.multiply(variance, NEAR, out=bound)
            near = np.greater_equal(bound, square)
        if not near.all():
            np.negative(span.mean[:, None], out=span.base)
            span.base[near] = 0
            for block in blocks:
                self._far[block.number] = bool(block.base.any())
            self._moments(x, span, blocks)
        # Of equal numbers rounding may make it less than 0.
        np.maximum(variance, 0, out=variance)
        np.add(variance, self.epsilon, out=variance)
        np.sqrt(variance, out=variance)
        np.divide(1, variance, out=span.scales[0])

    def _moments(self, x: Array, span: _Block, blocks: Sequence[_Block]) -> None:
        """Write the means of the positions of x without their bases, their variances, and the squares of the means."""
        variance, square, _ = span.numbers
        for block in blocks:
            near = self._near(x, block)
            # The mean as a product with 1 / features, which is faster than reductions over short rows; squares are added up by
            # products of a row with itself, which need no memory for them.
            np.matmul(near, self._minus, out=block.mean)
            np.matmul(near[:, None, :], near[:, :, None], out=block.numbers[0, :, None, None])
        np.multiply(variance, self._share, out=variance)
        np.multiply(span.mean, span.mean, out=square)
        np.subtract(variance, square, out=variance)

    def _near(self, x: Array, block: _Block) -> Array:
        """Return a block of x without the bases of its positions."""
        if not self._far[block.number]:
            return x[block.rows]
        # 0 is subtracted from the other positions of the block, which changes none of their bits.
        return np.subtract(x[block.rows], block.base, out=block.without)


class RMSNormalize(_RowNormalization):
    """y = scale * x / sqrt(mean(x^2) + epsilon), with the mean over the last axis (Zhang and Sennrich, 2019).

    Inputs: x (batch, ..., features), scale (features,).
    """

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        self._inverse = self._lasting.empty((self._shape[0], 1), dtype)
        self._scale = self.scratch.empty(self._work.shape, dtype)
        self._slope = np.empty((len(self._work), 1), dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        x, output = inputs[0].reshape(self._shape), out.reshape(self._shape)
        # repeated for every position of a block: NumPy is slow at repeating short rows itself
        np.copyto(self._scale, inputs[1])
        for block in self._blocks:
            inverse, result = self._inverse[block], output[block]
            # The last block may be shorter.
            count = len(result)
            np.square(x[block], out=self._work[:count])
            np.matmul(self._work[:count], self._average, out=inverse[:, 0])
            np.add(inverse, self.epsilon, out=inverse)
            np.sqrt(inverse, out=inverse)
            np.divide(1, inverse, out=inverse)
            np.multiply(x[block], inverse, out=result)
            np.multiply(result, self._scale[:count], out=result)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write the gradients, with s = 1 / sqrt(mean(x^2) + epsilon) of each position.

        Scale's is sum s g x, over the positions; that of x is s * (g scale - x s^2 mean(g scale x)), with the mean over the
        features.
        """
        x, gradients = inputs[0].reshape(self._shape), gradient.reshape(self._shape)
        for_x, for_scale = wanted
        target = None if for_x is None else for_x.reshape(self._shape)
        if for_scale is not None:
            for_scale.fill(0)
        np.copyto(self._scale, inputs[1])
        for block in self._blocks:
            part, inverse = gradients[block], self._inverse[block]
            count = len(part)
            product, slope = self._work[:count], self._slope[:count]
            np.multiply(part, x[block], out=product)
            if for_scale is not None:
                np.matmul(inverse[:, 0], product, out=self._feature)
                np.add(for_scale, self._feature, out=for_scale)
            if target is not None:
                # scale / features, so that a product with it is a mean of something times the scale.
                np.multiply(inputs[1], self._average, out=self._feature)
                np.matmul(product, self._feature, out=slope[:, 0])
                np.multiply(slope, inverse, out=slope)
                np.multiply(slope, inverse, out=slope)
                np.multiply(x[block], slope, out=product)
                # The last look at this block of the gradient, whose memory the target may be.
                np.multiply(part, self._scale[:count], out=target[block])
                np.subtract(target[block], product, out=target[block])
                np.multiply(target[block], inverse, out=target[block])


def _add_product(add: Callable[[int], None] | None, a: Array, b: Array, out: Array, place: int) -> None:
    """Add a.T @ b to `out`, which lies at an address, by `add` where there is such a function."""
    if add is None:
        np.add(out, np.matmul(a.T, b), out=out)
    else:
        add(place)


class GroupNormalize(_SampleNormalization):
    """y = gamma * (x - m) / sqrt(v + epsilon) + beta, with m and v over all places and the channels of a group of a sample.

    Inputs: x (batch, ..., channels), gamma and beta (channels,) (Wu and He, 2018).

    With n numbers in a group, v = sum x^2 / n - m^2 takes one pass less than squares of differences, and y = a x + b two. The
    rounding errors of v are 1 + 2 m^2 / v times those of the sum. Where that would be more than 9, m is the base of all groups
    of the sample, and x without its base takes the place of x; else the base is 0.

    Args:
        groups: number of the groups, which divides the channels.
        epsilon: is added to v.
    """

    def __init__(self, groups: int, epsilon: float) -> None:
        self.groups, self.epsilon = groups, epsilon

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        samples, places, channels = output[0], math.prod(output[1:-1]), output[-1]
        self._grouped = (self.groups, channels // self.groups)
        self._mean_of = np.full(self._grouped[1], 1 / (places * self._grouped[1]), dtype)
        # Several places in a line: NumPy repeats long rows faster than short ones.
        repeats = max(each for each in range(1, max(1, LINE // channels) + 1) if places % each == 0)
        lines, width = places // repeats, repeats * channels
        self._shape = (samples, lines, width)
        # A few samples at a time, or a part of one: these numbers are in the cache for all passes.
        # Of larger blocks more samples, not more of one: that would be another sum.
        height, some = min(lines, max(1, PIECE // width)), min(samples, max(1, self.block_factor * PIECE // (lines * width)))
        self._pieces = [
            (slice(first, min(first + some, samples)), start // height, slice(start, min(start + height, lines)))
            for first in range(0, samples, some)
            for start in range(0, lines, height)
        ]
        self._work = self.scratch.empty((some, height, width), dtype)
        parts = -(-lines // height)
        self._parts = [(slice(samples), start // height, slice(start, start + height)) for start in range(0, lines, height)]
        self._ones = np.ones(max(height, samples, parts * repeats), dtype)
        self._sums = self.scratch.empty((2, samples, parts, width), dtype)
        self._totals = self.scratch.empty((2, samples, channels), dtype)
        self._weighted = self.scratch.empty((2, samples, channels), dtype)
        self._means = self.scratch.empty((2, samples, self.groups, 1), dtype)
        self._averages = self.scratch.empty((2, samples, channels), dtype)
        self._rows = self.scratch.empty((3, samples, 1, width), dtype)
        # Of x without its base; the base is used where any of it is not 0. Numbers of a group stand at each of its channels, as
        # NumPy is slow at combining a few channels with one number.
        self._mean, self._inverse = self._lasting.empty((2, samples, channels), dtype)
        self._base = self._lasting.empty((samples, 1, width), dtype)
        self._far: list[bool] = [False] * samples
        self._buffer = ShortBuffer(width, samples * lines * width)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        x, output = inputs[0].reshape(self._shape), out.reshape(self._shape)
        self._measure(x)
        factor, shift = self._weighted
        np.multiply(self._inverse, inputs[1], out=factor)
        np.multiply(factor, self._mean, out=shift)
        np.subtract(inputs[2], shift, out=shift)
        factors, shifts = self._repeat(factor, 0), self._repeat(shift, 1)
        with self._buffer:
            # The last ones are still in the cache.
            for samples, _, lines in self._pieces[::-1]:
                result = output[samples, lines]
                np.multiply(self._near(x, samples, lines), factors[samples], out=result)
                np.add(result, shifts[samples], out=result)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write the gradients, with c = x - m and s = 1 / sqrt(v + epsilon) of each sample and group.

        Beta's is sum g and gamma's sum s g c, over samples and places; that of x is
        g gamma s - c s^3 mean(g gamma c) - s mean(g gamma), with means over the places and channels of the group.
        """
        x, gradients, gamma = inputs[0].reshape(self._shape), gradient.reshape(self._shape), inputs[1]
        for_x, for_gamma, for_beta = wanted
        self._add_up(x, gradients)
        total, product = self._totals
        mean, inverse, (first, second) = self._mean, self._inverse, self._weighted
        # sum g c = sum g x - m sum g
        np.multiply(total, mean, out=first)
        np.subtract(product, first, out=product)
        if for_beta is not None:
            np.matmul(self._ones[: len(total)], total, out=for_beta)
        if for_gamma is not None:
            np.multiply(product, inverse, out=first)
            np.matmul(self._ones[: len(total)], first, out=for_gamma)
        if for_x is None:
            return
        # Sums by channel come first, weighted by gamma, then the mean over the channels of the group.
        np.multiply(self._totals, gamma, out=self._weighted)
        of_gradient, of_product = self._average(self._weighted)
        np.multiply(inverse, gamma, out=total)
        np.negative(of_product, out=second)
        # One after the other: the cube of a small scale would be 0.
        for _ in range(3):
            np.multiply(second, inverse, out=second)
        # c is x - m.
        np.multiply(of_gradient, inverse, out=first)
        np.multiply(second, mean, out=product)
        np.add(first, product, out=first)
        np.negative(first, out=first)
        factors, shifts, slopes = (self._repeat(rows, number) for number, rows in enumerate((total, first, second)))
        target = for_x.reshape(self._shape)
        with self._buffer:
            for samples, _, lines in self._pieces[::-1]:
                result, near = target[samples, lines], self._near(x, samples, lines)
                work = self._work[: len(near), : near.shape[1]]
                np.multiply(near, slopes[samples], out=work)
                np.add(work, shifts[samples], out=work)
                # The last look at this piece of the gradient, whose memory the target may be.
                np.multiply(gradients[samples, lines], factors[samples], out=result)
                np.add(result, work, out=result)

    def _measure(self, x: Array) -> None:
        """Compute the base of x, and mean and 1 / sqrt(v + epsilon) of each group of x without it."""
        self._far = [False] * len(x)
        # Where squares overflow, those of differences need not: NaN is not near.
        with np.errstate(over="ignore", invalid="ignore"):
            mean, variance = self._moments(x)
            far: Array = np.logical_not((variance * NEAR >= mean * mean).all(axis=1))
        if far.any():
            self._far = far.tolist()
            np.copyto(self._base, self._repeat(mean, 0))
            self._base[~far] = 0
            mean, variance = self._moments(x)
        np.copyto(self._mean, mean)
        # Of equal numbers rounding may make it less than 0.
        np.maximum(variance, 0, out=variance)
        np.add(variance, self.epsilon, out=variance)
        np.sqrt(variance, out=variance)
        np.divide(1, variance, out=self._inverse)

    def _moments(self, x: Array) -> tuple[Array, Array]:
        """Return mean and variance, (samples, channels) each, of x without its base."""
        self._add_up(x)
        mean, variance = self._average(self._totals)
        return mean, variance - mean * mean

    def _add_up(self, x: Array, gradients: Array | None = None) -> None:
        """Add up over the places of a sample g and g x, for gradients g of the shape of x; without, x and x^2."""
        # Of x as it is all samples at once, else as many as there is work space for.
        for samples, number, lines in self._pieces if any(self._far) else self._parts:
            near = self._near(x, samples, lines)
            part = near if gradients is None else gradients[samples, lines]
            total, product = self._sums[:, samples, number]
            np.matmul(self._ones[: part.shape[1]], part, out=total)
            # One pass, with sums that stay in the cache; two passes, over products and their sums, take a third longer.
            np.einsum("slw,slw->sw", part, near, out=product)
        # A product for each sample: a reduction over short rows takes longer.
        parts = self._sums.reshape(2, len(x), -1, self._totals.shape[2])
        np.matmul(self._ones[: parts.shape[2]], parts, out=self._totals)

    def _near(self, x: Array, samples: slice, lines: slice) -> Array:
        """Return a piece of x without its base."""
        part = x[samples, lines]
        if not any(self._far[samples]):
            return part
        # 0 is subtracted from the other samples of the piece, which changes none of their bits.
        return np.subtract(part, self._base[samples], out=self._work[: len(part), : part.shape[1]])

    def _average(self, sums: Array) -> tuple[Array, Array]:
        """Return the means of each group, (samples, channels), for two arrays of sums over the places."""
        # A product: reductions over short rows take longer.
        np.dot(sums.reshape(-1, len(self._mean_of)), self._mean_of, out=self._means.reshape(-1))
        np.copyto(self._by_group(self._averages), self._means)
        return self._averages[0], self._averages[1]

    def _by_group(self, rows: Array) -> Array:
        """Return (..., channels) as (..., groups, channels / groups)."""
        return rows.reshape(*rows.shape[:-1], *self._grouped)

    def _repeat(self, rows: Array, number: int) -> Array:
        """Return (samples, channels) as lines of several places, in one of three places."""
        place: Array = self._rows[number]
        np.copyto(place.reshape(len(rows), -1, rows.shape[1]), rows[:, None])
        return place


PIECE = 131_072
"""Elements that are in hand at a time: calls for fewer cost more than numbers that come from the third cache in place of the
second."""

LINE = 1024
"""Elements of a row that is combined with many."""


WIDTH = 1024
BLOCK = 32_768
"""Elements of a block: several arrays of this size fit into a core's second-level cache."""


class WideRows:
    """View of an array (..., features) as a matrix; each of its rows holds the features of `repeats` positions.

    `blocks` are the slices of its rows to work on one after the other, so that numbers computed from a block are still in
    the cache when they are used.
    """

    def __init__(self, shape: Shape, dtype: np.dtype[Any], factor: int) -> None:
        self.positions, self.features = math.prod(shape[:-1]), shape[-1]
        limit = max(1, WIDTH // self.features)
        # A divisor of the number of positions, so that all rows are full.
        self.repeats = max(count for count in range(1, limit + 1) if self.positions % count == 0)
        self.rows, self.width = self.positions // self.repeats, self.features * self.repeats
        self.height = min(self.rows, max(1, factor * BLOCK // self.width))
        self.blocks = [slice(start, min(start + self.height, self.rows)) for start in range(0, self.rows, self.height)]
        # Sums over rows are products with ones, by the BLAS.
        self._ones = np.ones(self.height, dtype)
        self._part = np.empty(self.width, dtype)

    def view(self, array: Array) -> Array:
        """Return the matrix; a copy where the array is strided."""
        return array.reshape(self.rows, self.width)

    def tile(self, vector: Array, out: Array) -> Array:
        """Write one number per feature, repeated, into a row of the matrix and return that."""
        np.copyto(out.reshape(self.repeats, self.features), vector)
        return out

    def add_rows(self, block: Array, total: Array) -> None:
        """Add the sum of the rows of a block to `total`, a row."""
        np.matmul(self._ones[: len(block)], block, out=self._part)
        np.add(total, self._part, out=total)

    def fold(self, total: Array, out: Array) -> None:
        """Write the sum over the repeats of a row, one number per feature."""
        np.add.reduce(total.reshape(self.repeats, self.features), axis=0, out=out)
