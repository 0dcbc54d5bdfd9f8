"""What a node grants, agrees to and refuses, and when it starts a standby driver."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import pytest

from rpc.errors import InvalidTransition
from rpc.lease import lease as who
from rpc.lease.lease import LIVING, DriverLease, Promise
from rpc.liveness.limits import LONGEST_PAUSE_SECONDS
from rpc.messages import ClaimJob, KeepManifest, ProposeAttempt

from ...scenarios import TimedPlayer, scenarios
from ...statements import covers

NAMES = {"S": "The submitter/a", "1": "Node(1)/b", "2": "Node(2)/c"}


class Node(TimedPlayer):
    """A lease that the submitter `S` has begun and handed on, at `place` in seniority; `bare`: but for the manifest. `again`:
    its agent was started again, and has found on disk what it had promised to the submitter."""

    def __init__(self, place: int = 0, bare: bool = False, again: bool = False) -> None:
        super().__init__()
        self.machine = DriverLease()
        self._before = Promise()
        if again:
            self.machine = DriverLease(Promise(0, NAMES["S"], 0, 0, True, "state"), restarted=True)
            return
        self.on_begin("S", "0", "0", "first")
        self.tell(KeepManifest("job", 0, 0, 0, NAMES["S"], place, "", 0, "", "state"))
        if not bare:
            self.tell(who.Event.MANIFEST_COMPLETE)

    def tell(self, *events: Any) -> list[Any]:
        actions = super().tell(*events)
        self._before = next((action.before for action in actions if isinstance(action, who.Keep)), self._before)
        return actions

    def told(self, action: Any) -> str:
        if isinstance(action, who.Grant):
            return ("grant" if action.is_new else "grant again") + (f" {action.voice}" if action.voice != LIVING else "")
        if isinstance(action, who.Deny):
            return f"deny: {action.reason}"
        return {who.Keep: "keep", who.Agree: "agree", who.StartStandby: "start"}[type(action)]

    # ---- events

    def on_claim(self, driver: str, term: str) -> list[Any]:
        return self.tell(ClaimJob("job", 0, NAMES[driver], "", int(term)))

    def on_propose(self, driver: str, term: str, attempt: str, state: str) -> list[Any]:
        return self.tell(ProposeAttempt("job", 0, NAMES[driver], int(term), int(attempt), state))

    def on_begin(self, driver: str, term: str, attempt: str, state: str) -> list[Any]:
        return self.tell(who.Begun(NAMES[driver], int(term), int(attempt), state))

    def on_gone(self, driver: str) -> list[Any]:
        return self.tell(who.DriverGone(NAMES[driver]))

    def on_standby(self, what: str) -> list[Any]:
        """It `ends`, or one of an earlier number is `here`."""
        return self.tell(who.Event.STANDBY_GONE if what == "ends" else who.Event.STANDBY_HERE)

    def on_concluded(self) -> list[Any]:
        return self.tell(who.Event.CONCLUDED)

    def on_unkept(self) -> list[Any]:
        """The promise could not be put on disk, and the claimant was new."""
        self.machine.restore(self._before, gone=True)
        assert self.machine.promise == self._before and self.machine.driver == ""
        return []

    def on_promises(self, *fields: str) -> list[Any]:
        """It has promised this."""
        known = [str(value) or "-" for value in astuple(self.machine.promise)]
        assert known == [NAMES[word] if place == 1 else word for place, word in enumerate(fields)]
        return []


PLAYS = """
FD-16 when the driver is gone a node starts a standby driver, once
  gone S
  due 0 -> start
  rests
FD-16 but waits for its seniors (place=2)
  gone S
  due 2 -> start
  rests
the first who claims it gets it
  gone S
  claim 1 1 -> keep | grant
  claim 1 1 -> grant again
  claim 2 2 -> deny: Node(1) drives it
  rests
a driver that is there is not deposed, and nothing ends with somebody who does not drive
  claim 1 1 -> deny: The submitter drives it
  gone 1
  rests
  claim 1 1 -> deny: The submitter drives it
who lost the connection and comes back needs a later claim than the one that came in between
  gone S
  claim 1 1 -> keep | grant
  gone 1
  claim S 0 -> deny: Node(1) has claimed it since
  claim 2 1 -> deny: Node(1) has claimed it since
  begin S 0 1 x -> deny: Node(1) has claimed it since
  propose S 0 1 x -> deny: Node(1) has claimed it since
  claim S 2 -> keep | grant
what was agreed to is told to whoever claims it next
  propose 1 0 1 new -> deny: The submitter drives it
  propose S 0 1 new -> keep | agree
  promises 0 S 1 0 False new 0 0 state
  gone S
  claim 1 1 -> keep | grant
  promises 1 1 1 0 False new 0 0 state
  propose 1 1 1 other -> keep | agree
  promises 1 1 1 1 False other 0 0 state
  propose 1 1 0 older -> deny: attempt 1 is known here
  begin 1 1 1 other -> keep | grant again
  promises 1 1 1 1 True other 1 1 other
INV-14 who begins an attempt knows with whom, also where it was not asked and its driver dies before it has handed the job on
  begin S 1 1 second -> keep | grant again
  promises 1 S 1 1 True second 1 1 second
who has not claimed it here proposes nothing
  gone S
  propose 1 1 1 x -> deny: it has not claimed the job here
an agent that was started again speaks for whom it had promised itself to (again)
  claim S 1 -> keep | grant restarted
  propose S 1 1 new -> keep | agree
  begin S 1 1 next -> keep | grant again
  gone S
  claim 2 2 -> keep | grant
and gives others its connection, but no voice: somebody may have counted it as dead (again)
  claim 1 1 -> grant none
  propose 1 1 1 new -> deny: it has not claimed the job here
  promises 0 S 0 0 True state 0 -1 -
  begin 1 1 1 next -> keep | grant again
  gone 1
  claim 2 2 -> keep | grant
a promise that cannot be kept is not given
  gone S
  claim 1 1 -> keep | grant
  unkept
  claim 2 1 -> keep | grant
without the manifest nobody is started (bare)
  gone S
  rests
  claim 1 1 -> keep | grant
while a standby of an earlier number lives nobody else is started; when it dies as the driver, its agent waits a second
  standby here
  gone S
  rests
  standby ends
  due 1 -> start
what is over stays over
  concluded
  gone S
  standby ends
  rests
  claim 1 1 -> deny: the job is over
  propose 1 1 1 x -> deny: the job is over
"""


@covers("FD-16", "INV-14")
@pytest.mark.parametrize(("options", "scenario"), scenarios(PLAYS))
def test_a_lease(options: dict[str, Any], scenario: str) -> None:
    Node(**options).play(scenario)


def test_a_standby_that_ends_for_nothing_is_started_again_ever_more_rarely() -> None:
    """For weeks, where a driver that has lost this node alone drives on: one a minute is denied the job."""
    node = Node()
    node.on_gone("S")
    for pause in [0, 1, 2, 4, 8, 16, 32, 60, 60] + [LONGEST_PAUSE_SECONDS] * (14 * 24 * 60):
        assert [type(action) for action in node.on_due(str(pause))] == [who.StartStandby]
        node.on_standby("ends")


def test_an_event_of_another_machine_is_refused() -> None:
    with pytest.raises(InvalidTransition, match="DriverLease cannot take 7 now"):
        Node().tell(7)
