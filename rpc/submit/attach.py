"""Return to a job, from any machine that holds the key: its state, its files, its end."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from pathlib import Path

from network.clock import SystemClock
from network.controller import Controller
from network.errors import NetworkError, PeerLost, ProtocolError, TimedOut
from network.nodes import SUBMITTER

from ..dialing import watch_for_silence
from ..errors import UnknownJob
from ..messages import (
    Fetch,
    FetchEnd,
    Heartbeat,
    Notice,
    Operation,
    Progress,
    Remark,
    Standing,
    State,
    Stop,
    Subscribe,
    Verdict,
    parse,
)
from ..support.files import is_safe_name
from ..support.identity import is_job_id
from ..support.logs import HEADLINE, PLAIN, SUBMIT_LOGGER, attach_console, clean, cleaned
from .downloads import FILE_OPERATIONS, Downloads
from .run_folder import RunFolder, run_name
from .terminal import ProgressDisplay

_FROM_AGENT = (State, Standing, Progress, Remark, Heartbeat, Notice, Verdict)


class Reclaimer:
    """Reclaimer of logs and reports of a job from the nodes that `com` is connected with.

    Attributes: `states`, the state of the job at each node whose files were asked for; `outcome` and `detail`, see `follow`.

    Args:
        com: sessions with the agents.
        logger: default "P-SGD Submit".

    >>> with network.Request().request(nodes) as com:  # doctest: +SKIP
    ...     rpc.Reclaimer(com).require_client_log()
    """

    def __init__(self, com: Controller, logger: logging.Logger | None = None) -> None:
        self._com = com
        self._clock = SystemClock()
        self._logger = cleaned(logger or logging.getLogger(SUBMIT_LOGGER))
        self.outcome = self.detail = ""
        self.states: dict[int, str] = {}
        self._outdated: dict[str, list[int]] = {}
        self._strangers: dict[str, list[int]] = {}  # nodes that have no part in a job that was followed

    def require_client_log(self, job: str | None = None, directory: str | Path = ".") -> dict[int, list[Path]]:
        """Save the files of a job into the folder of its run, `directory/runs/<title>-<number>/Node-<i>-Retrieve/`.

        Logs can be fetched at any time, reports once the job has ended on that node. A node that is lost, or silent for a
        minute, is logged and left out; so is, after `follow`, one without which the job has gone on. One that had no part in
        the job that was followed is not asked.

        Args:
            job: its id; None: the newest of each node.
            directory: a run that is not in it gets a folder there.

        Returns: paths per node.

        Raises: UnknownJob when no node has files of the job, NetworkError when none has come.
        """
        attach_console()
        runs: dict[str, RunFolder] = {}

        def run_of(end: FetchEnd) -> RunFolder:
            # an agent names the job whose files it sends: those of another one would go into the folder of that run
            if not is_job_id(end.job) or job not in (None, "", end.job):
                raise ProtocolError(f"It sends files of job {end.job[:80]!r}, {job or 'the newest'!r} was asked for.")
            title = end.title if is_safe_name(run_name(end.title)) else "job"  # an agent chose it, and it names a folder
            return runs.setdefault(end.job, RunFolder(Path(directory), end.job, title))

        def ask(node: int) -> None:
            try:
                self._com.send_one(node, Fetch(job or "").to_value())
            except NetworkError as error:
                downloads.give_up(node, str(error))

        downloads = Downloads(Path(directory), run_of, ask, self._logger, self._clock)
        try:
            for node in self._com.available_clients:
                if node in self._outdated.get(job or "", ()):
                    self._logger.warning("Node(%s): its files are left out, for the job has gone on without it.", node)
                    continue
                if node not in self._strangers.get(job or "", ()):
                    downloads.expect(node)
            while downloads.open:
                self._step(downloads)
        finally:
            downloads.close()
        for node in sorted(downloads.files):
            downloads.report(node)
        self.states = {**downloads.states, **dict.fromkeys(downloads.missing, "lost")}
        if not any(downloads.files.values()):
            if downloads.missing:
                reasons = "; ".join(f"Node({node}): {reason.rstrip('.')}" for node, reason in sorted(downloads.missing.items()))
                told = f"No files of {f'job {job}' if job else 'any job'} have come. {reasons}. {downloads.remedy(job or '')}"
                raise NetworkError(told.rstrip())
            raise UnknownJob(f"None of the nodes has files of {f'job {job}' if job else 'any job'}.")
        return dict(sorted(downloads.files.items()))

    def follow(self, job: str | None = None) -> dict[int, tuple[str, str]]:
        """Show the progress of `job` (None: the newest of each node) until it is over; return {node: (state, detail)}.

        A job that is started again is followed from attempt to attempt; afterwards `outcome` says how it has ended ("done",
        "failed", "stopped") and `detail` is its driver's comment. A node without which it has gone on is not among them.

        Raises: UnknownJob when no node knows the job. A node that is lost, or whose host is silent, has the state "lost".
        """
        attach_console()
        nodes = self._com.available_clients
        following = JobStatus(nodes, self._logger)
        # an agent of a long job may be silent for hours: its kernel tells whether the host is there
        for node in nodes:
            watch_for_silence(self._com.sessions[node])
        try:
            self._com.send_one(nodes, Subscribe(job or "").to_value())
            while not following.is_over:
                # told below, by node
                with contextlib.suppress(PeerLost):
                    node, value = self._com.get_one() or (SUBMITTER, None)
                    following.take(node, parse(value, _FROM_AGENT))
                for node in set(nodes) - set(self._com.available_clients):
                    following.lose(node, str(self._com.loss_of(node)))
        finally:
            following.close()
        states = following.states
        if all(state == "unknown" for state, _ in states.values()):
            raise UnknownJob(f"None of the nodes knows {f'job {job}' if job else 'any job'}.")
        self.outcome, self.detail = following.outcome, following.detail
        self._outdated[job or ""] = outdated = following.outdated
        self._strangers[job or ""] = [node for node, (state, _) in states.items() if state == "unknown"]
        return {node: state for node, state in sorted(states.items()) if node not in outdated}

    def stop(self, job: str, reason: str = "It was stopped by the submitter.") -> None:
        """Tell every node to end a job: it is not started again. `follow` waits for its end.

        Args:
            job: id of the job.
            reason: the reason, in words, for its logs.
        """
        self._com.send_one(self._com.available_clients, Stop(job, reason).to_value())

    def _step(self, downloads: Downloads) -> None:
        left = (downloads.deadline or 0.0) - self._clock.monotonic()
        received = None
        with contextlib.suppress(PeerLost, TimedOut):  # seen below, per node
            received = self._com.get_one(timeout=max(0.0, left))
        if received is not None:
            node, value = received
            # one agent that breaks the rules must not end the others' downloads
            try:
                operation = parse(value, (*FILE_OPERATIONS, *_FROM_AGENT))
                if not isinstance(operation, _FROM_AGENT):  # of a job that was followed over this connection before
                    downloads.take(node, operation)
            except ProtocolError as error:
                downloads.give_up(node, str(error))
        for node in downloads.open:  # a lost node may have sent its last files before: its inbox is emptied first
            if node not in self._com.available_clients and not self._com.sessions[node].inbox:
                downloads.give_up(node, str(self._com.loss_of(node)))
        downloads.check()


_UNFINISHED = ("starting", "running")
_OVER = ("done", "failed", "stopped")


class JobStatus:
    """Status of a job, from the messages of the agents of `nodes`, until `is_over`.

    Attributes: `states`, {node: (state, detail)} of the processes, as the sessions number them; `outcome` ("done", "failed",
    "stopped") and `detail` of the job as a whole, once it is over.
    """

    def __init__(self, nodes: Iterable[int], logger: logging.Logger) -> None:
        self._nodes = list(nodes)
        self._logger = logger
        self.states: dict[int, tuple[str, str]] = {}
        self._standings: dict[int, Standing] = {}
        self._attempt: int | None = None
        self._driver = ""
        self._display = ProgressDisplay([], logger)
        self.detail = ""

    def take(self, node: int, told: Operation) -> None:
        if isinstance(told, State):
            self.states[node] = (told.state, told.detail)
        elif isinstance(told, Standing):
            self._take_standing(node, told)
        elif isinstance(told, Progress):
            self._show(told)
        elif isinstance(told, Remark):
            level = logging.INFO if told.over else logging.WARNING
            self._logger.log(level, "Node(%s): %s", told.node, clean(told.text), extra=PLAIN if told.over else HEADLINE)
        elif isinstance(told, Verdict) and told.rank == 2:  # a consequence of the loss of another node
            self._logger.info("%s", told.headline)
        elif isinstance(told, (Notice, Verdict)):
            self._logger.warning("%s", told.describe())

    def lose(self, node: int, reason: str) -> None:
        self.states[node] = ("lost", reason)
        self._standings.pop(node, None)

    def _take_standing(self, node: int, told: Standing) -> None:
        known = self._standings.get(node)
        if known is not None and _age(told) < _age(known):  # it was on its way when the newer one was sent
            return
        self._standings[node] = told
        if told.outcome == "left":  # the job goes on without this node
            return
        if self._attempt is not None and told.attempt > self._attempt:
            self._logger.warning("The job has been started again: attempt %s.", told.attempt + 1)
            self._display.begin([])  # the attempt may have other workers, which come with their progress
        self._attempt = max(told.attempt, self._attempt or 0)
        if told.driver not in ("", "nobody", self._driver):
            # the first one is no change
            if self._driver:
                self._logger.warning("%s drives the job from now on.", clean(told.driver))
            else:
                self._logger.info("%s drives the job.", clean(told.driver))
            self._driver = told.driver

    def _show(self, told: Progress) -> None:
        if told.node in self._display:
            self._display.update(told.node, told.percent, told.note)
        elif told.node >= 0:
            self._display.add(told.node, told.percent, told.note)

    @property
    def outcome(self) -> str:
        newest = self._newest
        # of the newest attempt: an older end was that of an attempt from which the job has gone on
        told = next((told for told in self._standings.values() if told.outcome in _OVER and _age(told) == newest), None)
        if told is not None:
            self.detail = told.detail
            return told.outcome
        if not all(self._is_settled(node) for node in self._nodes):
            return ""
        # no driver tells an end: the processes' own ends have to do
        ends = {state for state, _ in self.states.values()}
        return "done" if ends <= {"done", "unknown"} else "stopped" if "stopped" in ends and "failed" not in ends else "failed"

    def _is_settled(self, node: int) -> bool:
        """Tell if no more news is to be expected of a node: its process has ended, and no driver starts it again."""
        standing = self._standings.get(node)
        driven = standing is not None and standing.driver != "" and standing.outcome == ""
        return self.states.get(node, ("starting", ""))[0] not in _UNFINISHED and not driven

    @property
    def _newest(self) -> tuple[int, int]:
        return max(map(_age, self._standings.values()), default=(0, 0))

    @property
    def outdated(self) -> list[int]:
        """Nodes of attempts from which the job has gone on without them: their files are not its result."""
        newest = self._newest
        return [node for node, told in self._standings.items() if _age(told) < newest]

    @property
    def is_over(self) -> bool:
        """Whether the agents have told all: the job is over, and so is every process of which we hear."""
        ended = all(self.states.get(node, ("starting", ""))[0] not in _UNFINISHED for node in self._nodes)
        # both: after the end of the job its last processes may still write
        return self.outcome != "" and ended

    def close(self) -> None:
        self._display.close()


def _age(standing: Standing) -> tuple[int, int]:
    """Order attempts: a later driver counts on, but may not know how often the one before it has tried."""
    return standing.term, standing.attempt
