"""Invariants of all networks, on schedules that hypothesis draws."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.simulation.schedules import number as number_of
from parallel_sgd.simulation.network import Arrival, network_of
from parallel_sgd.simulation.platform import Platform
from parallel_sgd.simulation.platform_text import parse_platform
from parallel_sgd.simulation.routes import Routes
from parallel_sgd.simulation.sharing import max_min
from tests.sources import ROOT
from tests.statements import covers

NODES = range(6)
TEXTS = (
    "star 8Mbit/s 2ms",
    "star 8Mbit/s 2ms fifo",
    "star 8Mbit/s 2ms flow LV08 cross-traffic window 1000",
    "star 8Mbit/s 2ms half duplex",
    "star 8Mbit/s 2ms limit 2",
    "star 8Mbit/s 2ms fading 20%",
    "star 8Mbit/s 2ms 2 nodes per host local 80Mbit/s 1us",
    "star 8Mbit/s 2ms 2 nodes per host local 80Mbit/s 1us fifo",
    "mesh 8Mbit/s 2ms",
    "ring 8Mbit/s 2ms CM02",
    "ring 8Mbit/s 2ms alpha-beta fifo",
    "ring 8Mbit/s 2ms store-and-forward",
    "fat tree 8Mbit/s 2ms, 2 hosts per leaf, 2 spines",
    "two sites 8Mbit/s 2ms, thin link 800kbit/s 20ms",
    "two sites 8Mbit/s 2ms, thin link 800kbit/s 20ms, alpha-beta, fifo",
    "two sites 8Mbit/s 2ms, thin link 800kbit/s 20ms, store-and-forward",
)


class Sent(NamedTuple):
    """Message of a fixed schedule: it leaves at a given time."""

    moment: float
    source: int
    target: int
    size: float


PLATFORMS = st.sampled_from([parse_platform(text) for text in TEXTS])
PAIRS = st.permutations(list(NODES)).map(lambda nodes: (nodes[0], nodes[1]))
MOMENTS = st.integers(0, 40).map(lambda number: number / 1024)
SIZES = st.integers(0, 30_000).map(float)
SCHEDULES = st.lists(st.builds(lambda m, p, s: Sent(m, p[0], p[1], s), MOMENTS, PAIRS, SIZES), min_size=1, max_size=25).map(
    sorted
)


def arrivals(platform: Platform, schedule: Sequence[Sent]) -> list[Arrival]:
    """Let messages leave at their times; return the arrivals, whose items are positions in the schedule."""
    network, found = network_of(platform, NODES), list[Arrival]()
    for number, message in enumerate(schedule):
        found += network.advance(message.moment)
        network.send(message.moment, message.source, message.target, message.size, number)
    while (moment := network.next_moment()) is not None:
        found += network.advance(moment)
    return found


def ends(platform: Platform, schedule: Sequence[Sent]) -> list[float]:
    """Return when each message arrives."""
    found = {number_of(item): moment for moment, _, _, item in arrivals(platform, schedule)}
    return [found[number] for number in range(len(schedule))]


@covers("SIM-15")
@given(PLATFORMS, SCHEDULES)
@example(  # a small message would overtake a large one on a thin link
    parse_platform("two sites 8Mbit/s 2ms, thin link 800kbit/s 20ms, alpha-beta, fifo"),
    [Sent(0.0, 0, 3, 109.0), Sent(1 / 1024, 0, 3, 0.0)],
)
def test_each_message_arrives_once_and_those_of_a_pair_in_order(platform: Platform, schedule: list[Sent]) -> None:
    found = arrivals(platform, schedule)
    assert Counter((source, target, number) for _, source, target, number in found) == Counter(
        (message.source, message.target, number) for number, message in enumerate(schedule)
    )
    assert [moment for moment, *_ in found] == sorted(moment for moment, *_ in found)
    for pair in {(message.source, message.target) for message in schedule}:
        own = [number_of(item) for _, source, target, item in found if (source, target) == pair]
        assert own == sorted(own)


@given(PLATFORMS, SCHEDULES)
def test_bytes_of_links_are_those_of_the_messages_that_pass_them(platform: Platform, schedule: list[Sent]) -> None:
    network, routes = network_of(platform, NODES), Routes(platform, NODES)
    expected = Counter[str]()
    for message in schedule:
        network.send(message.moment, *message[1:], None)
        for link in routes.between(message.source, message.target).links:
            expected[routes.links[link].name] += int(message.size)
    assert {use.link: use.size for use in network.busy()} == {name: size for name, size in expected.items() if size}


@covers("SIM-15")
@given(PLATFORMS, SCHEDULES)
def test_no_message_is_faster_than_the_slowest_link_of_its_route(platform: Platform, schedule: list[Sent]) -> None:
    routes = Routes(platform, NODES)
    for message, end in zip(schedule, ends(platform, schedule), strict=True):
        route = routes.between(message.source, message.target)
        assert end >= (message.moment + route.latency + message.size / route.slowest) * (1 - 1e-9)


@covers("SIM-15")
@given(PLATFORMS, SCHEDULES)
def test_all_ends_not_before_the_busiest_link_has_carried_its_bytes(platform: Platform, schedule: list[Sent]) -> None:
    network = network_of(platform, NODES)
    first = min(message.moment for message in schedule)
    for message in schedule:
        network.send(message.moment, *message[1:], None)
    busiest = max((use.seconds for use in network.busy()), default=0.0)
    assert max(ends(platform, schedule)) >= (first + busiest) * (1 - 1e-9)


def slower(platform: Platform, times: float) -> Platform:
    """Return a platform whose latencies and seconds per byte are so many times those of `platform`."""

    def scaled(value: float | None, factor: float) -> float | None:
        return None if value is None else value * factor

    return replace(
        platform,
        bandwidth=scaled(platform.bandwidth, 1 / times),
        latency=scaled(platform.latency, times),
        thin_bandwidth=scaled(platform.thin_bandwidth, 1 / times),
        thin_latency=scaled(platform.thin_latency, times),
        local_bandwidth=scaled(platform.local_bandwidth, 1 / times),
        local_latency=platform.local_latency * times,
    )


@covers("SIM-15")
@given(PLATFORMS, SCHEDULES)
def test_twice_the_latency_seconds_per_byte_and_moments_double_all_times(platform: Platform, schedule: list[Sent]) -> None:
    """To the bit: all that is computed from times is a multiple of a power of two."""
    doubled = [message._replace(moment=2 * message.moment) for message in schedule]
    assert ends(slower(platform, 2.0), doubled) == [2 * end for end in ends(platform, schedule)]


@covers("SIM-15")
@given(SCHEDULES, st.floats(1.0, 8.0))
def test_more_bandwidth_is_never_slower(schedule: list[Sent], times: float) -> None:
    """Of all messages together, on a star whose ports are first in, first out: a port has all its work earlier."""
    platform = parse_platform("star 8Mbit/s 2ms fifo")
    faster = replace(platform, bandwidth=times * (platform.bandwidth or 0.0))
    assert max(ends(faster, schedule)) <= max(ends(platform, schedule)) * (1 + 1e-12)


@covers("SIM-15")
@given(st.sampled_from(["star 8Mbit/s 2ms", "star 8Mbit/s 2ms flow", "mesh 8Mbit/s 2ms"]), SCHEDULES, st.floats(1.0, 8.0))
def test_more_bandwidth_is_never_slower_where_links_are_shared_fairly(text: str, schedule: list[Sent], times: float) -> None:
    """Of each message, when all leave together; `test_more_bandwidth_may_be_slower_for_one` has other moments."""
    together = [message._replace(moment=0.0) for message in schedule]
    platform = parse_platform(text)
    faster = replace(platform, bandwidth=times * (platform.bandwidth or 0.0))
    for more, less in zip(ends(faster, together), ends(platform, together), strict=True):
        assert more <= less * (1 + 1e-9)


@covers("SIM-15")
def test_more_bandwidth_may_be_slower_for_one() -> None:
    """Where messages begin at different times and ports are shared fairly, that of 1 to 0 arrives later on links of 10 Mbit/s
    than of 8: that of 2 to 3 has then ended before, so that of 2 to 0 has half of port 2 in place of a third, and takes more of
    the port that it shares with the first one."""
    schedule = [Sent(0.0, 2, 3, 8e6), Sent(6.5, 2, 1, 8e6), Sent(6.5, 2, 0, 8e6), Sent(6.5, 1, 0, 2.5e6)]
    assert ends(parse_platform("star 8Mbit/s 0s"), schedule)[3] == pytest.approx(6.5 + 2.5 / (2 / 3))
    assert ends(parse_platform("star 10Mbit/s 0s"), schedule)[3] == pytest.approx(6.5 + 2.5 / (1.25 / 2))


@given(PLATFORMS, SCHEDULES)
def test_the_same_schedule_has_the_same_times_to_the_bit(platform: Platform, schedule: list[Sent]) -> None:
    assert arrivals(platform, schedule) == arrivals(platform, schedule)


_DIGEST = """
import hashlib, random
from tests.parallel_sgd.simulation.test_invariants import TEXTS, NODES, Sent, arrivals
from parallel_sgd.simulation.platform_text import parse_platform
generator, digest = random.Random(5), hashlib.sha256()
for text in TEXTS:
    drawn = [(generator.random() / 10, generator.sample(NODES, 2), generator.randrange(30000)) for _ in range(200)]
    schedule = sorted(Sent(moment, *pair, size) for moment, pair, size in drawn)
    digest.update(repr(arrivals(parse_platform(text), schedule)).encode())
print(digest.hexdigest())
"""


@pytest.mark.long
def test_times_do_not_depend_on_the_seed_of_hashes() -> None:
    def digest(seed: str) -> str:
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        return subprocess.check_output([sys.executable, "-c", _DIGEST], cwd=ROOT, text=True, env=environment)

    assert digest("1") == digest("2")


@st.composite
def shared_links(draw: st.DrawFn) -> tuple[list[list[int]], list[float], list[float], list[float]]:
    """Draw paths of flows, their weights and bounds, and capacities; link 0 has no limit."""
    count = draw(st.integers(1, 6))
    paths = draw(st.lists(st.lists(st.integers(1, count), min_size=1, max_size=3, unique=True), min_size=1, max_size=12))
    values = st.floats(0.1, 10.0)
    numbers = [draw(st.lists(values, min_size=len(paths), max_size=len(paths))) for _ in range(2)]
    return paths, *numbers, draw(st.lists(values, min_size=count, max_size=count))  # type: ignore[return-value]


@given(shared_links())
def test_rates_are_max_min_fair(drawn: tuple[list[list[int]], list[float], list[float], list[float]]) -> None:
    """No link has more than it can; each flow has its bound, or a full link on which none of another has a higher level."""
    paths, weights, bounds, limits = drawn
    width = max(map(len, paths))
    table = np.array([path + [0] * (width - len(path)) for path in paths]).T
    capacity = np.array([np.inf, *limits])
    rates = max_min(table, np.ones(width), np.array(weights), np.array(bounds), capacity)
    levels = rates / weights
    used = [sum(rate for rate, path in zip(rates, paths, strict=True) if link in path) for link in range(len(capacity))]
    assert all(use <= limit * (1 + 1e-9) for use, limit in zip(used[1:], limits, strict=True))
    for path, rate, level, bound in zip(paths, rates, levels, bounds, strict=True):
        others = {link: [other for other, way in zip(levels, paths, strict=True) if link in way] for link in path}
        full = [link for link in path if used[link] >= capacity[link] * (1 - 1e-9) and level >= max(others[link]) * (1 - 1e-9)]
        assert rate <= bound * (1 + 1e-12) and (rate >= bound * (1 - 1e-12) or full)


def test_a_flow_with_a_bound_of_zero_waits() -> None:
    rates = max_min(np.array([[1, 1]]), np.ones(1), np.ones(2), np.array([0.0, 9.0]), np.array([np.inf, 4.0]))
    assert rates.tolist() == [0.0, 4.0]


def test_three_flows_of_two_links() -> None:
    """The textbook's case: one flow through both links, one through each; the narrow link settles first."""
    paths = np.array([[1, 1, 2], [2, 0, 0]])
    assert max_min(paths, np.ones(2), np.ones(3), np.full(3, np.inf), np.array([np.inf, 1.0, 2.0])).tolist() == [0.5, 0.5, 1.5]


def messages(count: int) -> Iterable[Sent]:
    generator = np.random.default_rng(3)
    for number in range(count):
        source, target = generator.choice(6, 2, replace=False)
        yield Sent(number / 1000, int(source), int(target), float(generator.integers(1, 30_000)))


@pytest.mark.parametrize("text", ["star 8Mbit/s 2ms", "fat tree 8Mbit/s 2ms, 2 hosts per leaf, 2 spines"])
def test_partial_solutions_are_those_of_a_whole_one(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A solution that keeps what a flow's begin or end cannot have changed is that from nothing."""
    schedule, platform = sorted(messages(300)), parse_platform(text)
    kept = ends(platform, schedule)
    monkeypatch.setattr("parallel_sgd.simulation.flows._BELOW", 0.0)
    assert kept == pytest.approx(ends(platform, schedule), rel=1e-12)
