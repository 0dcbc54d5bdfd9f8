"""Two ends of a real connection: Request and Serve, through a proxy that counts, and with a process that is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from network import Controller, NetworkError, NodeAssignment, PeerLost, Request, Serve, TimedOut
from network.errors import NotReached
from network.keys import KeyFileError
from network.testing import Proxy
from tests.processes.harness import make_key

from ..statements import covers

LIMIT = 10.0


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    make_key(path)
    return path


@contextlib.contextmanager
def in_background(com: Controller) -> Iterator[None]:
    """Close `com` in another thread: each side waits for the other to close, too."""
    thread = threading.Thread(target=com.close)
    thread.start()
    yield
    thread.join()


def connect(serve: Serve, key_file: Path, port: int | None = None, node: int = 5) -> tuple[Controller, Controller]:
    """Both ends of a connection between this thread and another."""
    found: list[Controller] = []
    thread = threading.Thread(target=lambda: found.append(serve.acquire(LIMIT)))
    thread.start()
    address = f"127.0.0.1:{port or serve.address.port}"
    com = Request(key_file).request(NodeAssignment().add(node, address))
    thread.join()
    return com, found[0]


def test_a_submitter_and_a_server_talk(key_file: Path) -> None:
    with Serve(key_file=key_file) as serve:
        assert serve.address.port > 0
        for _ in range(2):  # one submitter after another
            com, served = connect(serve, key_file)
            assert (com.node_id, served.node_id) == (-1, 5)
            assert com.available_clients == [5]
            assert served.available_clients == [-1]
            com.send_one(5, {"x": np.arange(3)})
            found = served.get_one(timeout=LIMIT)
            assert found is not None
            assert found[0] == -1
            served.send_one(-1, "done")
            assert com.get_one(timeout=LIMIT) == (5, "done")
            with in_background(com):
                served.close()


@covers("SUB-40")
@pytest.mark.parametrize("kilobytes", [0, 20_000])
def test_bytes_are_what_a_proxy_counts(key_file: Path, kilobytes: int) -> None:
    """Bytes sent and read, handshake and farewell included, equal a proxy's own count to the byte."""
    with Serve(key_file=key_file) as serve, Proxy() as proxy:
        route = proxy.route(serve.address)
        assert route.address is not None
        com, served = connect(serve, key_file, route.address.port)
        for value in (None, {"a": 1}, np.zeros(kilobytes * 1024, np.uint8)):
            sender = threading.Thread(target=com.send_one, args=(5, value))
            sender.start()
            served.get_one(timeout=LIMIT)
            sender.join()
            served.send_one(-1, "thanks")
            com.get_one(timeout=LIMIT)
        with in_background(com):
            served.close()
        assert route.there.passed == com.bytes_sent == served.bytes_read > kilobytes * 1024
        assert route.back.passed == com.bytes_read == served.bytes_sent


CHILD = """
import sys
from network import Request, NodeAssignment
com = Request(sys.argv[1]).request(NodeAssignment().add(7, sys.argv[2]))
com.send_one(7, "here")
com.get_one()
"""


@pytest.mark.alone
def test_a_killed_process_is_lost_within_a_second_by_name(key_file: Path) -> None:
    """The peer's SIGKILL ends a wait for it; the error names node and address."""
    with Serve(key_file=key_file) as serve:
        child = subprocess.Popen([sys.executable, "-c", CHILD, key_file, str(serve.address)], start_new_session=True)
        try:
            com = serve.acquire(LIMIT)
            assert com.get_one(timeout=LIMIT) == (-1, "here")
            address = com.sessions[-1].link.peer
            os.kill(child.pid, signal.SIGKILL)
            start = time.monotonic()
            with pytest.raises(PeerLost) as caught:
                com.get_one(timeout=LIMIT)
            assert time.monotonic() - start < 1.0
            assert str(caught.value).startswith(f"Node(-1) at {address} is lost: ")
            com.close()
        finally:
            child.kill()
            child.wait()


def test_every_address_that_fails_is_named_and_nothing_stays_open(key_file: Path) -> None:
    with Serve(key_file=key_file) as serve, socket.create_server(("127.0.0.1", 0)) as silent:
        nodes = NodeAssignment().add(0, f"127.0.0.1:{silent.getsockname()[1]}").add(1, "127.0.0.1:1")
        nodes.add(2, str(serve.address))
        with pytest.raises(NetworkError) as caught:
            Request(key_file).request(nodes, limit=0.3)
        text = str(caught.value)
        assert str(nodes[0]) in text
        advice = "Start one on this machine with 'psgd-worker --port 1'."
        assert f"No worker is reached at 127.0.0.1:1 for node 1: Connection refused. {advice}" in text


def test_an_address_to_which_there_is_no_way(key_file: Path) -> None:
    with pytest.raises(NotReached, match=r"^No worker is reached at 255\.255\.255\.255:1 for node 0: .* Is the address right"):
        Request(key_file).request(NodeAssignment().add(0, "255.255.255.255:1"))


def test_the_wrong_key_names_the_address_and_what_to_compare(key_file: Path, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    with Serve(key_file=key_file) as serve:

        def wait_in_vain() -> None:
            with pytest.raises(TimedOut, match=r"after 0\.3 s waiting for a submitter to connect"):
                serve.acquire(0.3)

        thread = threading.Thread(target=wait_in_vain)
        thread.start()
        nodes = NodeAssignment(tmp_path / "other").add(0, str(serve.address))
        with pytest.raises(NetworkError, match=rf"node 0 at {serve.address}: .*wrong key; compare key files"):
            Request().request(nodes)
        thread.join()


def test_what_cannot_be_called_is_refused(key_file: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="absent does not exist"):
        Request(tmp_path / "absent").request(NodeAssignment().add(0, "127.0.0.1"))
    with pytest.raises(ValueError, match="needs at least one node, got an empty NodeAssignment"):
        Request(key_file).request(NodeAssignment())


@covers("SEC-15")
@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.7:0", "some-host:0"])
def test_off_loopback_a_key_file_must_be_named(address: str) -> None:
    with pytest.raises(NetworkError, match=r"needs an explicit key file: make one with 'psgd-worker --new-key'"):
        Serve(address)


def test_off_loopback_with_a_key_file_it_listens(key_file: Path) -> None:
    with Serve("0.0.0.0:0", key_file) as serve:
        com, served = connect(serve, key_file)
        com.close(graceful=False)
        served.close(graceful=False)


@covers("SEC-1", "SEC-9")
def test_strangers_and_idlers_do_not_keep_a_submitter_out(key_file: Path) -> None:
    with contextlib.ExitStack() as stack:
        serve = stack.enter_context(Serve(key_file=key_file))
        for number in range(30):
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", serve.address.port)))
            if number % 2:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        com, served = connect(serve, key_file)
        com.send_one(5, "in")
        assert served.get_one(timeout=LIMIT) == (-1, "in")
        with in_background(com):
            served.close()
