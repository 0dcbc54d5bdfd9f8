"""What drivers hand on to an agent: real folders, real sessions in memory, virtual time."""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from network.errors import ProtocolError
from network.keys import Keyring, new_key
from network.testing import VirtualClock
from rpc import messages as m
from rpc.agent import standby as standby_module
from rpc.agent.checks import python_version
from rpc.agent.children import ChildProcesses
from rpc.agent.event_log import EVENT_LOG, SecurityLog
from rpc.agent.failover import DriverLeases
from rpc.agent.store import JobFolders, JobRecord
from rpc.agent.subscribers import Subscribers
from rpc.lease.handoff import PART_BYTES, Handoff, HandoffTracker
from rpc.lease.lease import Promise
from rpc.liveness.limits import SILENT_DRIVER_SECONDS
from rpc.support.files import write_private
from tests.network.wires import Talk, talk

from ...statements import covers

JOB = "job-1"
SUBMITTER, STANDBY = "The submitter/0123456789abcdef", "Node(0)/fedcba9876543210"


def sha256_of(content: bytes) -> str:
    return Handoff(SUBMITTER, "", content).sha256


def ordered(attempt: int, node: int = 1, driver: str = SUBMITTER) -> m.CanCommit:
    return m.CanCommit(JOB, "title", node, [node], attempt, python_version(), "1", 1, 1, 5.0, 5.0, driver=driver)


def keeping(attempt: int, content: bytes = b"xy") -> m.KeepManifest:
    return m.KeepManifest(
        JOB, 1, attempt, 0, SUBMITTER, 0, sha256_of(content), len(content), "parallel_sgd.driver.standby", "{}"
    )


class Place:
    """The leases of an agent, and sessions with it; `heard(talk)` is what the other side of one is told."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.root, self._stack = root, stack
        self.clock = VirtualClock()
        self.folders = JobFolders(root / "jobs", 20, self.clock)
        self.subscribers = Subscribers(
            lambda job, node: (here := self.folders.newest(job, node)) is not None and here.node == node
        )
        self.audit = root / "audit.jsonl"
        logger, children = logging.getLogger("leases test"), ChildProcesses(adopts=False)
        self.keyring = Keyring((new_key(),))
        self.leases = DriverLeases(
            self.folders, self.subscribers, root, SecurityLog(self.audit), logger, self.clock, children, lambda: self.keyring
        )
        self._record: JobRecord | None = None

    def restarted(self) -> Place:
        return Place(self.root, self._stack)

    def session(self, kind: str = "memory") -> Talk:
        return self._stack.enter_context(talk(kind))

    def begun(
        self, attempt: int = 0, node: int = 1, by: Talk | None = None, driver: str = SUBMITTER, kind: str = "memory"
    ) -> Talk:
        """The session of a driver that has begun an attempt."""
        by = by or self.session(kind)
        order = ordered(attempt, node, driver)
        assert not self.leases.driver_of(order)
        if self._record is not None:
            self._record.state = "failed"
        self._record = self.folders.create(JOB, node, "title", attempt)
        self.subscribers.add(by.server, JOB, node)
        self.leases.begin(order, self._record, by.server, new_key())
        return by

    def hand_off(
        self, by: Talk, content: bytes = b"manifest", driver: str = SUBMITTER, attempt: int = 0, node: int = 1
    ) -> list[bool]:
        """As a driver does it; returns whether each answer calls it whole."""
        answers: list[m.ManifestKept] = []

        def tell(node: int, operation: Any) -> None:
            take = self.leases.hand_off if isinstance(operation, m.KeepManifest) else self.leases.part
            answer = take(operation, by.server)
            if isinstance(answer, m.ManifestKept):
                answers.append(answer)

        tracker = HandoffTracker(JOB, attempt, tell, lambda _: 0)
        tracker.hand_off(Handoff(driver, "parallel_sgd.driver.standby", content, "{}"), [node])
        while tracker.lacking:
            tracker.take(node, answers[-1])
            tracker.send()
        return [answer.whole for answer in answers]

    def driven(self) -> Talk:
        """The session of the submitter, who has begun an attempt and handed the job on."""
        one = self.begun()
        self.hand_off(one)
        return one

    def claim(
        self, by: Talk, driver: str = STANDBY, term: int = 1, content: bytes = b"manifest", job: str = JOB
    ) -> list[m.Operation]:
        return self.leases.claim(m.ClaimJob(job, 1, driver, sha256_of(content), term), by.server, new_key())

    def granted(self, by: Talk, driver: str = STANDBY, term: int = 1, job: str = JOB) -> m.Granted:
        *_, answer = self.claim(by, driver, term, job=job)
        assert isinstance(answer, m.Granted)
        return answer

    def propose(self, by: Talk, driver: str = STANDBY, claim: int = 1) -> m.Operation:
        return self.leases.propose(m.ProposeAttempt(JOB, 1, driver, claim, 1, "next"), by.server)

    def conclude(self, by: Talk, outcome: str = "done", detail: str = "", verdicts: str = "") -> None:
        self.leases.conclude(m.Conclude(JOB, 1, outcome, detail, verdicts), by.server)

    def loses(self, *drivers: Talk) -> None:
        for one in drivers:
            self.leases.forget(one.server)

    @property
    def record(self) -> JobRecord:
        assert self._record is not None
        return self._record

    def read(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())

    @property
    def folder(self) -> Path:
        return self.folders.folder(self.record)


def heard(wire: Talk, kind: type[m.Operation]) -> list[Any]:
    wire.server.send()
    wire.client.receive()
    found = []
    while (message := wire.client.take()) is not None:
        found.append(m.parse(message.value, m.FROM_AGENT))
    return [said for said in found if isinstance(said, kind)]


def told(answer: m.Operation | list[m.Operation]) -> tuple[str, ...]:
    """What is answered, last: of a grant voice, state and detail, of a denial reason and outcome."""
    answer = answer[-1] if isinstance(answer, list) else answer
    if isinstance(answer, m.Granted):
        assert answer.attempt == 0
        return answer.voice, answer.state, answer.detail
    assert isinstance(answer, m.Denied)
    return answer.reason, answer.outcome


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    """There is no room for files of this name."""

    def write(path: Path, text: str, *, lasting: bool = False) -> None:
        if path.name == name:
            raise OSError(28, "No space left on device")
        write_private(path, text, lasting=lasting)

    with monkeypatch.context() as patch:
        patch.setattr(standby_module, "write_private", write)
        yield


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        made = Place(tmp_path, stack)
        yield made
        made.leases.close()


def test_a_manifest_is_kept_unchanged_and_sent_once(place: Place) -> None:
    """Agents keep the bundle unchanged, SHA-256 checked, private; a later attempt does not send it again."""
    content = bytes(range(256)) * 8192 + b"end"  # more than one part
    assert len(content) > PART_BYTES
    one = place.begun()
    assert place.hand_off(one, content) == [False, True]
    manifest = place.folder / "manifest"
    assert manifest.read_bytes() == content and stat.S_IMODE(manifest.stat().st_mode) == 0o600
    assert place.read("attempt.json")["attempt"] == 0
    assert place.hand_off(place.begun(attempt=1), content, attempt=1) == [True]
    assert place.read("attempt.json")["attempt"] == 1


def test_manifests_that_are_refused(place: Place) -> None:
    """An altered one, one of nobody; and parts of an attempt before do not count, which were under way on its connection when
    the next attempt announced the manifest anew."""
    with pytest.raises(ProtocolError, match="A manifest of job job-1 came, which was not expected here"):
        place.hand_off(place.session(), b"x")
    one = place.begun()
    for parts in ([b"xx"], [b"x", b"y" * 9]):
        assert place.leases.hand_off(keeping(0), one.server) == m.ManifestKept(JOB, 1, False)
        with pytest.raises(ProtocolError, match="A manifest came with"):
            for part in parts:
                place.leases.part(m.ManifestPart(JOB, 1, part), one.server)
        assert not list(place.folder.glob("manifest*"))
    assert place.leases.hand_off(keeping(0), one.server) == m.ManifestKept(JOB, 1, False)
    two = place.begun(attempt=1)
    assert place.leases.hand_off(keeping(1), two.server) == m.ManifestKept(JOB, 1, False)
    assert place.leases.part(m.ManifestPart(JOB, 1, b"x"), two.server) is None
    assert place.leases.part(m.ManifestPart(JOB, 1, b"xy"), one.server) is None
    assert place.leases.part(m.ManifestPart(JOB, 1, b"y"), two.server) == m.ManifestKept(JOB, 1, True)
    assert (place.folder / "manifest").read_bytes() == b"xy"


def _concluded(place: Place, by: Talk) -> None:
    place.conclude(by, "stopped")
    place.leases.step()


@pytest.mark.parametrize("end", [lambda place, _: place.leases.close(), _concluded], ids=["agent", "job"])
def test_a_manifest_whose_last_part_never_comes_leaves_nothing(place: Place, end: Callable[[Place, Talk], None]) -> None:
    """The agent ends while the manifest is under way, or the job does."""
    one = place.begun()
    assert place.leases.hand_off(keeping(0), one.server) == m.ManifestKept(JOB, 1, False)
    assert place.leases.part(m.ManifestPart(JOB, 1, b"x"), one.server) is None
    assert list(place.folder.glob("manifest*"))
    end(place, one)
    assert not list(place.folder.glob("manifest*"))


@covers("FLT-13")
def test_a_full_disk_leaves_the_attempt_state_before(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """a standby driver here would read that one, so this is what the node says that it has; the driver is served on."""
    one = place.driven()
    place.begun(attempt=1, by=one)
    with full_disk(monkeypatch, standby_module.ATTEMPT_STATE):
        place.hand_off(one, attempt=1)
    assert place.read("attempt.json")["attempt"] == 0
    place.loses(one)
    (answer,) = place.claim(place.session())
    assert isinstance(answer, m.Granted) and (answer.attempt, answer.newest, answer.begun) == (1, 1, True)


def test_the_driver_stays_while_one_of_its_sessions_does(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """Between two attempts a driver has the sessions of both. Its standby driver is announced when it hands the manifest on."""
    one, three = place.driven(), place.session()
    two = place.begun(attempt=1)
    place.loses(one)
    (answer,) = place.claim(three)
    assert told(answer) == ("The submitter drives it", "") and isinstance(answer, m.Denied) and answer.is_driven
    place.loses(two)
    assert isinstance(place.claim(three)[0], m.Granted)
    assert not caplog.messages  # a claim alone may come to nothing
    place.hand_off(three, driver=STANDBY, attempt=1)
    assert caplog.messages == ["Job job-1.1: The submitter is gone; Node(0) drives it now."]
    assert place.leases.driver_of(ordered(2)) == "Node(0) drives it"


@covers("FD-16")
def test_a_driver_whose_host_vanishes_between_two_attempts(place: Place) -> None:
    """Nothing is sent to it meanwhile, so its kernel is asked; it is lost when it has not answered for so long."""
    one = place.begun(kind="tcp")
    with socket.socket(fileno=os.dup(one.server.link.fileno())) as twin:  # type: ignore[attr-defined]
        assert twin.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert twin.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 1
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert twin.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) < SILENT_DRIVER_SECONDS
            assert twin.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 1000 * SILENT_DRIVER_SECONDS


@covers("SUB-15")
def test_watchers_are_told_how_it_stands(place: Place) -> None:
    """From attempt to attempt, until the job is over; what only the driver could find is then among the events of the node."""
    found = m.Verdict(JOB, 2, 1, "cut", "h", 7, "step", 2, 3, 4.5, "All that train wait.")
    report = [{"kind": "crashed"}, 3, *map(asdict, (replace(found, kind="stuck"), replace(found, job="job-2"), found))]
    one, watcher = place.begun(), place.session()
    place.subscribers.add(watcher.server, JOB, 7)  # it counts nodes in another way
    place.begun(attempt=1, by=one)
    place.conclude(one, "failed", "Node(1) failed.", json.dumps(report))
    assert [(said.attempt, said.driver, said.outcome, said.detail) for said in heard(watcher, m.Standing)] == [
        (1, "The submitter", "", ""),
        (1, "", "failed", "Node(1) failed."),
    ]
    verdict = place.read("out/VERDICT-title-N(1).json")
    assert verdict == {"job": JOB, "outcome": "failed", "detail": "Node(1) failed.", "verdicts": report}
    [event] = map(json.loads, (place.folder / EVENT_LOG).read_text().splitlines())
    assert event.pop("time") > 0 and event == {"event": "verdict", **asdict(found)}
    assert JobRecord.read(place.folder / "job.json").files == ["VERDICT-title-N(1).json"]
    assert not (place.folder / "manifest").exists()


def test_a_node_that_goes_by_another_number_now(place: Place) -> None:
    """After a restart with fewer nodes: what was kept under the old number is gone; who watched hears of the new one."""
    one, watcher = place.driven(), place.session()
    place.subscribers.add(watcher.server, JOB, 1)
    before = place.folder
    two = place.begun(attempt=1, node=0)
    place.hand_off(two, attempt=1, node=0)
    last = heard(watcher, m.Standing)[-1]
    assert (last.node, last.attempt) == (0, 1)
    assert not (before / "manifest").exists() and (place.folder / "manifest").exists()
    assert JobRecord.read(before / "job.json").outcome == "left"
    place.loses(one)
    assert place.leases.deadline is None  # the driver is there
    place.loses(two)
    assert place.leases.deadline is not None
    newest = place.folders.newest(JOB, 1)
    assert newest is not None and newest.node == 0


def test_who_is_not_the_driver_may_stop_but_not_conclude(place: Place) -> None:
    """Who holds the key may end a job: the driver hears of it, and no attempt follows."""
    one, other = place.driven(), place.session()
    place.conclude(other)
    place.leases.halt(JOB, "Its own driver ends an attempt.", one.server)
    assert place.record.outcome == ""
    place.leases.halt(JOB, "Enough.", other.server)
    assert heard(one, m.Halted) == [m.Halted(JOB, "Enough.")]
    assert (place.record.outcome, place.record.outcome_detail) == ("stopped", "Enough.")
    assert place.leases.driver_of(ordered(1)) == "it is over (stopped)"
    place.loses(one)
    assert place.leases.deadline is None
    place.leases.step()
    assert told(place.claim(other)) == ("the job is over", "stopped")


def test_a_driver_ends_an_attempt_on_all_its_nodes_here(place: Place) -> None:
    """It has a session for each of them; that of one is not a stranger's to the other."""
    one, two = place.begun(node=0), place.begun(node=1)
    place.leases.halt(JOB, "An attempt ends.", one.server)
    assert [record.outcome for record in place.folders] == ["", ""] and not heard(two, m.Halted)


def test_a_job_without_driver_and_standby(place: Place) -> None:
    """The submitter died before it had handed anything on, or was refused by another node: for who watches it is over. Who
    stops it between two attempts stops it for a driver that comes back."""
    one, other, watcher = place.begun(), place.session(), place.session()
    standing = place.leases.standing(place.record)
    assert place.leases.jobs == {JOB} and standing is not None and standing.driver == "The submitter"
    place.subscribers.add(watcher.server, JOB, 1)
    place.loses(one)
    place.leases.step()
    assert place.leases.jobs == {JOB}  # its process may still end well
    place.record.state, place.record.ended = "aborted", 1.0
    place.leases.step()
    assert [said.driver for said in heard(watcher, m.Standing)] == [""]
    assert place.leases.standing(place.record) is None and place.leases.jobs == set()
    place.leases.halt(JOB, "Enough.", other.server)
    assert JobRecord.read(place.folder / "job.json").outcome == "stopped"
    assert place.leases.driver_of(ordered(1)) == "it is over (stopped)"


def test_nobody_goes_on_where_the_folder_was_removed(place: Place) -> None:
    place.loses(place.driven())
    assert place.leases.deadline is not None
    place.leases.let_go(["job-1.1"])
    assert place.leases.deadline is None and place.leases.jobs == set()


def test_who_claims_with_the_manifest_hears_the_verdict_first(place: Place) -> None:
    """What the failure detector has found while nobody drove; with another manifest nobody is let in."""
    one, two = place.driven(), place.session()
    place.loses(one)
    assert told(place.claim(two, content=b"other")) == ("the job has another manifest", "")
    verdict = m.Verdict(JOB, 1, 0, "crashed", "host", 7, "step", 1, 2, 0.0)
    place.leases.note(place.record, verdict)
    answers = place.claim(two)
    assert answers[0] == verdict and told(answers) == ("living", "starting", "")
    assert '"claim"' in place.audit.read_text()


@covers("INV-14")
def test_an_agent_that_came_back_keeps_its_promises(place: Place) -> None:
    """It reports its process as lost, starts no standby driver, and has a voice for nobody but whom it had promised
    itself to. An attempt that was agreed to is known, with this node or without it: who did not know of it would go on from
    the one before."""
    one = place.driven()
    again = place.restarted()
    assert told(again.claim(one)) == ("none", "lost", "The agent ended while this job ran.")
    again.loses(one)
    assert again.leases.deadline is None
    assert told(again.claim(one, SUBMITTER, 0))[0] == "restarted"
    unknown = again.claim(one, content=b"", job="other")
    assert len(unknown) == 1 and told(unknown) == ("none", "unknown", "This worker knows no such job.")
    assert place.propose(one, SUBMITTER, 0) == m.Agreed(JOB, 1, 0, 1)
    assert stat.S_IMODE((place.folder / "lease.json").stat().st_mode) == 0o600
    answer = place.restarted().granted(one)
    assert (answer.newest, answer.agreed, answer.begun, answer.attempt_state) == (1, 0, False, "next")


def test_a_promise_that_the_disk_does_not_take_is_not_given(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to a claim nor to an attempt; when there is room again, both are."""
    one, standby = place.driven(), place.session()
    place.loses(one)
    answers: list[Any] = []
    ask: Callable[[], object]
    for ask in (lambda: place.claim(standby)[0], lambda: place.propose(standby)):
        with full_disk(monkeypatch, "lease.json"):
            answers.append(ask())
        assert told(answers[-1]) == ("it cannot be kept here: No space left on device", "")
        answers.append(ask())
    assert isinstance(answers[1], m.Granted) and answers[1].claim == 1 and answers[3] == m.Agreed(JOB, 1, 1, 1)


def test_a_record_of_promises_that_cannot_be_read_promises_nothing(tmp_path: Path) -> None:
    for content in ("", "{}x", "[]", '{"term": "1"}', '{"term": 1, "other": 2}', "[" * 10_000):
        (tmp_path / "lease.json").write_text(content)
        assert standby_module.read_promise(tmp_path) == Promise()
    standby_module.write_promise(tmp_path, Promise(3, STANDBY, 2, 1, True, "state"))
    assert standby_module.read_promise(tmp_path) == Promise(3, STANDBY, 2, 1, True, "state")


@covers("INV-14", "FLT-4")
def test_who_does_not_drive_it_begins_and_ends_nothing(place: Place) -> None:
    """Nor does a driver that was replaced: it comes back on a new connection, or speaks on the old one."""
    one, standby, late = place.driven(), place.session(), place.session()
    with pytest.raises(ProtocolError, match="was proposed by who had not claimed it here"):
        place.propose(late, SUBMITTER, 0)
    assert told(place.propose(late)) == ("The submitter drives it", "")
    place.loses(one)
    place.claim(standby)
    place.loses(standby)
    assert place.leases.driver_of(ordered(1)) == "Node(0) has claimed it since"
    place.conclude(late)
    assert place.record.outcome == ""
    assert told(place.claim(late, SUBMITTER, 0)) == ("Node(0) has claimed it since", "")
    assert told(place.claim(late, SUBMITTER, 2))[0] == "living"
