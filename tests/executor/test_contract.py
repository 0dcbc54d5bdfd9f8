"""The semantics of `concurrent.futures` as its documentation states them, for its own executors and for ours."""

from __future__ import annotations

import asyncio
import concurrent.futures as cf
import itertools
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from network import NodeAssignment
from tests.processes.harness import wait_for

from . import calls
from .calls import LIMIT, Mistake, add, begin_and_await, divide, fail, own_pid
from .kinds import KINDS, Make, maker, occupy

pytestmark = pytest.mark.processes
Occupied = tuple[cf.Executor, list[cf.Future[int]], Path]

# ---- Executor.submit and Future


def test_submit_calls_with_arguments_and_keywords(shared: cf.Executor) -> None:
    """'Schedules the callable, fn, to be executed as fn(*args, **kwargs) and returns a Future.'"""
    assert isinstance(shared, cf.Executor) and isinstance(shared.submit(add, 1), cf.Future)
    future = shared.submit(calls.arguments, 1, "two", three=[3.0], fn=None)
    assert future.result(LIMIT) == ((1, "two"), {"three": [3.0], "fn": None})
    assert future.done()
    assert not future.running()
    assert not future.cancelled()
    assert future.exception(LIMIT) is None


def test_a_done_future_cannot_be_cancelled(shared: cf.Executor) -> None:
    """'If the call is currently being executed or finished running and cannot be cancelled then the method will return
    False.'"""
    future = shared.submit(add, 1)
    assert future.result(LIMIT) == 1
    assert future.cancel() is False
    assert future.result(0) == 1


@pytest.mark.parametrize(("function", "args", "expected"), [(divide, (1, 0), ZeroDivisionError), (fail, (7,), Mistake)])
def test_exceptions_of_the_call_are_raised_by_result(
    shared: cf.Executor, function: Callable[..., Any], args: tuple[int, ...], expected: type[Exception]
) -> None:
    """'If the call raised an exception, this method will raise the same exception.'"""
    future = shared.submit(function, *args)
    error = future.exception(LIMIT)
    assert type(error) is expected
    with pytest.raises(expected) as caught:
        future.result(LIMIT)
    assert caught.value is error
    if expected is Mistake:
        assert error.args == ("mistake 7",)
        assert error.code == 7  # type: ignore[union-attr]


def test_the_traceback_of_another_process_is_the_cause(shared: cf.Executor, kind: str) -> None:
    """The traceback of the worker is chained as text."""
    error = shared.submit(divide, 1, 0).exception(LIMIT)
    assert error is not None
    if kind != "threads":
        assert "in divide" in str(error.__cause__)


def test_objects_of_a_method_are_not_kept(shared: cf.Executor) -> None:
    """What nobody but the call refers to is gone when the call has ended, though no other one follows."""
    item, gone = calls.Point(1, 2), threading.Event()
    weakref.finalize(item, gone.set)
    shared.submit(item.swapped)  # and the future is discarded
    del item
    assert gone.wait(LIMIT)


def test_an_exit_is_an_exception_like_any_other(shared: cf.Executor) -> None:
    """A task that calls sys.exit ends by itself only: the worker goes on."""
    assert isinstance(shared.submit(calls.leave).exception(LIMIT), SystemExit)
    assert shared.submit(add, 2).result(LIMIT) == 2


def test_callbacks_are_called_in_order_with_the_future(shared: cf.Executor) -> None:
    """'Added callables are called in the order that they were added'; one that raises an Exception is logged and ignored."""
    seen: list[tuple[str, Any]] = []
    ended = threading.Event()
    future = shared.submit(add, 3)
    future.add_done_callback(lambda done: seen.append(("first", done)))
    future.add_done_callback(lambda done: [][0])
    future.add_done_callback(lambda done: (seen.append(("last", done)), ended.set()))
    assert ended.wait(LIMIT)
    assert seen == [("first", future), ("last", future)]
    future.add_done_callback(lambda done: seen.append(("at once", done)))
    assert seen[-1] == ("at once", future)


# ---- tasks that run and wait


def test_states_of_running_and_waiting_futures(occupied: Occupied) -> None:
    """running(), cancel() of a running call is False, of a waiting one True; result and exception raise TimeoutError."""
    executor, futures, gate = occupied
    assert futures[0].running()
    assert futures[0].cancel() is False
    assert not futures[0].done()
    with pytest.raises(cf.TimeoutError):
        futures[0].result(timeout=0.01)
    with pytest.raises(cf.TimeoutError):
        futures[0].exception(timeout=0.01)
    waiting = executor.submit(add, 1)
    assert not waiting.running()
    assert waiting.cancel() is True
    assert waiting.cancelled()
    assert waiting.done()
    with pytest.raises(cf.CancelledError):
        waiting.result(0)
    with pytest.raises(cf.CancelledError):
        waiting.exception(0)
    gate.touch()
    assert all(type(future.result(LIMIT)) is int for future in futures)


def test_waiters_hear_of_cancelled_futures(occupied: Occupied) -> None:
    """A storm of cancellations: each future is either cancelled or done, wait() returns, callbacks are called once."""
    executor, _, gate = occupied
    called: list[cf.Future[int]] = []
    storm = [executor.submit(add, number) for number in range(500)]
    for future in storm:
        future.add_done_callback(called.append)
    stormed = [future for number, future in enumerate(storm) if number % 3 and future.cancel()]
    gate.touch()
    assert cf.wait(storm, LIMIT).not_done == set()
    assert len(stormed) == sum(1 for number in range(500) if number % 3)
    assert all(future.cancelled() for future in stormed)
    assert [future.result() for number, future in enumerate(storm) if not number % 3] == list(range(0, 500, 3))
    assert sorted(map(id, called)) == sorted(map(id, storm))


def test_shutdown_without_wait_lets_everything_end(make: Make, tmp_path: Path) -> None:
    """'If wait is False then this method will return immediately'; pending futures are executed, new ones refused."""
    executor = make()
    futures = [executor.submit(begin_and_await, str(tmp_path / f"b{n}"), str(tmp_path / "gate")) for n in range(5)]
    executor.shutdown(wait=False)
    assert not any(future.done() for future in futures)
    with pytest.raises(RuntimeError, match=r"shut\s?down"):
        executor.submit(add, 1)
    (tmp_path / "gate").touch()
    assert all(type(future.result(LIMIT)) is int for future in futures)
    executor.shutdown(wait=True)


def test_leaving_the_block_waits_and_refuses_more(make: Make) -> None:
    """The with statement 'will shutdown the Executor (waiting as if Executor.shutdown() were called with wait set to True)'."""
    with make() as executor:
        futures = [executor.submit(add, number, 1) for number in range(50)]
        results = executor.map(add, range(3))
    assert all(future.done() for future in futures)
    assert list(results) == [0, 1, 2]
    with pytest.raises(RuntimeError):
        executor.submit(add, 1)
    with pytest.raises(RuntimeError):
        executor.map(add, [1])
    executor.shutdown()


def test_shutdown_from_a_callback(make: Make) -> None:
    """A callback may shut the executor down without waiting; what was submitted is executed."""
    executor = make()
    with ExitStack() as stack:
        stack.callback(executor.shutdown)
        future = executor.submit(add, 1)
        future.add_done_callback(lambda done: executor.shutdown(wait=False))
        assert future.result(LIMIT) == 1


# ---- Executor.map


@pytest.mark.parametrize("chunksize", [1, 3, 100])
def test_map_keeps_the_order(shared: cf.Executor, chunksize: int) -> None:
    """As map(fn, *iterables): in order, as long as the shortest iterable, whatever the chunks."""
    assert list(shared.map(add, range(25), range(100, 200), chunksize=chunksize, timeout=LIMIT)) == [
        a + b for a, b in zip(range(25), range(100, 200), strict=False)
    ]
    assert list(shared.map(add, [], chunksize=chunksize)) == []


def test_map_collects_at_once_and_raises_when_a_value_is_retrieved(shared: cf.Executor) -> None:
    """'the iterables are collected immediately rather than lazily'; 'If a fn call raises an exception, then that exception
    will be raised when its value is retrieved from the iterator.'"""
    taken: list[int] = []
    results = shared.map(divide, [4, 3, 2], (taken.append(n) or n for n in (2, 0, 1)), timeout=LIMIT)
    assert taken == [2, 0, 1]
    assert next(results) == 2
    with pytest.raises(ZeroDivisionError):
        next(results)
    with pytest.raises(StopIteration):
        next(results)


def test_map_times_out_from_the_call_on(occupied: Occupied) -> None:
    """'The returned iterator raises a TimeoutError if __next__() is called and the result isn't available after timeout
    seconds from the original call'"""
    executor, _, _ = occupied
    with pytest.raises(cf.TimeoutError):
        next(executor.map(add, [1], timeout=0.01))


def test_chunks_must_be_positive(make: Make, kind: str, shared: cf.Executor) -> None:
    if kind != "threads":
        with pytest.raises(ValueError, match="chunksize"):
            shared.map(add, [1], chunksize=0)


# ---- workers that die


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "threads"])
def test_a_dying_worker_breaks_its_futures(kind: str, agents: NodeAssignment) -> None:
    """BrokenExecutor is raised by the future whose worker has died; nobody waits for ever."""
    with maker(kind, agents)() as executor:
        error = executor.submit(calls.die).exception(LIMIT)
        assert isinstance(error, cf.BrokenExecutor)


# ---- waiting, callbacks, shutdown, and asyncio


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


def test_map_waits_as_long_as_it_takes_without_a_limit(shared: cf.Executor) -> None:
    """'timeout can be an int or a float. If timeout is not specified or None, there is no limit to the wait time.'"""
    assert list(shared.map(add, [1], timeout=None)) == list(shared.map(add, [1], timeout=20)) == [1]


def test_shutdown_with_wait_and_cancel(make: Make, tmp_path: Path) -> None:
    """'If both cancel_futures and wait are True, all futures that the executor has started running will be completed prior to
    this method returning. The remaining futures are cancelled.' 'Any futures that are completed or running won't be
    cancelled.'"""
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
