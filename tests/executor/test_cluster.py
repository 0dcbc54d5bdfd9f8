"""ClusterExecutor on real agents: what travels and what does not, tasks that wait, what they print, and a clean end."""

from __future__ import annotations

import errno
import gc
import linecache
import logging
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import BrokenExecutor, Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executor import ClusterExecutor, RemoteError, RemoteTraceback
from network import NodeAssignment
from tests.processes.harness import wait_for
from tests.sources import ROOT

from . import calls
from .calls import LIMIT, Point, add, alone, await_path, await_that, begin_and_await

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def shared(agents: NodeAssignment) -> Iterator[ClusterExecutor]:
    with ClusterExecutor(agents) as executor:
        yield executor


def grown(number: int) -> int:
    return 1 if number == 0 else number * grown(number - 1)


# ---- what travels


def test_functions_and_data_of_every_kind(shared: ClusterExecutor) -> None:
    """Arguments come as they are, and so do results; one may be more than what a node may hold of small ones."""
    factor = 3
    assert shared.submit(lambda x: x * factor, 5).result(LIMIT) == 15
    assert shared.submit(grown, 20).result(LIMIT) == 2432902008176640000
    assert shared.submit(pow, 2, 100).result(LIMIT) == 2**100
    assert shared.submit("a-b".split, "-").result(LIMIT) == ["a", "b"]
    assert shared.submit(Point, 1, 2).result(LIMIT) == Point(1, 2)
    factor = 4
    assert shared.submit(lambda x: x * factor, 5).result(LIMIT) == 20
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

    for number, result in enumerate(list(shared.map(fill, range(40), timeout=LIMIT))):
        array = result if number % 2 else result[0]
        assert (array == number).all(), number


def test_what_cannot_travel_is_refused_at_submit(shared: ClusterExecutor) -> None:
    """An argument is named by its place or keyword, a part of the function by its type; the executor goes on."""
    lock = threading.Lock()
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: shared.submit(add, 1, iter(range(2))), r"Argument 1 of add cannot travel: builtins\.range_iterator"),  # type: ignore[arg-type]
        (lambda: shared.submit(add, 1, b=object()), r"Argument 'b' of add cannot travel: builtins\.object"),  # type: ignore[arg-type]
        (lambda: shared.map(add, [1, object()], chunksize=2), r"Argument 0 of call 1 of add cannot travel"),
        (lambda: shared.submit(lambda: lock.locked()), "cannot travel"),
        (lambda: shared.submit(7), "executes functions, got int"),  # type: ignore[arg-type]
        (lambda: shared.broadcast(object()), "cannot travel"),
    ]
    for call, message in refused:
        with pytest.raises(TypeError, match=message):
            call()
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
    assert isinstance(memory, MemoryError) and "Unable to allocate 8.00 PiB" in str(memory)
    assert shared.submit(add, 1).result(LIMIT) == 1


def test_many_functions_and_a_broadcast_value_that_is_unpacked_once_by_each_node(agents: NodeAssignment) -> None:
    """More functions than are remembered at a time: each works, and those that are forgotten are forgotten on the node. All
    that name a value share the object, threads of a task too; after unpersist none has it any more."""

    def places() -> list[int]:
        found = [id(table.value)]
        thread = threading.Thread(target=lambda: found.append(id(table.value)))
        thread.start()
        thread.join()
        return found

    with ClusterExecutor(alone(agents)) as executor:
        executor._functions._most = 4
        made = [executor.submit(eval("lambda: " + str(number))) for number in range(12)]
        assert [future.result(LIMIT) for future in made] == list(range(12))
        table = executor.broadcast({"a": 1})
        found = {*executor.submit(places).result(LIMIT), executor.submit(lambda: id(table.value)).result(LIMIT)}
        assert len(found) == 1
        table.unpersist()
        for ask in (lambda: len(table.value), places):
            assert isinstance(executor.submit(ask).exception(LIMIT), LookupError)


def test_map_with_a_buffer_is_lazy_and_pending_results_slow_the_node(shared: ClusterExecutor) -> None:
    """Results of 150 MB in all, of which few are alive at once: memory follows what is held, not what was made."""
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        while True:
            taken.append(len(taken))
            yield taken[-1]

    results = shared.map(add, numbers(), buffersize=3, timeout=LIMIT)
    assert taken == [0, 1, 2]
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert len(taken) == 8
    with pytest.raises(ValueError, match="'buffersize' must be None or a positive integer, got 0"):
        shared.map(add, [1], buffersize=0)
    results.close()  # type: ignore[attr-defined]
    arrays = shared.map(lambda n: np.full(125_000, float(n)), range(150), buffersize=8, timeout=LIMIT)
    assert sum(float(array[0]) for array in arrays) == sum(range(150))


# ---- what tasks print and log comes inline, with the future, or not at all


def speak(number: int) -> int:
    print("number", number)
    thread = threading.Thread(target=print, args=("in a thread",))
    thread.start()
    thread.join()
    logging.getLogger("mine").warning("logged")
    return number


def test_output(agents: NodeAssignment, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """Inline by default; it is there before the result."""
    with ClusterExecutor(agents) as executor:
        assert executor.submit(speak, 3).result(LIMIT) == 3
        shown = capfd.readouterr().out.splitlines()
        assert [line.partition("] ")[2] for line in shown] == ["number 3", "in a thread"]
        assert all(line.startswith("[Node(") and " speak#0]" in line for line in shown)
        assert [record[0] for record in caplog.record_tuples if "mine: logged" in record[2]] == ["executor.tasks"]
    with ClusterExecutor(agents, output="future") as executor:
        futures: list[Any] = [executor.submit(speak, number) for number in range(10)]
        for number, future in enumerate(futures):
            assert future.result(LIMIT) == number
            assert future.output == f"number {number}\nin a thread\nWARNING mine: logged\n"
        assert executor.submit(add, 1).output == ""  # type: ignore[attr-defined]
    with ClusterExecutor(agents, output="off") as executor:
        quiet: Any = executor.submit(speak, 3)
        assert (quiet.result(LIMIT), quiet.output) == (3, "")
    assert capfd.readouterr().out == ""


def shout(text: str, by_logger: bool) -> None:
    if by_logger:
        logging.getLogger("mine").warning(text)
    else:
        print(text)


def test_much_in_one_go(agents: NodeAssignment) -> None:
    """Of what a task prints or logs the first MiB comes, also when that is one line, in any script; it costs no node."""
    with ClusterExecutor(agents, output="future") as executor:
        for text, by_logger in (
            ("x" * 1_048_576, False),
            ("z" * 2_000_000, True),
            ("\N{LATIN SMALL LETTER U WITH DIAERESIS}" * 1_000_000, False),
            (("\N{EURO SIGN}" * 33 + "\n") * 20_000, False),
        ):
            future: Any = executor.submit(shout, text, by_logger)
            assert future.result(LIMIT) is None
            told, _, note = future.output.partition("\n(")
            before = "WARNING mine: " if by_logger else ""
            assert (before + text).startswith(told := told.removesuffix("\n"))
            assert (1 << 20) - 4 <= len(told.encode()) <= (1 << 20) + len(before)
            assert note.endswith("bytes more are in the log of the job only)\n")
        assert executor.live_nodes == executor.nodes


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


# ---- cancelling is exact, whatever ran before: what has not begun on its node never will, wherever it lies

COUNT = 60


def quick_or_slow(begun: str, gate: str) -> int:
    return begin_and_await(begun, gate) if begun else 0


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("by_shutdown", [False, True])
def test_what_lies_in_a_line_can_be_cancelled(agents: NodeAssignment, tmp_path: Path, by_shutdown: bool) -> None:
    """A function that was quick is slow now, so that nodes hold many calls of it; two of them have begun. The others are no
    more running than if they were not sent: `cancel` withdraws them, and True is a promise; so does `shutdown`, for which
    nobody waits."""
    gate = tmp_path / "gate"
    with ClusterExecutor(agents) as executor:
        try:
            assert sum(executor.map(quick_or_slow, [""] * 2000, [""] * 2000, timeout=LIMIT)) == 0
            paths = [tmp_path / f"begun-{number}" for number in range(COUNT)]
            futures = [executor.submit(quick_or_slow, str(path), str(gate)) for path in paths]
            for path in paths[:2]:
                await_path(path)
            await_that(lambda: sum(future.running() for future in futures) == 2, "the nodes did not tell what they had begun")
            if by_shutdown:
                ended: list[Future[int]] = []

                def count(future: Future[int]) -> None:
                    ended.append(future)
                    if len(ended) == COUNT - 2:
                        gate.touch()

                for future in futures[2:]:
                    future.add_done_callback(count)
                executor.shutdown(cancel_futures=True)
                assert [future.cancelled() for future in futures] == [False] * 2 + [True] * (COUNT - 2)
            else:
                assert [future.cancel() for future in reversed(futures)] == [True] * (COUNT - 2) + [False] * 2
                assert all(future.cancelled() for future in futures[2:])
                gate.touch()
                assert all(future.result(LIMIT) > 0 for future in futures[:2])
                assert executor.submit(add, 1, 1).result(LIMIT) == 2
            assert len(list(tmp_path.glob("begun-*"))) == 2
        finally:
            gate.touch()


# ---- ends


@contextmanager
def when_waiting(do: Callable[[], object]) -> Iterator[list[str]]:
    """At a record that begins with `Waiting for` something is done; yields what is said."""
    said: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("Waiting for"):
                said.append(record.getMessage())
                do()

    handler = Handler()
    logging.getLogger("executor").addHandler(handler)
    try:
        yield said
    finally:
        logging.getLogger("executor").removeHandler(handler)


def begin(executor: ClusterExecutor, folder: Path, whole: ClusterExecutor) -> Future[int]:
    """A task that is known to run, until `gate` is there."""
    running = executor.submit(begin_and_await, str(folder / "begun"), str(folder / "gate"))
    await_path(folder / "begun")
    wait_for(lambda: whole.status().running == 1, "the task to be known to run")
    return running


@pytest.mark.parametrize("has_options", [False, True])
def test_ctrl_c_waits_for_what_has_begun_and_says_so(agents: NodeAssignment, tmp_path: Path, has_options: bool) -> None:
    """Not for what has not begun. Here the task that has begun ends when that is said."""
    executor = ClusterExecutor(alone(agents))
    view = executor.with_options(timeout=60) if has_options else executor
    with when_waiting((tmp_path / "gate").touch) as said, pytest.raises(KeyboardInterrupt), view:
        running = begin(view, tmp_path, executor)
        behind = [view.submit(add, 1, 1) for _ in range(100)]
        raise KeyboardInterrupt
    assert said == ["Waiting for a task that has begun; Ctrl-C again ends the executor without waiting."]
    assert running.exception(0) is None
    assert behind[-1].cancelled() and all(future.done() for future in behind)


def test_the_second_ctrl_c_ends_what_has_begun(agents: NodeAssignment, tmp_path: Path) -> None:
    """Its future raises BrokenExecutor, and the nodes are free when the block is left."""
    executor = ClusterExecutor(alone(agents))
    with when_waiting(lambda: os.kill(os.getpid(), signal.SIGINT)), pytest.raises(KeyboardInterrupt), executor:
        running = begin(executor, tmp_path, executor)
        raise KeyboardInterrupt
    assert isinstance(running.exception(0), BrokenExecutor)
    assert "The executor was ended before its tasks" in str(running.exception(0))
    assert not executor._dispatcher.thread.is_alive()


def test_an_executor_that_has_ended_is_not_kept_and_submits_nothing(agents: NodeAssignment) -> None:
    """Whoever does not wait for the end of `shutdown` has its memory back all the same. What ends the executor at the end of a
    program refuses what exit handlers that come later submit, instead of forgetting it."""
    executor = ClusterExecutor(alone(agents))
    executor.shutdown(wait=False)
    executor._dispatcher.thread.join(LIMIT)
    dispatcher = weakref.ref(executor._dispatcher)
    del executor
    gc.collect()
    assert dispatcher() is None
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


# ---- exceptions with the lines of their code

CELL = """
import numpy as np

def solved(size):
    return np.linalg.solve(np.zeros((size, size)), np.ones(size))  # a line of the cell

def unsuited(size):
    return np.add(np.array(["a"] * size), np.ones(size))
"""


def cell_functions() -> dict[str, Any]:
    """What a cell of a notebook defines, whose lines IPython has told Python of."""
    name = "<ipython-input-7-fedcba987654>"
    linecache.cache[name] = (len(CELL), None, CELL.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(CELL, name, "exec"), space)
    return space


def test_what_numpy_raises_comes_as_its_own_class_with_the_line_of_the_notebook(shared: ClusterExecutor) -> None:
    space = cell_functions()
    singular = shared.submit(space["solved"], 3).exception(LIMIT)
    assert type(singular) is np.linalg.LinAlgError and str(singular) == "Singular matrix"
    assert isinstance(singular.__cause__, RemoteTraceback) and "# a line of the cell" in singular.__cause__.text
    with pytest.raises(TypeError) as here:
        space["unsuited"](2)
    there = shared.submit(space["unsuited"], 2).exception(LIMIT)
    assert type(there) is type(here.value) is not TypeError and str(there) == str(here.value)
    with pytest.raises(MemoryError) as full:
        np.zeros(1 << 50)
    there = shared.submit(np.zeros, 1 << 50).exception(LIMIT)
    assert type(there) is type(full.value) is not MemoryError and str(there) == str(full.value)
    axis = shared.submit(np.sum, np.zeros(2), 5).exception(LIMIT)
    assert type(axis) is np.exceptions.AxisError and axis.ndim == 1
