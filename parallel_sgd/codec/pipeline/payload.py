"""The bytes of a packet: what stages write one after the other, and read in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from parallel_sgd.unusable import Unusable

Array = NDArray[Any]


class PayloadError(Unusable):
    """A payload is not what the pipeline writes."""


class Writer:
    """Collects what stages write; nothing is copied before `join`."""

    def __init__(self) -> None:
        self._parts: list[Array] = []
        self.size = 0

    def write(self, values: Array) -> None:
        """Append an array in little-endian byte order; it must stay unchanged until `join`."""
        little = values.dtype.newbyteorder("<")
        part = np.ascontiguousarray(values, little).reshape(-1).view(np.uint8)
        self._parts.append(part)
        self.size += part.size

    def join(self) -> NDArray[np.uint8]:
        """Return all that was written as one array of its own, and begin anew."""
        payload = np.empty(self.size, np.uint8)
        start = 0
        for part in self._parts:
            payload[start : start + part.size] = part
            start += part.size
        self._parts.clear()
        self.size = 0
        return payload


class Reader:
    """Gives back what a `Writer` wrote. Raises PayloadError where there is less than a stage asks for."""

    def __init__(self, payload: Array) -> None:
        if payload.dtype != np.uint8 or payload.ndim != 1:
            raise PayloadError(f"a payload must be a row of bytes, got {payload.dtype} {payload.shape}")
        self._payload = payload
        self._at = 0

    @property
    def left(self) -> int:
        """The number of bytes that were not read yet."""
        return int(self._payload.size) - self._at

    def read(self, count: int, dtype: DTypeLike) -> Array:
        """Return the next `count` values of a type, as a view where they lie aligned."""
        kind = np.dtype(dtype).newbyteorder("<")
        size = count * kind.itemsize
        if count < 0 or size > self.left:
            raise PayloadError(f"a payload has {self.left} bytes left where {count} values of {kind} should be")
        part = self._payload[self._at : self._at + size]
        self._at += size
        values = part.view(kind)
        return values if values.flags.aligned else values.copy()

    def finish(self) -> None:
        """Raise PayloadError unless everything was read."""
        if self.left:
            raise PayloadError(f"a payload has {self.left} bytes too many")
