"""The unfinished tasks of an executor, and how their futures end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from typing import Any

from .errors import NodeLost, like
from .functions import Function
from .payload import Payload


class Task:
    """One submitted call."""

    __slots__ = ("arrays", "function", "future", "many", "started", "tree")  # a payload of its own would be 7 MB in 100,000

    def __init__(self, future: Future[Any], function: Function, payload: Payload, many: bool) -> None:
        self.future, self.function, self.many = future, function, many
        self.tree, self.arrays = payload
        self.started = False

    @property
    def payload(self) -> Payload:
        """Its arguments."""
        return Payload(self.tree, self.arrays)


class Tasks:
    """Tasks by number, in the order of submission. `on_unused` is told of a function that nobody will ask for any more.

    `add` may be called from any thread, by one at a time; all else by the dispatcher's.
    """

    def __init__(self, on_unused: Callable[[Function], None]) -> None:
        self._tasks: dict[int, Task] = {}
        self._next = 0
        self._on_unused = on_unused

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, number: int) -> bool:
        return number in self._tasks

    def __getitem__(self, number: int) -> Task:
        return self._tasks[number]

    def add(self, task: Task) -> int:
        """Its number."""
        number = self._next
        self._next += 1
        self._tasks[number] = task
        return number

    def begin(self, number: int) -> Task | None:
        """A task that is about to be sent; None if it was cancelled, which is its end."""
        task = self._tasks[number]
        if task.started or task.future.set_running_or_notify_cancel():
            task.started = True
            return task
        self._pop(number)
        return None

    def complete(self, number: int, value: Any = None, error: BaseException | None = None) -> None:
        """End a task with its result, or with an error."""
        task = self._pop(number)
        if not task.started and not task.future.set_running_or_notify_cancel():
            return
        if error is None:
            task.future.set_result(value)
        else:
            task.future.set_exception(error)

    def cancel(self, number: int) -> None:
        """End a task that waits."""
        task = self._pop(number)
        if not task.started:
            task.future.cancel()
            task.future.set_running_or_notify_cancel()
        else:  # it was on a node that was lost, or gave it back
            task.future.set_exception(
                NodeLost("The task was taken from its node, and the executor was shut down before it could go on.")
            )

    def fail_all(self, reason: BrokenExecutor) -> None:
        """No future may wait for ever."""
        for number in list(self._tasks):
            self.complete(number, error=like(reason))

    def _pop(self, number: int) -> Task:
        task = self._tasks.pop(number)
        task.function.ended += 1
        if task.function.is_unused:
            self._on_unused(task.function)
        return task
