"""Messages between the driver of an elastic job and its workers, over the line that the driver opens to each worker."""

from __future__ import annotations

from typing import Annotated, Any

from rpc.messages import Attempt, Length, Node, Operation

Place = Annotated[list[str], Length(3, 3)]
"""Where a worker can be called: the address of its agent, its host, and a path there."""
Number = Annotated[int, range(1 << 53)]

# ---- driver to worker


class Round(Operation):
    """Order to begin a round: its members by rank, and the place where each of them can be called.

    `sequence` is that of `StartRound`. `kept` is the content of the state to begin with, where no member holds it; else None.
    """

    attempt: Attempt
    sequence: Number
    members: list[Node]
    places: list[Place]
    kept: Any = None


class Void(Operation):
    """Notice that a round comes to nothing, because a member is lost before it has begun: ask for the next one."""

    attempt: Attempt


class Broken(Operation):
    """Notice that a member of this round is lost, even if the connections with it are up: no worker shall wait for it."""

    attempt: Attempt
    reason: str


class Removed(Operation):
    """Notice that the job has no place for this worker any more."""

    message: str


class HostsChanged(Operation):
    """Notice for rank 0: hosts have come or gone."""

    sequence: Number
    result: Annotated[int, range(1, 4)]


class End(Operation):
    """Notice that the job is over, so that the worker ends."""


# ---- worker to driver


class Here(Operation):
    """Greeting of a worker that runs, with the place where it can be called."""

    place: Place


class Ready(Operation):
    """Request of a worker for the round after `attempt`; `holds` tells whether it holds the state of the training."""

    attempt: Attempt
    holds: bool


class Noted(Operation):
    """Receipt of the host change with this number."""

    sequence: Number


class Waits(Operation):
    """Notice that the worker has waited for others in this group operation for a while."""

    attempt: Attempt
    operation: str


class Got(Operation):
    """Notice that a group operation has ended in which the worker had waited."""

    attempt: Attempt
    operation: str


class Kept(Operation):
    """Content of the state after a commit, for a file of the driver that outlives all workers."""

    content: Any


class Returned(Operation):
    """Result: the value that the worker's function has returned."""

    value: Any


class Printed(Operation):
    """Text that the worker's function has printed."""

    text: str


TO_WORKER = (Round, Void, Broken, Removed, HostsChanged, End)
FROM_WORKER = (Here, Ready, Noted, Waits, Got, Kept, Printed, Returned)
