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
from pathlib import Path

import numpy as np
import pytest

from network import Controller, NetworkError, NodeAssignment, PeerLost, Request, Serve, TimedOut
from network.errors import NotReached
from network.keys import KeyFileError
from network.testing import Proxy
from tests.processes.harness import make_key

from ..stated_time import in_time
from ..statements import covers

LIMIT = 60.0


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    make_key(tmp_path / "key")
    return tmp_path / "key"


def close(com: Controller, served: Controller) -> None:
    """Each side waits for the other to close, too."""
    thread = threading.Thread(target=com.close)
    thread.start()
    served.close()
    thread.join()


def connect(serve: Serve, key_file: Path, port: int | None = None) -> tuple[Controller, Controller]:
    """Both ends of a connection between this thread and another."""
    found: list[Controller] = []
    thread = threading.Thread(target=lambda: found.append(serve.acquire(LIMIT)))
    thread.start()
    com = Request(key_file).request(NodeAssignment().add(5, f"127.0.0.1:{port or serve.address.port}"))
    thread.join()
    return com, found[0]


@covers("SEC-1", "SEC-9")
def test_a_submitter_and_a_server_talk(key_file: Path) -> None:
    """One submitter after another, also off loopback; strangers and idlers do not keep them out."""
    with contextlib.ExitStack() as stack:
        for name in ("127.0.0.1:0", "0.0.0.0:0"):
            serve = stack.enter_context(Serve(name, key_file))
            assert serve.address.port > 0
            for number in range(30):
                stranger = stack.enter_context(socket.create_connection(("127.0.0.1", serve.address.port)))
                if number % 2:
                    stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            for _ in range(2):
                com, served = connect(serve, key_file)
                assert (com.node_id, served.node_id) == (-1, 5)
                assert (com.available_clients, served.available_clients) == ([5], [-1])
                com.send_one(5, {"x": np.arange(3)})
                found = served.get_one(timeout=LIMIT)
                assert found is not None and found[0] == -1
                served.send_one(-1, "done")
                assert com.get_one(timeout=LIMIT) == (5, "done")
                close(com, served)


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
        close(com, served)
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
            took = time.monotonic() - start
            assert str(caught.value).startswith(f"Node(-1) at {address} is lost: ")
            com.close()
            in_time(took, 1.0)
        finally:
            child.kill()
            child.wait()


def test_every_address_that_fails_is_named_and_nothing_stays_open(key_file: Path) -> None:
    with Serve(key_file=key_file) as serve, socket.create_server(("127.0.0.1", 0)) as silent:
        nodes = NodeAssignment().add(0, f"127.0.0.1:{silent.getsockname()[1]}").add(1, "127.0.0.1:1")
        with pytest.raises(NetworkError) as caught:
            Request(key_file).request(nodes.add(2, str(serve.address)), limit=0.3)
    advice = f"Start one on this machine with 'psgd worker --port 1 --key-file {key_file}'."
    assert str(nodes[0]) in str(caught.value)
    assert f"No worker is reached at 127.0.0.1:1 for node 1: Connection refused. {advice}" in str(caught.value)
    with pytest.raises(NotReached, match=r"^No worker is reached at 255\.255\.255\.255:1 for node 0: .* Is the address right"):
        Request(key_file).request(NodeAssignment().add(0, "255.255.255.255:1"))


def test_the_wrong_key_names_the_address_and_what_to_compare(key_file: Path, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    with Serve(key_file=key_file) as serve:
        told = threading.Event()

        def wait_in_vain() -> None:
            while not told.is_set():  # somebody waits for as long as it takes to be refused
                with pytest.raises(TimedOut, match=r"after 0\.3 s waiting for a submitter to connect"):
                    serve.acquire(0.3)

        thread = threading.Thread(target=wait_in_vain)
        thread.start()
        nodes = NodeAssignment(tmp_path / "other").add(0, str(serve.address))
        with pytest.raises(NetworkError, match=rf"node 0 at {serve.address}: .*wrong key; compare key files"):
            Request().request(nodes, limit=LIMIT)
        told.set()
        thread.join()


@covers("SEC-15")
def test_what_cannot_be_called_or_served_is_refused(key_file: Path, tmp_path: Path) -> None:
    """Off loopback a key file must be named."""
    with pytest.raises(KeyFileError, match="absent does not exist"):
        Request(tmp_path / "absent").request(NodeAssignment().add(0, "127.0.0.1"))
    with pytest.raises(ValueError, match="needs at least one node, got an empty NodeAssignment"):
        Request(key_file).request(NodeAssignment())
    for address in ("0.0.0.0:0", "[::]:0", "192.0.2.7:0", "some-host:0"):
        with pytest.raises(NetworkError, match=r"needs an explicit key file: make one with 'psgd worker --new-key'"):
            Serve(address)
