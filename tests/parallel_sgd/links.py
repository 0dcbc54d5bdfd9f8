"""Links that lose packets."""

from __future__ import annotations

from collections.abc import Callable

Key = tuple[int, ...]
Link = Callable[[int, int, Key], tuple[float, ...]]


def lost_once(when: Callable[[int, int, Key], bool]) -> Link:
    """Of the packets for which `when(sender, receiver, key)` holds, loses the first of each key and link; keys hold attempt,
    epoch, batch and variable."""
    seen: set[tuple[int, int, Key]] = set()

    def link(sender: int, receiver: int, key: Key) -> tuple[float, ...]:
        again = (sender, receiver, key) in seen
        seen.add((sender, receiver, key))
        return () if when(sender, receiver, key) and not again else (0.0,)

    return link


def without(senders: tuple[int, ...]) -> Link:
    """Nothing of what these nodes send arrives."""
    return lambda sender, *_: () if sender in senders else (0.0,)
