"""Max-min fair sharing of links by flows.

Each flow has a weight, a bound, and links of which it takes its rate times a coefficient. The rates are those of progressive
filling (Bertsekas and Gallager, *Data Networks*, section 6.5): all rise in proportion to their weights until a link is full or
a bound reached; the flows concerned keep their rate, and the others rise further. Here all links that are the tightest one for
each of their flows are filled at once, so a round settles many of them, and few rounds are needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


def max_min(paths: Integers, takes: Floats, weights: Floats, bounds: Floats, capacity: Floats) -> Floats:
    """Return the rate of each flow.

    Sums are made in the order of flows, so that the result has the same bits on every machine.

    Args:
        paths: numbers of the links of each flow (hops, flows); a shorter path is filled up with a link of infinite capacity.
        takes: share of a flow's rate that it takes of the link at each position of its path (hops,).
        weights: rates of flows at one bottleneck are in proportion to these (flows,).
        bounds: most of each rate (flows,); 0 holds a flow.
        capacity: of each link (links,).
    """
    rates = np.zeros(len(weights))
    left, count = capacity.copy(), len(capacity)
    active = (bounds > 0.0).nonzero()[0]
    paths, weights = paths[:, active], weights[active]
    # from here on as levels, rates by weights
    bounds = bounds[active] / weights
    while True:
        load = sum_by_link(paths, takes, weights, count)
        level = np.full(count, np.inf)
        np.divide(left, load, out=level, where=load > 0.0)
        along = level[paths]
        reached = np.minimum(np.minimum.reduce(along), bounds)
        # where the lowest level of the flows of a link is that of the link, it is the tightest one for each of them
        least = np.full(count, np.inf)
        for links in paths:
            np.minimum.at(least, links, reached)
        settled = np.logical_or.reduce(least[paths] >= along)
        # a bound below the levels of all links holds for good: these rise only when other flows are settled
        settled |= reached == bounds
        rest = (~settled).nonzero()[0]
        if not len(rest):
            rates[active] = reached * weights
            return rates
        chosen = settled.nonzero()[0]
        rates[active[chosen]] = amount = reached[chosen] * weights[chosen]
        left -= sum_by_link(paths[:, chosen], takes, amount, count)
        active, paths, weights, bounds = active[rest], paths[:, rest], weights[rest], bounds[rest]


def sum_by_link(paths: Integers, takes: Floats, amounts: Floats, count: int) -> Floats:
    """Return for each link the sum of the amounts of the flows that pass it, times their takes."""
    total = np.zeros(count)
    for links, take in zip(paths, takes, strict=True):
        total += np.bincount(links, amounts if take == 1.0 else take * amounts, count)
    return total
