"""Messages of the doctor: questions and answers about how agents stand and reach each other."""

from __future__ import annotations

from typing import Annotated

from ..protocol import Length, Matching, Operation

MOST_PIECE = 1 << 20  # bytes of one `Ping`, and
MOST_PINGED = 64 << 20  # of all in a session; a session with more is closed
Instance = Annotated[str, Matching("[0-9a-f]{32}|")]
"""A random name of one agent process, by which it is known again under another address."""


# ---- submitter to agent, or agent to agent


class Inspect(Operation):
    """Question how an agent stands."""


class Ping(Operation):
    """Question for the time; `data` is there to be carried, and thrown away."""

    data: Annotated[bytes, Length(0, MOST_PIECE)] = b""


class Measure(Operation):
    """Order to call the agent at `address`, and to tell how well it is reached."""

    address: Annotated[str, Length(1, 300)]


# ---- answers of an agent


class AgentStatus(Operation):
    """Status of an agent. `host` is equal among processes that share a host and user; `unix_path` is empty where there is no
    such socket. `unwritable` says why no file can be written into `work_dir`, "" where one can; `free_bytes` is the room
    there.
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
    """Answer to a `Ping`: the times at which that was read and this was sent, in seconds since 1970; `busy`: a job runs here,
    so send no bursts.
    """

    instance: Instance
    received: float
    sent: float
    busy: bool


class Measured(Operation):
    """Result of the measurement of the way to the agent at `address`: `problem` says why it was not reached, if it was not.

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
