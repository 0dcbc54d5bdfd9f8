"""How partitions come to be: from inputs, opened by a step, through further steps; what is missing is computed again.

A *step* is a callable (partition number, iterable) -> iterable; steps in a row are executed by one task per partition.
Between wide operations (see `shuffle`) the data passes through the process of the Context.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

Step: TypeAlias = Callable[[int, Any], Iterable[Any]]


class Pipeline:
    """Opens the input of a partition and applies steps; the result is a list."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = list(steps)

    def __call__(self, number: int, item: Any) -> list[Any]:
        """The elements of partition `number`, made from its input."""
        for step in self.steps:
            item = step(number, item)
        return list(item)


class Runner(ABC):
    """Executes pipelines."""

    @abstractmethod
    def run(self, pipeline: Pipeline, inputs: Mapping[int, Any], what: str) -> dict[int, list[Any]]:
        """`pipeline(number, input)` for every entry of `inputs`; `what` names the stage for people."""


class Lineage(ABC):
    """Where the partitions of a collection come from. `count` is their number, `what` a name for people."""

    def __init__(self, count: int, what: str) -> None:
        self.count, self.what = count, what
        self.kept: dict[int, list[Any]] | None = None  # partitions that were computed, if they are to be kept

    @abstractmethod
    def inputs(self, runner: Runner, wanted: Sequence[int]) -> Mapping[int, Any]:
        """What the tasks for the partitions `wanted` begin with."""

    @abstractmethod
    def steps(self) -> list[Step]:
        """What the tasks do with it."""

    def compute(self, runner: Runner, wanted: Sequence[int], further: Sequence[Step] = ()) -> dict[int, list[Any]]:
        """The elements of partitions after `further` steps; kept partitions are not computed again."""
        if self.kept is not None:
            self._fill(runner, wanted, self.kept)
            if not further:
                return {number: self.kept[number] for number in wanted}
            return runner.run(Pipeline(further), {number: self.kept[number] for number in wanted}, self.what)
        return runner.run(Pipeline([*self.steps(), *further]), self.inputs(runner, wanted), self.what)

    def _fill(self, runner: Runner, wanted: Sequence[int], kept: dict[int, list[Any]]) -> None:
        missing = [number for number in wanted if number not in kept]
        if missing:
            kept.update(runner.run(Pipeline(self.steps()), self.inputs(runner, missing), self.what))


class Source(Lineage):
    """Inputs that are there already; `open_step` turns one into elements."""

    def __init__(self, items: Sequence[Any], open_step: Step, what: str) -> None:
        super().__init__(len(items), what)
        self._items, self._open = items, open_step

    def inputs(self, runner: Runner, wanted: Sequence[int]) -> Mapping[int, Any]:
        """The items."""
        return {number: self._items[number] for number in wanted}

    def steps(self) -> list[Step]:
        """Only how to open them."""
        return [self._open]


class Narrow(Lineage):
    """Each partition comes from the same one of `parent`, by one more step."""

    def __init__(self, parent: Lineage, step: Step, what: str) -> None:
        super().__init__(parent.count, what)
        self._parent, self._step = parent, step

    def inputs(self, runner: Runner, wanted: Sequence[int]) -> Mapping[int, Any]:
        """Those of the parent, or its kept partitions."""
        if self._parent.kept is not None:
            return self._parent.compute(runner, wanted)
        return self._parent.inputs(runner, wanted)

    def steps(self) -> list[Step]:
        """Those of the parent, unless it is kept, and one more."""
        return [self._step] if self._parent.kept is not None else [*self._parent.steps(), self._step]


class Indexed(Lineage):
    """Elements with their place in the whole collection, for which all partitions before must be computed."""

    def __init__(self, parent: Lineage) -> None:
        super().__init__(parent.count, "zip_with_index")
        self._parent = parent

    def inputs(self, runner: Runner, wanted: Sequence[int]) -> Mapping[int, Any]:
        """(place of the first element, elements)."""
        before = self._parent.compute(runner, range(max(wanted, default=-1) + 1))
        starts = [0]
        for number in range(len(before)):
            starts.append(starts[-1] + len(before[number]))
        return {number: (starts[number], before[number]) for number in wanted}

    def steps(self) -> list[Step]:
        """Number the elements."""
        return [_enumerated]


def _enumerated(_number: int, item: tuple[int, list[Any]]) -> Iterable[Any]:
    start, elements = item
    return ((element, start + place) for place, element in enumerate(elements))
