"""The submitter's machine alone: limits, verdicts, and events that cannot be. The orders are in test_three_phases."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rpc.errors import ROLLED_BACK, InvalidTransition
from rpc.liveness.limits import FIRST_PHASE_SECONDS, PER_NODE_SECONDS
from rpc.submit import submission as sub
from rpc.submit.submission import HasEnded, HasRefused, IsLost, Phase, SendAbort, Submission, Tick

from ...statements import covers

NAMES = {0: "Node(0) at a:1", 1: "Node(1) at b:1", 2: "Node(2) at c:1"}
ONE_EACH = FIRST_PHASE_SECONDS + PER_NODE_SECONDS  # the first limit where each host has one node
STEPS = {"accept": sub.HasAccepted, "load": sub.HasLoaded, "prepare": sub.HasPrepared, "run": sub.IsRunning}


def event(word: str) -> list[Any]:
    """`load01`: nodes 0 and 1 have loaded. `done0`, `failed1`: a node has ended so, with the detail "no luck"."""
    single = {"start": sub.Started(), "dispatch": sub.Dispatched(3.0), "cancel": sub.Cancelled("late"), "tick": Tick()}
    if word in single:
        return [single[word]]
    found = re.fullmatch(r"([a-z]+)(\d+)", word)
    assert found is not None
    verb, nodes = found[1], map(int, found[2])
    if verb in STEPS:
        return [STEPS[verb](node) for node in nodes]
    kinds: dict[str, Any] = {"refuse": lambda node: HasRefused(node, "x"), "lost": lambda node: IsLost(node, "no luck")}
    kinds["ask"] = lambda node: sub.HasAsked(node, ("a", "b"))
    return [kinds[verb](node) if verb in kinds else HasEnded(node, verb, "no luck") for node in nodes]


def machine(script: str, nodes: tuple[int, ...] = (0, 1)) -> Submission:
    made = Submission(nodes, NAMES, start_limit=60.0)
    for word in f"start {script}".split():
        for each in event(word):
            made.handle(each, 0.0)
    return made


LOADED = "accept01 load01"
PREPARED = f"{LOADED} dispatch prepare01"
RUNNING = f"{PREPARED} run01"
ENDED = f"{RUNNING} done01"


@covers("SUB-3", "SUB-5", "SUB-7")
@pytest.mark.parametrize(
    ("script", "phase"),
    [
        ("", Phase.CAN_COMMIT),
        ("accept01", Phase.CAN_COMMIT),
        (LOADED, Phase.LOADED),
        (f"{LOADED} dispatch", Phase.PRE_COMMIT),
        (PREPARED, Phase.DO_COMMIT),
        (RUNNING, Phase.RUNNING),
        (ENDED, Phase.ENDED),
        (f"{PREPARED} run0", Phase.DO_COMMIT),
        (f"{PREPARED} run0 done0 run1", Phase.RUNNING),  # a short one
        (f"{RUNNING} run0", Phase.RUNNING),  # who has taken over hears it again
        (f"{RUNNING} lost0 failed1", Phase.ENDED),
        (f"{ENDED} tick lost0 cancel", Phase.ENDED),
    ],
)
def test_phases(script: str, phase: Phase) -> None:
    made = machine(script)
    assert made.phase is phase
    if phase in (Phase.LOADED, Phase.RUNNING, Phase.ENDED):  # no limit while the program or the job works
        assert made.deadline is None and made.handle(Tick(), 1e9) == [] and made.phase is phase


@covers("SUB-3", "SUB-5")
def test_code_goes_out_when_all_have_accepted_and_answers_when_the_program_dispatches() -> None:
    """Nothing is started anywhere before; what is asked before the dispatch is answered then, in order."""
    made = machine("accept1")
    assert made.handle(sub.HasAccepted(0), 0.0) == [sub.OpenCodeSession(0), sub.OpenCodeSession(1)]
    made = machine("accept01 load0 ask0 load1 ask1")
    assert made.handle(sub.Dispatched(3.0), 0.0) == [sub.Answer(0, ("a", "b")), sub.Answer(1, ("a", "b"))]
    assert made.handle(sub.HasAsked(0, ("d",)), 0.0) == [sub.Answer(0, ("d",))]


@covers("SUB-4", "SUB-6", "SUB-8", "INV-10")
@pytest.mark.parametrize(
    ("script", "limit", "reason"),
    [
        ("accept0", ONE_EACH, "Node(1) at b:1 did not finish canCommit in time"),
        ("accept01 load1", ONE_EACH, "Node(0) at a:1 did not finish canCommit in time"),
        (f"{LOADED} dispatch prepare1", 3.0, "Node(0) at a:1 did not finish preCommit in time"),
        (f"{PREPARED} run0", 62.0, "Node(1) at b:1 did not finish doCommit in time"),
        (PREPARED, 62.0, "Node(0) at a:1, Node(1) at b:1 did not finish doCommit in time"),
    ],
)
def test_limits(script: str, limit: float, reason: str) -> None:
    """The limit of each phase, to the moment; the reason names nodes, addresses and phase."""
    made = machine(script)
    assert made.deadline == limit
    assert made.handle(Tick(), limit - 1e-6) == []
    assert made.handle(Tick(), limit) == [SendAbort(0, reason), SendAbort(1, reason)]
    assert (made.phase, made.reason, made.deadline) == (Phase.FAILED, reason, None)


@covers("SUB-4")
def test_the_first_limit_grows_with_the_nodes_of_the_fullest_host() -> None:
    """64 interpreters that start on one host share its cores; on 64 hosts they do not."""
    names = {node: f"Node({node})" for node in range(64)}
    for fullest, limit in ((1, 7.5), (8, 11.0), (64, 39.0)):
        made = Submission(range(64), names, fullest=fullest)
        made.handle(sub.Started(), 10.0)
        assert made.deadline == 10.0 + limit == 10.0 + made.first_limit


@covers("SUB-47")
def test_who_is_loaded_beside_many_others_may_have_no_processor_for_a_while() -> None:
    for rest, phase in ((4.0, Phase.CAN_COMMIT), (4.25, Phase.FAILED)):
        made = Submission((0,), {0: "Node(0)"})
        made.handle(sub.Started(), 0.0)
        made.handle(sub.HasWorked(0), made.first_limit - rest)
        made.handle(Tick(), made.first_limit)
        assert made.phase is phase


LATE = "network.errors.TimedOut: Timed out after 5 s waiting for node 1."


@covers("INV-10", "FLT-20")
@pytest.mark.parametrize("confirmed", [False, True])
def test_who_says_nothing_is_named_not_who_waited_for_it(confirmed: bool) -> None:
    """Node 0 has waited for node 1 in vain, whose agent may be as silent as its job process."""
    made = machine(PREPARED)
    made.handle(HasEnded(0, "failed", LATE), 5.0)
    seen = f"Node(0) at a:1 did not start, it ended in doCommit: {LATE}"
    assert made.reason == seen and made.cause_is_open
    if confirmed:
        made.handle(HasEnded(1, "aborted", ""), 5.1)
    made.handle(sub.Settled(), 7.0)
    assert made.reason == f"Node(1) at b:1 did not answer in doCommit. {seen}"


@covers("INV-10")
@pytest.mark.parametrize("then", [sub.Settled(), HasEnded(1, "failed", "killed")])
def test_what_happens_afterwards_is_no_cause(then: Any) -> None:
    """Where a node has failed by itself, it stays the reason, whoever else fails, or takes long to give the job up."""
    made = machine(f"{PREPARED} failed0")
    made.handle(then, 7.0)
    assert made.reason.startswith("Node(0) at a:1 did not start") and not made.cause_is_open


@covers("SUB-3", "SUB-9")
@pytest.mark.parametrize("answer", ["refuse0", "lost0", "aborted0"])
def test_who_is_waited_for_after_a_failure(answer: str) -> None:
    """Not who refused, but the others, which are told to give up: until they refuse, are lost or have ended. A lost node is
    told, too: when only its job process cannot be reached, its agent must still free the node."""
    made, reason = machine(""), "Node(1) at b:1 refuses the job: x"
    assert made.handle(HasRefused(1, "x"), 0.0) == [SendAbort(0, reason)]
    assert made.handle(sub.HasAccepted(0), 0.0) == []  # it was on its way
    assert not made.all_free
    assert [made.handle(each, 0.0) for each in event(answer)] == [[]] and made.all_free
    made, reason = machine("accept01"), "Node(1) at b:1 was lost in canCommit: no answer"
    assert made.handle(IsLost(1, "no answer"), 0.0) == [SendAbort(0, reason), SendAbort(1, reason)]
    assert not made.all_free
    made.handle(event(answer)[0], 0.0)
    assert made.all_free


@pytest.mark.parametrize("script", ["", "accept01", LOADED, PREPARED, RUNNING])
def test_cancel(script: str) -> None:
    """A cancelled job ends on every node, also where its part runs already (the parameter server starts by itself)."""
    made = machine(script)
    assert made.handle(sub.Cancelled("Ctrl-C"), 0.0) == [SendAbort(0, "Ctrl-C"), SendAbort(1, "Ctrl-C")]
    assert made.handle(sub.Cancelled("again"), 0.0) == []
    assert made.reason == "Ctrl-C"


@covers("SUB-7", "SUB-8", "INV-10")
@pytest.mark.parametrize("state", ["failed", "stopped", "aborted", "lost"])
def test_an_end_before_the_start(state: str) -> None:
    """One node's failure gives the job up on all; the reason names node, address and phase. Who runs has heard READY from all,
    so its end belongs to the job and is for `join` to tell, although the last start is not known yet."""
    for script, phase in (
        ("accept01", "canCommit"),
        (LOADED, "preCommit"),
        (PREPARED, "doCommit"),
        (f"{PREPARED} run0", "doCommit"),
    ):
        made, reason = machine(script), f"Node(1) at b:1 did not start, it ended in {phase}: no luck"
        assert made.handle(HasEnded(1, state, "no luck"), 0.0) == [SendAbort(0, reason)]
        assert made.ended == {1: (state, "no luck")}
    made = machine(f"{PREPARED} run0 {state}0 run1")
    assert made.phase is Phase.RUNNING and made.ended == {0: (state, "no luck")}


@covers("INV-10")
@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (HasEnded(1, "failed", "killed by signal 9"), "did not start, it ended in doCommit: killed by signal 9"),
        (IsLost(1, "its connection ended"), "was lost in doCommit: its connection ended"),
    ],
)
def test_the_first_cause_is_found_when_it_is_heard_of_last(cause: Any, said: str) -> None:
    """Node 0 has lost node 2, which had only lost node 1; whoever was to be told to give up changes nothing either."""
    made = machine("accept012 load012 dispatch prepare012", (0, 1, 2))
    for node, other in ((0, 2), (2, 1)):
        made.handle(HasEnded(node, "failed", f"{ROLLED_BACK}: node {other} was lost"), 0.0)
        assert made.reason.startswith("Node(0) at a:1 did not start, it ended in doCommit: ")
    made.handle(cause, 0.0)
    assert made.reason == f"Node(1) at b:1 {said}" and made.all_free


@pytest.mark.parametrize(
    ("script", "impossible"),
    [
        *(("", word) for word in ("start", "load0", "accept2", "refuse2", "dispatch", "run0", "rubbish")),
        *(("accept0", word) for word in ("accept0", "refuse0")),
        *(("accept01", word) for word in ("accept1", "start", "prepare0", "ask0")),
        *((LOADED, "refuse0"), (f"{LOADED} dispatch", "dispatch"), (RUNNING, "rubbish")),
        # none starts before all have what they need, and are told so
        *(("accept01", "run0"), (LOADED, "run0"), (f"{LOADED} dispatch prepare0", "run0")),
    ],
)
def test_what_cannot_be(script: str, impossible: str) -> None:
    """Style 9: an invalid transition raises with the last events attached."""
    thrown = None if impossible == "rubbish" else event(impossible)[0]
    with pytest.raises(InvalidTransition, match=r"Submission cannot take .* now. Last events: ") as caught:
        machine(script).handle(thrown, 1.5)
    for word in f"start {script}".split():
        assert all(repr(each) in str(caught.value) for each in event(word))
    assert f"1.500 {thrown}" in str(caught.value)
