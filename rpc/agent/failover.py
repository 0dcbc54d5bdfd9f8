"""Driver leases of the jobs on this agent, and the manifests that drivers have handed on to it. Carries out the decisions of
`lease.DriverLease`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from network.clock import Clock
from network.errors import ProtocolError
from network.keys import Key, Keyring
from network.session import Session

from ..dialing import watch_for_silence
from ..lease import lease as who
from ..liveness.limits import SILENT_DRIVER_SECONDS
from ..machine import Tick
from ..messages import (
    Agreed,
    CanCommit,
    ClaimJob,
    Conclude,
    Denied,
    Granted,
    Halted,
    KeepManifest,
    ManifestKept,
    ManifestPart,
    ProposeAttempt,
    Standing,
    Verdict,
)
from ..support.logs import clean
from .children import ChildProcesses
from .event_log import SecurityLog, note_verdicts
from .standby import MOST_BYTES, Standby, content_of, denied, read_promise, remove_manifest, write_promise
from .store import JobFolders, JobRecord, keep_verdict
from .subscribers import Subscribers, deliver

_REAP_SECONDS = 0.1
MOST_DETAIL = 8192


@dataclass
class _NodeLease:
    """Lease of one job on one node; `sessions` are those of its driver, `known` is the last driver that was seen."""

    record: JobRecord
    key: Key
    lease: who.DriverLease
    standby: Standby
    known: str = ""
    sessions: list[Session] = field(default_factory=list)
    verdict: Verdict | None = None


class DriverLeases:
    """Leases by job and node. Jobs of a submitter that names no driver have none: no standby driver starts them again.

    Args:
        folders: folders of the jobs, in which promises and manifests lie.
        subscribers: sessions that hear which driver there is.
        cache: folder of data that outlives jobs, for standby drivers.
        audit: the agent's audit log.
        logger: the agent's log.
        clock: of all limits.
        children: starts standby drivers.
        keyring: returns the keys that admit now.
    """

    def __init__(
        self,
        folders: JobFolders,
        subscribers: Subscribers,
        cache: Path,
        audit: SecurityLog,
        logger: logging.Logger,
        clock: Clock,
        children: ChildProcesses,
        keyring: Callable[[], Keyring],
    ) -> None:
        self._keyring = keyring
        self._folders, self._subscribers, self._cache = folders, subscribers, cache
        self._audit, self._logger, self._clock, self._children = audit, logger, clock, children
        self._entries: dict[tuple[str, int], _NodeLease] = {}
        self._begun: set[tuple[str, int]] = set()  # here, since the agent was started

    @property
    def jobs(self) -> set[str]:
        """Jobs that have a driver, or will: their files here are still needed."""
        return {job for (job, _), entry in self._entries.items() if not entry.lease.over}

    def _of(self, job: str) -> Iterator[_NodeLease]:
        return (entry for (name, _), entry in list(self._entries.items()) if name == job)

    # ---- attempts

    def driver_of(self, order: CanCommit) -> str:
        """Return why the sender of `order` may not drive its job: another driver does, or it is over; "" if nothing is
        against it.
        """
        if not order.driver:
            return ""
        records = [record for record in self._folders if record.job == order.job]
        # "left" is the end for one node here: the job goes on, and may come back to this agent
        ends = [record.outcome for record in records if record.outcome not in ("", "left")]
        if ends:
            return f"it is over ({ends[-1]})"
        leases = (self._lease_of(record) for record in records)
        return next((reason for lease in leases if (reason := lease.objection(order.driver, order.term))), "")

    def _lease_of(self, record: JobRecord) -> who.DriverLease:
        """Return the promise of this node, which is on disk where the agent has been started again."""
        entry = self._entries.get((record.job, record.node))
        if entry is not None:
            return entry.lease
        # a promise on disk that this agent did not make since its start may be older than what it told a driver
        restarted = (record.job, record.node) not in self._begun
        return who.DriverLease(read_promise(self._folders.folder(record)), restarted=restarted)

    def begin(self, order: CanCommit, record: JobRecord, session: Session, key: Key) -> None:
        if not order.driver:
            return
        entry = self._entries.get((order.job, order.node))
        if entry is None or entry.lease.over:
            # what the agent has promised under an earlier number of the node binds it under the new one
            known = [self._lease_of(other).promise for other in self._folders if other.job == order.job]
            newest = max(known, key=lambda promise: (promise.agreed, promise.attempt))
            entry = self._add(record, key, who.DriverLease(newest))
        # a job that goes on after an end of before (left) has no outcome any more
        record.outcome = record.outcome_detail = ""
        entry.record, entry.key, entry.verdict = record, key, None
        self._begun.add((order.job, order.node))
        self._decide(entry, who.Begun(order.driver, order.term, order.attempt, order.attempt_state))
        self._keep(entry, session)
        self._announce(entry, order.driver)

    def _add(self, record: JobRecord, key: Key, lease: who.DriverLease) -> _NodeLease:
        standby = Standby(self._folders.folder(record), record.node, self._cache, self._children)
        entry = self._entries[record.job, record.node] = _NodeLease(record, key, lease, standby)
        return entry

    def _decide(self, entry: _NodeLease, event: object) -> who.Deny | who.Agree | who.Grant:
        """Decide the answer to a driver. A promise is on disk before any driver hears of it."""
        answer: who.Deny | who.Agree | who.Grant = who.Deny("")
        before: who.Promise | None = None
        for action in entry.lease.handle(event, self._clock.monotonic()):
            if isinstance(action, who.Keep):
                before = action.before
            elif isinstance(action, (who.Deny, who.Agree, who.Grant)):
                answer = action
        if before is not None:
            try:
                write_promise(self._folders.folder(entry.record), entry.lease.promise)
            except OSError as error:
                self._complain(entry, error)
                if not isinstance(event, who.Begun):  # a node that takes part in it has agreed to it before
                    is_new = isinstance(answer, who.Grant) and answer.is_new
                    entry.lease.restore(before, gone=is_new)
                    return who.Deny(f"it cannot be kept here: {error.strerror or error}")
        if isinstance(answer, who.Grant) and answer.is_new:
            # sessions of the driver before: their end is no loss of the new one
            entry.sessions.clear()
        return answer

    def _keep(self, entry: _NodeLease, session: Session) -> None:
        """Keep one more session of the driver. A host that vanishes without a word is noticed by the heartbeats of a running
        process, and between two attempts by the kernel's.
        """
        if session not in entry.sessions:
            entry.sessions.append(session)
            watch_for_silence(session, SILENT_DRIVER_SECONDS)

    def _announce(self, entry: _NodeLease, driver: str) -> None:
        """Tell the subscribers which driver there is, or that it begins an attempt. A claim alone may come to nothing."""
        if entry.known not in ("", driver):
            before, now = who.who(entry.known), who.who(driver)
            self._logger.warning("Job %s: %s is gone; %s drives it now.", entry.record.name, before, now)
        entry.known, entry.record.driver = driver, who.who(driver)
        self._tell(entry.record)

    # ---- messages of drivers

    def hand_off(self, order: KeepManifest, session: Session) -> ManifestKept | Denied:
        """Take the manifest that a driver hands on for its standby driver.

        Raises: ProtocolError when it names a job that was never begun here.
        """
        entry = self._entries.get((order.job, order.node))
        if entry is None or order.size > MOST_BYTES:
            raise ProtocolError(f"A manifest of job {clean(order.job)} came, which was not expected here.")
        if order.driver != entry.lease.driver:
            return denied(order.job, order.node, entry.lease, f"{who.who(entry.lease.driver)} drives it")
        for other in self._of(order.job):
            if other.record.attempt < order.attempt and other is not entry:
                self._supersede(other, entry)
        self._keep(entry, session)
        self._decide(entry, order)
        self._announce(entry, order.driver)
        try:
            if entry.standby.keep(order, session):
                self._handle(entry, who.Event.MANIFEST_COMPLETE)
        except OSError as error:
            self._complain(entry, error)
        return ManifestKept(order.job, order.node, entry.standby.whole == order.sha256)

    def _supersede(self, old: _NodeLease, new: _NodeLease) -> None:
        """Replace the lease of an earlier attempt: the agent has another number in the newest one; a standby driver that was
        started under the old one may be the driver.
        """
        if old.standby.process is not None and new.standby.process is None:
            new.standby.process, old.standby.process = old.standby.process, None
            self._handle(new, who.Event.STANDBY_HERE)
        old.record.outcome = "left"  # no session is told: those that watch hear of the new number
        self._clear(old.record)
        self._drop(old)

    def part(self, part: ManifestPart, session: Session) -> ManifestKept | None:
        """Take the next bytes of a manifest; return the answer when it is complete.

        Raises: ProtocolError for bytes that do not fit the announcement.
        """
        entry = self._entries.get((part.job, part.node))
        if entry is None:
            return None
        try:
            if not entry.standby.add(part.data, session):
                return None
        except OSError as error:
            self._complain(entry, error)
            return None
        self._handle(entry, who.Event.MANIFEST_COMPLETE)
        return ManifestKept(part.job, part.node, True)

    def claim(self, claim: ClaimJob, session: Session, key: Key) -> list[Granted | Denied | Verdict]:
        job, node = claim.job, claim.node
        # by job alone where the node is new here: this agent may have had another number in the attempt that the claimant knows
        record = self._folders.newest(job, node)
        if record is None:
            # granted with no voice: an agent that has lost its files has nothing to object, and proves nothing
            why = "This worker knows no such job."
            return [Granted(job, node, *content_of(who.Promise()), claim.term, who.NONE, 0, "unknown", why)]
        entry = self._entry(record, key)
        order = entry.standby.order
        # a manifest tells what is run: another one under the same job id would be another program
        if order is not None and order.sha256 != claim.sha256:
            self._audit.write("refused", f"{claim.driver} claims job {entry.record.name} with another manifest")
            return [denied(job, node, entry.lease, "the job has another manifest")]
        answer = self._decide(entry, claim)
        refusal = answer.reason if isinstance(answer, who.Deny) else ""
        self._audit.write("claim", f"job {record.name} by {claim.driver}: {refusal or 'granted'}")
        if not isinstance(answer, who.Grant):
            return [denied(job, node, entry.lease, refusal, record.outcome)]
        self._keep(entry, session)
        self._subscribers.add(session, job, record.node)
        state, detail = record.state, record.detail[-4096:]
        content = content_of(entry.lease.promise)
        granted = Granted(job, node, *content, claim.term, answer.voice, record.attempt, state, detail)
        # the verdict first: the driver decides with the grant, and must know by then what has happened
        return [granted] if entry.verdict is None else [entry.verdict, granted]

    def _entry(self, record: JobRecord, key: Key) -> _NodeLease:
        """Find the lease of a job that is known here; made anew where the agent was started again, or the job is over."""
        entry = self._entries.get((record.job, record.node))
        if entry is None:
            entry = self._add(record, key, self._lease_of(record))
            if record.outcome:
                self._handle(entry, who.Event.CONCLUDED)
        return entry

    def propose(self, proposal: ProposeAttempt, session: Session) -> Agreed | Denied:
        """Answer a driver that wants to begin an attempt, with this node or without it.

        Raises: ProtocolError when it has not claimed the job on this connection.
        """
        record = self._folders.newest(proposal.job, proposal.node)
        entry = None if record is None else self._entries.get((record.job, record.node))
        if entry is None or (session not in entry.sessions and entry.lease.driver == proposal.driver):
            raise ProtocolError(f"An attempt at job {clean(proposal.job)} was proposed by who had not claimed it here.")
        answer = self._decide(entry, proposal)
        if isinstance(answer, who.Deny):
            return denied(proposal.job, proposal.node, entry.lease, answer.reason, entry.record.outcome)
        self._audit.write("agreed", f"job {entry.record.name}: attempt {proposal.attempt} of {proposal.driver}")
        return Agreed(proposal.job, proposal.node, proposal.term, proposal.attempt)

    def conclude(self, end: Conclude, session: Session) -> list[int]:
        """Record the end of a job as its driver tells it; return the nodes without which it goes on."""
        ended = [entry for entry in self._of(end.job) if session in entry.sessions]
        for entry in ended:
            self._end(entry.record, end.outcome, end.detail, end.report if end.outcome == "failed" else "")
        return [entry.record.node for entry in ended if end.outcome == "left"]

    def halt(self, job: str, reason: str, session: Session) -> None:
        """End a job for `reason`. Unless its driver asks, the job is over, and the driver is told, or refused when it comes
        back.
        """
        if any(session in entry.sessions for entry in self._of(job)):  # it may drive several nodes here, each by a session
            return
        for record in self._folders:
            if record.job == job and record.driver and not record.outcome:
                entry = self._entries.get((job, record.node))
                for driver in () if entry is None else entry.sessions:
                    deliver(driver, Halted(job, reason))
                self._end(record, "stopped", reason)

    def _end(self, record: JobRecord, outcome: str, detail: str, report: str = "") -> None:
        entry = self._entries.get((record.job, record.node))
        if entry is not None:
            self._handle(entry, who.Event.CONCLUDED)
            entry.standby.abandon_upload()
            entry.standby.whole = ""
        record.outcome, record.outcome_detail = outcome, detail[:MOST_DETAIL]
        self._clear(record, report)
        self._tell(record)

    def _clear(self, record: JobRecord, report: str = "") -> None:
        folder = self._folders.folder(record)
        try:
            try:
                remove_manifest(folder)
                if report:
                    keep_verdict(record, folder, record.outcome_detail, report)
                    note_verdicts(folder, record.job, report)
            finally:
                # in any case: a job that is over must be so after a restart of the agent, whatever else fails
                self._folders.save(record)
        except OSError as error:
            self._logger.error("The end of job %s cannot be recorded: %s", record.name, error)

    # ---- losses, and the passing of time

    def note(self, record: JobRecord, verdict: Verdict) -> None:
        entry = self._entries.get((record.job, record.node))
        if entry is not None:
            entry.verdict = verdict

    def forget(self, session: Session) -> None:
        """Remove a session that has ended. A driver without any other one is gone."""
        for entry in self._entries.values():
            if session in entry.sessions:
                entry.sessions.remove(session)
                if not entry.sessions:
                    self._handle(entry, who.DriverGone(entry.lease.driver))

    @property
    def deadline(self) -> float | None:
        """Time at which `step` must be called (monotonic)."""
        deadlines = [at for entry in self._entries.values() if (at := entry.lease.deadline) is not None]
        if any(entry.standby.process is not None for entry in self._entries.values()):
            # the end of a standby driver wakes no poll, so it is looked for
            deadlines.append(self._clock.monotonic() + _REAP_SECONDS)
        return min(deadlines, default=None)

    def step(self) -> None:
        """Look which drivers have been gone for too long, and which standby drivers have ended."""
        for entry in list(self._entries.values()):
            standby = entry.standby
            if standby.process is not None and not standby.process.ended:
                standby.process.offer(self._key_of(entry))
            elif standby.process is not None:
                standby.process = None
                self._handle(entry, who.Event.STANDBY_GONE)
            # after the end of a standby driver: the limit may start another in this round
            self._handle(entry, Tick())
            if standby.process is None:
                if entry.lease.over:  # the record tells all there is to know
                    self._drop(entry)
                # nothing is awaited any more: no driver, no time at which a standby driver would start, no process
                elif not entry.lease.driver and entry.lease.deadline is None and entry.record.ended:
                    self._forsake(entry)

    def _forsake(self, entry: _NodeLease) -> None:
        """Give up a job whose driver is gone without a standby driver, and so is its process: it goes on only if the driver
        returns.
        """
        self._drop(entry)
        record = entry.record
        term = self._lease_of(record).promise.own
        self._subscribers.tell(record.job, record.node, Standing(record.job, record.node, record.attempt, term, "", "", ""))

    def _handle(self, entry: _NodeLease, event: object) -> None:
        for action in entry.lease.handle(event, self._clock.monotonic()):
            if isinstance(action, who.StartStandby):
                self._start_standby(entry)

    def _key_of(self, entry: _NodeLease) -> Key:
        """Return the key that all nodes of the job have taken from its last driver, or, where that has been changed since, the
        one in its place.
        """
        keyring = self._keyring()
        return keyring.find(entry.key.id) or keyring.offered

    def _start_standby(self, entry: _NodeLease) -> None:
        try:
            process = entry.standby.start(self._key_of(entry))
        except OSError as error:
            self._complain(entry, error)
            # counts as an attempt that has ended: the machine decides whether there is another
            self._handle(entry, who.Event.STANDBY_GONE)
            return
        if process is not None:
            self._audit.write("standby", f"job {entry.record.name}, process {process.pid}")
            self._logger.info("Job %s: nobody drives it; process %s claims it.", entry.record.name, process.pid)

    def standing(self, record: JobRecord) -> Standing | None:
        """Describe the state of a job beyond its process here; None for one without a driver and without an outcome."""
        entry = self._entries.get((record.job, record.node))
        if entry is None and not record.outcome:
            return None
        driver = "" if entry is None or record.outcome else who.who(entry.known)
        term = self._lease_of(record).promise.own
        return Standing(record.job, record.node, record.attempt, term, driver, record.outcome, record.outcome_detail)

    def _tell(self, record: JobRecord) -> None:
        told = self.standing(record)
        if told is not None:
            self._subscribers.tell(told.job, told.node, told)

    def _complain(self, entry: _NodeLease, error: OSError) -> None:
        self._logger.error("Job %s cannot be handed on here: %s", entry.record.name, error)

    def _drop(self, entry: _NodeLease) -> None:
        entry.standby.close()
        self._entries.pop((entry.record.job, entry.record.node), None)

    def let_go(self, names: Collection[str]) -> None:
        """Drop the leases of these jobs (`JobRecord.name`): their folders are gone, so no driver can go on with them here."""
        for entry in list(self._entries.values()):
            if entry.record.name in names and not entry.lease.over:  # whose standby driver ends by itself
                self._drop(entry)
        known = {(record.job, record.node) for record in self._folders}
        self._begun &= known

    def close(self) -> None:
        for entry in list(self._entries.values()):
            self._drop(entry)
