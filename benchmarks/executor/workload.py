"""What every contender executes, on two workers."""

from __future__ import annotations

import time
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from executor.parallel import Context

WORKERS = 2


@dataclass(frozen=True)
class Workload:
    """`count` calls or elements; `goals` are the least speeds as multiples of each peer's."""

    name: str
    count: int
    goals: dict[str, float]
    peers: tuple[str, ...] = ("processes", "Dask")

    def __str__(self) -> str:
        return self.name


WORKLOADS = {
    "tiny": Workload("3,000 tasks that do nothing", 3000, {"processes": 0.8, "Dask": 3.0}),
    "arrays": Workload("map over 1,000 arrays of 1 MB, results of 1 MB", 1000, {"processes": 2.0}),
    "sort": Workload(
        "sort_by().collect() of 1,000,000 integers", 1_000_000, {"sorted, collect": 1 / 3}, peers=("sorted, collect",)
    ),
}


def nothing(number: int) -> int:
    """Return the argument."""
    return number


def twice(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array of the same size."""
    return array * 2.0


def shuffled(count: int) -> list[int]:
    """Integers in no order, the same every time."""
    return np.random.default_rng(0).integers(0, 1_000_000_000, count).tolist()


def run(executor: Executor, name: str, *, lists: bool = False) -> float:
    """Do one round; return its seconds.

    Args:
        executor: the contender.
        name: that of the workload.
        lists: whether `map` of this executor takes no generator.
    """
    workload = WORKLOADS[name]
    numbers = shuffled(workload.count) if name == "sort" else []
    begin = time.perf_counter()
    if name == "sort":
        found = Context(executor).parallelize(numbers).sort_by().collect()
        right = len(found) == len(numbers) and all(a <= b for a, b in zip(found[:-1:1000], found[1::1000], strict=False))
    elif name == "tiny":
        futures = [executor.submit(nothing, number) for number in range(workload.count)]
        total = sum(future.result() for future in futures)
        right = total == sum(range(workload.count))
    else:
        arrays = (np.full(125_000, float(number)) for number in range(workload.count))
        results = executor.map(twice, list(arrays) if lists else arrays)
        right = all(float(result[-1]) == 2.0 * number for number, result in enumerate(results))
    seconds = time.perf_counter() - begin
    if not right:
        raise ValueError("wrong results")
    return seconds
