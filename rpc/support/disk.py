"""Waits of a serving loop for its disk, during which a thread beside it does urgent work.

A journal that is being written, or a server of files that hangs, holds up any access to a file, for seconds and more. A loop
that serves others is silent meanwhile, and they take its host for lost. So the functions that such a loop calls for files
carry `at_disk`, and a `DiskWatch` of the loop's thread sees how long they take. A function that carries it may not touch what
`meanwhile` works on.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, ParamSpec, TypeVar

from .logs import get_logger

_P = ParamSpec("_P")
_Result = TypeVar("_Result")

LOOK_SECONDS: Final = 0.25  # from one look at a wait to the next
MOST_SECONDS: Final = 30.0  # of one wait: a disk that takes longer has failed, and so has the host
_TOLD_SECONDS: Final = 2.0  # of a wait that people are told of

_log = get_logger(__name__)
_here = threading.local()


class DiskWatch:
    """Watch over the waits of one thread for its disk; as a context, it is that of the current thread.

    Args:
        meanwhile: called from another thread, again and again while such a wait lasts, for up to MOST_SECONDS. The waiting
            thread does nothing until it has returned. It must not wait for a disk itself, nor log.
    """

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile
        self._lock = threading.Lock()  # held while `meanwhile` runs, and where a wait ends
        self._since: float | None = None
        self._depth = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="disk-watch", daemon=True)

    def __enter__(self) -> DiskWatch:
        try:
            self._thread.start()
        except RuntimeError as error:  # no further thread may be started: it serves without
            _log.warning("While the disk is slow, no heartbeat can be sent: %s.", error)
        else:
            _here.watch = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if getattr(_here, "watch", None) is self:
            _here.watch = None
            self._ended.set()
            self._thread.join()

    def begin(self) -> None:
        """Note that a wait may begin now; within another one it is a part of that."""
        self._depth += 1
        if self._depth == 1:
            self._since = time.monotonic()

    def end(self) -> None:
        """Note that the wait is over; the work of the other thread ends before."""
        self._depth -= 1
        since = self._since
        if self._depth or since is None:
            return
        with self._lock:
            self._since = None
        seconds = time.monotonic() - since
        if seconds >= _TOLD_SECONDS:
            _log.warning("The disk has held this process up for %.1f s.", seconds)

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            with self._lock:
                since = self._since
                if since is not None and LOOK_SECONDS <= time.monotonic() - since <= MOST_SECONDS:
                    self._meanwhile()


def at_disk(function: Callable[_P, _Result]) -> Callable[_P, _Result]:
    """Mark a function that may wait for the disk, and does nothing else."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _Result:
        watch: DiskWatch | None = getattr(_here, "watch", None)
        if watch is None:
            return function(*args, **kwargs)
        watch.begin()
        try:
            return function(*args, **kwargs)
        finally:
            watch.end()

    return call
