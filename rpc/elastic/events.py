"""Events and actions of the driver of an elastic job."""

from __future__ import annotations

from typing import NamedTuple

from network.nodes import DEFAULT_PORT, Address

from ..support.immutable import Immutable
from .hosts import Host, HostUpdateResult, Place


class Worker(NamedTuple):
    """Worker process.

    It keeps this name while its rank changes from round to round; a worker that follows it in the same slot has another one.

    Args:
        address: address of its host.
        slot: its slot there.
        born: the attempt in which it was started.
    """

    address: Address
    slot: int
    born: int

    @property
    def place(self) -> Place:
        return self.address, self.slot

    def __str__(self) -> str:
        host = self.address.host if self.address.port == DEFAULT_PORT else str(self.address)
        return f"{host}[{self.slot}]"


class HostsSeen(Immutable):
    """Event: discovery has found these hosts, and no others."""

    hosts: tuple[Host, ...]


class DiscoveryFailed(Immutable):
    """Event: discovery has not found out, for `reason`."""

    reason: str


class WorkerReady(Immutable):
    """Event: a worker asks for the round after `attempt`: peers were lost, or it was told of new hosts.

    `holds` tells whether it holds the state of the training: it has synchronised at least once.
    """

    worker: Worker
    attempt: int
    holds: bool = True


class WorkerEnded(Immutable):
    """Event: a worker's process has ended: `ok` with exit code 0, `detail` is the verdict on it, if there is one.

    `returned` tells whether its function had returned; None where that is unknown, so that the exit code has to do. `started`
    is false for a process that never was; `agent_lost` where its agent cannot be reached, either. `place` is where the program
    was, epoch and batch from 1, (0, 0) where that is unknown; None for a worker that failed only because another one had.
    """

    worker: Worker
    ok: bool
    code: int | None = None
    detail: str = ""
    returned: bool | None = None
    started: bool = True
    agent_lost: bool = False
    place: tuple[int, int] | None = (0, 0)


class WorkerStuck(Immutable):
    """Event: the failure detector has given up a worker, whether its process exists or not; with `agent_lost` its whole
    host.
    """

    worker: Worker
    detail: str = ""
    agent_lost: bool = False


class Notified(Immutable):
    """Event: rank 0 has received the notice with this number."""

    sequence: int


class CheckpointSeen(Immutable):
    """Event: there is a checkpoint on disk, from which a round may start whose workers hold no state; `content` identifies
    it.
    """

    content: str = ""


class StartRound(Immutable):
    """Action: let these workers, by rank, form the group of `attempt`; those with `born == attempt` are to be started.

    `sequence` is the number of the last notice that is thereby done. With `resume` no worker holds the state of the training,
    so all take it from the newest checkpoint on disk.
    """

    attempt: int
    workers: tuple[Worker, ...]
    sequence: int
    resume: bool = False


class StopWorker(Immutable):
    """Action: end a worker's process and accept nothing more from it."""

    worker: Worker
    reason: str


class RemoveWorker(Immutable):
    """Action: give a worker rank -1: it ends by itself with this message."""

    worker: Worker
    message: str


class NotifyRankZero(Immutable):
    """Action: tell the worker of rank 0 that hosts have changed; the same number may come again until it is `Notified`."""

    worker: Worker
    sequence: int
    result: HostUpdateResult


class Warn(Immutable):
    """Action: write a message into the log."""

    message: str


class Pause(Warn):
    """Action: log that no worker trains until this is over; survivors wait for the next round."""


class Finish(Immutable):
    """Action: end the job well."""


class Fail(Immutable):
    """Action: end the job badly, with a non-zero exit code and this message."""

    message: str
