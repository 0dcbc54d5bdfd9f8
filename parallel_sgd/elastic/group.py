"""The group of workers that train together at the moment, its operations for programs, and what interrupts them."""

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
    """This worker's place in the group, from 0. It may change whenever the group does: ask again, or in a reset callback."""
    return current().rank


def size() -> int:
    """The number of workers in the group.

    >>> size()
    1
    """
    return current().size


def allreduce(array: Any, op: str = "mean") -> Array:
    """Combine an array of the same shape from every worker, by 'mean', 'sum', 'max' or 'min': the same bits for all.

    >>> allreduce([1.0, 2.0], "sum")
    array([1., 2.])

    Raises: WorkersLostError when a worker is lost, so that nothing will come of it; ValueError for an unknown `op`, or shapes
    that differ.
    """
    return current().allreduce(array, op)


def broadcast(value: Any, root: int = 0) -> Any:
    """The value of rank `root`, data that may travel, on every worker.

    Raises: WorkersLostError; ValueError when there is no such rank, TypeError for what cannot travel.
    """
    return current().broadcast(value, root)


def barrier() -> None:
    """Return when every worker has come here.

    Raises: WorkersLostError.
    """
    current().barrier()


Array: TypeAlias = NDArray[Any]
Listener: TypeAlias = Callable[[int, HostUpdateResult], None]
"""Is given the number of a host change and what it was; called from any thread."""


class Group(Protocol):
    """One object per worker, which stays the same while its group changes.

    All members make the same operations in the same order. Each raises WorkersLostError where a member is lost, in every
    member that had not got its result.
    """

    @property
    def rank(self) -> int:
        """This worker's place, from 0."""

    @property
    def size(self) -> int:
        """The number of workers."""

    @property
    def sequence(self) -> int:
        """The number of the last host change that this membership takes account of."""

    def allreduce(self, array: Any, op: str = "mean") -> Array:
        """Combine an array of the same shape from every worker, by 'mean', 'sum', 'max' or 'min': the same bits for all."""

    def broadcast(self, value: Any, root: int = 0) -> Any:
        """The value of rank `root`, data that may travel, on every worker."""

    def barrier(self) -> None:
        """Return when every worker has come here."""
        return

    def reform(self, holds: bool) -> None:
        """Leave this group, and return as a member of the next one.

        `holds` tells whether this worker holds the state of the training, so that the others may take it from here.
        Raises: WorkerRemoved when there is no place for it, JobAborted when the job has ended.
        """
        return

    def keep(self, content: Callable[[], Any]) -> None:
        """The state was saved: where it is kept beyond the lives of all workers, and it is time for that, keep what `content`
        returns, data of no user's classes. Raises: TypeError for anything else."""
        return

    def take_kept(self) -> Any:
        """What was kept, once, where this group begins with it; else None."""
        return None

    def subscribe(self, listener: Listener) -> None:
        """From now on tell `listener` of host changes, while this worker is rank 0."""
        return

    def unsubscribe(self, listener: Listener) -> None:
        """Do not tell it any more."""
        return


class Alone(Group):
    """The group of a program that was started by itself: one worker, which nobody joins or leaves, so that most of what it asks
    for is done already."""

    rank = 0
    size = 1
    sequence = 0

    def allreduce(self, array: Any, op: str = "mean") -> Array:
        """What it would be with more workers: a copy, of floats for a mean."""
        check_op(op)
        return combined([np.array(array)], op)

    def broadcast(self, value: Any, root: int = 0) -> Any:
        check_root(root, 1)
        return value


_current: ContextVar[Group] = ContextVar("group")


def current() -> Group:
    """The group of this worker; outside an elastic job that of a single worker, so that a program runs by itself as well."""
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
    """A peer failed during an exchange. `run` goes back to the last commit and on with those who are left."""


class HostsUpdatedInterrupt(RuntimeError):
    """Workers are to come or to go. `run` goes on with them, and nothing is lost.

    Attributes: `skip_sync`, whether workers only go, so that nobody needs the state.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("Hosts have been " + ("removed." if skip_sync else "added, or added and removed."))
        self.skip_sync = skip_sync


class WorkerRemoved(RuntimeError):
    """This worker has no place in the next round: it ends, which is no failure. The message names it."""
