"""A channel that leads nowhere: it keeps what it is given, and its wire takes bytes when the test says so."""

from __future__ import annotations

from collections.abc import Collection

from network.wire import Sent
from parallel_sgd.engine.channel import Key

SIZE = Sent(100, 10)


class StubChannel:
    """Attributes: `here`, the peers; `size` of every packet, None where the node that it is for is gone; `taken`, whether the
    wire has taken all; `posted` and `flushes`, what was done."""

    def __init__(self, node_id: int = 0, here: Collection[int] = (), size: Sent | None = SIZE) -> None:
        self.node_id, self.here, self.size = node_id, set(here), size
        self.posted: list[tuple[int, Key, object]] = []
        self.flushes = 0
        self.taken = True

    def peers(self) -> set[int]:
        return self.here

    def transport(self, _peer: int) -> str:
        return "tcp"

    def suspects(self) -> set[int]:
        return set()

    def post(self, target: int, key: Key, content: object) -> Sent | None:
        self.posted.append((target, key, content))
        return self.size

    def flush(self) -> None:
        self.flushes += 1

    def poll(self) -> None:
        pass

    def flushed(self) -> bool:
        return self.taken
