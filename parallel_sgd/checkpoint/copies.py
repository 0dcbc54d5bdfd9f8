"""Copies of live arrays, in memory that is used again, because the first touch of new memory costs more than the copy."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nn.arrays import empty

Array = NDArray[Any]


class Copies:
    """Gives copies of arrays by name; `put_back` (from any thread) tells that one of its results is not needed any more."""

    def __init__(self) -> None:
        self._free: list[dict[str, Array]] = []
        self._preparing: threading.Thread | None = None

    def prepare(self, live: Mapping[str, Array]) -> None:
        """Get memory for copies of such arrays, in a thread, once: the first `take` then finds it."""
        if self._preparing is None:
            kinds = {name: (array.shape, array.dtype) for name, array in live.items()}
            self._preparing = threading.Thread(target=self._touch, args=(kinds,), name="checkpoint-memory", daemon=True)
            self._preparing.start()

    def _touch(self, kinds: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]) -> None:
        rooms = {name: empty(*kind) for name, kind in kinds.items()}
        for room in rooms.values():
            room.fill(0)
        self._free.append(rooms)

    def take(self, live: Mapping[str, Array]) -> dict[str, Array]:
        """A copy of every array."""
        rooms = self._free.pop() if self._free else {}
        copies: dict[str, Array] = {}
        for name, array in live.items():
            room = rooms.get(name)
            if room is None or room.shape != array.shape or room.dtype != array.dtype:
                room = empty(array.shape, array.dtype)
            np.copyto(room, array)
            copies[name] = room
        return copies

    def put_back(self, copies: dict[str, Array]) -> None:
        """The memory of what `take` gave is free again."""
        self._free.append(copies)

    def close(self) -> None:
        """End the thread; idempotent."""
        if self._preparing is not None:
            self._preparing.join()
