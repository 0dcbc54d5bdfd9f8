"""Broadcast values on a Dask cluster: its scheduler moves them, so that no folder need be shared between its machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from ..broadcast import Broadcast, pack_broadcast

T = TypeVar("T")

GIVEN: ContextVar[Mapping[int, Any]] = ContextVar("GIVEN")
"""The broadcast values that came with the task that runs in this thread, by number."""

_NAMED: ContextVar[set[int]] = ContextVar("NAMED")


class Given:
    """Fetches a value that came with the task; where it was made, `value` itself."""

    def __init__(self, number: int, *value: Any) -> None:
        self._number, self._value = number, value

    def __call__(self) -> Any:
        """The value.

        Raises: LookupError after `unpersist`.
        """
        if self._value:
            return self._value[0]
        given = GIVEN.get({})
        if self._number not in given:
            raise LookupError(f"The broadcast value {self._number} is not here: it was given up.")
        return given[self._number]

    def __reduce__(self) -> tuple[Any, ...]:
        _NAMED.get(set()).add(self._number)
        return Given, (self._number,)


class Scattered:
    """The broadcast values of one Context, kept by the workers of a Dask client."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._futures: dict[int, Any] = {}
        self._made = 0

    def broadcast(self, value: T) -> Broadcast[T]:
        """Leave `value` with Dask.

        Raises: TypeError when it is no data.
        """
        pack_broadcast(value)
        number, self._made = self._made, self._made + 1
        with _large_is_right():
            # the result of a task, which is run again where a worker is lost; scattered data would be gone
            self._futures[number] = self._client.submit(_itself, value, pure=False)
        return Broadcast(Given(number, value), lambda: self._futures.pop(number, None))

    def futures(self, numbers: Iterable[int]) -> dict[int, Any]:
        """What Dask makes the values of, where a task begins; those that were given up are left out."""
        return {number: self._futures[number] for number in numbers if number in self._futures}

    def close(self) -> None:
        """Give all values up."""
        self._futures.clear()


def scattered_by(executor: Executor) -> Scattered | None:
    """For the executor of a Dask client; None for any other."""
    client = dask_client(executor)
    return None if client is None else Scattered(client)


def dask_client(executor: Executor) -> Any:
    """The client of an executor that `distributed.Client.get_executor` made, else None."""
    if type(executor).__module__.partition(".")[0] != "distributed":
        return None
    return getattr(executor, "_client", None)


def _itself(value: T) -> T:
    return value


@contextmanager
def _large_is_right() -> Iterator[None]:
    """Dask would warn of a large argument, and advise to broadcast it."""
    from dask import config  # noqa: PLC0415 - needed here only

    with config.set({"distributed.admin.large-graph-warning-threshold": 1 << 62}):
        yield


@contextmanager
def named() -> Iterator[set[int]]:
    """The numbers of the broadcast values that are packed meanwhile."""
    found: set[int] = set()
    token = _NAMED.set(found)
    try:
        yield found
    finally:
        _NAMED.reset(token)
