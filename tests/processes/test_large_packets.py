"""A way that passes small packets and drops large ones, as a tunnel with a smaller MTU does where ICMP is filtered."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from network import VERSION
from network.faults.proxy import Proxy
from network.keys import Key, Keyring, new_key
from network.nodes import Address
from network.transport import SocketLink, Waker, wait_sockets
from rpc.agent.agent import Agent
from rpc.agent.settings import AgentSettings
from rpc.doctor.probe import probe
from rpc.doctor.report import Report, Worker
from tests.parallel_sgd.networks import mlp
from tests.programs import environment

from . import netns
from .harness import AgentProcess, cluster


@pytest.mark.slow
@pytest.mark.long
def test_the_doctor_and_a_submission_tell_it(tmp_path: Path) -> None:
    """From the submitter's side and from each worker's; the way between those on one side is well."""
    if not netns.available():
        pytest.skip("Network namespaces are made by root on Linux, with ip and unshare.")
    with netns.network([-1, 0], [1]) as net, cluster(tmp_path / "two") as two:
        for host in (0, 1):
            root, listen = two.root / f"agent-{host}", ("--listen", net.address(host))
            two.agents.append(AgentProcess(root, two.key_file, *listen, on=net.on(host)))
        near, far = (str(agent.await_address().address) for agent in two.agents)
        nodes = tmp_path / "worker.json"
        nodes.write_text(json.dumps({"Worker": [near, far]}))
        mlp().save(tmp_path / "dnn.model")
        common = ["--key-file", str(two.key_file), "--json"]
        examines = ["psgd", "doctor", *common, str(nodes)]
        submits = ["psgd", "submit", *common, "-m", "dnn.model", "--dataset", "digits", "--epochs", "1"]
        submits += ["--workers", str(nodes), "-n", "2"]

        def run(command: list[str]) -> subprocess.CompletedProcess[str]:
            line = [*net.on(-1), sys.executable, "-m", *command]
            return subprocess.run(line, env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, check=False)

        well = run(examines)
        assert well.returncode == 0, well.stdout + well.stderr
        net.narrow()
        found = run(examines)
        assert found.returncode == 1, found.stderr
        problems = json.loads(found.stdout)["problems"]
        expected = [(far, "from here"), (near, f"to {far}"), (far, f"to {near}")]
        assert [problem["subject"] for problem in problems] == [subject for subject, _ in expected], problems
        for problem, (_, way) in zip(problems, expected, strict=True):
            words = problem["what"].partition(" are answered in ")
            assert words[0].endswith(f" {way}") and words[2].endswith(" bytes not at all."), problems
            assert problem["repair"].startswith("The way drops large packets: compare the MTU of both ends")
        submitted = run(submits)
        assert submitted.returncode == 3, submitted.stdout + submitted.stderr
        assert (
            f"Node(1) at {far} did not finish canCommit in time: Node(1) at {far} answers small packets, but "
            in submitted.stdout
        )
        assert "kB have not arrived. The way drops large packets (MTU); 'psgd doctor' tells more." in submitted.stdout


class Strait:
    """A way to `target` on which a connection brings nothing more after a piece of more than `most` bytes; with `closes` none
    is answered any more then. Each piece of `slow` bytes and more waits 0.1 s, but for each third one. With a `rate`, in bytes
    per second, what is larger than `most` arrives all the same, at this rate beyond the first `allowance` bytes."""

    def __init__(
        self,
        target: Address,
        most: int,
        closes: bool = False,
        slow: int = 1 << 30,
        rate: float | None = None,
        allowance: int = 0,
    ) -> None:
        self._target, self._most, self._closes, self._slow = target, most, closes, slow
        self._rate, self._allowance = rate, allowance
        self._late = 0
        self._is_closed = False
        self._held = contextlib.ExitStack()
        self._ways: dict[socket.socket, socket.socket] = {}
        self._waker = Waker()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname())
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._held:
            while self._waker.sock not in (ready := wait_sockets([self._waker.sock, self._listener, *self._ways], [], None)):
                if self._listener in ready:
                    near = self._held.enter_context(self._listener.accept()[0])
                    if not self._is_closed:
                        far = self._held.enter_context(socket.create_connection(self._target))
                        self._ways |= {near: far, far: near}
                for end in [end for end in self._ways if end in ready]:
                    data = end.recv(1 << 16)
                    is_large = len(data) > self._most and end.getsockname() == self.address
                    if is_large and self._rate:
                        beyond = max(0, len(data) - self._allowance)
                        self._allowance -= len(data) - beyond
                        wait_sockets([self._waker.sock], [], beyond / self._rate)  # until then, or until this way ends
                    elif not data or is_large:
                        self._is_closed = self._closes
                        del self._ways[end]  # it stays open, and nobody reads it
                        continue
                    if len(data) >= self._slow:
                        self._late += 1
                        time.sleep(0.1 if self._late % 3 else 0.0)
                    self._ways[end].sendall(data)

    def close(self) -> None:
        self._waker.wake()
        self._thread.join()
        self._waker.close()
        self._listener.close()


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Address, Key]]:
    key = new_key()
    made = Agent(AgentSettings(port=0, work_dir=str(tmp_path_factory.mktemp("agent") / "work"), keyring=Keyring((key,))))
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made.address, key
    made.stop()
    thread.join()
    made.close()


@pytest.mark.parametrize(
    ("most", "carried", "swallowed"), [(1300, 1 << 10, 4 << 10), (600, 0, 1 << 10), (9000, 4 << 10, 16 << 10)]
)
@pytest.mark.parametrize("burst", [True, False])
@pytest.mark.share(12)
def test_from_which_size_on_messages_are_swallowed(
    agent: tuple[Address, Key], most: int, carried: int, swallowed: int, burst: bool
) -> None:
    with contextlib.closing(Strait(agent[0], most)) as strait:
        found = probe(strait.address, agent[1], burst=burst)
    assert (found.problem, found.carried, found.swallowed, found.bandwidth) == ("", carried, swallowed, 0.0)
    report = Report("0f", [Worker(strait.address, "", VERSION, None, found)])
    (problem,) = report.problems
    small = f"messages of {carried} bytes" if carried else "small messages"
    assert str(problem).startswith(f"{strait.address}: {small} from here are answered in ")
    assert f"those of {swallowed} bytes not at all. The way drops large packets: compare the MTU" in str(problem)
    assert "small packets only" in report.as_text()


def test_a_message_that_waited_for_a_core_makes_no_slow_way(agent: tuple[Address, Key]) -> None:
    """Of several messages of a size the fastest counts; by one of 0.1 s the larger one that is lost was but slow."""
    with contextlib.closing(Strait(agent[0], 9000, slow=4 << 10)) as strait:
        for _ in range(5):
            found = probe(strait.address, agent[1], burst=True)
            if found.carried:  # else this machine had no core for the smallest message, either
                break
    assert (found.problem, found.carried, found.swallowed) == ("", 4 << 10, 16 << 10)


def test_an_agent_that_has_stopped_swallows_nothing(agent: tuple[Address, Key]) -> None:
    """It has answered before, and answers no small message any more, either."""
    with contextlib.closing(Strait(agent[0], 1300, closes=True)) as strait:
        found = probe(strait.address, agent[1], burst=True)
    assert "Timed out" in found.problem and not found.swallowed


# the first, for `make test`, leaves most time beside the limit of one message to a machine that stands still
@pytest.mark.parametrize("rate", [2_000, 500, 20_000, None])
@pytest.mark.share(8)
def test_a_slow_way_is_told_as_slow(agent: tuple[Address, Key], rate: int | None) -> None:
    """So many bytes per second, which it takes for large messages as for small ones."""
    with Proxy() as proxy:
        route = proxy.route(agent[0])
        route.there.throttle(rate)
        assert route.address is not None
        found = probe(route.address, agent[1], burst=True)
    assert not found.problem and not found.swallowed and found.bandwidth > (rate or 1e5) / 2
    if rate is not None:
        assert found.bandwidth < 40 * rate


@pytest.mark.parametrize(("rate", "allowance"), [(700, 0), (200, 6 << 10)])
@pytest.mark.share(8)
def test_a_way_that_lets_a_burst_pass_is_told_as_slow(agent: tuple[Address, Key], rate: int, allowance: int) -> None:
    """Small messages are answered at once; a larger one comes after the limit, or has come once before the burst was over."""
    for _ in range(5):
        with contextlib.closing(Strait(agent[0], 1300, rate=rate, allowance=allowance)) as strait:
            found = probe(strait.address, agent[1], burst=True)
        if found.swallowed != 16 << 10:  # else this machine had no core for the second message of that size
            break
    assert (found.problem, found.carried, found.swallowed) == ("", 0, 0)
    assert rate / 4 < found.bandwidth < 40 * rate


def test_a_peer_that_does_not_read_has_got_what_was_sent() -> None:
    """Its kernel has, so nothing is sent again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        link = SocketLink(socket.create_connection(listener.getsockname()))
        try:
            while link.send([bytes(1 << 20)]):
                pass
            time.sleep(0.5)  # for the kernel to ask whether there is room
            assert link.unacknowledged == 0
        finally:
            link.close()
    assert link.unacknowledged == 0
