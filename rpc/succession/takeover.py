"""Claiming a job whose driver is gone: from all its agents at once; who gets a majority of them drives."""

from __future__ import annotations

import enum
import errno
import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from network.clock import Clock, SystemClock
from network.controller import Controller
from network.errors import NetworkError, PeerLost, ProtocolError, TimedOut
from network.nodes import NodeAssignment
from network.request import Request

from ..logs import clean
from ..membership.majority import may_go_on
from ..messages import FROM_AGENT, Denied, Granted, Operation, TakeOver, parse

ANSWER_SECONDS = 1.5
_REFUSED = os.strerror(errno.ECONNREFUSED)


class Decision(enum.Enum):
    """What a claim has come to."""

    DRIVE = "a majority has granted it"
    PAUSE = "too many are silent: they may work on where we do not see them"
    YIELD = "somebody else drives, or knows more"
    OVER = "the job is over"


@dataclass
class Claim:
    """What the nodes of a job have said; `com` leads to those that have granted it, `early` is what they said besides."""

    com: Controller
    granted: dict[int, Granted] = field(default_factory=dict)
    denied: dict[int, Denied] = field(default_factory=dict)
    missing: dict[int, str] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)  # of the missing, those whose agent, and so the process, has ended
    early: list[tuple[int, Operation]] = field(default_factory=list)

    def decide(self, attempt: int) -> Decision:
        """`attempt` is the newest that the claimant knows of."""
        return decide([*self.granted, *self.denied, *self.missing], self.granted, self.denied, self.gone, attempt)


def decide(
    nodes: Collection[int],
    granted: Mapping[int, Granted],
    denied: Mapping[int, Denied],
    gone: Collection[int],
    attempt: int,
) -> Decision:
    """Whether the claimant drives.

    Those who grant must outnumber those of whom nothing is known, and those who have another driver. A node without which the
    job goes on is on no side.
    """
    if any(answer.outcome in ("done", "failed", "stopped") for answer in denied.values()):
        return Decision.OVER
    if any(answer.entrusted > attempt for answer in granted.values()):
        return Decision.YIELD
    left = {node for node, answer in denied.items() if answer.outcome == "left"}
    if may_go_on(nodes, granted, left.union(gone), submitter=False):
        return Decision.DRIVE
    return Decision.YIELD if denied.keys() - left else Decision.PAUSE


def is_refusal(error: NetworkError) -> bool:
    """Whether a host answers, and nobody listens there: the agent has ended, and its job processes with it."""
    return isinstance(error, PeerLost) and _REFUSED in error.reason


def claim(
    request: Request,
    nodes: NodeAssignment,
    job: str,
    driver: str,
    sha256: str,
    logger: logging.Logger,
    clock: Clock | None = None,
) -> Claim:
    """Ask every agent; who has not answered within 1.5 s is missing. The caller closes `com`, and gives up what was granted."""
    clock = clock or SystemClock()
    deadline = clock.monotonic() + ANSWER_SECONDS
    com, errors = request.reach(nodes, ANSWER_SECONDS)
    found = Claim(com, missing={node: str(error) for node, error in errors.items()})
    found.gone.update(node for node, error in errors.items() if is_refusal(error))
    try:
        for node in com.available_clients:
            com.post(node, TakeOver(job, node, driver, sha256).to_value())
        waiting = set(com.available_clients)
        while waiting:
            try:
                received = com.get_one(timeout=max(0.0, deadline - clock.monotonic()))
            except TimedOut:
                break
            except PeerLost:
                waiting &= set(com.available_clients)
                continue
            if received is not None and _take(found, *received, logger):
                waiting.discard(received[0])
            waiting &= set(com.available_clients)
        for node in com.sessions:
            if node not in found.granted and node not in found.denied:
                found.missing[node] = str(com.loss_of(node)) if node not in com.available_clients else "it does not answer"
    except BaseException:
        com.close()
        raise
    return found


def _take(found: Claim, node: int, value: object, logger: logging.Logger) -> bool:
    """Take in what the agent of a node says; whether it is its answer."""
    try:
        said = parse(value, FROM_AGENT)
    except ProtocolError as error:
        logger.error("Node(%s) broke the protocol: %s", node, clean(str(error)))
        found.com.sessions[node].close()
        return True
    if isinstance(said, Granted):
        found.granted[node] = said
    elif isinstance(said, Denied):
        found.denied[node] = said
    else:
        found.early.append((node, said))
        return False
    return True
