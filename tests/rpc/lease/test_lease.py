"""What a node grants, agrees to and refuses, and when it starts a standby driver."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpc.errors import InvalidTransition
from rpc.lease import lease as who
from rpc.lease.lease import LIVING, NONE, RESTARTED, DriverLease, Promise
from rpc.liveness.limits import LONGEST_PAUSE_SECONDS, PLACE_SECONDS
from rpc.messages import ClaimJob, KeepManifest, ProposeAttempt

from ...statements import covers

FIRST = (0, 0, "state")  # the attempt that the node takes part in
SUBMITTER, ONE, TWO = "The submitter/a", "Node(1)/b", "Node(2)/c"


def driven(place: int = 0, whole: bool = True) -> DriverLease:
    machine = DriverLease()
    machine.handle(who.Begun(SUBMITTER, 0, 0, "first"), 0.0)
    machine.handle(KeepManifest("job", 0, 0, 0, SUBMITTER, place, "", 0, "", "state"), 0.0)
    if whole:
        machine.handle(who.Event.MANIFEST_COMPLETE, 0.0)
    return machine


def claim(driver: str, term: int) -> ClaimJob:
    return ClaimJob("job", 0, driver, "", term)


def propose(driver: str, term: int, attempt: int, attempt_state: str) -> ProposeAttempt:
    return ProposeAttempt("job", 0, driver, term, attempt, attempt_state)


def answer(machine: DriverLease, event: object, now: float = 1.0) -> object:
    return machine.handle(event, now)[-1]


@covers("FD-16")
@pytest.mark.parametrize("place", range(3))
def test_seniors_come_first(place: int) -> None:
    """When the driver is gone, a node waits for its seniors, then it starts a standby driver, once."""
    machine = driven(place)
    machine.handle(who.DriverGone(SUBMITTER), 10.0)
    assert machine.deadline == 10.0 + place * PLACE_SECONDS
    assert machine.handle(who.Event.TICK, machine.deadline) == [who.StartStandby()]
    assert machine.deadline is None and machine.handle(who.Event.TICK, 100.0) == []


def test_the_first_who_claims_it_gets_it() -> None:
    machine = driven()
    machine.handle(who.DriverGone(SUBMITTER), 10.0)
    assert machine.handle(claim(ONE, 1), 10.1)[1:] == [who.Grant(True)]
    assert machine.handle(claim(ONE, 1), 10.2) == [who.Grant(False)]
    assert machine.handle(claim(TWO, 2), 10.2) == [who.Deny("Node(1) drives it")]
    assert machine.deadline is None


def test_a_driver_that_is_there_is_not_deposed() -> None:
    machine = driven()
    assert machine.handle(claim(ONE, 1), 1.0) == [who.Deny("The submitter drives it")]
    machine.handle(who.DriverGone(ONE), 2.0)  # of somebody who does not drive
    assert machine.driver == SUBMITTER and machine.deadline is None


def test_an_earlier_claim_counts_no_more() -> None:
    """Who was granted the job, lost the connection and comes back needs a later claim than the one that came in between."""
    machine = driven()
    machine.handle(who.DriverGone(SUBMITTER), 1.0)
    machine.handle(claim(ONE, 1), 2.0)
    machine.handle(who.DriverGone(ONE), 3.0)
    for late in (
        claim(SUBMITTER, 0),
        claim(TWO, 1),
        who.Begun(SUBMITTER, 0, 1, ""),
        propose(SUBMITTER, 0, 1, ""),
    ):
        assert answer(machine, late) == who.Deny("Node(1) has claimed it since")
    assert answer(machine, claim(SUBMITTER, 2)) == who.Grant(True)
    assert machine.promise.term == 2


def test_what_was_agreed_to_is_told_to_whoever_claims_it_next() -> None:
    machine = driven()
    assert answer(machine, propose(ONE, 0, 1, "new")) == who.Deny("The submitter drives it")
    assert answer(machine, propose(SUBMITTER, 0, 1, "new")) == who.Agree()
    assert machine.promise == Promise(0, SUBMITTER, 1, 0, False, "new", *FIRST)
    machine.handle(who.DriverGone(SUBMITTER), 1.0)
    machine.handle(claim(ONE, 1), 2.0)
    assert machine.promise == Promise(1, ONE, 1, 0, False, "new", *FIRST)
    assert answer(machine, propose(ONE, 1, 1, "other")) == who.Agree()
    assert machine.promise == Promise(1, ONE, 1, 1, False, "other", *FIRST)
    assert answer(machine, propose(ONE, 1, 0, "older")) == who.Deny("attempt 1 is known here")
    assert answer(machine, who.Begun(ONE, 1, 1, "other")) == who.Grant(False)
    assert machine.promise.begun and machine.promise.attempt_state == "other"


@covers("INV-14")
def test_who_begins_an_attempt_knows_with_whom() -> None:
    """Also a node that was not asked whether it may begin, and whose driver dies before it has handed the job on."""
    machine = driven()
    machine.handle(who.Begun(SUBMITTER, 1, 1, "second"), 1.0)
    assert machine.promise == Promise(1, SUBMITTER, 1, 1, True, "second", 1, 1, "second")


def test_who_has_not_claimed_it_here_proposes_nothing() -> None:
    machine = driven()
    machine.handle(who.DriverGone(SUBMITTER), 1.0)
    assert answer(machine, propose(ONE, 1, 1, "")) == who.Deny("it has not claimed the job here")


def test_an_agent_that_was_started_again_speaks_for_whom_it_had_promised_itself_to() -> None:
    """Somebody may have counted it as dead for that driver; to others it gives its connection, but no voice."""
    for by, voice in ((SUBMITTER, RESTARTED), (ONE, NONE)):
        machine = DriverLease(Promise(0, SUBMITTER, 0, 0, True, "state"), restarted=True)
        assert answer(machine, claim(by, 1)) == who.Grant(True, voice)
        assert machine.promise.driver == SUBMITTER
        agreed = answer(machine, propose(by, 1, 1, "new"))
        assert agreed == (who.Agree() if voice == RESTARTED else who.Deny("it has not claimed the job here"))
        machine.handle(who.Begun(by, 1, 1, "next"), 2.0)
        machine.handle(who.DriverGone(by), 3.0)
        assert answer(machine, claim(TWO, 2)) == who.Grant(True, LIVING)


def test_a_promise_that_cannot_be_kept_is_not_given() -> None:
    machine = driven()
    machine.handle(who.DriverGone(SUBMITTER), 1.0)
    keep, grant = machine.handle(claim(ONE, 1), 2.0)
    assert isinstance(keep, who.Keep) and grant == who.Grant(True)
    machine.restore(keep.before, gone=True)
    assert machine.promise == replace(keep.before) and machine.driver == ""
    assert answer(machine, claim(TWO, 1)) == who.Grant(True)


def test_without_the_manifest_nobody_is_started() -> None:
    machine = driven(whole=False)
    machine.handle(who.DriverGone(SUBMITTER), 1.0)
    assert machine.deadline is None
    assert answer(machine, claim(ONE, 1), 2.0) == who.Grant(True)


def test_a_standby_that_ends_for_nothing_is_started_again_ever_more_rarely() -> None:
    machine = driven()
    machine.handle(who.DriverGone(SUBMITTER), 0.0)
    now, pauses = 0.0, []
    for _ in range(9):
        assert machine.deadline is not None
        pauses.append(machine.deadline - now)
        now = machine.deadline
        assert machine.handle(who.Event.TICK, now) == [who.StartStandby()]
        machine.handle(who.Event.STANDBY_GONE, now)
    assert pauses == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_standbys_may_end_for_nothing_for_weeks() -> None:
    """While a driver that has lost this node alone drives on, one a minute is denied the job."""
    machine = driven()
    machine.handle(who.DriverGone(SUBMITTER), 0.0)
    for _ in range(14 * 24 * 60):
        assert machine.deadline is not None
        now = machine.deadline
        machine.handle(who.Event.TICK, now)
        machine.handle(who.Event.STANDBY_GONE, now)
    assert machine.deadline == now + LONGEST_PAUSE_SECONDS


def test_a_standby_of_an_earlier_number_is_the_standby_here() -> None:
    """While it lives nobody else is started; when it dies as the driver, its agent waits a second, and the others do not."""
    machine = driven()
    machine.handle(who.Event.STANDBY_HERE, 1.0)
    machine.handle(who.DriverGone(SUBMITTER), 2.0)
    assert machine.deadline is None
    machine.handle(who.Event.STANDBY_GONE, 3.0)
    assert machine.deadline == 4.0


def test_what_is_over_stays_over() -> None:
    machine = driven()
    machine.handle(who.Event.CONCLUDED, 1.0)
    machine.handle(who.DriverGone(SUBMITTER), 2.0)
    machine.handle(who.Event.STANDBY_GONE, 3.0)
    assert machine.deadline is None
    assert machine.handle(claim(ONE, 1), 4.0) == [who.Deny("the job is over")]


def test_an_event_of_another_machine_is_refused() -> None:
    with pytest.raises(InvalidTransition, match="DriverLease cannot take 7 now"):
        driven().handle(7, 0.0)
