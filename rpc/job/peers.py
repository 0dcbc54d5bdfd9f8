"""Peers of a job process: how the processes find and wait for each other, in each round anew, and which of them are in
doubt.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from network.controller import Controller
from network.dial import Target
from network.errors import NetworkError, PeerLost, Rejected, TimedOut
from network.keys import Key
from network.nodes import Address
from network.session import Session
from network.transport import busy_poll

from ..dialing import dial_processes
from ..liveness.limits import CALL_SECONDS, MEET_SECONDS, SUSPECT_SECONDS
from ..support.identity import host_name, process_name
from ..support.processors import usable_cores

_LOOK_SECONDS = 0.05


def peer_target(
    job: str, key: bytes, caller: int, attempt: int, node: int, place: Sequence[str], over_tcp: bool = False
) -> Target:
    """Make the target by which a node calls the process of another one.

    Args:
        job: id of the job.
        key: bytes of the key that the two nodes share.
        caller: number of the calling node.
        attempt: number of the attempt.
        node: number of the called node.
        place: address of its agent, its host, and a path there.
        over_tcp: whether to keep from the path, though the node be on this host.
    """
    address, host, unix_path = place
    return Target(
        Address.parse(address),
        Key(key),
        "peer",
        "peer",
        process_name(job, node),
        node,
        {"node": caller, "attempt": attempt},
        # a path leads somewhere on its own host only
        unix_path if host == host_name() and not over_tcp else "",
    )


class PeerConnector:
    """Connector of the processes of a round, whichever they are. The higher id calls the lower one.

    Args:
        job: id of the job.
        node: id of this node.
        keys: those that it shares with the nodes that it may call.
        place: where others reach the process: the address of its agent, its host, and a path there for peers on this host.
        pending: sessions of peers that have called.
    """

    def __init__(self, job: str, node: int, keys: Mapping[int, bytes], place: Sequence[str], pending: PendingPeers) -> None:
        self.node = node
        self.place = list(place)
        self._job, self._keys, self._pending = job, keys, pending

    def meet(self, attempt: int, places: Mapping[int, Sequence[str]], go_on: Callable[[], bool]) -> dict[int, Session]:
        """Open sessions with all other nodes of a round, which belong to the caller. Calls for an earlier attempt are refused.

        Args:
            attempt: number of the round.
            places: [address, host, path] of all nodes, this one included.
            go_on: asked again and again whether the round is still to be; it may show that this process lives.

        Raises: PeerLost, TimedOut, Rejected for a node that was not named as one of the job; nothing stays open then.
        """
        # before anything is opened
        unknown = [node for node in places if node < self.node and node not in self._keys]
        if unknown:
            raise Rejected(f"Node {self.node} shares no key with nodes {unknown}, so it cannot call them.")
        # first: calls of earlier rounds are refused while this one gathers
        self._pending.begin(attempt)
        deadline = time.monotonic() + MEET_SECONDS
        met: dict[int, Session] = {}
        try:
            while True:
                for node, session in self._pending.take(attempt).items():
                    if node in places:
                        met[node] = session
                    else:  # of the job, but not of this round
                        session.close()
                missing = [node for node in places if node != self.node and node not in met]
                if not missing:
                    return met
                # before the limit, so that a round that was given up is told as such
                if not go_on():
                    raise PeerLost(missing[0], places[missing[0]][0], f"round {attempt + 1} was given up")
                if time.monotonic() >= deadline:
                    raise TimedOut(
                        f"{', '.join(f'node {node} at {places[node][0]}' for node in missing)} to meet", MEET_SECONDS
                    )
                # called each time round: a peer's process may not be there yet
                met.update(self._call(attempt, {node: places[node] for node in missing if node < self.node}))
                if len(met) < len(places) - 1:
                    self._pending.wait(_LOOK_SECONDS)
        except BaseException:
            self._pending.begin(attempt + 1)  # a node that calls for this one now would take itself to have met us
            for session in met.values():
                session.close()
            raise

    def close(self) -> None:
        self._pending.close()

    def _call(self, attempt: int, places: Mapping[int, Sequence[str]]) -> dict[int, Session]:
        """Call once; nodes that do not answer are called again later, until the round is given up."""
        try:
            targets = {
                node: peer_target(self._job, self._keys[node], self.node, attempt, node, place)
                for node, place in places.items()
            }
            # its errors are left: the limit of the round names those that are missing
            return dial_processes(targets, CALL_SECONDS)[0]
        except NetworkError:  # an address that no name server knows just now
            return {}


MOST_WAITING = 1024  # a call beyond that is refused


class PendingPeers:
    """Sessions of peers that have called and wait to be met, by attempt and node. Any thread may call everything.

    An attempt is open from the first call on, so that the first node to hear of a round may call at once; `begin` closes all
    sessions of earlier ones: a node that was left behind does not get in any more.
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, int], Session] = {}
        self._attempt = 0
        self._arrived = threading.Condition()

    def arrive(self, attempt: object, node: int | None, session: Session) -> bool:
        """Take in the `session` of node `node`, which has proven its key. False, and the session is not ours, when it comes
        too late, or is none of a round.
        """
        if type(attempt) is not int or node is None or node < 0:
            return False
        with self._arrived:
            # of a round to come, too: its first member may have heard of it before us
            if attempt < self._attempt or len(self._waiting) >= MOST_WAITING:
                return False
            earlier = self._waiting.pop((attempt, node), None)
            if earlier is not None:  # it has called again because that call came to nothing
                earlier.close()
            self._waiting[attempt, node] = session
            self._arrived.notify_all()
            return True

    def begin(self, attempt: int) -> None:
        """Begin `attempt` here: calls for an earlier one are refused from now on."""
        with self._arrived:
            self._attempt = attempt
            for key in [key for key in self._waiting if key[0] < attempt]:
                self._waiting.pop(key).close()

    def take(self, attempt: int) -> dict[int, Session]:
        with self._arrived:
            keys = [key for key in self._waiting if key[0] == attempt]
            return {key[1]: self._waiting.pop(key) for key in keys}

    def wait(self, seconds: float) -> None:
        with self._arrived:
            self._arrived.wait(seconds)

    def close(self) -> None:
        self.begin(1 << 62)


class Suspects:
    """Suspected peers, noted by one thread, asked for by another. A doubt that is neither confirmed nor taken back ends by
    itself.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[int, float] = {}

    def note(self, node: int, seconds: float) -> None:
        """Note that within `seconds` it will be known whether `node` is stuck; 0: it is well again."""
        with self._lock:
            self._until.pop(node, None)
            if seconds > 0:
                self._until[node] = self._clock() + seconds + SUSPECT_SECONDS

    def __call__(self) -> list[int]:
        """Return the nodes of which a doubt stands, ascending."""
        now = self._clock()
        with self._lock:
            return sorted(node for node, until in self._until.items() if now < until)


LOOKING_SECONDS = 0.0002  # before a wait sleeps


def look_if_cores_suffice(controller: Controller, places: Iterable[Sequence[str]]) -> None:
    """Let `controller` look before it sleeps, if this host has a core for each process; see `network.transport.busy_poll`.

    `places` are [address, host, path] of all processes that work together, this one included.
    """
    # looking where processes share cores takes time from those that compute
    here = sum(host == host_name() for _, host, _ in places)
    if here <= 1 or here <= usable_cores():
        controller.use_wait(busy_poll(LOOKING_SECONDS))
        controller.look_seconds = LOOKING_SECONDS
