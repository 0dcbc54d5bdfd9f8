"""One value for all tasks, brought to every process once instead of with every task."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Generic, TypeVar

from rpc.files import read_result

from .payload import Payload, pack_payload, unpack_payload
from .values import DATA_ONLY

T = TypeVar("T")


def pack_broadcast(value: object) -> Payload:
    """A value to be broadcast, which names no function, so that neither classes nor registered types travel with it.

    Raises: as `pack_payload`.
    """
    return pack_payload(value, advice=DATA_ONLY)


class Arrived:
    """A broadcast value where tasks run: unpacked once, when a task asks for it, for all functions that name it.

    Tasks get it, another thread may drop it.
    """

    def __init__(self, tree: Any, arrays: Any) -> None:
        self._packed: tuple[Any, Any] | None = (tree, arrays)
        self._value: tuple[Any, ...] = ()

    def get(self) -> Any:
        """The value.

        Raises: LookupError after `drop`.
        """
        packed = self._packed
        if packed is not None:
            self._value, self._packed = (unpack_payload(*packed),), None
        value = self._value
        if not value:
            raise LookupError("The broadcast value is not here any more: it was given up.")
        return value[0]

    def drop(self) -> None:
        """Free the memory, though functions that name the value may be kept."""
        self._packed, self._value = None, ()


HELD: ContextVar[Mapping[int, Arrived]] = ContextVar("HELD")
"""The broadcast values of the process that executes tasks for a ClusterExecutor, by number."""


class Broadcast(Generic[T]):
    """A value that tasks name; it is there when a task asks for `value`, which must not be changed.

    Made by `Context.broadcast`, or by `ClusterExecutor.broadcast`.
    """

    def __init__(self, fetch: Callable[[], T], drop: Callable[[], None] | None = None) -> None:
        self._fetch = fetch
        self._drop = drop

    @property
    def value(self) -> T:
        """The value, in whatever process the task runs."""
        return self._fetch()

    def unpersist(self) -> None:
        """Free its memory everywhere; tasks must not ask for it any more. Only where it was made; idempotent."""
        if self._drop is not None:
            self._drop()

    def __reduce__(self) -> tuple[Any, ...]:
        return Broadcast, (self._fetch,)


def from_file(path: str) -> Any:
    """The value whose payload is in a file that `rpc.files.write_result` wrote, read once by each process."""
    held = _held_files()
    if path not in held:
        held[path] = unpack_payload(*read_result(Path(path), ()))
    return held[path]


def drop_removed() -> None:
    """Free the values whose files were removed."""
    for path in list(_held_files()):
        if not os.path.exists(path):
            _held_files().pop(path, None)


@functools.cache
def _held_files() -> dict[str, Any]:
    return {}


class Held:
    """Fetches a value that the submitter has sent to this process; with the submitter, `value` itself."""

    def __init__(self, number: int, *value: Any) -> None:
        self._number, self._value = number, value
        self._arrived: Arrived | None = None  # also for threads of a task, whose context is another

    def __call__(self) -> Any:
        """The value.

        Raises: LookupError after `unpersist`.
        """
        if self._value:
            return self._value[0]
        if self._arrived is None:
            self._arrived = HELD.get({}).get(self._number)
        if self._arrived is None:
            raise LookupError(f"The broadcast value {self._number} is not here: it was given up, or never sent.")
        return self._arrived.get()

    def __reduce__(self) -> tuple[Any, ...]:
        return Held, (self._number,)
