"""When each of several nodes was heard last, for whoever looks often; the clock is the caller's."""

from __future__ import annotations

from collections.abc import Iterable

LOOK_SECONDS = 0.1
_PAUSE_SECONDS = 1.0  # a look that comes so much too late means that we were suspended or busy, and could not hear anybody


class Heartbeats:
    """Nodes that are silent for more than `limit` seconds are found by `look`, within `LOOK_SECONDS` if that is called by
    `deadline`."""

    def __init__(self, nodes: Iterable[int], limit: float, now: float) -> None:
        self._limit = limit
        self._heard = dict.fromkeys(nodes, now)
        self._looked = now

    @property
    def deadline(self) -> float | None:
        """When to look next; None when nobody is listened to."""
        return self._looked + LOOK_SECONDS if self._heard else None

    def expect(self, nodes: Iterable[int], now: float) -> None:
        """Listen to these nodes, too."""
        if not self._heard:
            self._looked = now
        self._heard.update(dict.fromkeys(nodes, now))

    def hear(self, node: int, now: float) -> None:
        """A sign of life; of a node that is not listened to it is none."""
        if node in self._heard:
            self._heard[node] = now

    def forget(self, node: int) -> None:
        """Listen to the node no more."""
        self._heard.pop(node, None)

    def look(self, now: float) -> list[tuple[int, float]]:
        """The nodes that are silent, and for how many seconds; they are forgotten. All that came before `now` was heard."""
        late = now - self._looked - LOOK_SECONDS
        self._looked = now
        if late > _PAUSE_SECONDS:
            self._heard = {node: min(now, heard + late) for node, heard in self._heard.items()}
        silent = [(node, now - heard) for node, heard in sorted(self._heard.items()) if now - heard > self._limit]
        for node, _ in silent:
            self.forget(node)
        return silent
