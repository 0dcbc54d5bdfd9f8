"""Threads that compute at the same time: a team of Python threads, and those of the BLAS behind NumPy's products."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Team", "blas_threads", "describe_blas", "limited_to_one_thread"]


class Team:
    """Runs several tasks at once. They may use the BLAS where that is limited to one thread.

    Its threads start with the first use and end when nobody holds the team any more. A copy of a team, also one in the child
    of a fork, has threads of its own.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def run(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Run all tasks, the first in this thread, and return when all have ended; raise what the first that failed raised."""
        if len(tasks) == 1:
            tasks[0]()
            return
        if self._pool is None or self._process != os.getpid():
            self._pool, self._process = ThreadPoolExecutor(self.size - 1, "nn"), os.getpid()
        # each with the settings of this thread, such as numpy.errstate
        others = [self._pool.submit(copy_context().run, task) for task in tasks[1:]]
        try:
            tasks[0]()
        finally:
            _wait(others)
        for other in others:
            other.result()

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_pool": None}


def _wait(futures: Sequence[Future[None]]) -> None:
    """Return when all have ended, also after Ctrl-C: nobody may go on while a thread still writes."""
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            wait(futures)
            break
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt


class _OpenBLAS(NamedTuple):
    """The functions that tell and set how NumPy's OpenBLAS works."""

    core_name: Any
    get_threads: Any
    set_threads: Any


@cache
def _openblas() -> _OpenBLAS | None:
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):  # where wheels keep it, on Linux and on macOS
        for library in sorted(folder.glob("*openblas*")):
            functions = ctypes.CDLL(str(library))
            for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
                names = ("get_corename", "get_num_threads", "set_num_threads")
                found = [getattr(functions, f"{prefix}openblas_{name}{suffix}", None) for name in names]
                if None not in found:
                    blas = _OpenBLAS(*found)
                    blas.core_name.restype = ctypes.c_char_p
                    return blas
    return None


def describe_blas() -> str:
    """Return NumPy's version, the kernels that OpenBLAS picked for this CPU, and its number of threads.

    >>> describe_blas()     # doctest: +SKIP
    'NumPy 2.4.6, OpenBLAS kernels SkylakeX, 1 thread(s)'
    """
    blas = _openblas()
    if blas is None:
        return f"NumPy {np.__version__}, another BLAS than that of its wheel"
    return f"NumPy {np.__version__}, OpenBLAS kernels {blas.core_name().decode()}, {blas.get_threads()} thread(s)"


def blas_threads() -> int:
    """Return how many threads the BLAS uses, as `OMP_NUM_THREADS` or the number of cores decided; 1 where it cannot be told."""
    blas = _openblas()
    return 1 if blas is None else int(blas.get_threads())


class _Limit:
    """Counts who wants a BLAS of one thread, so that the last to leave restores what the first found."""

    def __init__(self, blas: _OpenBLAS) -> None:
        self._blas = blas
        self._lock = threading.Lock()
        self._inside = 0
        self._before = 1

    def enter(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = int(self._blas.get_threads())
                self._blas.set_threads(1)
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._blas.set_threads(self._before)


@cache
def _limit() -> _Limit | None:
    blas = _openblas()
    return None if blas is None else _Limit(blas)


@contextmanager
def limited_to_one_thread() -> Iterator[None]:
    """Let each caller of the BLAS compute alone meanwhile: several threads that call it would wait for each other."""
    limit = _limit()
    if limit is None:
        yield
        return
    limit.enter()
    try:
        yield
    finally:
        limit.leave()
