"""What an agent says when it starts."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
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
