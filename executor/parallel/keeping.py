"""The partitions of a persisted collection, and plans for tasks that begin with them. Here: those in the Context's process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from . import steps
from .pipeline import Keep, Pipeline, Step


class Plan(NamedTuple):
    """How the task of one partition is to run: its pipeline and input, and the nodes that have what it needs; `keeps` are those
    that the `Keep`s in the pipeline belong to, `begin` is the one whose partition the task begins with."""

    pipeline: Pipeline
    item: Any
    near: Collection[int]
    keeps: Sequence[Kept]
    begin: Kept | None = None


class Kept(ABC):
    """The partitions of one collection that are kept, and what keeps them."""

    @property
    @abstractmethod
    def step(self) -> Keep:
        """What a task does with a partition that it has just made."""

    @abstractmethod
    def plans(self, wanted: Sequence[int], further: Sequence[Step | Keep], keeps: Sequence[Kept]) -> Mapping[int, Plan]:
        """Plans that begin with a kept partition, for those of `wanted` that are kept."""

    @abstractmethod
    def note(self, number: int, node: int | None, there: bool, part: list[Any] | None) -> None:
        """A task on `node` has made a partition, which is kept `there` or not, and handed it out or not."""

    @abstractmethod
    def at_hand(self, wanted: Sequence[int]) -> Mapping[int, list[Any]]:
        """The partitions that are in this process."""

    @abstractmethod
    def miss(self, number: int, node: int) -> None:
        """A partition is not on `node` any more."""

    @abstractmethod
    def settle(self) -> None:
        """Wait until copies that are on their way have arrived."""

    @abstractmethod
    def copy_to(self, replicas: int) -> None:
        """Have so many nodes keep every partition from now on."""

    @abstractmethod
    def close(self) -> None:
        """Free the memory."""


class KeptHere(Kept):
    """In this process; `replicas` have no meaning."""

    def __init__(self) -> None:
        self._parts: dict[int, list[Any]] = {}

    @property
    def step(self) -> Keep:
        """Hand it out."""
        return Keep(None, hand_out=True)

    def plans(self, wanted: Sequence[int], further: Sequence[Step | Keep], keeps: Sequence[Kept]) -> Mapping[int, Plan]:
        """The partition is the input."""
        pipeline = Pipeline([steps.elements, *further])
        return {n: Plan(pipeline, self._parts[n], (), keeps) for n in wanted if n in self._parts}

    def note(self, number: int, node: int | None, there: bool, part: list[Any] | None) -> None:
        """Keep it."""
        if part is not None:
            self._parts[number] = part

    def at_hand(self, wanted: Sequence[int]) -> Mapping[int, list[Any]]:
        """All that are kept."""
        return {number: self._parts[number] for number in wanted if number in self._parts}

    def miss(self, number: int, node: int) -> None:
        """Cannot be."""

    def settle(self) -> None:
        """Nothing is on its way."""

    def copy_to(self, replicas: int) -> None:
        """There is one process here."""

    def close(self) -> None:
        """Forget them."""
        self._parts.clear()
