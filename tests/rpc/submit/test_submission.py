"""The submitter's machine alone: limits, verdicts, and events that cannot be. The orders are in test_three_phases."""

from __future__ import annotations

from typing import Any

import pytest

from rpc.errors import ROLLED_BACK, InvalidTransition
from rpc.liveness.limits import FIRST_PHASE_SECONDS, PER_NODE_SECONDS
from rpc.submit.submission import (
    Answer,
    Cancelled,
    Dispatched,
    HasAccepted,
    HasAsked,
    HasEnded,
    HasLoaded,
    HasPrepared,
    HasRefused,
    IsLost,
    IsRunning,
    OpenCodeSession,
    Phase,
    SendAbort,
    Settled,
    Started,
    Submission,
    Tick,
)

from ...statements import covers

NAMES = {0: "Node(0) at a:1", 1: "Node(1) at b:1"}
ONE_EACH = FIRST_PHASE_SECONDS + PER_NODE_SECONDS  # the first limit where each host has one node


def machine(*events: Any, nodes: tuple[int, ...] = (0, 1)) -> Submission:
    made = Submission(nodes, NAMES, start_limit=60.0)
    for event in (Started(), *events):
        made.handle(event, 0.0)
    return made


ACCEPTED = (HasAccepted(0), HasAccepted(1))
LOADED = (*ACCEPTED, HasLoaded(0), HasLoaded(1))
PREPARED = (*LOADED, Dispatched(3.0), HasPrepared(0), HasPrepared(1))
RUNNING = (*PREPARED, IsRunning(0), IsRunning(1))
ENDED = (*RUNNING, HasEnded(0, "done", ""), HasEnded(1, "done", ""))


@covers("SUB-3", "SUB-5", "SUB-7")
@pytest.mark.parametrize(
    ("events", "phase"),
    [
        ((), Phase.CAN_COMMIT),
        (ACCEPTED, Phase.CAN_COMMIT),
        (LOADED, Phase.LOADED),
        ((*LOADED, Dispatched(3.0)), Phase.PRE_COMMIT),
        (PREPARED, Phase.DO_COMMIT),
        (RUNNING, Phase.RUNNING),
        (ENDED, Phase.ENDED),
        ((*LOADED, IsRunning(0), IsRunning(1)), Phase.RUNNING),
        ((*LOADED, IsRunning(0), IsRunning(1), Dispatched(3.0)), Phase.RUNNING),  # they asked for nothing
        ((*LOADED, HasPrepared(0), HasPrepared(1), Dispatched(3.0)), Phase.DO_COMMIT),
        ((*ACCEPTED, IsRunning(0), IsRunning(1), HasLoaded(0), HasPrepared(0)), Phase.RUNNING),  # the agent was faster
        ((*LOADED, Dispatched(3.0), HasEnded(0, "done", ""), HasPrepared(0), IsRunning(1)), Phase.RUNNING),
        ((*RUNNING, IsLost(0, "gone"), HasEnded(1, "failed", "x")), Phase.ENDED),
        ((*ENDED, Tick(), IsLost(0, "gone"), Cancelled("late")), Phase.ENDED),
    ],
)
def test_phases(events: tuple[Any, ...], phase: Phase) -> None:
    assert machine(*events).phase is phase


@covers("SUB-3")
def test_code_goes_out_when_all_have_accepted() -> None:
    """Nothing is started anywhere before."""
    made = machine()
    assert made.handle(HasAccepted(1), 0.0) == []
    assert made.handle(HasAccepted(0), 0.0) == [OpenCodeSession(0), OpenCodeSession(1)]


@covers("SUB-5")
def test_requests_wait_for_the_program() -> None:
    """What is asked before the program dispatches is answered then, in order."""
    made = machine(*ACCEPTED, HasLoaded(0), HasAsked(0, ("a", "b")), HasLoaded(1), HasAsked(1, ("c",)))
    assert made.handle(Dispatched(3.0), 0.0) == [Answer(0, ("a", "b")), Answer(1, ("c",))]
    assert made.handle(HasAsked(0, ("d",)), 0.0) == [Answer(0, ("d",))]


@covers("SUB-4", "SUB-6", "SUB-8", "INV-10")
@pytest.mark.parametrize(
    ("events", "limit", "reason"),
    [
        ((HasAccepted(0),), ONE_EACH, "Node(1) at b:1 did not finish canCommit in time"),
        ((*ACCEPTED, HasLoaded(1)), ONE_EACH, "Node(0) at a:1 did not finish canCommit in time"),
        ((*LOADED, Dispatched(3.0), HasPrepared(1)), 3.0, "Node(0) at a:1 did not finish preCommit in time"),
        ((*PREPARED, IsRunning(0)), 62.0, "Node(1) at b:1 did not finish doCommit in time"),
        (PREPARED, 62.0, "Node(0) at a:1, Node(1) at b:1 did not finish doCommit in time"),
    ],
)
def test_limits(events: tuple[Any, ...], limit: float, reason: str) -> None:
    """The limit of each phase, to the moment; the reason names nodes, addresses and phase."""
    made = machine(*events)
    assert made.deadline == limit
    assert made.handle(Tick(), limit - 1e-6) == []
    assert made.handle(Tick(), limit) == [SendAbort(0, reason), SendAbort(1, reason)]
    assert made.phase is Phase.FAILED
    assert made.reason == reason
    assert made.deadline is None


@covers("SUB-4")
def test_the_first_limit_grows_with_the_nodes_of_the_fullest_host() -> None:
    """64 interpreters that start on one host share its cores; on 64 hosts they do not."""
    names = {node: f"Node({node})" for node in range(64)}
    for fullest, limit in ((1, 7.5), (8, 11.0), (64, 39.0)):
        made = Submission(range(64), names, fullest=fullest)
        made.handle(Started(), 10.0)
        assert made.deadline == 10.0 + limit == 10.0 + made.first_limit


LATE = "network.errors.TimedOut: Timed out after 5 s waiting for node 1."


@covers("INV-10", "FLT-20")
@pytest.mark.parametrize("confirmed", [False, True])
def test_who_says_nothing_is_named_not_who_waited_for_it(confirmed: bool) -> None:
    """Node 0 has waited for node 1 in vain, whose agent may be as silent as its job process."""
    made = machine(*PREPARED)
    made.handle(HasEnded(0, "failed", LATE), 5.0)
    seen = f"Node(0) at a:1 did not start, it ended in doCommit: {LATE}"
    assert made.reason == seen and made.cause_is_open
    if confirmed:
        made.handle(HasEnded(1, "aborted", ""), 5.1)
    made.handle(Settled(), 7.0)
    assert made.reason == f"Node(1) at b:1 did not answer in doCommit. {seen}"


@covers("INV-10")
def test_a_slow_answer_is_no_cause() -> None:
    """Where a node has failed by itself, it stays the reason, whoever else takes long to give the job up."""
    made = machine(*PREPARED)
    made.handle(HasEnded(0, "failed", "ValueError"), 5.0)
    made.handle(Settled(), 7.0)
    assert made.reason.startswith("Node(0) at a:1 did not start") and not made.cause_is_open


@pytest.mark.parametrize("events", [LOADED, RUNNING, ENDED])
def test_no_limit_while_the_program_or_the_job_works(events: tuple[Any, ...]) -> None:
    made = machine(*events)
    assert made.deadline is None
    assert made.handle(Tick(), 1e9) == []
    assert made.phase is not Phase.FAILED


@covers("SUB-3")
def test_a_refusal_needs_no_confirmation() -> None:
    """Others are told to give up and waited for; whoever refused is not."""
    made = machine(HasAccepted(0))
    assert made.handle(HasRefused(1, "busy"), 0.0) == [SendAbort(0, "Node(1) at b:1 refuses the job: busy")]
    assert not made.all_free
    made.handle(HasEnded(0, "aborted", ""), 0.1)
    assert made.all_free


@covers("SUB-3")
@pytest.mark.parametrize("answer", [HasRefused(0, "busy, too"), IsLost(0, "gone"), HasEnded(0, "aborted", "")])
def test_late_answers_free_a_node(answer: Any) -> None:
    """Refusals, losses and ends that were on their way when the decision fell need no more waiting."""
    made = machine()
    made.handle(HasRefused(1, "busy"), 0.0)
    assert made.handle(HasAccepted(0), 0.0) == []
    assert not made.all_free
    assert made.handle(answer, 0.0) == []
    assert made.all_free


@covers("SUB-9")
def test_a_lost_node_is_told_but_not_waited_for() -> None:
    """When only its job process cannot be reached, its agent must still free the node."""
    made = machine(*ACCEPTED)
    actions = made.handle(IsLost(1, "no answer"), 0.0)
    assert actions == [SendAbort(node, "Node(1) at b:1 was lost in canCommit: no answer") for node in (0, 1)]
    assert not made.all_free
    made.handle(HasEnded(0, "aborted", ""), 0.0)
    assert made.all_free


@pytest.mark.parametrize("events", [(), ACCEPTED, LOADED, PREPARED, RUNNING])
def test_cancel(events: tuple[Any, ...]) -> None:
    """A cancelled job ends on every node, also where its part runs already (the parameter server starts by itself)."""
    made = machine(*events)
    assert made.handle(Cancelled("Ctrl-C"), 0.0) == [SendAbort(0, "Ctrl-C"), SendAbort(1, "Ctrl-C")]
    assert made.handle(Cancelled("again"), 0.0) == []
    assert made.reason == "Ctrl-C"


@covers("SUB-8", "INV-10")
@pytest.mark.parametrize("state", ["failed", "stopped", "aborted", "lost"])
@pytest.mark.parametrize("events", [ACCEPTED, LOADED, PREPARED, (*PREPARED, IsRunning(0))])
def test_an_end_before_the_start(events: tuple[Any, ...], state: str) -> None:
    """One node's failure gives the job up on all; the reason names node, address and phase."""
    made = machine(*events)
    phase = {ACCEPTED: "canCommit", LOADED: "preCommit"}.get(events, "doCommit")
    reason = f"Node(1) at b:1 did not start, it ended in {phase}: no luck"
    assert made.handle(HasEnded(1, state, "no luck"), 0.0) == [SendAbort(0, reason)]
    assert made.ended == {1: (state, "no luck")}


@covers("INV-10")
@pytest.mark.parametrize("cause", [HasEnded(1, "failed", "killed by signal 9"), IsLost(1, "its connection ended")])
def test_the_first_cause_is_found_when_it_is_heard_of_last(cause: HasEnded | IsLost) -> None:
    """Node 0 has lost node 2, which had only lost node 1; whoever was to be told to give up changes nothing either."""
    made = Submission((0, 1, 2), {**NAMES, 2: "Node(2) at c:1"})
    steps = [step(node) for step in (HasAccepted, HasLoaded) for node in (0, 1, 2)]
    for event in (Started(), *steps, Dispatched(3.0), *map(HasPrepared, (0, 1, 2))):
        made.handle(event, 0.0)
    made.handle(HasEnded(0, "failed", f"{ROLLED_BACK}: node 2 was lost"), 0.0)
    assert made.reason.startswith("Node(0) at a:1 did not start, it ended in doCommit: ")
    made.handle(HasEnded(2, "failed", f"{ROLLED_BACK}: node 1 was lost"), 0.0)
    assert made.reason.startswith("Node(0)")
    made.handle(cause, 0.0)
    said = "did not start, it ended in" if isinstance(cause, HasEnded) else "was lost in"
    assert made.reason == f"Node(1) at b:1 {said} doCommit: {getattr(cause, 'detail', '') or getattr(cause, 'reason', '')}"
    assert made.all_free


@covers("INV-10")
def test_what_happens_to_others_afterwards_is_no_cause() -> None:
    """The first failure is not a consequence, so it stays the reason."""
    made = machine(*PREPARED)
    made.handle(HasEnded(0, "failed", "ValueError"), 0.0)
    made.handle(HasEnded(1, "failed", "killed"), 0.0)
    assert made.reason.startswith("Node(0)")


@covers("SUB-7")
@pytest.mark.parametrize("state", ["failed", "stopped", "aborted", "lost"])
def test_an_end_before_the_last_start_is_known(state: str) -> None:
    """Who runs has heard READY from all, so its end belongs to the job and is for `join` to tell."""
    made = machine(*PREPARED, IsRunning(0))
    assert made.handle(IsLost(0, "no luck") if state == "lost" else HasEnded(0, state, "no luck"), 0.0) == []
    assert made.handle(IsRunning(1), 0.0) == []
    assert made.phase is Phase.RUNNING
    assert made.ended == {0: (state, "no luck")}


@pytest.mark.parametrize(
    ("events", "impossible"),
    [
        ((), Started()),
        ((), HasLoaded(0)),
        ((), HasAccepted(2)),
        ((), HasRefused(-1, "x")),
        ((), Dispatched(1.0)),
        ((), IsRunning(0)),
        ((), "rubbish"),
        ((HasAccepted(0),), HasAccepted(0)),
        ((HasAccepted(0),), HasRefused(0, "x")),
        (ACCEPTED, HasAccepted(1)),
        (ACCEPTED, Started()),
        (ACCEPTED, HasPrepared(0)),
        (ACCEPTED, HasAsked(0, ())),
        (LOADED, HasRefused(0, "x")),
        ((*LOADED, Dispatched(1.0)), Dispatched(1.0)),
        (RUNNING, None),
    ],
)
def test_what_cannot_be(events: tuple[Any, ...], impossible: Any) -> None:
    """Style 9: an invalid transition raises with the last events attached."""
    with pytest.raises(InvalidTransition, match=r"Submission cannot take .* now. Last events: ") as caught:
        machine(*events).handle(impossible, 1.5)
    for event in (Started(), *events):
        assert repr(event) in str(caught.value)
    assert f"1.500 {impossible}" in str(caught.value)
