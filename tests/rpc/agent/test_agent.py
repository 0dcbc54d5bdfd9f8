"""What an agent says when it starts."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from network import transport
from network.keys import Keyring, new_key
from rpc.agent.agent import Agent
from rpc.agent.settings import AgentSettings


@pytest.mark.parametrize(
    ("number", "is_told"),
    [(errno.EACCES, True), (errno.EMFILE, True), (errno.EAFNOSUPPORT, False), (errno.EADDRNOTAVAIL, False)],
)
def test_why_it_does_not_listen_on_ipv6(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int, is_told: bool
) -> None:
    """A warning says it, but for a machine without IPv6, where nobody expects it."""
    make = socket.socket

    def refusing(family: int = -1, *arguments: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(number, os.strerror(number))
        return make(family, *arguments)

    monkeypatch.setattr(transport.socket, "socket", refusing)
    settings = AgentSettings(port=0, work_dir=str(tmp_path / "work"), keyring=Keyring((new_key(),)))
    with contextlib.closing(Agent(settings)) as agent:
        told = f"Cannot listen on [::1]:{agent.address.port}: {os.strerror(number)}. Who calls this worker by a name"
        assert any(message.startswith(told) for message in caplog.messages) == is_told


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder in which a Unix socket has room for its name."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("long_name", "has_runtime", "expected"),
    [(False, True, "work"), (False, False, "work"), (True, True, "run"), (True, False, "")],
)
def test_where_its_unix_socket_is(
    short: Path, monkeypatch: pytest.MonkeyPatch, long_name: bool, has_runtime: bool, expected: str
) -> None:
    """In the work directory; where its path is too long for a socket in the user's own folder for such, if there is one."""
    work, run = short / ("w" * 100 if long_name else "w"), short / "r"
    run.mkdir()
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    if has_runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    with contextlib.closing(Agent(AgentSettings(port=0, work_dir=str(work), keyring=Keyring((new_key(),))))):
        found = [name for name, folder in (("work", work), ("run", run)) if any(map(Path.is_socket, folder.rglob("*")))]
    assert found == [expected] * bool(expected)
    assert list(run.iterdir()) == []
