"""Who is in a job, from one attempt or round to the next: the same batch, dealt to whoever is there.

`SameNodes` and `Survivors` ask nobody. Where hosts come and go, `ElasticMembership` is one membership under both engines,
attempts of fresh processes (`DiscoveredNodes`) and rounds of living ones. There the machine of `rpc.elastic` decides: who is
in, by what ranks, which slots are left alone for a while, which round it is. What it is told and what follows for the job is
the same for both engines; how a round begins and a worker ends is theirs.
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
    """Decides on the nodes of each attempt. `nodes` are those of the attempt that runs, or is to begin."""

    nodes: NodeAssignment

    def look(self) -> str:
        """Asked about once a second while an attempt runs: why it should end for other nodes, or ""."""

    def settle(self, failed: JobFailed) -> str:
        """An attempt has ended before its time. Choose the nodes of the next one; returns why there is none, or ""."""

    def close(self) -> None:
        """The job is over."""


class SameNodes:
    """Every attempt has the nodes of the first."""

    def __init__(self, nodes: NodeAssignment) -> None:
        self.nodes = nodes

    def look(self) -> str:
        return ""

    def settle(self, failed: JobFailed) -> str:
        return ""

    def close(self) -> None:
        """Nothing is held."""


class Survivors(SameNodes):
    """Who fails by itself is left out; at least `fewest` workers go on, and the parameter server, if there is one."""

    def __init__(self, nodes: NodeAssignment, fewest: int) -> None:
        super().__init__(nodes)
        self._fewest = fewest

    def settle(self, failed: JobFailed) -> str:
        """All but the culprits go on; workers keep their order and are numbered anew from 0."""
        left = [self.nodes[node] for node in self.nodes.worker_ids if node not in failed.culprits]
        if any(node < 0 for node in failed.culprits):
            return "nobody can do without the parameter server"
        if len(left) < self._fewest:
            return f"{len(left)} workers are left, 'min_workers' is {self._fewest}"
        self.nodes = with_workers(self.nodes, left)
        return ""


def with_workers(nodes: NodeAssignment, workers: Iterable[Address]) -> NodeAssignment:
    """`nodes` with these workers, numbered from 0, in place of its own; a parameter server stays."""
    made = LocalNodes(key_file=nodes.key_file) if isinstance(nodes, LocalNodes) else NodeAssignment(key_file=nodes.key_file)
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
    """A queue that makes `sock` readable; `put` from any thread, the rest belongs to one."""

    def __init__(self) -> None:
        super().__init__()
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def put(self, item: Any) -> None:
        self._queue.put(item)
        self.wake()

    def take(self) -> list[Any]:
        """All that was brought, oldest first."""
        self.clear()
        return [self._queue.get_nowait() for _ in range(self._queue.qsize())]


class ElasticMembership:
    """See the module. `inbox` is for what threads bring: discovery, and those that start workers.

    What the driver decides about workers (StartRound, StopWorker, RemoveWorker, NotifyRankZero) goes to `act`. Attribute:
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
        """Return when something has come in, by one of these sessions or otherwise, or one of them can be written to, when the
        driver is to look, or after `seconds`."""
        deadline = self.driver.deadline
        left = seconds if deadline is None else min(seconds, deadline - time.monotonic())
        reading = [session.link for session in sessions if session.lost is None]
        writing = [session.link for session in sessions if session.pending_bytes]
        wait_sockets([*reading, self.inbox.sock], writing, max(0.0, left))  # type: ignore[list-item,arg-type]

    def take(self) -> list[Any]:
        """Tell the driver what discovery has found; returns what else was brought, oldest first."""
        others = []
        for item in self.inbox.take():
            if isinstance(item, (HostsSeen, DiscoveryFailed)):
                self.tell(item)
            else:
                others.append(item)
        return others

    def tell(self, event: object) -> None:
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
    """What the driver is told of a worker that has failed, by the words of its agent and the verdict on it, if there is one."""
    code = 1 if state == "failed" else None  # as `subprocess` tells it; None where nobody knows
    said, place = last_line(detail), (0, 0)
    if verdict is not None:
        if verdict.kind == "stuck":  # its agent has killed it
            code = -signal.SIGKILL
        elif verdict.signal or verdict.exit_code >= 0:
            code = -verdict.signal or verdict.exit_code
        said, place = verdict.headline, (verdict.epoch, verdict.batch)
    is_consequence = verdict is not None and verdict.rank == 2
    return WorkerEnded(worker, False, code, said, False, started, agent_lost, None if is_consequence else place)


def last_line(detail: str) -> str:
    """Where a traceback says what has happened."""
    return clean((detail.strip().splitlines()[-1:] or ["no reason given"])[0])


class DiscoveredNodes:
    """A `Membership` of attempts, on what `discovery` finds.

    `nodes` says how many workers the first attempt waits for, and where the parameter server is. The constructor waits for
    them.
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
        except BaseException:
            self.close()
            raise

    def look(self) -> str:
        """Take in what discovery has found; all workers end together when the next round would be another one."""
        self._members.take()
        self._members.tell(Tick())
        changed, self._changed = self._changed, ""
        return changed or self._members.failure or ""

    def settle(self, failed: JobFailed) -> str:
        """Who failed by itself is told to the driver as failed, all others as ready for the next round, with their state."""
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
        """Wait until the driver begins a round; returns why it does not, or ""."""
        members = self._members
        while self._round is None and not members.failure:
            members.wait()
            members.take()
            members.tell(Tick())
        if self._round is not None:
            self._workers, self._round, self._changed = self._round.workers, None, ""
            self.nodes = with_workers(self.nodes, [worker.address for worker in self._workers])
        return members.failure or ""

    def _act(self, action: object) -> None:
        """All processes of an attempt end with it, so there is nobody to be stopped or removed."""
        if isinstance(action, StartRound):
            self._round = action
        elif isinstance(action, NotifyRankZero):
            self._changed = f"The hosts have changed: {_CHANGES.get(int(action.result), 'other workers')}."
            self._members.tell(Notified(action.sequence))
