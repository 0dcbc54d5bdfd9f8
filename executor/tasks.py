"""Unfinished tasks of an executor, their options and futures, and how these end."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, get_args
from weakref import WeakKeyDictionary

from network.errors import ProtocolError
from rpc.support.console import show
from rpc.support.forks import OwnProcess, close_in_children
from rpc.support.logs import clean_lines, get_logger

from .errors import ConversionError, NodeLost, like
from .functions import Function
from .messages import FAILURE, LONG_LINE, OUTPUT_BYTES, PICKLED, STDERR, STDOUT, Done, Said
from .payload import Payload, size_of_payload, unpack_failure, unpack_payload, unpack_pickled
from .scheduler_state import TaskInfo

Errors = type[BaseException] | tuple[type[BaseException], ...]
MOST_SECONDS = 30 * 86400.0


@dataclass(frozen=True)
class TaskOptions:
    """Options of a task.

    Args:
        timeout: seconds that it may run, 0 for no limit.
        retries: None for those of the executor.
        retry_on: exceptions after which it is tried again.
    """

    timeout: float = 0.0
    retries: int | None = None
    retry_on: tuple[type[BaseException], ...] = ()

    def changed(self, timeout: float | None, retries: int | None, retry_on: Errors) -> TaskOptions:
        """Return these options with the given ones in place of their own. Raises: ValueError and TypeError naming the option
        and its value.
        """
        if timeout is not None and (isinstance(timeout, bool) or not 0 < timeout <= MOST_SECONDS):
            raise ValueError(f"with_options 'timeout' must be seconds from above 0 to {MOST_SECONDS:.0f}, got {timeout!r}.")
        if retries is not None and (isinstance(retries, bool) or not isinstance(retries, int) or retries < 0):
            raise ValueError(f"with_options 'retries' must be an integer from 0, got {retries!r}.")
        errors = retry_on if isinstance(retry_on, tuple) else (retry_on,)
        for error in errors:
            if not isinstance(error, type) or not issubclass(error, BaseException):
                raise TypeError(f"with_options 'retry_on' must be an exception class or a tuple of them, got {error!r}.")
        return TaskOptions(
            self.timeout if timeout is None else float(timeout),
            self.retries if retries is None else retries,
            errors or self.retry_on,
        )


NO_OPTIONS = TaskOptions()


class ExecutorStatus(NamedTuple):
    """Status of an executor at one moment.

    Args:
        nodes: ids that it was made with.
        live: ids of those that live.
        lost: why others are lost, or are not there just now.
        waiting: number of tasks that wait, also in the line of a node.
        running: number of tasks that run.
        done: number of tasks that have ended in any way.
        closed: whether `shutdown` was called.
        restarting: nodes that start their process again.
    """

    nodes: tuple[int, ...]
    live: tuple[int, ...]
    lost: Mapping[int, str]
    waiting: int
    running: int
    done: int
    closed: bool
    restarting: tuple[int, ...] = ()

    def __str__(self) -> str:
        nodes = f"{len(self.live)} of {len(self.nodes)} nodes live"
        if self.restarting:
            nodes += f", {len(self.restarting)} restarting"
        tasks = f"{self.waiting} tasks waiting, {self.running} running, {self.done} done"
        return f"{nodes}, {tasks}{', shut down' if self.closed else ''}"


class Task:
    """Submitted call.

    Args:
        future: of its result.
        function: the packed function.
        payload: its arguments.
        many: whether the payload is a list of calls.
        options: limits and retries.
    """

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
    def size(self) -> int:
        """Estimate of the bytes of its arguments."""
        return size_of_payload(self.tree, self.arrays)

    @property
    def info(self) -> TaskInfo:
        """Properties for the scheduler; calls that go in chunks take longer than single ones."""
        return TaskInfo(self.size, 2 * self.function.number + self.many, self.options.retries)

    def loss(self, node: int, name: str, reason: str) -> BaseException:
        """Make the error for the loss of `node`, called `name`, with this task, for `reason`."""
        limit = self.options.timeout
        if limit and self.begun is not None and time.monotonic() - self.begun >= limit:
            where = f"on {name}, and its process had to be ended"
            return TimeoutError(f"{self.function.name} took longer than its limit of {limit:g} s {where}.")
        return NodeLost(f"{name} was lost with this task: {reason}", node)


class Tasks:
    """Tasks by number, in the order of submission. `on_unused` is called with a function that is out of use.

    `add` may be called from any thread, by one at a time; all else by the dispatcher's. Attribute: `done`, how many have ended.
    """

    def __init__(self, on_unused: Callable[[Function], None]) -> None:
        self._tasks: dict[int, Task] = {}
        self._next = 0
        self._on_unused = on_unused
        self.done = 0
        self.process = OwnProcess()
        close_in_children(self)

    def close(self) -> None:
        """End all futures in a process that was forked: only the parent hears of their results."""
        for task in self._tasks.values():
            task.future.orphan(self.process.refusal("executor"))

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, number: int) -> bool:
        return number in self._tasks

    def __getitem__(self, number: int) -> Task:
        return self._tasks[number]

    def add(self, task: Task) -> int:
        number = self._next
        self._next += 1
        self._tasks[number] = task
        return number

    def send(self, number: int, recall: Callable[[int], bool]) -> Task | None:
        """Return a task that is about to be sent, and that `recall` may get back; None if it was cancelled, which is its
        end.
        """
        task = self._tasks[number]
        # its limit counts anew on the new node
        task.begun = None
        # a task that had begun elsewhere is running for its callers already
        if task.started or task.future.depart(number, recall):
            return task
        self._cancelled(number)
        return None

    def begin(self, number: int) -> None:
        task = self._tasks.get(number)
        if task is not None and task.options.timeout and task.begun is None:
            task.begun = time.monotonic()
        if task is not None and not task.started:  # else it was cancelled before it was sent, or runs twice
            self._start(task)

    def bring_home(self, number: int) -> None:
        """Note that a node has given task `number` back, or is gone."""
        if number in self._tasks:
            self._tasks[number].future.come_home()

    def complete(self, number: int, value: Any = None, error: BaseException | None = None) -> None:
        task = self._pop(number)
        # False for a future that was cancelled before word came that its task had begun
        if not task.started and not self._start(task):
            return
        if error is None:
            task.future.set_result(value)
        else:
            task.future.set_exception(error)

    def cancel(self, number: int) -> None:
        task = self._tasks[number]
        # before it is cancelled: `cancel` would ask the node
        task.future.come_home()
        if not task.started:
            task.future.cancel()
            self._cancelled(number)
        else:  # it was on a node that was lost
            self._pop(number).future.set_exception(
                NodeLost("The node of the task was lost, and the executor was shut down before it could be tried again.")
            )

    def fail_all(self, reason: BrokenExecutor) -> None:
        """Fail all tasks for `reason`: no future may wait for ever."""
        for number in list(self._tasks):
            self.complete(number, error=like(reason))

    @staticmethod
    def _start(task: Task) -> bool:
        task.started = task.future.set_running_or_notify_cancel()
        task.future.come_home()  # after that: until it runs, only the node can tell
        return task.started

    def _cancelled(self, number: int) -> None:
        """Tell the waiting callers that a task will not run."""
        self._pop(number).future.set_running_or_notify_cancel()

    def _pop(self, number: int) -> Task:
        task = self._tasks.pop(number)
        self.done += 1
        task.function.ended += 1
        if task.function.is_unused:
            self._on_unused(task.function)
        return task


def opened(done: Done, function: Function, node: int) -> tuple[Any, BaseException | None]:
    """Open the message of a finished task: its result, or its exception; a ProtocolError without a cause if it is malformed."""
    try:
        if done.kind == FAILURE:
            return None, unpack_failure(done.tree, done.arrays, function.classes, node)
        return _unpacked(done, function), None
    except ConversionError as failed:
        return None, failed
    except ProtocolError as malformed:
        # so that the dispatcher can tell it from one that a conversion has raised
        malformed.__cause__ = None
        return None, malformed


def _unpacked(done: Done, function: Function) -> Any:
    """Open the result of a task. Raises: ProtocolError for one that is malformed, or pickled for a submitter that does not
    trust nodes.
    """
    if done.kind != PICKLED:
        return unpack_payload(done.tree, done.arrays, function.classes, function.registered)
    if not function.trusted:
        raise ProtocolError("A node sent a pickle to a submitter who does not trust it.")
    return unpack_pickled(done.tree, done.arrays, function.classes)


T = TypeVar("T")
_PENDING, _CANCELLED, _FINISHED = "PENDING", "CANCELLED", "FINISHED"  # states of a Future, as `concurrent.futures` calls them


class TaskFuture(Future[T]):
    """Future (a `concurrent.futures.Future`) of about 0.4 KB instead of 1.7; its task may lie at a node, not begun.

    Such a future is pending. Only the node can say whether its task will still run, so `cancel` asks it, and returns True if
    and only if the node has given the task back. Attribute: `output`, the task's output so far, if the executor was made with
    `output="future"`.
    """

    output: str = ""

    def __init__(self) -> None:
        super().__init__()
        self._condition: Any = RareCondition()  # a Python whose Future keeps its condition elsewhere just does not gain
        self._recall: Callable[[int], bool] | None = None
        self._number = 0

    def cancel(self) -> bool:
        """Cancel as `Future.cancel` does; waits for the answer of the node that holds the task, for a second at most, then
        it is False.
        """
        with self._condition:
            if self._state != _PENDING:
                return super().cancel()  # which changes nothing any more
            recall = self._recall
            if recall is None:
                self._state = _CANCELLED
                self._condition.notify_all()
        # outside the lock: the answer may complete this very future
        if recall is not None:
            return recall(self._number) or self.cancelled()  # by another thread
        self._invoke_callbacks()  # type: ignore[attr-defined]
        return True

    def depart(self, number: int, recall: Callable[[int], bool]) -> bool:
        """Note that its task goes to a node, from which `recall(number)` may get it back. False if it was cancelled before."""
        with self._condition:
            if self._state == _PENDING:
                self._recall, self._number = recall, number
                return True
        return False

    def orphan(self, error: BaseException) -> None:
        """End in a process that was forked, whose other threads are gone with their locks; no callback is called. `error` is
        its exception.
        """
        # the old one may be locked for ever by a thread that is not here
        self._condition = RareCondition()
        self._waiters.clear()  # threads that wait on them are not here
        self._done_callbacks.clear()  # type: ignore[attr-defined]
        self._exception, self._state = error, _FINISHED

    def come_home(self) -> None:
        """Note that its task lies at no node."""
        self._recall = None


class RareCondition:
    """Condition of a future: the methods of `threading.Condition` that it needs; the real one is made when a thread waits."""

    __slots__ = ("_lock", "_real")

    def __init__(self) -> None:
        self._lock = threading.RLock()  # `TaskFuture.cancel` takes it twice
        self._real: threading.Condition | None = None

    def acquire(self) -> bool:
        return self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a notification, for `timeout` seconds; as with all methods below, the caller holds the lock."""
        # the lock is held, so that no notification is missed in between
        if self._real is None:
            self._real = threading.Condition(self._lock)
        return self._real.wait(timeout)

    def notify_all(self) -> None:
        if self._real is not None:
            self._real.notify_all()


Output: TypeAlias = Literal["off", "inline", "future"]
OUTPUTS: Final[tuple[Output, ...]] = get_args(Output)
# has what all loggers of tasks say: nodes must not make loggers here by naming them
output_logger = get_logger("executor.tasks")


class Console:
    """Console that shows the output of tasks, behind node and task: on stdout, on stderr and by the logger `executor.tasks`.

    Args:
        keep: leave it with the future instead, as the attribute `output`.
        limit: bytes of one task.
    """

    def __init__(self, keep: bool, limit: int = OUTPUT_BYTES) -> None:
        self._keep, self._limit = keep, limit + LONG_LINE  # with a note at the end
        # bytes of tasks that may still come: a node may break its word
        self._left: WeakKeyDictionary[TaskFuture[Any], int] = WeakKeyDictionary()

    def take(self, node: int, said: Said, name: str, future: TaskFuture[Any]) -> None:
        left = self._left.get(future, self._limit)
        # characters, of which none is larger than its bytes: the bound holds for both
        text = said.text[: max(0, left)]
        self._left[future] = left - len(text)
        if not text:
            return
        if self._keep:
            log = f"{logging.getLevelName(said.kind)} {said.name}: " if said.kind > STDERR else ""
            future.output += f"{log}{text}\n" if log else text
            return
        before = f"[Node({node}) {name}#{said.task}]"
        if said.kind > STDERR:
            output_logger.log(said.kind, "%s %s: %s", before, said.name, text)
            return
        # each line of a peer's text is cleaned: it must not move the cursor, nor pass for a line of ours
        shown = "".join(f"{before} {clean_lines(line)}\n" for line in map(_last, text.removesuffix("\n").split("\n")))
        # looked up now: the program may have redirected them
        show(sys.stdout if said.kind == STDOUT else sys.stderr, shown)


def _last(line: str) -> str:
    """Return the text that a line shows at last, if it was written over several times."""
    return line.rstrip("\r").rpartition("\r")[2]
