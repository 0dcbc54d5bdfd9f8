"""Candidacy: an election over sockets: its claims and proposals go out, its answers come back, on connections that stay
open.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
from collections.abc import Collection

from network.clock import SystemClock
from network.controller import Controller
from network.errors import NetworkError, PeerLost, ProtocolError, Rejected
from network.keys import Key
from network.nodes import Address, NodeAssignment
from network.request import Request
from network.session import Session, close_gracefully
from network.transport import wait_sockets

from ..errors import Deposed
from ..liveness.limits import ANSWER_SECONDS
from ..machine import Tick
from ..messages import FROM_AGENT, Agreed, Conclude, Denied, Granted, Operation, operations
from ..support.logs import clean
from .election import Ask, Candidate, Decision, Election, Missing, Propose, Said, Send, Settled

_MOST_WHY = 1000
_REFUSED = os.strerror(errno.ECONNREFUSED)


def is_refusal(error: NetworkError) -> bool:
    """Tell if by this error a host answers and nothing listens there: its agent has ended, and its job processes with it."""
    return isinstance(error, PeerLost) and _REFUSED in error.reason


def _why(error: NetworkError, address: Address) -> str:
    """Return the reason of an agent that answers and does not serve us, without its name; "" where none answers."""
    if not isinstance(error, Rejected):
        return ""
    said = re.sub(rf"^node -?\d+ at {re.escape(str(address))}: ", "", str(error))
    # a program that runs reads this file again, and no other one
    return clean(said.replace("; 'key_file' names another", ", which is read again as soon as it changes"), _MOST_WHY)


class NoMajority(NetworkError):
    """Error: too many nodes are silent, so another driver may be going on with the job."""


class Candidacy:
    """Rounds of one election. A node holds its grant while the connection with it stands.

    Attributes: `election`; `early`, other messages of agents, for the code that goes on with their connections.

    Args:
        request: opens connections.
        nodes: the electorate.
        candidate: this driver.
        logger: of the job.
        lost: nodes that the candidate has lost.
        known_dead: those of them of which it saw the agents end.
    """

    def __init__(
        self,
        request: Request,
        nodes: NodeAssignment,
        candidate: Candidate,
        logger: logging.Logger,
        *,
        lost: Collection[int] = (),
        known_dead: Collection[int] = (),
    ) -> None:
        self.election = Election(candidate, set(nodes), known_dead)
        self.early: list[tuple[int, Operation]] = []
        self._request, self._nodes, self._job, self._logger = request, nodes, candidate.job, logger
        self._lost = set(lost)
        self._clock = SystemClock()
        self._sessions: dict[int, Session] = {}
        self._key: Key | None = None
        self._names = {node: f"Node({node}) at {address}" for node, address in nodes.items()}

    def require(self) -> None:
        """Check that the job may go on from here, or be ended.

        Raises: NoMajority, Deposed when another driver drives the job, or it is over.
        """
        self._check(self.ask_near())

    def agree(self, attempt: int, attempt_state: str, staying: Collection[int]) -> None:
        """Check that this attempt may begin, with the nodes `staying`; those that are left out know of it then, too.

        Raises: as `require`.
        """
        # claimed first: only nodes that have granted the job are asked to agree
        self._check(self.ask_near(staying))
        self._check(self.propose(attempt, attempt_state))

    def _check(self, decision: Decision) -> None:
        if decision is Decision.PAUSE:
            raise NoMajority(self.reasons or "Too few nodes of the last attempt agree.")
        if decision is not Decision.DRIVE:
            raise Deposed(f"The job is not driven from here any more: {clean(self.reasons or decision.value).rstrip('.')}.")

    def ask_near(self, needed: Collection[int] = ()) -> Decision:
        """Ask as `ask` does. A node that is lost, and is not needed, is asked only where the others are not enough: a silent
        host takes its time.
        """
        decision = self.ask(set(self._nodes) - self._lost.difference(needed))
        # all of them now: enough may be silent only because they were not asked
        return self.ask() if decision is Decision.PAUSE else decision

    def ask(self, nodes: Collection[int] | None = None) -> Decision:
        """Ask one round whether the job may go on from here, by the word of these nodes (default: of all)."""
        asked = sorted(self._nodes) if nodes is None else sorted(nodes)
        errors = self._call(asked)
        return self._settle(self.election.handle(Ask(tuple(asked)), self._clock.monotonic()), errors)

    def propose(self, attempt: int, attempt_state: str) -> Decision:
        """Ask the nodes that have granted the job in the last round whether the attempt may begin."""
        return self._settle(self.election.handle(Propose(attempt, attempt_state), self._clock.monotonic()), {})

    @property
    def reasons(self) -> str:
        """Reasons that keep us from going on, in words."""
        return self.election.describe(self._names)

    @property
    def missing(self) -> dict[int, str]:
        """Nodes that do not take part in our job, and why."""
        election = self.election
        gone = {
            node: f"{self._names[node]}: {election.unserved[node]}"
            if node in election.unserved
            else f"{self._names[node]} cannot be reached."
            for node in (*election.silent, *election.refused)
        }
        return {**gone, **{node: answer.reason for node, answer in election.denied.items()}}

    def conclude(self, nodes: Collection[int], outcome: str, detail: str) -> None:
        """Tell those of `nodes` that can be told how the job has ended for them."""
        for node in nodes:
            self._tell(node, Conclude(self._job, node, outcome, detail, ""))

    def take_connections(self) -> Controller:
        """Give away the connections with the nodes that have granted the job; the others are closed. Unread messages stay in
        them.
        """
        if self._key is None:
            raise RuntimeError("A Candidacy has connections after its first round.")
        sessions, self._sessions = self._sessions, {}
        # a connection stands for a grant: those without one end here
        for node in sessions.keys() - self.election.granted.keys():
            sessions.pop(node).close()
        return self._request.connected(self._nodes, sessions, self._key)

    def close(self) -> None:
        """Give up the grants on these connections."""
        living = [session for session in self._sessions.values() if session.lost is None]
        close_gracefully(living, wait_sockets, self._clock)  # type: ignore[arg-type]
        for session in self._sessions.values():
            session.close()

    # ---- bytes

    def _call(self, nodes: Collection[int]) -> dict[int, NetworkError]:
        """Connect with those of `nodes` that there is no connection with; return the errors."""
        lacking = NodeAssignment(key_file=self._nodes.key_file)
        for session in self._sessions.values():
            with contextlib.suppress(ProtocolError):  # the session is lost then
                session.receive()  # which tells whether its agent has ended meanwhile
        for node in nodes:
            # an agent that ended its connection has forgotten our grant, so it is asked anew
            if node not in self._sessions or not self._sessions[node].alive:
                lacking.add(node, self._nodes[node])
        if not len(lacking):
            return {}
        opened, errors, key = self._request.call(lacking, ANSWER_SECONDS)
        kept = {node: session for node, session in self._sessions.items() if session.alive}
        is_changed = self._key is not None and key.id != self._key.id
        self._key, self._sessions = key, opened
        if is_changed and kept:
            # agents derive keys of the job from that of their session, which has to be one for all
            for session in kept.values():
                session.close()
            return errors | self._call([node for node in nodes if node not in opened and node not in errors])
        self._sessions = kept | opened
        return errors

    def _settle(self, actions: list[object], errors: dict[int, NetworkError]) -> Decision:
        # after the claims were made: the election counts what it has asked for
        for node, error in errors.items():
            actions += self._feed(Missing(node, is_refusal(error), _why(error, self._nodes[node])))
        while True:
            for action in actions:
                if isinstance(action, Settled):
                    return action.decision
                if isinstance(action, Send):
                    self._tell(action.node, action.operation)
            actions = self._hear()

    def _feed(self, event: object) -> list[object]:
        return self.election.handle(event, self._clock.monotonic())

    def _tell(self, node: int, operation: Operation) -> None:
        session = self._sessions.get(node)
        if session is not None and session.alive:
            session.queue(operation.to_value())
            session.send()

    def _hear(self) -> list[object]:
        """Wait for answers, at most until the round is over."""
        sessions = {node: session for node, session in self._sessions.items() if session.alive}
        actions: list[object] = []
        # a connection that ended takes its grant along
        for node in self._sessions.keys() - sessions.keys():
            actions += self._feed(Missing(node, False))
        left = (self.election.deadline or 0.0) - self._clock.monotonic()
        if not actions and left > 0:
            writing = [session.link for session in sessions.values() if session.pending_bytes]
            reading = [session.link for session in sessions.values()]
            # what has come with an earlier read wakes no poll
            if not any(session.inbox for session in sessions.values()):
                wait_sockets(reading, writing, left)  # type: ignore[arg-type]
        for node, session in sessions.items():
            actions += self._read(node, session)
        # last: answers that are here count, though the limit is over by now
        return [*actions, *self._feed(Tick())]

    def _read(self, node: int, session: Session) -> list[object]:
        actions: list[object] = []
        try:
            for said in operations(session, FROM_AGENT):
                if isinstance(said, (Granted, Denied, Agreed)):
                    actions += self._feed(Said(node, said))
                else:
                    # a message of a running job, which its next owner must see
                    self.early.append((node, said))
        except ProtocolError as error:
            self._logger.error("Node(%s) broke the protocol: %s", node, clean(str(error)))
        if not session.alive:
            actions += self._feed(Missing(node, False))
        return actions
