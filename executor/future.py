"""A Future that costs little while nobody waits for it: programs submit a hundred thousand tasks at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
_PENDING, _CANCELLED = "PENDING", "CANCELLED"  # states of a Future, as `concurrent.futures` calls them


class TaskFuture(Future[T]):
    """A `concurrent.futures.Future`, of about 0.4 KB instead of 1.7, whose task may lie at a node, not begun.

    Such a future is pending. Only the node can say whether its task will still run, so `cancel` asks it, and returns True if
    and only if the node has given the task back.

    Attribute: `output`, what the task has written so far, if the executor was made with `output="future"`.
    """

    output: str = ""

    def __init__(self) -> None:
        super().__init__()
        self._condition: Any = RareCondition()  # a Python whose Future keeps its condition elsewhere just does not gain
        self._recall: Callable[[int], bool] | None = None
        self._number = 0

    def cancel(self) -> bool:
        """As `Future.cancel`; waits for the answer of the node that holds the task, for a second at most, then it is False."""
        with self._condition:
            if self._state != _PENDING:
                return super().cancel()  # which changes nothing any more
            recall = self._recall
            if recall is None:
                self._state = _CANCELLED
                self._condition.notify_all()
        if recall is not None:
            return recall(self._number) or self.cancelled()  # by somebody else
        self._invoke_callbacks()  # type: ignore[attr-defined]
        return True

    def depart(self, number: int, recall: Callable[[int], bool]) -> bool:
        """Its task goes to a node, from which `recall(number)` may get it back. False if it was cancelled before."""
        with self._condition:
            if self._state == _PENDING:
                self._recall, self._number = recall, number
                return True
        return False

    def come_home(self) -> None:
        """Its task lies at no node."""
        self._recall = None


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
