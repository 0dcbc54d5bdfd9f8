"""Routes: which links a message passes in each shape of platform, and the times that follow."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.simulation.schedules import drive
from network.nodes import PARAMETER_SERVER
from parallel_sgd.simulation.network import network_of
from parallel_sgd.simulation.platform import Platform
from parallel_sgd.simulation.platform_text import parse_platform
from parallel_sgd.simulation.routes import Routes
from tests.statements import covers

from .driver import ends

TWO_SITES = "two sites 8Mbit/s 2ms, thin link 800kbit/s 20ms"
FAT_TREE = "fat tree 8Mbit/s 2ms, 2 hosts per leaf, 2 spines"


@covers("SIM-5")
@pytest.mark.parametrize(
    ("text", "nodes", "pair", "links"),
    [
        ("star 8Mbit/s 2ms", 3, (0, 2), ["port 0 out", "port 2 in"]),
        ("star 8Mbit/s 2ms half duplex", 3, (2, 0), ["port 2", "port 0"]),
        ("star 8Mbit/s 2ms backbone 1Mbit/s", 3, (0, 2), ["port 0 out", "backbone", "port 2 in"]),
        ("star 8Mbit/s 2ms 2 nodes per host", 4, (1, 2), ["port 0 out", "port 1 in"]),
        ("star 8Mbit/s 2ms 2 nodes per host", 4, (2, 3), []),
        ("mesh 8Mbit/s 2ms", 3, (0, 2), ["0 to 2"]),
        ("ring 8Mbit/s 2ms", 6, (1, 3), ["1 to 2", "2 to 3"]),
        ("ring 8Mbit/s 2ms", 6, (1, 4), ["1 to 2", "2 to 3", "3 to 4"]),
        ("ring 8Mbit/s 2ms", 6, (4, 1), ["4 to 5", "5 to 0", "0 to 1"]),
        ("ring 8Mbit/s 2ms", 6, (1, 5), ["1 to 0", "0 to 5"]),
        ("ring 8Mbit/s 2ms alpha-beta", 6, (1, 4), ["1 to 2", "3 to 4"]),
        (TWO_SITES, 5, (0, 2), ["port 0 out", "port 2 in"]),
        (TWO_SITES, 5, (0, 3), ["port 0 out", "thin link there", "port 3 in"]),
        (TWO_SITES, 5, (4, 1), ["port 4 out", "thin link back", "port 1 in"]),
        (TWO_SITES + " 1 hosts near", 5, (0, 1), ["port 0 out", "thin link there", "port 1 in"]),
        (FAT_TREE, 6, (0, 1), ["port 0 out", "port 1 in"]),
        (FAT_TREE, 6, (0, 2), ["port 0 out", "leaf 0 to spine 0", "spine 0 to leaf 1", "port 2 in"]),
        (FAT_TREE, 6, (0, 5), ["port 0 out", "leaf 0 to spine 1", "spine 1 to leaf 2", "port 5 in"]),
        (FAT_TREE + " half duplex", 6, (3, 0), ["port 3", "leaf 1 and spine 0", "leaf 0 and spine 0", "port 0"]),
    ],
)
def test_a_message_passes_these_links(text: str, nodes: int, pair: tuple[int, int], links: list[str]) -> None:
    routes = Routes(parse_platform(text), range(nodes))
    assert [routes.links[link].name for link in routes.between(*pair).links] == links


ONE = 10_000.0
"""Bytes that take 10 ms at 8 Mbit/s."""


@pytest.mark.parametrize(
    ("text", "messages", "seconds"),
    [
        ("star 8Mbit/s 2ms", [(0, 1), (0, 2)], [22e-3, 22e-3]),
        ("star 8Mbit/s 2ms fifo", [(0, 1), (0, 2)], [12e-3, 22e-3]),
        ("star 8Mbit/s 2ms", [(0, 1), (1, 0)], [12e-3, 12e-3]),
        ("star 8Mbit/s 2ms half duplex", [(0, 1), (1, 0)], [22e-3, 22e-3]),
        ("star 8Mbit/s 2ms half duplex fifo", [(0, 1), (1, 2)], [20e-3, 12e-3]),
        ("star 8Mbit/s 2ms backbone 8Mbit/s", [(0, 1), (2, 3)], [22e-3, 22e-3]),
        ("star 8Mbit/s 2ms 2 nodes per host", [(0, 2), (1, 4)], [22e-3, 22e-3]),
        ("star 8Mbit/s 2ms 2 nodes per host local 80Mbit/s 1ms", [(0, 1), (0, 1)], [2e-3, 3e-3]),
        ("star 8Mbit/s 2ms 2 nodes per host fifo local 80Mbit/s 1ms", [(0, 1), (0, 1)], [2e-3, 3e-3]),
        ("star 8Mbit/s 2ms 2 nodes per host", [(0, 1)], [0.0]),
        ("mesh 8Mbit/s 2ms", [(0, 1), (0, 2), (3, 1)], [12e-3] * 3),
        ("ring 8Mbit/s 2ms", [(0, 2), (1, 2)], [22e-3, 20e-3]),
        ("ring 8Mbit/s 2ms alpha-beta fifo", [(0, 2), (1, 2)], [20e-3, 12e-3]),
        ("ring 8Mbit/s 2ms store-and-forward", [(0, 2), (1, 2)], [24e-3, 12e-3]),
        (TWO_SITES + " 6 hosts", [(0, 3), (1, 4), (3, 0), (0, 1)], [222e-3, 222e-3, 122e-3, 12e-3]),
        (TWO_SITES + " 6 hosts alpha-beta fifo", [(0, 3), (1, 4)], [122e-3, 122e-3]),
        (TWO_SITES + " 6 hosts alpha-beta", [(0, 3), (1, 4)], [122e-3, 122e-3]),
        (FAT_TREE, [(0, 2), (1, 4)], [24e-3, 24e-3]),
        (FAT_TREE, [(0, 2), (1, 3)], [14e-3, 14e-3]),
    ],
)
def test_messages_of_ten_milliseconds_arrive_at(text: str, messages: list[tuple[int, int]], seconds: list[float]) -> None:
    assert ends(text, range(6), [(*pair, ONE) for pair in messages]) == pytest.approx(seconds, rel=1e-12)


def test_a_measured_matrix_has_ports_as_fast_as_their_fastest_pair() -> None:
    rows: dict[str, Any] = {
        "latencies": [[0, 1e-3, 2e-3], [3e-3, 0, 4e-3], [5e-3, 6e-3, 0]],
        "bandwidths": [[0, 1e6, 5e5], [1e6, 0, 1e6], [2e6, 1e6, 0]],
    }
    for ports in ("fair", "fifo"):
        platform = Platform("matrix", ports=ports, **rows)
        for pair, seconds in {(0, 1): 11e-3, (0, 2): 22e-3, (2, 0): 10e-3}.items():
            assert ends(platform, range(3), [(*pair, ONE)]) == pytest.approx([seconds])
    both = [(1, 2, ONE), (1, 0, ONE)]
    assert ends(Platform("matrix", ports="fifo", **rows), range(3), both) == pytest.approx([14e-3, 23e-3])
    # the port is shared from 4 ms on, when the first has waited for 1 ms more
    assert ends(Platform("matrix", **rows), range(3), both) == pytest.approx([23e-3, 22e-3])


def test_the_parameter_server_has_the_place_behind_the_workers() -> None:
    network = network_of(parse_platform("star 8Mbit/s 2ms fifo"), [0, 1, PARAMETER_SERVER])
    arrivals = drive(network, [(0, PARAMETER_SERVER, ONE, None), (1, PARAMETER_SERVER, ONE, None)])
    assert [moment for moment, *_ in arrivals] == pytest.approx([12e-3, 22e-3])
    assert [use.link for use in network.busy()] == ["port 0 out", "port 1 out", "port 2 in"]


@pytest.mark.parametrize("ports", ["fair", "fifo"])
def test_the_use_of_links_is_told_in_bytes_and_seconds(ports: str) -> None:
    network = network_of(parse_platform(f"star 8Mbit/s 2ms {ports}"), range(3))
    drive(network, [(0, 1, ONE, None), (0, 2, ONE, None)])
    assert network.busy() == [("port 0 out", 2 * ONE, 20e-3), ("port 1 in", ONE, 10e-3), ("port 2 in", ONE, 10e-3)]
