"""Faults of links on virtual time, written as in a fault plan."""

from __future__ import annotations

import pytest

from network.faults.fault import LinkFault, parse_fault
from parallel_sgd.simulation.network import Arrival, LinkNetwork, network_of
from parallel_sgd.simulation.platform_text import parse_platform
from tests.statements import covers

STAR = "star 8Mbit/s 2ms"
PORTS = ("fair", "fifo")
MEGA = 1_000_000.0
"""Bytes that take 1 s at 8 Mbit/s."""


def fault(text: str) -> LinkFault:
    parsed = parse_fault(text)
    assert isinstance(parsed, LinkFault)
    return parsed


def network(ports: str, *faults: str) -> LinkNetwork:
    found = network_of(parse_platform(f"{STAR} {ports}"), range(4))
    for text in faults:
        found.inject(0.0, fault(text))
    return found


def rest(found: LinkNetwork) -> list[Arrival]:
    arrivals: list[Arrival] = []
    while (moment := found.next_moment()) is not None:
        arrivals += found.advance(moment)
    return arrivals


def ends(found: LinkNetwork, *messages: tuple[int, int, float]) -> list[float]:
    for number, message in enumerate(messages):
        found.send(0.0, *message, number)
    return [moment for moment, *_ in sorted(rest(found), key=lambda arrival: str(arrival[3]))]


@covers("SIM-5")
@pytest.mark.parametrize("ports", PORTS)
@pytest.mark.parametrize(
    ("faults", "seconds"),
    [
        (["+500ms 0>1"], 1.502),
        (["+500ms 1>0"], 1.002),
        (["+500ms 0-1"], 1.502),
        (["throttle 0>1 4mbit"], 2.002),
        (["throttle 0>1 80mbit"], 1.002),
        (["throttle 0>1 4mbit", "+500ms 0>1"], 2.502),
        (["lose 0>1 20%"], 1.252),
        (["lose 0>1 20%", "throttle 0>1 4mbit", "+500ms 0>1"], 3.002),
        (["swallow 0>1 for 3s"], 4.002),
    ],
)
def test_a_message_takes_longer(ports: str, faults: list[str], seconds: float) -> None:
    """Bytes over goodput, and delays: throttle and delay together take S / R + delay."""
    assert ends(network(ports, *faults), (0, 1, MEGA)) == pytest.approx([seconds], abs=3e-3 if "swallow" in faults[0] else 1e-9)


@pytest.mark.parametrize("ports", PORTS)
@pytest.mark.parametrize(
    ("faults", "seconds"),
    [
        ([], 1.001),
        (["throttle 0>1 4mbit"], 2.001),
        (["throttle 0>1 4mbit", "+500ms 0>1"], 2.501),
        (["swallow 0>1 for 3s"], 4.001),
        (["lose 0>1 20%"], 1.251),
    ],
)
def test_nodes_of_a_host_have_faults_of_their_links(ports: str, faults: list[str], seconds: float) -> None:
    """Which they have over a path that is no port: two messages follow each other, the other direction has no fault."""
    found = network_of(parse_platform(f"{STAR} 2 nodes per host local 8Mbit/s 1ms {ports}"), range(4))
    for text in faults:
        found.inject(0.0, fault(text))
    there, again, back, others = ends(found, (0, 1, MEGA), (0, 1, MEGA), (1, 0, MEGA), (2, 3, MEGA))
    slack = 2e-3 if faults and "swallow" in faults[0] else 1e-9
    pace = 1.0 if slack > 1e-9 else seconds - 0.001 - (0.5 if "+500ms 0>1" in faults else 0.0)
    assert (there, again) == pytest.approx((seconds, seconds + pace), abs=slack)
    assert (back, others) == pytest.approx((1.001, 1.001), abs=1e-9)


@pytest.mark.parametrize("ports", PORTS)
@pytest.mark.parametrize("text", ["lose 0>1 100%", "swallow 0>1"])
def test_nothing_of_a_message_arrives(ports: str, text: str) -> None:
    """The other direction, and other pairs, are as they were."""
    found = network(ports, text)
    found.send(0.0, 0, 1, MEGA, "lost")
    found.send(0.0, 1, 0, MEGA, "back")
    found.send(0.0, 2, 3, MEGA, "others")
    assert sorted(str(item) for _, _, _, item in rest(found)) == ["back", "others"]


@pytest.mark.parametrize("ports", PORTS)
def test_a_fault_ends_after_its_seconds(ports: str) -> None:
    found = network(ports, "+500ms 0>1 for 1s")
    arrivals = []
    for moment in (0.0, 0.9, 1.1):
        arrivals += found.advance(moment)
        found.send(moment, 0, 1, 1000.0, moment)
    assert [moment for moment, *_ in arrivals + rest(found)] == pytest.approx([0.503, 1.403, 1.403], abs=2e-3)


@covers("SIM-5")
@pytest.mark.parametrize("ports", PORTS)
def test_jitter_is_drawn_anew_for_each_message_and_keeps_their_order(ports: str) -> None:
    def moments(seed: int) -> list[tuple[float, object]]:
        found = network_of(parse_platform(f"{STAR} {ports}"), range(4), seed)
        found.inject(0.0, fault("+10ms~50ms 0>1"))
        arrivals = []
        for number in range(100):
            arrivals += found.advance(number / 100)
            found.send(number / 100, 0, 1, 100.0, number)
        return [(moment, item) for moment, _, _, item in arrivals + rest(found)]

    drawn = moments(1)
    assert [item for _, item in drawn] == list(range(100))
    delays = [moment - number / 100 for number, (moment, _) in enumerate(drawn)]
    assert all(0.0121 <= delay <= 0.0622 for delay in delays) and max(delays) - min(delays) > 0.03
    assert moments(1) == drawn != moments(2)


def test_a_throttle_holds_from_its_moment_on_where_links_are_shared_fairly() -> None:
    """0.5 s at full rate, 1 s at a quarter, the rest at full rate: 1 MB takes 1.75 s and the latency."""
    found = network("fair")
    found.send(0.0, 0, 1, MEGA, None)
    assert found.advance(0.502) == []
    found.inject(0.502, fault("throttle 0>1 2mbit for 1s"))
    assert [moment for moment, *_ in rest(found)] == pytest.approx([1.752], abs=1e-9)


def test_a_stall_holds_a_flow_on_its_way() -> None:
    found = network("fair")
    found.send(0.0, 0, 1, MEGA, None)
    assert found.advance(0.502) == []
    found.inject(0.502, fault("swallow 0>1 for 2s"))
    assert [moment for moment, *_ in rest(found)] == pytest.approx([3.002], abs=1e-9)


def test_a_throttled_flow_leaves_its_share_to_others() -> None:
    """Node 0 sends to two: one of them is throttled to 2 Mbit/s, the other has the 6 that are left until it has ended."""
    found = network("fair", "throttle 0>1 2mbit")
    assert ends(found, (0, 1, MEGA), (0, 2, MEGA)) == pytest.approx([4.002, 4 / 3 + 0.002], abs=1e-9)


def test_messages_that_wait_for_the_end_of_a_stall_leave_in_their_order() -> None:
    found = network("fifo", "swallow 0>1 for 1s")
    for number in range(3):
        found.send(0.0, 0, 1, 1000.0, number)
    assert found.advance(0.5) == []
    found.send(1.0, 0, 1, 1000.0, 3)
    assert [(round(moment, 9), item) for moment, _, _, item in rest(found)] == [
        (1.003, 0),
        (1.004, 1),
        (1.005, 2),
        (1.006, 3),
    ]


@pytest.mark.parametrize("ports", PORTS)
def test_a_message_behind_a_throttled_one_does_not_overtake_it(ports: str) -> None:
    """The throttle has ended when the second leaves, but the first, which left before, has not arrived."""
    found = network(ports, "throttle 0>1 2mbit for 1s")
    found.send(0.0, 0, 1, MEGA, "first")
    assert found.advance(1.5) == []
    found.send(1.5, 0, 1, 1000.0, "second")
    assert [item for _, _, _, item in rest(found)] == ["first", "second"]


@pytest.mark.parametrize("ports", PORTS)
@pytest.mark.parametrize("text", ["cut 0>1", "duplicate 0>1", "reorder 0-1"])
def test_other_faults_are_refused(ports: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"must be one of delay, throttle, lose, swallow, got '{text}'"):
        network(ports, text)
