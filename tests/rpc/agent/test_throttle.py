"""Log lines that strangers cause are limited."""

from __future__ import annotations

from network.testing import VirtualClock
from rpc.agent.throttle import LINES_IN_ALL, LINES_PER_PEER, WINDOW_SECONDS, Throttle


def test_one_host() -> None:
    """Whatever port it calls from, a host causes ten lines a minute; the number of the others is told afterwards."""
    clock = VirtualClock()
    throttle = Throttle(clock)
    written = [line for port in range(50) for line in throttle.pass_on(f"10.0.0.1:{port}", f"line {port}")]
    assert written == [f"line {port}" for port in range(LINES_PER_PEER)]
    assert throttle.pass_on("10.0.0.2:1", "another host") == ["another host"]
    clock.advance(WINDOW_SECONDS)
    assert throttle.pass_on("10.0.0.1:1", "again") == [f"{50 - LINES_PER_PEER} more lines of this kind were left out.", "again"]


def test_many_hosts() -> None:
    throttle = Throttle(VirtualClock())
    written = [line for host in range(1000) for line in throttle.pass_on(f"[::{host:x}]:1", "x")]
    assert len(written) == LINES_IN_ALL
