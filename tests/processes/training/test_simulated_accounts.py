"""Accounts and bits of jobs on simulated nodes beside those of real ones, whose links are TCP."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import parallel_sgd
from parallel_sgd import codec as codecs
from parallel_sgd.nodes import LocalNodes
from parallel_sgd.record.run import JobResult
from tests.parallel_sgd.simulation.test_jobs import WIDTHS, train, weights
from tests.processes.training.jobs import some
from tests.statements import covers

LATE = "+1ms"
"""A fault that a connection of a host has only over TCP; without one its processes share memory."""


@pytest.mark.share(4)
@covers("SIM-3")
@pytest.mark.parametrize("name", ["Plain", "Ring", "TopK", "Int8", "EFSign", "Tree"])
def test_the_accounts_of_a_simulated_job_are_those_of_a_real_one(name: str, agents: LocalNodes, tmp_path: Path) -> None:
    """Row by row, in the same order: packets, bytes of contents, of frames with their seals and tags, and the transport."""
    codec = getattr(codecs, name)
    fault = "; ".join(f"{LATE} {here}-{there}" for here, there in combinations(range(3), 2))
    real = train(some(agents, 3), codec, tmp_path / "real", fault=fault)
    nodes = parallel_sgd.simulated(3, "star 1Gbit/s 1ms", compute="1ms", codec_time=0)
    simulated = train(nodes, codec, tmp_path / "simulated")
    assert {entry.transport for entries in real.accounts.values() for entry in entries} == {"tcp"}
    assert {node: list(entries) for node, entries in real.accounts.items()} == {
        node: list(entries) for node, entries in simulated.accounts.items()
    }
    assert weights(real) == weights(simulated)


@covers("SIM-3")
def test_a_platform_over_unix_has_the_accounts_of_processes_of_a_host(agents: LocalNodes, tmp_path: Path) -> None:
    real = train(some(agents, 3), codecs.Plain, tmp_path / "real")
    nodes = parallel_sgd.simulated(3, "star 1Gbit/s 1ms over unix", compute="1ms", codec_time=0)
    simulated = train(nodes, codecs.Plain, tmp_path / "simulated")
    assert {entry.transport for entries in real.accounts.values() for entry in entries} == {"unix"}
    assert {node: list(entries) for node, entries in real.accounts.items()} == {
        node: list(entries) for node, entries in simulated.accounts.items()
    }


@covers("SIM-3")
def test_what_lies_in_memory_has_no_overhead(agents: LocalNodes, tmp_path: Path) -> None:
    """Real processes leave large arrays there, and send small ones, and the first, through a Unix socket; the packets and the
    bytes of their contents are the same."""
    options: dict[str, Any] = {"widths": WIDTHS, "block_size": 2}
    real = train(some(agents, 3), codecs.Plain, tmp_path / "real", **options)
    nodes = parallel_sgd.simulated(3, "star 1Gbit/s 1ms over memory", compute="1ms", codec_time=0)
    simulated = train(nodes, codecs.Plain, tmp_path / "simulated", **options)
    assert {(e.transport, e.overhead) for entries in simulated.accounts.values() for e in entries} == {("memory", 0)}
    assert {e.transport for entries in real.accounts.values() for e in entries} == {"memory", "unix"}
    assert all(e.overhead == 0 for entries in real.accounts.values() for e in entries if e.transport == "memory")
    assert _contents(real) == _contents(simulated)


def _contents(result: JobResult) -> Counter[tuple[int, int, int, str, str]]:
    """Return packets and bytes of contents by node, peer, variable and direction, of all transports together."""
    found = Counter[tuple[int, int, int, str, str]]()
    for node, entries in result.accounts.items():
        for entry in entries:
            found[node, entry.peer, entry.variable, entry.direction, "packets"] += entry.packets
            found[node, entry.peer, entry.variable, entry.direction, "bytes"] += entry.raw
    return found
