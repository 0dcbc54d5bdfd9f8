"""What is called in each process before its first task."""

from __future__ import annotations

import concurrent.futures as cf
import functools
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from executor import ClusterExecutor, register_value
from executor.functions import Functions
from executor.process_setup import INITIALIZER, Initializer, initializer_message
from executor.values import REGISTRY
from network import NodeAssignment
from rpc.shipping import load

from .calls import LIMIT, Point

TABLE: dict[str, int] | None = None
CALLS = 0


def fill(point: Point) -> None:
    global TABLE, CALLS
    TABLE, CALLS = {"x": point.x}, CALLS + 1


def looked_up(name: str) -> tuple[int, int]:
    if TABLE is None:
        raise LookupError("nothing was set")
    return TABLE[name], CALLS


def by_another_function(name: str) -> tuple[int, int, int]:
    return *looked_up(name), os.getpid()


def refuse(begun: Path) -> None:
    """Raise an error once all tasks of the test are waiting."""
    deadline = time.monotonic() + LIMIT
    while not begun.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    raise ValueError("no device")


def test_what_it_sets_is_there_for_functions_that_come_later() -> None:
    """Each with its own copy of the module; it is called once, and what a task sets later stays as it is."""
    initializer = Initializer(*initializer_message(fill, [Point(3, 4)])[1:])
    for _ in range(2):
        initializer.call(load)
    beside = Functions(lambda _: None, beside={INITIALIZER: fill})
    for item in (looked_up, by_another_function):
        bundle = beside.of(item).bundle
        objects: Any = load(bundle.objects, bundle.code)[0]
        initializer.share(objects)
        assert objects["function"]("x")[:2] == (3, 1)
    assert TABLE is None


def test_one_that_raises_is_called_again() -> None:
    """Its arguments are still there."""
    initializer = Initializer(*initializer_message(functools.partial(int, "x"), [])[1:])
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            initializer.call(load)


class Wrapped:
    """No data: it holds a lock."""

    def __init__(self, x: int) -> None:
        self.x, self.lock = x, threading.Lock()


def test_arguments_may_be_of_registered_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY, "current", {})
    register_value(Wrapped, lambda wrapped: wrapped.x, Wrapped)
    initializer = Initializer(*initializer_message(fill, [Wrapped(6)])[1:])
    initializer.call(load)
    bundle = Functions(lambda _: None, beside={INITIALIZER: fill}).of(looked_up).bundle
    objects: Any = load(bundle.objects, bundle.code)[0]
    initializer.share(objects)
    assert objects["function"]("x") == (6, 1)


@pytest.mark.processes
def test_each_process_is_initialized_once(agents: NodeAssignment) -> None:
    """Before its first task; functions that name what it sets find it, whichever they are."""
    with ClusterExecutor(agents, initializer=fill, initargs=(Point(7, 0),)) as executor:
        found = list(executor.map(by_another_function, ["x"] * 40, timeout=LIMIT))
        assert {item[:2] for item in found} == {(7, 1)}
        assert executor.submit(looked_up, "x").result(LIMIT) == (7, 1)


@pytest.mark.processes
def test_one_that_fails_breaks_the_executor(agents: NodeAssignment, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """'Should initializer raise an exception, all currently pending jobs will raise a BrokenProcessPool, as well as any attempt
    to submit more jobs to the pool.'"""
    begun = tmp_path / "begun"
    with ClusterExecutor(agents, initializer=refuse, initargs=(begun,)) as executor:
        futures = [executor.submit(abs, number) for number in range(3)]
        begun.touch()
        for future in futures:
            error = future.exception(LIMIT)
            assert isinstance(error, cf.BrokenExecutor)
            assert "The initializer failed on Node(" in str(error) and "ValueError: no device" in str(error)
            assert isinstance(error.__cause__, ValueError)
        with pytest.raises(cf.BrokenExecutor, match="The initializer failed"):
            executor.submit(abs, 1)
        status = executor.status()
        assert (status.live, status.waiting, status.running, status.done) == ((), 0, 0, 3)
        assert all("it was let go: The initializer failed on Node(" in reason for reason in status.lost.values())
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
    assert not [text for text in told if "stopped" in text or "aborted" in text or "gone" in text]  # the nodes end as ever
