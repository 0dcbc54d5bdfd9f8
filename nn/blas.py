"""Which linear algebra NumPy computes with here: what has to be equal for results to be equal to the last bit."""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["blas_threads", "describe_blas", "limited_to_one_thread"]


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
