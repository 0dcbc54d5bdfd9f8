"""What drivers hand on to an agent: real folders, real sessions in memory, virtual time."""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from network.errors import ProtocolError
from network.keys import new_key
from network.session import Session
from network.testing import VirtualClock
from rpc.agent import standby as standby_module
from rpc.agent.checks import python_version
from rpc.agent.children import ChildProcesses
from rpc.agent.event_log import SecurityLog
from rpc.agent.failover import DriverLeases
from rpc.agent.store import JobFolders, JobRecord
from rpc.agent.subscribers import Subscribers
from rpc.files import write_private
from rpc.lease.handoff import PART_BYTES, Handoff, HandoffTracker
from rpc.lease.lease import Promise
from rpc.liveness.limits import SILENT_DRIVER_SECONDS
from rpc.messages import (
    FROM_AGENT,
    Agreed,
    CanCommit,
    ClaimJob,
    Conclude,
    Denied,
    Granted,
    Halted,
    KeepManifest,
    ManifestKept,
    ManifestPart,
    ProposeAttempt,
    Standing,
    Verdict,
    parse,
)
from tests.network.wires import Talk, talk

from ...statements import covers

JOB = "job-1"
SUBMITTER, STANDBY = "The submitter/0123456789abcdef", "Node(0)/fedcba9876543210"


class Place:
    """The leases of an agent, and sessions with it; `heard(talk)` is what the other side of one is told."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.clock = VirtualClock()
        self.folders = JobFolders(root / "jobs", 20, self.clock)
        self.subscribers = Subscribers(
            lambda job, node: (here := self.folders.newest(job, node)) is not None and here.node == node
        )
        self.audit = root / "audit.jsonl"
        logger, children = logging.getLogger("leases test"), ChildProcesses(adopts=False)
        self.leases = DriverLeases(self.folders, self.subscribers, root, SecurityLog(self.audit), logger, self.clock, children)
        self._stack = stack
        self.record: JobRecord | None = None

    def session(self, kind: str = "memory") -> Talk:
        return self._stack.enter_context(talk(kind))

    def begin(self, session: Session, driver: str = SUBMITTER, attempt: int = 0, node: int = 1) -> None:
        order = ordered(attempt, node, driver)
        assert not self.leases.driver_of(order)
        if self.record is not None:
            self.record.state = "failed"
        self.record = self.folders.create(JOB, node, "title", attempt)
        self.subscribers.add(session, JOB, node)
        self.leases.begin(order, self.record, session, new_key())

    def hand_off(
        self, session: Session, content: bytes, driver: str = SUBMITTER, attempt: int = 0, node: int = 1
    ) -> list[ManifestKept]:
        """As a driver does it; returns the answers."""
        answers: list[ManifestKept] = []

        def tell(node: int, operation: Any) -> None:
            take = self.leases.hand_off if isinstance(operation, KeepManifest) else self.leases.part
            answer = take(operation, session)
            if isinstance(answer, ManifestKept):
                answers.append(answer)

        tracker = HandoffTracker(JOB, attempt, tell, lambda _: 0)
        tracker.hand_off(Handoff(driver, "parallel_sgd.standby", content, "{}"), [node])
        while tracker.lacking:
            tracker.take(node, answers[-1])
            tracker.send()
        return answers

    def driven(self) -> Talk:
        """The session of the submitter, who has begun an attempt and handed the job on."""
        one = self.session()
        self.begin(one.server)
        self.hand_off(one.server, b"manifest")
        return one

    def claim(self, by: Talk, driver: str = STANDBY, term: int = 1) -> object:
        """What is answered to a claim, last."""
        return self.leases.claim(ClaimJob(JOB, 1, driver, sha256_of(b"manifest"), term), by.server, new_key())[-1]

    @property
    def folder(self) -> Path:
        assert self.record is not None
        return self.folders.folder(self.record)


def ordered(attempt: int, node: int = 1, driver: str = SUBMITTER) -> CanCommit:
    return CanCommit(JOB, "title", node, [node], attempt, python_version(), "1", 1, 1, 5.0, 5.0, driver=driver)


def heard(wire: Talk) -> list[Any]:
    wire.server.send()
    wire.client.receive()
    found = []
    while (message := wire.client.take()) is not None:
        found.append(parse(message.value, FROM_AGENT))
    return found


def grant(answer: object) -> tuple[str, int, str, str]:
    assert isinstance(answer, Granted)
    return answer.voice, answer.attempt, answer.state, answer.detail


def denial(answer: object) -> tuple[str, str]:
    assert isinstance(answer, Denied)
    return answer.reason, answer.outcome


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        made = Place(tmp_path, stack)
        yield made
        made.leases.close()


def sha256_of(content: bytes) -> str:
    return Handoff(SUBMITTER, "", content).sha256


def test_a_manifest_is_kept_unchanged_and_sent_once(place: Place) -> None:
    """conventions.md: agents keep the bundle unchanged, SHA-256 checked, private; a later attempt does not send it again."""
    content = bytes(range(256)) * 8192 + b"end"  # more than one part
    assert len(content) > PART_BYTES
    one = place.session()
    place.begin(one.server)
    assert [answer.whole for answer in place.hand_off(one.server, content)] == [False, True]
    manifest = place.folder / "manifest"
    assert manifest.read_bytes() == content and stat.S_IMODE(manifest.stat().st_mode) == 0o600
    assert json.loads((place.folder / "attempt.json").read_text())["attempt"] == 0
    other = place.session()
    place.begin(other.server, attempt=1)
    assert [answer.whole for answer in place.hand_off(other.server, content, attempt=1)] == [True]
    assert json.loads((place.folder / "attempt.json").read_text())["attempt"] == 1


@pytest.mark.parametrize("parts", [[b"xx"], [b"x", b"y" * 9]])
def test_an_altered_manifest_is_refused(place: Place, parts: list[bytes]) -> None:
    one = place.session()
    place.begin(one.server)
    order = KeepManifest(JOB, 1, 0, 0, SUBMITTER, 0, sha256_of(b"xy"), 2, "parallel_sgd.standby", "{}")
    assert place.leases.hand_off(order, one.server) == ManifestKept(JOB, 1, False)
    with pytest.raises(ProtocolError, match="A manifest came with"):
        for part in parts:
            place.leases.part(ManifestPart(JOB, 1, part), one.server)
    assert not list(place.folder.glob("manifest*"))


def test_parts_of_an_attempt_before_do_not_count(place: Place) -> None:
    """They were under way on its connection when the next attempt announced the manifest anew."""
    one, two = place.session(), place.session()
    for attempt, wire in enumerate((one, two)):
        place.begin(wire.server, attempt=attempt)
        order = KeepManifest(JOB, 1, attempt, 0, SUBMITTER, 0, sha256_of(b"xy"), 2, "parallel_sgd.standby", "{}")
        assert place.leases.hand_off(order, wire.server) == ManifestKept(JOB, 1, False)
    assert place.leases.part(ManifestPart(JOB, 1, b"x"), two.server) is None
    assert place.leases.part(ManifestPart(JOB, 1, b"xy"), one.server) is None
    assert place.leases.part(ManifestPart(JOB, 1, b"y"), two.server) == ManifestKept(JOB, 1, True)
    assert (place.folder / "manifest").read_bytes() == b"xy"


@covers("FLT-13")
def test_a_full_disk_leaves_the_attempt_state_before(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """a standby driver here would read that one, so this is what the node says that it has; the driver is served on."""
    one, standby = place.driven(), place.session()
    place.begin(one.server, attempt=1)

    def full(path: Path, text: str, *, lasting: bool = False) -> None:
        if path.name == standby_module.ATTEMPT_STATE:
            raise OSError(28, "No space left on device")
        write_private(path, text, lasting=lasting)

    monkeypatch.setattr(standby_module, "write_private", full)
    place.hand_off(one.server, b"manifest", attempt=1)
    assert json.loads((place.folder / "attempt.json").read_text())["attempt"] == 0
    place.leases.forget(one.server)
    answer = place.claim(standby)
    assert isinstance(answer, Granted) and (answer.attempt, answer.newest, answer.begun) == (1, 1, True)


def test_a_manifest_of_nobody_is_refused(place: Place) -> None:
    with pytest.raises(ProtocolError, match="A manifest of job job-1 came, which was not expected here"):
        place.hand_off(place.session().server, b"x")


def test_who_claims_with_another_manifest_is_denied(place: Place) -> None:
    one, two = place.driven(), place.session()
    place.leases.forget(one.server)
    (answer,) = place.leases.claim(ClaimJob(JOB, 1, STANDBY, sha256_of(b"other"), 1), two.server, new_key())
    assert denial(answer) == ("the job has another manifest", "")
    answer = place.claim(two)
    assert grant(answer) == ("living", 0, "starting", "")
    assert '"claim"' in place.audit.read_text()


def test_the_driver_stays_while_one_of_its_sessions_does(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """Between two attempts a driver has the sessions of both. Its standby driver is announced when it hands the manifest on."""
    one, two, three = place.driven(), place.session(), place.session()
    place.begin(two.server, attempt=1)
    place.leases.forget(one.server)
    claim = ClaimJob(JOB, 1, STANDBY, sha256_of(b"manifest"), 1)
    (answer,) = place.leases.claim(claim, three.server, new_key())
    assert denial(answer) == ("The submitter drives it", "") and isinstance(answer, Denied) and answer.is_driven
    place.leases.forget(two.server)
    assert isinstance(place.leases.claim(claim, three.server, new_key())[0], Granted)
    assert not caplog.messages  # a claim alone may come to nothing
    place.hand_off(three.server, b"manifest", STANDBY, 1)
    assert caplog.messages == ["Job job-1.1: The submitter is gone; Node(0) drives it now."]
    assert place.leases.driver_of(ordered(2)) == "Node(0) drives it"


@covers("FD-16")
def test_a_driver_whose_host_vanishes_between_two_attempts(place: Place) -> None:
    """Nothing is sent to it meanwhile, so its kernel is asked; it is lost when it has not answered for so long."""
    one = place.session("tcp")
    place.begin(one.server)
    with socket.socket(fileno=os.dup(one.server.link.fileno())) as twin:  # type: ignore[attr-defined]
        assert twin.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert twin.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 1
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert twin.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) < SILENT_DRIVER_SECONDS
            assert twin.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 1000 * SILENT_DRIVER_SECONDS


@covers("SUB-15")
def test_watchers_are_told_how_it_stands(place: Place) -> None:
    """From attempt to attempt, until the job is over."""
    one, watcher = place.session(), place.session()
    place.begin(one.server)
    place.subscribers.add(watcher.server, JOB, 7)  # it counts nodes in another way
    place.begin(one.server, attempt=1)
    place.leases.conclude(Conclude(JOB, 1, "failed", "Node(1) failed.", json.dumps([{"kind": "crashed"}])), one.server)
    told = [said for said in heard(watcher) if isinstance(said, Standing)]
    assert [(said.attempt, said.driver, said.outcome, said.detail) for said in told] == [
        (1, "The submitter", "", ""),
        (1, "", "failed", "Node(1) failed."),
    ]
    verdict = json.loads((place.folder / "out" / "VERDICT-title-N(1).json").read_text())
    assert verdict == {"job": JOB, "outcome": "failed", "detail": "Node(1) failed.", "verdicts": [{"kind": "crashed"}]}
    assert JobRecord.read(place.folder / "job.json").files == ["VERDICT-title-N(1).json"]
    assert not (place.folder / "manifest").exists()


def test_a_node_that_goes_by_another_number_now(place: Place) -> None:
    """After a restart with fewer nodes: what was kept under the old number is gone; who watched hears of the new one."""
    one, two, watcher = place.driven(), place.session(), place.session()
    place.subscribers.add(watcher.server, JOB, 1)
    before = place.folder
    place.begin(two.server, attempt=1, node=0)
    place.hand_off(two.server, b"manifest", attempt=1, node=0)
    assert [(said.node, said.attempt) for said in heard(watcher) if isinstance(said, Standing)][-1] == (0, 1)
    assert not (before / "manifest").exists() and (place.folder / "manifest").exists()
    assert JobRecord.read(before / "job.json").outcome == "left"
    place.leases.forget(one.server)
    assert place.leases.deadline is None  # the driver is there
    place.leases.forget(two.server)
    assert place.leases.deadline is not None
    newest = place.folders.newest(JOB, 1)
    assert newest is not None and newest.node == 0


def test_who_is_not_the_driver_may_stop_but_not_conclude(place: Place) -> None:
    """Who holds the key may end a job: the driver hears of it, and no attempt follows."""
    one, other = place.driven(), place.session()
    place.leases.conclude(Conclude(JOB, 1, "done", "", ""), other.server)
    place.leases.halt(JOB, "Its own driver ends an attempt.", one.server)
    assert place.record is not None and place.record.outcome == ""
    place.leases.halt(JOB, "Enough.", other.server)
    assert [said for said in heard(one) if isinstance(said, Halted)] == [Halted(JOB, "Enough.")]
    assert (place.record.outcome, place.record.outcome_detail) == ("stopped", "Enough.")
    assert place.leases.driver_of(ordered(1)) == "it is over (stopped)"
    place.leases.forget(one.server)
    assert place.leases.deadline is None
    place.leases.step()
    answer = place.claim(other)
    assert denial(answer) == ("the job is over", "stopped")


def test_a_driver_ends_an_attempt_on_all_its_nodes_here(place: Place) -> None:
    """It has a session for each of them; that of one is not a stranger's to the other."""
    one, two = place.session(), place.session()
    place.begin(one.server, node=0)
    place.begin(two.server, node=1)
    place.leases.halt(JOB, "An attempt ends.", one.server)
    assert [record.outcome for record in place.folders] == ["", ""]
    assert not [said for said in heard(two) if isinstance(said, Halted)]


def test_a_job_without_driver_and_standby_is_over_for_who_watches(place: Place) -> None:
    """The submitter died before it had handed anything on, or was refused by another node: nobody drives it any more."""
    one, watcher = place.session(), place.session()
    place.begin(one.server)
    assert place.record is not None and place.leases.jobs == {JOB}
    standing = place.leases.standing(place.record)
    assert standing is not None and standing.driver == "The submitter"
    place.subscribers.add(watcher.server, JOB, 1)
    place.leases.forget(one.server)
    place.leases.step()
    assert place.leases.jobs == {JOB}  # its process may still end well
    place.record.state, place.record.ended = "aborted", 1.0
    place.leases.step()
    assert [said.driver for said in heard(watcher) if isinstance(said, Standing)] == [""]
    assert place.leases.standing(place.record) is None and place.leases.jobs == set()


def test_who_stops_a_job_stops_it_for_a_driver_that_comes_back(place: Place) -> None:
    """Between two attempts, while the driver has no connection with this node."""
    one, other = place.session(), place.session()
    place.begin(one.server)
    assert place.record is not None
    place.leases.forget(one.server)
    place.record.state, place.record.ended = "failed", 1.0
    place.leases.step()
    place.leases.halt(JOB, "Enough.", other.server)
    assert JobRecord.read(place.folder / "job.json").outcome == "stopped"
    assert place.leases.driver_of(ordered(1)) == "it is over (stopped)"


def test_nobody_goes_on_where_the_folder_was_removed(place: Place) -> None:
    one = place.driven()
    place.leases.forget(one.server)
    assert place.leases.deadline is not None
    place.leases.let_go(["job-1.1"])
    assert place.leases.deadline is None and place.leases.jobs == set()


def test_a_verdict_waits_for_the_next_driver(place: Place) -> None:
    """What the failure detector has found while nobody drove is told first."""
    one, two = place.driven(), place.session()
    place.leases.forget(one.server)
    verdict = Verdict(JOB, 1, 0, "crashed", "host", 7, "step", 1, 2, 0.0)
    assert place.record is not None
    place.leases.note(place.record, verdict)
    answers = place.leases.claim(ClaimJob(JOB, 1, STANDBY, sha256_of(b"manifest"), 1), two.server, new_key())
    assert answers[0] == verdict and grant(answers[1]) == ("living", 0, "starting", "")


@covers("INV-14")
def test_an_agent_that_came_back_keeps_its_promises(place: Place, tmp_path: Path) -> None:
    """It reports its process as lost, starts no standby driver, and has a voice for nobody but whom it had promised
    itself to."""
    one = place.driven()
    again = Place(tmp_path, place._stack)
    answer = again.claim(one)
    assert grant(answer) == ("none", 0, "lost", "The agent ended while this job ran.")
    again.leases.forget(one.server)
    assert again.leases.deadline is None
    answer = again.claim(one, SUBMITTER, 0)
    assert grant(answer)[0] == "restarted"
    (answer,) = again.leases.claim(ClaimJob("other", 1, STANDBY, sha256_of(b""), 1), one.server, new_key())
    assert grant(answer) == ("none", 0, "unknown", "This worker knows no such job.")


@covers("INV-14")
def test_an_attempt_that_was_agreed_to_is_known_after_a_restart(place: Place, tmp_path: Path) -> None:
    """With this node or without it; who did not know of it would go on from the one before."""
    one = place.driven()
    proposal = ProposeAttempt(JOB, 1, SUBMITTER, 0, 1, "next")
    assert place.leases.propose(proposal, one.server) == Agreed(JOB, 1, 0, 1)
    assert stat.S_IMODE((place.folder / "lease.json").stat().st_mode) == 0o600
    again = Place(tmp_path, place._stack)
    answer = again.claim(one)
    assert isinstance(answer, Granted)
    assert (answer.newest, answer.agreed, answer.begun, answer.attempt_state) == (1, 0, False, "next")


def test_a_promise_that_the_disk_does_not_take_is_not_given(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to a claim nor to an attempt; when there is room again, both are."""
    one, standby = place.driven(), place.session()
    place.leases.forget(one.server)
    claim = ClaimJob(JOB, 1, STANDBY, sha256_of(b"manifest"), 1)
    proposal = ProposeAttempt(JOB, 1, STANDBY, 1, 1, "next")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(standby_module, "write_private", full)
        (answer,) = place.leases.claim(claim, standby.server, new_key())
        assert denial(answer) == ("it cannot be kept here: No space left on device", "")
    (answer,) = place.leases.claim(claim, standby.server, new_key())
    assert isinstance(answer, Granted) and answer.claim == 1
    with monkeypatch.context() as patch:
        patch.setattr(standby_module, "write_private", full)
        refused = place.leases.propose(proposal, standby.server)
        assert denial(refused) == ("it cannot be kept here: No space left on device", "")
    assert place.leases.propose(proposal, standby.server) == Agreed(JOB, 1, 1, 1)


def test_a_record_of_promises_that_cannot_be_read_promises_nothing(tmp_path: Path) -> None:
    for content in ("", "{}x", "[]", '{"term": "1"}', '{"term": 1, "other": 2}', "[" * 10_000):
        (tmp_path / "lease.json").write_text(content)
        assert standby_module.read_promise(tmp_path) == Promise()
    standby_module.write_promise(tmp_path, Promise(3, STANDBY, 2, 1, True, "state"))
    assert standby_module.read_promise(tmp_path) == Promise(3, STANDBY, 2, 1, True, "state")


def test_only_who_has_claimed_it_on_this_connection_proposes(place: Place) -> None:
    one, other = place.session(), place.session()
    place.begin(one.server)
    proposal = ProposeAttempt(JOB, 1, SUBMITTER, 0, 1, "next")
    with pytest.raises(ProtocolError, match="was proposed by who had not claimed it here"):
        place.leases.propose(proposal, other.server)
    refused = place.leases.propose(ProposeAttempt(JOB, 1, STANDBY, 1, 1, "next"), other.server)
    assert denial(refused) == ("The submitter drives it", "")


@covers("INV-14", "FLT-4")
def test_a_driver_that_was_replaced_begins_and_ends_nothing(place: Place) -> None:
    """It comes back on a new connection, or speaks on the old one."""
    one, standby, late = place.driven(), place.session(), place.session()
    place.leases.forget(one.server)
    place.leases.claim(ClaimJob(JOB, 1, STANDBY, sha256_of(b"manifest"), 1), standby.server, new_key())
    place.leases.forget(standby.server)
    assert place.leases.driver_of(ordered(1)) == "Node(0) has claimed it since"
    place.leases.conclude(Conclude(JOB, 1, "done", "", ""), late.server)
    assert place.record is not None and place.record.outcome == ""
    answer = place.claim(late, SUBMITTER, 0)
    assert denial(answer) == ("Node(0) has claimed it since", "")
    answer = place.claim(late, SUBMITTER, 2)
    assert grant(answer)[0] == "living"
