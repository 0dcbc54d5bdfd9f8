"""Job processes of an agent: at most so many as it has slots, each reported to all its subscribers."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict

from network import VERSION
from network.clock import Clock
from network.keys import Key
from network.session import Session

from ..machine import Tick
from ..messages import (
    Accepted,
    Advanced,
    CanCommit,
    Lose,
    Notice,
    Operation,
    Progress,
    Refused,
    Remark,
    SecurityEvent,
    State,
    Suspect,
    Verdict,
    Warned,
)
from ..support.identity import host_name, process_name
from ..support.logs import clean
from ..support.processors import limit_met
from . import job_state
from .checks import objection, too_few_slots
from .event_log import SecurityLog
from .failover import DriverLeases
from .store import JobFolders, JobRecord
from .subscribers import Subscribers
from .supervisor import Supervisor, Surroundings

_REAP_SECONDS = 0.01
OUTCOMES = ("done", "failed", "stopped", "left", "aborted")


class ProcessTable:
    """Table that starts, watches and ends job processes.

    Attributes: `attempts`, how many it has started; `restarts`, those of them that were not the first attempt at their job;
    `ended`, how many have ended with each outcome.

    Args:
        surroundings: resources that the processes share.
        folders: folders of the jobs.
        leases: drivers of the jobs.
        subscribers: sessions that hear of them.
        audit: the agent's audit log.
        logger: the agent's log.
        clock: of all limits.
    """

    def __init__(
        self,
        surroundings: Surroundings,
        folders: JobFolders,
        leases: DriverLeases,
        subscribers: Subscribers,
        audit: SecurityLog,
        logger: logging.Logger,
        clock: Clock,
    ) -> None:
        self._surroundings, self._folders = surroundings, folders
        self._leases, self._subscribers = leases, subscribers
        self._audit, self._logger, self._clock = audit, logger, clock
        self._supervisors: list[Supervisor] = []
        self._leaving = ""  # why no more jobs are taken
        self.attempts = self.restarts = 0
        self.ended = Counter(dict.fromkeys(OUTCOMES, 0))

    def __iter__(self) -> Iterator[Supervisor]:
        return iter(self._supervisors)

    def __len__(self) -> int:
        return len(self._supervisors)

    def find(self, name: str) -> Supervisor | None:
        return next((supervisor for supervisor in self._supervisors if supervisor.name == name), None)

    @property
    def deadline(self) -> float | None:
        ours = [self._folders.deadline, *(supervisor.deadline for supervisor in self._supervisors)]
        deadlines = [deadline for deadline in ours if deadline is not None]
        if any(supervisor.channel is None for supervisor in self._supervisors):  # it has hung up and will be reaped
            deadlines.append(self._clock.monotonic() + _REAP_SECONDS)
        return min(deadlines, default=None)

    def take(self, order: CanCommit, submitter: Session, cluster: Key) -> Accepted | Refused:
        """Start the job process of `order`, unless something speaks against it; return the answer.

        Args:
            order: the order of the submitter.
            submitter: its session.
            cluster: the key that the submitter has proven; the keys of the job are derived from it.
        """
        problem = objection(order) or self._surroundings.kernels.objection(order.kernels)
        if problem:
            return Refused(order.job, order.node, problem, 0.0)
        if self._leaving:
            # the one in its place will take jobs
            return Refused(order.job, order.node, f"this worker leaves: {self._leaving}", time.time())
        # before the slots are looked at: a job that another drives must not say "busy" to its old driver
        driver = self._leases.driver_of(order)
        if driver:
            return Refused(order.job, order.node, driver, 0.0, driver)
        before = self.find(process_name(order.job, order.node))  # an earlier attempt, which has not ended yet
        if before is not None or len(self._supervisors) >= self._surroundings.slots:
            holder = (before or self._supervisors[0]).record
            since = time.strftime("%H:%M:%S", time.localtime(holder.started))
            reason = f"busy with job '{clean(holder.title)}' since {since}"
            mates = [each.order.node for each in self._of(order.job) if each.order.attempt == order.attempt]
            if before is None and mates:
                reason = f"{reason}, which is this one: {too_few_slots(self._surroundings.slots, [*mates, order.node])}"
            return Refused(order.job, order.node, reason, holder.started)
        try:
            supervisor = self._start(order, submitter, cluster)
        except OSError as error:
            problem = f"the job process cannot be started: {limit_met(error) or error.strerror or error}"
            self._logger.error("Job %s (%s) refused: %s.", clean(order.job), clean(order.title), problem)
            return Refused(order.job, order.node, problem, 0.0)
        self._supervisors.append(supervisor)
        self.attempts += 1
        self.restarts += order.attempt > 0
        self._subscribers.add(submitter, order.job, order.node)
        # after the subscription: it tells the subscribers which driver there is
        self._leases.begin(order, supervisor.record, submitter, cluster)
        self._logger.info("Job %s (%s) accepted as node %s.", order.job, clean(order.title), order.node)
        self._audit.write("accepted", f"job {supervisor.name} from {submitter.link.peer}")
        return Accepted(order.job, order.node, host_name(), self._surroundings.port, self._surroundings.unix_path, VERSION)

    def _start(self, order: CanCommit, submitter: Session, cluster: Key) -> Supervisor:
        nodes = sorted({order.node, *order.group, *order.others})
        record = self._folders.create(order.job, order.node, order.title, order.attempt, nodes)
        try:
            return Supervisor(
                order,
                record,
                self._folders.folder(record),
                submitter,
                cluster,
                self._surroundings,
                self._clock.monotonic(),
                self._tell,
            )
        except OSError as error:
            # the folder is there: its record must not look like that of a job that runs
            record.state, record.detail, record.ended = "failed", str(error), time.time()
            self._save(record)
            raise

    def step(self) -> None:
        """Take in the messages of the processes, and free the slots of those that have ended."""
        now = self._clock.monotonic()
        self._folders.save_again()
        for supervisor in list(self._supervisors):
            for event in [*supervisor.read(now), Tick()]:  # the messages first: they may have come within a limit that is over
                supervisor.handle(event, now)
            supervisor.look(now)
            if supervisor.free:
                self._supervisors.remove(supervisor)
                self._clean_up()
                self._logger.info("Worker restarting...")

    def keep_alive(self) -> None:
        """Send the heartbeats that are due, while the agent waits for its disk: its host is not gone."""
        now = self._clock.monotonic()
        for supervisor in self._supervisors:
            for heartbeat in supervisor.keep_alive(now):
                self._subscribers.tell(supervisor.record.job, supervisor.record.node, heartbeat)

    def _clean_up(self) -> None:
        try:
            removed = self._folders.clean_up(self._leases.jobs)
        except OSError as error:  # a process that has escaped may still write there
            self._logger.warning("Old jobs cannot be removed: %s", error)
            return
        if removed:
            self._leases.let_go(removed)
            self._logger.info("Removed old jobs: %s", ", ".join(removed))

    def _of(self, job: str, node: int | None = None) -> list[Supervisor]:
        return [each for each in self._supervisors if each.order.job == job and node in (None, each.order.node)]

    def end(self, job: str, event: job_state.AbortAsked | job_state.StopAsked, node: int | None = None) -> None:
        """Tell all processes of `job` here, or that of one node, that they are to end.

        Args:
            job: id of the job.
            event: the order, with its reason.
            node: the node of the process that is to end; default: all.
        """
        for supervisor in self._of(job, node):
            # before the event: what it causes stands behind it in the log
            supervisor.events.note("ordered to end", reason=event.reason)
            supervisor.handle(event, self._clock.monotonic())

    def leave(self, reason: str, seconds: float) -> None:
        """Take no more jobs, and tell those that run to save their state and stop within `seconds`: the agent leaves."""
        self._leaving = reason
        for supervisor in self._supervisors:
            supervisor.events.note("ordered to end", reason=reason)
            supervisor.handle(job_state.StopAsked(f"Its worker leaves: {reason}.", seconds, "left"), self._clock.monotonic())

    def write_down(self, job: str) -> None:
        for supervisor in self._of(job):
            supervisor.write_down()

    def pass_on(self, message: Lose | Suspect) -> None:
        """Tell the processes of a job here that another node is lost, or late."""
        for supervisor in self._of(message.job):
            # a node cannot be told that it is lost itself
            if supervisor.order.node != message.node:
                supervisor.tell_of_peer(message)

    def forget(self, session: Session) -> None:
        """Take back a job that `session`, which has ended, was starting."""
        for supervisor in self._supervisors:
            if supervisor.submitter is session:
                supervisor.handle(job_state.SubmitterGone(), self._clock.monotonic())

    def _tell(self, supervisor: Supervisor, said: Operation | job_state.Tell) -> None:
        """Tell all subscribers the state of a job, and that it is alive, late, well again or dead."""
        job, node = supervisor.record.job, supervisor.record.node
        if isinstance(said, SecurityEvent):
            self._audit.write(said.event, f"job {supervisor.name}: {said.detail}")
            return
        if isinstance(said, job_state.Tell):
            self._record(supervisor, said)
            said = State(job, node, said.state, said.detail)
        elif isinstance(said, Advanced):
            said = Progress(job, node, said.percent, said.note)
        elif isinstance(said, Warned):
            level = logging.INFO if said.over else logging.WARNING
            self._logger.log(level, "Job %s: %s", supervisor.name, clean(said.text))
            said = Remark(job, node, said.text, said.over)
        elif isinstance(said, (Notice, Verdict)):
            text = said.headline if isinstance(said, Verdict) else said.describe()
            self._logger.warning("Job %s: %s", supervisor.name, clean(text))
            supervisor.events.note(type(said).__name__.lower(), **asdict(said))
            if isinstance(said, Verdict):
                self._leases.note(supervisor.record, said)
        self._subscribers.tell(job, node, said)

    def _record(self, supervisor: Supervisor, tell: job_state.Tell) -> None:
        record = supervisor.record
        record.state, record.detail = tell.state, tell.detail
        if tell.state != "running":
            supervisor.write_down()  # its last signals stand before its end in the event log
        supervisor.events.note("state", state=tell.state, detail=tell.detail)
        if tell.state != "running":
            self.ended[tell.state] += 1
            record.ended, record.files = time.time(), list(tell.files)
            level = logging.INFO if tell.state == "done" else logging.WARNING
            lines = tell.detail.strip().splitlines()
            said = f"{tell.state}. {clean(lines[-1] if lines else '')}".rstrip()
            self._logger.log(level, "Job %s: %s", supervisor.name, said)
        # before the subscribers hear of it: one that fetches at once finds the end in the record
        self._save(record)

    def _save(self, record: JobRecord) -> None:
        try:
            self._folders.save(record)
        except OSError as error:
            self._logger.error("The record of job %s cannot be written, and will be tried again: %s", record.name, error)

    def close(self) -> None:
        for supervisor in self._supervisors:
            supervisor.handle(job_state.AbortAsked("The worker was ended."), self._clock.monotonic())
            supervisor.end()  # it waits for the process, so the next event is true; with it the record is written
            supervisor.handle(job_state.ProcessGone("the worker was ended"), self._clock.monotonic())
        self._supervisors.clear()
