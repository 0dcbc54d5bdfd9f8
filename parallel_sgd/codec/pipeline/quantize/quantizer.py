"""What all quantisers share: they write everything, work in chunks, and keep their buffers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..payload import PayloadError, Reader
from ..stage import Stage, Vector

#: Elements worked on at once: their temporaries stay in the second-level cache, and the overhead of a call does not matter.
CHUNK = 1 << 16

#: Vectors whose scale is smaller become zeros where the quantiser divides by it, since the quotient could overflow.
FLOOR = 2.0**-96

LARGEST = float(np.finfo(np.float32).max)

NOTHING: Vector = np.empty(0, np.float32)
NOTHING.setflags(write=False)


def chunks(n: int, size: int = CHUNK) -> Iterator[slice]:
    """Cut n elements into pieces of `size` and a rest."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


class Quantizer(Stage):
    """A stage that writes some bits for each value and carries none: what comes after it would see nothing."""

    def __init__(self) -> None:
        self._rooms: dict[str, NDArray[Any]] = {}

    def carried(self, n: int) -> int:
        """Return 0."""
        return 0

    def _room(self, name: str, count: int, dtype: type[np.generic]) -> NDArray[Any]:
        """Return a buffer of its own for each name, the same one in every call; its content is arbitrary."""
        room = self._rooms.get(name)
        if room is None or room.size < count:
            room = self._rooms[name] = np.empty(count, dtype)
        return room[:count]

    def _scales(self, reader: Reader, count: int, levels: int = 1) -> Vector:
        """Read scales. Raises PayloadError where one is negative or not finite, or `levels` times one would not be."""
        scales: Vector = reader.read(count, np.float32)
        if count:
            low, high = float(scales.min()), float(scales.max())
            if not (low >= 0 and high * levels <= LARGEST):  # both are NaN where any is
                wrong = high if low >= 0 else low
                raise PayloadError(f"{type(self).__name__} sends scales that are finite and not negative, got {wrong:g}")
        return scales
