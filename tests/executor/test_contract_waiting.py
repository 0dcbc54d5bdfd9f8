"""What the documentation of `concurrent.futures` says of waiting, callbacks and shutdown, and asyncio's of such futures."""

from __future__ import annotations

import asyncio
import concurrent.futures as cf
import itertools
import threading
from pathlib import Path

import pytest

from tests.processes.harness import wait_for

from .calls import LIMIT, Mistake, add, fail, own_pid
from .kinds import Make, occupy

pytestmark = pytest.mark.processes
Occupied = tuple[cf.Executor, list[cf.Future[int]], Path]


def test_the_classes_are_those_of_the_standard_library(shared: cf.Executor) -> None:
    """'An abstract class that provides methods to execute calls asynchronously'; futures 'are created by Executor.submit()'."""
    assert isinstance(shared, cf.Executor)
    assert isinstance(shared.submit(add, 1), cf.Future)


# ---- wait and as_completed


def test_waiting_for_the_first_for_an_error_and_for_all(occupied: Occupied) -> None:
    """wait(): 'FIRST_COMPLETED: when any future finishes or is cancelled. FIRST_EXCEPTION: when any future finishes by raising
    an exception. If no future raises an exception then it is equivalent to ALL_COMPLETED'; 'timeout can be used to control the
    maximum number of seconds to wait before returning'.

    as_completed(): 'yields futures as they complete (finished or cancelled futures)', 'Any futures given by fs that are
    duplicated will be returned once. Any futures that completed before as_completed() is called will be yielded first'; 'raises
    a TimeoutError if __next__() is called and the result isn't available after timeout seconds from the original call'.
    """
    executor, futures, gate = occupied
    failing, short, cancelled = executor.submit(fail, 3), executor.submit(add, 1), executor.submit(add, 2)
    assert cancelled.cancel()
    assert cf.wait([futures[0], futures[0], failing], timeout=0.01) == (set(), {futures[0], failing})
    assert cf.wait(futures[:2], timeout=0, return_when=cf.FIRST_EXCEPTION).done == set()
    with pytest.raises(cf.TimeoutError):
        next(cf.as_completed(futures[:2], timeout=0.01))
    ended = cf.as_completed([*futures[:2], short, cancelled, short], LIMIT)
    gate.touch()
    assert cf.wait([short, failing], LIMIT, cf.FIRST_COMPLETED).done
    done, not_done = cf.wait([*futures, failing], LIMIT, cf.FIRST_EXCEPTION)
    assert failing in done or not not_done
    assert cf.wait([*futures, failing, cancelled], LIMIT) == ({*futures, failing, cancelled}, set())
    assert cf.wait(futures, LIMIT, cf.FIRST_EXCEPTION).not_done == set()
    found = list(ended)
    assert set(found) == {*futures[:2], short, cancelled}
    assert len(found) == 4
    never: cf.Future[int] = cf.Future()
    assert set(itertools.islice(cf.as_completed([never, *found], LIMIT), 4)) == set(found)


def test_futures_of_different_executors_are_waited_for_together(shared: cf.Executor) -> None:
    """'(possibly created by different Executor instances)'"""
    with cf.ThreadPoolExecutor(1) as pool:
        futures = [shared.submit(add, 1), pool.submit(add, 2), shared.submit(add, 3)]
        assert sorted(future.result() for future in cf.as_completed(futures, LIMIT)) == [1, 2, 3]
        assert cf.wait(futures, LIMIT).done == set(futures)


# ---- callbacks


def test_cancelled_futures(occupied: Occupied) -> None:
    """'fn will be called, with the future as its only argument, when the future is cancelled or finishes running'; 'If the
    future has already completed or been cancelled, fn will be called immediately.' asyncio cancels what it no longer awaits."""
    executor, _, _ = occupied
    called: list[cf.Future[int]] = []
    future, awaited = executor.submit(add, 1), executor.submit(add, 2)
    future.add_done_callback(called.append)
    assert not called
    assert future.cancel()
    future.add_done_callback(called.append)
    assert called == [future, future]

    async def give_up() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(awaited), 0.01)

    asyncio.run(give_up())
    assert awaited.cancelled()


def test_callbacks_run_in_this_process_and_may_submit(shared: cf.Executor) -> None:
    """'Added callables are ... always called in a thread belonging to the process that added them.'"""
    seen: list[int] = []
    followed: cf.Future[int] = cf.Future()

    def go_on(done: cf.Future[int]) -> None:
        seen.append(own_pid())
        shared.submit(add, done.result(), 1).add_done_callback(lambda last: followed.set_result(last.result()))

    shared.submit(add, 1).add_done_callback(go_on)
    assert followed.result(LIMIT) == 2
    assert seen == [own_pid()]


def test_many_threads_may_submit(shared: cf.Executor) -> None:
    found: dict[int, list[int]] = {}

    def work(base: int) -> None:
        futures = [shared.submit(add, base, number) for number in range(50)]
        found[base] = [future.result(LIMIT) for future in futures]

    threads = [threading.Thread(target=work, args=(base,)) for base in (0, 1000, 2000, 3000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert found == {base: [base + number for number in range(50)] for base in (0, 1000, 2000, 3000)}


# ---- map and shutdown


def test_map_gives_what_is_there_before_an_error(shared: cf.Executor) -> None:
    """The exception 'will be raised when its value is retrieved from the iterator', not before; then the iterator is done."""
    results = shared.map(divmod, [7, 8, 9], [2, 0, 2], timeout=LIMIT)
    assert next(results) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        next(results)
    with pytest.raises(StopIteration):
        next(results)


def test_map_waits_as_long_as_it_takes_without_a_limit(shared: cf.Executor) -> None:
    """'timeout can be an int or a float. If timeout is not specified or None, there is no limit to the wait time.'"""
    assert list(shared.map(add, [1], timeout=None)) == list(shared.map(add, [1], timeout=20)) == [1]


def test_shutdown_with_wait_and_cancel(make: Make, tmp_path: Path) -> None:
    """'If both cancel_futures and wait are True, all futures that the executor has started running will be completed prior to
    this method returning. The remaining futures are cancelled.'"""
    executor = make()
    with occupy(executor, tmp_path) as (futures, gate):
        thread = threading.Thread(target=executor.shutdown, kwargs={"cancel_futures": True})
        thread.start()
        wait_for(futures[-1].cancelled, "the last future to be cancelled")
        assert thread.is_alive()
        gate.touch()
        thread.join(LIMIT)
        assert not thread.is_alive()
        assert all(future.done() for future in futures)
        assert [future.cancelled() for future in futures[:2]] == [False, False]


# ---- asyncio


def test_asyncio_awaits_futures(shared: cf.Executor) -> None:
    """asyncio.wrap_future and loop.run_in_executor, results and exceptions."""

    async def work() -> tuple[int, int, type[BaseException]]:
        loop = asyncio.get_running_loop()
        wrapped = await asyncio.wait_for(asyncio.wrap_future(shared.submit(add, 1, 2)), LIMIT)
        called = await asyncio.wait_for(loop.run_in_executor(shared, add, 3), LIMIT)
        (failed,) = await asyncio.gather(asyncio.wrap_future(shared.submit(fail, 4)), return_exceptions=True)
        assert isinstance(failed, BaseException)
        return wrapped, called, type(failed)

    assert asyncio.run(work()) == (3, 3, Mistake)
