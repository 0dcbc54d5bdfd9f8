"""How a job process that goes through several rounds connects with its peers, in each round anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from network.dial import Target
from network.errors import NetworkError, PeerLost, Rejected, TimedOut
from network.keys import Key
from network.nodes import Address
from network.session import Session

from ..calling import call_all
from ..host import host_name
from ..identity import process_name
from .lobby import Lobby

MEET_SECONDS = 30.0  # for all of a round to be connected
CALL_SECONDS = 1.0  # for one call, which then is repeated
_LOOK_SECONDS = 0.05


def peer_target(job: str, key: bytes, caller: int, attempt: int, node: int, place: Sequence[str]) -> Target:
    """How node `caller` calls the process of `node`; `place` is its agent's address, its host, and a path there."""
    address, host, unix_path = place
    return Target(
        Address.parse(address),
        Key(key),
        "peer",
        "peer",
        process_name(job, node),
        node,
        {"node": caller, "attempt": attempt},
        unix_path if host == host_name() else "",
    )


class Meetings:
    """Brings the processes of a round together, whichever they are. The higher id calls the lower one.

    `place` tells others where the process is: the address of its agent, its host, and a path there for peers on this host;
    `keys` are those that it shares with the nodes that it may call.
    """

    def __init__(self, job: str, node: int, keys: Mapping[int, bytes], place: Sequence[str], lobby: Lobby) -> None:
        self.node = node
        self.place = list(place)
        self._job, self._keys, self._lobby = job, keys, lobby

    def meet(
        self, attempt: int, places: Mapping[int, Sequence[str]], go_on: Callable[[], bool], limit: float = MEET_SECONDS
    ) -> dict[int, Session]:
        """Sessions with all other nodes of `places`, which belong to the caller. Who calls for an earlier attempt is refused.

        `go_on` is asked again and again whether the round is still to be; it may show that this process lives.
        Raises: PeerLost, TimedOut, Rejected for a node that was not named as one of the job; nothing stays open then.
        """
        unknown = [node for node in places if node < self.node and node not in self._keys]
        if unknown:
            raise Rejected(f"Node {self.node} shares no key with nodes {unknown}, so it cannot call them.")
        self._lobby.begin(attempt)
        deadline = time.monotonic() + limit
        met: dict[int, Session] = {}
        try:
            while True:
                for node, session in self._lobby.take(attempt).items():
                    if node in places:
                        met[node] = session
                    else:  # of the job, but not of this round
                        session.close()
                missing = [node for node in places if node != self.node and node not in met]
                if not missing:
                    return met
                if not go_on():
                    raise PeerLost(missing[0], places[missing[0]][0], f"round {attempt + 1} was given up")
                if time.monotonic() >= deadline:
                    raise TimedOut(f"{', '.join(f'node {node} at {places[node][0]}' for node in missing)} to meet", limit)
                met.update(self._call(attempt, {node: places[node] for node in missing if node < self.node}))
                if len(met) < len(places) - 1:
                    self._lobby.wait(_LOOK_SECONDS)
        except BaseException:
            self._lobby.begin(attempt + 1)  # who calls for this one now would take itself to have met us
            for session in met.values():
                session.close()
            raise

    def close(self) -> None:
        """Nobody gets in any more."""
        self._lobby.close()

    def _call(self, attempt: int, places: Mapping[int, Sequence[str]]) -> dict[int, Session]:
        """Call once; who does not answer is called again later, until the round is given up."""
        try:
            targets = {
                node: peer_target(self._job, self._keys[node], self.node, attempt, node, place)
                for node, place in places.items()
            }
            return call_all(targets, CALL_SECONDS)[0]
        except NetworkError:  # an address that no name server knows just now
            return {}
