"""Faults of links in a simulated network: delay, jitter, loss, throttle and stall of one direction of a pair of nodes.

The shapes are those of `network.faults`, moved by virtual time. A lost share p of the bytes is sent again, as TCP does, so a
message of S bytes costs the link S / (1 - p): loss shows as goodput.
"""

from __future__ import annotations

import random
from typing import Final

from network.faults.fault import LinkFault
from network.faults.stream import Shape

KINDS: Final = ("delay", "throttle", "lose", "swallow")


class ShapedPair:
    """Direction from a node to another with faults.

    Args:
        seed: of the draws of its jitter.

    Attributes: `shape` (its faults now), and `latest` (no message arrives before: those of a pair stay in order).
    """

    def __init__(self, seed: str) -> None:
        self.shape = Shape()
        self.latest = 0.0
        self._random = random.Random(seed)  # noqa: S311 - the draws are to be the same again

    @property
    def loses_all(self) -> bool:
        """Whether nothing of a message that leaves now ever arrives."""
        return self.shape.swallows or self.shape.loss >= 1.0

    def count_lost(self) -> None:
        """Count a message of which nothing arrives."""
        self.shape.counts["swallow" if self.shape.swallows else "lose"] += 1

    @property
    def rate(self) -> float | None:
        """Most bytes per second that pass now; None: no limit."""
        return 0.0 if self.shape.stalls else self.shape.rate

    def size(self, size: float) -> float:
        """Return the bytes that a message of `size` bytes costs its links."""
        return size / (1.0 - self.shape.loss) if self.shape.loss else size

    def reach(self, moment: float) -> float:
        """Return when a message reaches its receiver that would have at `moment`, behind those before it."""
        shape = self.shape
        if shape.lag or shape.jitter:
            moment += shape.lag + shape.jitter * self._random.random()
            shape.counts["delay"] += 1
        self.latest = max(self.latest, moment)
        return self.latest


class ShapedPairs:
    """All directions of pairs that have, or had, a fault.

    Args:
        seed: of the draws of their jitter.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._pairs: dict[tuple[int, int], ShapedPair] = {}

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def get(self, source: int, target: int) -> ShapedPair | None:
        """Return the direction from a node to another, None when it never had a fault.

        Args:
            source: id of the sending node.
            target: id of the receiving node.
        """
        return self._pairs.get((source, target))

    def begin(self, fault: LinkFault) -> list[tuple[int, int]]:
        """Let a fault begin, and return the directions that have it.

        Raises:
            ValueError: It is no fault that a network without connections has.
        """
        if fault.kind not in KINDS:
            raise ValueError(f"A fault of a simulated network must be one of {', '.join(KINDS)}, got {str(fault)!r}.")
        links = [(fault.sender, fault.receiver), *([(fault.receiver, fault.sender)] if fault.both else [])]
        for source, target in links:
            # a generator for each direction, so that its draws do not depend on messages of others
            pair = self._pairs.setdefault((source, target), ShapedPair(f"{self._seed} {source}>{target}"))
            pair.shape.effect(fault)[0]()
        return links

    def end(self, fault: LinkFault) -> list[tuple[int, int]]:
        """Let a fault end that has begun, and return the directions that had it."""
        links = [(fault.sender, fault.receiver), *([(fault.receiver, fault.sender)] if fault.both else [])]
        for link in links:
            self._pairs[link].shape.effect(fault)[1]()
        return links
