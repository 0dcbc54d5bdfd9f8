"""What the driver of a job says of nodes that it loses, over real connections with agents that the test speaks for."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from network.controller import Controller
from network.keys import Key
from network.nodes import Address
from network.session import Session
from network.testing import VirtualClock
from network.transport import wait_sockets
from rpc.files import RESULT_FILE, write_result
from rpc.messages import FetchEnd, Heartbeat, Lose, Operation, State, Stop, Verdict, parse
from rpc.submit.connections import JobMessages
from rpc.submit.event_loop import EventLoop
from rpc.submit.run_folder import RunFolder
from tests.network.wires import talk
from tests.rpc.orders import question

from ...statements import covers
from ..sent import file

BEAT = Heartbeat("job", 1, 0, "alpha", 4711, "step", 3, 17, 0.5, 0.0, 10.0)
PLACE = "on alpha, process 4711, attempt 1, phase 'step', epoch 3, batch 17"


class Team:
    """The attendant of a job that runs on nodes 0 and 1, and the agents' ends of its connections."""

    def __init__(self, com: Controller, agents: dict[int, Session], directory: Path) -> None:
        com.addresses = {node: Address(f"host{node}", 1) for node in agents}
        messages = JobMessages(question(), com.addresses, Key(b"k" * 32))
        self.clock, self.agents = VirtualClock(), agents
        self.loop = EventLoop(
            com,
            messages,
            logging.getLogger("attendant test"),
            self.clock,
            run=RunFolder(directory, "job", "title"),
            start_limit=60.0,
            collects=True,
        )
        self.loop.groups.adopt(list(agents))
        self.loop.watch()

    def say(self, node: int, *operations: Operation) -> None:
        for operation in operations:
            self.agents[node].queue(operation.to_value())
        self.agents[node].send()

    def step_until(self, reached: Callable[[], bool]) -> None:
        for _ in range(100):
            if reached():
                return
            self.loop.step(1.0)
        raise AssertionError("it has heard of something else a hundred times")

    def beat_once(self) -> None:
        """Node 1 is where `PLACE` says."""
        self.say(1, BEAT)
        self.step_until(lambda: self.loop.monitor.explain(1, "", 0.0) != "")

    def reason_told(self, node: int, kind: type[Lose] | type[Stop] = Lose) -> str:
        """Why a node is lost or the job is to end, as the agent of another one is told."""
        agent = self.agents[node]
        message = agent.take()
        if message is None:  # one write of some hundred bytes comes as a whole
            wait_sockets([agent.link], [], 5.0)
            agent.receive()
            message = agent.take()
        assert message is not None
        told = parse(message.value, (kind,))
        assert isinstance(told, (Lose, Stop)) and getattr(told, "node", 1) == 1
        return told.reason


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with contextlib.ExitStack() as stack:
        ends = {node: stack.enter_context(talk("tcp")) for node in (0, 1)}
        com = Controller(-1, {node: end.client for node, end in ends.items()})
        stack.callback(com.close, graceful=False)
        yield Team(com, {node: end.server for node, end in ends.items()}, tmp_path)


@covers("SUB-13", "INV-10")
@pytest.mark.parametrize("end_together", [False, True])
def test_an_agent_lost_by_its_connection_is_told_with_its_place(
    team: Team, end_together: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Node, address and loss, and where it was by its last beat; the others hear the same, and the log names it when it is
    lost, not when the others have ended, too."""
    team.loop.end_together = end_together
    team.beat_once()
    team.clock.advance(0.75)
    team.agents[1].link.close()
    team.step_until(lambda: bool(team.loop.failures))
    state, detail = team.loop.failures[1]
    assert state == "lost" and detail.startswith("Node(1) at ") and " is lost: " in detail
    assert detail.endswith(f". By its last beat, 0.8 s before, it was {PLACE}.")
    assert team.loop.machines[0].ended[1] == ("lost", detail) and team.loop.running == [0]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == [detail]
    if not end_together:
        assert team.reason_told(0) == detail


@covers("INV-10")
def test_the_first_line_is_not_of_a_bystander(team: Team, caplog: pytest.LogCaptureFixture) -> None:
    """Node 0 has lost node 1, and its agent is heard first."""
    caplog.set_level(logging.INFO)
    team.loop.end_together = True
    trace = "Traceback\nnetwork.errors.PeerLost: Node(1) at b:1 is lost: reset."
    team.say(
        0, Verdict("job", 0, 0, "crashed", "alpha", 4710, "step", 3, 17, 0.1, trace=trace), State("job", 0, "failed", trace)
    )
    team.step_until(lambda: bool(team.loop.failures))
    assert caplog.messages == []
    team.agents[1].link.close()
    team.step_until(lambda: not team.loop.running)
    assert [message[:7] for message in caplog.messages] == ["Node(1)", "Node(0)", "Node(0)"]


@covers("SUB-46")
def test_the_same_cause_is_told_once(team: Team, caplog: pytest.LogCaptureFixture) -> None:
    """The traceback of the first, a line for each other."""
    for node in (0, 1):
        team.say(node, State("job", node, "failed", "Traceback ...\n  File x.py\nValueError: no"))
        team.step_until(lambda node=node: node in team.loop.failures)
    told = [record.getMessage() for record in caplog.records if "failed" in record.getMessage()]
    assert told == [
        "Node(0) failed:\nTraceback ...\n  File x.py\nValueError: no",
        "Node(1) failed as node(0) did: ValueError: no",
    ]


def test_who_were_only_stopped_are_told_of_at_the_end(team: Team, caplog: pytest.LogCaptureFixture) -> None:
    """Where nobody has failed, nothing is left untold."""
    caplog.set_level(logging.INFO)
    team.loop.end_together = True
    for node in (0, 1):
        team.say(node, State("job", node, "stopped", "It was stopped by a person."))
    team.step_until(lambda: not team.loop.running)
    assert caplog.messages == []
    team.loop.hide()
    assert [message[:15] for message in caplog.messages] == ["Node(0) stopped", "Node(1) stopped"]


@covers("FD-9")
def test_a_node_that_fails_before_anyone_waits_ends_the_job_too(team: Team) -> None:
    """a job that starts again ends on all nodes first, however soon one of them has failed."""
    team.say(1, State("job", 1, "failed", "killed by signal 9 (SIGKILL)"))
    team.step_until(lambda: bool(team.loop.failures))
    team.loop.let_end_together(True)
    assert "did not end well, and the job ends together" in team.reason_told(0, Stop)


@covers("INV-10")
def test_a_silent_host_is_told_of_once(team: Team) -> None:
    """Its verdict says where it was."""
    heard = team.loop.monitor
    team.beat_once()
    for second in range(3):
        team.say(0, replace(BEAT, node=0, batch=second))
        team.step_until(lambda batch=second: f"batch {batch}." in heard.explain(0, "", 0.0))  # type: ignore[misc]
        for _ in range(4):
            team.clock.advance(0.25)
            team.loop.step(0.0)
    assert list(team.loop.failures) == [1]
    assert team.loop.failures[1][1].startswith(f"Node(1) {PLACE}: its host has been silent for ")
    assert "By its last beat" not in team.loop.failures[1][1]


@covers("INV-10")
def test_files_that_are_lost_with_an_agent_are_told_of(team: Team) -> None:
    """Its job had ended well, and it was nowhere in it."""
    team.say(1, BEAT, State("job", 1, "done", ""))
    team.step_until(lambda: bool(team.loop.downloads.open))
    team.agents[1].link.close()
    team.step_until(lambda: bool(team.loop.failures))
    detail = team.loop.failures[1][1]
    assert detail.startswith("Node(1) at ") and detail.endswith(". Its files have not come.")
    assert "By its last beat" not in detail


@covers("SUB-48")
def test_a_worker_without_its_result_has_failed(team: Team, tmp_path: Path) -> None:
    """It says that it is done, its files come, and what it has computed is not among them; None would be a result."""
    write_result(tmp_path / "none", None, ())
    team.say(
        0, State("job", 0, "done", ""), *file(RESULT_FILE, (tmp_path / "none").read_bytes()), FetchEnd("job", "done", "", "t")
    )
    problem = f"{RESULT_FILE} cannot be read: Not a directory."
    team.say(1, State("job", 1, "done", ""), *file("log", b"text"), FetchEnd("job", "done", problem, "t"))
    team.step_until(lambda: team.loop.all_home)
    assert team.loop.results == {0: None}
    assert team.loop.failures == {1: ("lost", f"It has ended without its result: {problem}")}
    assert [path.name for path in team.loop.downloads.files[1]] == ["log"]


@covers("SUB-48")
def test_a_parameter_server_needs_no_result(tmp_path: Path) -> None:
    """It sends logs."""
    with talk("tcp") as end:
        com = Controller(-1, {-2: end.client})
        with contextlib.ExitStack() as at_end:
            at_end.callback(com.close, graceful=False)
            team = Team(com, {-2: end.server}, tmp_path)
            team.say(-2, State("job", -2, "done", ""), *file("log", b"text"), FetchEnd("job", "done", "", "t"))
            team.step_until(lambda: team.loop.all_home)
            assert team.loop.failures == {}


@covers("SUB-10")
def test_only_who_has_ended_well_is_done(team: Team, caplog: pytest.LogCaptureFixture) -> None:
    """a node that was stopped, or has failed, leaves files, too."""
    caplog.set_level(logging.INFO)
    for node, state in ((1, "stopped"), (0, "done")):
        team.say(node, State("job", node, state, "why"), *file("log", b"text"), FetchEnd("job", state, "", "t"))
        team.step_until(lambda node=node: node in team.loop.downloads.files)  # type: ignore[misc]
    told = [message for message in caplog.messages if "done" in message]
    assert told[0] == "Node(1) is not done (stopped); what it has left is saved."
    assert "{0, 1} is done" not in caplog.text
