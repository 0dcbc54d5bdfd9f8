"""The operations of the group that this program is in at the moment; by itself it is a group of one worker."""

from __future__ import annotations

from typing import Any

from .group import Array, current


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
