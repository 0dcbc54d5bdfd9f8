"""Max-min fair sharing of links by flows.

Each flow has a weight, a bound, and links of which it takes its rate times a coefficient. The rates are those of progressive
filling (Bertsekas and Gallager, *Data Networks*, section 6.5): all rise in proportion to their weights until a link is full or
a bound reached; the flows concerned keep their rate, and the others rise further. Here all links that are the tightest one for
each of their flows are filled at once, so a round settles many of them, and few rounds are needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Integers", "max_min"]

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
    active = np.flatnonzero(bounds > 0.0)
    paths, weights = paths[:, active], weights[active]
    bounds = bounds[active] / weights
    while len(active):
        flat = paths.ravel()
        load = np.bincount(flat, (takes[:, None] * weights).ravel(), count)
        level = np.full(count, np.inf)
        np.divide(left, load, out=level, where=load > 0.0)
        along = level[paths]
        reached = np.minimum(along.min(axis=0), bounds)
        least = np.full(count, np.inf)
        for links in paths:
            np.minimum.at(least, links, reached)
        settled = (reached == bounds) | (least[paths] >= along).any(axis=0)
        chosen, rest = settled.nonzero()[0], (~settled).nonzero()[0]
        rates[active[chosen]] = amount = reached[chosen] * weights[chosen]
        if not len(rest):
            break
        left -= np.bincount(paths[:, chosen].ravel(), (takes[:, None] * amount).ravel(), count)
        active, paths, weights, bounds = active[rest], paths[:, rest], weights[rest], bounds[rest]
    return rates
