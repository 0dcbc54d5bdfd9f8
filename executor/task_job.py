"""The job behind a ClusterExecutor: started on all nodes, talked to, and awaited until the nodes are free again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from network.controller import Controller
from network.errors import NetworkError
from network.nodes import NodeAssignment
from network.request import Request
from network.session import Session
from rpc.dialing import watch_for_silence
from rpc.liveness.process_monitor import STOPPED_SECONDS
from rpc.logs import get_logger
from rpc.submit.coordinator import Coordinator
from rpc.submit.restarts import Retry
from rpc.verdict import signal_name

from .restarts import Ending
from .task_server import TaskServer

FREE_SECONDS = 10.0  # for the nodes to be free after the last task
RETURN_SECONDS = 10.0  # for a node to take a new process in place of one that has crashed
logger = get_logger("executor")


class TaskJob:
    """Attributes: `sessions` with the task servers, by node; `names` of the nodes, for people.

    A process that has crashed is started again on its node alone, as the next attempt at the same job.
    """

    def __init__(self, nodes: NodeAssignment, key_file: str | Path | None, title: str, blas_threads: int) -> None:
        nodes.check_open()
        workers = NodeAssignment(key_file=key_file or nodes.key_file)
        for node, address in nodes.items():
            if node >= 0:
                workers.add(node, address)
        if not len(workers):
            raise ValueError("ClusterExecutor 'nodes' must have at least one worker, got none.")
        com: Controller = Request().request(workers)
        self._addresses, self._key = dict(workers.items()), com.key
        self._coms = [com]
        self.names: Mapping[int, str] = {node: f"Node({node}) at {address}" for node, address in workers.items()}
        self._made = partial(
            Coordinator, logger=logger, title=title, blas_threads=blas_threads, collects=False, standstill=STOPPED_SECONDS
        )
        try:
            first = self._made(com)
            self.job = first.job
            """Its id, as `job_submit.py --stop` takes it."""
            self.sessions: Mapping[int, Session] = _start(first)
        except BaseException:
            com.close()
            raise
        self._attempts = dict.fromkeys(self.sessions, 0)
        self._coordinators = dict.fromkeys(self.sessions, first)  # of the newest process of each node

    def look(self) -> dict[int, Ending]:
        """The nodes on which the job has ended, and how; takes no time. To be called now and then."""
        for coordinator in set(self._coordinators.values()):
            coordinator.look_after()
        return {node: _ending(node, by) for node, by in self._coordinators.items() if node in by.failures}

    def start_again(self, node: int) -> Session:
        """Start a new process on a node whose process has crashed, and call it; in any thread.

        Raises: NetworkError.
        """
        self._attempts[node] += 1
        return Retry(RETURN_SECONDS, NetworkError).call(partial(self._start_again, node))

    def _start_again(self, node: int) -> Session:
        com = Request(key=self._key).request(NodeAssignment().add(node, self._addresses[node]))
        try:
            coordinator = self._made(com, job=self.job, attempt=self._attempts[node])
            session = _start(coordinator)[node]
        except BaseException:
            com.close()
            raise
        self._coms.append(com)
        self._coordinators[node] = coordinator  # at once for who looks meanwhile
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
        coordinator.stop_executing(f"The submitter could not reach the nodes: {error}")
        raise
    for session in sessions.values():
        watch_for_silence(session)
    return sessions


def _ending(node: int, by: Coordinator) -> Ending:
    state, detail = by.failures[node]
    if state == "lost":
        return Ending(detail, vanished=True)
    verdict = next((verdict for verdict in reversed(by.verdicts) if verdict.node == node), None)
    last = detail.strip().rpartition("\n")[2]
    if state != "failed" or verdict is None:
        return Ending(f"it was {state}: {last}")
    reason = last
    if verdict.kind == "stuck":
        reason = f"its process stood still: {last}"
    elif verdict.signal:
        reason = f"its process was killed by signal {verdict.signal} ({signal_name(verdict.signal)})"
    elif verdict.exit_code >= 0:
        reason = f"its process ended with exit code {verdict.exit_code}"
    return Ending(reason, verdict.work - 1, crashed=True)
