"""What the three-phase submission is made of: its phases, what happens in them, and what follows from that."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Phase(enum.Enum):
    """Where the group is."""

    CAN_COMMIT = "canCommit"
    LOADED = "loaded"
    PRE_COMMIT = "preCommit"
    DO_COMMIT = "doCommit"
    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"


# ---- events


@dataclass(frozen=True)
class Started:
    """The submission begins."""


@dataclass(frozen=True)
class HasAccepted:
    """An agent has accepted the job."""

    node: int


@dataclass(frozen=True)
class HasRefused:
    """An agent refuses the job."""

    node: int
    reason: str


@dataclass(frozen=True)
class HasLoaded:
    """A job process has made its executor."""

    node: int


@dataclass(frozen=True)
class Dispatched:
    """The program begins to answer requests; `limit` seconds are given to all of them."""

    limit: float


@dataclass(frozen=True)
class HasAsked:
    """An executor asks for resources."""

    node: int
    requests: tuple[str, ...]


@dataclass(frozen=True)
class HasPrepared:
    """An executor has all it needs."""

    node: int


@dataclass(frozen=True)
class IsRunning:
    """An executor has started."""

    node: int


@dataclass(frozen=True)
class HasEnded:
    """A node has ended: done, failed, stopped or aborted."""

    node: int
    state: str
    detail: str


@dataclass(frozen=True)
class IsLost:
    """The connection with a node's agent, or before the start with its job process, is gone."""

    node: int
    reason: str


@dataclass(frozen=True)
class Cancelled:
    """The program gives up."""

    reason: str


@dataclass(frozen=True)
class HasWorked:
    """The job process of a node has used processor time since its agent last said something of it."""

    node: int


@dataclass(frozen=True)
class Settled:
    """After a failure: the nodes that were told to give the job up have confirmed it, or have had their time for that."""


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


# ---- actions


@dataclass(frozen=True)
class AskCanCommit:
    """Send canCommit to the node's agent."""

    node: int


@dataclass(frozen=True)
class OpenCodeSession:
    """Connect to the node's job process and send it the bundle."""

    node: int


@dataclass(frozen=True)
class Answer:
    """Reply to the node's requests."""

    node: int
    requests: tuple[str, ...]


@dataclass(frozen=True)
class SendAbort:
    """Tell the node's agent to give the job up."""

    node: int
    reason: str
