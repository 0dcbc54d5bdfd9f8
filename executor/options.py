"""What may be said of single calls (how long they may take, how often and after what they are tried again), and what an
executor says of itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from .cluster import ClusterExecutor
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


class WithOptions(Executor):
    """A ClusterExecutor, seen by who has options for calls: whatever is submitted here has them. Else it is the same executor;
    to shut it down shuts that down. It is made by `ClusterExecutor.with_options`."""

    def __init__(self, executor: ClusterExecutor, options: TaskOptions) -> None:
        self._executor, self._options = executor, options

    def with_options(self, *, timeout: float | None = None, retries: int | None = None, retry_on: Errors = ()) -> WithOptions:
        """Further options; what is not given stays."""
        return WithOptions(self._executor, self._options.changed(timeout, retries, retry_on))

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """As `ClusterExecutor.submit`."""
        return self._executor.submit_task(fn, (args, kwargs) if kwargs else list(args), options=self._options)

    def submit_near(self, nodes: Collection[int], fn: Callable[..., T], /, *args: Any) -> Future[T]:
        """As `ClusterExecutor.submit_near`."""
        return self._executor.submit_task(fn, list(args), near=nodes, options=self._options)

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[T]:
        """As `ClusterExecutor.map`; the options hold for each task, which is `chunksize` calls."""
        return self._executor.map_tasks(fn, iterables, timeout, chunksize, buffersize, self._options)

    @property
    def nodes(self) -> Sequence[int]:
        """As those of the executor."""
        return self._executor.nodes

    @property
    def live_nodes(self) -> Sequence[int]:
        """As those of the executor."""
        return self._executor.live_nodes

    def status(self) -> ExecutorStatus:
        """As `ClusterExecutor.status`, of all its tasks."""
        return self._executor.status()

    def broadcast(self, value: T) -> Broadcast[T]:
        """As `ClusterExecutor.broadcast`."""
        return self._executor.broadcast(value)

    def new_shelf(self) -> int:
        """As `ClusterExecutor.new_shelf`."""
        return self._executor.new_shelf()

    def clear_shelf(self, shelf: int) -> None:
        """As `ClusterExecutor.clear_shelf`."""
        self._executor.clear_shelf(shelf)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shut the executor down."""
        self._executor.shutdown(wait, cancel_futures=cancel_futures)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """As the executor does, also after Ctrl-C."""
        self._executor.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"{repr(self._executor).removesuffix('>')}, with {self._options}>"


def chunks_of(iterables: Iterable[Iterable[Any]], size: int) -> Iterator[list[Any]]:
    """The tuples of arguments of `map`, `size` of them at a time."""
    calls = zip(*iterables, strict=False)
    return iter(lambda: list(itertools.islice(calls, size)), [])


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
