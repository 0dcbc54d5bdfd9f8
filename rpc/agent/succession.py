"""Who drives a job, as one of its nodes sees it: a state machine.

driven      a driver is connected; nobody else may be
vacant      the driver is gone; the first who claims the job gets it. The node waits according to its place in seniority, so
            that its seniors come first, then it starts an heir of its own
over        the job has ended, or goes on without this node

An heir is granted the job by each node by itself and drives only with a majority of them, so a driver that has lost the
connection with this node alone stays what it is: the heir that is started here is denied the job by the others, and ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..machine import Machine

PLACE_SECONDS = 1.0
"""How long a node waits for each of its seniors: an heir needs a little less to start and to claim the job."""

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0
"""After an heir that has ended for nothing; twice as long after each further one."""


@dataclass(frozen=True)
class Entrusted:
    """The driver has told the node what its heir must know, and its place in seniority."""

    place: int


@dataclass(frozen=True)
class Inherited:
    """The estate is here as a whole: an heir could take over."""


@dataclass(frozen=True)
class Claimed:
    """Somebody wants to drive the job."""

    by: str


@dataclass(frozen=True)
class DriverGone:
    """The last connection of a driver has ended."""

    by: str


@dataclass(frozen=True)
class HeirGone:
    """The heir that was started here has ended."""


@dataclass(frozen=True)
class HeirHere:
    """An heir that was started here for this job, when the node had another number."""


@dataclass(frozen=True)
class Concluded:
    """The driver says that the job is over, or the user that it shall be."""


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True)
class StartHeir:
    """Start a process that claims the job and drives it."""


@dataclass(frozen=True)
class Grant:
    """The claimant drives; `is_new` unless it has done so already."""

    by: str
    is_new: bool


@dataclass(frozen=True)
class Deny:
    """It does not."""

    by: str
    reason: str


class Succession(Machine):
    """See the module. `driver` is who drives, "" for nobody; `over`; `deadline` is when to send the next Tick, or None."""

    def __init__(self, driver: str) -> None:
        super().__init__()
        self.driver = driver
        self.over = False
        self.deadline: float | None = None
        self._place = 0
        self._inherits = False
        self._heir = False
        self._pause = FIRST_PAUSE_SECONDS

    def _decide(self, event: object, now: float) -> list[object]:
        if isinstance(event, Claimed):
            return self._on_claim(event)
        if isinstance(event, HeirGone):
            self._heir = False
            self._wait(now + self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        elif isinstance(event, DriverGone):
            if event.by == self.driver:
                self.driver = ""
                self._wait(now + self._place * PLACE_SECONDS)
        elif isinstance(event, Entrusted):
            self._place = event.place
        elif isinstance(event, HeirHere):
            self._heir = True
        elif isinstance(event, Inherited):
            self._inherits = True
            self._wait(now + self._place * PLACE_SECONDS)
        elif isinstance(event, Concluded):
            self.over, self.deadline = True, None
        elif isinstance(event, Tick):
            return self._on_tick(now)
        else:
            raise self._impossible(event)
        return []

    def _on_claim(self, event: Claimed) -> list[object]:
        if self.over:
            return [Deny(event.by, "the job is over")]
        if self.driver not in ("", event.by):
            return [Deny(event.by, f"{who(self.driver)} drives it")]
        is_new = self.driver != event.by
        self.driver, self.deadline = event.by, None
        return [Grant(event.by, is_new)]

    def _wait(self, until: float) -> None:
        """Begin to wait, if there is anything that this node could do afterwards. A living heir tries again by itself."""
        if not (self.over or self.driver or self._heir) and self._inherits:
            self.deadline = until

    def _on_tick(self, now: float) -> list[object]:
        if self.deadline is None or now < self.deadline:
            return []
        self._heir, self.deadline = True, None
        return [StartHeir()]


def who(driver: str) -> str:
    """The name of a driver, for people."""
    return driver.partition("/")[0] or "nobody"
