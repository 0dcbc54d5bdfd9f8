"""Fetching the files of a job later, from any machine that holds the key."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from network.clock import SystemClock
from network.controller import Controller
from network.errors import NetworkError, PeerLost, ProtocolError, TimedOut
from network.nodes import SUBMITTER

from .collection import FILE_OPERATIONS, Collection
from .files import is_safe_name
from .following import Following
from .identity import is_job_id
from .logs import SUBMIT_LOGGER, attach_console, cleaned
from .messages import Beat, Fetch, FetchEnd, Notice, Progress, Standing, State, Stop, Verdict, Watch, parse
from .run_folder import RunFolder, run_name
from .submitter_line import watch_for_silence

_NEWS = (State, Standing, Progress, Beat, Notice, Verdict)


class Reclaimer:
    """Brings logs and reports of a job from the nodes that `com` is connected with.

    >>> with network.Request().request(nodes) as com:  # doctest: +SKIP
    ...     rpc.Reclaimer(com).require_client_log()
    """

    def __init__(self, com: Controller, logger: logging.Logger | None = None) -> None:
        self._com = com
        self._clock = SystemClock()
        self._logger = cleaned(logger or logging.getLogger(SUBMIT_LOGGER))
        self.outcome = self.detail = ""
        self._outdated: dict[str, list[int]] = {}

    def require_client_log(self, job: str | None = None, directory: str | Path = ".") -> dict[int, list[Path]]:
        """Save the files of `job` (None: the newest of each node) into the folder of its run, `directory/runs/<title>-<number>/
        Node-<i>-Retrieve/`; paths per node. A run that is not in `directory` gets a folder there.

        Logs can be fetched at any time, reports once the job has ended on that node. A node that is lost, or silent for a
        minute, is logged and left out; so is, after `follow`, one without which the job has gone on.
        Raises: NetworkError when no node has files of the job.
        """
        attach_console()
        runs: dict[str, RunFolder] = {}

        def run_of(end: FetchEnd) -> RunFolder:
            if not is_job_id(end.job) or job not in (None, "", end.job):
                raise ProtocolError(f"It sends files of job {end.job[:80]!r}, {job or 'the newest'!r} was asked for.")
            title = end.title if is_safe_name(run_name(end.title)) else "job"
            return runs.setdefault(end.job, RunFolder(Path(directory), end.job, title))

        def ask(node: int) -> None:
            try:
                self._com.send_one(node, Fetch(job or "").to_value())
            except NetworkError as error:
                collection.give_up(node, str(error))

        collection = Collection(Path(directory), run_of, ask, self._logger, self._clock)
        try:
            for node in self._com.available_clients:
                if node in self._outdated.get(job or "", ()):
                    self._logger.warning("Node(%s): its files are left out, for the job has gone on without it.", node)
                    continue
                collection.expect(node)
            while collection.open:
                self._step(collection)
        finally:
            collection.close()
        for node in sorted(collection.files):
            collection.report(node)
        if not any(collection.files.values()):
            raise NetworkError(f"None of the nodes has files of {f'job {job}' if job else 'any job'}.")
        return dict(sorted(collection.files.items()))

    def follow(self, job: str | None = None) -> dict[int, tuple[str, str]]:
        """Show the progress of `job` (None: the newest of each node) until it is over; {node: (state, detail)}.

        A job that is started again is followed from attempt to attempt; afterwards `outcome` says how it has ended ("done",
        "failed", "stopped") and `detail` what its driver said to that. A node without which it has gone on is not among them.
        Raises: NetworkError when no node knows the job. A node that is lost, or whose host is silent, has the state "lost".
        """
        attach_console()
        nodes = self._com.available_clients
        following = Following(nodes, self._logger)
        for node in nodes:
            watch_for_silence(self._com.sessions[node])
        try:
            self._com.send_one(nodes, Watch(job or "").to_value())
            while not following.is_over:
                with contextlib.suppress(PeerLost):
                    node, value = self._com.get_one() or (SUBMITTER, None)
                    following.take(node, parse(value, _NEWS))
                for node in set(nodes) - set(self._com.available_clients):
                    following.lose(node, str(self._com.loss_of(node)))
        finally:
            following.close()
        states = following.states
        if all(state == "unknown" for state, _ in states.values()):
            raise NetworkError(f"None of the nodes knows {f'job {job}' if job else 'any job'}.")
        self.outcome, self.detail = following.outcome, following.detail
        self._outdated[job or ""] = outdated = following.outdated
        return {node: state for node, state in sorted(states.items()) if node not in outdated}

    def stop(self, job: str, reason: str = "It was stopped by the submitter.") -> None:
        """Tell every node to end `job`: nobody starts it again. `follow` waits for its end."""
        self._com.send_one(self._com.available_clients, Stop(job, reason).to_value())

    def _step(self, collection: Collection) -> None:
        left = (collection.deadline or 0.0) - self._clock.monotonic()
        received = None
        with contextlib.suppress(PeerLost, TimedOut):  # seen below, per node
            received = self._com.get_one(timeout=max(0.0, left))
        if received is not None:
            node, value = received
            try:
                operation = parse(value, (*FILE_OPERATIONS, *_NEWS))
                if not isinstance(operation, _NEWS):  # of a job that was followed over this connection before
                    collection.take(node, operation)
            except ProtocolError as error:
                collection.give_up(node, str(error))
        for node in collection.open:
            if node not in self._com.available_clients and not self._com.sessions[node].inbox:
                collection.give_up(node, str(self._com.loss_of(node)))
        collection.check()
