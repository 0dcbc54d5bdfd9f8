"""Lineage of partitions: made from inputs, opened by a step, through further steps; missing ones are computed again.

Steps in a row are executed by one task per partition, which begins with the last partition on its way that is kept, where that
is. Between wide operations (see `shuffle`) the data passes through the process of the Context.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .persist import Persisted, Plan
from .pipeline import Keep, Missed, Outcome, Pipeline, Step, count


class Runner(ABC):
    """Runner of tasks."""

    @abstractmethod
    def run(self, plans: Mapping[int, Plan], what: str, take: Callable[[int, Outcome | Missed], None]) -> None:
        """Run the task of each partition.

        Args:
            plans: by number of the partition.
            what: name of the stage, for people.
            take: called with the number and the outcome of each.
        """

    @abstractmethod
    def keep(self, replicas: int) -> Persisted:
        """Return the place where the partitions of one more collection are to be kept, in `replicas` copies."""


class Lineage(ABC):
    """Origin of a collection's partitions. `count` is their number, `what` a name for people."""

    def __init__(self, count: int, what: str) -> None:
        self.count, self.what = count, what
        self.kept: Persisted | None = None  # partitions that were computed, if they are to be kept

    @abstractmethod
    def inputs(self, runner: Runner, wanted: Sequence[int]) -> Mapping[int, Any]:
        """Return the inputs of the tasks for the partitions `wanted`; `runner` computes other collections that they need."""

    @abstractmethod
    def steps(self) -> list[Step]:
        """Return the steps of the tasks, of which the first opens the input."""

    def before(self, runner: Runner, wanted: Sequence[int]) -> tuple[Lineage, Step] | None:
        """Find the collection from which one step makes the partitions of `wanted`, number by number; None if there is none."""
        return None

    def compute(self, runner: Runner, wanted: Sequence[int], further: Sequence[Step] = ()) -> dict[int, list[Any]]:
        """Compute the elements of partitions; kept partitions are not computed again while they are there.

        Args:
            runner: runs the tasks.
            wanted: numbers of the partitions.
            further: steps behind those of the collection.
        """
        results: dict[int, list[Any]] = {}
        if self.kept is not None and not further:
            results.update(self.kept.at_hand(wanted))
        # more than one round only where kept partitions were not found at their nodes any more
        while left := [number for number in wanted if number not in results]:
            plans = self._plans(runner, left, further)
            _run(runner, plans, self.what, results)
        return results

    def _plans(self, runner: Runner, wanted: Sequence[int], further: Sequence[Step]) -> dict[int, Plan]:
        """Plan each partition from where it is kept last on its way here, else from the inputs of its lineage."""
        plans: dict[int, Plan] = {}
        left, steps = list(wanted), list[Step | Keep](further)
        keeps: tuple[Persisted, ...] = ()
        lineage: Lineage = self
        while True:
            if lineage.kept is not None:
                plans.update(lineage.kept.plans(left, steps, keeps))
                left = [number for number in left if number not in plans]
                steps, keeps = [lineage.kept.step, *steps], (lineage.kept, *keeps)
            if not left:  # collections further back need not be looked at, nor their inputs computed
                return plans
            before = lineage.before(runner, left)
            if before is None:
                break
            lineage, step = before
            steps = [step, *steps]
        pipeline = Pipeline([*lineage.steps(), *steps])
        for number, item in lineage.inputs(runner, left).items():
            plans[number] = Plan(pipeline, item, (), keeps)
        return plans


def _run(runner: Runner, plans: Mapping[int, Plan], what: str, results: dict[int, list[Any]]) -> None:
    """Run plans; partitions that were not where they should be are missing in `results`."""

    def take(number: int, came: Outcome | Missed) -> None:
        plan = plans[number]
        if isinstance(came, Missed):
            # what is gone there is planned from further back in the next round
            if plan.begin is not None:
                plan.begin.miss(number, came.node)
            return
        for kept, there, part in zip(plan.keeps, came.kept, came.handed, strict=True):
            kept.note(number, came.node, there, part)
        results[number] = came.result

    try:
        runner.run(plans, what, take)
    finally:
        # each once, in this order; also after an error, as copies are on their way then, too
        for kept in {id(kept): kept for plan in plans.values() for kept in plan.keeps}.values():
            kept.settle()


class Source(Lineage):
    """Lineage of inputs that are there already; `open_step` turns one into elements."""

    def __init__(self, items: Sequence[Any], open_step: Step, what: str) -> None:
        super().__init__(len(items), what)
        self._items, self._open = items, open_step

    def inputs(self, runner: Runner, wanted: Sequence[int]) -> Mapping[int, Any]:
        return {number: self._items[number] for number in wanted}

    def steps(self) -> list[Step]:
        return [self._open]


class Narrow(Lineage):
    """Lineage of partitions that each come from the same one of `parent`, by one more step."""

    def __init__(self, parent: Lineage, step: Step, what: str) -> None:
        super().__init__(parent.count, what)
        self._parent, self._step = parent, step

    def before(self, runner: Runner, wanted: Sequence[int]) -> tuple[Lineage, Step]:
        return self._parent, self._step

    def inputs(self, runner: Runner, wanted: Sequence[int]) -> Mapping[int, Any]:
        return self._parent.inputs(runner, wanted)

    def steps(self) -> list[Step]:
        return [*self._parent.steps(), self._step]


class Indexed(Lineage):
    """Elements with their place in the whole collection, for which those of all partitions before must be counted.

    A parent that is kept is only counted. Another one would be computed twice, so its elements pass through this process.
    """

    def __init__(self, parent: Lineage) -> None:
        super().__init__(parent.count, "zip_with_index")
        self._parent = parent

    def before(self, runner: Runner, wanted: Sequence[int]) -> tuple[Lineage, Step] | None:
        # counting it would compute it once more
        if self._parent.kept is None:
            return None
        # only those before the last that is wanted
        counted = self._parent.compute(runner, range(max(wanted, default=0)), [count])
        starts = itertools.accumulate((counted[number][0] for number in range(len(counted))), initial=0)
        return self._parent, Numbered(list(starts))

    def inputs(self, runner: Runner, wanted: Sequence[int]) -> Mapping[int, Any]:
        """Return (place of the first element, elements) for each partition."""
        before = self._parent.compute(runner, range(max(wanted, default=-1) + 1))
        starts = list(itertools.accumulate((len(before[number]) for number in range(len(before))), initial=0))
        return {number: (starts[number], before[number]) for number in wanted}

    def steps(self) -> list[Step]:
        return [_enumerated]


@dataclass(frozen=True)
class Numbered:
    """Step that makes (element, its place), for partitions that begin at the places `starts`."""

    starts: list[int]

    def __call__(self, number: int, items: Iterable[Any]) -> Iterable[Any]:
        return ((element, place) for place, element in enumerate(items, self.starts[number]))


def _enumerated(_number: int, item: tuple[int, list[Any]]) -> Iterable[Any]:
    start, elements = item
    return ((element, place) for place, element in enumerate(elements, start))
