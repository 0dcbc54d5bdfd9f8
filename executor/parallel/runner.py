"""Executing pipelines on any executor: how they get there, and once more when a worker is lost."""

from __future__ import annotations

import contextlib
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from tqdm import tqdm

from rpc.shipping import Bundle, load, pack

from ..cluster import ClusterExecutor
from ..functions import user_classes
from ..payload import Payload, pack_payload, unpack_payload
from .lineage import Pipeline, Runner

MOST_LOSSES = 3  # of workers with the same task


class ExecutorRunner(Runner):
    """Runs a task per partition on `executor`; with `progress` a bar shows how many are done."""

    def __init__(self, executor: Executor, progress: bool = False) -> None:
        self._executor, self._progress = executor, progress
        # these take any function and any data that may travel; others would pickle them, which lambdas do not survive
        self._direct = isinstance(executor, (ThreadPoolExecutor, ClusterExecutor))

    def run(self, pipeline: Pipeline, inputs: Mapping[int, Any], what: str) -> dict[int, list[Any]]:
        """See `Runner`. Raises: what a task raised, and BrokenExecutor when workers are lost again and again."""
        call = _Direct(self._executor, pipeline) if self._direct else _Shipped(self._executor, pipeline, inputs)
        futures: dict[int, Future[Any]] = {}
        results: dict[int, list[Any]] = {}
        try:
            for number, item in inputs.items():
                futures[number] = call.submit(number, item)
            with tqdm(total=len(inputs), desc=what, unit="part", disable=not self._progress) as bar:
                for number in inputs:
                    results[number] = self._await(call, futures, number, inputs[number])
                    del futures[number]
                    bar.update()
        finally:
            for future in futures.values():
                future.cancel()
        return results

    @staticmethod
    def _await(call: _Call, futures: dict[int, Future[Any]], number: int, item: Any) -> list[Any]:
        """The result of a partition; its lineage is all that is needed to compute it again where a worker was lost."""
        for _ in range(MOST_LOSSES):
            try:
                return call.open(futures[number].result())
            except BrokenExecutor:
                futures[number] = call.submit(number, item)  # raises when the whole executor is broken
        return call.open(futures[number].result())


class _Call(ABC):
    """How tasks of one stage are submitted, and their results opened."""

    @abstractmethod
    def submit(self, number: int, item: Any) -> Future[Any]:
        """Have the task of one partition executed."""

    @abstractmethod
    def open(self, result: Any) -> list[Any]:
        """The partition in a task's result."""


class _Direct(_Call):
    def __init__(self, executor: Executor, pipeline: Pipeline) -> None:
        self._executor, self._pipeline = executor, pipeline

    def submit(self, number: int, item: Any) -> Future[Any]:
        return self._executor.submit(self._pipeline, number, item)

    def open(self, result: Any) -> list[Any]:
        return list(result)


class _Shipped(_Call):
    """For executors that pickle what they are given: the pipeline goes as a bundle of code, inputs and results as data."""

    def __init__(self, executor: Executor, pipeline: Pipeline, inputs: Mapping[int, Any]) -> None:
        self._executor = executor
        self._bundle: Bundle = pack({"pipeline": pipeline, "classes": user_classes(list(inputs.values()))})

    def submit(self, number: int, item: Any) -> Future[Any]:
        payload = pack_payload(item, self._bundle.classes)
        return self._executor.submit(run_shipped, self._bundle.objects, self._bundle.code, number, *payload)

    def open(self, result: Any) -> list[Any]:
        tree, arrays = result
        return list(unpack_payload(tree, arrays, self._bundle.classes))


def run_shipped(objects: bytes, code: bytes, number: int, tree: bytes, arrays: list[np.ndarray[Any, Any]]) -> Payload:
    """One task in a process of the same user, which pickles its own messages."""
    pipeline, classes = _loaded(objects, code)
    return pack_payload(pipeline(number, unpack_payload(tree, arrays, classes)), classes)


@functools.lru_cache(maxsize=32)
def _loaded(objects: bytes, code: bytes) -> tuple[Callable[[int, Any], Any], Sequence[type]]:
    restored, classes = load(objects, code)
    return restored["pipeline"], classes


def workers_of(executor: Executor) -> int:
    """How many tasks an executor runs at once, 4 where it does not tell."""
    if isinstance(executor, ClusterExecutor):
        return len(executor.nodes)
    found = 4
    with contextlib.suppress(TypeError, ValueError):
        found = int(getattr(executor, "_max_workers", found))
    return max(1, found)
