"""How an agent goes that was told in time: its jobs save their state and stop, who wants their files gets them, then it ends.

staying   nobody has said anything
leaving   jobs were told to stop; the last of them may still be at it, or somebody fetches files
gone      it is time to end; whatever still runs is ended with the agent
"""

from __future__ import annotations

import enum

from ..immutable import Immutable
from ..liveness.limits import FAREWELL_SECONDS
from ..machine import Machine

_KEPT_BACK = 0.2  # the share of the grace that is kept for what follows the jobs' end


class Stage(enum.Enum):
    """Where the agent is."""

    STAYING = "staying"
    LEAVING = "leaving"
    GONE = "gone"


class LeaveAsked(Immutable):
    """The agent must be gone within `grace` seconds, for `reason`."""

    reason: str
    grace: float


class Seen(Immutable):
    """How many jobs there are now and how many visitors, and whether something is being sent to one."""

    jobs: int
    visitors: int
    sending: bool


class StopJobs(Immutable):
    """Take no more jobs, and tell those that run to save their state and stop within so many seconds."""

    reason: str
    seconds: float


class Exit(Immutable):
    """End now."""


class Drain(Machine):
    """See the module. `deadline` is when to say what is `Seen`, or None."""

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
        """The first word begins it. Others change nothing: Slurm tells the tasks of a job, and `srun`, which tells them too."""
        if self.stage is not Stage.STAYING:
            return []
        self.stage, self._end = Stage.LEAVING, now + event.grace
        return [StopJobs(event.reason, (1 - _KEPT_BACK) * event.grace)]

    def _on_seen(self, event: Seen, now: float) -> list[object]:
        if now >= self._end:
            return self._go()
        if event.jobs:
            return []
        if self._farewell is None or event.sending:
            self._farewell = now + FAREWELL_SECONDS
        return self._go() if not event.visitors or now >= self._farewell else []

    def _go(self) -> list[object]:
        self.stage = Stage.GONE
        return [Exit()]
