"""Whether samples and gradients are finite, and which sample is not."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nn.arrays import Array

SMALL = 8192
"""Elements of which a mask is made at once; more would be memory that grows with the model."""


def all_finite(array: Array) -> bool:
    """Whether every element is finite."""
    if array.size <= SMALL:
        return int(np.count_nonzero(np.isfinite(array))) == array.size
    flat = array.reshape(-1)
    with np.errstate(over="ignore"):
        squares = np.dot(flat, flat)
    # one pass without memory, which may overflow although all elements are finite
    return math.isfinite(squares) or bool(np.isfinite(flat).all())


def first_bad_sample(x: Array, given: Array | None, places: Sequence[int] | Array | None) -> str | None:
    """Say which sample is not finite, and where in it; None if all are.

    `x` (batch, ...) is what the model computes with, `given` the samples before they were converted to its type, and
    `places` their numbers in the caller's array, where there is one.
    """
    bad = np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(axis=1))
    if not bad.size:
        return None
    row = int(bad[0])
    inner = tuple(np.argwhere(~np.isfinite(x[row]))[0].tolist())
    value = x[row][inner] if given is None else given[row][inner]
    sample = row if places is None else int(places[row])
    where = "" if places is not None else " of the batch"
    index = ", ".join(str(place) for place in (sample, *inner))
    # what is finite before the conversion was too large for it
    reason = f", which overflows in {x.dtype}" if np.isfinite(value) else ""
    return f"sample {sample}{where} has {value:g} at x[{index}]{reason}"


def not_finite(owner: str, x: Array, given: Array, places: Sequence[int] | Array | None) -> ValueError:
    """Return the error for samples that are not all finite; see `first_bad_sample`."""
    return ValueError(f"{owner} must hold finite numbers: {first_bad_sample(x, given, places)}")
