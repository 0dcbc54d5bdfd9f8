"""What the driver of a job says of nodes that it loses, and what it tells them: over real connections, on virtual time, with
agents for which the test speaks."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from network import NodeAssignment, Serve
from network.controller import Controller
from network.errors import ProtocolError
from network.key_files import create_key_file
from network.keys import Key, new_key
from network.nodes import Address
from network.testing import VirtualClock
from parallel_sgd.writers.live import LiveFigures
from rpc.errors import JobAborted, SubmissionError
from rpc.liveness.limits import EXTRA_SECONDS, FIRST_PHASE_SECONDS, PER_NODE_SECONDS
from rpc.messages import Accepted, FetchEnd, FileBegin, FileChunk, Heartbeat, Jobs, Lose, Operation, State, Stop, Verdict
from rpc.shipping import pack
from rpc.submit.connections import JobMessages
from rpc.submit.diagnostics import gather_diagnostics
from rpc.submit.event_loop import EventLoop
from rpc.submit.run_folder import RunFolder
from rpc.submit.tailing import ASK_SECONDS, TableTail
from rpc.submit.terminal import ProgressDisplay
from rpc.support.files import RESULT_FILE, write_result
from rpc.support.identity import code_key, peer_key, peer_keys
from rpc.support.logs import ConsoleFilter, verbosity
from tests.network.wires import talk
from tests.rpc.submitter_bench import JOB, Bench, bench

from ...statements import covers
from ..sent import file, heard, question

BEAT = Heartbeat("job", 1, 0, "alpha", 4711, "step", 3, 17, 0.5, 0.0, 10.0)
PLACE = "on alpha, process 4711, attempt 1, in epoch 3, batch 17"
LOG = file("log", b"text")


def state(node: int, word: str, detail: str = "") -> State:
    return State("job", node, word, detail)


class Team:
    """The event loop of a job that runs on `nodes`, and the agents' ends of its connections."""

    def __init__(self, directory: Path, at_end: contextlib.ExitStack, *nodes: int) -> None:
        ends = {node: at_end.enter_context(talk("tcp")) for node in nodes}
        com = Controller(-1, {node: end.client for node, end in ends.items()})
        at_end.callback(com.close, graceful=False)
        com.addresses = {node: Address(f"host{node}", 1) for node in nodes}
        self.clock, self.agents = VirtualClock(), {node: end.server for node, end in ends.items()}
        self.loop = EventLoop(
            com,
            JobMessages(question(), com.addresses, Key(b"k" * 32)),
            (logger := logging.getLogger("event loop test")),
            self.clock,
            run=RunFolder(directory, "job", "title"),
            start_limit=60.0,
            collects=True,
            display=ProgressDisplay([], logger),
        )
        self.loop.groups.adopt(nodes)
        self.loop.watch()

    def say(self, node: int, *operations: Operation, until: Callable[[], object]) -> None:
        for operation in operations:
            self.agents[node].queue(operation.to_value())
        self.agents[node].send()
        self.step_until(until)

    def step_until(self, reached: Callable[[], object]) -> None:
        for _ in range(100):
            if reached():
                return
            self.loop.step(1.0)
        raise AssertionError("it has heard of something else a hundred times")

    def hang_up(self, node: int) -> str:
        """The agent of `node` does; returns what is told of that."""
        self.agents[node].link.close()
        self.step_until(lambda: node in self.loop.failures)
        state, detail = self.loop.failures[node]
        assert state == "lost" and detail.startswith(f"Node({node}) at ") and " is lost: " in detail
        return detail

    def beat_once(self) -> None:
        """Node 1 is where `PLACE` says."""
        self.say(1, BEAT, until=lambda: self.loop.monitor.explain(1, "", 0.0))

    def reason_told(self, kind: type[Lose] | type[Stop] = Lose) -> str:
        """Why node 1 is lost or the job is to end, as the agent of node 0 is told."""
        told = heard(self.agents[0], kind)
        assert isinstance(told, (Lose, Stop)) and getattr(told, "node", 1) == 1
        return told.reason


@pytest.fixture
def team(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Team]:
    caplog.set_level(logging.INFO)
    with contextlib.ExitStack() as at_end:
        yield Team(tmp_path, at_end, 0, 1)


@covers("SUB-13", "INV-10")
@pytest.mark.parametrize("end_together", [False, True])
def test_an_agent_lost_by_its_connection_is_told_with_its_place(
    team: Team, end_together: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Node, address and loss, and where it was by its last heartbeat; the others hear the same, and the log names it when it is
    lost, not when the others have ended, too."""
    team.loop.end_together = end_together
    team.beat_once()
    team.clock.advance(0.75)
    detail = team.hang_up(1)
    assert detail.endswith(f". By its last heartbeat, 0.8 s before, it was {PLACE}.")
    assert team.loop.machines[0].ended[1] == ("lost", detail) and team.loop.running == [0]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == [detail]
    if not end_together:
        assert team.reason_told() == detail


@covers("INV-10")
def test_the_first_line_is_not_of_a_bystander(team: Team, caplog: pytest.LogCaptureFixture) -> None:
    """Node 0 has lost node 1, and its agent is heard first."""
    team.loop.end_together = True
    trace = "Traceback\nnetwork.errors.PeerLost: Node(1) at b:1 is lost: reset."
    crashed = Verdict("job", 0, 0, "crashed", "alpha", 4710, "step", 3, 17, 0.1, trace=trace)
    team.say(0, crashed, state(0, "failed", trace), until=lambda: team.loop.failures)
    assert caplog.messages == []
    team.agents[1].link.close()
    team.step_until(lambda: not team.loop.running)
    assert [message[:7] for message in caplog.messages] == ["Node(1)", "Node(0)", "Node(0)"]


def test_tables_are_asked_for_when_a_node_has_begun_its_first_batch(team: Team) -> None:
    """Also in the first attempt of a job, which may go on from another one: before, not all of its carried tables are there. A
    node that has done its work has begun it, whether or not a heartbeat said so."""
    asked: list[int] = []
    team.loop.tables = TableTail(
        "job", LiveFigures(lambda: None, lambda _: None), lambda node, _: asked.append(node), team.clock
    )
    team.loop.show()

    def look() -> list[int]:
        """Returns the nodes that have been asked so far."""
        team.clock.advance(ASK_SECONDS)
        team.loop.step(0.0)
        return sorted(asked)

    team.say(
        1,
        replace(BEAT, phase="start", epoch=0),
        until=lambda: "before the first batch" in team.loop.monitor.explain(1, "", 0.0),
    )
    assert look() == []
    team.say(1, BEAT, until=lambda: "in epoch" in team.loop.monitor.explain(1, "", 0.0))
    assert look() == [1]
    team.say(0, state(0, "done"), until=lambda: 0 in team.loop.machines[0].ended)
    assert look() == [0, 1]


@covers("SUB-46")
def test_the_same_cause_is_told_once(team: Team, caplog: pytest.LogCaptureFixture) -> None:
    """The traceback of the first, a line for each other."""
    failed = "Traceback ...\n  File x.py\nValueError: no"
    for node in (0, 1):
        team.say(node, state(node, "failed", failed), until=lambda node=node: node in team.loop.failures)
    assert [message for message in caplog.messages if "failed" in message] == [
        f"Node(0) failed:\n{failed}",
        "Node(1) failed as node(0) did: ValueError: no",
    ]


@covers("SUB-10")
def test_a_short_console_has_one_line_of_a_death(team: Team, caplog: pytest.LogCaptureFixture) -> None:
    """The verdict; that the others have lost that node, the error of the job tells, and the log of the run."""
    lost = "network.errors.PeerLost: Node(1) at b:1 is lost: reset."
    killed = Verdict("job", 1, 0, "crashed", "alpha", 4711, "step", 3, 17, 0.1, signal=9)
    team.say(1, killed, state(1, "failed", "killed by signal 9 (SIGKILL)"), until=lambda: 1 in team.loop.failures)
    team.say(0, state(0, "failed", lost), until=lambda: 0 in team.loop.failures)
    with verbosity(0, short=True):
        told = [record.getMessage() for record in caplog.records if ConsoleFilter().filter(record)]
    assert len(told) == 1 and told[0].startswith("Node(1) on alpha"), told
    assert any(message.endswith(lost) for message in caplog.messages)


def test_who_were_only_stopped_are_told_of_at_the_end(team: Team, caplog: pytest.LogCaptureFixture) -> None:
    """Where nobody has failed, nothing is left untold."""
    team.loop.end_together = True
    for node in (0, 1):
        team.say(node, state(node, "stopped", "By a person."), until=lambda node=node: node not in team.loop.running)
    assert caplog.messages == []
    team.loop.hide()
    assert [message[:15] for message in caplog.messages] == ["Node(0) stopped", "Node(1) stopped"]


@covers("SUB-44")
@pytest.mark.parametrize("end_together", [False, True])
def test_nodes_that_a_person_has_stopped_are_no_errors(
    team: Team, caplog: pytest.LogCaptureFixture, end_together: bool
) -> None:
    """Each obeys an order, under every policy; an end of another kind is an error all the same."""
    team.loop.end_together = end_together
    team.loop.stop("It was stopped by Ctrl-C.", is_wanted=True)
    told = f"{JobAborted('It was stopped by Ctrl-C.')}"
    team.say(0, state(0, "stopped", told), until=lambda: 0 not in team.loop.running)
    team.say(1, state(1, "failed", "ValueError: no"), until=lambda: 1 not in team.loop.running)
    team.loop.hide()
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert f"Node(0) stopped: {told}" in caplog.messages and errors == ["Node(1) failed:\nValueError: no"]


@covers("FD-9")
def test_a_node_that_fails_before_anyone_waits_ends_the_job_too(team: Team) -> None:
    """a job that starts again ends on all nodes first, however soon one of them has failed."""
    team.say(1, state(1, "failed", "killed by signal 9 (SIGKILL)"), until=lambda: team.loop.failures)
    team.loop.let_end_together(True)
    assert "did not end well, and the job ends together" in team.reason_told(Stop)


@covers("INV-10")
def test_a_silent_host_is_told_of_once(team: Team) -> None:
    """Its verdict says where it was."""
    explain = team.loop.monitor.explain
    team.beat_once()
    for batch in range(3):
        beat = replace(BEAT, node=0, batch=batch)
        team.say(0, beat, until=lambda batch=batch: f"batch {batch}." in explain(0, "", 0.0))
        for _ in range(4):
            team.clock.advance(0.25)
            team.loop.step(0.0)
    assert list(team.loop.failures) == [1]
    assert team.loop.failures[1][1].startswith(f"Node(1) {PLACE}: its host has been silent for ")
    assert "By its last heartbeat" not in team.loop.failures[1][1]


@covers("INV-10")
def test_files_that_are_lost_with_an_agent_are_told_of(team: Team) -> None:
    """Its job had ended well, and it was nowhere in it."""
    team.say(1, BEAT, state(1, "done"), until=lambda: team.loop.downloads.open)
    detail = team.hang_up(1)
    assert detail.endswith(". Its files have not come.") and "By its last heartbeat" not in detail


@covers("SUB-48", "SUB-10")
def test_who_has_ended_well(team: Team, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not a worker that says so, and what it has computed is not among its files: None would be a result. A node that was
    stopped, or has failed, leaves files, too. A parameter server needs no result, it sends logs."""
    write_result(tmp_path / "none", None, ())
    result = file(RESULT_FILE, (tmp_path / "none").read_bytes())
    problem = f"{RESULT_FILE} cannot be read: Not a directory."
    home = lambda: team.loop.all_home  # noqa: E731
    team.say(0, state(0, "done"), *result, FetchEnd("job", "done", "", "t"), until=lambda: 0 in team.loop.downloads.files)
    team.say(1, state(1, "done"), *LOG, FetchEnd("job", "done", problem, "t"), until=home)
    assert team.loop.results == {0: None}
    assert team.loop.failures == {1: ("lost", f"It has ended without its result: {problem}")}
    assert [path.name for path in team.loop.downloads.files[1]] == ["log"]
    with contextlib.ExitStack() as at_end:
        team = Team(tmp_path, at_end, 0, 1)
        caplog.clear()
        for node, word in ((1, "stopped"), (0, "done")):
            end = FetchEnd("job", word, "", "t")
            team.say(node, state(node, word, "why"), *LOG, end, until=lambda node=node: node in team.loop.downloads.files)
        told = [message for message in caplog.messages if "done" in message]
        assert told[0] == "Node(1) is not done (stopped); what it has left is saved."
        assert "{0, 1} is done" not in caplog.text
        team = Team(tmp_path, at_end, -2)
        team.say(-2, state(-2, "done"), *LOG, FetchEnd("job", "done", "", "t"), until=home)
        assert team.loop.failures == {}


ADDRESSES = {0: Address("here", 1), 1: Address("here", 2), 2: Address("there", 1)}


@covers("SEC-11", "SEC-21")
def test_what_nodes_are_told() -> None:
    """All nodes: the group, those of groups that come before or after it, and those that others have submitted. An agent speaks
    for its own node only: the id comes from the session. Where it is called through another port than its own, all go that way.
    'auto' divides the cores of a host by the nodes of the job there, of those that share cores."""
    messages = JobMessages(question(), ADDRESSES, new_key(), others=[7, -2])
    order = messages.can_commit(1, [1, 2], 10.0, ["mine"])
    assert (order.group, order.others, order.modules) == ([1, 2], [-2, 0, 7], ["mine"])
    messages.note(1, Accepted("job", 1, "host", 2, "/path", "1.1.0"))
    for claimed in (0, 77):
        with pytest.raises(ProtocolError, match=f"agent of node 1 accepted in the name of node {claimed}"):
            messages.note(1, Accepted("job", claimed, "host", 2, "/evil", "1.1.0"))
    messages.note(2, Accepted("job", 2, "host", 7, "/path", "1.1.0"))
    assert messages.load(pack({})).roster == {1: ["here:2", "host", "/path"], 2: [str(ADDRESSES[2]), "host", ""]}
    messages = JobMessages(question(blas_threads=0), ADDRESSES, new_key())
    assert [messages.can_commit(node, [0, 1, 2], 10.0, "").jobs_on_host for node in ADDRESSES] == [2, 2, 1]
    for cores, shared in (({0: "3", 1: "c"}, [1, 1, 1]), ({0: "3", 1: "6"}, [2, 2, 1]), ({0: "3", 1: "x"}, [2, 2, 1])):
        messages = JobMessages(question(blas_threads=0), ADDRESSES, new_key(), cores=cores)
        assert [messages.can_commit(node, [0, 1, 2], 10.0, "").jobs_on_host for node in ADDRESSES] == shared


@covers("SEC-16")
def test_keys_are_derived_on_both_sides_and_differ() -> None:
    """The keys of a job never travel; each opens one thing."""
    cluster = new_key()
    messages = JobMessages(question(), ADDRESSES, cluster)
    assert messages.code_keys[1] == code_key(cluster, "job", 1)
    rows = {node: peer_keys(cluster, "job", node, ADDRESSES) for node in ADDRESSES}
    assert all(rows[one][other] == rows[other][one] and one not in rows[one] for one in rows for other in rows[one])
    pairs = [rows[0][1], rows[0][2], rows[1][2], peer_key(cluster, "other", 0, 1), peer_key(new_key(), "job", 0, 1)]
    keys = [cluster, *pairs, *messages.code_keys.values(), peer_key(cluster, "job", -2, 1)]
    assert len({key.secret for key in keys}) == len(keys)
    order = messages.can_commit(0, [0, 1, 2], 10.0, "")
    assert not any(key.secret in str(order.to_value()).encode("latin-1", "ignore") for key in keys)


def test_an_agent_that_is_lost_within_a_file(tmp_path: Path) -> None:
    """Whoever gathers diagnostics names it, and of what it has sent nothing stays: no half file, no open one."""
    create_key_file(tmp_path / "key")

    def send_half_a_file() -> None:
        com = serve.acquire(60.0)
        com.get_one(timeout=60.0)  # asks for jobs
        com.send_one(-1, Jobs([{"job": "j", "node": 3}]).to_value())
        com.get_one(timeout=60.0)  # asks for the files of one
        com.send_one(-1, FileBegin("log", 4).to_value())
        com.send_one(-1, FileChunk(b"te").to_value())
        com.close(graceful=False)

    with Serve(key_file=tmp_path / "key") as serve:
        agent = threading.Thread(target=send_half_a_file)
        agent.start()
        nodes = NodeAssignment().add(0, f"127.0.0.1:{serve.address.port}")
        gathered = gather_diagnostics(nodes, "j", tmp_path / "gathered", tmp_path / "key")
        agent.join()
    (found,) = gathered.found
    assert (found.node, found.files, gathered.unreached) == (3, [], {})
    assert "lost" in found.problem or "closed" in found.problem
    assert [path.name for path in (tmp_path / "gathered").rglob("*")] == ["0.3"]


# Agents that fall silent in each phase of a submission, and nodes that are slow: the sign of life decides, not the time.

LONG = 3600.0  # seconds that preCommit may take: at the bandwidth that is assumed, the data would
MANY = 24  # nodes on one host: the limits of canCommit and of calls are longer than the silence that is allowed
NO_SIGN = "its worker has given no sign of life for 8."
Submit = Callable[..., contextlib.AbstractContextManager[Bench]]


@pytest.fixture
def submitter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submit:
    """A bench of so many nodes, or of these."""
    return lambda nodes: bench(range(nodes) if isinstance(nodes, int) else nodes, tmp_path, monkeypatch)


@pytest.mark.share(3)
@covers("SUB-47", "SUB-3", "SUB-8", "INV-10")
@pytest.mark.parametrize(
    ("freeze_at", "phase"),
    [
        (0.0, "canCommit"),  # before it hears the question
        ("Accepted", "canCommit"),
        ("Loaded", "canCommit"),  # it has passed on the code
        ("Prepared", "preCommit"),  # while it gets its data
        ("State", "doCommit"),  # all are ready
    ],
)
@pytest.mark.parametrize("count", [4, MANY])
def test_a_frozen_agent_ends_the_submission(freeze_at: str | float, phase: str, count: int, submitter: Submit) -> None:
    """Within ten seconds of falling silent, however long the phase may take; it is named, and
    the others are free."""
    with submitter(count) as made:
        silent = made.agents[1]
        silent.freeze_at = freeze_at
        with pytest.raises(SubmissionError) as caught:
            made.submit([range(count)], LONG)
        assert silent.frozen_since is not None
        assert 7.5 <= made.clock.monotonic() - silent.frozen_since <= 10.0
        assert f"Node(1) at {made.loop.groups._com.addresses[1]} was lost in {phase}: {NO_SIGN}" in str(caught.value)
        assert not [agent.node for agent in made.agents.values() if agent.has_job and agent is not silent]


@covers("SUB-47", "SUB-11")
def test_who_freezes_while_others_get_their_data(submitter: Submit) -> None:
    """One whose process takes data as slowly as the limit allows. A parameter server started by itself, and runs already: its
    loss is known when it is due."""
    with submitter(2) as made:
        for agent in made.agents.values():
            agent.delays["Prepared"] = 1000.0
        made.agents[1].freeze_at = 100.0
        with pytest.raises(SubmissionError, match=r"Node\(1\) at .* was lost in preCommit: its worker has given no sign"):
            made.submit([range(2)], LONG)
        assert 107.5 <= made.clock.monotonic() <= 110.0
    with submitter([-2, 0, 1]) as made:
        for node in (0, 1):
            made.agents[node].delays["Prepared"] = 60.0
        made.agents[-2].freeze_at = 30.0
        lost: list[tuple[float, Any]] = []
        on_gone = made.loop._on_gone
        made.loop._on_gone = lambda gone: (lost.append((made.clock.monotonic(), gone)), on_gone(gone))[1]  # type: ignore[method-assign]
        made.submit([[-2], [0, 1]], LONG)
        ((moment, gone),) = lost
        assert 37.4 <= moment <= 40.0 and gone.node == -2
        assert made.loop.failures[-2][1].startswith("Node(-2) at 127.0.0.1:")


@covers("SUB-47", "INV-10")
def test_all_that_are_silent_are_named(submitter: Submit) -> None:
    """a host with several workers is gone."""
    with submitter(4) as made:
        for node in (1, 3):
            made.agents[node].freeze_at = "Prepared"
        with pytest.raises(SubmissionError, match=r"Node\(1\) at .* was lost in preCommit: .*nor has Node\(3\) at 127"):
            made.submit([range(4)], LONG)


@covers("SUB-47", "SUB-4")
@pytest.mark.parametrize(
    ("worked", "loaded", "ends"),
    [(0.01, 40.0, 40.0), (0.0, 40.0, None), (0.5, 1e6, None)],  # an import that never comes to its end
)
def test_processes_that_work_are_waited_for(worked: float, loaded: float, ends: float | None, submitter: Submit) -> None:
    """Interpreters that have to share few cores are given up to a minute more; those that stand still, none."""
    limit = FIRST_PHASE_SECONDS + 0.5 * 3
    with submitter(3) as made:
        for agent in made.agents.values():
            agent.worked, agent.delays["Loaded"], agent.delays["Asks"] = worked, limit + loaded, limit + loaded + 0.1
        if ends is not None:
            made.submit([range(3)], 1.0)
            assert limit + ends <= made.clock.monotonic() <= limit + ends + 2.0
        else:
            with pytest.raises(SubmissionError, match="did not finish canCommit in time"):
                made.submit([range(3)], 1.0)
            limit += EXTRA_SECONDS if worked else 0.0
            assert limit <= made.clock.monotonic() <= limit + 1.0


@covers("SUB-47")
@pytest.mark.parametrize(
    ("freeze_at", "phase", "limit"),
    [(0.0, "canCommit", FIRST_PHASE_SECONDS + PER_NODE_SECONDS * 4), ("Prepared", "preCommit", 1.0)],
)
def test_an_agent_that_runs_without_a_processor_is_waited_for(
    freeze_at: str | float, phase: str, limit: float, submitter: Submit
) -> None:
    """Up to a minute beyond the limit of the phase. Those that have waited for it meanwhile have done no work, and get their
    time to load, though the agent goes on just before they would be late."""
    for thaw_at in (12.7, math.inf):
        with submitter(4) as made:
            made.loop.groups._com.lives = made.loop.groups._com.addresses[1].__eq__
            made.agents[1].freeze_at, made.agents[1].thaw_at, made.late = freeze_at, thaw_at, 0.01
            for agent in made.agents.values():
                agent.delays.update(Loaded=0.5, Asks=0.5)
            if thaw_at < math.inf:
                made.submit([range(4)], 1.0)
                assert thaw_at <= made.clock.monotonic() <= thaw_at + 2.0
            else:
                with pytest.raises(SubmissionError, match=rf"not started: Node\(1\) at \S+ did not finish {phase} in time"):
                    made.submit([range(4)], 1.0)
                # until the others have confirmed that they have given the job up, too
                assert limit + EXTRA_SECONDS <= made.clock.monotonic() <= limit + EXTRA_SECONDS + 5.0


@covers("SUB-47")
def test_an_agent_speaks_for_all_its_nodes(submitter: Submit) -> None:
    """One with many slots starts one process after the other, and says of the first ones that they live."""
    with submitter(MANY) as made:
        addresses = made.loop.groups._com.addresses
        made.loop.groups._com.addresses = {node: addresses[node - node % 2] for node in addresses}
        made.agents[1].delays["Accepted"] = 12.0
        made.submit([range(MANY)], 1.0)
        assert 12.0 <= made.clock.monotonic() <= 14.0


@covers("SUB-47")
@pytest.mark.parametrize("limit", [1.0, LONG])
def test_a_program_that_takes_its_time_to_answer(limit: float, submitter: Submit) -> None:
    """While it loads its data nobody listens; the agents are not blamed for that, silent or within the limit."""
    with submitter(2) as made:

        def reply(node: int, request: str) -> Any:
            made.clock.advance(100.0)
            return request

        made.submit([range(2)], limit, reply)
        assert made.clock.monotonic() > 200.0


@covers("SUB-6", "SUB-47")
def test_a_submitter_that_was_suspended(submitter: Submit) -> None:
    """What the nodes have said meanwhile counts, and they get the time that nobody looked; the limit holds after that."""
    with submitter(2) as made:
        for agent in made.agents.values():
            agent.delays["Prepared"] = 2.5
        made.suspend_at, began = 1.5, made.clock.monotonic()
        made.submit([range(2)], 3.0)
        assert made.clock.monotonic() > began + 60.0
    with submitter(2) as made:
        made.agents[1].delays["Prepared"] = 1000.0
        made.suspend_at, began = 1.5, made.clock.monotonic()
        with pytest.raises(SubmissionError, match=r"Node\(1\) at .* did not finish preCommit in time"):
            made.submit([range(2)], 3.0)
        assert 62.5 <= made.clock.monotonic() - began <= 65.0


@covers("SUB-9")
def test_who_starts_before_it_is_told_to_breaks_the_protocol(submitter: Submit) -> None:
    """Its node alone is given up for that; the submitter goes on to free the others."""
    with submitter(2) as made:
        made.agents[1].delays["Prepared"] = 1000.0
        made.agents[1].todo.append((0.5, State(JOB, 1, "running", "")))
        with pytest.raises(SubmissionError, match=r"Node\(1\) at .* was lost in (canCommit|preCommit)"):
            made.submit([range(2)], LONG)
        assert not made.agents[0].has_job


@pytest.mark.parametrize("seconds", [0.55, 3.0])
def test_a_wait_has_its_whole_time_and_no_more(seconds: float, submitter: Submit) -> None:
    """Nodes that end in the last moment are heard; without an end it is over when its time is."""
    with submitter(1) as made:
        made.submit([range(1)], LONG)
        begin = made.clock.monotonic()
        made.loop.step_until(lambda: False, seconds)
        assert made.clock.monotonic() - begin == pytest.approx(seconds)
        begin = made.clock.monotonic()
        made.loop.step_until(lambda: made.clock.monotonic() > begin + 0.3 * seconds, seconds)
        assert 0.3 * seconds < made.clock.monotonic() - begin <= 0.3 * seconds + 0.11
