"""The unfinished tasks of an executor, and how their futures end."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from typing import Any

from network.errors import ProtocolError

from .errors import ConversionError, NodeLost, like
from .events import Shape
from .failure import unpack_failure
from .functions import Function
from .future import TaskFuture
from .messages import FAILURE, PICKLED, Done
from .options import NO_OPTIONS, TaskOptions
from .payload import Payload, unpack_payload, unpack_pickled


class Task:
    """One submitted call."""

    # a payload of its own would be 7 MB in 100,000
    __slots__ = ("arrays", "begun", "function", "future", "many", "options", "started", "tree")

    def __init__(
        self, future: TaskFuture[Any], function: Function, payload: Payload, many: bool, options: TaskOptions = NO_OPTIONS
    ) -> None:
        self.future, self.function, self.many = future, function, many
        self.tree, self.arrays = payload
        self.options = options
        self.started = False
        self.begun: float | None = None  # when (monotonic), if it has a limit

    @property
    def payload(self) -> Payload:
        """Its arguments."""
        return Payload(self.tree, self.arrays)

    @property
    def shape(self) -> Shape:
        """What the scheduler knows of it; calls that go in chunks take longer than single ones."""
        return Shape(self.payload.size, 2 * self.function.number + self.many, self.options.retries)

    def loss(self, node: int, name: str, reason: str) -> BaseException:
        """What it raises when the node called `name` is lost with it."""
        limit = self.options.timeout
        if limit and self.begun is not None and time.monotonic() - self.begun >= limit:
            where = f"on {name}, and its process had to be ended"
            return TimeoutError(f"{self.function.name} took longer than its limit of {limit:g} s {where}.")
        return NodeLost(f"{name} was lost with this task: {reason}", node)


class Tasks:
    """Tasks by number, in the order of submission. `on_unused` is told of a function that nobody will ask for any more.

    `add` may be called from any thread, by one at a time; all else by the dispatcher's. Attribute: `done`, how many have ended.
    """

    def __init__(self, on_unused: Callable[[Function], None]) -> None:
        self._tasks: dict[int, Task] = {}
        self._next = 0
        self._on_unused = on_unused
        self.done = 0

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

    def send(self, number: int, recall: Callable[[int], bool]) -> Task | None:
        """A task that is about to be sent, and that `recall` may get back; None if it was cancelled, which is its end."""
        task = self._tasks[number]
        task.begun = None
        if task.started or task.future.depart(number, recall):
            return task
        self._cancelled(number)
        return None

    def begin(self, number: int) -> None:
        """A node is at this task."""
        task = self._tasks.get(number)
        if task is not None and task.options.timeout and task.begun is None:
            task.begun = time.monotonic()
        if task is not None and not task.started:  # else it was cancelled before it was sent, or runs twice
            self._start(task)

    def bring_home(self, number: int) -> None:
        """A node has given this task back, or is gone."""
        if number in self._tasks:
            self._tasks[number].future.come_home()

    def complete(self, number: int, value: Any = None, error: BaseException | None = None) -> None:
        """End a task with its result, or with an error."""
        task = self._pop(number)
        if not task.started and not self._start(task):
            return
        if error is None:
            task.future.set_result(value)
        else:
            task.future.set_exception(error)

    def cancel(self, number: int) -> None:
        """End a task that no node holds."""
        task = self._tasks[number]
        task.future.come_home()
        if not task.started:
            task.future.cancel()
            self._cancelled(number)
        else:  # it was on a node that was lost
            self._pop(number).future.set_exception(
                NodeLost("The node of the task was lost, and the executor was shut down before it could be tried again.")
            )

    def fail_all(self, reason: BrokenExecutor) -> None:
        """No future may wait for ever."""
        for number in list(self._tasks):
            self.complete(number, error=like(reason))

    @staticmethod
    def _start(task: Task) -> bool:
        task.started = task.future.set_running_or_notify_cancel()
        task.future.come_home()  # after that: until it runs, only the node can tell
        return task.started

    def _cancelled(self, number: int) -> None:
        """Tell those who wait that a task will not run."""
        self._pop(number).future.set_running_or_notify_cancel()

    def _pop(self, number: int) -> Task:
        task = self._tasks.pop(number)
        self.done += 1
        task.function.ended += 1
        if task.function.is_unused:
            self._on_unused(task.function)
        return task


def opened(done: Done, function: Function, node: int) -> tuple[Any, BaseException | None]:
    """The result of a task, or what it raised; a ProtocolError without a cause for what is malformed."""
    try:
        if done.kind == FAILURE:
            return None, unpack_failure(done.tree, done.arrays, function.classes, node)
        return _unpacked(done, function), None
    except ConversionError as failed:
        return None, failed
    except ProtocolError as malformed:
        malformed.__cause__ = None
        return None, malformed


def _unpacked(done: Done, function: Function) -> Any:
    """The result of a task. Raises: ProtocolError for one that is malformed, or pickled where nobody has asked for that."""
    if done.kind != PICKLED:
        return unpack_payload(done.tree, done.arrays, function.classes, function.registered)
    if not function.trusted:
        raise ProtocolError("A node sent a pickle to a submitter who does not trust it.")
    return unpack_pickled(done.tree, done.arrays, function.classes)
