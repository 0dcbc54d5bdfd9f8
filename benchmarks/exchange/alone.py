"""One process without any exchange on the whole global batch; the argument names the network."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.exchange.training import model
from benchmarks.exchange.workload import NETWORKS
from nn.gradient_descent import ADAMOptimizer


def prepare(name: str) -> Callable[[], float]:
    network = NETWORKS[name]
    x, y = network.samples()
    made = model(name)
    made.compile(ADAMOptimizer())

    def run() -> float:
        start = time.perf_counter()
        made.fit(x, y, epoch=network.epochs, batch_size=network.batch, shuffle=False, verbose=0)
        return time.perf_counter() - start

    return run
