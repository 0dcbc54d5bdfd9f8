"""Who may go on with a job, by what its nodes answer: claims, proposals, and whom they count."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from rpc.errors import InvalidTransition
from rpc.lease.election import (
    Ask,
    Candidate,
    Decision,
    Election,
    Missing,
    Newer,
    Propose,
    Said,
    Send,
    Settled,
    later_term,
)
from rpc.liveness.limits import ANSWER_SECONDS
from rpc.machine import Tick
from rpc.messages import Agreed, ClaimJob, Denied, Granted, ProposeAttempt

from ...statements import covers

JOB, ME, SHA = "job", "Node(0)/000000000000000a", "0f" * 32
Known = tuple[int, int, bool, str, int, int, str]
FIRST: Known = (0, 0, True, "first", 0, 0, "first")  # newest, agreed, begun, attempt state, and what has begun here
SUBMITTER = Candidate(JOB, ME, SHA, 1, (0, 0), is_standby=False, leaves_out=True)
STANDBY = replace(SUBMITTER, is_standby=True)


def election(nodes: int, candidate: Candidate, known_dead: Collection[int] = (), term: int = 1) -> Election:
    return Election(replace(candidate, term=term), range(nodes), known_dead)


def grant(node: int, claim: int = 1, voice: str = "living", known: Known = FIRST) -> Said:
    return Said(node, Granted(JOB, node, *known, claim, voice, 0, "running", ""))


def deny(
    node: int,
    outcome: str = "",
    *,
    term: int = 0,
    is_driven: bool = False,
    known: Known = FIRST,
) -> Said:
    return Said(node, Denied(JOB, node, *known, term, is_driven, "somebody else drives it", outcome))


def decision(actions: list[Any]) -> Decision:
    (settled,) = [action for action in actions if isinstance(action, Settled)]
    made: Decision = settled.decision
    return made


def round_of(machine: Election, *answers: object) -> list[Any]:
    """One round in which all nodes are asked, and these answer in time."""
    machine.handle(Ask(tuple(machine._nodes)), 0.0)
    for answer in answers:
        actions = machine.handle(answer, 0.1)
    return actions if machine.deadline is None or actions else machine.handle(Tick(), machine.deadline)


def begun(attempt: int, term: int, attempt_state: str) -> Known:
    return attempt, term, True, attempt_state, term, attempt, attempt_state


def proposed(attempt: int, term: int, attempt_state: str) -> Known:
    return attempt, term, False, attempt_state, 0, 0, "first"


DRIVE, PAUSE, YIELD, OVER = Decision.DRIVE, Decision.PAUSE, Decision.YIELD, Decision.OVER


def said(word: str) -> object:
    """What a node says: `0` grants, `0-` without a voice, `0r` as one that was started again, `0!` has another driver, `0done`
    or `0left` how it is over there; `0x` refuses the connection, `0?` is silent."""
    node, how = int(word[0]), word[1:]
    if how in ("x", "?"):
        return Missing(node, how == "x")
    if how in ("", "-", "r"):
        return grant(node, voice={"": "living", "-": "none", "r": "restarted"}[how])
    return deny(node, is_driven=True) if how == "!" else deny(node, how)


@covers("FLT-21", "FLT-25", "INV-14")
@pytest.mark.parametrize(
    ("nodes", "answers", "known_dead", "submitter", "standby"),
    [
        (3, "0 1 2", "", DRIVE, DRIVE),
        (3, "0 1", "", DRIVE, DRIVE),
        (3, "0", "", PAUSE, PAUSE),
        (4, "0 1", "", DRIVE, PAUSE),  # exactly half
        (2, "0", "", DRIVE, PAUSE),
        (2, "0?", "", PAUSE, PAUSE),
        (1, "0", "", DRIVE, DRIVE),
        (4, "0 1x 2x 3x", "123", DRIVE, DRIVE),  # FLT-21 by crash
        (4, "0 1x 2x 3x", "", PAUSE, PAUSE),  # nobody else lives, but somebody else may have ended the job
        (2, "0 1x", "", DRIVE, PAUSE),
        (2, "0 1x", "1", DRIVE, DRIVE),
        (4, "0", "", PAUSE, PAUSE),  # FLT-21 by silence
        (4, "0 1x", "1", DRIVE, PAUSE),  # 2 and 3 are silent; who was ours until it died counts for us
        (4, "0 1x", "", PAUSE, PAUSE),  # who was silent before may have promised itself to another one
        (5, "0 1 2x", "2", DRIVE, DRIVE),
        (5, "0 1 2x", "", PAUSE, PAUSE),
        (4, "0x 1x 2x 3x", "0123", PAUSE, PAUSE),  # somebody must be there
        (3, "0 1 2!", "", DRIVE, YIELD),  # even with a majority; who has begun the attempt needs no more than that
        (3, "0 1! 2!", "", YIELD, YIELD),
        (3, "0 1-", "", PAUSE, PAUSE),  # started again, and may have had another driver before
        (3, "0 1r", "", DRIVE, DRIVE),
        (3, "0r 1r 2r", "", PAUSE, PAUSE),  # others may go on where these were left out
        (3, "0 1 2done", "", OVER, OVER),
        (3, "0 1 2failed", "", OVER, OVER),
        (3, "0 1 2stopped", "", OVER, OVER),
        # the driver has died, with its agent, while it started the job again without who was left behind
        (2, "0 1left", "", DRIVE, DRIVE),
        (3, "0left 1 2left", "", DRIVE, DRIVE),
        (3, "1 2left", "", PAUSE, PAUSE),
        (3, "0x 1 2left", "", PAUSE, PAUSE),  # it may have begun without node 2
    ],
)
def test_who_counts(nodes: int, answers: str, known_dead: str, submitter: Decision, standby: Decision) -> None:
    """More than half of the last attempt; at exactly half who has begun it goes on, a standby driver never. A
    host that refuses the connection counts as granting for who was connected with it until then, for nobody else; a silent one
    never. A job that is over needs no driver."""
    for candidate, expected in ((SUBMITTER, submitter), (STANDBY, standby)):
        machine = election(nodes, candidate, known_dead=[int(node) for node in known_dead])
        assert decision(round_of(machine, *map(said, answers.split()))) is expected, candidate


def test_where_nobody_is_left_out_those_that_were_started_again_are_enough() -> None:
    machine = election(3, replace(SUBMITTER, leaves_out=False))
    assert decision(round_of(machine, *map(said, ("0r", "1r", "2r")))) is DRIVE


def test_who_keeps_it_from_going_on_is_named() -> None:
    machine = election(5, STANDBY, known_dead=[1])
    assert decision(round_of(machine, grant(0), Missing(1, True), Missing(2, True), grant(3, voice="none"))) is PAUSE
    assert machine.describe({node: f"N{node}" for node in range(5)}) == (
        "N4 cannot be reached, and may be going on without us. N2 cannot be reached (connection refused), and may have gone on "
        "before that without us. N3 was started again, and may have had another driver before."
    )


def test_a_later_claim_is_answered_by_a_later_one() -> None:
    """Somebody has claimed the job since, and is gone: who comes back asks again with a higher term."""
    machine = election(3, SUBMITTER)
    higher = later_term(4, ME)
    assert higher > 4 and later_term(4, "Node(1)/000000000000000b") not in (higher, 4)
    again = round_of(machine, grant(0), grant(1), deny(2, term=4))
    assert again == [Send(node, ClaimJob(JOB, node, ME, SHA, higher)) for node in range(3)]
    assert machine.handle(grant(0, 1), 0.2) == []  # to the claim before
    for node in range(3):
        actions = machine.handle(grant(node, higher), 0.2)
    assert decision(actions) is DRIVE and machine.term == higher


def test_a_round_takes_no_longer_than_a_silent_host_may() -> None:
    machine = election(3, SUBMITTER)
    machine.handle(Ask((0, 1)), 10.0)  # the third is known to be silent, and is not asked
    machine.handle(grant(0), 10.1)
    assert machine.deadline == 10.0 + ANSWER_SECONDS
    assert decision(machine.handle(grant(1), 10.2)) is DRIVE and machine.deadline is None
    machine.handle(Ask((0, 1)), 20.0)
    machine.handle(grant(0), 20.1)
    assert machine.handle(Tick(), 21.0) == []
    assert decision(machine.handle(Tick(), 21.5)) is PAUSE


def test_the_next_attempt_begins_when_enough_have_agreed() -> None:
    machine = election(3, SUBMITTER)
    round_of(machine, grant(0), grant(1), grant(2))
    asked = machine.handle(Propose(1, "next"), 1.0)
    assert asked == [Send(node, ProposeAttempt(JOB, node, ME, 1, 1, "next")) for node in range(3)]
    assert machine.handle(Said(0, Agreed(JOB, 0, 1, 1)), 1.1) == []
    assert machine.handle(Said(1, Agreed(JOB, 1, 1, 7)), 1.1) == []  # to another proposal
    assert decision(machine.handle(Tick(), 2.5)) is PAUSE
    machine.handle(Propose(1, "next"), 3.0)
    machine.handle(Said(0, Agreed(JOB, 0, 1, 1)), 3.1)
    machine.handle(Said(1, Agreed(JOB, 1, 1, 1)), 3.1)
    assert decision(machine.handle(Missing(2, True), 3.2)) is DRIVE


@covers("INV-14")
def test_who_hears_of_a_newer_attempt_goes_on_from_there() -> None:
    """One that has begun counts at once. One that some have agreed to may have begun elsewhere, so it is completed."""
    machine = election(3, STANDBY, term=2)
    assert decision(round_of(machine, grant(0, 2), grant(1, 2), deny(2, "left", known=begun(2, 1, "begun")))) is Decision.NEWER
    assert machine.newer == Newer(2, 1, "begun")
    machine = election(3, STANDBY, term=2)
    asked = round_of(machine, grant(0, 2), grant(1, 2, known=proposed(1, 1, "proposed")), Missing(2, False))
    assert asked == [Send(node, ProposeAttempt(JOB, node, ME, 2, 1, "proposed")) for node in (0, 1)]
    machine.handle(Said(0, Agreed(JOB, 0, 2, 1)), 0.2)
    assert decision(machine.handle(Said(1, Agreed(JOB, 1, 2, 1)), 0.2)) is Decision.NEWER
    assert machine.newer == Newer(1, 2, "proposed")


@covers("INV-14")
def test_what_follows_from_an_attempt_that_it_does_not_know_is_not_its_to_complete() -> None:
    """Other nodes have to agree to it than those that it knows. The attempt in between comes first."""
    two_ahead: Known = (2, 1, False, "second", 1, 1, "first")
    machine = election(3, STANDBY, term=2)
    assert decision(round_of(machine, grant(0, 2), grant(1, 2, known=two_ahead), Missing(2, False))) is Decision.NEWER
    assert machine.newer == Newer(1, 1, "first")
    without_state: Known = (2, 1, False, "second", 1, 1, "")
    answers = (grant(0, 2), grant(1, 2, known=without_state), Missing(2, False))
    assert decision(round_of(election(3, STANDBY, term=2), *answers)) is YIELD


@covers("INV-14")
def test_what_others_have_proposed_is_not_forgotten_when_too_few_agree_to_it_now() -> None:
    """The next round, of the same standby driver or of another one, finds it again, and not as its own."""
    again = proposed(1, 2, "proposed")
    machine = election(3, STANDBY, term=2)
    asked = round_of(machine, grant(0, 2, known=again), grant(1, 2, known=again), Missing(2, False))
    assert [action.operation.attempt_state for action in asked] == ["proposed", "proposed"]


def test_what_it_has_proposed_before_is_its_own() -> None:
    """Its attempt did not come off, though some nodes know that it could have begun: so it tries again."""
    machine = election(3, SUBMITTER)
    round_of(machine, grant(0), grant(1), Missing(2, False))
    machine.handle(Propose(1, "mine"), 1.0)
    for known in (proposed(1, 1, "mine"), begun(1, 1, "mine")):
        assert decision(round_of(machine, grant(0, known=known), grant(1), Missing(2, False))) is DRIVE
    assert decision(round_of(machine, grant(0), grant(1, known=begun(1, 2, "mine")), Missing(2, False))) is Decision.NEWER


def test_an_event_of_another_machine_is_refused() -> None:
    with pytest.raises(InvalidTransition, match="Election cannot take 7 now"):
        election(1, STANDBY).handle(7, 0.0)
