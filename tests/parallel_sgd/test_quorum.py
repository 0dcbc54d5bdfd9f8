"""Whether those who do not answer could go on without us: real sockets, of hosts without an agent and of silent ones."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from network import NodeAssignment, Request
from network.keys import new_key
from parallel_sgd import quorum
from parallel_sgd.quorum import silent_majority


class Hosts:
    """Ports of this machine behind which nobody is, and others that take a connection and say nothing."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def _bound(self) -> socket.socket:
        sock = self._stack.enter_context(socket.socket())
        sock.bind(("127.0.0.1", 0))
        return sock

    def nodes(self, kinds: str) -> NodeAssignment:
        """One node for each letter: `g`one, `s`ilent."""
        made = NodeAssignment()
        for node, kind in enumerate(kinds):
            sock = self._bound()  # bound, so that nobody else gets the port; who does not listen refuses
            if kind == "s":
                sock.listen(8)
            made.add(node, f"127.0.0.1:{sock.getsockname()[1]}")
        return made


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with ExitStack() as stack:
        yield Hosts(stack)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("kinds", "lost", "submitter", "heir"),
    [
        ("ggg", [], True, True),
        ("ggg", [1, 2], True, True),  # there is no agent, so there is no process: nobody is on the other side
        ("gsg", [1], True, True),
        ("gss", [1, 2], False, False),  # two of three could drive without us
        ("gs", [1], True, False),  # one of two cannot, but neither may an heir
        ("ggss", [2, 3], True, False),
        ("ssgg", [0, 1, 2], True, False),
    ],
)
def test_who_may_go_on(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, kinds: str, lost: list[int], submitter: bool, heir: bool
) -> None:
    """A side that is not the majority of the last generation pauses instead of driving."""
    monkeypatch.setattr(quorum, "ANSWER_SECONDS", 0.1)
    nodes, request = hosts.nodes(kinds), Request(key=new_key())
    assert (silent_majority(request, nodes, lost, submitter=True) == "") is submitter
    told = silent_majority(request, nodes, lost, submitter=False)
    assert (told == "") is heir
    for node in lost:
        assert (f"Node({node}) at {nodes[node]}" in told) is (not heir and kinds[node] == "s")
