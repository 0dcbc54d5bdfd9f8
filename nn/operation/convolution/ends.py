"""What comes behind the product of a convolution: bias and rectifier, forward and backward, block by block."""

import math

import numpy as np

from nn.arrays import Array
from nn.operation.convolution.problem import Problem
from nn.scratch import Scratch


class Ends:
    """Adds the bias and rectifies blocks of the output; takes both back from blocks of its gradient.

    `images` is the largest number of images in a block, `cells` the largest number of rows that `add_bias_gradient` gets.
    """

    def __init__(self, problem: Problem, images: int, cells: int, scratch: Scratch) -> None:
        line = problem.columns.positions * problem.filters
        self._bias = scratch.empty((line,), problem.dtype) if problem.biased else None
        self._ones = np.ones((1, cells), problem.dtype) if problem.biased else None
        self._sum = scratch.empty((1, problem.filters), problem.dtype) if problem.biased else None
        # np.maximum is three times faster with an array of zeros than with the number
        self._zero = np.zeros(line, problem.dtype) if problem.rectified else None
        block = (images, *problem.output[1:])
        self._positive = scratch.empty(block, np.dtype(bool)) if problem.rectified else None

    def begin(self, bias: Array | None) -> None:
        """Take the bias of this call."""
        if self._bias is not None and bias is not None:
            np.copyto(self._bias.reshape(-1, len(bias)), bias)

    def finish(self, value: Array, out: Array) -> None:
        """Write max(value + bias, 0), or what of it there is, into `out`, which may be the same memory."""
        source, target = _lines(value), _lines(out)
        if self._bias is not None:
            np.add(source, self._bias, out=target)
        elif value is not out:
            np.copyto(target, source)
        if self._zero is not None:
            np.maximum(target, self._zero, out=target)

    def start(self, gradient: Array, output: Array, target: Array) -> None:
        """Write the gradient before the rectifier into `target`."""
        if self._positive is None:
            np.copyto(target, gradient)
            return
        positive = self._positive[: len(output)]
        np.greater(output, 0, out=positive)
        np.multiply(gradient, positive, out=target)

    def add_bias_gradient(self, rows: Array, first: bool, total: Array) -> None:
        """Add the sum over rows (cells, filters) to the gradient of the bias, which the first block overwrites."""
        if self._ones is None or self._sum is None:
            return
        np.matmul(self._ones[:, : len(rows)], rows, out=self._sum)
        if first:
            np.copyto(total, self._sum[0])
        else:
            np.add(total, self._sum[0], out=total)


def _lines(images: Array) -> Array:
    """Return a view (images, height, width * channels), so that inner loops are long."""
    return images.reshape(*images.shape[:2], math.prod(images.shape[2:]))
