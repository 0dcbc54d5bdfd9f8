"""What is asked and answered to find out how agents stand and reach each other."""

from __future__ import annotations

from typing import Annotated

from ..protocol import Length, Matching, Operation

MOST_PIECE = 1 << 20  # bytes of one `Ping`, and
MOST_PINGED = 64 << 20  # of all in a session; who sends more is hung up on
Instance = Annotated[str, Matching("[0-9a-f]{32}|")]
"""A random name of one agent process, by which it is known again under another address."""


# ---- submitter to agent, or agent to agent


class Inspect(Operation):
    """How do you stand?"""


class Ping(Operation):
    """Say what time it is; `data` is there to be carried, and thrown away."""

    data: Annotated[bytes, Length(0, MOST_PIECE)] = b""


class Measure(Operation):
    """Call the agent at `address`, and tell how well you reach it."""

    address: Annotated[str, Length(1, 300)]


# ---- agent to who asked


class AgentStatus(Operation):
    """`host` is equal among processes that share a host and user; `unix_path` is empty where there is no such socket.

    `unwritable` says why no file can be written into `work_dir`, "" where one can; `free_bytes` is the room there.
    """

    instance: Instance
    host: str
    name: str
    version: str
    python: str
    unix_path: str
    slots: int
    jobs: int
    work_dir: str
    free_bytes: int
    unwritable: str


class Pong(Operation):
    """When the `Ping` was read and when this was sent, in seconds since 1970; `busy`: a job runs here, so send no bursts."""

    instance: Instance
    received: float
    sent: float
    busy: bool


class Measured(Operation):
    """How `address` was reached: `problem` says why not, if it was not.

    `latency` is the seconds of a round trip, `offset` how far the clock there is ahead, give or take `uncertainty`, and
    `bandwidth` bytes per second towards it, 0 where none was measured because a job was running at one end (`busy`). Where a
    way answers messages of `carried` bytes at most, though small ones soon, those of `swallowed` bytes are not answered at all.
    """

    address: str
    problem: str = ""
    instance: Instance = ""
    latency: float = 0.0
    offset: float = 0.0
    uncertainty: float = 0.0
    bandwidth: float = 0.0
    busy: bool = False
    carried: int = 0
    swallowed: int = 0


FROM_DOCTOR = (Inspect, Ping, Measure)
TO_DOCTOR = (AgentStatus, Pong, Measured)
