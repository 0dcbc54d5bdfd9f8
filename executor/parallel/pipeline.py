"""What one task does: steps in a row over the elements of one partition, some of which keep what they have got."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from ..shelves import SHELVES, Absent
from .sizes import size_of

Step: TypeAlias = Callable[[int, Any], Iterable[Any]]
"""(partition number, elements) -> elements."""


@dataclass(frozen=True)
class Keep:
    """Keep the elements on a shelf of this process, if there is one, and hand them to the process of the Context."""

    shelf: int | None
    hand_out: bool

    def put(self, number: int, elements: list[Any]) -> bool:
        """Whether they are on the shelf now."""
        return self.shelf is not None and SHELVES.get().put(self.shelf, number, elements, size_of(elements))


@dataclass(frozen=True)
class FromShelf:
    """The elements that an earlier task has kept. Raises: Absent."""

    shelf: int

    def __call__(self, number: int, _item: Any) -> list[Any]:
        """See the class."""
        found: list[Any] = SHELVES.get().get(self.shelf, number)
        return found


class Outcome(NamedTuple):
    """What a task sends back: the node that it ran on, if that keeps anything; the elements after all steps, None for the same
    as were handed out last; and for each `Keep` whether they are kept there, and the elements if they are handed out."""

    node: int | None
    elements: list[Any] | None
    kept: list[bool]
    handed: list[list[Any] | None]

    @property
    def result(self) -> list[Any]:
        """The elements after all steps."""
        return next(part for part in reversed(self.handed) if part is not None) if self.elements is None else self.elements


class Missed(NamedTuple):
    """What a task began with is not on `node` any more."""

    node: int


class Pipeline:
    """The steps of a task; the first opens its input. Returns an `Outcome` or `Missed`, as a plain tuple that may travel."""

    def __init__(self, steps: Sequence[Step | Keep]) -> None:
        self.steps = list(steps)

    def __call__(self, number: int, item: Any) -> tuple[Any, ...]:
        """Make partition `number` from its input."""
        shelves = SHELVES.get(None)
        node = None if shelves is None else shelves.node
        kept: list[bool] = []
        handed: list[list[Any] | None] = []
        try:
            for step in self.steps:
                if isinstance(step, Keep):
                    item = list(item)
                    kept.append(step.put(number, item))
                    handed.append(item if step.hand_out else None)
                else:
                    item = step(number, item)
        except Absent:
            return (node,)
        last = self.steps[-1]
        return (node, None if isinstance(last, Keep) and last.hand_out else list(item), kept, handed)


def opened(result: Any) -> Outcome | Missed:
    """What a pipeline returned."""
    return Missed(*result) if len(result) == 1 else Outcome(*result)
