"""Another user of the host, without a key, owns the port that a submitter calls, and leads what is said there to the agent."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from network.errors import NetworkError
from network.nodes import Address, NodeAssignment
from rpc.errors import SubmissionError

from ..statements import covers
from .executors import Confiding, Seals, Sum
from .harness import Cluster, lasting_port, start_job, wait_for

# Arguments: the address to take. On standard input come the port of the agent, and the role of the client whose
# first record is to be altered. It says its port, and then whenever it has read one of two words. As root it becomes another
# user first.
RELAY = r"""
import encodings.idna, os, socket, sys, threading
host, port = sys.argv[1], int(sys.argv[2])
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
print(listener.getsockname()[1], flush=True)
agent = int(sys.stdin.readline())
role = [b"nobody"]
def listen():
    for line in sys.stdin:
        role[0] = b"\xa4role" + bytes([0xA0 + len(line.strip())]) + line.strip().encode()
        os.write(1, b"heard\n")
threading.Thread(target=listen, daemon=True).start()
def copy(source, sink, inward):
    at = passed = None
    try:
        while data := source.recv(1 << 20):
            for word in ("honest", "peer"):
                if word.encode() in data:
                    os.write(1, word.encode() + b"\n")  # at once, for there are several threads
            if inward and passed is None:  # hello, proof, the header of the first record and what it seals
                passed, at = 0, 6 + int.from_bytes(data[4:6], "big") + 32 + 20 if role[0] in data else -1
            if inward and passed <= at < passed + len(data):
                data = bytearray(data)
                data[at - passed] ^= 1
            passed = (passed or 0) + len(data)
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
while True:
    near, _ = listener.accept()
    far = socket.create_connection(("127.0.0.1", agent))
    for pair in ((near, far, True), (far, near, False)):
        threading.Thread(target=copy, args=pair, daemon=True).start()
"""


@contextlib.contextmanager
def relay(host: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The port that it holds, and the process, which waits to be told where the agent is."""
    command = [sys.executable, "-I", "-c", RELAY, host, str(lasting_port())]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env={}, cwd="/", **pipes) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), process
        finally:
            process.kill()


def words_read(process: subprocess.Popen[str]) -> set[str]:
    process.kill()
    return set(process.communicate()[0].split())


def tell(process: subprocess.Popen[str], line: object) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
        probe.bind(("::1", 0))
        return True
    return False


@covers("SEC-19", "SEC-20", "SEC-4")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.share(2)
def test_who_relays_loopback_alters_nothing(own: Cluster, tmp_path: Path, host: str) -> None:
    """The port of an agent that has moved, and that of `::1` beside one on 127.0.0.1: the handshake goes through
    the relay, and no record opens in which it swaps a bit, of an order or of code; nothing runs, nothing is read."""
    if host == "::1" and not has_ipv6():
        pytest.skip("This machine has no IPv6.")
    with relay(host) as (port, process):
        (agent,) = own.start(1, "--port", str(port) if host == "::1" else "0")
        tell(process, agent.address.port)
        if host == "::1":
            assert agent.address.port == port and f"Port {port} on ::1 is held by" in agent.console, agent.console
        agent.work.chmod(0o755)  # so that the Unix socket is not trusted, as it is not seen from another container
        nodes = NodeAssignment(key_file=own.key_file).add(0, Address(host, port))

        def submit(role: str, where: str) -> str:
            """Submit through the relay until a record does not open, as a file of the agent tells; returns its audit."""
            tell(process, role)
            assert process.stdout is not None
            while process.stdout.readline() == "peer\n":  # until it has heard
                pass
            with own.request(nodes) as com, pytest.raises((SubmissionError, NetworkError)):
                start_job(com, Sum, tmp_path / "results", title="honest")
            wait_for(lambda: any("record does not open" in f.read_text() for f in agent.work.glob(where)), "a record to fail")
            return (agent.work / "audit.jsonl").read_text()

        audit = submit("submitter", "audit.jsonl")
        assert "admitted" in audit and "accepted" not in audit, "the handshake was led to its end, the altered order not taken"
        audit = submit("code", "jobs/*/*.log")
        assert "accepted" in audit and "code loaded" not in audit
        assert words_read(process) == {"peer"}
    wait_for(own.is_free, "the job to be given up")
    assert not own.run(Sum, tmp_path / "next").error


@covers("SEC-20")
def test_a_capture_tells_no_word_of_title_code_data_or_results(own: Cluster, tmp_path: Path) -> None:
    """Two nodes that share no Unix socket, behind two relays that see all they say; a role in a hello is what is not secret."""
    with contextlib.ExitStack() as relays:
        nodes, spies = NodeAssignment(key_file=own.key_file), []
        for number, agent in enumerate(own.start(2)):
            agent.work.chmod(0o755)
            port, process = relays.enter_context(relay("127.0.0.1"))
            tell(process, agent.address.port)
            spies.append(process)
            nodes.add(number, Address("127.0.0.1", port))
        done = own.run(Confiding, tmp_path / "results", nodes=nodes, title="honest")
        assert not done.error and {len(word) for word in done.results.values()} == {300_000}
        assert [words_read(spy) for spy in spies] == [{"peer"}, {"peer"}]


def test_where_the_work_directory_has_a_long_path(own: Cluster, tmp_path: Path) -> None:
    """The socket for processes of the host lies in the user's run-time folder then; without one they use TCP, with seals."""
    long = own.root / ("d" * 107)
    with tempfile.TemporaryDirectory(prefix="psgd-run-") as run_time:
        for number in range(2):
            own.start(1, work=long / str(number), XDG_RUNTIME_DIR=run_time)
        assert len([*Path(run_time).glob("*/agent.sock")]) == 2
        assert own.run(Seals, tmp_path / "short").results == {0: {1: False}, 1: {0: False}}
        for agent in own.agents:
            agent.end()
        assert not list(Path(run_time).iterdir())
    (agent,) = own.start(1, work=long / "other")
    assert "use TCP, sealed, and share no memory" in agent.console
