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
from .executors import Seals, Sum
from .harness import AgentProcess, Cluster, start_job, wait_for

# Arguments: the address to take (port 0: any), then, on standard input, the port of the agent. As root it becomes somebody else
# first. What goes to the agent is altered: code becomes code of its own, and the title of a job another one.
RELAY = r"""
import encodings.idna, os, socket, sys, threading
host, port, marker = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
print(listener.getsockname()[1], flush=True)
agent = int(sys.stdin.readline())
EVIL = b"cposix\nsystem\n(S'touch %s'\ntR." % marker.encode()
def copy(source, sink, inward):
    try:
        while data := source.recv(1 << 20):
            at = data.find(b"\x80\x05\x95")
            if inward and at >= 0:
                data = data[:at] + EVIL + data[at + len(EVIL):]
            sink.sendall(data.replace(b"honest", b"forged") if inward else data)
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
def relay(host: str, marker: Path) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The port that it holds, and the process, which waits to be told where the agent is."""
    command = [sys.executable, "-I", "-c", RELAY, host, "0", str(marker)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env={}, cwd="/", **pipes) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), process
        finally:
            process.kill()


def lead_to(process: subprocess.Popen[str], agent: AgentProcess) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{agent.address.port}\n")
    process.stdin.flush()


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
        probe.bind(("::1", 0))
        return True
    return False


@covers("SEC-19", "SEC-4")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_who_relays_loopback_alters_nothing(own: Cluster, tmp_path: Path, host: str) -> None:
    """The port of an agent that has moved, and that of `::1` beside one on 127.0.0.1: the handshake goes through
    the relay, and the seal fails on the first byte that it swaps, of an order or of code; nothing runs, the agent goes on."""
    if host == "::1" and not has_ipv6():
        pytest.skip("This machine has no IPv6.")
    marker = tmp_path / "marker"
    with relay(host, marker) as (port, process):
        (agent,) = own.start(1, "--port", str(port) if host == "::1" else "0")
        lead_to(process, agent)
        if host == "::1":
            assert agent.address.port == port and f"Port {port} on ::1 is held by" in agent.console, agent.console
        agent.work.chmod(0o755)  # so that the Unix socket is not trusted, as it is not seen from another container
        nodes = NodeAssignment(key_file=own.key_file).add(0, Address(host, port))

        def submit(title: str, where: str) -> str:
            """Submit through the relay until a seal fails, as a file of the agent tells; returns the agent's audit."""
            with own.request(nodes) as com, pytest.raises((SubmissionError, NetworkError)):
                start_job(com, Sum, tmp_path / "results", title=title)
            wait_for(lambda: any("seal does not verify" in f.read_text() for f in agent.work.glob(where)), "the seal to fail")
            return (agent.work / "audit.jsonl").read_text()

        audit = submit("honest", "audit.jsonl")
        assert "admitted" in audit and "accepted" not in audit, "the handshake was led to its end, the altered order not taken"
        audit = submit("job", "jobs/*/*.log")
        assert "accepted" in audit and "code loaded" not in audit and "forged" not in audit + agent.console
    wait_for(own.idle, "the job to be given up")
    assert not marker.exists()
    assert not own.run(Sum, tmp_path / "next").error


def test_where_the_work_directory_has_a_long_path(own: Cluster, tmp_path: Path) -> None:
    """The socket for processes of the host lies in the user's run-time folder then; without one they use TCP, with seals."""
    long = own.root / ("d" * 107)
    with tempfile.TemporaryDirectory(prefix="psgd-run-") as run_time:
        for number in range(2):
            own.start(1, work=long / str(number), XDG_RUNTIME_DIR=run_time)
        assert [path.name for path in sorted(Path(run_time).glob("*/*"))] == ["agent.sock"] * 2
        assert own.run(Seals, tmp_path / "short").results == {0: {1: False}, 1: {0: False}}
        for agent in own.agents:
            agent.end()
        assert not list(Path(run_time).iterdir())
    (agent,) = own.start(1, work=long / "other")
    assert "use TCP, sealed, and share no memory" in agent.console
