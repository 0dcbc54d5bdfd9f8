"""Fault plans: what is read is what is printed, errors name the clause, and each fault is told once, at its step."""

from __future__ import annotations

import dataclasses
import logging
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.faults import FaultPlan, LinkFault, ProcessFault, Step

from ...soak import weather
from ...statements import covers

PROCESS_KINDS = ("exit", "hang", "kill", "nan", "raise", "stop")
LINK_KINDS = ("cut", "delay", "duplicate", "lose", "reorder", "swallow", "throttle")
EVERYTHING = (
    "kill 1@e1.b3; stop 2@e1.b5 for 4s; stop 2@e1.b5; hang 0@e1.b1 for 250ms; +500ms 0>1; +1.5s~20ms 0-1@e2.b7 for 2min; "
    "cut 0-2@e2 for 3s; kill ps@e2; swallow 0>1@e1.b2; throttle 0>1 1mbit; lose ps>1 2.5%; duplicate 0>1@a2; reorder 1-0; "
    "exit 1@e1.b3 code 3; exit 1@e1.b3@a3; raise 2@e1.b2@a*; nan 1@e1.b4"
)


def test_every_kind_of_clause_is_read_and_printed() -> None:
    """The grammar of plans: what is printed is read as the same plan."""
    plan = FaultPlan.parse(EVERYTHING, seed=7)
    assert str(plan) == EVERYTHING.replace("2min", "120s")
    assert FaultPlan.parse(str(plan), 7) == plan and hash(FaultPlan.parse(str(plan), 7)) == hash(plan)
    assert FaultPlan.parse(str(plan), 8) != plan
    assert {fault.kind for fault in plan.faults} == {*PROCESS_KINDS, *LINK_KINDS}
    assert plan.counts == dict.fromkeys(map(str, plan.faults), 0)


def test_what_clauses_mean() -> None:
    """People count epochs, batches and attempts from 1, keys count from 0."""
    clauses = "stop 2@e1.b5 for 4s;+500ms~1s 0-1 for 0.5s; throttle 0>ps@e3.b0@a2 8kbit;exit ps@e1.b3@a* code 3; ; lose 1>0 10%"
    with pytest.raises(ValueError, match="got nothing"):
        FaultPlan.parse(clauses)
    plan = FaultPlan.parse(clauses.replace("; ;", ";") + ";")
    assert plan.faults == (
        ProcessFault("stop", 2, Step(0, 4), 0, 4.0),
        LinkFault("delay", 0, 1, True, None, 0, 0.5, delay=0.5, jitter=1.0),
        LinkFault("throttle", 0, -2, False, Step(2), 1, None, rate=1000.0),
        ProcessFault("exit", -2, Step(0, 2), None, None, 3),
        LinkFault("lose", 1, 0, share=0.1),
    )
    assert FaultPlan.parse("exit 0@e1.b1").faults == (ProcessFault("exit", 0, Step(0, 0)),)
    assert FaultPlan.parse("  ") == FaultPlan() and not FaultPlan().at(0, 0, 0)
    with pytest.raises(ValueError, match=r"A fault plan must be a text such as .*, got 3\."):
        FaultPlan.parse(3)  # type: ignore[arg-type]


A_NODE, A_STEP, AN_ATTEMPT = (
    "a node (a number, or ps) before '@'",
    "a step such as '@e1.b3'",
    "an attempt such as '@a1' or '@a*'",
)
A_TIME, A_SHARE, A_RATE = "a time such as 'for 4s'", "a share above 0 % and up to 100 %", "a rate such as '1mbit'"
A_KIND = f"one of {', '.join(sorted({*PROCESS_KINDS, *LINK_KINDS} - {'delay'}))}"
NO_MORE = "nothing more behind it"


@pytest.mark.parametrize(
    ("clause", "expects", "got"),
    [
        ("explode 1@e1.b3", A_KIND, "'explode'"),
        ("delay 0>1", "one of", "'delay'"),
        ("1:2:3:kill", f"{A_KIND}, or a delay such as '+500ms', at its begin, as in 'kill 1@e1.b3'", "'1:2:3:kill'"),
        ("killed 1@e1.b3", A_KIND, "'killed'; did you mean 'kill'"),
        ("kill@1:e2b3", "a blank behind kill, as in 'kill 1@e1.b3'", "'kill@1:e2b3'"),
        ("cut:0-1", "a blank behind cut, as in 'cut 0-1@e2'", "'cut:0-1'"),
        ("kill", "a node or link behind the kind of fault", "nothing"),
        ("kill 1", f"{A_STEP} behind the node", "none"),
        ("kill 1@a1", A_STEP, "none"),
        ("kill 1@e1.b3@a0", "attempts counted from 1", "'a0'"),
        ("kill x@e1.b1", A_NODE, "'x'"),
        ("kill -1@e1.b1", A_NODE, "'-1'"),
        ("kill 0>1@e1.b1", A_NODE, "'0>1'"),
        ("kill 1@b3", A_STEP, "'b3'"),
        ("kill 1@e0.b3", "epochs counted from 1", "'e0.b3'"),
        ("kill 1@e1.b3@e2", AN_ATTEMPT, "'e2'"),
        ("kill 1@e1.b3@a1@a2", "at most a step and an attempt", "'@a2'"),
        ("kill 1@e1.b3 for 3s", NO_MORE, "'for 3s'"),
        ("stop 1@e1.b3 for", A_TIME, "nothing"),
        ("stop 1@e1.b3 for ever", A_TIME, "'ever'"),
        ("stop 1@e1.b3 for 3h", A_TIME, "'3h'"),
        ("stop 1@e1.b3 4s", NO_MORE, "'4s'"),
        ("exit 1@e1.b3 code -3", "an exit code such as 'code 3'", "'-3'"),
        ("exit 1@e1.b3 code 256", "an exit code from 0 to 255", "256"),
        ("+500 0>1", "a delay such as '+500ms'", "'+500'"),
        ("+500ms 0", "a link such as '0>1' or '0-1'", "'0'"),
        ("cut 0-0", "a link between two nodes", "'0-0'"),
        ("throttle 0>1", A_RATE, "nothing"),
        ("throttle 0>1 1mb", A_RATE, "'1mb'"),
        ("throttle 0>1 0mbit", "a rate above 0", "'0mbit'"),
        ("lose 0>1 110%", A_SHARE, "'110%'"),
        ("lose 0>1 0%", A_SHARE, "'0%'"),
        ("lose 0>1", "a share such as '10%'", "nothing"),
        ("swallow 0>1 twice", NO_MORE, "'twice'"),
    ],
)
def test_errors_name_clause_expectation_and_what_came(clause: str, expects: str, got: str) -> None:
    with pytest.raises(ValueError) as caught:
        FaultPlan.parse(f"kill 0@e1.b1; {clause}")
    assert str(caught.value).startswith(f"The fault clause {clause!r} must have {expects}")
    assert str(caught.value).endswith(f", got {got}.")


def test_nodes_that_the_job_lacks_are_named() -> None:
    plan = FaultPlan.parse("kill 1@e1.b3; cut 0-ps")
    plan.check([0, 1, -2])
    with pytest.raises(ValueError, match=r"^The fault clause 'cut 0-ps' names node ps; the job has the nodes 0, 1\.$"):
        plan.check([1, 0])
    with pytest.raises(ValueError, match=r"^The fault clause 'kill 1@e1\.b3' names node 1; the job has the nodes ps, 0\.$"):
        plan.check([0, -2])


def test_places_to_which_the_job_never_comes_are_named() -> None:
    plan = FaultPlan.parse("kill 1@e3.b3; cut 0-1@e2.b9; +1s 0>1; raise 0@e1.b9@a2; nan 0@e1")
    plan.check([0, 1], 3)
    plan.check_batches(3)
    with pytest.raises(ValueError, match=r"^The fault clause 'kill 1@e3\.b3' names epoch 3; the job has 2\.$"):
        plan.check([0, 1], 2)
    with pytest.raises(ValueError, match=r"^The fault clause 'cut 0-1@e2\.b9' names epoch 2; the job has 1\.$"):
        FaultPlan.parse("cut 0-1@e2.b9").check([0, 1], 1)
    with pytest.raises(ValueError, match=r"^The fault clause 'kill 1@e3\.b3' names batch 3; an epoch of the job has 2\.$"):
        plan.check_batches(2)
    assert plan.never(3, 0) == ["raise 0@e1.b9@a2"] and plan.never(3, 1) == []
    assert plan.never(2, 1) == ["kill 1@e3.b3"]
    assert FaultPlan.parse("kill 1@e2@a*").never(1, 0) == ["kill 1@e2@a*"]


@pytest.mark.parametrize("clause", ["kill 1@e1.b4@a*", "kill 1@e2.b4@a2", "cut 0-1@e2.b4", "cut 0-1@e2.b4@a*"])
def test_batches_behind_the_last_one_are_named_for_all_attempts_that_are_alike(clause: str) -> None:
    plan = FaultPlan.parse(clause)
    plan.check_batches(3)  # a later attempt may have other batches, and a later epoch passes the place on a link
    plan.check_batches(4, 2)
    with pytest.raises(ValueError, match=rf"^The fault clause '{re.escape(clause)}' names batch 4; an epoch of .* has 3\.$"):
        plan.check_batches(3, 2)
    assert plan.never(2, 1, 3) == [clause] and plan.never(2, 1, 4) == plan.never(2, 1) == []


def test_a_fault_of_a_link_begins_in_the_epoch_after_its_place() -> None:
    plan = FaultPlan.parse("cut 0-1@e1.b9")
    plan.check_batches(3, 2)
    assert plan.never(2, 0, 3) == [] and plan.never(1, 0, 3) == ["cut 0-1@e1.b9"]


def told(plan: FaultPlan, nodes: Any = range(3), epochs: int = 3, batches: int = 6, attempt: int = 0) -> list[tuple[Any, ...]]:
    """All steps of all nodes of a job."""
    found = []
    for epoch in range(epochs):
        for batch in range(batches):
            for node in nodes:
                faults = [*plan.at(node, epoch, batch, attempt), *plan.links_at(node, epoch, batch, attempt)]
                found += [(node, epoch, batch, str(fault)) for fault in faults]
    return found


def test_each_fault_is_told_once_at_its_step() -> None:
    """Faults are written by node and step; a job that goes back to a step does not meet its fault again."""
    plan = FaultPlan.parse("kill 1@e1.b3; raise 0@e2; nan 2@e2.b6")
    assert told(plan) == [(1, 0, 2, "kill 1@e1.b3"), (0, 1, 0, "raise 0@e2"), (2, 1, 5, "nan 2@e2.b6")]
    assert told(plan) == []
    assert set(plan.counts.values()) == {1}
    # an epoch alone is its first batch that comes: in a job that resumes in its middle, and at a server that counts none
    plan = FaultPlan.parse("kill ps@e2; raise 0@e2.b0")
    assert [plan.at(-2, 1, batch) != [] for batch in (4, 5)] == [True, False]
    assert [plan.at(0, *step) != [] for step in ((0, 5), (1, 3), (1, 4), (2, 0))] == [False, True, False, False]


def test_faults_belong_to_an_attempt() -> None:
    """A restarted job meets no fault again, unless the plan says so."""
    text = "kill 1@e1.b3; raise 1@e1.b3@a2; nan 1@e1.b3@a*; cut 0-1@e1.b3@a2"
    plan = FaultPlan.parse(text)
    assert [fault for *_, fault in told(plan)] == ["kill 1@e1.b3", "nan 1@e1.b3@a*"]
    assert [fault for *_, fault in told(plan, attempt=1)] == [
        "cut 0-1@e1.b3@a2",
        "raise 1@e1.b3@a2",
        "nan 1@e1.b3@a*",
        "cut 1-0@e1.b3@a2",
    ]
    assert [fault for *_, fault in told(plan, attempt=2)] == ["nan 1@e1.b3@a*"]
    assert told(plan, attempt=1) == []


def test_links_are_told_to_those_who_send_on_them() -> None:
    """A fault of both directions is told to both ends, each as the sender; one without a step at the first step that comes."""
    plan = FaultPlan.parse("+500ms 0>1; cut 0-2@e2.b2 for 3s; throttle ps>1 1mbit")
    assert told(plan, [-2, 0, 1, 2]) == [
        (-2, 0, 0, "throttle ps>1 1mbit"),
        (0, 0, 0, "+500ms 0>1"),
        (0, 1, 1, "cut 0-2@e2.b2 for 3s"),
        (2, 1, 1, "cut 2-0@e2.b2 for 3s"),
    ]
    late = FaultPlan.parse("cut 0-2@e2.b2")
    assert [str(fault) for fault in late.links_at(2, 4, 0)] == ["cut 2-0@e2.b2"], "the step was passed: it begins now"


@covers("INV-13")
def test_the_log_is_the_same_for_the_same_plan_and_steps(caplog: pytest.LogCaptureFixture) -> None:
    """Of injections: it says attempt, step and clause, so that a killed process's last line names its fault."""
    plans = [FaultPlan.parse("kill 1@e1.b3; +500ms 0-1; nan 0@e2@a*", seed=3) for _ in range(2)]
    with caplog.at_level(logging.WARNING, "network.faults.plan"):
        for plan in plans:
            told(plan)
            told(plan, attempt=1)
    assert plans[0].log == plans[1].log
    assert plans[0].log == [
        "attempt 1, e1.b1: +500ms 0-1",
        "attempt 1, e1.b1: +500ms 0-1",
        "attempt 1, e1.b3: kill 1@e1.b3",
        "attempt 1, e2.b1: nan 0@e2@a*",
        "attempt 2, e2.b1: nan 0@e2@a*",
    ]
    assert [record.getMessage() for record in caplog.records] == [f"Injected fault in {line}." for line in 2 * plans[0].log]


NODES = st.sampled_from([-2, 0, 1, 2, 17])
STEPS = st.builds(Step, st.integers(0, 99), st.none() | st.integers(0, 999))
ATTEMPTS = st.none() | st.integers(0, 3)
# as many digits as the grammar takes
TIMES = st.integers(0, 10**9).map(lambda n: n / 1000) | st.integers(0, 10**6).map(lambda n: n / 10**9)
PROCESS = st.builds(
    lambda kind, node, step, attempt, seconds, code: ProcessFault(
        kind, node, step, attempt, seconds if kind in ("stop", "hang") else None, code if kind == "exit" else None
    ),
    st.sampled_from(PROCESS_KINDS),
    NODES,
    STEPS,
    ATTEMPTS,
    st.none() | TIMES,
    st.none() | st.integers(0, 255),
)


@st.composite
def link_faults(draw: Any) -> LinkFault:
    kind = draw(st.sampled_from(LINK_KINDS))
    sender, receiver = draw(st.lists(NODES, min_size=2, max_size=2, unique=True))
    fault = LinkFault(
        kind, sender, receiver, draw(st.booleans()), draw(st.none() | STEPS), draw(ATTEMPTS), draw(st.none() | TIMES)
    )
    more: dict[str, float] = {}
    if kind == "delay":
        more = {"delay": draw(TIMES), "jitter": draw(TIMES)}
    elif kind == "throttle":
        more = {"rate": draw(st.integers(1, 10**10)) / 8}
    elif kind == "lose":
        more = {"share": draw(st.integers(1, 10**6)) / 10**6}
    return dataclasses.replace(fault, **more)


@given(st.lists(PROCESS | link_faults(), max_size=5), st.integers(0, 9))
def test_whatever_is_printed_is_read_as_the_same_plan(faults: list[Any], seed: int) -> None:
    plan = FaultPlan(faults, seed)
    assert FaultPlan.parse(str(plan), seed) == plan


@given(st.text(max_size=30) | st.text("kilstopcu0123456789>-@eab.*+~ms% ;", max_size=30))
def test_whatever_comes_is_a_plan_or_a_value_error(text: str) -> None:
    try:
        plan = FaultPlan.parse(text)
    except ValueError as error:
        assert ", got " in str(error)
    else:
        assert FaultPlan.parse(str(plan)) == plan


@pytest.mark.parametrize("seed", range(9))
def test_the_storms_of_the_soak_are_plans(seed: int) -> None:
    """Which take half an hour, and come true only before a release; a first attempt is hit, too."""
    plan = FaultPlan.parse(weather.draw(seed).plan, seed)
    plan.check(list(range(weather.WORKERS)))
    assert {fault.attempt for fault in plan.faults} == set(range(weather.ATTEMPTS))
