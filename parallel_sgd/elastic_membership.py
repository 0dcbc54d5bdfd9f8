"""Nodes that a discovery finds: workers join a running job and leave it, as hosts come, go and fail."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterable

from network.nodes import NodeAssignment
from rpc.elastic import (
    Discovery,
    DiscoveryFailed,
    ElasticDriver,
    Fail,
    FolderDiscovery,
    HostsSeen,
    Notified,
    NotifyRankZero,
    Pause,
    Poller,
    StartRound,
    Tick,
    Warn,
    Worker,
    WorkerEnded,
    WorkerReady,
)
from rpc.logs import SUBMIT_LOGGER, get_logger

from .errors import JobFailed
from .membership import with_workers

_LOOK_SECONDS = 1.0
_CHANGES = {1: "workers have left", 2: "workers have come", 3: "workers have come and left"}
_log = get_logger(SUBMIT_LOGGER)


class ElasticMembership:
    """A `Membership` on what `discovery` finds; the elastic driver decides, this carries it out.

    `nodes` says how many workers the first attempt waits for, and where the parameter server is. The constructor waits for
    them.
    Raises: ValueError for numbers that do not fit, JobFailed when the hosts do not come.
    """

    def __init__(self, nodes: NodeAssignment, discovery: Discovery, fewest: int, most: int | None, job: str) -> None:
        self.nodes = nodes
        self._job = job
        self._driver = ElasticDriver(len(nodes.worker_ids), fewest, most, now=time.monotonic())
        self._inbox: queue.SimpleQueue[HostsSeen | DiscoveryFailed] = queue.SimpleQueue()
        self._round: StartRound | None = None
        self._workers: tuple[Worker, ...] = ()
        self._changed = self._failure = ""
        if isinstance(discovery, FolderDiscovery):
            discovery.use_key(nodes.key_file)
        self._poller = Poller(discovery, self._inbox.put)
        try:
            reason = self._await_round()
            if reason:
                raise JobFailed({}, {}, job, reason=reason)
        except BaseException:
            self.close()
            raise

    def look(self) -> str:
        """Take in what discovery has found; all workers end together when the next round would be another one."""
        while not self._inbox.empty():
            self._tell(self._inbox.get())
        self._tell(Tick())
        changed, self._changed = self._changed, ""
        return changed or self._failure

    def settle(self, failed: JobFailed) -> str:
        """Who failed by itself is told to the driver as failed, all others as ready for the next round, with their state."""
        for rank, worker in enumerate(self._workers):
            if rank in failed.culprits:
                verdict = next((v for v in failed.verdicts if v.node == rank), None)
                self._tell(WorkerEnded(worker, False, detail="" if verdict is None else verdict.headline, returned=False))
        for rank, worker in enumerate(self._workers):
            if rank not in failed.culprits:
                self._tell(WorkerReady(worker, self._driver.attempt))
        if any(node < 0 for node in failed.culprits):
            return "nobody can do without the parameter server"
        return self._await_round()

    def close(self) -> None:
        """End the discovery."""
        self._poller.close()

    def _await_round(self) -> str:
        """Wait until the driver begins a round; returns why it does not, or ""."""
        while self._round is None and not self._failure:
            left = None if self._driver.deadline is None else self._driver.deadline - time.monotonic()
            try:
                self._tell(self._inbox.get(timeout=max(0.0, min(_LOOK_SECONDS, left if left is not None else _LOOK_SECONDS))))
            except queue.Empty:
                self._tell(Tick())
        if self._round is not None:
            self._workers, self._round, self._changed = self._round.workers, None, ""
            self.nodes = with_workers(self.nodes, [worker.address for worker in self._workers])
        return self._failure

    def _tell(self, event: object) -> None:
        self._act(self._driver.handle(event, time.monotonic()))

    def _act(self, actions: Iterable[object]) -> None:
        for action in actions:
            if isinstance(action, StartRound):
                self._round = action
            elif isinstance(action, NotifyRankZero):
                self._changed = f"The hosts have changed: {_CHANGES.get(int(action.result), 'other workers')}."
                self._tell(Notified(action.sequence))
            elif isinstance(action, (Pause, Warn)):
                _log.warning("%s", action.reason if isinstance(action, Pause) else action.message)
            elif isinstance(action, Fail):
                self._failure = action.message
