"""ASTRA-sim's analytical networks: the times of its unit tests, in nanoseconds, for 1 MiB on links of 50 GiB/s and 500 ns.

It counts in whole nanoseconds, so 1 MiB passes a link in 19,531 of them; the bandwidth here is the one that takes exactly that.
"""

from __future__ import annotations

import pytest

from parallel_sgd.simulation.platform import Platform
from tests.statements import covers

from .driver import ends

MEBIBYTE, BANDWIDTH, LATENCY = 1 << 20, (1 << 20) / 19_531e-9, 500e-9
HOSTS = range(16)


def platform(shape: str, model: str, latency: float = LATENCY) -> Platform:
    return Platform(shape, bandwidth=BANDWIDTH, latency=latency, model=model, ports="fifo")


@covers("SIM-13")
@pytest.mark.parametrize(
    ("network", "nanoseconds"),
    [
        (platform("ring", "alpha-beta"), 21_031),
        (platform("mesh", "alpha-beta"), 20_031),
        (platform("star", "alpha-beta", 2 * LATENCY), 20_531),
        (platform("ring", "store-and-forward"), 60_093),
        (platform("star", "store-and-forward", 2 * LATENCY), 40_062),
        (platform("mesh", "store-and-forward"), 20_031),
    ],
    ids=["ring cuts through", "mesh", "switch cuts through", "ring stores", "switch stores", "mesh stores"],
)
def test_a_message_from_1_to_4(network: Platform, nanoseconds: int) -> None:
    (end,) = ends(network, HOSTS, [(1, 4, MEBIBYTE)])
    assert end * 1e9 == pytest.approx(nanoseconds, abs=1e-6)


@covers("SIM-13")
def test_all_pairs_on_a_ring() -> None:
    """The shortest way, half round by increasing numbers; each link first in, first out, in order of (source, target)."""
    pairs = [(source, target, MEBIBYTE) for source in HOSTS for target in HOSTS if source != target]
    assert max(ends(platform("ring", "store-and-forward"), HOSTS, pairs)) * 1e9 == pytest.approx(704_116, abs=1e-6)
