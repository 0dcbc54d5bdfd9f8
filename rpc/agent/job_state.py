"""State of one job at an agent: a machine from acceptance to the free slot.

starting    the job process exists; the submitter may still take everything back
running     the executor works; the submitter may leave
leaving     the outcome is known or the end was ordered; the process is expected to exit
free        the process is gone, the outcome is told
"""

from __future__ import annotations

import enum
from dataclasses import replace

from ..errors import JobAborted
from ..liveness.limits import EXIT_SECONDS, HALT_SECONDS, ROLL_BACK_SECONDS
from ..machine import Machine, Tick
from ..support.immutable import Immutable
from ..verdict import is_loss


class Stage(enum.Enum):
    """Stage of the job."""

    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"
    FREE = "free"


class Reported(Immutable):
    """Event: the job process has reached a state: running, done, failed or stopped."""

    state: str
    detail: str = ""
    files: tuple[str, ...] = ()


class ProcessGone(Immutable):
    """Event: the job process has ended; `how` says it in words, `killed`: by a signal."""

    how: str
    killed: bool = False


class SubmitterGone(Immutable):
    """Event: the submitter's connection has ended."""


class AbortAsked(Immutable):
    """Event: the submitter takes the job back before it has started everywhere."""

    reason: str


class StopAsked(Immutable):
    """Event: the job is to end within `seconds`: a submitter with the cluster's key wants it ("stopped"), or the agent goes
    ("left").
    """

    reason: str
    seconds: float = HALT_SECONDS
    state: str = "stopped"


class Condemned(Immutable):
    """Event: the failure detector has found the process stuck, or before the start stopped by a signal."""

    reason: str


class Kill(Immutable):
    """Action: end the process and its children at once."""


class OrderHalt(Immutable):
    """Action: ask the process to stop."""

    reason: str


class Tell(Immutable):
    """Action: record the state and tell all subscribers."""

    state: str
    detail: str
    files: tuple[str, ...] = ()


class Free(Immutable):
    """Action: the slot can take the next job."""


class JobStateMachine(Machine):
    """State machine of one job at an agent: decides when its process is stopped or killed, and when its slot is free.

    `deadline` is when to send the next Tick, or None.
    """

    def __init__(self, start_limit: float, now: float) -> None:
        super().__init__()
        self.stage = Stage.STARTING
        # later than the submitter's own limit: it gives up first, and tells why
        self.deadline: float | None = now + start_limit + ROLL_BACK_SECONDS
        self._outcome: Tell | None = None
        self._stopped = "stopped"  # the state after an end by order

    def _decide(self, event: object, now: float) -> list[object]:
        if self.stage is Stage.FREE:
            raise self._impossible(event)
        if isinstance(event, Reported):
            return self._on_report(event, now)
        if isinstance(event, ProcessGone):
            return self._on_gone(event)
        if isinstance(event, SubmitterGone):
            # before the start only the submitter can roll this node back; afterwards it may leave
            return self._end("aborted", "The submitter left before the job had started.", now) if self._starting else []
        if isinstance(event, AbortAsked):
            # an outcome that is known stays: the job may have ended just before
            return self._end("aborted", event.reason, now) if self._outcome is None else []
        if isinstance(event, StopAsked):
            return self._on_stop(event, now)
        if isinstance(event, Condemned):
            return self._end("failed", event.reason, now) if self.stage is not Stage.LEAVING else []
        if isinstance(event, Tick):
            return self._on_tick(now)
        raise self._impossible(event)

    @property
    def _starting(self) -> bool:
        return self.stage is Stage.STARTING

    def _on_report(self, event: Reported, now: float) -> list[object]:
        # the first report counts; a process that is being ended may still speak
        if self._outcome is not None:
            return []
        if event.state == "running":
            if not self._starting:
                return []
            self.stage, self.deadline = Stage.RUNNING, None
            return [Tell("running", "")]
        state = self._stopped if event.state == "stopped" else event.state
        self._outcome = Tell(state, event.detail, event.files)
        # told only when the process is gone: until then its files may still be written
        self.stage, self.deadline = Stage.LEAVING, now + EXIT_SECONDS
        return []

    def _on_stop(self, event: StopAsked, now: float) -> list[object]:
        self._stopped = event.state
        if self.stage is Stage.LEAVING:
            outcome = self._outcome
            if outcome is not None and outcome.state == "stopped":  # by the signal that the agent got, too
                self._outcome = replace(outcome, state=event.state)
            elif outcome is not None and event.state == "stopped" and outcome.state == "failed" and is_loss(outcome.detail):
                self._outcome = replace(outcome, state="stopped", detail=str(JobAborted(event.reason)))  # others heard before
            return []
        # nothing to save yet, so it need not be asked
        if self._starting:
            return self._end("aborted", event.reason, now)
        self.stage, self.deadline = Stage.LEAVING, now + event.seconds
        return [OrderHalt(event.reason)]

    def _end(self, state: str, detail: str, now: float) -> list[object]:
        self._outcome = Tell(state, detail)
        self.stage, self.deadline = Stage.LEAVING, now + EXIT_SECONDS
        return [Kill()]

    def _on_tick(self, now: float) -> list[object]:
        if self.deadline is None or now < self.deadline:
            return []
        if self._starting:
            return self._end("failed", "The job process did not start its executor in time.", now)
        if self._outcome is None:
            self._outcome = Tell(self._stopped, "The job did not react to the order to stop and was killed.")
        # again and again: a process in an uninterruptible wait ends some time
        self.deadline = now + EXIT_SECONDS
        return [Kill()]

    def _on_gone(self, event: ProcessGone) -> list[object]:
        outcome = self._outcome
        if outcome is None:
            # no order to stop kills: it was killed before it could obey, and those that lost it may have caused the order
            killed = event.killed and self._stopped == "stopped"
            state = self._stopped if self.stage is Stage.LEAVING and not killed else "failed"
            outcome = Tell(state, f"The job process ended without a report: {event.how}.")
        self.stage, self.deadline = Stage.FREE, None
        return [outcome, Free()]
