"""A future whose condition is made when somebody waits: it behaves as any other, and is small."""

from __future__ import annotations

import concurrent.futures as cf
import threading
import tracemalloc

import pytest

from executor.tasks import TaskFuture

LIMIT = 20.0


def waiting_threads(future: TaskFuture[int], count: int, seen: list[object]) -> list[threading.Thread]:
    """Threads that ask for the result, and note what they get."""

    def ask() -> None:
        try:
            seen.append(future.result(LIMIT))
        except cf.CancelledError:
            seen.append("cancelled")

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


@pytest.mark.parametrize("end", ["result", "cancel"])
def test_everybody_who_waits_hears_of_the_end(end: str) -> None:
    """Who waits already, and who asks later."""
    future: TaskFuture[int] = TaskFuture()
    seen: list[object] = []
    threads = waiting_threads(future, 4, seen)
    if end == "result":
        assert future.set_running_or_notify_cancel()
        future.set_result(7)
    else:
        assert future.cancel()
    threads += waiting_threads(future, 1, seen)
    for thread in threads:
        thread.join(LIMIT)
    assert seen == [7 if end == "result" else "cancelled"] * 5


def test_time_outs_and_the_functions_of_the_module() -> None:
    """A wait that ends too early changes nothing; wait and as_completed see the futures as they end."""
    futures: list[cf.Future[int]] = [TaskFuture() for _ in range(3)]
    with pytest.raises(cf.TimeoutError):
        futures[0].result(0.001)
    assert cf.wait(futures, 0.001).done == set()
    for number, future in enumerate(futures):
        assert future.set_running_or_notify_cancel()
        future.set_result(number)
    assert sorted(future.result() for future in cf.as_completed(futures, LIMIT)) == [0, 1, 2]
    assert cf.wait(futures, LIMIT).not_done == set()


def test_a_future_that_nobody_waits_for_is_small() -> None:
    """Less than half a kilobyte, where those of the standard library have more than one."""
    count = 1000
    tracemalloc.start()
    try:
        futures: list[cf.Future[int]] = [TaskFuture() for _ in range(count)]
        assert tracemalloc.get_traced_memory()[0] < 512 * count
        assert not any(future.done() for future in futures)
    finally:
        tracemalloc.stop()
