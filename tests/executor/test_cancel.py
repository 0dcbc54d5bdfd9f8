"""Cancelling is exact, whatever ran before: what has not begun on its node never will, wherever it lies."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from executor import ClusterExecutor
from network import NodeAssignment

from .calls import LIMIT, add, await_path, await_that, begin_and_await

pytestmark = pytest.mark.processes
COUNT = 60


def quick_or_slow(begun: str, gate: str) -> int:
    return begin_and_await(begun, gate) if begun else 0


@pytest.fixture
def crowded(agents: NodeAssignment, tmp_path: Path) -> Iterator[tuple[ClusterExecutor, list[Future[int]], Path]]:
    """A function that was quick is slow now, so that nodes hold many calls of it; two of them have begun."""
    with ClusterExecutor(agents) as executor:
        try:
            assert sum(executor.map(quick_or_slow, [""] * 2000, [""] * 2000, timeout=LIMIT)) == 0
            paths = [tmp_path / f"begun-{number}" for number in range(COUNT)]
            futures = [executor.submit(quick_or_slow, str(path), str(tmp_path / "gate")) for path in paths]
            for path in paths[:2]:
                await_path(path)
            await_that(lambda: sum(future.running() for future in futures) == 2, "the nodes did not tell what they had begun")
            yield executor, futures, tmp_path
        finally:
            (tmp_path / "gate").touch()


def begun(folder: Path) -> int:
    return len(list(folder.glob("begun-*")))


def test_what_lies_in_a_line_can_be_cancelled(crowded: tuple[ClusterExecutor, list[Future[int]], Path]) -> None:
    """It is no more running than one that was not sent: cancel withdraws it from its node, and True is a promise."""
    executor, futures, folder = crowded
    assert [future.cancel() for future in reversed(futures)] == [True] * (COUNT - 2) + [False] * 2
    assert all(future.cancelled() for future in futures[2:])
    (folder / "gate").touch()
    assert all(future.result(LIMIT) > 0 for future in futures[:2])
    assert executor.submit(add, 1, 1).result(LIMIT) == 2
    assert begun(folder) == 2


def test_shutdown_cancels_what_lies_in_a_line(crowded: tuple[ClusterExecutor, list[Future[int]], Path]) -> None:
    """`cancel_futures` takes back what no node has begun; nobody waits for it."""
    executor, futures, folder = crowded
    ended: list[object] = []

    def count(future: object) -> None:
        ended.append(future)
        if len(ended) == COUNT - 2:
            (folder / "gate").touch()

    for future in futures[2:]:
        future.add_done_callback(count)
    executor.shutdown(cancel_futures=True)
    assert [future.cancelled() for future in futures] == [False] * 2 + [True] * (COUNT - 2)
    assert begun(folder) == 2
