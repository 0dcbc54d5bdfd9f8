"""How the nodes of a job tell each other which checkpoints they hold, and send those that others lack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from network.frames import Message
from rpc import Communication

from .choice import Choice, Offer, choose
from .places import Holdings
from .snapshot import CheckpointError, Snapshot

OFFERS, CONTENT = 0, 1
TALK_SECONDS: Final = 60.0
"""How long a node waits for another one's offers, and for the first megabytes of a checkpoint."""
_BYTES_PER_SECOND: Final = 1 << 20  # of a slow network


class Talk:
    """The conversation of one node with `peers`, before training. What comes for the training itself waits in `early`.

    `start_limit` seconds are given to the peers to appear.
    """

    def __init__(self, com: Communication, peers: Sequence[int], start_limit: float = TALK_SECONDS) -> None:
        self._com = com
        self._peers = list(peers)
        self._start_limit = start_limit
        self._heard: dict[tuple[int, int], Any] = {}  # (kind, sender): content
        self.early: list[tuple[int, Message]] = []

    def agree(self, holdings: Holdings, workers: Sequence[int], server: int | None) -> tuple[Choice, Snapshot | None] | None:
        """Decide together with the peers; returns the choice and this node's snapshot, or None when nobody holds any.

        Raises: PeerLost, TimedOut naming who did not answer, CheckpointError when what was sent is no checkpoint.
        """
        self._com.on_block = self._take
        try:
            return self._agree(holdings, workers, server)
        finally:
            self._com.on_block = None

    def _agree(self, holdings: Holdings, workers: Sequence[int], server: int | None) -> tuple[Choice, Snapshot | None] | None:
        controller, me = self._com.controller, self._com.node_id
        self._wait(lambda: not self._absent(), self._start_limit, lambda: f"node(s) {self._absent()} to appear")
        mine = [[int(number) for number in offer] for offer in holdings.offers]
        for peer in self._peers:
            controller.post(peer, mine, self._head(OFFERS))
        controller.flush(self._peers, TALK_SECONDS)
        self._hear(OFFERS, self._peers, TALK_SECONDS)
        offers = {peer: [_offer(row) for row in self._heard[OFFERS, peer]] for peer in self._peers}
        choice = choose({me: holdings.offers, **offers}, workers, server)
        if choice is None:
            return None
        self._send(choice, holdings)
        source = choice.sources.get(me)
        if source is None:
            return choice, None
        if source.holder == me:
            return choice, holdings.load(source.owner, choice.position)
        size = max(o.size for o in offers[source.holder] if (o.owner, o.position) == (source.owner, choice.position))
        self._hear(CONTENT, [source.holder], TALK_SECONDS + size / _BYTES_PER_SECOND)
        return choice, Snapshot.read(_bytes(self._heard.pop((CONTENT, source.holder))))

    def _send(self, choice: Choice, holdings: Holdings) -> None:
        """Give this node's checkpoints to those who lack them."""
        controller, me = self._com.controller, self._com.node_id
        for node, source in choice.sources.items():
            if source.holder == me and node != me:
                content = np.frombuffer(b"".join(holdings.load(source.owner, choice.position).pieces()), np.uint8)
                controller.post(node, content, self._head(CONTENT))
                controller.flush([node], TALK_SECONDS + content.size / _BYTES_PER_SECOND)

    def _take(self, sender: int, message: Message) -> None:
        if message.head in (self._head(OFFERS), self._head(CONTENT)):
            self._heard[message.head[3], sender] = message.value
        else:
            self.early.append((sender, message))

    def _head(self, kind: int) -> tuple[int, int, int, int]:
        """No batch has such a key."""
        return self._com.attempt, -1, -1, kind

    def _absent(self) -> list[int]:
        return [peer for peer in self._peers if peer not in self._com.controller.sessions]

    def _hear(self, kind: int, peers: Sequence[int], seconds: float) -> None:
        def missing() -> list[int]:
            return [peer for peer in peers if (kind, peer) not in self._heard]

        what = "tell which checkpoints they hold" if kind == OFFERS else "send a checkpoint"
        self._wait(lambda: not missing(), seconds, lambda: f"node(s) {missing()} to {what}")

    def _wait(self, ready: Callable[[], bool], seconds: float, what: Callable[[], str]) -> None:
        controller = self._com.controller

        def ready_or_lost() -> bool:
            if ready():
                return True
            lost = [peer for peer in self._peers if peer in controller.lost]
            if lost:
                raise controller.loss_of(lost[0])
            return False

        controller.wait_until(ready_or_lost, seconds, what)


def _offer(row: Any) -> Offer:
    if not isinstance(row, (list, tuple)) or len(row) != len(Offer._fields) or not all(type(number) is int for number in row):
        raise CheckpointError(f"An offer of a checkpoint must be {len(Offer._fields)} integers, got {str(row)[:80]}")
    owner, epoch, batch, personal, workers, size = row
    return Offer(owner, epoch, batch, bool(personal), workers, size)


def _bytes(content: Any) -> memoryview:
    if not isinstance(content, np.ndarray) or content.dtype != np.uint8:
        raise CheckpointError(f"A checkpoint must come as bytes, got {type(content).__name__}")
    return np.ascontiguousarray(content).data.cast("B")
