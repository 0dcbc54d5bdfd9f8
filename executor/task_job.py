"""The job behind a ClusterExecutor: started on all nodes, talked to, and awaited until the nodes are free again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from network.controller import Controller
from network.nodes import NodeAssignment
from network.request import Request
from network.session import Session
from rpc.coordinator import Coordinator
from rpc.logs import get_logger
from rpc.submitter_line import watch_for_silence

from .task_server import TaskServer

FREE_SECONDS = 10.0  # for the nodes to be free after the last task
logger = get_logger("executor")


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
            self._coordinator = Coordinator(self._com, logger=logger, title=title, blas_threads=blas_threads, collects=False)
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

    def lost(self) -> dict[int, str]:
        """The nodes whose agent is gone or silent, and why; takes no time. To be called now and then."""
        return self._coordinator.look_after()

    def await_free(self) -> None:
        """Wait until the nodes have ended the job, for `FREE_SECONDS`; then close the connections."""
        try:
            left = self._coordinator.await_end(FREE_SECONDS)
            if left:
                logger.warning("After %g s these nodes have not said that they are free: %s.", FREE_SECONDS, left)
        finally:
            self._com.close()
