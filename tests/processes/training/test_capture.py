"""Two hosts, and somebody who records all that goes over the cable between them."""

from __future__ import annotations

import base64
import inspect
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from network.key_files import load_key_file
from rpc.support.identity import code_key, peer_key
from tests.processes import netns
from tests.processes.harness import AgentProcess, cluster
from tests.processes.training import confiding
from tests.processes.training.jobs import line_data
from tests.programs import environment

from ...statements import covers

# Arguments: an interface, and a file for the frames, each behind its length. When its standard input ends, it says how many
# frames it has missed.
CAPTURE = r"""
import select, socket, struct, sys
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
tap.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
tap.bind((sys.argv[1], 0))
print("listening", flush=True)
with open(sys.argv[2], "wb") as file:
    while tap in (ready := select.select([tap, sys.stdin], [], [])[0]):
        frame = tap.recv(1 << 17)
        file.write(len(frame).to_bytes(4, "big") + frame)
print(struct.unpack("II", tap.getsockopt(263, 6, 8))[1])  # PACKET_STATISTICS
"""


@contextmanager
def capture(net: netns.Network, file: Path) -> Iterator[None]:
    command = [*net.on_hub(), sys.executable, "-I", "-c", CAPTURE, "cable", str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "listening\n"
            yield
            assert process.communicate(timeout=30)[0] == "0\n", "frames were missed"
        finally:
            process.kill()


def streams(file: Path) -> list[bytes]:
    """What was said over TCP, in either direction of each connection."""
    recorded, at = file.read_bytes(), 0
    parts: dict[bytes, dict[int, bytes]] = {}
    while at < len(recorded):
        size = int.from_bytes(recorded[at : at + 4], "big")
        packet = recorded[at + 4 + 14 : (at := at + 4 + size)]
        if not packet or packet[0] >> 4 != 4 or packet[9] != 6:  # no TCP over IPv4
            continue
        segment = packet[4 * (packet[0] & 15) : int.from_bytes(packet[2:4], "big")]
        number, data = int.from_bytes(segment[4:8], "big"), segment[4 * (segment[12] >> 4) :]
        said = parts.setdefault(packet[12:20] + segment[:4], {-1: number.to_bytes(4, "big")})
        place = (number - int.from_bytes(said[-1], "big")) % (1 << 32)
        said[place] = max(data, said.get(place, b""), key=len)
    return [b"".join(data for place, data in sorted(said.items()) if place >= 0) for said in parts.values()]


@pytest.mark.long
@covers("SEC-16", "SEC-20")
def test_who_records_the_cable_between_two_hosts_reads_nothing_of_a_job(tmp_path: Path) -> None:
    """No title, layer, row of data, weight, line of the codec's source, word of the log, and no byte of a key; what was said in
    the clear he has as it was."""
    if not netns.available():
        pytest.skip("Network namespaces are made by root on Linux, with ip and unshare.")
    recording, results = tmp_path / "frames", tmp_path / "results"
    with netns.network([-1, 0], [1]) as net, capture(net, recording), cluster(tmp_path / "two") as two:
        for host in (0, 1):
            root, listen = two.root / f"agent-{host}", ("--listen", net.address(host))
            two.agents.append(AgentProcess(root, two.key_file, *listen, on=net.on(host)))
        addresses = [str(agent.await_address().address) for agent in two.agents]
        program = [sys.executable, "-m", confiding.__name__, str(two.key_file), str(results), *addresses]
        environ = environment(tmp_path)
        done = subprocess.run([*net.on(-1), *program], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert sum(confiding.LOGGED in path.read_text() for path in results.rglob("*.log")) == 2, "the logs of both have come"
        (job,) = {path.name.rpartition(".")[0] for agent in two.agents for path in agent.work.glob("jobs/*")}
        key = load_key_file(two.key_file).offered
    said, model = streams(recording), confiding.confided_model()
    assert any(confiding.IN_THE_CLEAR in stream for stream in said), "the capture has not worked"
    assert sum(stream.startswith(b"PSGD") for stream in said) >= 3, "submitter to agent, and to job process, worker to worker"
    keys = [key.secret, *(code_key(key, job, node).secret for node in (0, 1)), peer_key(key, job, 0, 1).secret]
    secrets = {
        "title": [confiding.TITLE.encode()],
        "layer": [confiding.LAYER.encode()],
        "data": [row.tobytes() for part in line_data().load()[::2] for row in part],
        "weights": [store[:16] for store in ((results / "weights").read_bytes(), model.store.values.tobytes())],
        "source": [line.strip().encode() for line in inspect.getsource(confiding).splitlines() if len(line.strip()) > 20],
        "log": [confiding.LOGGED.encode()],
        "keys": [form for k in keys for form in (k[:16], k.hex()[:16].encode(), base64.b64encode(k)[:16])],
    }
    recorded = recording.read_bytes() + b"\n".join(said)
    found = {kind: sum(word in recorded for word in words) for kind, words in secrets.items()}
    assert found == dict.fromkeys(secrets, 0)
