"""ClusterExecutor on real agents: what travels and what does not, workers that die, tasks that wait, and a clean end."""

from __future__ import annotations

import errno
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import BrokenExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executor import ClusterExecutor, RemoteError, RemoteTraceback
from network import NodeAssignment
from tests.processes.harness import wait_for
from tests.sources import ROOT

from . import calls
from .calls import LIMIT, Point, add, await_path, begin_and_await

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def shared(agents: NodeAssignment) -> Iterator[ClusterExecutor]:
    with ClusterExecutor(agents) as executor:
        yield executor


def alone(agents: NodeAssignment) -> NodeAssignment:
    """The first node only."""
    nodes = NodeAssignment(key_file=agents.key_file)
    nodes.add(0, agents[0])
    return nodes


def grown(number: int) -> int:
    return 1 if number == 0 else number * grown(number - 1)


# ---- what travels


def test_functions_of_every_kind(shared: ClusterExecutor) -> None:
    factor = 3
    assert shared.submit(lambda x: x * factor, 5).result(LIMIT) == 15
    assert shared.submit(grown, 20).result(LIMIT) == 2432902008176640000
    assert shared.submit(pow, 2, 100).result(LIMIT) == 2**100
    assert shared.submit("a-b".split, "-").result(LIMIT) == ["a", "b"]
    assert shared.submit(Point, 1, 2).result(LIMIT) == Point(1, 2)
    factor = 4
    assert shared.submit(lambda x: x * factor, 5).result(LIMIT) == 20


def test_data_of_every_kind(shared: ClusterExecutor) -> None:
    """Arguments come as they are, and so do results; one may be more than what a node may hold of small ones."""
    data: list[Any] = [None, True, 2**70, 1.5, "ä", b"\x00" * 9000, (1, [2, {"k": (3,)}]), {1: "x"}, Point(1, 2), np.float32(2)]
    assert shared.submit(calls.arguments, *data, key=data).result(LIMIT) == (tuple(data), {"key": data})
    assert shared.submit(calls.mirrored, Point(1, 2)).result(LIMIT) == Point(2, 1)
    array = np.arange(12, dtype=np.int16).reshape(3, 4)[:, ::2]
    found = shared.submit(lambda a: (a, a.T), array).result(LIMIT)
    np.testing.assert_array_equal(found[0], array)
    np.testing.assert_array_equal(found[1], array.T)
    large = np.arange(12_500_000, dtype=np.float64)
    assert shared.submit(lambda a: (a.nbytes, float(a[-1])), large).result(LIMIT) == (100_000_000, 12_499_999.0)
    numbers = list(range(400_000))  # more than a message may hold beside arrays
    assert shared.submit(lambda x: x, numbers).result(LIMIT) == numbers


def test_results_are_not_changed_by_later_tasks(shared: ClusterExecutor) -> None:
    """A task that returns an array that later ones write into returns what it was."""
    buffer = np.zeros(50_000)

    def fill(number: int) -> Any:
        buffer[:] = number
        return buffer if number % 2 else [buffer[10:]]

    found = list(shared.map(fill, range(40), timeout=LIMIT))
    for number, result in enumerate(found):
        array = result if number % 2 else result[0]
        assert (array == number).all(), number


def test_what_cannot_travel_is_refused_at_submit(shared: ClusterExecutor) -> None:
    """An argument is named by its place or keyword, a part of the function by its type; the executor goes on."""
    with pytest.raises(TypeError, match=r"Argument 1 of add cannot travel: builtins\.range_iterator"):
        shared.submit(add, 1, iter(range(2)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Argument 'b' of add cannot travel: builtins\.object"):
        shared.submit(add, 1, b=object())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Argument 0 of call 1 of add cannot travel"):
        shared.map(add, [1, object()], chunksize=2)
    lock = threading.Lock()
    with pytest.raises(TypeError, match="cannot travel"):
        shared.submit(lambda: lock.locked())
    with pytest.raises(TypeError, match="executes functions, got int"):
        shared.submit(7)  # type: ignore[arg-type]
    assert shared.submit(add, 1, 1).result(LIMIT) == 2


def test_an_exception_that_fails_itself(shared: ClusterExecutor) -> None:
    """Deep recursion, no memory, a full disk, a class that only the node has: the worker survives."""

    def fill() -> None:
        with open("/dev/full", "w", encoding="utf-8") as file:
            file.write("x" * 100_000)

    def raise_new() -> None:
        raise type("Fresh", (Exception,), {"__module__": "made.there"})("text")

    full, fresh = shared.submit(fill).exception(LIMIT), shared.submit(raise_new).exception(LIMIT)
    assert isinstance(full, OSError) and full.errno == errno.ENOSPC
    assert isinstance(fresh, RemoteError) and str(fresh) == "made.there.Fresh: text"
    assert isinstance(fresh.__cause__, RemoteTraceback) and "in raise_new" in fresh.__cause__.text
    assert isinstance(shared.submit(grown, 100_000).exception(LIMIT), RecursionError)
    memory = shared.submit(np.zeros, 1 << 50).exception(LIMIT)
    assert isinstance(memory, MemoryError)
    assert "Unable to allocate 8.00 PiB" in str(memory)
    assert shared.submit(add, 1).result(LIMIT) == 1


def test_many_functions(agents: NodeAssignment) -> None:
    """More than are remembered at a time: each works, and those that are forgotten are forgotten on the node."""
    with ClusterExecutor(alone(agents)) as executor:
        executor._functions._most = 4
        found = [executor.submit(eval("lambda: " + str(number))) for number in range(12)]
        assert [future.result(LIMIT) for future in found] == list(range(12))


def test_a_broadcast_value_is_unpacked_once_by_each_node(agents: NodeAssignment) -> None:
    """All functions that name it share the object, threads of a task too; after unpersist none has it any more."""
    with ClusterExecutor(agents) as executor, pytest.raises(TypeError, match="cannot travel"):
        executor.broadcast(object())

    def places() -> list[int]:
        found = [id(table.value)]
        thread = threading.Thread(target=lambda: found.append(id(table.value)))
        thread.start()
        thread.join()
        return found

    with ClusterExecutor(alone(agents)) as executor:
        table = executor.broadcast({"a": 1})
        found = set(executor.submit(places).result(LIMIT))
        found.add(executor.submit(lambda: id(table.value)).result(LIMIT))
        assert len(found) == 1
        table.unpersist()
        assert isinstance(executor.submit(lambda: len(table.value)).exception(LIMIT), LookupError)
        assert isinstance(executor.submit(places).exception(LIMIT), LookupError)


def test_an_executor_that_has_ended_is_not_kept(agents: NodeAssignment) -> None:
    """Whoever does not wait for the end of `shutdown` has its memory back all the same."""
    executor = ClusterExecutor(alone(agents))
    executor.shutdown(wait=False)
    executor._dispatcher.thread.join(LIMIT)
    dispatcher = weakref.ref(executor._dispatcher)
    del executor
    gc.collect()
    assert dispatcher() is None


def test_ctrl_c_does_not_wait_for_what_has_not_begun(agents: NodeAssignment, tmp_path: Path) -> None:
    """The task that a node works on ends, here when the last one is seen to be cancelled."""
    gate = tmp_path / "gate"
    futures = []
    with pytest.raises(KeyboardInterrupt), ClusterExecutor(alone(agents)) as executor:
        running = executor.submit(begin_and_await, str(tmp_path / "begun"), str(gate))
        await_path(tmp_path / "begun")
        futures += [executor.submit(add, 1, 1) for _ in range(100)]
        futures[-1].add_done_callback(lambda future: gate.touch() if future.cancelled() else None)
        raise KeyboardInterrupt
    running.result(0)
    assert futures[-1].cancelled() and all(future.done() for future in futures)


class Interrupter(logging.Handler):
    """At a record that begins with `Waiting for` it does something."""

    def __init__(self, do: Callable[[], object]) -> None:
        super().__init__()
        self._do, self.said = do, ""

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("Waiting for"):
            self.said = record.getMessage()
            self._do()


@pytest.mark.parametrize("has_options", [False, True])
def test_ctrl_c_says_for_what_it_waits(agents: NodeAssignment, tmp_path: Path, has_options: bool) -> None:
    """Here the task that has begun ends when that is said."""
    gate = tmp_path / "gate"
    teller = Interrupter(gate.touch)
    logging.getLogger("executor").addHandler(teller)
    try:
        executor = ClusterExecutor(alone(agents))
        with pytest.raises(KeyboardInterrupt), executor.with_options(timeout=60) if has_options else executor as used:
            running = used.submit(begin_and_await, str(tmp_path / "begun"), str(gate))
            await_path(tmp_path / "begun")
            wait_for(lambda: executor.status().running == 1, "the task to be known to run")
            behind = [used.submit(add, 1, 1) for _ in range(100)]
            raise KeyboardInterrupt
    finally:
        logging.getLogger("executor").removeHandler(teller)
    assert teller.said == "Waiting for a task that has begun; Ctrl-C again ends the executor without waiting."
    assert running.exception(0) is None
    assert behind[-1].cancelled()


def test_the_second_ctrl_c_ends_what_has_begun(agents: NodeAssignment, tmp_path: Path) -> None:
    """Its future raises BrokenExecutor, and the nodes are free when the block is left."""
    teller = Interrupter(lambda: os.kill(os.getpid(), signal.SIGINT))
    logging.getLogger("executor").addHandler(teller)
    executor = ClusterExecutor(alone(agents))
    try:
        with pytest.raises(KeyboardInterrupt), executor:
            running = executor.submit(begin_and_await, str(tmp_path / "begun"), str(tmp_path / "never"))
            await_path(tmp_path / "begun")
            wait_for(lambda: executor.status().running == 1, "the task to be known to run")
            raise KeyboardInterrupt
    finally:
        logging.getLogger("executor").removeHandler(teller)
    assert isinstance(running.exception(0), BrokenExecutor)
    assert "The executor was ended before its tasks" in str(running.exception(0))
    assert not executor._dispatcher.thread.is_alive()


def test_exit_handlers_that_come_later_submit_nothing(agents: NodeAssignment) -> None:
    """What ends the executor at the end of a program refuses what comes then, instead of forgetting it."""
    with ClusterExecutor(alone(agents)) as executor:
        executor._at_exit()
        with pytest.raises(RuntimeError, match="has been shut down and takes no tasks"):
            executor.submit(add, 1)


def test_an_error_nobody_foresaw_breaks_the_executor(agents: NodeAssignment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every future and every later call tells of it, as the standard executors do; also one that is submitted meanwhile."""

    class Odd(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(one + two)

    def fail(node: int) -> None:
        raise Odd(3, 4)

    with ClusterExecutor(alone(agents)) as executor:
        dispatcher, submit = executor._dispatcher, executor._dispatcher.submit

        def submit_late(task: Any, near: Collection[int]) -> None:
            monkeypatch.setattr(dispatcher, "_serve", fail)
            dispatcher._waker.wake()
            dispatcher.thread.join(0.5)  # it waits for us, or has failed all tasks before this one came
            submit(task, near)

        monkeypatch.setattr(dispatcher, "submit", submit_late)
        future = executor.submit(pow, 2, 2)
        with pytest.raises(BrokenExecutor, match=r"^The executor failed: Odd: 7$") as caught:
            future.result(LIMIT)
        assert isinstance(caught.value.__cause__, Odd)
        with pytest.raises(BrokenExecutor, match="Odd: 7"):
            executor.submit(pow, 2, 2)


def test_map_with_a_buffer_is_lazy(shared: ClusterExecutor) -> None:
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        number = 0
        while True:
            taken.append(number)
            yield number
            number += 1

    results = shared.map(add, numbers(), buffersize=3, timeout=LIMIT)
    assert taken == [0, 1, 2]
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert len(taken) == 8
    with pytest.raises(ValueError, match="'buffersize' must be None or a positive integer, got 0"):
        shared.map(add, [1], buffersize=0)
    results.close()  # type: ignore[attr-defined]


# ---- crowds


def test_a_slow_worker_does_not_hold_the_rest(shared: ClusterExecutor, tmp_path: Path) -> None:
    """While one task blocks its node, everything else is executed by the other, what had been sent to the first one, too."""
    gate = tmp_path / "gate"
    for _ in range(3):  # so that both lines are known to take many tiny tasks
        list(shared.map(add, range(500), timeout=LIMIT))
    blocking = shared.submit(begin_and_await, str(tmp_path / "begun"), str(gate))
    futures = [shared.submit(add, number) for number in range(1000)]
    try:
        assert wait(futures, LIMIT).not_done == set()
        assert not blocking.done()
    finally:
        gate.touch()
    assert blocking.result(LIMIT) > 0


HUNDRED_THOUSAND = """
import os
from pathlib import Path
from executor import ClusterExecutor, local_nodes

def add(number):
    return number + 1

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

with local_nodes(2) as nodes, ClusterExecutor(nodes) as executor:
    assert executor.submit(add, 1).result(60) == 2
    before = resident()
    futures = [executor.submit(add, number) for number in range(100_000)]
    after = resident()
    assert sum(future.result(100) for future in futures) == sum(range(1, 100_001))
    print(max(after, resident()) - before)
"""


@pytest.mark.long
def test_a_hundred_thousand_tiny_tasks() -> None:
    """All of them within 100 MB more in the submitting process, futures included: of a fresh one, whose memory is in order."""
    command = [sys.executable, "-c", HUNDRED_THOUSAND]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 100e6


def test_a_crowd_is_cancelled_at_once(agents: NodeAssignment, tmp_path: Path) -> None:
    """Of thousands that were submitted a moment ago only those run that a node holds already."""
    executor = ClusterExecutor(agents)
    blocking = [executor.submit(begin_and_await, str(tmp_path / f"b{n}"), str(tmp_path / "gate")) for n in range(4)]
    futures = [executor.submit(add, number) for number in range(5000)]
    executor.shutdown(wait=False, cancel_futures=True)
    (tmp_path / "gate").touch()
    executor.shutdown()
    assert sum(future.cancelled() for future in futures) >= 4990
    assert all(future.done() for future in [*futures, *blocking])


def test_pending_results_slow_the_node_not_this_process(shared: ClusterExecutor) -> None:
    """Results of 150 MB in all, of which few are alive at once: memory follows what is held, not what was made."""
    total = 0.0
    for result in shared.map(lambda n: np.full(125_000, float(n)), range(150), buffersize=8, timeout=60):
        total += float(result[0])
    assert total == sum(range(150))
