"""Runner of pipelines on any executor: how they get there, and once more when a worker is lost."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
from tqdm import tqdm

from rpc.shipping import Bundle, load, pack

from ..cluster import ClusterExecutor
from ..functions import user_classes
from ..keeper import Keeper
from ..payload import Payload, pack_payload, unpack_payload
from ..process_setup import Broadcast, drop_removed, pack_broadcast
from ..values import REGISTRY, Registered
from .lineage import Runner
from .persist import Persisted, PersistedOnNodes, Plan
from .pipeline import Missed, Outcome, Pipeline, opened

MOST_LOSSES = 3  # of workers with the same task
_NOT_WITHIN = "Collections are computed by the program that made their Context, not within a task: collect what it needs first."
_WITHIN: ContextVar[bool] = ContextVar("WITHIN", default=False)


class ExecutorRunner(Runner):
    """Runner of a task per partition on an executor.

    Args:
        executor: the executor.
        progress: show a bar of the tasks that are done.
        scattered: its broadcast values, if it is Dask's.
    """

    def __init__(self, executor: Executor, progress: bool = False, scattered: Scattered | None = None) -> None:
        self._executor, self._progress, self._scattered = executor, progress, scattered
        # these take any function and any data that may travel; others would pickle them, which lambdas do not survive
        self._direct = isinstance(executor, (ThreadPoolExecutor, Keeper))

    def run(self, plans: Mapping[int, Plan], what: str, take: Callable[[int, Outcome | Missed], None]) -> None:
        """Run as `Runner` says. Raises: the exception of a task, and BrokenExecutor when workers are lost again and again;
        RuntimeError within a task: its thread would be one of those that it waits for.
        """
        # a thread of the pool that waits for tasks of the pool could wait for ever
        if _WITHIN.get():
            raise RuntimeError(_NOT_WITHIN)
        call = _Call(self._executor) if self._direct else _Shipped(self._executor, plans, self._scattered)
        futures: dict[int, Future[Any]] = {}
        try:
            # all are submitted before the first is awaited
            for number, plan in plans.items():
                futures[number] = call.submit(number, plan)
            with tqdm(total=len(plans), desc=what, unit="part", disable=not self._progress) as bar:
                for number, plan in plans.items():
                    take(number, self._await(call, futures, number, plan))
                    # its result may be large, and the partition has been taken
                    del futures[number]
                    bar.update()
        finally:
            for future in futures.values():
                future.cancel()

    def __reduce__(self) -> Any:
        # pickled into a task a collection would try to submit tasks there
        raise TypeError(_NOT_WITHIN)

    def keep(self, replicas: int) -> Persisted:
        """Return a place on the nodes, if the executor is a `Keeper`, else here."""
        return PersistedOnNodes(self._executor, replicas) if isinstance(self._executor, Keeper) else Persisted()

    @staticmethod
    def _await(call: _Call, futures: dict[int, Future[Any]], number: int, plan: Plan) -> Outcome | Missed:
        """Wait for the outcome of a task; where a worker was lost, run the task again by its plan."""
        for _ in range(MOST_LOSSES):
            try:
                return opened(call.open(plan, futures[number].result()))
            except BrokenExecutor:
                futures[number] = call.submit(number, plan)  # raises when the whole executor is broken
        # the last loss is not caught: a task that costs every worker its life must not go on
        return opened(call.open(plan, futures[number].result()))


class _Call:
    """Submission of one stage's tasks, and opening of their results: here for executors that take any function and any data."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def submit(self, number: int, plan: Plan) -> Future[Any]:
        """Submit the task of one partition."""
        if plan.near and isinstance(self._executor, Keeper):
            return self._executor.submit_near(plan.near, plan.pipeline, number, plan.item)
        if isinstance(self._executor, ThreadPoolExecutor):
            return self._executor.submit(_run_here, plan.pipeline, number, plan.item)
        return self._executor.submit(plan.pipeline, number, plan.item)

    def open(self, plan: Plan, result: Any) -> Any:
        """Return the pipeline's result."""
        return result


def _run_here(pipeline: Pipeline, number: int, item: Any) -> Any:
    """Run one task in a thread of this process."""
    token = _WITHIN.set(True)
    try:
        return pipeline(number, item)
    finally:
        _WITHIN.reset(token)


class _Shipped(_Call):
    """Submission to executors that pickle arguments: the pipeline goes as a bundle of code, inputs and results as data."""

    def __init__(self, executor: Executor, plans: Mapping[int, Plan], scattered: Scattered | None) -> None:
        super().__init__(executor)
        self._scattered = scattered
        self._stage = secrets.token_hex(8)  # or Dask would take equal tasks of two stages for one, errors included
        self._classes = user_classes([plan.item for plan in plans.values()])
        self._registered = REGISTRY.current
        self._bundles: dict[Pipeline, Bundle] = {}
        self._named: dict[Pipeline, set[int]] = {}  # broadcast values

    def submit(self, number: int, plan: Plan) -> Future[Any]:
        bundle = self._bundles.get(plan.pipeline)
        if bundle is None:
            # broadcast values note themselves while they are pickled
            with named() as self._named[plan.pipeline]:
                parts = {"pipeline": plan.pipeline, "classes": self._classes, "registered": list(self._registered.values())}
                bundle = self._bundles[plan.pipeline] = pack(parts)
        payload = pack_payload(plan.item, bundle.classes, self._registered)
        given = {} if self._scattered is None else self._scattered.futures(self._named[plan.pipeline])
        return self._executor.submit(run_shipped, bundle.objects, bundle.code, number, *payload, self._stage, given)

    def open(self, plan: Plan, result: Any) -> Any:
        tree, arrays = result
        return unpack_payload(tree, arrays, self._bundles[plan.pipeline].classes, self._registered)


def run_shipped(
    objects: bytes,
    code: bytes,
    number: int,
    tree: bytes,
    arrays: list[np.ndarray[Any, Any]],
    _stage: str,
    given: Mapping[int, Any],
) -> Payload:
    """Run one task in a process of the same user, which pickles its own messages.

    Args:
        objects: objects of the function's bundle.
        code: code of that bundle.
        number: number of the partition.
        tree: tree of the input's payload.
        arrays: arrays of that payload.
        _stage: name of the stage, for a reader of the task.
        given: broadcast values.
    """
    # before the task: the memory may be needed
    drop_removed()
    GIVEN.set(given)
    pipeline, classes, registered = _loaded(objects, code)
    return pack_payload(pipeline(number, unpack_payload(tree, arrays, classes, registered)), classes, registered)


@functools.lru_cache(maxsize=32)  # the tasks of a stage bring the same bundle
def _loaded(objects: bytes, code: bytes) -> tuple[Callable[[int, Any], Any], Sequence[type], Registered]:
    restored, classes = load(objects, code)
    return restored["pipeline"], classes, {converter.type: converter for converter in restored["registered"]}


def workers_of(executor: Executor) -> int:
    """Return how many tasks an executor runs at once, 4 where it does not tell."""
    if isinstance(executor, ClusterExecutor):
        return len(executor.nodes)
    client = dask_client(executor)
    if client is not None:
        return max(1, int(sum(client.nthreads().values())))
    # private, but the standard library tells it in no other way
    for name in ("_max_workers", "num_workers"):  # of the standard library, of mpi4py
        count: object = getattr(executor, name, None)
        if isinstance(count, int) and count > 0:
            return count
    return 4


T = TypeVar("T")

GIVEN: ContextVar[Mapping[int, Any]] = ContextVar("GIVEN")
"""Broadcast values that came with the task that runs in this thread, by number."""

_NAMED: ContextVar[set[int]] = ContextVar("NAMED")


class Given:
    """Fetcher of a value that came with the task; in the process that made the value it gives `value` itself."""

    def __init__(self, number: int, *value: Any) -> None:
        self._number, self._value = number, value

    def __call__(self) -> Any:
        """Return the value. Raises: LookupError after `unpersist`."""
        if self._value:
            return self._value[0]
        given = GIVEN.get({})
        if self._number not in given:
            raise LookupError(f"The broadcast value {self._number} is not here: it was given up.")
        return given[self._number]

    def __reduce__(self) -> tuple[Any, ...]:
        # pickling is how a value is named: only then it has to come with the task
        _NAMED.get(set()).add(self._number)
        return Given, (self._number,)


class Scattered:
    """Broadcast values of one Context, kept by the workers of a Dask client."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._futures: dict[int, Any] = {}
        self._made = 0

    def broadcast(self, value: T) -> Broadcast[T]:
        """Leave `value` with Dask.

        Raises: TypeError when it is no data.
        """
        # only to learn whether it is data, as on other executors
        pack_broadcast(value)
        number, self._made = self._made, self._made + 1
        with _large_is_right():
            # the result of a task, which is run again where a worker is lost; scattered data would be gone
            # not pure: Dask would hash the value, to find an equal one
            self._futures[number] = self._client.submit(_itself, value, pure=False)
        return Broadcast(Given(number, value), lambda: self._futures.pop(number, None))

    def futures(self, numbers: Iterable[int]) -> dict[int, Any]:
        """Return the futures from which Dask makes the values where a task begins; those that were given up are left out."""
        return {number: self._futures[number] for number in numbers if number in self._futures}

    def close(self) -> None:
        """Give all values up."""
        self._futures.clear()


def scattered_by(executor: Executor) -> Scattered | None:
    """Return the values of a Dask client's executor; None for any other."""
    client = dask_client(executor)
    return None if client is None else Scattered(client)


def dask_client(executor: Executor) -> Any:
    """Return the client of an executor that `distributed.Client.get_executor` made, else None."""
    if type(executor).__module__.partition(".")[0] != "distributed":
        return None
    return getattr(executor, "_client", None)


def _itself(value: T) -> T:
    return value


@contextmanager
def _large_is_right() -> Iterator[None]:
    """Silence Dask, which would warn of a large argument, and advise to broadcast it."""
    from dask import config  # noqa: PLC0415 - needed here only

    with config.set({"distributed.admin.large-graph-warning-threshold": 1 << 62}):
        yield


@contextmanager
def named() -> Iterator[set[int]]:
    """Collect the numbers of the broadcast values that are packed meanwhile."""
    found: set[int] = set()
    token = _NAMED.set(found)
    try:
        yield found
    finally:
        _NAMED.reset(token)
