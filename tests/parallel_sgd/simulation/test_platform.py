"""Platforms: their texts, their TOML files, and the errors of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parallel_sgd.simulation.platform import Platform
from parallel_sgd.simulation.platform_text import parse_platform, platform_from_toml, platform_of, platform_to_toml
from tests.statements import covers

TEXTS = {
    "star 1Gbit/s 50us": "star; 1 Gbit/s and 50 us; model alpha-beta, ports shared fairly, TCP",
    "star of 8 hosts, 1Gbit/s 50us, fifo": (
        "star of 8 hosts; 1 Gbit/s and 50 us; model alpha-beta, ports first in, first out, TCP"
    ),
    "star 1gbit 0.05ms 2 nodes per host 4 cores per host backbone 10Gbit/s over memory": (
        "star, 2 nodes per host, 4 cores per host; 1 Gbit/s and 50 us, backbone of 10 Gbit/s; "
        "model flow, ports shared fairly, shared memory"
    ),
    "ring 16 hosts 50GiB/s 500ns store-and-forward": (
        "ring of 16 hosts; 429.4967296 Gbit/s and 500 ns; model store-and-forward, ports first in, first out, TCP"
    ),
    "full mesh 1.5Mbit/s 20ms": "mesh; 1.5 Mbit/s and 20 ms; model alpha-beta, ports shared fairly, TCP",
    "fat tree 1Gbit/s 50us, 4 hosts per leaf, 2 spines": (
        "fat tree, 4 hosts per leaf, 2 spines; 1 Gbit/s and 50 us; model flow, ports shared fairly, TCP"
    ),
    "two sites of 8 hosts, 3 hosts near, 1Gbit/s 50us, thin link 50Mbit/s 20ms": (
        "two sites of 8 hosts, 3 near; 1 Gbit/s and 50 us within, 50 Mbit/s and 20 ms between; "
        "model flow, ports shared fairly, TCP"
    ),
    "star 10Mbit/s 20ms half duplex flow LV08 cross-traffic window 4194304": (
        "star; 10 Mbit/s and 20 ms, half duplex; "
        "model flow, factors LV08, cross-traffic, window of 4194304 bytes, ports shared fairly, TCP"
    ),
    "star 1Gbit/s 50us limit 2 fading 10% local 20GB/s 1us": (
        "star; 1 Gbit/s and 50 us, 160 Gbit/s and 1 us within a host; "
        "model alpha-beta, at most 2 flows of a link at a time, 10 % of a link lost per further flow, ports shared fairly, TCP"
    ),
}


@covers("SIM-5")
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_a_platform_that_describes_itself_in_one_line(text: str) -> None:
    assert parse_platform(text).describe() == TEXTS[text]


def test_a_text_means_bytes_and_seconds() -> None:
    platform = parse_platform("two sites 1Gbit/s 50us, thin link 50Mbit/s 20ms")
    assert platform == Platform(
        "two sites", bandwidth=125e6, latency=50e-6, thin_bandwidth=6.25e6, thin_latency=20e-3, model="flow", ports="fair"
    )


RATES = st.floats(1.0, 1e12)
TIMES = st.floats(0.0, 1e3)


@st.composite
def platforms(draw: st.DrawFn) -> Platform:
    """Draw a platform of any shape, with any numbers."""
    shape = draw(st.sampled_from(["star", "ring", "mesh", "fat tree", "two sites", "matrix"]))
    fields: dict[str, Any] = {"bandwidth": draw(RATES), "latency": draw(TIMES)}
    if shape == "matrix":
        size = draw(st.integers(2, 4))
        rows = [st.tuples(*[st.tuples(*[values] * size)] * size) for values in (TIMES, RATES)]
        fields = {"latencies": draw(rows[0]), "bandwidths": draw(rows[1])}
    elif shape == "fat tree":
        fields |= {"leaf": draw(st.integers(1, 9)), "spines": draw(st.integers(1, 9))}
    elif shape == "two sites":
        fields |= {"thin_bandwidth": draw(RATES), "thin_latency": draw(TIMES)}
    model = draw(st.sampled_from(["alpha-beta", "flow", "store-and-forward"]))
    if model == "flow":
        fields |= {"factors": draw(st.sampled_from(["none", "CM02", "LV08"])), "window": draw(st.none() | RATES)}
    speeds = tuple(draw(st.lists(st.floats(0.1, 10.0), max_size=4)))
    note = draw(st.text("abc \"'\\\n#=é", max_size=9))
    return Platform(shape, model=model, local_latency=draw(TIMES), speeds=speeds, note=note, **fields)


@covers("SIM-5")
@given(platforms())
def test_toml_of_a_platform_is_read_as_the_same(platform: Platform) -> None:
    assert platform_from_toml(platform_to_toml(platform)) == platform


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_goes_through_toml_and_a_file(text: str, tmp_path: Path) -> None:
    platform = parse_platform(text)
    written = platform_to_toml(platform)
    assert platform_from_toml(written) == platform
    file = tmp_path / "cluster.toml"
    file.write_text(written)
    assert platform_of(file) == platform_of(str(file)) == platform_of(platform) == platform_of(text) == platform


@covers("SIM-5")
def test_toml_takes_texts_and_numbers() -> None:
    """A measured matrix: seconds and bytes per second, or texts."""
    text = """
shape = "matrix"
latencies = [[0, "50us"], [6e-5, 0]]
bandwidths = [[0, "1Gbit/s"], [1.2e8, 0]]
note = "calibrated 2026-11-28 on 2 hosts"
"""
    platform = platform_from_toml(text)
    assert platform.latencies == ((0, 50e-6), (6e-5, 0)) and platform.bandwidths == ((0, 125e6), (1.2e8, 0))
    assert platform.describe() == (
        "matrix of 2 hosts; 960 Mbit/s to 1 Gbit/s and 50 us to 60 us as measured; "
        "model alpha-beta, ports shared fairly, TCP; calibrated 2026-11-28 on 2 hosts"
    )


@covers("SIM-34")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'shape' one of star, ring, mesh, fat tree, two sites, matrix at its begin, got nothing."),
        ("sta 1Gbit/s 50us", "'shape' one of star, ring, mesh, fat tree, two sites, matrix at its begin, got 'sta'; did you"),
        ("cluster.txt", "matrix at its begin, got 'cluster.txt'; a platform's file ends in .toml."),
        ("star 1Gbit/s", "The platform needs 'latency', for its shape is star, got none."),
        ("star 50us", "The platform needs 'bandwidth', for its shape is star, got none."),
        ("star 1Gbit/s -50us", "'latency' a time of at least 0 such as 50us, got '-50us'."),
        ("star 1Mb/s 50us", "'bandwidth' a rate such as 1Gbit/s, and the latency a time such as 50us, got '1Mb/s'."),
        ("star 0bit/s 50us", "The platform's 'bandwidth' must be a number above 0, got 0.0."),
        ("star 1Gbit/s 50us 2ms", "'latency' once, got 5e-05 and 0.002."),
        ("star 1Gbit/s 50us 8", "'hosts' a unit behind 8: one of hosts, host, nodes per host,"),
        ("star 0 hosts 1Gbit/s 50us", "The platform's 'hosts' must be an integer of at least 1, got 0."),
        ("star 1Gbit/s 50us flwo", "got 'flwo'; did you mean 'flow'."),
        ("star 1Gbit/s 50us window big", "'window' bytes such as 4194304, got 'big'."),
        ("star 1Gbit/s 50us fading 10", "'fading' a share such as 10%, got '10'."),
        ("star 1Gbit/s 50us thin link 1Mbit/s", "'thin_latency' a time such as 50us, got nothing."),
        ("star 1Gbit/s 50us thin link 1Mbit/s 1ms", "'thin_bandwidth' does not belong to its shape, star; got 125000.0."),
        ("two sites 1Gbit/s 50us", "The platform needs 'thin_bandwidth', for its shape is two sites, got none."),
        ("fat tree 1Gbit/s 50us 4 hosts per leaf", "The platform needs 'spines', for its shape is fat tree, got none."),
        ("ring 1Gbit/s 50us half duplex", "'duplex' must be full, for the links of a ring have one direction, got half."),
        ("star 1Gbit/s 50us flow fifo", "'ports' must be fair, for the model flow shares each link, got fifo."),
        ("star 1Gbit/s 50us store-and-forward fair", "'ports' must be fifo, for the model store-and-forward sends"),
        ("star 1Gbit/s 50us LV08", "'factors' must be none, for only the model flow has more, got LV08."),
        ("star 1Gbit/s 50us fifo limit 2", "The platform's 'limit' needs ports that are shared fairly, got 2."),
        ("star 1Gbit/s 50us flow limit 2 cross-traffic", "'cross_traffic' must be false where flows have a 'limit', got true."),
        (
            "two sites 1Gbit/s 50us thin link 1Mbit/s 1ms 4 hosts 4 hosts near",
            "'near' must be below the number of hosts, 4, got 4",
        ),
        ("matrix", "The platform needs 'latencies', for its shape is matrix, got none."),
    ],
)
def test_a_wrong_text_is_told_with_its_field(text: str, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_platform(text)
    assert says in str(caught.value) and repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("shape = 'star'\nbandwith = 1", "must have keys among shape, bandwidth,"),
        ("shape = 'star'\nbandwith = 1", ", got 'bandwith'; did you mean 'bandwidth'."),
        (
            "shape = 'star'\nbandwidth = '1Gb'\nlatency = 0",
            "'bandwidth' must be a rate such as '1Gbit/s', or bytes per second, got",
        ),
        ("shape = 'star'\nbandwidth = 1\nlatency = -0.5", "'latency' must be a number of at least 0, got -0.5."),
        ("shape = 'star'\nbandwidth = 1\nlatency = nan", "'latency' must be a number of at least 0, got nan."),
        ("shape = 'star'\nbandwidth = 1\nlatency = 1e308", "'latency' must be at most 1e+09 seconds, got 1e+308."),
        ("shape = 'star'\nbandwidth = 1e-320\nlatency = 0", "'bandwidth' must be at least 0.001, got 1e-320."),
        ("shape = 'star'\nbandwidth = 1\nlatency = true", "'latency' must be a number of at least 0, got True."),
        ("shape = 'star'\nbandwidth = 1\nlatency = []", "'latency' must be a number of at least 0, got []."),
        ("shape = 'star'\nbandwidth = 1\nlatency = 0\ncores = 1.5", "'cores' must be an integer of at least 1, got 1.5."),
        ("shape = 'star'\nbandwidth = 1\nlatency = 0\nspeeds = [1, 0]", "'speeds[1]' must be a number above 0, got 0."),
        ("shape = 'star'\nbandwidth = 1\nlatency = 0\nspeeds = 1", "'speeds' must be a list, got 1."),
        (
            "shape = 'star'\nbandwidth = 1\nlatency = 0\ntransport = 'udp'",
            "'transport' must be one of tcp, unix, memory, process",
        ),
        ("shape = 'matrix'\nlatencies = [[0, 1]]\nbandwidths = [[0, 1]]", "'latencies' must be as many rows and columns as"),
        (
            "shape = 'matrix'\nlatencies = [[0, 1], [1, 0]]\nbandwidths = [[0, 1], [0, 0]]",
            "'bandwidths[1][0]' must be a number of at least 0.001, got 0.",
        ),
        (
            "shape = 'matrix'\nlatencies = [1, 2]\nbandwidths = [[0, 1], [0, 0]]",
            "'latencies' must be a list of lists, got [1, 2].",
        ),
        ("shape = ", "must be a TOML file, got "),
    ],
)
def test_a_wrong_file_is_told_with_its_key(content: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(content)
    with pytest.raises(ValueError) as caught:
        platform_of(file)
    assert says in str(caught.value) and str(file) in str(caught.value)


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(
        ValueError,
        match=r"^The platform 'nowhere\.toml' must be a TOML file that can be read, got No such file or directory\.$",
    ):
        platform_of("nowhere.toml")


def test_a_platform_is_a_text_a_path_or_a_platform() -> None:
    given: Any = 5
    with pytest.raises(
        ValueError, match=r"^A platform must be a text such as 'star 1Gbit/s 50us', a path or a Platform, got 5\."
    ):
        platform_of(given)


def test_hosts_are_as_many_as_the_nodes_need() -> None:
    platform = parse_platform("star 1Gbit/s 50us 2 nodes per host")
    assert [platform.fitted(nodes).hosts for nodes in (1, 2, 3, 8)] == [1, 1, 2, 4]
    assert parse_platform("two sites 1Gbit/s 50us thin link 1Mbit/s 1ms").fitted(1).hosts == 2


@pytest.mark.parametrize(
    ("fields", "nodes", "says"),
    [
        ({"hosts": 2, "nodes_per_host": 2}, 5, "'hosts' must have room for the job's 5 nodes, got 2 hosts of 2 nodes."),
        ({"speeds": (1.0, 2.0)}, 3, "'speeds' must be one for each of the job's 3 nodes, got 2 of them."),
        ({}, 0, "A platform needs at least 1 node, got 0."),
    ],
)
def test_a_count_of_nodes_that_does_not_fit_is_told(fields: dict[str, Any], nodes: int, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        Platform("star", bandwidth=1.0, latency=0.0, **fields).fitted(nodes)
    assert str(caught.value).endswith(says)


def test_nodes_have_their_speeds() -> None:
    platform = Platform("star", bandwidth=1.0, latency=0.0, speeds=(1.0, 0.5))
    assert [platform.speed(0), platform.speed(1), Platform("star", bandwidth=1.0, latency=0.0).speed(7)] == [1.0, 0.5, 1.0]
    assert "speeds 0.5 to 1.0" in platform.describe()
