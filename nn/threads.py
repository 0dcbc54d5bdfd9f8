"""Threads that compute at the same time: a team of Python threads, and those of the BLAS behind NumPy's products."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import cache, partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from nn.arrays import Array

__all__ = [
    "Team",
    "adding_product",
    "adding_product_of_rows",
    "blas_threads",
    "describe_blas",
    "describe_kernels",
    "has_bits",
    "limited_to_one_thread",
    "multiplies_small",
    "sum_of_products",
    "transpose",
]


class _Job:
    """A task for another thread, with the settings of this one, such as `numpy.errstate`."""

    def __init__(self, task: Callable[[], None]) -> None:
        self._task, self._context = task, copy_context()
        self.done = False
        self.error: BaseException | None = None
        # Held until the task has ended. A lock costs a third of what a future does, which matters four times in a step.
        self.running = threading.Lock()
        self.running.acquire()

    def run(self) -> None:
        try:
            self._context.run(self._task)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self.error = error
        self.done = True
        self.running.release()


class _Meeting:
    """A meeting of tasks, half-way: the last to come lets the others go on, and goes on itself without waiting."""

    def __init__(self, count: int) -> None:
        self._count, self._abandoned = count, False
        self._come: list[int] = []
        self._gates: list[SimpleQueue[None]] = [SimpleQueue() for _ in range(count)]

    def run(self, place: int, first: Callable[[], None], second: Callable[[], None]) -> None:
        """Run the first task and, when all have come here, the second; not where another one failed."""
        try:
            first()
            self._come.append(place)
            if len(self._come) == self._count:
                # Two that come at once may both find that all are here: to open a gate twice does no harm.
                self._open()
            while len(self._come) < self._count and not self._abandoned:
                self._gates[place].get()
        except BaseException:
            self.abandon()
            raise
        if not self._abandoned:
            second()

    def abandon(self) -> None:
        """Have no task wait any longer, and none begin as a second one."""
        self._abandoned = True
        self._open()

    def _open(self) -> None:
        for gate in self._gates:
            gate.put(None)


class Team:
    """Team of threads for several tasks at once. They may use the BLAS where that is limited to one thread.

    Its threads start with the first use and end with the last reference to the team. A copy of a team, also one in the child
    of a fork, has threads of its own. `size` is the number of threads, that of the caller among them.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._beside: Callable[[], None] | None = None
        self._jobs: SimpleQueue[_Job | None] | None = None
        self._process = 0

    def run(self, tasks: Sequence[Callable[[], None]], then: Sequence[Callable[[], None]] = ()) -> None:
        """Run all tasks, the first in this thread, and return when all have ended; raise the error of the first that failed.

        Args:
            tasks: not more than the team has threads, where others follow.
            then: as many tasks, or none, that begin when all of these have ended, each in the thread of the one in its place.
                Only one thread has to wake up between them, where of two calls the caller and the others have to. Callers that
                give such tasks take turns, or the threads of one would wait for those of another.
        """
        if len(tasks) == 1:
            for task in (*tasks, *then):
                task()
            return
        meeting = _Meeting(len(tasks)) if then else None
        if meeting is not None:
            pairs = enumerate(zip(tasks, then, strict=True))
            tasks = [partial(meeting.run, place, first, second) for place, (first, second) in pairs]
        if self._jobs is None or self._process != os.getpid():  # threads do not live on in the child of a fork
            self._start()
        others = [_Job(task) for task in tasks[1:]]
        waiting = iter(others)
        try:
            for other in waiting:
                self._jobs.put(other)  # type: ignore[union-attr]
            tasks[0]()
            if self._beside is not None:
                beside, self._beside = self._beside, None
                beside()
        except BaseException:
            # Also where Ctrl-C comes before the task begins: the others would wait for it.
            if meeting is not None:
                meeting.abandon()
            # All are waited for, so those that the interrupt kept back follow.
            for other in waiting:
                self._jobs.put(other)  # type: ignore[union-attr]
            raise
        finally:  # also where the first task fails: the others still write to the arrays of the caller
            _wait(others)
        # After all have ended: the error of the first, in the order of the tasks.
        errors = [other.error for other in others if other.error is not None]
        # A traceback refers to the job and to this call: the arrays of the task would stay until the next collection of cycles.
        for other in others:
            other.error = None
        try:
            if errors:
                raise errors[0]
        finally:
            errors.clear()

    def beside(self, task: Callable[[], None], work: Callable[[], None]) -> None:
        """Call `work`, then `task`; where the team runs something in `work`, this thread does `task` in place of waiting.

        Args:
            task: function that does not depend on `work`; not called where `work` fails before it.
            work: function that may call `run`.
        """
        self._beside = task
        try:
            work()
        finally:
            left, self._beside = self._beside, None
        if left is not None:
            left()

    @property
    def busy(self) -> bool:
        """Whether the caller of `run` has something else to do than its own task."""
        return self._beside is not None

    def _start(self) -> None:
        jobs: SimpleQueue[_Job | None] = SimpleQueue()
        started = 0
        try:
            for _ in range(self.size - 1):
                # A daemon, as the end of Python waits for all others before it lets go of the team.
                threading.Thread(target=_serve, args=(jobs,), name="nn", daemon=True).start()
                started += 1
        finally:
            if started < self.size - 1:
                _dismiss(jobs, started)
        # Only now: jobs for threads that could not start would be waited for without an end.
        self._jobs, self._process = jobs, os.getpid()
        # Not at the end of Python, where functions that were registered before may still use the team.
        weakref.finalize(self, _dismiss, jobs, self.size - 1).atexit = False

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_jobs": None, "_beside": None}


def _serve(jobs: SimpleQueue[_Job | None]) -> None:
    """Run jobs until there is None."""
    while (job := jobs.get()) is not None:
        job.run()
        # Its task holds arrays.
        del job


def _dismiss(jobs: SimpleQueue[_Job | None], count: int) -> None:
    for _ in range(count):
        jobs.put(None)


def _wait(jobs: Sequence[_Job]) -> None:
    """Return when all have ended, also after Ctrl-C: no caller may go on while a thread still writes."""
    interrupt: KeyboardInterrupt | None = None
    for job in jobs:
        while not job.done:
            try:
                job.running.acquire()
            except KeyboardInterrupt as error:
                interrupt = error
    if interrupt is not None:
        raise interrupt


class _OpenBLAS:
    """Settings of NumPy's OpenBLAS.

    Its number of threads is one for the whole process: `openblas_set_num_threads_local` of NumPy's wheels sets that as well.
    So callers that want one thread are counted, and the last to leave restores the number that the first found; a caller that
    asks meanwhile how many there are is told the number that holds for it.
    """

    def __init__(
        self, products: dict[str, Any], copies: dict[str, Any], size: type, core_name: Any, get_threads: Any, set_threads: Any
    ) -> None:
        # Products and transposing copies of matrices, by the type of their numbers; and what a length is.
        self.products, self.copies, self.size = products, copies, size
        self._core_name, self._get_threads, self._set_threads = core_name, get_threads, set_threads
        core_name.restype = ctypes.c_char_p
        self._lock = threading.Lock()
        self._inside = 0
        self._outside = 1

    @property
    def kernels(self) -> str:
        """The kernels that it picked for this CPU."""
        return str(self._core_name().decode())

    @property
    def threads(self) -> int:
        """Number of threads that it has where no caller limits it."""
        with self._lock:
            # Within the limit the library itself would say 1.
            return self._outside if self._inside else int(self._get_threads())

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Let it have one thread."""
        with self._lock:
            # The first to come finds the number that the last to leave restores.
            if not self._inside:
                self._outside = int(self._get_threads())
                self._set_threads(1)
            self._inside += 1
        # Of this context alone: other threads see the number that holds for them.
        token = _LIMITED.set(True)
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._set_threads(self._outside)
            _LIMITED.reset(token)


_LIMITED: ContextVar[bool] = ContextVar("_LIMITED", default=False)


@cache
def _openblas() -> _OpenBLAS | None:
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):  # where wheels keep it, on Linux and on macOS
        # not `glob`, which compiles a pattern: each worker asks once, before its first step
        for library in sorted(os.listdir(folder)) if folder.is_dir() else ():
            if "openblas" not in library:
                continue
            functions = ctypes.CDLL(str(folder / library))
            # Names differ between the wheels of NumPy; `64_` marks lengths of 64 bits.
            for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
                names = ("get_corename", "get_num_threads", "set_num_threads")
                found = [getattr(functions, f"{prefix}openblas_{name}{suffix}", None) for name in names]
                if None not in found:
                    kinds = {"f": f"{prefix}cblas_sgemm{suffix}", "d": f"{prefix}cblas_dgemm{suffix}"}
                    products = {kind: getattr(functions, name, None) for kind, name in kinds.items()}
                    kinds = {"f": f"{prefix}cblas_somatcopy{suffix}", "d": f"{prefix}cblas_domatcopy{suffix}"}
                    copies = {kind: getattr(functions, name, None) for kind, name in kinds.items()}
                    return _OpenBLAS(products, copies, ctypes.c_int64 if suffix else ctypes.c_int, *found)
    return None


def sum_of_products(dtype: np.dtype[Any]) -> Callable[[Array, Array, Array], None] | None:
    """Return a function that adds a.T @ b to `out`, for three matrices of this `dtype` that lie row by row, where rows of the
    first one may lie apart; None where NumPy has another BLAS than that of its wheel."""
    product = _product(dtype)
    return None if product is None else lambda a, b, out: _adding(product, a, b)(out.ctypes.data)


def adding_product(a: Array, b: Array) -> Callable[[int], None] | None:
    """Return a function that adds a.T @ b to the matrix at an address, as `sum_of_products` does.

    To ask an array for its address takes as long as a small product: those of the factors are asked for once.

    Args:
        a, b: the factors, which are read with each call.
    """
    product = _product(a.dtype)
    return None if product is None else _adding(product, a, b)


def _adding(product: Any, a: Array, b: Array) -> Callable[[int], None]:
    (k, m), n = a.shape, b.shape[1]
    # Of a single row NumPy may tell any distance to the next one.
    apart = max(m, a.strides[0] // a.itemsize)
    first, second = a.ctypes.data, b.ctypes.data

    def add(place: int, _kept: tuple[Array, Array] = (a, b)) -> None:
        # 101: row by row, 112: turned, 111: not
        # A factor of 1.0 before the matrix as well: the product is added to it.
        product(101, 112, 111, m, n, k, 1.0, first, apart, second, n, 1.0, place, n)

    return add


def adding_product_of_rows(a: Array, b: Array, out: Array) -> Callable[[], None]:
    """Return a function that adds a @ b.T to `out`, for three matrices of one type of which rows may lie apart.

    Args:
        a, b: the factors, (m, k) and (n, k), which are read with each call.
        out: the sum, (m, n).
    """
    product = _product(a.dtype)
    if product is None:

        def by_numpy() -> None:
            np.add(out, np.matmul(a, b.T), out=out)

        return by_numpy
    (m, k), n = a.shape, len(b)
    # Of a single row NumPy may tell any distance to the next one.
    apart = [max(matrix.shape[1], matrix.strides[0] // matrix.itemsize) for matrix in (a, b, out)]
    places = [matrix.ctypes.data for matrix in (a, b, out)]
    # 101: row by row, 111: not turned, 112: turned; a factor of 1.0 before the sum as well: the product is added to it
    numbers = (101, 111, 112, m, n, k, 1.0, places[0], apart[0], places[1], apart[1], 1.0, places[2], apart[2])
    # Converted once: a call takes as long as one of NumPy then, half of what it does otherwise.
    add = partial(product, *[kind(number) for kind, number in zip(product.argtypes, numbers, strict=True)])
    vars(add)["kept"] = (a, b, out)
    return add


def _product(dtype: np.dtype[Any]) -> Any:
    """Return the BLAS's product of matrices of a type; None where it is not known."""
    blas = _openblas()
    product = None if blas is None else blas.products.get(dtype.char)
    if blas is not None and product is not None and product.argtypes is None:
        size, place, real = blas.size, ctypes.c_void_p, ctypes.c_float if dtype.char == "f" else ctypes.c_double
        # Without these ctypes would pass lengths and addresses as C ints.
        product.argtypes = [*[ctypes.c_int] * 3, *[size] * 3, real, place, size, place, size, real, place, size]
        product.restype = None
    return product


def transpose(a: Array, out: Array) -> None:
    """Write a.T into `out`, for matrices of which neighbours in a row lie side by side; rows may lie apart.

    The BLAS takes a quarter of the time that NumPy does, and no interpreter's lock.

    Args:
        a: a matrix (m, n).
        out: memory (n, m) of the same type, apart from that of `a`.
    """
    blas, size = _openblas(), a.itemsize
    copy = None if blas is None else blas.copies.get(a.dtype.char)
    (m, n), fits = a.shape, a.dtype == out.dtype and a.strides[1] == out.strides[1] == size
    # Of a single row NumPy may tell any distance to the next one.
    if blas is None or copy is None or not fits or min(m, n) < 2 or min(a.strides[0] // n, out.strides[0] // m) < size:
        np.copyto(out, a.T)
        return
    if copy.argtypes is None:
        length, place, real = blas.size, ctypes.c_void_p, ctypes.c_float if a.dtype.char == "f" else ctypes.c_double
        copy.argtypes = [*[ctypes.c_int] * 2, length, length, real, place, length, place, length]
        copy.restype = None
    # 101: row by row, 112: turned
    copy(101, 112, m, n, 1.0, a.ctypes.data, a.strides[0] // size, out.ctypes.data, out.strides[0] // size)


def multiplies_small() -> bool:
    """Return whether the BLAS has kernels for products of small matrices, which copy none of them."""
    blas = _openblas()
    return blas is not None and blas.kernels in _SMALL_KERNELS


_SMALL_KERNELS = {"SkylakeX", "Cooperlake", "SapphireRapids"}


def describe_blas() -> str:
    """Return NumPy's version and `describe_kernels`: on equal ones the same computation has the same bits.

    >>> describe_blas()     # doctest: +SKIP
    'NumPy 2.4.6, functions for AVX512_ICL, OpenBLAS kernels SkylakeX, 1 thread'
    """
    return f"NumPy {np.__version__}, {describe_kernels()}"


def describe_kernels() -> str:
    """Return the instructions of NumPy's functions, the kernels of OpenBLAS, and its number of threads, as a text.

    The libraries take both by the CPU, or as the variables OPENBLAS_CORETYPE and NPY_DISABLE_CPU_FEATURES said when the process
    began.
    """
    blas, functions = _openblas(), f"functions for {_features()[-1]}"
    if blas is None:
        return f"{functions}, another BLAS than that of its wheel"
    threads = blas_threads()
    return f"{functions}, OpenBLAS kernels {blas.kernels}, {threads} thread{'s' * (threads != 1)}"


def has_bits(kind: str) -> bool:
    """Return whether products of this process have the bits of a kind.

    Args:
        kind: a set of OpenBLAS's kernels, such as "Haswell", or "portable": the bits that products and functions have on every
            x86 CPU with AVX2, which takes one thread, and functions and kernels for AVX2, neither older nor newer ones.
    """
    blas = _openblas()
    if kind != "portable" or blas is None:
        return blas is not None and blas.kernels == kind
    features = set(_features())
    avx2 = bool(features & {"AVX2", "X86_V3"}) and not any(name == "X86_V4" or name.startswith("AVX512") for name in features)
    return blas.kernels == "Haswell" and blas_threads() == 1 and avx2


def _features() -> list[str]:
    """Return the instructions for which NumPy has functions that it uses here, the newest last."""
    told: Any = np.show_config(mode="dicts")
    extensions = told["SIMD Extensions"]
    return [*extensions["baseline"], *extensions.get("found", ())]


def blas_threads() -> int:
    """Return how many threads the BLAS has, as `OMP_NUM_THREADS` or the number of cores decided; 1 where it cannot be told.

    It is 1 for a caller in `limited_to_one_thread`, whichever limits other threads have meanwhile.
    """
    blas = _openblas()
    return 1 if blas is None or _LIMITED.get() else blas.threads


def limited_to_one_thread() -> AbstractContextManager[None]:
    """Let each caller of the BLAS compute alone meanwhile: several threads that call it would wait for each other."""
    blas = _openblas()
    # Within a limit there is nothing to do: code that runs once in a step finds the caches full of the model and takes ten
    # times as long.
    return nullcontext() if blas is None or _LIMITED.get() else blas.limited()
