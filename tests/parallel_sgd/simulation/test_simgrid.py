"""SimGrid: times that its documentation and tests print, and its Python binding on the same flows where it is installed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from benchmarks.simulation.peer import ABSENT, EVEN, peer_python, simulate
from parallel_sgd.simulation.platform import Platform
from tests.statements import covers

from .driver import ends, run

SLOW = {"bandwidth": 125_000.0, "latency": 10e-3}  # 1 Mb/s
PING_PONG = {"bandwidth": 7.20975e6, "latency": 1.461517e-3}
WINDOW = 4_194_304.0


def star(**fields: Any) -> Platform:
    return Platform("star", model="flow", **fields)


def as_simgrid(factors: str) -> dict[str, Any]:
    """Return its model of one link that both directions share, with acknowledgements."""
    return {"factors": factors, "duplex": "half", "cross_traffic": True, "window": WINDOW}


@covers("SIM-5", "SIM-12")
@pytest.mark.parametrize(("settings", "seconds"), [({}, "0.810000"), (as_simgrid("LV08"), "0.996079")])
def test_a_message_of_100_kilobytes(settings: dict[str, Any], seconds: str) -> None:
    (end,) = ends(star(**SLOW, **settings), [0, 1], [(0, 1, 100_000)])
    assert f"{end:.6f}" == seconds


@covers("SIM-5", "SIM-12")
@pytest.mark.parametrize(
    ("settings", "seconds"),
    [({}, "138.703988"), (as_simgrid("CM02"), "145.639041"), (as_simgrid("LV08"), "150.178356")],
)
def test_a_ping_of_one_byte_and_a_pong_of_one_gigabyte(settings: dict[str, Any], seconds: str) -> None:
    platform = star(**PING_PONG, **settings)
    arrivals = run(platform, [0, 1], [(0, 1, 1, "ping")], lambda _s, _t, item: [(1, 0, 1e9, "pong")] if item == "ping" else [])
    assert f"{arrivals[-1][0]:.6f}" == seconds


@covers("SIM-5", "SIM-12")
@pytest.mark.parametrize(
    ("latency", "seconds"), [(0.0, "1.000000"), (1e-5, "1.000010"), (1e-3, "4.769372"), (0.1, "476.937158")]
)
def test_the_window_limits_the_rate(latency: float, seconds: str) -> None:
    (end,) = ends(star(bandwidth=1e10, latency=latency, window=WINDOW), [0, 1], [(0, 1, 1e10)])
    assert f"{end:.6f}" == seconds


@covers("SIM-5", "SIM-12")
def test_a_link_that_loses_bandwidth_with_each_flow() -> None:
    """Of nine flows of 1 to 9 MB: each stage carries 1 MB of each that is left."""
    platform = star(bandwidth=1e6, latency=1e-5, factors="LV08", fading=0.1)
    found = ends(platform, range(10), [(number, 0, number * 1e6) for number in range(1, 10)])
    expected, end = [], 13.01e-5
    for flows in range(9, 0, -1):
        end += flows * 1e6 / (0.97e6 * (1 - (flows - 1) / 10))
        expected.append(end)
    assert found == pytest.approx(expected, rel=1e-12)
    assert (f"{found[0]:.6f}", f"{found[-1]:.6f}") == ("46.391883", "125.965602")


@covers("SIM-5", "SIM-12")
def test_a_link_that_two_flows_share_at_a_time() -> None:
    """Ten of 1 MB begin together; their latency passes while they wait."""
    platform = star(bandwidth=1e10, latency=1e-5, factors="LV08", limit=2)
    found = ends(platform, range(11), [(number, 0, 1e6) for number in range(1, 11)])
    pairs = ["0.000336", "0.000542", "0.000749", "0.000955", "0.001161"]
    assert [f"{end:.6f}" for end in found] == [pair for pair in pairs for _ in range(2)]


Flows = list[tuple[int, int, int]]


def incast(generator: random.Random) -> tuple[int, Flows]:
    return 1001, [(number, 0, generator.randrange(10_000, 1_000_000)) for number in range(1, 1001)]


def among(hosts: int, count: int, generator: random.Random) -> tuple[int, Flows]:
    pairs = [(source, target) for source in range(hosts) for target in range(hosts) if source != target]
    return hosts, [(*pair, generator.randrange(10_000, 1_000_000)) for pair in generator.sample(pairs, count)]


def random_pairs(generator: random.Random) -> tuple[int, Flows]:
    return among(1000, 1000, generator)


def crowded_pairs(generator: random.Random) -> tuple[int, Flows]:
    return among(60, 1000, generator)


@pytest.mark.share(3)
@covers("SIM-13")
@pytest.mark.processes
@pytest.mark.parametrize("make", [incast, random_pairs, crowded_pairs])
@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        ({}, EVEN),
        ({"factors": "LV08", "cross_traffic": True, "window": WINDOW}, ("model:LV08", "crosstraffic:1")),
    ],
    ids=["even", "LV08"],
)
def test_its_binding_ends_a_thousand_flows_at_the_same_times(
    make: Any, fields: dict[str, Any], settings: tuple[str, ...]
) -> None:
    """Under `network/optim:Full`: by default a flow may be faster than its link."""
    python = peer_python()
    if python is None:
        pytest.skip(ABSENT)
    hosts, flows = make(random.Random(7))
    theirs = simulate(python, {"kind": "flows", "hosts": hosts, "flows": flows}, settings)["ends"]
    assert ends(star(bandwidth=125e6, latency=50e-6, **fields), range(hosts), flows) == pytest.approx(theirs, rel=1e-9)
