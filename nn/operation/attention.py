"""Scaled dot-product attention."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.noise import DRAWS, write_mask
from nn.operation.operation import Mode, Operation, batch_leads
from nn.operation.reduction import maximum_of_rows
from nn.operation.rotary import Place

BLOCK = 65_536
"""Scores of a block of samples: two arrays of this size fit into a core's second-level cache."""


class Attention(Operation):
    """softmax(q k^T / sqrt(d)) v for every head (Vaswani et al., "Attention Is All You Need", 2017).

    Inputs: q (batch, targets, heads, d), k (batch, sources, heads, d), v (batch, sources, heads, e); output (batch, targets,
    heads, e). With `causal`, target i sees the sources 0 to i only. A mask (batch, sources) or (batch, targets, sources) may
    come as a fourth input: sources where it is 0 are not seen. A target that sees none takes the mean over those that it might.

    The weights are kept without their denominators, E = exp(scores - maximum): dividing the output, and in backward its
    gradient, by the sums is less work. With g' = g / sum E: dv = E^T g', dE = E (g' v^T - sum g' y), dq = dE k, dk = dE^T q.
    """

    multiplies: ClassVar[bool] = True

    reads_output: ClassVar[bool] = True

    def __init__(self, causal: bool = False) -> None:
        self.causal = causal

    def infer(self, *shapes: Shape) -> Shape:
        """Return (batch, targets, heads, e); raise ValueError naming shapes that do not fit together."""
        q, k, v, *masks = shapes
        for name, shape in (("query", q), ("key", k), ("value", v)):
            if len(shape) != 4:
                raise ValueError(f"Attention: {name} must have the axes (batch, positions, heads, features), got shape {shape}")
        _check("key", k, "query", q, (0, 2, 3))
        _check("value", v, "key", k, (0, 1, 2))
        for mask in masks:
            if mask not in ((k[0], k[1]), (k[0], q[1], k[1])):
                raise ValueError(
                    f"Attention: the mask must have the shape {(k[0], k[1])}, (batch, sources), or {(k[0], q[1], k[1])}, "
                    f"(batch, targets, sources), got {mask}"
                )
        return (*q[:3], v[3])

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return all(batch_leads(shape) for shape in shapes)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        (batch, targets, heads, depth), (_, sources, _, _), _, *masks = shapes
        # A sample's scores may be more than a block holds, so at least one sample is taken.
        count = min(batch, max(1, BLOCK // (heads * targets * sources)))
        self._blocks = [slice(start, min(start + count, batch)) for start in range(0, batch, count)]
        self._scale = 1 / math.sqrt(depth)
        # Weights and sums are kept from forward to backward; all that follows is work space of one call.
        self._weights = self._lasting.empty((batch, heads, targets, sources), dtype)
        self._sums = self._lasting.empty((batch, heads, targets, 1), dtype)
        self._ones, self._ones_of_values = np.ones(sources, dtype), np.ones(output[3], dtype)
        self._query = self.scratch.empty((count, heads, targets, depth), dtype)
        self._gradient = self.scratch.empty((count, heads, targets, output[3]), dtype)
        self._product = self.scratch.empty((count, heads, targets, output[3]), dtype)
        self._row = self.scratch.empty((count, heads, targets, 1), dtype)
        self._slopes = self.scratch.empty((count, heads, targets, sources), dtype)
        # Kept from forward to backward, with axes for heads and, where it has none, for targets.
        self._absent: Array | None = None
        if masks:
            self._absent = self._lasting.empty(
                (batch, 1, *(masks[0][1:] if len(masks[0]) == 3 else (1, sources))), np.dtype(bool)
            )
        # Finite, so that a target which sees nothing does not become NaN, and half of the least number, so that the
        # difference to the maximum of a row is finite, too.
        self._low = float(np.finfo(dtype).min) / 2
        # exp(-inf) is 0. Each target sees source 0, so no row is -inf throughout and none becomes NaN.
        self._mask = np.triu(np.full((targets, sources), -np.inf, dtype), 1) if self.causal else None

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        q, k, v, output = (array.swapaxes(1, 2) for array in (*inputs[:3], out))
        if self._absent is not None:
            np.equal(inputs[3].reshape(self._absent.shape), 0, out=self._absent)
        for block in self._blocks:
            weights, sums = self._weights[block], self._sums[block]
            query, row = self._query[: len(weights)], self._row[: len(weights)]
            # The query is scaled, not the scores: d numbers for each target are mostly fewer than `sources` of them.
            np.multiply(q[block], self._scale, out=query)
            np.matmul(query, k[block].swapaxes(2, 3), out=weights)
            if self._absent is not None:
                np.copyto(weights, self._low, where=self._absent[block])
            # Behind the mask of absent sources, whose finite number would bring later ones back from -inf.
            if self._mask is not None:
                np.add(weights, self._mask, out=weights)
            self._mean(weights, v[block], row, sums, output[block], block)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        q, k, v, y, g = (array.swapaxes(1, 2) for array in (*inputs[:3], output, gradient))
        for_q, for_k, for_v = (None if array is None else array.swapaxes(1, 2) for array in wanted[:3])
        for target in wanted[3:]:
            if target is not None:
                target.fill(0)
        for block in self._blocks:
            weights = self._weights[block]
            count = len(weights)
            scaled, slopes = self._gradient[:count], self._slopes[:count]
            np.divide(g[block], self._sums[block], out=scaled)
            if for_v is not None:
                np.matmul(self._counted(weights, slopes, block).swapaxes(2, 3), scaled, out=for_v[block])
            if for_q is None and for_k is None:
                continue
            np.matmul(scaled, v[block].swapaxes(2, 3), out=slopes)
            self._counted(slopes, slopes, block)
            # The sum over sources of weight times slope is g' y: y has summed over the sources already.
            np.multiply(scaled, y[block], out=self._product[:count])
            np.matmul(self._product[:count], self._ones_of_values, out=self._row[:count, ..., 0])
            np.subtract(slopes, self._row[:count], out=slopes)
            np.multiply(slopes, weights, out=slopes)
            if self._absent is not None:
                # Their scores were overwritten, so nothing follows from them, also where all weights are equal.
                np.copyto(slopes, 0, where=self._absent[block])
            if for_q is not None:
                np.matmul(slopes, k[block], out=for_q[block])
                np.multiply(for_q[block], self._scale, out=for_q[block])
            if for_k is not None:
                # Scaled once more rather than kept: forward's is in scratch memory, which other operations have used since.
                np.multiply(q[block], self._scale, out=self._query[:count])
                np.matmul(slopes.swapaxes(2, 3), self._query[:count], out=for_k[block])

    def _mean(self, weights: Array, v: Array, row: Array, sums: Array, out: Array, block: slice | None = None) -> None:
        """Write the means of `v` by weights, scores at first, into `out`; `row` is work space for a number of each target."""
        # the greatest score of a row becomes 0, so that exp cannot overflow
        np.subtract(weights, maximum_of_rows(weights, row), out=weights)
        np.exp(weights, out=weights)
        # A product with ones: the BLAS sums rows faster than a reduction of NumPy over the last axis.
        np.matmul(weights, self._ones[: weights.shape[3]], out=sums[..., 0])
        # Multiplied before the division by the sums, which then takes e numbers for each target and not `sources`.
        np.matmul(weights if block is None else self._counted(weights, self._slopes[: len(weights)], block), v, out=out)
        np.divide(out, sums, out=out)

    def _counted(self, weights: Array, work: Array, block: slice) -> Array:
        """Return weights of samples as they count in the means, here as they are; `work` is memory for them, or their own."""
        return weights


class DropoutAttention(Attention):
    """Attention of which training leaves out single weights, each with probability `rate`; the others grow by 1 / (1 - rate).

    The means are those by weights m softmax(..), with m as of `DropoutOperation`, keyed in the same way. Outside training it is
    `Attention`.

    Args:
        causal: as of `Attention`.
        rate: probability of each weight to be left out, from 0 to below 1.
    """

    by_sample: ClassVar[Sequence[str]] = ("_active", "_dropped")

    def __init__(self, causal: bool = False, rate: float = 0.0) -> None:
        super().__init__(causal)
        self.rate = rate
        self._active = False

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        # Own memory, not scratch, and in training alone: as that of `Noise`.
        batch, *others = self._weights.shape
        self._dropped = self._lasting.empty((batch if self.training else 0, *others), dtype)
        self._draws = self.scratch.empty((min(DRAWS, self._dropped.size),), np.dtype(np.float32))

    def begin(self, mode: Mode, position: int) -> None:
        self._active = mode.training and self.rate > 0
        if self._active:
            write_mask(mode.key, position, self.rate, self._draws, self._dropped)

    def _counted(self, weights: Array, work: Array, block: slice) -> Array:
        return np.multiply(weights, self._dropped[block], out=work) if self._active else weights


class CachedAttention(Attention):
    """Causal attention of the next positions of sequences to themselves and to all before them, which it has kept.

    Inputs: q, k and v as those of `Attention`, all of the next positions. Forward keeps k and v behind those of the positions
    before, so a position costs one row of scores and no product with the sequence. There are gradients at the beginning only,
    where this is `Attention(causal=True)`.

    Args:
        place: number of positions before the next ones; it moves when all operations of a run have ended.
        keys: memory for the keys (sequences, heads, positions, d), for as many sequences and positions as there may be.
        values: that for the values (sequences, heads, positions, e).
    """

    def __init__(self, place: Place, keys: Array, values: Array) -> None:
        super().__init__(causal=True)
        self._place, self._keys, self._values = place, keys, values

    def infer(self, *shapes: Shape) -> Shape:
        found = super().infer(*shapes)
        _check("key", shapes[1], "query", shapes[0], (1,))
        return found

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return False

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        batch, steps, heads, depth = shapes[0]
        most = self._keys.shape[2]
        self._ones = np.ones(most, dtype)
        self._scaled = self.scratch.empty((batch, heads, steps, depth), dtype)
        self._greatest = self.scratch.empty((batch, heads, steps, 1), dtype)
        # Flat: its beginning is a contiguous matrix for any number of positions so far.
        self._scores = self.scratch.empty((batch * heads * steps * most,), dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        q, k, v, output = (array.swapaxes(1, 2) for array in (*inputs, out))
        batch, heads, steps, _ = q.shape
        start = self._place.done
        end = start + steps
        keys, values = self._keys[:batch, :, :end], self._values[:batch, :, :end]
        np.copyto(keys[:, :, start:], k)
        np.copyto(values[:, :, start:], v)
        # Nothing lies before: the plain causal attention, which leaves behind what backward reads.
        if not start:
            super().forward(inputs, out)
            return
        scores = self._scores[: batch * heads * steps * end].reshape(batch, heads, steps, end)
        np.multiply(q, self._scale, out=self._scaled)
        np.matmul(self._scaled, keys.swapaxes(2, 3), out=scores)
        # A single position comes after all others, so nothing is hidden from it.
        if steps > 1 and self._mask is not None:
            later = scores[..., start:]
            np.add(later, self._mask, out=later)
        self._mean(scores, values, self._greatest, self._sums, output)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        if self._place.done:
            raise TypeError(f"CachedAttention has no gradients behind the first positions, got {self._place.done} before")
        super().backward(inputs, output, gradient, wanted)


def _check(name: str, shape: Shape, other: str, expected: Shape, axes: Sequence[int]) -> None:
    for axis in axes:
        if shape[axis] != expected[axis]:
            raise ValueError(
                f"Attention: axis {axis} of the {name} must have the length {expected[axis]} as in the {other} of shape "
                f"{expected}, got {shape[axis]} in shape {shape}"
            )
