"""Backend of joblib on the nodes of a ClusterExecutor: `with joblib.parallel_config(backend="psgd")`."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any

from rpc.shipping import pack

from .cluster import ClusterExecutor
from .errors import NotData
from .functions import name_of
from .payload import pack_payload

_MOST_FUNCTIONS = 64  # remembered
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def register_joblib(executor: ClusterExecutor, name: str = "psgd", trust_results: bool | None = None) -> None:
    """Let joblib execute its calls on a ClusterExecutor.

    Functions and arguments travel as with `submit`; arguments that are no data, an estimator say, travel as code does, up to 8
    MiB. Results are data: scores, predictions, parameters. A call that returns anything else raises TypeError, unless pickles
    of the nodes may be loaded. Within a call, joblib works one after the other. `n_jobs` says on how many nodes at most; with
    1, joblib stays in this process.

    Args:
        executor: the executor.
        name: name of the backend.
        trust_results: whether pickles of the nodes may be loaded: then fitted estimators come back, and an attacker that has
            taken over a node runs code here. Default: as the executor was told.

    Raises: ImportError without joblib, TypeError unless `executor` is a ClusterExecutor, `trust_results` True, False or None.

    >>> register_joblib(executor)  # doctest: +SKIP
    >>> with joblib.parallel_config(backend="psgd"):  # doctest: +SKIP
    ...     scores = joblib.Parallel()(joblib.delayed(score)(rate) for rate in (0.1, 0.01))
    """
    if not isinstance(executor, ClusterExecutor):
        raise TypeError(f"register_joblib 'executor' must be a ClusterExecutor, got {type(executor).__qualname__}.")
    if trust_results is not None and not isinstance(trust_results, bool):
        raise TypeError(f"register_joblib 'trust_results' must be True, False or None, got {trust_results!r}.")
    try:
        from joblib import parallel  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise ImportError("register_joblib() needs joblib: pip install joblib") from error
    # made here: its bases exist only where joblib is installed
    backend = type("ClusterBackend", (_OnExecutor, parallel.AutoBatchingMixin, parallel.ParallelBackendBase), {})
    parallel.register_parallel_backend(name, functools.partial(backend, executor, trust_results))


class Batch:
    """Batch of several calls in one task.

    Args:
        codes: their functions, and those of their arguments that are no data.
        task_name: name of the task, for people.
    """

    def __init__(self, codes: Sequence[Any], task_name: str) -> None:
        self.codes, self.task_name = list(codes), task_name

    def __call__(self, calls: list[Any]) -> list[Any]:
        """Return the result of every (function, arguments, keywords, {place of an argument: number in `codes`})."""
        results = []
        with _one_after_the_other():
            for function, args, kwargs, places in calls:
                for place, number in places.items():
                    (args if isinstance(place, int) else kwargs)[place] = self.codes[number]
                results.append(self.codes[function](*args, **kwargs))
        return results


def _one_after_the_other() -> AbstractContextManager[Any]:
    """Keep joblib from starting processes: a node computes one thing at a time. Without joblib on the node there is nothing
    to do.
    """
    try:
        from joblib import parallel_config  # noqa: PLC0415 - an optional extra
    except ImportError:
        return contextlib.nullcontext()
    found: AbstractContextManager[Any] = parallel_config(backend="sequential", n_jobs=1)
    return found


class _OnExecutor:
    """Part of a joblib backend that is ours; joblib's own classes, which `register_joblib` adds, do the rest."""

    # joblib then takes each result by `retrieve_result_callback`, in the thread of the callback
    supports_retrieve_callback = True
    default_n_jobs = -1  # all nodes, where the program says nothing
    parallel: Any

    def __init__(self, executor: ClusterExecutor, trusts: bool | None, **settings: Any) -> None:
        super().__init__(**settings)
        self._executor, self._trusts = executor, trusts
        self._batches: dict[Any, Batch] = {}  # by function, so that it is packed once
        self._futures: dict[Future[Any], Any] = {}  # unfinished, with the callback of joblib for each
        self._lock = threading.Lock()

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return the number of nodes on which calls run: `n_jobs`, or for a negative number all but some.

        It is 1 only for n_jobs=1: then joblib computes in this process, which one node left alone is no reason for.
        """
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")  # the text of joblib's own backends
        if n_jobs == 1:
            return 1
        nodes = len(self._executor.live_nodes)
        wanted = nodes if n_jobs is None else n_jobs if n_jobs > 0 else nodes + 1 + n_jobs
        return max(2, min(wanted, nodes))

    def start_call(self) -> None:
        """Forget packed functions before a call of Parallel, as the objects that they name may have changed."""
        with self._lock:
            self._batches.clear()

    def submit(self, func: Any, callback: Callable[[Future[Any]], None]) -> Future[Any]:
        """Submit a batch of calls; a value that cannot travel is an error of the future, as joblib may ask in any thread."""
        try:
            future = self._submit(func.items, self._nodes_for(callback))
        except Exception as error:  # noqa: BLE001  raised here it would end the thread that waits for the next batch
            future = Future()
            future.set_exception(error)
        # before the callback is set, which may run at once
        with self._lock:
            self._futures[future] = callback
        future.add_done_callback(self._tell)
        return future

    def _nodes_for(self, callback: Any) -> list[int]:
        """Choose the nodes for the calls of a Parallel, if it does not want all."""
        live = self._executor.live_nodes
        wanted = self.effective_n_jobs(callback.parallel.n_jobs)
        return live[:wanted] if wanted < len(live) else []

    def _tell(self, future: Future[Any]) -> None:
        with self._lock:
            callback = self._futures.pop(future)
        # joblib goes on with the user's iterable, which may take its time, or wait for results of this executor
        threading.Thread(target=callback, args=(future,), name="joblib", daemon=True).start()

    def _submit(self, items: Sequence[Call], nodes: list[int]) -> Future[Any]:
        functions = {id(function): function for function, _, _ in items}
        if len(functions) == 1:
            function = items[0][0]
            calls = [[0, list(args), kwargs, {}] for _, args, kwargs in items]
            with self._lock:
                if len(self._batches) >= _MOST_FUNCTIONS:  # scikit-learn wraps them anew for every call
                    # all: which of them joblib uses again cannot be told
                    self._batches.clear()
                batch = self._batches.setdefault(id(function), Batch([function], name_of(function)))
            # some argument is no data: then the calls are described one by one, below
            with contextlib.suppress(TypeError):
                return self._executor.submit_task(batch, [calls], near=nodes, trust_results=self._trusts)
        codes: list[Any] = []
        calls = [_described(call, codes) for call in items]
        names = dict.fromkeys(name_of(function) for function, _, _ in items)
        batch = Batch(codes, ", ".join(names))
        return self._executor.submit_task(batch, [calls], near=nodes, trust_results=self._trusts)

    def retrieve_result_callback(self, future: Future[Any]) -> Any:
        """Return the results of a batch. Raises: the exception of a call; TypeError for a result that is no data."""
        try:
            return future.result()
        except NotData as error:
            raise TypeError(
                f"{error} A call of joblib on a ClusterExecutor returns scores, predictions or parameters, not a fitted "
                f"estimator: fit the best one where it is needed, or let the nodes send pickles by trust_results=True."
            ) from error

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel tasks that no node has begun, of those calls of Parallel that have failed or are not waited for."""
        with self._lock:
            # by joblib's own mark: other calls of Parallel use this executor, too
            waiting = [f for f, callback in self._futures.items() if callback.parallel._aborting]
        for future in waiting:
            future.cancel()

    def terminate(self) -> None:
        """Do nothing: the executor belongs to the program that made it."""


def _described(call: Call, codes: list[Any]) -> list[Any]:
    """Describe a call as data. Parts that are no data go to `codes`.

    Raises: TypeError naming an argument that cannot travel in any way.
    """
    function, args, kwargs = call
    places: dict[int | str, int] = {}
    args, kwargs = list(args), dict(kwargs)  # type: ignore[assignment]
    arguments: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    for place, item in arguments:
        try:
            # tried alone, as only those that are no data go as code
            pack_payload(item)
        except TypeError:
            _check(item, f"Argument {place!r} of {name_of(function)}")
            places[place] = _number(item, codes)
            (args if isinstance(place, int) else kwargs)[place] = None  # type: ignore[index]
    return [_number(function, codes), args, kwargs, places]


def _check(item: Any, what: str) -> None:
    try:
        pack({"item": item})
    except TypeError as error:
        raise TypeError(f"{what} cannot travel: {error}") from None


def _number(item: Any, codes: list[Any]) -> int:
    # by identity: equal objects may be changed apart later
    for number, known in enumerate(codes):
        if known is item:
            return number
    codes.append(item)
    return len(codes) - 1
