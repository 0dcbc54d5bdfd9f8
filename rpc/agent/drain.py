"""Drain of an agent that was told to leave: its jobs save their state and stop, submitters fetch their files, then it ends.

staying   it was not told to leave
leaving   jobs were told to stop; the last of them may still be at it, or a submitter fetches files
gone      it is time to end; jobs that still run are ended with the agent
"""

from __future__ import annotations

import enum

from ..liveness.limits import FAREWELL_SECONDS
from ..machine import Machine
from ..support.immutable import Immutable

_KEPT_BACK = 0.2  # the share of the grace that is kept for the work after the jobs' end


class Stage(enum.Enum):
    """Stage of the agent."""

    STAYING = "staying"
    LEAVING = "leaving"
    GONE = "gone"


class LeaveAsked(Immutable):
    """Event: the agent must be gone within `grace` seconds, for `reason`."""

    reason: str
    grace: float


class Seen(Immutable):
    """Event: the agent has so many jobs now and so many visitors, and sends bytes to one of them or not."""

    jobs: int
    visitors: int
    sending: bool


class StopJobs(Immutable):
    """Action: take no more jobs, and tell those that run to save their state and stop within so many seconds."""

    reason: str
    seconds: float


class Exit(Immutable):
    """Action: end now."""


class Drain(Machine):
    """State machine of an agent that leaves: decides when its jobs are told to stop, and when the agent ends.

    `deadline` is when to send the next `Seen`, or None.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage.STAYING
        self._end = 0.0
        self._farewell: float | None = None  # until when visitors may come up with a wish

    @property
    def deadline(self) -> float | None:
        if self.stage is not Stage.LEAVING:
            return None
        return self._end if self._farewell is None else min(self._end, self._farewell)

    def _decide(self, event: object, now: float) -> list[object]:
        if isinstance(event, LeaveAsked):
            return self._on_asked(event, now)
        if isinstance(event, Seen):
            return self._on_seen(event, now) if self.stage is Stage.LEAVING else []
        raise self._impossible(event)

    def _on_asked(self, event: LeaveAsked, now: float) -> list[object]:
        """Begin with the first request. Others change nothing: Slurm tells the tasks of a job, and `srun`, which tells them
        too.
        """
        if self.stage is not Stage.STAYING:
            return []
        self.stage, self._end = Stage.LEAVING, now + event.grace
        return [StopJobs(event.reason, (1 - _KEPT_BACK) * event.grace)]

    def _on_seen(self, event: Seen, now: float) -> list[object]:
        if now >= self._end:
            # out of time, whatever goes on: the scheduler would kill in a moment
            return self._go()
        if event.jobs:
            return []
        # visitors that fetch files keep the agent; those that only watch get a moment to come with a wish
        if self._farewell is None or event.sending:
            self._farewell = now + FAREWELL_SECONDS
        return self._go() if not event.visitors or now >= self._farewell else []

    def _go(self) -> list[object]:
        self.stage = Stage.GONE
        return [Exit()]
