"""Start of a node of a job on agents: its nodes agree on the position where all resume, telling each other which checkpoints
they hold and sending those that others lack; else a node takes the checkpoint that the submitter has sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from network.message import Message
from rpc import Communication

from .choose import CheckpointOffer, Choice, choose
from .locate import FOLDER, HeldCheckpoints, attempt_of, left_behind, neighbours, stores_of
from .schedule import Kept
from .snapshot import CheckpointError, Snapshot
from .state import Resumption
from .store import Store


@dataclass(frozen=True)
class StartPoint:
    """Start of a node: at the beginning, or with `resumption`; `said` in words, "" for a job that was never interrupted.

    `early` are messages for the exchange that came while the nodes agreed.
    """

    resumption: Resumption | None = None
    said: str = ""
    early: Sequence[tuple[int, Message]] = field(default_factory=tuple)


def own_store(com: Communication, keep_every: Kept = None) -> Store:
    return Store(com.output_directory.parent / FOLDER, com.job, keep_every=keep_every)


def begin(
    com: Communication,
    workers: Sequence[int],
    server: int | None,
    earlier: Sequence[str],
    given: Mapping[str, Any] | None,
    start_limit: float,
    logger: logging.Logger,
) -> StartPoint:
    """Find out, together with the other nodes, where this one begins.

    A later attempt goes on from the checkpoints of its job, a job that continues the ended jobs `earlier` from theirs, else
    from the checkpoint that the submitter has sent, `given`. `server` is the parameter server, if it remembers anything; a
    server that does not has no part in this. The other nodes have `start_limit` seconds to appear.

    Raises: CheckpointError when `earlier` is to be continued, but no node has a checkpoint of it; PeerLost, TimedOut.
    """
    # it goes on without a state, and the others do not wait for its offers
    if com.node_id not in (*workers, server):
        return StartPoint()
    # the own job first: of equal positions the first counts, and those of an earlier attempt are the job's own
    jobs = [*([com.job] if com.attempt else []), *earlier]
    early: Sequence[tuple[int, Message]] = ()
    if jobs:
        held = HeldCheckpoints([store for job in jobs for store in stores_of(_jobs_folder(com), job)])
        peers = {*workers, *([] if server is None else [server])} - {com.node_id}
        agreement = Agreement(com, sorted(peers), start_limit)
        found = agreement.agree(held, workers, server)
        early = agreement.early
        if found is not None:
            choice, snapshot = found
            # checkpoints after the choice belong to a past that is given up; left, they could be chosen after the next failure
            own_store(com).cut(choice.position)
            logger.info("%s", choice.said)
            sent = None
            if snapshot is not None:
                others = _others(com, held, min(workers), snapshot.header.attempt) if com.node_id >= 0 else []
                sent = Resumption(snapshot, choice.whole, held.tables(com.node_id), others)
            return StartPoint(sent, choice.said, early)
    if given is not None:
        logger.info("%s", given["said"])
        content = given["content"]
        # the submitter's paths mean something only where the node is on the same machine
        own, *others = given["tables"] or [""]
        tables = Path(own) if own else None
        state = None if content is None else Snapshot.read(memoryview(content))
        sent = None if state is None else Resumption(state, given["whole"], tables, [Path(other) for other in others])
        return StartPoint(sent, given["said"], early)
    # in a later attempt it is no error: the failure may have come before the first checkpoint
    if earlier and not com.attempt:
        raise CheckpointError(
            f"'resume' names job {earlier[0]}, of which no node of this job has a checkpoint: it has ended before the first "
            f"one, or 'checkpoint_every' was None"
        )
    said = "There is no checkpoint yet: training starts again from epoch 1." if com.attempt else ""
    if said:
        logger.info("%s", said)
    return StartPoint(None, said, early)


def _others(com: Communication, held: HeldCheckpoints, first: int, since: int) -> list[Path]:
    """Return the folders of the tables that this node carries on: those on its agent that no node of this attempt continues; of
    local workers, whose folders lie side by side, the `first` carries all.
    """
    every = neighbours(jobs := _jobs_folder(com))
    if not every:
        # a node of this attempt continues the tables of its number where its agent has had that before
        staying = (store.folder.parent for store in stores_of(jobs, com.job) if attempt_of(store.folder.parent) == com.attempt)
        return held.others(
            [com.node_id, *(int(number) for each in staying if (number := each.name.rpartition(".")[2]).isdecimal())], since
        )
    if com.node_id != first:
        return []
    folders = (store.folder.parent for place in every for store in stores_of(place, com.job))
    return left_behind((folder for folder in folders if attempt_of(folder) != com.attempt), since)


def _jobs_folder(com: Communication) -> Path:
    return com.output_directory.parent.parent


OFFERS, CONTENT = 0, 1
AGREE_SECONDS: Final = 60.0
"""How long a node waits for another one's offers, and for the first megabytes of a checkpoint."""
# slow on purpose: too long a limit delays an error, too short a one ends a good job
_BYTES_PER_SECOND: Final = 1 << 20  # of a slow network


class Agreement:
    """The conversation of one node with `peers`, before training. Messages for the training itself wait in `early`.

    The peers have `start_limit` seconds to appear.
    """

    def __init__(self, com: Communication, peers: Sequence[int], start_limit: float = AGREE_SECONDS) -> None:
        self._com = com
        self._peers = list(peers)
        self._start_limit = start_limit
        self._heard: dict[tuple[int, int], Any] = {}  # (kind, sender): content
        self.early: list[tuple[int, Message]] = []

    def agree(self, held: HeldCheckpoints, workers: Sequence[int], server: int | None) -> tuple[Choice, Snapshot | None] | None:
        """Decide together with the peers.

        Returns: the choice and this node's snapshot, None for a node that starts afresh; or None when no node holds any.

        Raises: PeerLost, TimedOut naming the nodes that did not answer, CheckpointError when a peer sent no valid checkpoint.
        """
        # set at once: a peer that is ready sooner tells its offers, or trains, while this node still reads its disk
        self._com.on_block = self._take
        try:
            return self._agree(held, workers, server)
        finally:
            self._com.on_block = None

    def _agree(
        self, held: HeldCheckpoints, workers: Sequence[int], server: int | None
    ) -> tuple[Choice, Snapshot | None] | None:
        controller, me = self._com.controller, self._com.node_id
        self._wait(lambda: not self._absent(), self._start_limit, lambda: f"node(s) {self._absent()} to appear")
        # plain integers travel; numbers of NumPy do not
        mine = [[int(number) for number in offer] for offer in held.offers]
        for peer in self._peers:
            controller.post(peer, mine, self._head(OFFERS))
        # in line packets wait until they are pushed: from here on the peers can decide
        controller.flush(self._peers, AGREE_SECONDS)
        self._hear(OFFERS, self._peers, AGREE_SECONDS)
        offers = {peer: [_checked_offer(row) for row in self._heard[OFFERS, peer]] for peer in self._peers}
        # every node computes this from the same offers, so nothing needs to be told about it
        choice = choose({me: held.offers, **offers}, workers, server)
        if choice is None:
            return None
        # before the own one is awaited: two nodes that send to each other would both wait
        self._send(choice, held)
        source = choice.sources.get(me)
        if source is None:
            return choice, None
        if source.holder == me:
            return choice, held.load(source.owner, choice.position)
        # the largest offer that could be meant, for the limit of the wait alone
        size = max(o.size for o in offers[source.holder] if (o.owner, o.position) == (source.owner, choice.position))
        self._hear(CONTENT, [source.holder], AGREE_SECONDS + size / _BYTES_PER_SECOND)
        return choice, Snapshot.read(_bytes(self._heard.pop((CONTENT, source.holder))))

    def _send(self, choice: Choice, held: HeldCheckpoints) -> None:
        controller, me = self._com.controller, self._com.node_id
        for node, source in choice.sources.items():
            if source.holder == me and node != me:
                content = np.frombuffer(b"".join(held.load(source.owner, choice.position).pieces()), np.uint8)
                controller.post(node, content, self._head(CONTENT))
                controller.flush([node], AGREE_SECONDS + content.size / _BYTES_PER_SECOND)

    def _take(self, sender: int, message: Message) -> None:
        # the keys of the agreement are its own: all else is for the training, which this peer has begun
        if message.head in (self._head(OFFERS), self._head(CONTENT)):
            self._heard[message.head[3], sender] = message.value
        else:
            self.early.append((sender, message))

    def _head(self, kind: int) -> tuple[int, int, int, int]:
        """Return the key of a message of the agreement; no batch has such a key."""
        # batches count from 0, and the attempt stands first so that late messages of another one are not taken
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


def _checked_offer(row: Any) -> CheckpointOffer:
    # from another process: a number of another type would be compared, or used as an index
    if (
        not isinstance(row, (list, tuple))
        or len(row) != len(CheckpointOffer._fields)
        or not all(type(number) is int for number in row)
    ):
        raise CheckpointError(f"An offer of a checkpoint must be {len(CheckpointOffer._fields)} integers, got {str(row)[:80]}")
    owner, epoch, batch, personal, workers, size = row
    return CheckpointOffer(owner, epoch, batch, bool(personal), workers, size)


def _bytes(content: Any) -> memoryview:
    if not isinstance(content, np.ndarray) or content.dtype != np.uint8:
        raise CheckpointError(f"A checkpoint must come as bytes, got {type(content).__name__}")
    return np.ascontiguousarray(content).data.cast("B")
