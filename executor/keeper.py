"""Values that tasks leave in the memory of their process for later ones, and the interface of executors that keep them."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from itertools import islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

__all__ = ["KEEP_BYTES", "SHELVES", "Absent", "Keeper", "Shelves", "size_of"]


@runtime_checkable
class Keeper(Protocol):
    """Executor that runs tasks near values that earlier tasks have put on `executor.keeper.SHELVES`. `ClusterExecutor` is one.

    It takes functions of every kind, and all data that may travel. An executor that is none keeps nothing: partitions are then
    kept by the process of the Context.
    """

    @property
    def live_nodes(self) -> Sequence[int]:
        """Ids of the nodes that are not lost, as far as is known."""

    def submit_near(self, nodes: Collection[int], fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Submit `fn(*args)` to one of some nodes.

        Args:
            nodes: ids of these; to any node when all of them are lost, or there are none in it.
            fn: the function; the arguments behind it are its own.
        """

    def new_shelf(self) -> int:
        """Return a number that no other shelf of this executor has."""

    def clear_shelf(self, shelf: int) -> None:
        """Free the values that the nodes keep under the number `shelf`; from any thread, also when there are no nodes any
        more.
        """


KEEP_BYTES = 1 << 30


class Absent(LookupError):
    """Error: a value that a task needs is not on the shelf: it was never put there, had to make room, or was cleared away."""


class _Item(NamedTuple):
    value: Any
    size: int


class Shelves:
    """Values by the number of a shelf and a place on it.

    A value that finds no room pushes out those of other shelves, the ones used longest ago first, never one of its own shelf: a
    pass over a shelf that is too long would otherwise find nothing, at any place. If that is not enough, the value is not kept.
    Tasks put and get in one thread, `clear` may be called in another.

    Args:
        node: the process that they are in.
        room: bytes for all of them.
    """

    def __init__(self, node: int, room: int = KEEP_BYTES) -> None:
        self.node, self.room = node, room
        self._items: OrderedDict[tuple[int, int], _Item] = OrderedDict()  # used longest ago first
        self._cleared: set[int] = set()
        self._lock = threading.Lock()
        self.used = 0

    def put(self, shelf: int, place: int, value: Any, size: int) -> bool:
        """Keep a value.

        Args:
            shelf: number of the shelf.
            place: number of the place on it.
            value: the value.
            size: its bytes, about.

        Returns: whether there is room for it, and the shelf is still in use.
        """
        with self._lock:
            # first: a value that is put anew makes its own room
            self._drop((shelf, place))
            others = [key for key in self._items if key[0] != shelf]
            own = self.used - sum(self._items[key].size for key in others)
            # before others are pushed out, which would be in vain
            if shelf in self._cleared or own + size > self.room:
                return False
            for key in others:
                if self.used + size <= self.room:
                    break
                self._drop(key)
            self._items[shelf, place] = _Item(value, size)
            self.used += size
            return True

    def get(self, shelf: int, place: int) -> Any:
        """Return a value.

        Args:
            shelf: the shelf.
            place: its place there.

        Raises: Absent.
        """
        with self._lock:
            found = self._items.get((shelf, place))
            if found is None:
                raise Absent(f"There is nothing at place {place} of shelf {shelf}.")
            self._items.move_to_end((shelf, place))
            return found.value

    def clear(self, shelf: int) -> None:
        """Free the memory of `shelf`, for good: tasks that come late cannot put anything there."""
        with self._lock:
            # numbers are never used again, so the set grows by a few bytes for each collection
            self._cleared.add(shelf)
            for key in [key for key in self._items if key[0] == shelf]:
                self._drop(key)

    def _drop(self, key: tuple[int, int]) -> None:
        item = self._items.pop(key, None)
        if item is not None:
            self.used -= item.size


SHELVES: ContextVar[Shelves] = ContextVar("SHELVES")
"""Shelves of the process that executes tasks for a ClusterExecutor; nowhere else."""


_LOOKED_AT = 32  # items of a container, which stand for the others
_LEVELS = 6


def size_of(value: Any, level: int = 0) -> int:
    """Estimate the bytes of a value with its content; of a long container from its first items and those in the middle.

    Args:
        value: the value.
        level: number of containers around it: six deep the content is left out.
    """
    if isinstance(value, np.ndarray):
        # a view does not count its memory
        return sys.getsizeof(value) if value.base is None else value.nbytes
    own = sys.getsizeof(value, 64)  # 64 for types that do not tell their size
    # their own size has their content in it
    if level == _LEVELS or isinstance(value, (str, bytes, bytearray, int, float)):
        return own
    if isinstance(value, dict):
        return own + _sampled(value.keys(), len(value), level) + _sampled(value.values(), len(value), level)
    if isinstance(value, (list, tuple, set, frozenset)):
        return own + _sampled(value, len(value), level)
    fields = getattr(value, "__dict__", None)
    return own if fields is None else own + size_of(fields, level + 1)


def _sampled(items: Iterable[Any], count: int, level: int) -> int:
    # from all over the container: its first items may be unlike the others
    chosen = list(islice(items, 0, count, max(1, count // _LOOKED_AT)))
    # scaled up from the sample
    return sum(size_of(item, level + 1) for item in chosen) * count // max(1, len(chosen))
