"""The group of workers that train together at present, its operations for programs, and the exceptions that interrupt them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rpc import check_op, check_root, combined
from rpc.elastic import HostUpdateResult


def rank() -> int:
    """Return this worker's place in the group, from 0.

    It may change whenever the group does: ask again, or in a reset callback.
    """
    return current().rank


def size() -> int:
    """Return the number of workers in the group.

    >>> size()
    1
    """
    return current().size


def allreduce(array: Any, op: str = "mean") -> Array:
    """Combine an array of the same shape from every worker: the same bits for all.

    >>> allreduce([1.0, 2.0], "sum")
    array([1., 2.])

    Args:
        array: of the same shape on every worker; anything that `numpy.asarray` takes.
        op: 'mean', 'sum', 'max' or 'min'.

    Returns: a new array of that shape; of floats for 'mean'.

    Raises: WorkersLostError when a worker is lost, so that the operation has no result; ValueError for an unknown `op`, or
    shapes that differ.
    """
    return current().allreduce(array, op)


def broadcast(value: Any, root: int = 0) -> Any:
    """Return the value of rank `root` on every worker.

    Args:
        value: data that may travel: numbers, text, arrays, lists, tuples, dicts; that of the other ranks is ignored.
        root: the rank that gives the value.

    Raises: WorkersLostError; ValueError when there is no such rank, TypeError for a value that cannot travel.
    """
    return current().broadcast(value, root)


def barrier() -> None:
    """Return when every worker has called this.

    Raises: WorkersLostError.
    """
    current().barrier()


Array: TypeAlias = NDArray[Any]
Listener: TypeAlias = Callable[[int, HostUpdateResult], None]
"""Gets the number of a host change and its kind; called from any thread."""


class Group(Protocol):
    """Group of workers as one worker sees it: one object per worker, which stays the same while its group changes.

    All members make the same operations in the same order. Each operation raises WorkersLostError where a member is lost, in
    every member that had not got its result.
    """

    @property
    def rank(self) -> int:
        """Place of this worker, from 0."""

    @property
    def size(self) -> int:
        """The number of workers."""

    @property
    def sequence(self) -> int:
        """The number of the last host change that this membership takes account of."""

    def allreduce(self, array: Any, op: str = "mean") -> Array:
        """Combine an array from every worker, to the same bits.

        Args:
            array: of the same shape on every worker.
            op: 'mean', 'sum', 'max' or 'min'.
        """

    def broadcast(self, value: Any, root: int = 0) -> Any:
        """Return the value of one rank on every worker.

        Args:
            value: data that may travel; it counts on that rank only.
            root: the rank.
        """

    def barrier(self) -> None:
        """Return when every worker has called this."""
        return

    def reform(self, holds: bool) -> None:
        """Leave this group, and return as a member of the next one.

        `holds` tells whether this worker holds the state of the training, so that the others may take it from this worker.
        Raises: WorkerRemoved when there is no place for this worker, JobAborted when the job has ended.
        """
        return

    def keep(self, content: Callable[[], Any]) -> None:
        """Take note that the state was saved; keep the value of `content()` where a copy outlives all workers, and is due.

        The value is data of no user's classes. Raises: TypeError for anything else.
        """
        return

    def take_kept(self) -> Any:
        """Return the state that was kept, once, where this group begins with it; else None."""
        return None

    def subscribe(self, listener: Listener) -> None:
        """Tell `listener` of host changes from now on, while this worker is rank 0."""
        return

    def unsubscribe(self, listener: Listener) -> None:
        """Tell `listener` of host changes no more."""
        return


class Alone(Group):
    """The group of a program that was started by itself: one worker, which no other worker joins or leaves, so that most
    operations are done at once."""

    rank = 0
    size = 1
    sequence = 0

    def allreduce(self, array: Any, op: str = "mean") -> Array:
        """Return the same as with more workers: a copy, of floats for a mean."""
        check_op(op)
        # a copy, as with more workers: the caller may change either array
        return combined([np.array(array)], op)

    def broadcast(self, value: Any, root: int = 0) -> Any:
        check_root(root, 1)
        return value


_current: ContextVar[Group] = ContextVar("group")


def current() -> Group:
    """Return the group of this worker; outside an elastic job that of a single one, so that a program runs by itself too."""
    return _current.get(None) or Alone()


@contextmanager
def using(group: Group) -> Iterator[None]:
    """Make `group` the current one, for this thread and as long as the block lasts."""
    token = _current.set(group)
    try:
        yield
    finally:
        _current.reset(token)


class WorkersLostError(RuntimeError):
    """Loss of a peer during an exchange. `run` goes back to the last commit, and on with the workers that are left."""


class HostsUpdatedInterrupt(RuntimeError):
    """Notice that workers are to come or to go. `run` goes on with the new group, and nothing is lost.

    Args:
        skip_sync: whether workers only go, so that no worker needs the state; also an attribute.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("Hosts have been " + ("removed." if skip_sync else "added, or added and removed."))
        self.skip_sync = skip_sync


class WorkerRemoved(RuntimeError):
    """Notice that this worker has no place in the next round: it ends, which is no failure. The message names it."""
