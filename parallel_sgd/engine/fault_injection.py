"""Faults that a job asks for (`parallel(fault=...)`), done to its own processes and connections when their time has come."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from network import faults  # it loads its parts when they are asked for: a job without faults needs none of them
from network.transport import SocketLink
from rpc import Communication

if TYPE_CHECKING:
    from network.faults import FaultPlan, Proxy, Route


class FaultInjector:
    """Injector of the faults of one node. Call it at the beginning of every batch; it may not return. True: the samples of this
    batch are to be spoiled.

    `routes` are the connections on which this node sends and something shall happen, by peer.
    """

    def __init__(self, plan: FaultPlan, node: int, attempt: int, routes: dict[int, Route]) -> None:
        self._plan, self._node, self._attempt, self._routes = plan, node, attempt, routes
        self._spoiled = False

    def __call__(self, epoch: int, batch: int) -> bool:
        self._spoiled = False
        for link in self._plan.links_at(self._node, epoch, batch, self._attempt):
            route = self._routes.get(link.receiver)
            if route is not None:  # after a failure the job may go on without that node
                route.inject(link)
        for fault in self._plan.at(self._node, epoch, batch, self._attempt):
            faults.perform(fault, poison=self._spoil)
        return self._spoiled

    def _spoil(self) -> None:
        self._spoiled = True


def disturbed(text: str, node: int) -> set[int]:
    """Return the nodes that have a connection with `node` for which the plan has faults, in whichever direction."""
    # without a plan nothing of `network.faults` is loaded (a worker's budget of modules)
    planned = faults.FaultPlan.parse(text).faults if text else ()
    links = ({fault.sender, fault.receiver} for fault in planned if isinstance(fault, faults.LinkFault))
    return set[int]().union(*(ends for ends in links if node in ends)) - {node}


@contextlib.contextmanager
def injected(text: str, seed: int, com: Communication) -> Iterator[FaultInjector | None]:
    """Yield the injector of this node for the plan in `text`, while the block runs; None where nothing is planned."""
    if not text:
        yield None
        return
    plan = faults.FaultPlan.parse(text, seed)
    node = com.node_id
    peers = {
        fault.receiver if node == fault.sender else fault.sender
        for fault in plan.faults
        if isinstance(fault, faults.LinkFault) and (node == fault.sender or (fault.both and node == fault.receiver))
    }
    if not peers:
        yield FaultInjector(plan, node, com.attempt, {})
        return
    com.controller.flush(timeout=60.0)  # packets in line go undisturbed
    # seeded, so that losses and delays are drawn alike in every run (INV-13)
    with faults.Proxy(plan.seed) as proxy:
        # the plan may name a node that this attempt does without
        routes = {peer: _interpose(proxy, com, peer) for peer in sorted(peers) if peer in com.controller.sessions}
        yield FaultInjector(plan, node, com.attempt, routes)


def _interpose(proxy: Proxy, com: Communication, peer: int) -> Route:
    """Lead the connection with `peer` through the proxy."""
    session = com.controller.sessions[peer]
    link = session.link
    if not isinstance(link, SocketLink):
        # `over_tcp` has asked for sockets; a link in memory would be a fault of this project
        raise TypeError(f"Faults of links need sockets, got {type(link).__name__}.")
    name = link.peer
    ours, route = proxy.interpose(link.detach(), frames=True, sealed=session.sealed, sealer=session.let_seal())
    session.link = SocketLink(ours, name)
    # so that the accounts name the transport as before
    session.link.transport = link.transport
    return route
