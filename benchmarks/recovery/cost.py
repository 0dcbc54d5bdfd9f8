"""What watching and keeping cost: the two signals of a step against the step, and the pause of a commit of 100 MB."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from benchmarks.exchange.training import model
from benchmarks.exchange.workload import NETWORKS
from nn.gradient_descent import ADAMOptimizer
from parallel_sgd.elastic import ObjectState
from rpc.liveness.recorder import Recorder, make_memory
from rpc.monitor import Monitor

SHARE_LIMIT = 0.01
PAUSE_LIMIT = 0.06
_TIMES = 20_000
_ROUNDS = 7


def signals() -> bool:
    """Print the share of BEGIN and END in a step of the tutorial model on one worker; return whether it is small enough."""
    monitor = Monitor()
    monitor.attach(Recorder(make_memory()))
    network = NETWORKS["tutorial"]
    x, y = network.samples()
    made = model("tutorial")
    made.compile(ADAMOptimizer())

    def train() -> None:
        made.fit(x, y, epoch=1, batch_size=network.batch, shuffle=False, verbose=0)

    def signal() -> None:
        for batch in range(_TIMES):
            monitor.batch_begin(0, batch)
            monitor.batch_end()

    train()
    shares = [(_seconds(signal) / _TIMES) / (_seconds(train) / network.per_epoch) for _ in range(_ROUNDS)]
    share = statistics.median(shares)
    print(f"signals of a step of {network}: {100 * share:.2f} % of it, limit {100 * SHARE_LIMIT:g} %", flush=True)
    return share <= SHARE_LIMIT


def snapshot() -> bool:
    """Print the pause of `State.save` of 100 MB; return whether it is short enough."""
    state = ObjectState(values=np.zeros(25_000_000, np.float32))
    state.save()
    seconds = statistics.median(_seconds(state.save) for _ in range(_ROUNDS))
    copy = statistics.median(_seconds(state.values.copy) for _ in range(_ROUNDS))
    print(f"a commit of 100 MB: {1000 * seconds:.0f} ms, limit {1000 * PAUSE_LIMIT:g} ms; a plain copy {1000 * copy:.0f} ms")
    return seconds <= PAUSE_LIMIT


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
