"""Job behind a ClusterExecutor: it is started on all nodes, its crashed processes are started again, and its end is awaited
until the nodes are free.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from network.controller import Controller
from network.errors import NetworkError
from network.nodes import NodeAssignment
from network.request import Request
from network.session import Session
from rpc.dialing import watch_for_silence
from rpc.liveness.limits import STOPPED_SECONDS, VERDICT_HEARTBEATS
from rpc.submit.coordinator import Coordinator
from rpc.submit.restarts import Retry
from rpc.support.logs import get_logger
from rpc.verdict import signal_name

from .task_server import TaskServer

FREE_SECONDS = 10.0  # for the nodes to be free after the last task
RETURN_SECONDS = 10.0  # for a node to take a new process in place of one that has crashed
logger = get_logger("executor")


class TaskJob:
    """Job of task servers on all workers among `nodes`.

    A process that has crashed is started again on its node alone, as the next attempt at the same job. `look` and `end` are
    called in one thread, `start_again` in another. Attributes: `sessions` with the task servers, by node; `names` of the nodes,
    for people.

    Args:
        nodes: the assignment.
        key_file: the cluster key; default: the assignment's own.
        title: text that other users see while the nodes are busy.
        blas_threads: BLAS threads of each node.
    """

    def __init__(self, nodes: NodeAssignment, key_file: str | Path | None, title: str, blas_threads: int) -> None:
        nodes.check_open()
        # the parameter server of the assignment computes no tasks
        workers = NodeAssignment(key_file=key_file or nodes.key_file)
        workers.lives = nodes.lives
        for node, address in nodes.items():
            if node >= 0:
                workers.add(node, address)
        if not len(workers):
            raise ValueError("ClusterExecutor 'nodes' must have at least one worker, got none.")
        com: Controller = Request().request(workers)
        self._addresses, self._again = dict(workers.items()), com.again
        self._coms = [com]
        self.names: Mapping[int, str] = {node: f"Node({node}) at {address}" for node, address in workers.items()}
        self._made = partial(
            Coordinator, logger=logger, title=title, blas_threads=blas_threads, collects=False, standstill=STOPPED_SECONDS
        )
        try:
            first = self._made(com)
            self.job = first.job
            """Id of the job, as `psgd stop` takes it."""
            self.sessions: Mapping[int, Session] = _start(first)
        except BaseException:
            com.close()
            raise
        self._attempts = dict.fromkeys(self.sessions, 0)
        self._coordinators = dict.fromkeys(self.sessions, first)  # of the newest process of each node

    def look(self) -> dict[int, Ending]:
        """Return the nodes on which the job has ended, and how; takes no time. To be called now and then."""
        for coordinator in set(self._coordinators.values()):
            coordinator.look_after()
        return {node: _ending(node, by) for node, by in self._coordinators.items() if node in by.failures}

    def heartbeats(self, node: int) -> int:
        """Return how many heartbeats of the newest process of `node` have come."""
        return self._coordinators[node].heartbeats(node)

    def start_again(self, node: int) -> Session:
        """Start a new process on `node` in place of one that has crashed, and open a session with it; in any thread.

        Raises: NetworkError.
        """
        # before the try: an agent refuses an attempt that it has had
        self._attempts[node] += 1
        return Retry(RETURN_SECONDS, NetworkError).call(partial(self._start_again, node))

    def _start_again(self, node: int) -> Session:
        # a connection of its own: the first one belongs to the dispatcher's thread
        com = self._again({node: self._addresses[node]})
        try:
            coordinator = self._made(com, job=self.job, attempt=self._attempts[node])
            session = _start(coordinator)[node]
        except BaseException:
            com.close()
            raise
        self._coms.append(com)
        self._coordinators[node] = coordinator  # at once, as other threads look meanwhile
        return session

    def end(self) -> None:
        """Wait until the nodes have ended the job, for `FREE_SECONDS`; then close the connections."""
        try:
            left = [node for by in set(self._coordinators.values()) for node in by.await_end(FREE_SECONDS)]
            if left:
                logger.warning("After %g s these nodes have not said that they are free: %s.", FREE_SECONDS, left)
        finally:
            for com in self._coms:
                com.close()


def _start(coordinator: Coordinator) -> dict[int, Session]:
    coordinator.submit_group(TaskServer)
    coordinator.resources_dispatch(lambda node, request: None)
    try:
        sessions = coordinator.call()
    except BaseException as error:
        # it runs by now: without this the nodes would wait for a caller that never comes
        coordinator.stop_executing(f"The submitter could not reach the nodes: {error}")
        raise
    for session in sessions.values():
        watch_for_silence(session)
    return sessions


def _ending(node: int, by: Coordinator) -> Ending:
    state, detail = by.failures[node]
    if state == "lost":
        return Ending(detail, vanished=True)
    # the newest: a node may have been lost before
    verdict = next((verdict for verdict in reversed(by.verdicts) if verdict.node == node), None)
    last = detail.strip().rpartition("\n")[2]  # of a traceback this is the line that names the error
    if state != "failed" or verdict is None:
        return Ending(f"it was {state}: {last}")
    reason = last
    if verdict.kind == "stuck":
        reason = f"its process stood still: {last}"
    elif verdict.signal:
        reason = f"its process was killed by signal {verdict.signal} ({signal_name(verdict.signal)})"
    elif verdict.exit_code >= 0:
        reason = f"its process ended with exit code {verdict.exit_code}"
    # work is counted from 1, tasks from 0
    return Ending(reason, verdict.work - 1, crashed=True)


LOOK_SECONDS = 0.5  # between looks while nothing is awaited
_ASK_SECONDS = 0.02  # between looks while something is awaited
MOST_VAIN = 3  # processes of a node, one after the other, that end before they have begun a task


class Ending(NamedTuple):
    """End of the job on a node, for `reason`.

    Args:
        reason: in words.
        last: the task that it began last, -1 for none, None if unknown.
        crashed: its process has ended, and its agent is there.
        vanished: its agent is not there, though its connection may stand.
    """

    reason: str
    last: int | None = None
    crashed: bool = False
    vanished: bool = False


class Restarts:
    """Restarts of the nodes of one job. All of this belongs to the dispatcher's thread, which `call` wakes.

    Attribute: `under_way`, the nodes that start a new process.
    """

    def __init__(self, job: TaskJob, call: Callable[[], None]) -> None:
        self._job, self._call = job, call
        self._next_look = time.monotonic()
        # nodes whose connection has ended: how, and the number of its heartbeats by which a verdict has come
        self._open: dict[int, tuple[str, int]] = {}
        self._vain: dict[int, int] = {}
        self._threads: dict[int, threading.Thread] = {}
        self._results: deque[tuple[int, Session | BaseException]] = deque()
        self.under_way: set[int] = set()

    @property
    def deadline(self) -> float:
        return self._next_look

    def cut(self, node: int, reason: str) -> None:
        """Note that the connection with `node` has ended, for `reason` as far as can be seen from here."""
        self._open[node] = (reason, self._job.heartbeats(node) + VERDICT_HEARTBEATS)
        # at once: the verdict may be here already
        self._next_look = time.monotonic()

    def look(self) -> Iterator[tuple[int, Ending]]:
        """Yield the nodes whose end is known, or never will be, and those that have vanished."""
        now = time.monotonic()
        if now < self._next_look:
            return
        endings = self._job.look()
        # vanished nodes first, whose connection may stand for minutes
        for node, ending in endings.items():
            if ending.vanished and node not in self.under_way:
                self._open.pop(node, None)
                yield node, ending
        for node, (reason, last) in list(self._open.items()):
            if node in endings or self._job.heartbeats(node) >= last:
                del self._open[node]
                yield node, endings.get(node) or Ending(reason)
        self._next_look = now + (_ASK_SECONDS if self._open else LOOK_SECONDS)

    # ---- new processes

    def give_up(self, node: int, ending: Ending) -> str:
        """Return why no new process takes the place of one that has ended; "" if one does."""
        if not ending.crashed:
            return ending.reason
        # one that had begun a task counts anew: the task may be to blame
        self._vain[node] = self._vain.get(node, 0) + 1 if ending.last == -1 else 0
        if self._vain[node] >= MOST_VAIN:
            return f"{ending.reason}; so did {MOST_VAIN} of its processes one after the other, before they had begun a task"
        return ""

    def start(self, node: int) -> None:
        """Start a new process on `node`; `results` yields its session, or the error."""
        self.under_way.add(node)
        thread = self._threads[node] = threading.Thread(target=self._start, args=(node,), name="executor-restart", daemon=True)
        thread.start()

    def _start(self, node: int) -> None:
        try:
            self._results.append((node, self._job.start_again(node)))
        except BaseException as error:  # noqa: BLE001  the node is lost then, whatever it was
            self._results.append((node, error))
        # the result first, then the call that makes the dispatcher look for it
        self._call()

    def __bool__(self) -> bool:
        return bool(self._results)

    def results(self) -> Iterator[tuple[int, Session | BaseException]]:
        while self._results:
            node, result = self._results.popleft()
            self._threads.pop(node).join()
            self.under_way.discard(node)
            yield node, result

    def end(self) -> list[Session]:
        """Wait for the starts that are under way; return their sessions."""
        # a process that comes up after the end would keep its node busy
        for thread in self._threads.values():
            thread.join()
        return [result for _, result in self.results() if isinstance(result, Session)]
