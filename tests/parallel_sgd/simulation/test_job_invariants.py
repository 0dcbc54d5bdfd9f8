"""Invariants of jobs on simulated nodes: what their virtual time is bound to, and what their accounts say."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import parallel_sgd
from parallel_sgd import codec as codecs
from parallel_sgd.record.run import JobResult
from parallel_sgd.simulation.compute import time_of
from parallel_sgd.simulation.platform import Platform
from parallel_sgd.simulation.platform_text import parse_platform
from tests.statements import covers

from .test_invariants import slower
from .test_jobs import train

STEPS, TEST_SAMPLES, BLOCK = 3, 16, 4
EVALUATION = TEST_SAMPLES / BLOCK / 3
"""Block steps that an evaluation takes."""
WORKERS = 4
JOBS = [
    ("Plain", "star 8Mbit/s 2ms", 1),
    ("Ring", "star 8Mbit/s 2ms fifo", 1),
    ("SyncPS", "star 80Mbit/s 1ms", 1),
    ("TopK", "two sites 8Mbit/s 2ms, thin link 800kbit/s 20ms", 1),
    ("Int8", "fat tree 8Mbit/s 2ms, 2 hosts per leaf, 2 spines", 1),
    ("Plain", "star 8Mbit/s 2ms 2 nodes per host", 2),
    ("SyncPS", "star 8Gbit/s 1us 5 nodes per host", 5),
]
"""Codec, platform, and nodes that share the one core of a host."""


def run(codec: str, platform: Platform | str, computes: dict[int, float], costs: Any = 0) -> JobResult:
    """Train three steps on four workers, each with its own seconds of a block step."""
    kind = getattr(codecs, codec)
    with TemporaryDirectory() as folder:
        nodes = parallel_sgd.simulated(
            WORKERS, platform, ps=kind.traits.needs_server, compute=dict(computes), codec_time=costs, shared=False
        )
        return train(nodes, kind, Path(folder), STEPS, block_size=BLOCK)


def seconds_of(result: JobResult) -> float:
    assert result.simulated is not None
    return result.simulated.seconds


def drawn(seed: int) -> dict[int, float]:
    draw = random.Random(seed)
    return {node: draw.randrange(1, 40) / 1024 for node in range(WORKERS)}


@pytest.mark.share(4)
@covers("SIM-15")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("codec", "text", "sharing"), JOBS)
def test_a_job_takes_at_least_its_critical_path_its_busiest_link_and_its_busiest_core(
    codec: str, text: str, sharing: int, seed: int
) -> None:
    """The path: that worker computes all its steps and evaluates, and its peers need a message of it between each two."""
    computes = drawn(seed)
    result = run(codec, text, computes)
    assert result.simulated is not None
    took, platform = seconds_of(result), parse_platform(text)
    assert took >= max((busy for _, busy in result.simulated.links.values()), default=0.0) * (1 - 1e-9)
    work = [computes[node] * (STEPS + EVALUATION) for node in range(WORKERS)]
    hosts = [sum(work[at : at + sharing]) for at in range(0, WORKERS, sharing)]
    assert took >= max(hosts) * (1 - 1e-9)
    path = max(computes.values()) * STEPS + min(computes.values()) * EVALUATION
    if sharing < WORKERS:
        path += STEPS * (platform.latency or 0.0)
    assert took >= path * (1 - 1e-9)


@pytest.mark.share(4)
@covers("SIM-15")
@pytest.mark.parametrize(("codec", "text", "sharing"), JOBS)
def test_a_job_takes_twice_as_long_where_all_takes_twice_as_long(codec: str, text: str, sharing: int) -> None:
    """To the bit: latencies, seconds per byte, compute and codecs."""
    platform, computes, cost = parse_platform(text), drawn(7), {"default": {"encode": 1 / 1024, "merge": 1 / 2048}}
    twice = {key: 2 * time_of("time", value) for key, value in cost["default"].items()}
    once = run(codec, platform, computes, cost)
    doubled = run(codec, slower(platform, 2.0), {node: 2 * own for node, own in computes.items()}, {"default": twice})
    assert seconds_of(doubled) == 2 * seconds_of(once)


@covers("SIM-15")
@pytest.mark.parametrize(("codec", "text", "sharing"), JOBS)
def test_what_was_sent_was_received_or_is_in_flight(codec: str, text: str, sharing: int) -> None:
    """By pair, direction and variable. In a synchronous job that has ended nothing is in flight but what nobody waits for; the
    kernel checks each pair and variable at the end of all jobs, and would raise AccountError."""
    accounts = run(codec, text, drawn(1)).accounts
    sent, received = Counter[tuple[int, int, int]](), Counter[tuple[int, int, int]]()
    for node, entries in accounts.items():
        for entry in entries:
            if entry.direction == "sent":
                sent[node, entry.peer, entry.variable] += entry.packets
            else:
                received[entry.peer, node, entry.variable] += entry.packets
    assert sent == received and sum(sent.values()) > 0


@pytest.mark.share(2)
@covers("SIM-15")
@pytest.mark.parametrize("codec", ["Plain", "Ring", "TopK", "SyncPS"])
def test_a_job_with_more_bandwidth_or_less_latency_is_not_slower(codec: str) -> None:
    """On a star whose ports are first in, first out."""
    platform = parse_platform("star 8Mbit/s 2ms fifo")
    took = [
        seconds_of(run(codec, replace(platform, bandwidth=rate * 1e6, latency=latency), drawn(3)))
        for rate, latency in ((1, 2e-3), (2, 2e-3), (4, 2e-3), (4, 1e-3))
    ]
    assert took == sorted(took, reverse=True)
