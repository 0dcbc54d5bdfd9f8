"""Who drives a job, as one of its nodes sees it: a state machine, and what it keeps on disk.

driven      a driver is connected; nobody else may be
vacant      the driver is gone; the first who claims the job gets it. The node waits according to its place in seniority, so
            that its seniors come first, then it starts a standby driver of its own
over        the job has ended, or goes on without this node

A node is one voice of the attempt that it takes part in. Its `Promise` is what other drivers have to respect: who claimed the
job last, and which attempt the node has agreed to. It is on disk before anybody hears of it, so an agent that is started again
knows it; but it may have been counted as dead meanwhile, so it speaks only for whom it had promised itself to before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..liveness.limits import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, PLACE_SECONDS
from ..machine import Machine

LIVING, RESTARTED, NONE = "living", "restarted", "none"
"""The voice of a node for a claimant: its agent has lived all the time; it was started again, but had promised itself to the
claimant before; it was started again and keeps what it had promised to another one."""


@dataclass(frozen=True)
class Promise:
    """`driver` is who was granted the job last, with a claim of this `term`: a later claim has a higher one, and an earlier one
    counts no more. `attempt` is the newest that the node has agreed to, in the term `agreed`, with its `attempt_state`; `begun`
    says that a majority has, as who takes part in it knows. `own` is the term of the attempt that the node takes part in, then
    come its number and attempt state: `attempt` follows from that one, or from a later one."""

    term: int = 0
    driver: str = ""
    attempt: int = -1
    agreed: int = 0
    begun: bool = False
    attempt_state: str = ""
    own: int = 0
    own_attempt: int = -1
    own_state: str = ""


# ---- events


@dataclass(frozen=True)
class HandedOff:
    """The driver has told the node what its standby driver must know, and its place in seniority; `term` is that of the
    attempt."""

    place: int
    attempt: int
    term: int
    attempt_state: str


@dataclass(frozen=True)
class ManifestComplete:
    """The manifest is here as a whole: a standby driver could take over."""


@dataclass(frozen=True)
class Claimed:
    """Somebody wants to drive the job."""

    by: str
    term: int


@dataclass(frozen=True)
class Proposed:
    """The driver wants to begin `attempt`, with this node or without it."""

    by: str
    term: int
    attempt: int
    attempt_state: str


@dataclass(frozen=True)
class Begun:
    """The node takes part in an attempt from now on: a majority has agreed to it. It need not have been among them, so it is
    told the attempt state, too."""

    by: str
    term: int
    attempt: int
    attempt_state: str


@dataclass(frozen=True)
class DriverGone:
    """The last connection of a driver has ended."""

    by: str


@dataclass(frozen=True)
class StandbyGone:
    """The standby driver that was started here has ended."""


@dataclass(frozen=True)
class StandbyHere:
    """A standby driver that was started here for this job, when the node had another number."""


@dataclass(frozen=True)
class Concluded:
    """The driver says that the job is over, or the user that it shall be."""


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


# ---- actions


@dataclass(frozen=True)
class StartStandby:
    """Start a process that claims the job and drives it."""


@dataclass(frozen=True)
class Keep:
    """Put the promise on disk; where that fails, `before` is what counts, and the answer is a denial."""

    before: Promise


@dataclass(frozen=True)
class Grant:
    """The claimant drives; `is_new` unless it has done so already. `voice` is what the grant counts."""

    by: str
    is_new: bool
    voice: str = LIVING


@dataclass(frozen=True)
class Agree:
    """The attempt may begin."""


@dataclass(frozen=True)
class Deny:
    """It does not drive, or the attempt may not begin."""

    by: str
    reason: str


class DriverLease(Machine):
    """See the module. `driver` is who is connected and drives, "" for nobody; `over`; `deadline` is when to send the next
    Tick, or None. `restarted`: the promise was found on disk by an agent that was started again."""

    def __init__(self, promise: Promise = Promise(), *, restarted: bool = False) -> None:
        super().__init__()
        self.promise = promise
        self.restarted = restarted
        self.driver = ""
        self.over = False
        self.deadline: float | None = None
        self._place = 0
        self._has_manifest = False
        self._standby = False
        self._pause = FIRST_PAUSE_SECONDS

    def objection(self, by: str, term: int) -> str:
        """Why `by`, who has claimed the job with `term`, does not drive it; "" if nothing is against it."""
        if self.driver not in ("", by):
            return f"{who(self.driver)} drives it"
        known = self.promise
        later = known.term > term or (known.term == term and known.driver not in ("", by))
        return f"{who(known.driver)} has claimed it since" if later else ""

    def restore(self, before: Promise, *, gone: bool) -> None:
        """The promise could not be put on disk: it was not given, and a claimant that was new is `gone`."""
        self.promise = before
        if gone:
            self.driver = ""

    def _decide(self, event: object, now: float) -> list[object]:
        if isinstance(event, Claimed):
            return self._on_claim(event)
        if isinstance(event, Proposed):
            return self._on_proposal(event)
        if isinstance(event, Begun):
            return self._on_begin(event)
        if isinstance(event, StandbyGone):
            self._standby = False
            self._wait(now + self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        elif isinstance(event, DriverGone):
            if event.by == self.driver:
                self.driver = ""
                self._wait(now + self._place * PLACE_SECONDS)
        elif isinstance(event, HandedOff):
            self._place = event.place
            known = self.promise
            own = (event.term, event.attempt, event.attempt_state)
            return self._change(Promise(known.term, known.driver, event.attempt, event.term, True, event.attempt_state, *own))
        elif isinstance(event, StandbyHere):
            self._standby = True
        elif isinstance(event, ManifestComplete):
            self._has_manifest = True
            self._wait(now + self._place * PLACE_SECONDS)
        elif isinstance(event, Concluded):
            self.over, self.deadline = True, None
        elif isinstance(event, Tick):
            return self._on_tick(now)
        else:
            raise self._impossible(event)
        return []

    def _change(self, promise: Promise) -> list[object]:
        before, self.promise = self.promise, promise
        return [Keep(before)] if promise != before else []

    def _on_claim(self, event: Claimed) -> list[object]:
        reason = "the job is over" if self.over else self.objection(event.by, event.term)
        if reason:
            return [Deny(event.by, reason)]
        voice = LIVING if not self.restarted else RESTARTED if event.by == self.promise.driver else NONE
        is_new = self.driver != event.by
        self.driver, self.deadline = event.by, None
        kept = [] if voice == NONE else self._change(replace(self.promise, term=event.term, driver=event.by))
        return [*kept, Grant(event.by, is_new, voice)]

    def _on_proposal(self, event: Proposed) -> list[object]:
        known = self.promise
        reason = "the job is over" if self.over else self.objection(event.by, event.term)
        if not reason and (self.driver, known.driver, known.term) != (event.by, event.by, event.term):
            reason = "it has not claimed the job here"
        if not reason and (event.term, event.attempt) < (known.agreed, known.attempt):
            reason = f"attempt {known.attempt} is known here"
        if reason:
            return [Deny(event.by, reason)]
        begun = known.begun and (known.attempt, known.attempt_state) == (event.attempt, event.attempt_state)
        own = (known.own, known.own_attempt, known.own_state)
        agreed = Promise(event.term, event.by, event.attempt, event.term, begun, event.attempt_state, *own)
        return [*self._change(agreed), Agree()]

    def _on_begin(self, event: Begun) -> list[object]:
        reason = self.objection(event.by, event.term)
        if reason:
            return [Deny(event.by, reason)]
        is_new = self.driver != event.by
        self.driver, self.deadline, self.over, self.restarted = event.by, None, False, False
        own = (event.term, event.attempt, event.attempt_state)
        begun = Promise(event.term, event.by, event.attempt, event.term, True, event.attempt_state, *own)
        return [*self._change(begun), Grant(event.by, is_new)]

    def _wait(self, until: float) -> None:
        """Begin to wait, if there is anything that this node could do afterwards. A living standby driver tries again by
        itself."""
        if not (self.over or self.driver or self._standby) and self._has_manifest:
            self.deadline = until

    def _on_tick(self, now: float) -> list[object]:
        if self.deadline is None or now < self.deadline:
            return []
        self._standby, self.deadline = True, None
        return [StartStandby()]


def who(driver: str) -> str:
    """The name of a driver, for people."""
    return driver.partition("/")[0] or "nobody"
