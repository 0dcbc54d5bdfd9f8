"""Persisted collections on agents: a worker that is killed, what travels, and memory that is freed."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from executor import ClusterExecutor
from executor.parallel import Collection, Context
from network import NodeAssignment

from ..calls import LIMIT, await_path
from .test_persist import check, programs

pytestmark = pytest.mark.processes
few = settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PARTS = 8


@pytest.fixture(scope="module")
def executor(agents: NodeAssignment) -> Iterator[ClusterExecutor]:
    """For the tests that lose no node."""
    with ClusterExecutor(agents) as made:
        yield made


@few
@given(st.lists(st.integers(0, 60), max_size=25), st.integers(1, 5), programs)
def test_operations_on_agents(executor: ClusterExecutor, data: list[int], parts: int, program: list[tuple[str, int]]) -> None:
    """Random operations with persist and unpersist in random places give what plain lists give."""
    check(Context(executor), data, parts, program, lambda: None)


@few
@given(st.lists(st.integers(0, 60), max_size=25), st.integers(1, 5), programs)
def test_operations_on_processes(on_processes: Context, data: list[int], parts: int, program: list[tuple[str, int]]) -> None:
    """A pool of processes keeps nothing, so the process of the Context does."""
    check(on_processes, data, parts, program, lambda: None)


def kept_bytes() -> int:
    """Memory that the process of the running task keeps."""
    from executor.keeper import SHELVES

    return SHELVES.get().used


def noted(log: str) -> Callable[[int], int]:
    """A function that writes down every number that it is called with, whatever process it runs in."""

    def note(number: int) -> int:
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{number}\n")
        return number * number

    return note


def own_process(_: Iterator[object]) -> list[int]:
    return [os.getpid()]


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.share(2)
def test_a_worker_that_is_killed_in_the_middle(agents: NodeAssignment, tmp_path: Path, replicas: int) -> None:
    """The action under way ends with the right result; computed again is what the worker alone had, and nothing else."""
    log, gate = tmp_path / "log", tmp_path / "gate"
    with ClusterExecutor(agents) as executor:
        squares = Context(executor).parallelize(range(PARTS), PARTS).map(noted(str(log))).persist(replicas)
        assert squares.sort_by().collect() == [number * number for number in range(PARTS)]
        homes = squares.map_partitions(own_process).collect()
        victim = homes[0]
        begun = str(tmp_path / "begun")

        def wait_there(items: Iterator[int]) -> list[int]:
            if os.getpid() == victim:
                Path(begun).touch()
                await_path(gate)
            return list(items)

        found: list[int] = []
        action = threading.Thread(target=lambda: found.extend(squares.map_partitions(wait_there).collect()))
        action.start()
        await_path(Path(begun))
        os.kill(victim, signal.SIGKILL)
        gate.touch()
        action.join(LIMIT)
        assert found == [number * number for number in range(PARTS)]
        computed = Counter(map(int, log.read_text().split()))
        lost = {number for number in range(PARTS) if homes[number] == victim} if replicas == 1 else set()
        assert computed == {number: 2 if number in lost else 1 for number in range(PARTS)}
        survivors = set(squares.map_partitions(own_process).collect())
        assert victim not in survivors and set(homes) - {victim} <= survivors  # its node may have a new process by now


def traffic(executor: ClusterExecutor) -> int:
    return sum(session.bytes_read + session.bytes_sent for session in executor._dispatcher._sessions.values())


def test_elements_stay_where_they_are(executor: ClusterExecutor) -> None:
    """Two megabytes do not travel to be counted, nor a second time to be used; unpersist frees them on every node."""

    def memory() -> list[int]:
        return Context(executor).parallelize(range(12), 12).map_partitions(lambda _: [kept_bytes()]).collect()

    arrays: Collection[np.ndarray] = (
        Context(executor).parallelize(range(4), 4).map(lambda n: np.full(65536, float(n))).persist()  # half a megabyte each
    )
    before = traffic(executor)
    assert arrays.count() == 4
    assert arrays.map(lambda array: float(array[-1])).collect() == [0.0, 1.0, 2.0, 3.0]
    homes = [arrays.map_partitions(own_process).collect() for _ in range(3)]
    assert homes[0] == homes[1] == homes[2]
    assert traffic(executor) - before < 100_000
    assert max(memory()) >= 1 << 19
    arrays.unpersist()
    assert memory() == [0] * 12
    assert [float(array[0]) for array in arrays.collect()] == [0.0, 1.0, 2.0, 3.0]
    assert traffic(executor) - before > 2_000_000


def test_little_room(agents: NodeAssignment, tmp_path: Path) -> None:
    """`keep_bytes` bounds the memory: what finds no room is computed again, and the result is the same."""
    with ClusterExecutor(agents, keep_bytes=100_000) as executor:
        log = tmp_path / "log"
        made = Context(executor).parallelize(range(PARTS), PARTS).map(noted(str(log)))
        kept = made.map(lambda square: np.full(5000, float(square))).persist()
        for _ in range(2):
            assert kept.map(lambda array: float(array.mean())).collect() == [float(n * n) for n in range(PARTS)]
        assert PARTS < len(log.read_text().split()) < 2 * PARTS
        assert executor.submit(kept_bytes).result(LIMIT) <= 100_000
