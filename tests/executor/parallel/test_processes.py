"""Lazy collections where functions and data travel: a pool of processes, which would pickle them, and agents."""

from __future__ import annotations

import os
import resource
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from executor import ClusterExecutor, process_setup
from executor.parallel import Context
from network import NodeAssignment

from ..calls import Point
from .elsewhere import check_a_lost_worker

pytestmark = pytest.mark.processes
few = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXT = "the quick fox and the lazy dog and the end"


@pytest.fixture(scope="module")
def on_agents(agents: NodeAssignment) -> Iterator[Context]:
    with Context(agents) as context:
        yield context


@pytest.fixture(scope="module", params=["on_processes", "on_agents"])
def away(request: pytest.FixtureRequest) -> Context:
    made: Context = request.getfixturevalue(request.param)
    return made


@few
@given(st.lists(st.integers(-50, 50), max_size=30), st.integers(1, 5), st.booleans())
def test_operations_away(away: Context, data: list[int], parts: int, reverse: bool) -> None:
    """Lambdas and closures travel; every kind of stage gives what plain lists give."""
    factor = 3
    made = away.parallelize(data, parts).map(lambda x: x * factor)
    assert made.collect() == [x * 3 for x in data]
    assert made.fold(0, lambda a, b: a + b) == 3 * sum(data)
    assert made.sort_by(lambda x: -x, reverse=reverse).collect() == sorted([3 * x for x in data], reverse=not reverse)
    tripled = [3 * x for x in data]
    largest = made.map(lambda x: (x % 4, x)).reduce_by_key(max)
    assert dict(largest.collect()) == {key: max(x for x in tripled if x % 4 == key) for key in {x % 4 for x in tripled}}
    assert sorted(made.distinct().collect()) == sorted(set(tripled))
    assert made.zip_with_index().collect() == [(x, place) for place, x in enumerate(tripled)]


def test_word_count(away: Context) -> None:
    """Keys that are str come together from all processes, whatever the seeds of their hashes."""
    counted = away.parallelize(TEXT.split(), 4).map(lambda word: (word, 1)).reduce_by_key(lambda a, b: a + b)
    assert dict(counted.collect()) == Counter(TEXT.split())


def test_tasks_run_elsewhere(away: Context) -> None:
    """Not in this process."""
    pids = set(away.parallelize(range(8), 8).map_partitions(lambda _: [os.getpid()]).collect())
    assert os.getpid() not in pids


def test_instances_and_arrays_are_data(away: Context) -> None:
    """Elements may be instances of the user's classes, and arrays."""
    points = away.parallelize([Point(1, 2), Point(3, 4)], 2).map(lambda p: Point(p.y, p.x)).collect()
    assert points == [Point(2, 1), Point(4, 3)]
    rows = away.parallelize(np.arange(6.0).reshape(3, 2), 2).map(lambda row: row * 2).collect()
    np.testing.assert_array_equal(rows, np.arange(6.0).reshape(3, 2) * 2)


def test_what_is_no_data_is_named(away: Context) -> None:
    """A result that cannot travel is a TypeError that names its type."""
    with pytest.raises(TypeError, match=r"builtins\.list_iterator cannot travel"):
        away.parallelize([1], 1).map(lambda x: iter([x])).collect()


def test_broadcast_values_are_there(away: Context) -> None:
    """A value larger than code may be reaches every process, and is gone after unpersist."""
    table = away.broadcast({"big": np.arange(2_000_000.0), "small": 7})
    made = away.parallelize([0, 5, 1_999_999], 3).map(lambda place: float(table.value["big"][place]) + table.value["small"])
    assert made.collect() == [7.0, 12.0, 2_000_006.0]
    assert table.value["small"] == 7
    table.unpersist()
    table.unpersist()


def test_processes_of_a_pool_free_a_broadcast_value(on_processes: Context) -> None:
    """After unpersist, with the next task that they get; other values stay."""
    values = [on_processes.broadcast(np.zeros(10)) for _ in range(2)]
    numbers = on_processes.parallelize(range(8), 8)
    assert numbers.map(lambda _: len(values[0].value) + len(values[1].value)).collect() == [20] * 8
    values[0].unpersist()
    assert set(numbers.map(lambda _: len(process_setup._held_files())).collect()) <= {0, 1}
    values[1].unpersist()
    assert numbers.map(lambda _: len(process_setup._held_files())).collect() == [0] * 8


def test_broadcast_files_are_removed(on_processes: Context) -> None:
    """Closing removes the files, and so does unpersist."""
    first, _second = on_processes.broadcast(1), on_processes.broadcast(2)
    assert [Path(file).exists() for file in on_processes._files] == [True, True]
    left = on_processes._files[1]
    first.unpersist()
    on_processes.close()
    assert on_processes._files == []
    assert not Path(left).exists()


def test_a_broadcast_file_that_is_gone_already(on_processes: Context) -> None:
    """Somebody has cleaned the temporary folder: closing is no error."""
    on_processes.broadcast(1)
    Path(on_processes._files[0]).unlink()
    on_processes.close()
    assert on_processes._files == []


def test_a_full_disk_is_an_error_and_leaves_nothing(
    on_processes: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broadcast value that does not fit raises OSError, one that is no data TypeError; no file is left of either."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            on_processes.broadcast(np.zeros(10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with pytest.raises(TypeError, match="cannot travel"):
        on_processes.broadcast(object())
    assert on_processes._files == []
    assert list(tmp_path.iterdir()) == []


def test_threads_share_a_broadcast_value() -> None:
    """On threads the value is the object itself."""
    value = {1, 2}
    with ThreadPoolExecutor(1) as pool:
        held = Context(pool).broadcast(value)
        assert Context(pool).parallelize([0]).map(lambda _: held.value is value).collect() == [True]


def test_a_lost_worker_costs_no_result(agents: NodeAssignment, tmp_path: Path) -> None:
    with ClusterExecutor(agents) as executor:
        check_a_lost_worker(Context(executor), tmp_path / "died")
