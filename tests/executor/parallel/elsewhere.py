"""What must come out alike on every executor; also a program: `mpiexec -n 3 python -m mpi4py.futures elsewhere.py`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor, as_completed, wait
from pathlib import Path

import numpy as np

from executor.parallel import Context

TEXT = "the quick fox and the lazy dog and the end"
LIMIT = 60.0


class Point:
    """An instance of the user's own class, on its way there and back."""

    def __init__(self, x: int) -> None:
        self.x = x

    def moved(self, by: int) -> Point:
        return Point(self.x + by)


def check_a_lost_worker(context: Context, died: Path) -> None:
    """The first attempt at a partition kills its worker, leaving the file `died`; its lineage makes it again on another."""
    path = str(died)

    def once(items: Iterator[int]) -> list[int]:
        found = list(items)
        if 3 in found:
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return found
            os._exit(1)
        return found

    assert context.parallelize(range(6), 6).map_partitions(once).collect() == list(range(6))
    assert died.exists()


def check_collections(executor: Executor, text: Path) -> None:
    """Every kind of stage against plain lists; functions, classes, arrays and broadcast values of the user travel."""
    with Context(executor, partitions=3) as context:
        factor = 3
        data = context.parallelize(range(-20, 20)).map(lambda x: x * factor)
        plain = [3 * x for x in range(-20, 20)]
        assert data.collect() == plain
        assert data.filter(lambda x: x % 2).flat_map(lambda x: [x, x]).count() == 40
        assert data.sort_by(lambda x: (x % 5, -x)).collect() == sorted(plain, key=lambda x: (x % 5, -x))
        assert dict(data.map(lambda x: (x % 4, x)).reduce_by_key(max).collect()) == {
            k: max(x for x in plain if x % 4 == k) for k in range(4)
        }
        assert sorted(data.map(abs).distinct().collect()) == sorted(set(map(abs, plain)))
        assert data.cache().take(2) == plain[:2]
        assert data.zip_with_index().collect() == list(zip(plain, range(40), strict=True))
        assert data.unpersist().fold(0, lambda a, b: a + b) == sum(plain)
        words = context.parallelize(TEXT.split()).map(lambda word: (word, 1))
        assert dict(words.reduce_by_key(lambda a, b: a + b).collect()) == Counter(TEXT.split())
        assert [point.x for point in context.parallelize([Point(1), Point(2)]).map(lambda p: p.moved(3)).collect()] == [4, 5]
        rows = context.parallelize(np.arange(6.0).reshape(3, 2)).map(lambda row: row * 2).collect()
        assert np.array_equal(rows, np.arange(6.0).reshape(3, 2) * 2)
        table = context.broadcast({"big": np.arange(2_000_000.0), "small": 7})
        named = context.parallelize([0, 5, 1_999_999]).map(
            lambda place: float(table.value["big"][place]) + table.value["small"]
        )
        assert named.collect() == [7.0, 12.0, 2_000_006.0]
        assert table.value["small"] == 7
        table.unpersist()
        table.unpersist()
        check_errors(context, text)


def check_errors(context: Context, text: Path) -> None:
    """What a task raises is raised; what is no data is named; an error is not remembered."""
    for function, kind, message in [
        (lambda x: 1 // x, ZeroDivisionError, "integer"),
        (lambda x: iter([x]), TypeError, "builtins.list_iterator cannot travel"),
    ]:
        try:
            context.parallelize([1, 0, 2]).map(function).collect()
        except kind as error:
            assert message in str(error), error
        else:
            raise AssertionError(f"no {kind.__name__}")
    text.write_text("a\nb\n")
    lines = context.text_file(text)
    assert lines.collect() == ["a", "b"]
    text.unlink()
    remembered = None
    try:
        lines.collect()
    except FileNotFoundError as error:
        remembered = error  # and with it the futures of that stage
    assert remembered is not None
    text.write_text("c\nd\n")
    assert lines.collect() == ["c", "d"]


def check_futures(executor: Executor) -> None:
    """wait, as_completed, callbacks and a storm of cancellations."""
    futures = [executor.submit(pow, 2, n) for n in range(20)]
    assert wait(futures, LIMIT).not_done == set()
    assert sorted(future.result() for future in as_completed(futures, LIMIT)) == [2**n for n in range(20)]
    assert list(executor.map(divmod, [7, 9], [2, 4], timeout=LIMIT)) == [(3, 1), (2, 1)]
    storm = [executor.submit(pow, 3, n) for n in range(200)]
    for future in storm:
        future.cancel()
    for number, future in enumerate(storm):
        try:
            assert future.result(LIMIT) == 3**number
        except CancelledError:
            assert future.cancelled()


def main() -> None:
    """On the processes of mpiexec."""
    from mpi4py.futures import MPIPoolExecutor

    with MPIPoolExecutor() as pool:
        check_futures(pool)
        check_collections(pool, Path("lines.txt"))
        assert Context(pool).parallelize([0], 1).map(lambda _: os.getpid()).collect() != [os.getpid()]
    print("right")


if __name__ == "__main__":
    main()
