"""One fault in every phase of a job, at every role, on a virtual clock: what must hold afterwards, whatever was hit."""

from __future__ import annotations

import gc
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from network.dial import CONNECT_SECONDS
from rpc.liveness.limits import FIRST_PHASE_SECONDS, HALT_SECONDS, PER_NODE_SECONDS

from ..statements import covers
from .attempt import FREE_SECONDS, PREPARE_SECONDS, STALL_SECONDS, START_SECONDS
from .grid import BEFORE_RUNNING, CELLS, Cell
from .life import KILL, PAUSE, REVIVAL_SECONDS, STOP, WAKING_SECONDS, Life
from .results import calm, weights
from .submitting import PAUSE_SECONDS, SimSubmitter

NEXT_JOB_SECONDS = 5.0
RUNNING_CELLS = [cell for cell in CELLS if cell.phase not in BEFORE_RUNNING and cell.role != "coordinator"]
LATE_SECONDS = 1.0  # a crash is seen within it
PHASE_WORDS = ("connect", "handshake", "answer", "canCommit", "preCommit", "doCommit", " batch", "Its files have not come.")
BY_ITS_LAST_BEAT = re.compile(
    r"Node\(1\) at host1:\d+ is lost: its connection ended\. By its last heartbeat, \d+\.\d s before, "
    r"it was on \S+, process \d+, attempt 1, "
    r"((in|starting, before|between two batches, after|saving its state, after|ended, after) epoch \d+, batch \d+|"
    r"before the first batch)\."
)


@pytest.fixture(scope="module", autouse=True)
def nothing_is_kept_open() -> Iterator[None]:
    """INV-7: after all these jobs there are as many descriptors and threads as before."""
    calm(False)
    before = len(os.listdir("/dev/fd")), threading.active_count()
    yield
    gc.collect()
    assert (len(os.listdir("/dev/fd")), threading.active_count()) <= before


def limit(cell: Cell, how: str) -> float:
    """INV-1: how long the job may take, in which nothing else costs time, by the limits of whoever has to notice."""
    if cell.role == "coordinator":
        return (0.0 if how == KILL else WAKING_SECONDS) + LATE_SECONDS
    if cell.role == "agent":
        return (REVIVAL_SECONDS if how == KILL else WAKING_SECONDS) + PAUSE_SECONDS + LATE_SECONDS
    if how == KILL:
        return LATE_SECONDS
    noticing = {
        "listen": CONNECT_SECONDS,
        "connect": CONNECT_SECONDS,
        "auth": CONNECT_SECONDS,
        "canCommit": max(FIRST_PHASE_SECONDS + PER_NODE_SECONDS, PREPARE_SECONDS),
        "preCommit": PREPARE_SECONDS,
        "ready": START_SECONDS,
    }
    return noticing.get(cell.phase, STALL_SECONDS + 0.5 + HALT_SECONDS) + FREE_SECONDS


def assert_named(submitter: SimSubmitter, cell: Cell) -> None:
    """INV-10: which node it was, where, and in which phase."""
    node = -2 if cell.server else int(cell.victim[1:])
    text = submitter.verdict
    first = re.search(r"[Nn]ode[ (](-?\d+)", text)
    assert first is not None and int(first[1]) == node, text
    assert f"host{node}" in text or "hostps" in text or " on " in text, text
    assert any(word in text for word in PHASE_WORDS), text


def run_cell(life: Life, cell: Cell, how: str) -> tuple[SimSubmitter, dict[int, bytes]]:
    """Run the job, and the next one on the same agents; returns what came home of the first.

    FD-8, FD-10: one that was started again at its end did not begin anew.
    """
    life.inject(cell.phase, cell.witness, cell.victim, how)
    life.start()
    submitter = life.submit("job")
    life.run(until=lambda: bool(submitter.verdict))
    assert submitter.verdict or cell.victim == "S"
    bits = weights(submitter)
    if submitter.verdict == "completed" and submitter.attempts > 1 and cell.phase in ("done", "retrieve"):
        (log,) = (path.read_text() for path in submitter.files[0] if path.suffix == ".log")
        assert "Training goes on after " in log
    life.run()  # whoever was stopped wakes, whoever was killed is started again
    assert life.fired == [(cell.phase, cell.victim, how)]
    assert all(agent.running is None for agent in life.agents)
    began = life.now
    following = life.submit("next")
    life.run()
    assert following.verdict == "completed"
    assert following.verdict_at - began <= NEXT_JOB_SECONDS
    assert weights(following) == calm(cell.server)
    return submitter, bits


@covers("INV-1", "INV-2", "INV-6", "INV-10", "INV-11", "FLT-1", "FLT-2", "FLT-4", "FLT-14", "FLT-15")
@pytest.mark.parametrize("how", [KILL, STOP])
@pytest.mark.parametrize("cell", CELLS, ids=str)
@pytest.mark.share(40)
def test_under_restart(tmp_path: Path, cell: Cell, how: str) -> None:
    """The job ends within the limit of whoever has
    to notice. It has the weights of a calm run, or it never started and the reason names node and phase; the fault has fired
    once; agents that woke or came back are free, and take the next job within 5 s."""
    life = Life(tmp_path, server=cell.server)
    try:
        submitter, bits = run_cell(life, cell, how)
        if cell.victim == "S" and how == KILL:
            states = {agent.folders.find("job").state for agent in life.agents if agent.folders.find("job")}
            assert states == (set() if cell.phase in ("connect", "auth") else {"aborted"}
                              if cell.phase in BEFORE_RUNNING else {"done"})  # fmt: skip
            return
        assert submitter.verdict_at <= limit(cell, how)
        if submitter.verdict == "completed":
            assert bits == calm(cell.server)
        else:
            assert cell.phase in BEFORE_RUNNING
            assert_named(submitter, cell)
    finally:
        life.end()


@covers("INV-9", "FD-3", "FLT-2")
@pytest.mark.parametrize("cell", CELLS, ids=str)
@pytest.mark.share(30)
def test_a_pause(tmp_path: Path, cell: Cell) -> None:
    """Whoever is stopped for less than the limit is not given up: the first attempt ends well."""
    life = Life(tmp_path, server=cell.server)
    try:
        submitter, bits = run_cell(life, cell, PAUSE)
        assert (submitter.verdict, submitter.attempts) == ("completed", 1)
        assert bits == calm(cell.server)
    finally:
        life.end()


@covers("INV-1", "INV-6", "INV-10", "SUB-13", "FD-18")
@pytest.mark.parametrize("how", [KILL, STOP])
@pytest.mark.parametrize("cell", RUNNING_CELLS, ids=str)
@pytest.mark.share(15)
def test_under_fail(tmp_path: Path, cell: Cell, how: str) -> None:
    """a job that may not start again ends as soon as the fault is noticed, and names first
    whoever was hit: node, host, process, attempt, phase, epoch and batch; of an agent that can tell nothing any more, address,
    loss, and where it was by its last heartbeat. Who had done its work already has done the job no harm."""
    life = Life(tmp_path, server=cell.server, policy="fail")
    try:
        submitter, bits = run_cell(life, cell, how)
        if submitter.verdict == "completed":
            assert how == STOP and cell.phase in ("done", "retrieve") and bits == calm(cell.server)
            return
        assert submitter.verdict_at <= (LATE_SECONDS if how == KILL else STALL_SECONDS + 0.5)
        node = int(cell.victim[1:])
        first, lost = (
            f"failed: Job job failed, first Node({node}) on ",
            f"failed: Job job failed. Node({node}) at ",
        )
        gone = cell.role == "agent" and how == KILL
        assert submitter.verdict.startswith(lost if gone else first), submitter.verdict
        if gone and cell.phase != "retrieve":  # there its job had ended
            assert BY_ITS_LAST_BEAT.match(submitter.verdict.removeprefix("failed: Job job failed. ")), submitter.verdict
        assert_named(submitter, cell)
    finally:
        life.end()


@pytest.mark.share(3)
@covers("INV-13")
@pytest.mark.parametrize(
    "cell", [cell for cell in CELLS if str(cell) in ("step-reduce-child", "checkpoint-write-agent", "ready-server")], ids=str
)
def test_the_same_fault_has_the_same_consequences(tmp_path: Path, cell: Cell) -> None:
    """Whoever hears what from whom, and when, is the same each time."""
    traces = []
    for turn in ("first", "second"):
        life = Life(tmp_path / turn, server=cell.server)
        run_cell(life, cell, STOP)
        life.end()
        traces.append(life.trace)
    assert traces[0] == traces[1]
