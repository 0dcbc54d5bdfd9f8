"""What an executor on nodes is asked and says of itself, and what may be said of single calls: how long they may take, how
often and after what they are tried again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from .process_setup import Broadcast

T = TypeVar("T")
Errors = type[BaseException] | tuple[type[BaseException], ...]
MOST_SECONDS = 30 * 86400.0


@dataclass(frozen=True)
class TaskOptions:
    """Of a task. `timeout`: seconds that it may run, 0 for as long as it likes; `retries`: None for those of the executor."""

    timeout: float = 0.0
    retries: int | None = None
    retry_on: tuple[type[BaseException], ...] = ()

    def changed(self, timeout: float | None, retries: int | None, retry_on: Errors) -> TaskOptions:
        """These, but for what is given. Raises: ValueError and TypeError naming what cannot be."""
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
    """At one moment: the `nodes` that it was made with, those that `live`, why others are `lost`, or are not there just now,
    and those whose process is `restarting`; how many tasks wait, also in the line of a node, run, and have ended in any way;
    `closed` by `shutdown`."""

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


class NodeExecutor(Executor, ABC):
    """The interface that `ClusterExecutor` and `WithOptions` share. Calls have the options in `_options`."""

    _options = NO_OPTIONS

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call `fn(*args, **kwargs)` on a node.

        Raises: TypeError naming the argument or the part of the function that cannot travel; ValueError for more than 2 GiB
        of arguments or 8 MiB of code; RuntimeError after `shutdown`; BrokenExecutor when no node is left.
        """
        return self.submit_task(fn, (args, kwargs) if kwargs else list(args), options=self._options)

    def submit_near(self, nodes: Collection[int], fn: Callable[..., T], /, *args: Any) -> Future[T]:
        """Call `fn(*args)` on one of `nodes`, because of what they have; on any node for none, or if all are lost."""
        return self.submit_task(fn, list(args), near=nodes, options=self._options)

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[T]:
        """`map(fn, *iterables)` on the nodes, results in order; without `buffersize` the iterables are collected at once.

        Args:
            timeout: seconds from now after which `next` raises TimeoutError.
            chunksize: calls per task; much faster for tiny calls. Options hold for each task.
            buffersize: at most so many tasks whose results were not asked for; then iterables may be endless.
        """
        return self.map_tasks(fn, iterables, timeout, chunksize, buffersize, self._options)

    def with_options(self, *, timeout: float | None = None, retries: int | None = None, retry_on: Errors = ()) -> WithOptions:
        """This executor for calls with a limit or with retries of their own: `executor.with_options(timeout=5).submit(...)`.

        Args:
            timeout: seconds that a task may run, not counting the time that it waits. One that takes longer is interrupted
                where it is and raises TimeoutError; if it goes on for two seconds more, its process is ended and started again.
            retries: how often a task is tried again, instead of as often as the executor says, after the loss of its node, and
            retry_on: after these exceptions that it has raised; TimeoutError, or whatever may be otherwise the next time.

        What is not given stays as it is. Raises: ValueError and TypeError naming what cannot be.
        """
        return WithOptions(self, self._options.changed(timeout, retries, retry_on))

    @abstractmethod
    def submit_task(
        self,
        fn: Callable[..., Any],
        arguments: Any,
        *,
        many: bool = False,
        near: Collection[int] = (),
        options: TaskOptions = NO_OPTIONS,
        trust_results: bool | None = None,
    ) -> Future[Any]:
        """What `submit` and its kin do: `arguments` are a list, a tuple (args, kwargs), or with `many` a list of tuples;
        `trust_results` holds in place of that of the executor, if it is not None."""

    @abstractmethod
    def map_tasks(
        self,
        fn: Callable[..., T],
        iterables: Iterable[Iterable[Any]],
        timeout: float | None,
        chunksize: int,
        buffersize: int | None,
        options: TaskOptions = NO_OPTIONS,
    ) -> Iterator[T]:
        """What `map` does."""

    @property
    @abstractmethod
    def nodes(self) -> Sequence[int]:
        """Ids of the nodes that it was made with, ascending."""

    @property
    @abstractmethod
    def live_nodes(self) -> Sequence[int]:
        """Ids of the nodes that are not lost, as far as is known, ascending."""

    @abstractmethod
    def status(self) -> ExecutorStatus:
        """What the executor has to do, and who does it, at this moment."""

    @abstractmethod
    def broadcast(self, value: T) -> Broadcast[T]:
        """Bring `value` to every node once; tasks that name the returned object get it by its `value`.

        Raises: TypeError when it is no data, RuntimeError after `shutdown`.
        """

    @abstractmethod
    def new_shelf(self) -> int:
        """The number of a shelf on which tasks may keep values, by `executor.keeper.SHELVES`, until `clear_shelf`."""

    @abstractmethod
    def clear_shelf(self, shelf: int) -> None:
        """Free what the nodes keep on a shelf; idempotent."""


class WithOptions(NodeExecutor):
    """A ClusterExecutor with options for calls: all that is submitted here has them. Else it is the same executor; to shut it
    down shuts that down. It is made by `ClusterExecutor.with_options`."""

    def __init__(self, executor: NodeExecutor, options: TaskOptions) -> None:
        self._executor: NodeExecutor = executor._executor if isinstance(executor, WithOptions) else executor
        self._options = options

    def submit_task(self, fn: Callable[..., Any], arguments: Any, **said: Any) -> Future[Any]:
        return self._executor.submit_task(fn, arguments, **said)

    def map_tasks(self, fn: Callable[..., T], iterables: Iterable[Iterable[Any]], *said: Any) -> Iterator[T]:
        return self._executor.map_tasks(fn, iterables, *said)

    @property
    def nodes(self) -> Sequence[int]:
        return self._executor.nodes

    @property
    def live_nodes(self) -> Sequence[int]:
        return self._executor.live_nodes

    def status(self) -> ExecutorStatus:
        return self._executor.status()

    def broadcast(self, value: T) -> Broadcast[T]:
        return self._executor.broadcast(value)

    def new_shelf(self) -> int:
        return self._executor.new_shelf()

    def clear_shelf(self, shelf: int) -> None:
        self._executor.clear_shelf(shelf)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._executor.shutdown(wait, cancel_futures=cancel_futures)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._executor.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"{repr(self._executor).removesuffix('>')}, with {self._options}>"
