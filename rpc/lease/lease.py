"""Lease of a driver, as one of the job's nodes sees it: a state machine, and its state on disk.

driven      a driver is connected; no other one may be
vacant      the driver is gone; the first to claim the job gets it. The node waits according to its place in seniority, so
            that its seniors come first, then it starts a standby driver of its own
over        the job has ended, or goes on without this node

A node is one voice of the attempt that it takes part in. Its `Promise` is for other drivers to respect: the last claimant of
the job, and the attempt that the node has agreed to. It is on disk before any driver hears of it, so an agent that is started
again knows it; but it may have been counted as dead meanwhile, so it speaks only for the driver to which it had promised itself
before.
"""

from __future__ import annotations

import enum
from dataclasses import replace

from ..liveness.limits import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, PLACE_SECONDS
from ..machine import Machine, Tick
from ..support.immutable import Immutable
from .messages import ClaimJob, KeepManifest, ProposeAttempt

LIVING, RESTARTED, NONE = "living", "restarted", "none"
"""Voices of a node for a claimant: its agent has lived all the time; it was started again, but had promised itself to the
claimant before; it was started again and keeps its promise to another one."""


class Promise(Immutable):
    """Promise of a node.

    `driver` was granted the job last, with a claim of this `term`: a later claim has a higher one, and an earlier one counts no
    more. `attempt` is the newest that the node has agreed to, in the term `agreed`, with its `attempt_state`; `begun` says that
    a majority has, as every node in it knows. `own` is the term of the attempt that the node takes part in, then come its
    number and attempt state: `attempt` follows from that one, or from a later one.
    """

    term: int = 0
    driver: str = ""
    attempt: int = -1
    agreed: int = 0
    begun: bool = False
    attempt_state: str = ""
    own: int = 0
    own_attempt: int = -1
    own_state: str = ""


# ---- events; besides those a driver's ClaimJob, ProposeAttempt and KeepManifest


class Begun(Immutable):
    """Event: the node takes part in an attempt from now on: a majority has agreed to it. It need not have been among them,
    so it is told the attempt state, too.
    """

    driver: str
    term: int
    attempt: int
    attempt_state: str


class DriverGone(Immutable):
    """Event: the last connection of a driver has ended."""

    driver: str


class Event(enum.Enum):
    """Events of a lease that have no fields."""

    MANIFEST_COMPLETE = "the manifest is here as a whole, so a standby driver could take over"
    STANDBY_GONE = "the standby driver that was started here has ended"
    STANDBY_HERE = "one that was started for this job, when the node had another number, is ours"
    CONCLUDED = "the driver says that the job is over, or the user that it shall be"


# ---- actions


class StartStandby(Immutable):
    """Action: start a process that claims the job and drives it."""


class Keep(Immutable):
    """Action: put the promise on disk; where that fails, `before` counts, and the answer is a denial."""

    before: Promise


class Grant(Immutable):
    """Action: the claimant drives; `is_new` unless it has done so already. `voice` is the weight of the grant."""

    is_new: bool
    voice: str = LIVING


class Agree(Immutable):
    """Action: answer that the attempt may begin."""


class Deny(Immutable):
    """Action: answer that it does not drive, or that the attempt may not begin."""

    reason: str


class DriverLease(Machine):
    """State machine of one node's lease: decides which driver it grants the job, and when its agent starts a standby driver.

    `driver` is the connected driver, "" without one; `over`; `deadline` is when to send the next Tick, or None. `restarted`:
    the `promise` was found on disk by an agent that was started again.
    """

    def __init__(self, promise: Promise = Promise(), *, restarted: bool = False) -> None:  # noqa: B008
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
        """Return why the driver `by`, which has claimed the job with `term`, does not drive it; "" if nothing is against it."""
        if self.driver not in ("", by):
            return f"{who(self.driver)} drives it"
        known = self.promise
        # equal terms of two drivers cannot be; should they, the first one keeps the job
        later = known.term > term or (known.term == term and known.driver not in ("", by))
        return f"{who(known.driver)} has claimed it since" if later else ""

    def restore(self, before: Promise, *, gone: bool) -> None:
        """Restore the promise `before`, as the new one could not be put on disk: it was not given, and a claimant that was
        new is `gone`.
        """
        self.promise = before
        if gone:
            self.driver = ""

    def _decide(self, event: object, now: float) -> list[object]:
        if isinstance(event, ClaimJob):
            return self._on_claim(event)
        if isinstance(event, ProposeAttempt):
            return self._on_proposal(event)
        if isinstance(event, Begun):
            return self._on_begin(event)
        if isinstance(event, KeepManifest):
            self._place = event.place
            # a driver hands its manifest on when all nodes run, so the attempt that it names has begun here
            attempt = (event.term, event.attempt, event.attempt_state)
            return self._change(_begun(self.promise.term, self.promise.driver, *attempt))
        if isinstance(event, DriverGone):
            # a driver that was replaced meanwhile takes nothing with it
            if event.driver == self.driver:
                self.driver = ""
                self._wait(now + self._place * PLACE_SECONDS)
        elif event is Event.MANIFEST_COMPLETE:
            # its driver may have gone while the manifest was still coming
            self._has_manifest = True
            self._wait(now + self._place * PLACE_SECONDS)
        elif event is Event.STANDBY_GONE:
            self._standby = False
            # it had found no majority: another one, started at once, would find none either
            self._wait(now + self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        elif event is Event.STANDBY_HERE:
            self._standby = True
        elif event is Event.CONCLUDED:
            self.over, self.deadline = True, None
        elif isinstance(event, Tick):
            return self._on_tick(now)
        else:
            raise self._impossible(event)
        return []

    def _change(self, promise: Promise) -> list[object]:
        before, self.promise = self.promise, promise
        return [Keep(before)] if promise != before else []

    def _on_claim(self, event: ClaimJob) -> list[object]:
        reason = "the job is over" if self.over else self.objection(event.driver, event.term)
        if reason:
            return [Deny(reason)]
        # an agent that was started again may have been counted as dead: it has a voice only for the driver to which it had
        # promised itself, and promises nothing to any other
        voice = LIVING if not self.restarted else RESTARTED if event.driver == self.promise.driver else NONE
        kept = [] if voice == NONE else self._change(replace(self.promise, term=event.term, driver=event.driver))
        return [*kept, self._grant(event.driver, voice)]

    def _grant(self, driver: str, voice: str = LIVING) -> Grant:
        is_new = self.driver != driver
        # while a driver is there, no standby driver is started
        self.driver, self.deadline = driver, None
        return Grant(is_new, voice)

    def _on_proposal(self, event: ProposeAttempt) -> list[object]:
        known = self.promise
        reason = "the job is over" if self.over else self.objection(event.driver, event.term)
        # the claim and the connection: an agreement given to a driver that is gone would bind nobody
        if not reason and (self.driver, known.driver, known.term) != (event.driver, event.driver, event.term):
            reason = "it has not claimed the job here"
        if not reason and (event.term, event.attempt) < (known.agreed, known.attempt):
            reason = f"attempt {known.attempt} is known here"
        if reason:
            return [Deny(reason)]
        # to agree is not to take part yet: only an attempt that has begun here stays begun
        begun = known.begun and (known.attempt, known.attempt_state) == (event.attempt, event.attempt_state)
        number, state = event.attempt, event.attempt_state
        agreed = replace(known, attempt=number, agreed=event.term, begun=begun, attempt_state=state)
        return [*self._change(agreed), Agree()]

    def _on_begin(self, event: Begun) -> list[object]:
        reason = self.objection(event.driver, event.term)
        if reason:
            return [Deny(reason)]
        # a node that takes part in an attempt is a member like any other, whatever it was before
        self.over = self.restarted = False
        grant = self._grant(event.driver)
        attempt = (event.term, event.attempt, event.attempt_state)
        return [*self._change(_begun(event.term, event.driver, *attempt)), grant]

    def _wait(self, until: float) -> None:
        """Begin to wait, if this node could do anything afterwards. A living standby driver tries again by itself."""
        if not (self.over or self.driver or self._standby) and self._has_manifest:
            self.deadline = until

    def _on_tick(self, now: float) -> list[object]:
        if self.deadline is None or now < self.deadline:
            return []
        # before it is started: a start that fails tells so as its end
        self._standby, self.deadline = True, None
        return [StartStandby()]


def _begun(term: int, driver: str, agreed: int, attempt: int, attempt_state: str) -> Promise:
    return Promise(term, driver, attempt, agreed, True, attempt_state, agreed, attempt, attempt_state)


def who(driver: str) -> str:
    """Return the name of a driver, for people."""
    return driver.partition("/")[0] or "nobody"
