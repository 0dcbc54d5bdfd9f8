"""Pools whose workers exist before a test begins."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from executor.parallel import Context


@pytest.fixture(scope="session")
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(3) as pool:
        barrier = threading.Barrier(3)
        list(pool.map(lambda _: barrier.wait(60), range(3)))
        yield pool


@pytest.fixture(scope="session")
def context(threads: Executor) -> Context:
    return Context(threads)


@pytest.fixture(scope="session")
def on_processes() -> Iterator[Context]:
    """On two processes, which pickle what they are given."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("forkserver")) as pool:
        list(pool.map(abs, range(8)))
        with Context(pool, partitions=3) as context:
            yield context
