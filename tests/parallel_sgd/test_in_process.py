"""The driver that runs all workers inside this process."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
import pytest

from network.testing import VirtualClock
from parallel_sgd.batch_sync import SynchronizedSGD
from parallel_sgd.channel import Wait
from parallel_sgd.codec import GlobalSettings, Plain
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.settings import JobSettings
from parallel_sgd.exchange import BlockExchange
from parallel_sgd.in_process_scheduler import Deadlock, Fabric, MemoryChannel, SkippingClock, run_in_process
from parallel_sgd.profiles import DuplicateAssignment, IIDBlockAssignment
from parallel_sgd.testing.array_job import ArrayJob
from parallel_sgd.worker import Worker
from tests.parallel_sgd.codec.compositions import check_exact

from ..statements import covers


def worker(channel: MemoryChannel, process: Generator[Wait, None, dict[str, float]]) -> Worker:
    assignment = IIDBlockAssignment(2)
    bank = CodecBank([Plain], JobSettings(assignment, {"who": channel.node_id}), channel, attempt=0)
    exchange = BlockExchange(bank, SynchronizedSGD(bank, 1.0, lambda: 0.0, ("v",)))
    return Worker(None, exchange, process)  # type: ignore[arg-type]


def waiting(*deadlines: float | None, log: list[str] | None = None) -> Iterator[Wait]:
    try:
        for deadline in deadlines:
            yield Wait(lambda: False, deadline, lambda: "a sign")
    finally:
        if log is not None:
            log.append("closed")
    return {"Loss": 0.5}


def test_time_jumps_to_the_earliest_deadline_when_nobody_can_move() -> None:
    clock, seen = VirtualClock(), []

    def process() -> Iterator[Wait]:
        for deadline in (2.0, 5.0):
            yield Wait(lambda: False, deadline, lambda: "nothing")
            seen.append(clock.monotonic())
        return {}

    run_in_process({0: lambda channel: worker(channel, process()), 1: lambda channel: worker(channel, waiting(3.0))}, clock)
    assert seen == [2.0, 5.0]


def test_results_come_by_node() -> None:
    builds = {node: lambda channel: worker(channel, waiting()) for node in (0, 1)}
    assert run_in_process(builds, VirtualClock()) == {0: {"Loss": 0.5}, 1: {"Loss": 0.5}}


def test_waits_without_a_limit_that_nobody_can_end_are_a_deadlock() -> None:
    """design.md decision 6: no wait without a name."""
    builds = {node: lambda channel: worker(channel, waiting(None)) for node in (0, 1)}
    with pytest.raises(Deadlock, match=r"node\(0\) for a sign; node\(1\) for a sign"):
        run_in_process(builds, VirtualClock())


def test_an_error_closes_every_process() -> None:
    log: list[str] = []

    def fails() -> Iterator[Wait]:
        yield Wait(lambda: True, None, lambda: "")
        raise ZeroDivisionError("in worker 1")

    builds = {
        0: lambda channel: worker(channel, waiting(None, log=log)),
        1: lambda channel: worker(channel, fails()),
    }
    with pytest.raises(ZeroDivisionError, match="in worker 1"):
        run_in_process(builds, VirtualClock())
    assert log == ["closed"]


def test_an_error_while_building_closes_what_was_built() -> None:
    def fails(channel: MemoryChannel) -> Worker:
        raise ValueError("no such data")

    with pytest.raises(ValueError, match="no such data"):
        run_in_process({0: lambda channel: worker(channel, waiting(None)), 1: fails}, VirtualClock())


def test_every_worker_has_its_own_context() -> None:
    seen: list[int] = []

    def process() -> Iterator[Wait]:
        for _ in range(2):
            seen.append(GlobalSettings.get_params("who"))
            yield Wait(lambda: GlobalSettings.get_params("who") >= 0, None, lambda: "")
        return {}

    run_in_process({node: lambda channel: worker(channel, process()) for node in (0, 1)}, VirtualClock())
    assert sorted(seen) == [0, 0, 1, 1]
    with pytest.raises(LookupError, match="outside a job"):
        GlobalSettings.get_default()


def test_contents_arrive_as_copies() -> None:
    """The sender's array may change once the channel has taken it; a tuple stays a tuple."""
    fabric = Fabric([0, 1], lambda: 0.0)
    sent = np.arange(4.0)
    size = fabric.channel(0).post(1, (0, 0, 0, 0), (0, 1, sent))
    sent[:] = -1
    ((sender, message),) = fabric.arrivals(1)
    assert (sender, message.head, message.value[:2]) == (0, (0, 0, 0, 0), (0, 1))
    np.testing.assert_array_equal(message.value[2], [0, 1, 2, 3])
    assert (size.raw, size.overhead) == (message.raw, message.overhead) == (32, size.wire - 32)


def test_skipped_time_is_added_to_the_machines_time() -> None:
    real = [100.0]
    clock = SkippingClock(lambda: real[0])
    clock.advance_to(105.0)
    assert clock.monotonic() == 105.0
    real[0] = 101.0
    assert clock.monotonic() == 106.0
    clock.advance_to(50.0)
    assert clock.monotonic() == 106.0


@covers("SUB-31")
def test_a_dead_worker_is_no_deadlock_for_the_others() -> None:
    """With two copies of every block."""
    job = ArrayJob(DuplicateAssignment(4, 2), batches=3, ends_after={3: 0}).run()
    check_exact(job, nodes=(0, 1, 2))
