"""Opening sessions: within the limit, to the right one, and every failure names the address."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from network.acceptor import Accept, Acceptor, Authenticated
from network.dial import CannotConnect, Target, advised, dial, dial_all
from network.errors import NetworkError, PeerLost, ProtocolError, Rejected, TimedOut
from network.hello import Hint, Refused
from network.key_files import by_flag, key_origin
from network.keys import Key, Keyring
from network.nodes import Address
from network.session import Session
from network.transport import PortInUse, SocketLink, listen_tcp, listen_unix, resolve, wait_sockets

from ..statements import covers

KEY, OTHER_KEY = Key(b"1" * 32), Key(b"2" * 32)


class Server:
    """An agent's acceptor in a thread of its own."""

    def __init__(self, listener: socket.socket, terms: Accept) -> None:
        self._listener = listener
        self._acceptor = Acceptor(lambda _hello: terms)
        self.sessions: list[Session] = []
        self._waker, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            wait_sockets([self._listener, self._woken, *self._acceptor.links], [], 5)
            with contextlib.suppress(BlockingIOError):
                self._woken.recv(1, socket.MSG_DONTWAIT)
                return
            with contextlib.suppress(BlockingIOError):
                self._acceptor.add(self._listener.accept()[0])
            self.sessions += [o.session for o in self._acceptor.step() if isinstance(o, Authenticated)]

    def close(self) -> None:
        self._waker.send(b"!")
        self._thread.join()
        self._acceptor.close()
        for session in self.sessions:
            session.close()
        for sock in (self._waker, self._woken, self._listener):
            sock.close()


@contextlib.contextmanager
def serving(host: str = "127.0.0.1", listener: socket.socket | None = None, **caps: Any) -> Iterator[tuple[Address, Server]]:
    """An agent that lets submitters in, over TCP or by a listener of its own."""
    listener = listener or listen_tcp(Address(host, 0))
    name = listener.getsockname()
    with contextlib.closing(Server(listener, Accept({"submitter": Keyring((KEY,))}, "agent", "", caps))) as server:
        yield Address(host, name[1] if isinstance(name, tuple) else 1), server


@contextlib.contextmanager
def behaving(behave: Callable[[socket.socket], object]) -> Iterator[Address]:
    """A server that does `behave(connection)` with its first visitor."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            connection, _ = listener.accept()
            with connection:
                behave(connection)

        thread = threading.Thread(target=run)
        thread.start()
        yield Address(*listener.getsockname())
        thread.join()


def target(address: Address, key: Key = KEY, **more: Any) -> Target:
    return Target(address, key, "submitter", **{"expect": "agent", "node_id": 3, **more})


def failure(goal: Target, kind: type[NetworkError] = NetworkError, limit: float = 60.0) -> str:
    with pytest.raises(kind) as caught:
        dial(goal, limit)
    assert str(goal.address) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_a_session_opens(host: str) -> None:
    with serving("127.0.0.1" if host == "localhost" else host, slots=2) as (bound, _):
        address = Address(host, bound.port)
        with contextlib.closing(dial(target(address))) as session:
            assert (session.alive, session.caps["slots"], session.sealed, session.node_id) == (True, 2, True, 3)
            assert session.peer == f"node 3 ({address})"


@pytest.fixture
def private(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path / "s"


@covers("SEC-4", "SEC-5")
def test_only_a_unix_socket_carries_frames_that_are_not_sealed(private: Path) -> None:
    """On loopback TCP, too, they are, and no side can ask for another thing. A stale socket is replaced."""
    listen_unix(private).close()
    with serving(listener=listen_unix(private)) as (address, _):
        session = dial(target(address, unix_path=str(private)))
        assert not session.sealed and session.link.private
        assert session.link.binding == b"unix uid %d" % os.getuid()
        assert private.stat().st_mode & 0o777 == 0o600
        session.close()
    with serving(seal=False) as (address, _), contextlib.closing(dial(target(address, caps={"seal": False}))) as session:
        assert session.sealed


@covers("SEC-14")
@pytest.mark.parametrize("spoil", ["directory", "file", "missing", "nobody listens"])
def test_a_unix_socket_that_others_could_have_made_is_not_used(private: Path, spoil: str) -> None:
    """The path must be a socket of ours in a directory that only we can enter; where nobody listens, TCP is tried, too."""
    listen_unix(private).close()
    if spoil == "directory":
        private.parent.chmod(0o755)
    elif spoil != "nobody listens":
        private.unlink()
        if spoil == "file":
            private.write_text("")
    with serving() as (address, _), contextlib.closing(dial(target(address, unix_path=str(private)))) as session:
        assert session.link.binding == b""


# ---- failures


def answering(data: bytes) -> Callable[[socket.socket], object]:
    return lambda connection: (connection.recv(1000), connection.sendall(data))


@pytest.mark.parametrize(
    ("behave", "kind", "told"),
    [
        (lambda connection: connection.recv(1000), PeerLost, "closed the connection during the handshake"),
        (answering(b"HTTP/1.1 400 Bad Request\r\n\r\n"), ProtocolError, "not come from a Parallel-SGD program"),
        (answering(bytes([Hint.BAD_KEY])), Refused, "wrong key; compare"),
    ],
)
def test_a_server_that_is_none_of_ours(behave: Callable[[socket.socket], object], kind: type[NetworkError], told: str) -> None:
    with behaving(behave) as address:
        assert told in failure(target(address), kind)


def test_who_is_not_there_or_of_another_role_is_named() -> None:
    with serving() as (address, _):
        assert "must have the role 'peer', got 'agent'" in failure(target(address, expect="peer"), Rejected)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        failure(target(Address(*silent.getsockname())), TimedOut, 0.2)
    with socket.socket() as gone:
        gone.bind(("127.0.0.1", 0))  # a port where nobody listens, and which nobody else gets meanwhile
        address = Address(*gone.getsockname())
        refused = failure(target(address), PeerLost)
    assert refused == f"Node(3) at {address} is lost: cannot connect: Connection refused."


@contextlib.contextmanager
def swallowing() -> Iterator[Address]:
    """An address that answers no call: the kernel drops what comes while the backlog is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield Address(*listener.getsockname())


@covers("SUB-4")
def test_an_address_that_swallows_packets_fails_within_the_limit() -> None:
    """The connect limit counts, not the kernel's two minutes."""
    with swallowing() as address:
        start = time.monotonic()
        error = failure(target(address), TimedOut, 0.3)
        assert 0.25 < time.monotonic() - start < 10.0
        assert "Timed out after 0.3 s waiting for node 3 at 127.0.0.1:" in error


# ---- a name with several addresses


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Address]:
    """Have the name `several` stand for the given addresses, in this order."""

    def stand_for(*addresses: Address) -> Address:
        found = []
        for host, port in addresses:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            found.append((family, socket.SOCK_STREAM, 6, "", (host, port)))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        return Address("several", 1)

    return stand_for


@pytest.mark.parametrize("order", ["silent, there", "refusing, silent, there", "there, silent", "silent, refusing, there"])
def test_the_addresses_of_a_name_are_tried_in_turn(named: Callable[..., Address], order: str) -> None:
    """One that answers nothing holds back the next for a quarter of a second, not until the limit."""
    with swallowing() as silent, serving() as (there, _), socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        known = {"silent": silent, "there": there, "refusing": Address(*nobody.getsockname())}
        start = time.monotonic()
        with contextlib.closing(dial(target(named(*(known[word] for word in order.split(", ")))), 60.0)) as session:
            assert session.alive and session.peer == "node 3 (several:1)"
            assert isinstance(session.link, SocketLink) and session.link.transport == "tcp"
        assert time.monotonic() - start < 20.0


def test_the_limit_is_that_of_all_addresses_together(named: Callable[..., Address]) -> None:
    with swallowing() as one, swallowing() as other:
        start = time.monotonic()
        assert "node 3 at several:1 to answer" in failure(target(named(one, other)), TimedOut, 0.6)
        assert time.monotonic() - start < 10.0


@pytest.mark.parametrize(
    ("hosts", "listen"),
    [(["127.0.0.1"], "0.0.0.0"), (["::1"], "::"), (["::1", "127.0.0.1"], "::"), (["127.0.0.1", "::1"], "::")],
)
def test_advice_is_of_the_family_that_was_called(named: Callable[..., Address], hosts: list[str], listen: str) -> None:
    """What the advice has an agent listen on is reached by the address that was called."""
    with contextlib.ExitStack() as stack:
        goal = named(*(Address(host, free_port(host, stack)) for host in hosts))
        with pytest.raises(CannotConnect) as caught:
            dial(target(goal))
    told = str(advised(caught.value, goal))
    assert told.startswith("No worker is reached at several:1 for node 3: Connection refused. Start one there with ")
    assert f"'psgd worker --listen {listen} --port 1 --key-file FILE'" in told
    here = "Start one on this machine with 'psgd worker --port 1"
    assert str(advised(caught.value, Address("::1", 1))).endswith(f"{here}'.")
    assert str(advised(caught.value, Address("::1", 1), "a key")).endswith(f"{here} --key-file 'a key''.")


def test_a_refused_key_is_told_with_its_place() -> None:
    """Whoever has forgotten an option looks for the file that was taken in place of theirs."""
    refused = Refused(Hint.BAD_KEY, "wrong key.")
    goal = Address("192.168.1.2", 1)
    for given, environ, place in (
        ("own.key", {"PSGD_KEY_FILE": "other.key"}, "own.key"),
        (None, {"PSGD_KEY_FILE": "other.key"}, "other.key"),
        (None, {"PSGD_KEY": "text"}, "the environment variable PSGD_KEY"),
        (None, {"HOME": "/home/me"}, "/home/me/.config/psgd/key"),
    ):
        told = advised(refused, goal, given, key_origin(given, environ))
        assert str(told) == f"wrong key. That key is from {place}; 'key_file' names another."
        assert isinstance(told, Refused) and told.hint == Hint.BAD_KEY
        assert by_flag(str(told)) == f"wrong key. That key is from {place}; --key-file names another.", "to a command"
    assert advised(refused, goal) is refused
    assert advised(busy := Refused(Hint.BUSY, "busy"), goal, origin="a") is busy


def free_port(host: str, stack: contextlib.ExitStack) -> int:
    """A port where nobody listens, and which nobody else gets meanwhile."""
    sock = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
    sock.bind((host, 0))
    return int(sock.getsockname()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_all_addresses_of_both_families_are_listened_on(host: str) -> None:
    """`::` stands for those of IPv4, too, and who calls by one of them is named by it."""
    with serving(listener=listen_tcp(Address("::", 0))) as (bound, server):
        dial(target(Address(host, bound.port))).close()
    assert [each.link.peer.rpartition(":")[0].strip("[]") for each in server.sessions] == [host]


@covers("SEC-14")
def test_an_impostor_gets_nothing_but_the_hello() -> None:
    """The server proves first; without proof no byte follows the hello."""
    heard = bytearray()

    def pretend(connection: socket.socket) -> None:
        connection.settimeout(5)
        hello = connection.recv(1000)
        connection.sendall(b"\0\0\x40" + bytes(0x40) + bytes(32))
        with contextlib.suppress(ConnectionError):
            while data := connection.recv(1000):
                heard.extend(data)
        assert hello.startswith(b"PSGD")

    with behaving(pretend) as address:
        assert "did not prove that it holds key" in failure(target(address))
    assert not heard


def test_many_are_called_at_once_and_each_failure_is_told() -> None:
    """Nothing stays open when a call cannot even be made."""
    with serving() as (good, _), socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as gone:
        gone.bind(("127.0.0.1", 0))
        nobody = Address(*gone.getsockname())
        goals = {0: target(good), 1: target(nobody), 2: target(Address(*silent.getsockname())), 3: target(good, OTHER_KEY)}
        goals |= {node: target(Address(*silent.getsockname())) for node in range(4, 10)}
        start = time.monotonic()
        sessions, errors = dial_all(goals, 1.0)
        assert time.monotonic() - start < 5.0, "seven times a second, one after the other"
        assert (list(sessions), sorted(errors)) == ([0], list(range(1, 10)))
        assert all(str(goals[key].address) in str(error) for key, error in errors.items())
        sessions[0].close()
        with pytest.raises(ValueError, match="caps"):
            dial_all({0: target(good), 1: target(good, caps={"Bad Name": 1})})


def test_what_the_system_cannot_do_is_an_error_that_names_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that nobody knows, or that are none; no descriptors left; a slow name server costs no more than the limit."""
    for host in ("a" * 300, "a..b"):
        assert failure(target(Address(host, 1))).startswith(f"The host name in {host}:1 cannot be resolved: ")

    def raising(error: OSError) -> Callable[..., Any]:
        def act(*_: Any, **__: Any) -> Any:
            raise error

        return act

    with monkeypatch.context() as patch:
        patch.setattr("network.dial.socket.socket", raising(OSError(24, "Too many open files")))
        assert "Too many open files" in failure(target(Address("127.0.0.1", 1)))
    monkeypatch.setattr(socket, "getaddrinfo", raising(socket.gaierror(socket.EAI_NONAME, "Name or service not known")))
    unknown = "The host name in no-such-host:1 cannot be resolved: Name or service not known"
    assert failure(target(Address("no-such-host", 1))).startswith(unknown)
    answer = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answer.wait(60) and [])
    with pytest.raises(TimedOut, match=r"after 0\.2 s waiting for the name server to resolve slow-host"):
        resolve(Address("slow-host", 1), 0.2)
    answer.set()


@covers("SUB-39")
def test_where_nobody_can_listen_is_told_with_what_to_do(tmp_path: Path) -> None:
    with listen_tcp(Address("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        told = rf"Port {port} on 127\.0\.0\.1 is in use, by .*--port, or 0 for a free one"
        with pytest.raises(PortInUse, match=told) as caught:
            listen_tcp(Address("127.0.0.1", port))
        if sys.platform == "linux":
            holder, user = caught.value.holder, pwd.getpwuid(os.getuid()).pw_name
            assert f"process {os.getpid()} (" in holder and holder.endswith(f" of user {user}")
    with pytest.raises(NetworkError, match=r"Cannot listen on 192\.0\.2\.1:0: "):
        listen_tcp(Address("192.0.2.1", 0))
    with pytest.raises(NetworkError, match="may have 107 bytes"):
        listen_unix(tmp_path / ("x" * 120))
    (tmp_path / "d").mkdir()
    if len(str(tmp_path / "d")) <= 107:
        with pytest.raises(NetworkError, match="Cannot listen on"):
            listen_unix(tmp_path / "d")
