"""Loopback addresses beside those of other machines: refused with the repair, and nothing else is."""

from __future__ import annotations

import queue
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from network import Request
from network.dial import Target, dial
from network.hello import Hint, Refused
from network.keys import Key
from network.loopback import MisplacedAddress, misplaced
from network.nodes import Address
from parallel_sgd import elastic, parse_worker
from parallel_sgd.__main__ import main
from rpc.agent.cli import main as worker
from rpc.doctor import examine
from rpc.elastic.discovery import FunctionDiscovery, Poller
from rpc.elastic.events import DiscoveryFailed, HostsSeen

from ..parallel_sgd.networks import mlp
from .test_dial import behaving

OTHER = "192.0.2.1"  # of no machine (RFC 5737)
OWN = socket.gethostname()
NAMES = {"alias": "127.0.0.1", OWN: "127.0.1.1", f"{OWN}.example": "127.0.1.1", "far": "192.0.2.9"}


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have /etc/hosts as on Debian, where the name of the machine is a loopback address."""
    look_up = socket.getaddrinfo

    def known(host: str, *more: Any, **named: Any) -> Any:
        if host == "unknown":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return look_up(NAMES.get(host, host), *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", known)


def found(*hosts: str) -> tuple[str, str] | None:
    wrong = misplaced([Address(host, 15387) for host in hosts])
    return None if wrong is None else (wrong.address.host, wrong.other.host)


@pytest.mark.parametrize(
    "local", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "localhost", "LOCALHOST.", "a.localhost", "0.0.0.0", "alias"]
)
@pytest.mark.parametrize("other", [OTHER, "2001:db8::1", "far"])
def test_what_means_each_machine_is_refused_beside_another_one(local: str, other: str) -> None:
    assert found(local, other) == found(other, local) == found(OWN, other, local, "unknown") == (local, other)


def own_address() -> str:
    """An address of this machine that others may reach, or one of loopback where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((OTHER, 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


@pytest.mark.parametrize(
    "hosts",
    [
        ["127.0.0.1", "localhost", "::1", "alias"],  # all loopback
        ["127.0.0.1", OWN, f"{OWN}.example"],  # and the name of this machine
        ["127.0.0.1", own_address()],  # all of this machine
        [OWN, OTHER, "far"],  # others look the name of this machine up by themselves
        [OTHER, "192.0.2.2"],
        ["127.0.0.1", "unknown"],  # who calls it says what is wrong
        ["127.0.0.1"],
        [],
    ],
)
def test_names_of_one_machine_and_of_several_go_together(hosts: list[str]) -> None:
    assert found(*hosts) is None


def test_no_name_server_is_asked_for_what_is_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    look_up = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *more, **named: asked.append(host) or look_up(host, *more, **named))
    assert found(OTHER, "192.0.2.2") is None and found("127.0.0.1", "localhost") is None
    assert found("127.0.0.1", "far", OTHER) == ("127.0.0.1", OTHER) and "far" not in asked


SENTENCE = (
    "127.0.0.1 means each machine itself: 192.0.2.1:15387 is on another machine and cannot reach 127.0.0.1:{port} there. "
    "Write this machine's address"
)
REPAIR = "into worker.json, and start its worker with --listen 0.0.0.0."


@pytest.fixture
def nobody_calls() -> Iterator[int]:
    """A port of this machine at which nobody calls until the test has ended."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener.getsockname()[1]
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.fixture
def nodes(nobody_calls: int, tmp_path: Path) -> Path:
    """A node file as a user makes it who adds his second machine."""
    path = tmp_path / "worker.json"
    path.write_text(f'{{"Worker": ["127.0.0.1:{nobody_calls}", "{OTHER}"]}}', "utf-8")
    return path


def test_nothing_is_sent_to_nodes_that_cannot_reach_each_other(nodes: Path, nobody_calls: int) -> None:
    with pytest.raises(ValueError, match="means each machine itself") as caught:
        Request(key=Key(b"1" * 32)).request(parse_worker(2, filename=nodes))
    assert str(caught.value).startswith(SENTENCE.format(port=nobody_calls)) and str(caught.value).endswith(REPAIR)


def test_a_submission_ends_before_it_has_begun(
    nodes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2: a file is wrong, nothing was started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    mlp().save("dnn.model")
    arguments = ["-m", "dnn.model", "--dataset", "digits", "--epochs", "1", "--workers", str(nodes), "-n", "2"]
    assert main(arguments) == 2
    assert "127.0.0.1 means each machine itself" in capsys.readouterr().err


def test_elastic_workers_are_not_started(nodes: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with pytest.raises(MisplacedAddress):
        elastic.launch(len, parse_worker(2, filename=nodes))


def test_hosts_that_are_found_are_refused_until_they_fit() -> None:
    """Each answer of a discovery, with the reason; the first that fits is taken."""
    answers: list[Callable[[], list[str]]] = [lambda: ["127.0.0.1", "far"], lambda: [OTHER, "far"]]
    events: queue.SimpleQueue[HostsSeen | DiscoveryFailed] = queue.SimpleQueue()
    discovery = FunctionDiscovery(lambda: answers.pop(0)() if len(answers) > 1 else answers[0]())
    with closing(Poller(discovery, events.put, period=0.01)):
        failed, seen = events.get(timeout=30), events.get(timeout=30)
    assert isinstance(failed, DiscoveryFailed) and failed.reason.startswith("127.0.0.1 means each machine itself: far:15387")
    assert isinstance(seen, HostsSeen) and [host.address.host for host in seen.hosts] == [OTHER, "far"]


def test_the_doctor_tells_it(nodes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where nobody answers."""
    with socket.socket() as gone:
        gone.bind(("127.0.0.1", 0))
        nodes.write_text(f'{{"Worker": ["127.0.0.1:{gone.getsockname()[1]}", "2001:db8::1"]}}', "utf-8")
        key = tmp_path / "key"
        assert worker(["--new-key", "--key-file", str(key)]) == 0
        assert worker(["--doctor", "--key-file", str(key), str(nodes)]) == examine.EXIT_WRONG
        told = capsys.readouterr().out
        address = f"127.0.0.1:{gone.getsockname()[1]}"
    assert f"* {address}: it means each machine itself, so [2001:db8::1]:15387, which is another machine, does not" in told


def test_a_name_that_leads_to_the_caller_itself_is_told_where_its_job_is_not() -> None:
    """As on a machine whose /etc/hosts has a loopback address for the name of another one."""

    def no_such_job(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(bytes([Hint.NO_SUCH_JOB]))

    with behaving(no_such_job) as there, pytest.raises(Refused) as caught:
        dial(Target(Address("alias", there.port), Key(b"1" * 32), "peer", "peer", "job.0", 0))
    assert f"Here, on {OWN}, alias means this machine itself: if it is another one, name it by an address" in str(caught.value)
