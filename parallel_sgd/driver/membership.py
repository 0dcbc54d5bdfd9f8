"""Membership of nodes in a job, from one attempt or round to the next: the same batch, dealt to the nodes that are there.

`SameNodes` and `Survivors` ask no discovery. Where hosts come and go, `ElasticMembership` is one membership under both engines,
attempts of fresh processes (`DiscoveredNodes`) and rounds of living ones. There the machine of `rpc.elastic` decides on the
members, their ranks, the slots that are left alone for a while, and the number of the round. Its events and their consequences
for the job are the same for both engines; each has its own way to begin a round and to end a worker.
"""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

from network.nodes import Address, NodeAssignment
from network.session import Session
from network.transport import Waker, wait_sockets
from rpc import Tick
from rpc.elastic import (
    PERIOD_SECONDS,
    Discovery,
    DiscoveryFailed,
    ElasticDriver,
    Fail,
    Finish,
    HostsSeen,
    Notified,
    NotifyRankZero,
    Poller,
    StartRound,
    Warn,
    Worker,
    WorkerEnded,
    WorkerReady,
)
from rpc.messages import Verdict
from rpc.support.logs import SUBMIT_LOGGER, clean, get_logger

from ..errors import JobFailed
from ..nodes import LocalNodes


class Membership(Protocol):
    """Decision on the nodes of each attempt. `nodes` are those of the attempt that runs, or is to begin."""

    nodes: NodeAssignment

    def look(self) -> str:
        """Return why the attempt should end for other nodes, or "". The driver asks about once a second while an attempt
        runs.
        """

    def settle(self, failed: JobFailed) -> str:
        """Choose the nodes of the next attempt after one that has ended before its time; return why there is none, or ""."""

    def close(self) -> None:
        """End the membership: the job is over."""


class SameNodes:
    """Membership in which every attempt has the nodes of the first."""

    def __init__(self, nodes: NodeAssignment) -> None:
        self.nodes = nodes

    def look(self) -> str:
        return ""

    def settle(self, failed: JobFailed) -> str:
        return ""

    def close(self) -> None:
        """Do nothing: nothing is held."""


class Survivors(SameNodes):
    """Membership that leaves out nodes that fail by themselves; at least `fewest` workers go on, and the parameter server, if
    there is one.
    """

    def __init__(self, nodes: NodeAssignment, fewest: int) -> None:
        super().__init__(nodes)
        self._fewest = fewest

    def settle(self, failed: JobFailed) -> str:
        """Let all but the culprits go on; workers keep their order and are numbered anew from 0."""
        # those that ended because of others are no culprits and go on
        left = [self.nodes[node] for node in self.nodes.worker_ids if node not in failed.culprits]
        # the state of a parameter server is nowhere else
        if any(node < 0 for node in failed.culprits):
            return "nobody can do without the parameter server"
        if len(left) < self._fewest:
            return f"{len(left)} workers are left, 'min_workers' is {self._fewest}"
        self.nodes = with_workers(self.nodes, left)
        return ""


def with_workers(nodes: NodeAssignment, workers: Iterable[Address]) -> NodeAssignment:
    """Return `nodes` with these workers, numbered from 0, in place of its own; a parameter server stays."""
    # local nodes stay local, with the agents that this process ends
    key = nodes.key_file
    made = LocalNodes(key, lasting=nodes.lasting) if isinstance(nodes, LocalNodes) else NodeAssignment(key)
    made.lives = nodes.lives
    for number, address in enumerate(workers):
        made.add(number, address)
    for node, address in nodes.items():
        if node < 0:
            made.add(node, address)
    return made


LOOK_SECONDS = 0.25
_CHANGES = {1: "workers have left", 2: "workers have come", 3: "workers have come and left"}
_log = get_logger(SUBMIT_LOGGER)


class Inbox(Waker):
    """Queue that makes `sock` readable; `put` from any thread, the rest belongs to one."""

    def __init__(self) -> None:
        super().__init__()
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def put(self, item: Any) -> None:
        self._queue.put(item)
        # after the item is in the queue: the other thread must find it when it wakes up
        self.wake()

    def take(self) -> list[Any]:
        """Take all items, oldest first."""
        self.clear()
        # as many as there are now: items that come meanwhile wake the loop again
        return [self._queue.get_nowait() for _ in range(self._queue.qsize())]


class ElasticMembership:
    """Membership where hosts come and go, see the module. `inbox` is for the items of other threads: discovery, and those that
    start workers.

    Decisions of the driver about workers (StartRound, StopWorker, RemoveWorker, NotifyRankZero) go to `act`. Attribute:
    `failure`, None while the job goes on, why it has failed, or "" after a good end. All but `inbox` belongs to one thread.
    """

    def __init__(self, driver: ElasticDriver, act: Callable[[object], None]) -> None:
        self.driver, self._act = driver, act
        self.inbox = Inbox()
        self.failure: str | None = None
        self._poller: Poller | None = None

    def discover(self, discovery: Discovery, period: float = PERIOD_SECONDS) -> None:
        """Ask `discovery` for hosts from now on."""
        self._poller = Poller(discovery, self.inbox.put, period)

    def wait(self, sessions: Collection[Session] = (), seconds: float = LOOK_SECONDS) -> None:
        """Wait until an item or a message of these sessions has come in, one of them can be written to, or the driver is to
        look, at most `seconds`.
        """
        deadline = self.driver.deadline
        # the driver of rounds has deadlines of its own, such as the end of a pause
        left = seconds if deadline is None else min(seconds, deadline - time.monotonic())
        # a lost session would be readable for ever
        reading = [session.link for session in sessions if session.lost is None]
        # and one without bytes would be writable for ever
        writing = [session.link for session in sessions if session.pending_bytes]
        wait_sockets([*reading, self.inbox.sock], writing, max(0.0, left))  # type: ignore[list-item,arg-type]

    def take(self) -> list[Any]:
        """Tell the driver the findings of discovery; return the other items, oldest first."""
        others = []
        for item in self.inbox.take():
            if isinstance(item, (HostsSeen, DiscoveryFailed)):
                self.tell(item)
            else:
                others.append(item)
        return others

    def tell(self, event: object) -> None:
        """Give the driver an event, and do as it decides."""
        for action in self.driver.handle(event, time.monotonic()):
            if isinstance(action, Warn):
                _log.warning("%s", action.message)
            elif isinstance(action, (Finish, Fail)):
                self.failure = action.message if isinstance(action, Fail) else ""
            else:
                self._act(action)

    def close(self) -> None:
        if self._poller is not None:
            self._poller.close()
        self.inbox.close()


def failure_of(
    worker: Worker,
    state: str,
    detail: str,
    verdict: Verdict | None = None,
    *,
    started: bool = True,
    agent_lost: bool = False,
) -> WorkerEnded:
    """Make the event by which the driver learns of a worker that has failed, from the words of its agent and the verdict on it,
    if there is one.
    """
    code = 1 if state == "failed" else None  # as `subprocess` tells it; None where it is unknown
    said, place = last_line(detail), (0, 0)
    if verdict is not None:
        if verdict.kind == "stuck":  # its agent has killed it
            code = -signal.SIGKILL
        elif verdict.signal or verdict.exit_code >= 0:
            code = -verdict.signal or verdict.exit_code
        said, place = verdict.headline, (verdict.epoch, verdict.batch)
    # a consequence ends with another node: its place says nothing about what fails again and again (FD-20)
    is_consequence = verdict is not None and verdict.rank == 2
    return WorkerEnded(worker, False, code, said, False, started, agent_lost, None if is_consequence else place)


def last_line(detail: str) -> str:
    """Return the line of a traceback that names the error."""
    return clean((detail.strip().splitlines()[-1:] or ["no reason given"])[0])


class DiscoveredNodes:
    """Membership of attempts, on the hosts that `discovery` finds.

    `nodes` says how many workers the first attempt waits for, and where the parameter server is. The constructor waits for
    them.

    Args:
        nodes: the nodes to begin with.
        discovery: finds hosts while the job runs.
        fewest: number of workers below which the job fails.
        most: number to which the job may grow.
        job: id of the job.

    Raises: ValueError for numbers that do not fit, JobFailed when the hosts do not come.
    """

    def __init__(self, nodes: NodeAssignment, discovery: Discovery, fewest: int, most: int | None, job: str) -> None:
        self.nodes = nodes
        driver = ElasticDriver(len(nodes.worker_ids), fewest, most, now=time.monotonic())
        self._members = ElasticMembership(driver, self._act)
        self._round: StartRound | None = None
        self._workers: tuple[Worker, ...] = ()
        self._changed = ""
        try:
            self._members.discover(discovery)
            reason = self._await_round()
            if reason:
                raise JobFailed({}, {}, job, reason=reason)
        # also for Ctrl-C while hosts are awaited
        except BaseException:
            # discovery has a thread, which would go on
            self.close()
            raise

    def look(self) -> str:
        """Take in the findings of discovery; all workers end together when the next round would be another one."""
        self._members.take()
        self._members.tell(Tick())
        # told once: the attempt ends, and the next one begins with what is there
        changed, self._changed = self._changed, ""
        return changed or self._members.failure or ""

    def settle(self, failed: JobFailed) -> str:
        """Tell the driver the nodes that failed by themselves as failed, all others as ready for the next round, with their
        state.
        """
        # failures first: the last ready worker may begin the round, which must not have a failed one
        for rank, worker in enumerate(self._workers):
            if rank in failed.culprits:
                verdict = next((v for v in failed.verdicts if v.node == rank), None)
                self._members.tell(failure_of(worker, *failed.failures[rank], verdict))
        for rank, worker in enumerate(self._workers):
            if rank not in failed.culprits:
                self._members.tell(WorkerReady(worker, self._members.driver.attempt))
        if any(node < 0 for node in failed.culprits):
            return "nobody can do without the parameter server"
        return self._await_round()

    def close(self) -> None:
        self._members.close()

    def _await_round(self) -> str:
        """Wait until the driver begins a round; return why it does not, or ""."""
        members = self._members
        # until a round begins or the driver has given up, which has its own limits (EL-16)
        while self._round is None and not members.failure:
            members.wait()
            members.take()
            members.tell(Tick())
        if self._round is not None:
            self._workers, self._round, self._changed = self._round.workers, None, ""
            self.nodes = with_workers(self.nodes, [worker.address for worker in self._workers])
        return members.failure or ""

    def _act(self, action: object) -> None:
        """Take a decision of the driver. All processes of an attempt end with it, so no worker need be stopped or removed."""
        if isinstance(action, StartRound):
            self._round = action
        elif isinstance(action, NotifyRankZero):
            self._changed = f"The hosts have changed: {_CHANGES.get(int(action.result), 'other workers')}."
            # an attempt ends as a whole, so no worker has to confirm it; without a receipt the driver would tell it again
            self._members.tell(Notified(action.sequence))
