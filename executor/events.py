"""What the scheduler hears, and what it has the dispatcher do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Shape(NamedTuple):
    """What matters of a task to the scheduler: bytes of its arguments, a number for its function, retries after a loss (None:
    as many as all have)."""

    size: int
    kind: int = 0
    retries: int | None = None


@dataclass(frozen=True)
class Submitted:
    """New tasks, the shape of each, and for some the nodes that have what they need."""

    tasks: tuple[int, ...]
    shapes: tuple[Shape, ...]
    near: Mapping[int, frozenset[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Finished:
    """A node has done these tasks, which took it so many seconds each; those in `again` are to be tried once more."""

    node: int
    tasks: tuple[int, ...]
    seconds: tuple[float, ...]
    again: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Recalled:
    """Somebody wants to cancel these tasks, which no node is known to have begun."""

    tasks: tuple[int, ...]


@dataclass(frozen=True)
class GaveBack:
    """A node answers a TakeBack: it has not begun these tasks, and will not. Those in `cancelled` nobody wants any more."""

    node: int
    tasks: tuple[int, ...]
    cancelled: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Withdrawn:
    """These tasks, just dealt to `node`, were cancelled and are not sent."""

    node: int
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class Cut:
    """Nothing can be said to a node any more; what became of it will be told by Lost."""

    node: int


@dataclass(frozen=True)
class Lost:
    """A node is gone; with `returns` it will be there again.

    `last` is the task that it began last, -1 for none: those that it held behind that one have not begun. None: nobody knows,
    so that any of them may have.
    """

    node: int
    reason: str
    last: int | None = None
    returns: bool = False


@dataclass(frozen=True)
class Returned:
    """A node that was lost is there again, and holds nothing."""

    node: int


@dataclass(frozen=True)
class Cleared:
    """All tasks that no node has begun are cancelled, from now on."""


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True)
class Send:
    """Send tasks to a node."""

    node: int
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class Begin:
    """A node is at this task: it has begun it, or does so as soon as it hears of it."""

    task: int


@dataclass(frozen=True)
class Wait:
    """These tasks, which have not begun, lie at no node any more."""

    tasks: tuple[int, ...]


@dataclass(frozen=True)
class TakeBack:
    """Ask a node for those of these tasks that it has not begun."""

    node: int
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class Fail:
    """Give tasks up, because of `node` (None: there is none left)."""

    tasks: tuple[int, ...]
    node: int | None
    reason: str


@dataclass(frozen=True)
class Cancel:
    """Tasks that have not begun and never will."""

    tasks: tuple[int, ...]
