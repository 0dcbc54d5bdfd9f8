"""Closed forms of collectives on a star whose ports are first in, first out."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from parallel_sgd.simulation.platform_text import parse_platform

from .driver import Message, run

SIZE, LATENCY, BANDWIDTH = 473_128, 50e-6, 125e6
STAR = parse_platform("star 1Gbit/s 50us, fifo")


@pytest.mark.parametrize("workers", [2, 3, 8, 64])
def test_a_literal_ring_all_reduce(workers: int) -> None:
    """It takes 2 (W - 1) (a + S / (W B))."""
    piece, last = SIZE / workers, 2 * (workers - 1) - 1

    def pass_on(_now: float, _source: int, target: int, item: object) -> Iterable[Message]:
        assert isinstance(item, int)
        return [(target, (target + 1) % workers, piece, item + 1)] if item < last else []

    arrivals = run(STAR, range(workers), [(node, (node + 1) % workers, piece, 0) for node in range(workers)], pass_on)
    assert len(arrivals) == workers * (last + 1)
    assert arrivals[-1][0] == pytest.approx(2 * (workers - 1) * (LATENCY + piece / BANDWIDTH), rel=1e-9)
