"""What a codec knows of one batch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from parallel_sgd.codec.interfaces import Array

from .collector import Collector
from .exchange import Shard
from .packet import Packet


class Assembly:
    """A vector that is merged in shards."""

    def __init__(self, shards: list[Shard]) -> None:
        self.shards = shards
        self.left = set(range(len(shards)))
        self.whole: Array | None = None

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.shards[-1].stop

    def fill(self, shard: int, value: Array) -> Array | None:
        """Take a merged shard; return the vector when it is complete. Of several shards, `whole` is the room for them."""
        self.left.discard(shard)
        if len(self.shards) == 1:
            self.whole = value
        elif self.whole is not None:
            place = self.shards[shard]
            np.copyto(self.whole[place.start : place.stop], value)
        return None if self.left else self.whole


@dataclass(eq=False)
class Batch:
    """One exchange of one variable.

    `dense`: past all stages. `closed`: the places that this node has merged. `lacking`: what the server said that it lacks.
    `asked`: the nodes that were asked for what is missing. `rooms`: vectors of its own. `views`: packets refer to arrays that
    the next batch changes.
    """

    step: tuple[int, int]
    dense: bool
    sent: list[tuple[list[int], Packet]] = field(default_factory=list)
    collectors: dict[int, Collector] = field(default_factory=dict)
    vectors: dict[int, Assembly] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    lacking: list[int] = field(default_factory=list)
    asked: set[int] = field(default_factory=set)
    rooms: list[Array] = field(default_factory=list)
    views: bool = False
    done: bool = False
    result: Array | None = None

    @property
    def under_way(self) -> list[int]:
        """The places where contributions are missing."""
        return [place for place in self.collectors if place not in self.closed]
