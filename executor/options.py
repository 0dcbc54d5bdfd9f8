"""What an executor says of itself, and what may be said of single calls: how long they may take, how often and after what
they are tried again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

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
