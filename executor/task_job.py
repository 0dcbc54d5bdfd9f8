"""The job behind a ClusterExecutor: started on all nodes, talked to, and awaited until the nodes are free again."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from network.controller import Controller
from network.errors import NetworkError, PeerLost, TimedOut
from network.nodes import NodeAssignment
from network.request import Request
from network.session import Session
from rpc.coordinator import Coordinator
from rpc.messages import FROM_AGENT, State, parse
from rpc.submitter_line import watch_for_silence

from .task_server import TaskServer

FREE_SECONDS = 10.0  # for the nodes to be free after the last task
_UNFINISHED = ("starting", "running", "unknown")
logger = logging.getLogger("executor")


class TaskJob:
    """Attributes: `sessions` with the task servers, by node; `names` of the nodes, for people."""

    def __init__(self, nodes: NodeAssignment, key_file: str | Path | None, title: str, blas_threads: int) -> None:
        workers = NodeAssignment(key_file=key_file or nodes.key_file)
        for node, address in nodes.items():
            if node >= 0:
                workers.add(node, address)
        if not len(workers):
            raise ValueError("ClusterExecutor 'nodes' must have at least one worker, got none.")
        self._com: Controller = Request().request(workers)
        try:
            self.names: Mapping[int, str] = {node: f"Node({node}) at {address}" for node, address in workers.items()}
            self._coordinator = Coordinator(self._com, logger=logger, title=title, blas_threads=blas_threads)
            self._coordinator.submit_group(TaskServer)
            self._coordinator.resources_dispatch(lambda node, request: None)
            self.sessions: Mapping[int, Session] = self._call()
        except BaseException:
            self._com.close()
            raise

    @property
    def job(self) -> str:
        """Its id, as `job_submit.py --stop` takes it."""
        return self._coordinator.job

    def _call(self) -> dict[int, Session]:
        try:
            sessions = self._coordinator.call()
        except BaseException as error:
            self._coordinator.stop_executing(f"The submitter could not reach the nodes: {error}")
            raise
        for session in sessions.values():
            watch_for_silence(session)
        return sessions

    def await_free(self) -> None:
        """Wait until the nodes have ended the job, for `FREE_SECONDS`; then close the connections."""
        deadline = time.monotonic() + FREE_SECONDS
        left = set(self._com.sessions) - set(self._coordinator.failures)
        try:
            while left and (seconds := deadline - time.monotonic()) > 0:
                try:
                    received = self._com.get_one(timeout=seconds)
                except PeerLost as lost:
                    left -= set(self._com.sessions) if lost.node_id is None else {lost.node_id}
                    continue
                if received is not None:
                    with contextlib.suppress(NetworkError):  # an agent that speaks out of turn is waited for like the others
                        said = parse(received[1], FROM_AGENT)
                        if isinstance(said, State) and said.job == self.job and said.state not in _UNFINISHED:
                            left.discard(received[0])
        except TimedOut:
            logger.warning("After %g s these nodes have not said that they are free: %s.", FREE_SECONDS, sorted(left))
        finally:
            self._com.close()
