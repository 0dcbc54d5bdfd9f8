"""The signals of the failure detector from `Model.fit` and from the training loop of a worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import pytest

from network.testing import VirtualClock
from nn.gradient_descent import SGDOptimizer
from parallel_sgd import MonitorCallback
from parallel_sgd.in_process_scheduler import MemoryChannel, run_in_process
from parallel_sgd.profiles import FixedBlockAssignment
from parallel_sgd.training import Hooks
from parallel_sgd.worker import Worker, build_worker
from rpc.liveness.recorder import Kind, Reader, Recorder, make_memory
from rpc.monitor import Monitor
from tests.parallel_sgd.digits_job import ADAM, digits, plan_of
from tests.parallel_sgd.networks import mlp

from ..statements import covers

Signals = list[tuple[Kind, int, int]]


class Listener:
    """A monitor whose signals can be read."""

    def __init__(self) -> None:
        self._memory = make_memory()
        self._recorder = Recorder(self._memory, lambda: 1.0)
        self._reader = Reader(self._memory)
        self.monitor = Monitor()
        self.monitor.attach(self._recorder)

    def heard(self) -> Signals:
        return [signal[:3] for signal in self._reader.read(1.0)]

    def close(self) -> None:
        self._recorder.close()
        self._reader.close()


@pytest.fixture
def listeners() -> Iterator[list[Listener]]:
    made = [Listener(), Listener()]
    yield made
    for listener in made:
        listener.close()


def expected(epochs: range, batches: int) -> Signals:
    """BEGIN and END of every batch, EPOCH after each epoch, one TRAIN END."""
    signals: Signals = []
    for epoch in epochs:
        signals += [(kind, epoch, batch) for batch in range(batches) for kind in (Kind.BEGIN, Kind.END)]
        signals.append((Kind.EPOCH, epoch, batches - 1))
    return [*signals, (Kind.TRAIN_END, epochs[-1], batches - 1)]


@covers("FD-1")
def test_callback_of_fit(listeners: list[Listener]) -> None:
    """`MonitorCallback` makes the four calls at the right moments; a continued training goes on counting."""
    model = mlp()
    model.compile(SGDOptimizer(0.1))
    x, y, _, _ = digits()
    callback = MonitorCallback(listeners[0].monitor)
    model.fit(x[:60], y[:60], epoch=2, batch_size=20, callbacks=[callback], verbose=0)
    assert listeners[0].heard() == expected(range(2), 3)
    model.fit(x[:60], y[:60], epoch=1, batch_size=20, callbacks=[callback], verbose=0)
    assert listeners[0].heard() == expected(range(2, 3), 3)


@covers("FD-1")
def test_callback_outside_a_job() -> None:
    """Without a job the callback does nothing, and opens nothing."""
    open_before = os.listdir("/dev/fd")
    model = mlp()
    model.compile(SGDOptimizer(0.1))
    x, y, _, _ = digits()
    model.fit(x[:20], y[:20], epoch=1, batch_size=20, callbacks=[MonitorCallback()], verbose=0)
    assert os.listdir("/dev/fd") == open_before


@covers("FD-1")
def test_workers_signal_by_themselves(listeners: list[Listener]) -> None:
    """Every worker of a job signals each batch, each epoch and the end, epochs and batches as they are counted."""
    plan = plan_of(FixedBlockAssignment.of(blocks=2)(2, 1), block_size=16, epoch=2, optimizer=ADAM)
    x, y, test_x, test_y = digits()
    data, model, clock = (x[:96], y[:96], test_x[:10], test_y[:10]), mlp(), VirtualClock()

    def build(channel: MemoryChannel, monitor: Monitor) -> Worker:
        return build_worker(
            plan, type(model).from_bytes(model.to_bytes()), data, channel, clock.monotonic, Hooks(monitor=monitor)
        )

    run_in_process({node: partial(build, monitor=listener.monitor) for node, listener in enumerate(listeners)}, clock)
    assert [listener.heard() for listener in listeners] == [expected(range(2), 3)] * 2
