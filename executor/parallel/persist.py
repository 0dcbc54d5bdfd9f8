"""Partitions of a persisted collection, in the Context's process or in the memory of the nodes, and plans for tasks that
begin with them.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future
from typing import Any, NamedTuple

from ..keeper import SHELVES, Keeper, size_of
from .pipeline import FromShelf, Keep, Pipeline, Step, elements


class Plan(NamedTuple):
    """Plan for the task of one partition.

    Args:
        pipeline: its steps.
        item: its input.
        near: nodes that have the partition it begins with.
        keeps: collections of the `Keep`s in the pipeline.
        begin: the collection of the partition that the task begins with.
    """

    pipeline: Pipeline
    item: Any
    near: Collection[int]
    keeps: Sequence[Persisted]
    begin: Persisted | None = None


class Persisted:
    """Partitions of one collection that are kept in this process, where `replicas` have no meaning."""

    def __init__(self) -> None:
        self._parts: dict[int, list[Any]] = {}

    @property
    def step(self) -> Keep:
        """Return the step behind a partition that a task has just made: hand it out."""
        return Keep(None, hand_out=True)  # no shelf: this process keeps what is handed out

    def plans(self, wanted: Sequence[int], further: Sequence[Step | Keep], keeps: Sequence[Persisted]) -> Mapping[int, Plan]:
        """Return plans that begin with a kept partition, for those of `wanted` that are kept; here it is the input.

        Args:
            wanted: numbers of partitions.
            further: steps behind the kept collection.
            keeps: collections of the `Keep`s among these.
        """
        pipeline = Pipeline([elements, *further])
        return {n: Plan(pipeline, self._parts[n], (), keeps) for n in wanted if n in self._parts}

    def note(self, number: int, node: int | None, there: bool, part: list[Any] | None) -> None:
        """Note that a task on `node` has made a partition, which is kept `there` or not, and handed it out or not.

        Args:
            number: number of the partition.
            node: the node of the task, None without nodes.
            there: whether the node keeps it.
            part: its elements if they were handed out, else None.
        """
        if part is not None:
            self._parts[number] = part

    def at_hand(self, wanted: Sequence[int]) -> Mapping[int, list[Any]]:
        """Return the partitions that are in this process."""
        return {number: self._parts[number] for number in wanted if number in self._parts}

    def miss(self, number: int, node: int) -> None:
        """Note that a partition is not on `node` any more."""

    def settle(self) -> None:
        """Wait until copies that are on their way have arrived."""

    def copy_to(self, replicas: int) -> None:
        """Have so many nodes keep every partition from now on."""

    def close(self) -> None:
        """Free the memory."""
        self._parts.clear()


class PersistedOnNodes(Persisted):
    """Partitions in the memory of the nodes that made them, and of others, so that `replicas` nodes have each, or as many as
    there are.

    A partition is made once. Its copies pass through this process, which does not keep it. The partitions of a lost node are
    taken from a copy, and copied again when they are used; one without a copy is made anew.
    """

    def __init__(self, executor: Keeper, replicas: int) -> None:
        super().__init__()
        self._executor, self._replicas = executor, replicas
        self._shelf = executor.new_shelf()
        self._places: dict[int, set[int]] = {}
        self._asked: dict[int, set[int]] = {}  # nodes that were to keep a partition, though they may have had no room
        self._put = Put(self._shelf)
        self._copies: list[tuple[int, Future[Any]]] = []
        self._end = weakref.finalize(self, executor.clear_shelf, self._shelf)  # a dropped collection is not kept
        self._end.atexit = False  # at the end of the program the nodes end, and their memory with them

    @property
    def step(self) -> Keep:
        """Return the step that keeps the partition on its node, and hands it out if there are to be copies."""
        # handed out only for copies: it passes through this process
        return Keep(self._shelf, hand_out=min(self._replicas, len(self._executor.live_nodes)) > 1)

    def plans(self, wanted: Sequence[int], further: Sequence[Step | Keep], keeps: Sequence[Persisted]) -> Mapping[int, Plan]:
        """Return plans near the nodes that have the partition; where copies were lost, it is handed out once more."""
        begin = FromShelf(self._shelf)
        plain = Pipeline([begin, *further])
        copying = Pipeline([begin, self.step, *further])
        found: dict[int, Plan] = {}
        live = set(self._executor.live_nodes)
        for number in wanted:
            places = self._places.get(number, set()) & live
            if not places:
                continue
            # copies were lost, and there are nodes that were not asked yet
            if len(places) < self._replicas and live - self._asked[number]:
                found[number] = Plan(copying, None, places, (self, *keeps), self)
            else:
                found[number] = Plan(plain, None, places, keeps, self)
        return found

    def note(self, number: int, node: int | None, there: bool, part: list[Any] | None) -> None:
        if node is None:
            return
        # asked once: a node without room would be asked at each use
        self._asked.setdefault(number, set()).add(node)
        if there:
            self._places.setdefault(number, set()).add(node)
        if part is not None:
            self._copy(number, part)

    def _copy(self, number: int, part: list[Any]) -> None:
        live = set(self._executor.live_nodes)
        asked, places = self._asked[number], self._places.get(number, set())
        # by what they were asked to keep, so that copies on their way count
        burden = Counter(node for places in self._asked.values() for node in places)
        others = sorted(live - asked, key=lambda node: (burden[node], node))  # those that keep the fewest partitions first
        # there may be more than `replicas` of a collection that was to have more
        for node in others[: max(0, self._replicas - len(places & live))]:
            asked.add(node)
            self._copies.append((number, self._executor.submit_near([node], self._put, number, part)))

    def miss(self, number: int, node: int) -> None:
        """Note that a node does not have a partition: it was never put there, or had to make room; or the task ran there
        because all nodes that had it are lost.
        """
        places = self._places.get(number, set())
        # it had to make room there; elsewhere it may still be
        if node in places:
            places.discard(node)
            self._asked[number].discard(node)
        else:
            # the scheduler sent the task to another node, so none of these is there
            places.clear()

    def settle(self) -> None:
        """Wait for the copies. A node that is lost meanwhile has no copy, which is no error."""
        # taken out first: an error must not leave the others to be waited for twice
        copies, self._copies = self._copies, []
        for number, future in copies:
            try:
                node, there = future.result()
            except BrokenExecutor:  # of a lost node
                continue
            if there:
                self._places.setdefault(number, set()).add(node)

    def copy_to(self, replicas: int) -> None:
        """Set the number of copies. Missing ones are made when the partition is used next; there may be more than
        `replicas`.
        """
        self._replicas = replicas

    def close(self) -> None:
        self._end()


class Put:
    """Task that keeps a copy on its node; it returns the node, and whether there was room."""

    def __init__(self, shelf: int) -> None:
        self.shelf = shelf

    def __call__(self, number: int, part: list[Any]) -> tuple[int, bool]:
        shelves = SHELVES.get()
        return shelves.node, shelves.put(self.shelf, number, part, size_of(part))
