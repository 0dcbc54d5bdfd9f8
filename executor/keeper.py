"""Executors whose nodes keep what tasks leave there: what `Context` asks of one to keep partitions where they are made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Keeper(Protocol):
    """Runs tasks near values that earlier tasks have put on `executor.shelves.SHELVES`. `ClusterExecutor` is one.

    It takes functions of every kind, and whatever data may travel. An executor that is none keeps nothing: partitions are then
    kept by the process of the Context.
    """

    @property
    def live_nodes(self) -> Sequence[int]:
        """Ids of the nodes that are not lost, as far as is known."""

    def submit_near(self, nodes: Collection[int], fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """As `submit`, on one of `nodes`; on any node when all of them are lost, or there are none in it."""

    def new_shelf(self) -> int:
        """A number that no other shelf of this executor has."""

    def clear_shelf(self, shelf: int) -> None:
        """Free what the nodes keep under this number; from any thread, also when there are no nodes any more."""
