"""Faults of simulated jobs: what the detectors find, when, and with which bits the job ends."""

from __future__ import annotations

import random
import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import parallel_sgd
from network.faults.fault import LINK_KINDS, PROCESS_KINDS
from network.faults.plan import FaultPlan
from parallel_sgd import codec as codecs
from parallel_sgd.errors import JobFailed
from parallel_sgd.run_page.data import effort_in
from parallel_sgd.run_page.records import RunRecords
from parallel_sgd.simulation.shrink import shrunk
from rpc.liveness.limits import (
    FIRST_BATCH_SECONDS,
    HEARTBEAT_SECONDS,
    LEAST_LOOK_SECONDS,
    LEAST_STEP_SECONDS,
    STACK_LOOK_SECONDS,
)
from tests.statements import covers

from .fault_jobs import BATCHES, EPOCHS, LATENCY, drawn, failures_of, is_calm, run
from .test_jobs import STAR, train, weights

CORPUS = Path(__file__).parent / "fault_corpus.txt"
AT = "@e2.b2"

# each fault, the verdict on it, and the least and the most seconds until the driver knows; None: the job does not notice
NOTICED: dict[str, tuple[str, float, float] | None] = {
    f"kill 1{AT}": ("crashed", 0, 0),
    f"exit 1{AT} code 3": ("exited", 0, 0),
    f"raise 1{AT}": ("crashed", 0, 0),
    f"nan 1{AT}": ("crashed", 0, 0),
    f"stop 1{AT}": ("stuck", LEAST_STEP_SECONDS, LEAST_STEP_SECONDS + LEAST_LOOK_SECONDS),
    f"hang 1{AT}": ("stuck", LEAST_STEP_SECONDS, LEAST_STEP_SECONDS + LEAST_LOOK_SECONDS + 2 * STACK_LOOK_SECONDS),
    f"stop 1{AT} for 4s": None,
    f"hang 1{AT} for 4s": None,
    f"stop 1{AT} for 40s": ("stuck", LEAST_STEP_SECONDS, LEAST_STEP_SECONDS + LEAST_LOOK_SECONDS + 2 * STACK_LOOK_SECONDS),
    "+500ms 0>1": None,
    "+50ms~10ms 0-1": None,
    "throttle 0>1 1mbit": None,
    "lose 0>1 10%": None,
    f"lose 0>1{AT} 100%": ("cut", LEAST_STEP_SECONDS, LEAST_STEP_SECONDS + 2 * HEARTBEAT_SECONDS),
    f"swallow 0>1{AT}": ("cut", LEAST_STEP_SECONDS, LEAST_STEP_SECONDS + 2 * HEARTBEAT_SECONDS),
    "swallow 0>1": ("cut", FIRST_BATCH_SECONDS, FIRST_BATCH_SECONDS + 2 * HEARTBEAT_SECONDS),
    f"swallow 0>1{AT} for 4s": None,
    f"cut 0-2{AT} for 3s": ("crashed", 0, 0),
    "duplicate 0>1": None,
    "reorder 0>1": None,
}


@covers("SIM-6")
def test_each_fault_of_the_grammar_is_tried() -> None:
    tried = {fault.kind for plan in NOTICED for fault in FaultPlan.parse(plan).faults}
    assert tried >= {*PROCESS_KINDS, *LINK_KINDS}


@covers("SIM-6")
@pytest.mark.parametrize("plan", NOTICED)
@pytest.mark.share(12)
def test_a_fault_is_noticed_by_its_detector_and_leaves_the_bits(plan: str) -> None:
    result = run(plan)
    assert is_calm(result)
    expected = NOTICED[plan]
    assert result.restarts == (expected is not None)
    if expected is not None:
        kind, least, most = expected
        (failure,) = failures_of(result)
        assert failure.what == kind
        assert least + LATENCY - 1e-9 <= failure.known - failure.at <= most + LATENCY + 1e-9
        assert failure.resumed is not None
        # the order to stop, the report, six messages of the start, and the start itself
        assert failure.resumed - failure.known == pytest.approx(1.0 + 8 * LATENCY)


@covers("SIM-6")
@pytest.mark.parametrize(
    ("codec", "shared"),
    [("SyncPS", False), ("SyncPS", True), ("Ring", False), ("Ring", True), ("TopK", False), ("PowerSGD", False)],
)
@pytest.mark.share(6)
def test_jobs_that_are_started_again_and_again_have_the_bits_of_a_calm_one(codec: str, shared: bool) -> None:
    """Also where codecs remember, a server fails, and workers share a state. Before its first checkpoint a codec's memory is
    lost with its worker, as on agents, so the faults come after it."""
    node = "ps" if getattr(codecs, codec).traits.needs_server else "0"
    result = run(f"raise {node}@e2.b1; kill 1@e2.b2@a2; exit 2@e2.b3@a3", codec, shared=shared)
    assert is_calm(result, codec) and result.restarts == 3


def test_a_longer_limit_is_asked_for_by_the_option() -> None:
    (failure,) = failures_of(run(f"stop 1{AT}", stall_timeout=33.0))
    assert failure.known - failure.at == pytest.approx(33 + LEAST_LOOK_SECONDS + LATENCY)


def test_a_worker_that_is_too_slow_is_taken_for_stuck(tmp_path: Path) -> None:
    """Its third step takes longer than the limit, each time that it is tried, also where it is the first of an attempt."""
    times = tmp_path / "times.csv"
    times.write_text("20ms\n20ms\n61s\n20ms\n20ms\n20ms\n")
    with pytest.raises(JobFailed, match=r"first Node\(2\).*epoch 1, batch 3.*the same failure has come 3 times"):
        run("", compute={"default": "20ms", 2: f"trace {times}"})


def test_a_fault_that_never_strikes_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Before the start where that is known, else at the end."""
    for plan, words in (
        ("kill 1@e99", r"^The fault clause 'kill 1@e99' names epoch 99; the job has \d\.$"),
        ("kill 1@e1.b999@a*", r"^The fault clause 'kill 1@e1\.b999@a\*' names batch 999; an epoch of the job has \d+\.$"),
        ("kill 1@e1.b999", r"^The fault clause 'kill 1@e1\.b999' names batch 999; an epoch of the job has \d+\.$"),
    ):
        with pytest.raises(ValueError, match=words):
            run(plan)
    run(f"raise 1{AT}; kill 1@e2.b1@a3")
    told = [record.getMessage() for record in caplog.records if "never struck" in record.getMessage()]
    assert len(told) == 1
    assert re.fullmatch(
        r"The fault 'kill 1@e2\.b1@a3' never struck: .* has ended with epoch \d of at most \d+ batch(es)?, after 1 restart\.",
        told[0],
    )


@pytest.mark.parametrize(
    ("plan", "given", "words"),
    [
        (f"kill 1{AT}", {"on_failure": "fail"}, r"Job \S+ failed, first Node\(1\) on .*epoch 2, batch 2. Node\(1\) failed"),
        (f"kill 1{AT}@a*", {}, "the same failure has come 3 times at the same place"),
        ("kill 1@e1.b2; kill 1@e1.b3@a2", {"max_restarts": 1}, "as often as 'max_restarts' allows, 1"),
    ],
)
def test_a_job_is_given_up_as_on_agents(plan: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(JobFailed, match=words):
        run(plan, **given)


def test_a_job_does_without_a_worker_whose_blocks_others_have() -> None:
    result = run(
        f"kill 2{AT}", on_failure="redundant", codec="FirstCopy", assignment_type=parallel_sgd.profiles.IIDBlockAssignment,
        redundancy=2,
    )  # fmt: skip
    assert sorted(result.failures) == [2] and result.restarts == 0 and sorted(result.models) == [0, 1]


def test_what_a_lost_worker_computed_is_not_forgotten(tmp_path: Path) -> None:
    """Epochs whose figures lack its steps say so, and the seconds that one worker alone would have needed have its own."""
    given: dict[str, Any] = {"on_failure": "redundant", "codec": "FirstCopy", "redundancy": 2, "epoch": 3}
    given["assignment_type"] = parallel_sgd.profiles.IIDBlockAssignment
    efforts = []
    for plan in ("", f"kill 2{AT}"):
        result = run(plan, folder=tmp_path, **given)
        assert result.folder is not None
        efforts.append(effort_in(RunRecords.read(result.folder)))
        whole = result.history.told[1, 1]
        lost = {2: (BATCHES - 1) * whole // 3} if plan else {}
        lost |= {3: BATCHES * whole // 3} if plan else {}
        assert result.history.untold == lost
        assert (result.ledger is not None) and result.ledger.problems == ()
        assert result.report is not None
        told = f"Nothing that the result needs, but figures of {sum(lost.values())} training steps lost with a worker."
        page = result.report.read_text("utf-8")
        assert (told in page, "killed by signal 9" in page) == (bool(plan), bool(plan))
    calm, killed = efforts
    assert calm is not None and killed is not None
    # but for the evaluations that a lost worker makes no more
    assert 0.9 * calm.alone < killed.alone <= calm.alone


@covers("SIM-1")
def test_a_job_with_faults_has_one_trace() -> None:
    plan = f"kill 1{AT}; stop 0@e1.b2 for 40s; +5ms~3ms 0>2"
    found = [run(plan).simulated for _ in range(2)]
    assert found[0] is not None and found[1] is not None
    assert found[0].digest == found[1].digest and found[0].failures == found[1].failures


def test_a_policy_alone_changes_no_time() -> None:
    watched, plain = run("").simulated, run("", on_failure="fail").simulated
    assert watched is not None and plain is not None
    assert (watched.seconds, watched.digest) == (plain.seconds, plain.digest)


def test_a_killed_node_leaves_the_queue_for_a_core() -> None:
    """All four share one, and the killed one waits for it most of the time."""
    star = f"{STAR} 4 nodes per host"
    assert is_calm(run(f"kill 1{AT}; kill 2@e1.b3@a2", "Ring", 4, platform=star), "Ring", 4)


@covers("SIM-6")
@pytest.mark.parametrize("seconds", [9, 0.5])
def test_heartbeats_of_healthy_workers_are_no_events(seconds: float) -> None:
    """In 54 s each of three workers beats more than a hundred times."""
    watched, plain = (run("", on_failure=policy, compute=seconds).simulated for policy in ("restart", "fail"))
    assert watched is not None and plain is not None and watched.seconds >= EPOCHS * BATCHES * seconds
    assert watched.events == plain.events


def test_faults_need_nodes_that_can_have_them(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'fault' needs nodes with processes of their own"):
        train(parallel_sgd.in_process(2), codecs.Plain, tmp_path, fault="kill 1@e1.b1")
    with pytest.raises(ValueError, match="'on_failure' must be one of fail, redundant, restart, wait on simulated nodes"):
        train(parallel_sgd.simulated(2, STAR, compute=1), codecs.Plain, tmp_path, on_failure="shrink")
    with pytest.raises(ValueError, match="'restart' must be a finite number of seconds of at least 0, got -1"):
        parallel_sgd.simulated(2, STAR, compute=1, restart=-1)


@pytest.mark.long
@covers("SIM-6")
@pytest.mark.parametrize(
    ("workers", "failures"), [(20, 6), pytest.param(200, 100, marks=[pytest.mark.long, pytest.mark.timeout(900)])]
)
def test_many_workers_with_a_failure_every_minute_have_the_bits_of_a_calm_job(
    workers: int, failures: int, tmp_path: Path
) -> None:
    draw, per = random.Random(3), failures // 2 + 1
    plan = "; ".join(
        f"{draw.choice(('kill', 'raise', 'exit'))} {draw.randrange(workers)}@e{k // per + 1}.b{k % per + 1}@a{k}"
        for k in range(1, failures + 1)
    )
    results, took = [], []
    for number, faults in enumerate(("", plan)):
        began = time.process_time()
        nodes = parallel_sgd.simulated(workers, STAR, ps=True, compute="59s", codec_time=0)
        given = {"epoch": 2, "widths": (64, 10), "on_failure": "restart", "max_restarts": failures, "fault": faults}
        results.append(train(nodes, codecs.SyncPS, tmp_path / str(number), steps=per, block_size=1, **given))
        took.append(time.process_time() - began)
    quiet, loud = results
    assert took[1] <= 60  # seconds of the processor, since others may have it, too
    assert weights(quiet) == weights(loud) and dict(quiet) == dict(loud)
    assert loud.restarts == failures
    ends = [failure.at for failure in failures_of(loud)]
    gaps = sorted(later - earlier for earlier, later in pairwise(ends))
    assert gaps[0] > 59 and gaps[-2] < 61  # in the longest one is an evaluation


# ---- schedules


def goes_wrong(plan: FaultPlan) -> bool:
    """Tell if a job with these faults ends otherwise than a calm one, or not at all."""
    try:
        return not is_calm(run(str(plan), max_restarts=20))
    except JobFailed as failed:
        return "the same failure has come 3 times" not in str(failed)
    except Exception:
        return True


@pytest.mark.share(4)
@covers("SIM-6")
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 200))])
def test_random_faults_leave_the_bits(seed: int) -> None:
    """A plan with which they do not is shrunk; its text then belongs into the corpus."""
    plan = drawn(random.Random(seed), 8)
    if goes_wrong(plan):
        pytest.fail(f"The job goes wrong with: {shrunk(plan, goes_wrong)}")


@covers("SIM-1")
@pytest.mark.parametrize("plan", [line for line in CORPUS.read_text("utf-8").splitlines() if line and line[0] != "#"])
def test_schedules_that_once_went_wrong_do_not(plan: str) -> None:
    assert not goes_wrong(FaultPlan.parse(plan))


@covers("SIM-6")
@pytest.mark.parametrize("seed", range(20))
def test_a_schedule_is_shrunk_to_the_clauses_that_matter(seed: int) -> None:
    """Of 80 clauses three matter, two of them only beyond some value; at most 100 runs."""
    draw = random.Random(seed)
    clauses: dict[str, None] = {}
    while len(clauses) < 80:
        node, other = draw.randrange(4), draw.randrange(4, 9)
        clauses[
            draw.choice(
                [
                    f"kill {node}@e{draw.randint(1, 8)}.b{draw.randint(1, 8)}",
                    f"stop {node}@e{draw.randint(1, 8)} for {draw.randint(1, 60)}s",
                    f"+{draw.randint(1, 999)}ms {node}>{other}",
                    f"throttle {node}>{other} {draw.randint(1, 99)}mbit",
                ]
            )
        ] = None
    plan = FaultPlan.parse("; ".join(clauses))
    kill, stop, delay = (draw.choice([f for f in plan.faults if f.kind == kind]) for kind in ("kill", "stop", "delay"))
    runs = []

    def fails(found: FaultPlan) -> bool:
        runs.append(found)
        stops = [f for f in found.faults if f.kind == "stop" and (f.node, f.step) == (stop.node, stop.step)]  # type: ignore[union-attr]
        delays = [f for f in found.faults if f.kind == "delay" and (f.sender, f.receiver) == (delay.sender, delay.receiver)]  # type: ignore[union-attr]
        long = any(f.seconds > stop.seconds / 5 for f in stops)  # type: ignore[union-attr, operator]
        return kill in found.faults and long and any(f.delay > delay.delay / 6 for f in delays)  # type: ignore[union-attr]

    left = shrunk(plan, fails)
    assert len(left.faults) == 3 and fails(left) and len(runs) <= 101
    assert any(f.kind == "stop" and f.seconds < stop.seconds / 2 for f in left.faults)  # type: ignore[union-attr, operator]
    assert FaultPlan.parse(str(left)) == left


def test_a_plan_that_does_no_harm_is_not_shrunk() -> None:
    with pytest.raises(ValueError, match=r"'plan' must make the job go wrong, but it does not: kill 1@e1\.b1"):
        shrunk(FaultPlan.parse("kill 1@e1.b1"), lambda _: False)
