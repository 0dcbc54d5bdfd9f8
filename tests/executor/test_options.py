"""Time limits and retries of single calls, and what an executor tells of itself."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from executor import ClusterExecutor, NodeLost
from executor.parallel import Context
from network import NodeAssignment

from .calls import LIMIT, Mistake, add, alone, await_path, await_that, begin_and_await, end_after, own_pid

needs_nodes = pytest.mark.processes


@pytest.fixture(scope="module")
def shared(agents: NodeAssignment) -> Iterator[ClusterExecutor]:
    with ClusterExecutor(alone(agents)) as executor:
        yield executor


def compute_for_ever() -> None:
    while True:
        pass


def ignore_interruptions(begun: str) -> None:
    """From the moment on when the file `begun` is there."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            Path(begun).touch()
            time.sleep(600)


def answer_when_interrupted(begun: str) -> str:
    """From the moment on when the file `begun` is there."""
    with contextlib.suppress(KeyboardInterrupt):
        Path(begun).touch()
        time.sleep(600)
    return "so far"


def until_begun(submit: Callable[[], Future[Any]], begun: Path) -> Future[Any]:
    """Submit a task with a limit until one has begun before its limit was over, which on a busy machine the first may not have;
    return the future of that one, which has ended."""
    for _ in range(100):
        future = submit()
        future.exception(LIMIT)
        if begun.exists():
            return future
    raise AssertionError(f"no task has begun: {future.exception()}")


def fail_at_first(folder: str, how: Callable[[int], object] = ValueError) -> int:
    """Fail the first two times; returns how often it has run."""
    count = len(os.listdir(folder))
    Path(folder, str(count)).touch()
    if count < 2:
        raise how(count)  # type: ignore[misc]
    return count + 1


@needs_nodes
def test_a_task_that_takes_too_long(shared: ClusterExecutor, tmp_path: Path) -> None:
    """It is interrupted where it is, sleeping or computing, and raises TimeoutError; its process goes on."""
    pid = shared.submit(own_pid).result(LIMIT)
    limited = shared.with_options(timeout=0.2)
    for late in (limited.submit(time.sleep, 600), limited.submit(compute_for_ever)):
        error = late.exception(LIMIT)
        assert isinstance(error, TimeoutError)
        assert "It took longer than its limit of 0.2 s" in str(error)
    begun = tmp_path / "begun"
    assert until_begun(lambda: limited.submit(answer_when_interrupted, str(begun)), begun).result() == "so far"
    patient = shared.with_options(timeout=LIMIT)
    assert patient.submit(own_pid).result(LIMIT) == pid
    assert list(patient.map(add, range(5), timeout=LIMIT)) == list(range(5))
    assert shared.submit(time.sleep, 0.5).exception(LIMIT) is None


@needs_nodes
def test_a_task_that_cannot_be_interrupted(agents: NodeAssignment, tmp_path: Path) -> None:
    """Its process is ended and started again; the tasks behind it run there."""
    with ClusterExecutor(alone(agents)) as executor:
        pid = executor.submit(own_pid).result(LIMIT)
        begun, behind = tmp_path / "begun", []

        def submit() -> Future[None]:
            late = executor.with_options(timeout=0.1).submit(ignore_interruptions, str(begun))
            behind.append(executor.submit(own_pid))
            return late

        error = until_begun(submit, begun).exception()
        assert isinstance(error, TimeoutError)
        assert "ignore_interruptions took longer than its limit of 0.1 s on Node(0)" in str(error)
        assert behind[-1].result(LIMIT) != pid


@needs_nodes
def test_a_call_has_retries_of_its_own(agents: NodeAssignment, tmp_path: Path) -> None:
    """After the loss of its node, as many as it has whatever the executor says, and after the errors that are named; others
    are raised at once, and in the end the last one."""
    named = {"retries": 2, "retry_on": (OSError, ValueError)}
    with ClusterExecutor(alone(agents)) as executor:
        for number, (how, options, count, error) in enumerate(
            (
                (ValueError, named, 3, "None"),
                (Mistake, named, 1, "Mistake"),
                (ValueError, {"retries": 1, "retry_on": ValueError}, 2, "ValueError(1)"),
                (os._exit, {"retries": 2}, 3, "None"),
                (os._exit, {}, 1, "NodeLost"),
            )
        ):
            (folder := tmp_path / str(number)).mkdir()
            future = executor.with_options(**options).submit(partial(fail_at_first, str(folder), how))  # type: ignore[arg-type]
            told = repr(future.exception(LIMIT))
            assert (len(os.listdir(folder)), told[: len(error)]) == (count, error)
            assert error != "None" or future.result(LIMIT) == count


@needs_nodes
def test_collections_compute_with_options(shared: ClusterExecutor) -> None:
    """What has options is a Keeper as the executor is, so partitions stay on the nodes; it says what it is."""
    limited = shared.with_options(timeout=60).with_options(retries=1)
    assert limited.nodes == [0]
    kept = Context(limited).parallelize(range(100)).map(lambda n: n + 1).persist()
    assert (kept.count(), kept.reduce(max)) == (100, 100)
    assert repr(limited).startswith("<ClusterExecutor 'executor': 1 of 1 nodes live, ")
    assert repr(limited).endswith(", with TaskOptions(timeout=60.0, retries=1, retry_on=())>")
    assert limited.status().nodes == (0,)
    table = limited.broadcast({"a": 7})
    assert limited.submit(lambda: table.value["a"]).result(LIMIT) == 7
    assert Context(limited).broadcast(5)._drop is not None and not Context(limited)._files


@needs_nodes
def test_what_an_executor_tells_of_itself(shared: ClusterExecutor, tmp_path: Path) -> None:
    """Nodes, and tasks that wait, run and are done; also in its repr."""
    before = shared.status().done
    gate = tmp_path / "gate"
    futures = [shared.submit(begin_and_await, str(tmp_path / "begun"), str(gate))]
    futures += [shared.submit(own_pid) for _ in range(6)]
    await_path(tmp_path / "begun")
    await_that(lambda: shared.status().running == 1, "the task was not known to run")
    status = shared.status()
    assert (status.nodes, status.live, dict(status.lost)) == ((0,), (0,), {})
    assert (status.waiting, status.running, status.done - before, status.closed) == (6, 1, 0, False)
    assert repr(shared) == f"<ClusterExecutor 'executor': 1 of 1 nodes live, 6 tasks waiting, 1 running, {before} done>"
    gate.touch()
    assert all(future.result(LIMIT) for future in futures)
    assert shared.status().waiting == 0
    assert shared.status().done - before >= 6


@needs_nodes
def test_status_in_words(agents: NodeAssignment, tmp_path: Path) -> None:
    """Also that a process is started again, while it is."""
    with ClusterExecutor(alone(agents)) as executor:
        lost = executor.submit(end_after, str(tmp_path / "gate"), "exit")
        told: list[str] = []
        # called before the new process can be taken in, by the thread that would do it
        lost.add_done_callback(lambda _: told.append(str(executor.status())))
        (tmp_path / "gate").touch()
        assert isinstance(lost.exception(LIMIT), NodeLost)
        await_that(lambda: bool(told), "the callback was not called")
        assert told[0].startswith("0 of 1 nodes live, 1 restarting, ")
        assert executor.submit(add, 1).result(LIMIT) == 1
    assert str(executor.status()) == "1 of 1 nodes live, 0 tasks waiting, 0 running, 2 done, shut down"


@needs_nodes
def test_wrong_options_are_named(shared: ClusterExecutor) -> None:
    integer = "'retries' must be an integer from 0, got -1"
    exceptions = "'retry_on' must be an exception class or a tuple of them, got 'OSError'"
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        *(
            ({"timeout": timeout}, ValueError, "'timeout' must be seconds from above 0")
            for timeout in (0, -1, True, float("nan"), float("inf"))
        ),
        ({"retries": -1}, ValueError, integer),
        ({"retry_on": "OSError"}, TypeError, exceptions),
    ]
    for options, error, message in wrong:
        with pytest.raises(error, match=f"with_options {message}"):
            shared.with_options(**options)
    assert repr(shared.with_options(retry_on=OSError)).endswith("retry_on=(<class 'OSError'>,))>")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"retries": -1}, ValueError, "'retries' must be an integer from 0, got -1"),
        ({"keep_bytes": True}, ValueError, "'keep_bytes' must be an integer from 0, got True"),
        ({"blas_threads": -1}, ValueError, "'blas_threads' must be an integer from 0, got -1"),
        ({"nodes": ["127.0.0.1"]}, TypeError, "'nodes' must be a NodeAssignment, got list"),
        ({"nodes": NodeAssignment().add(-2, "127.0.0.1")}, ValueError, "'nodes' must have at least one worker, got none"),
        ({"output": "on"}, ValueError, "'output' must be one of 'off', 'inline', 'future', got 'on'"),
        ({"trust_results": 1}, TypeError, "ClusterExecutor 'trust_results' must be True or False, got 1"),
        ({"initializer": 5}, TypeError, "'initializer' must be a callable, got int"),
        *(
            (
                {"initializer": add, "initargs": wrong},
                TypeError,
                f"'initargs' must be a tuple of arguments, got {wrong!r}: write",
            )
            for wrong in (5, "path", None)
        ),
        ({"initargs": (1,)}, ValueError, "'initargs' are the arguments of an 'initializer', got 1 without one"),
        ({"initializer": add, "initargs": (threading.Lock(),)}, TypeError, "initializer add cannot travel: .*lock"),
    ],
)
def test_wrong_arguments_are_named(options: dict[str, Any], error: type[Exception], message: str) -> None:
    """Before anything is started."""
    with pytest.raises(error, match=message):
        ClusterExecutor(**{"nodes": NodeAssignment(), **options})
