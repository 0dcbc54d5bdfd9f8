"""What the scheduler hears, and what it has the dispatcher do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Submitted:
    """New tasks, the bytes of the arguments of each, and for some the nodes that have what they need."""

    tasks: tuple[int, ...]
    sizes: tuple[int, ...]
    near: Mapping[int, frozenset[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Finished:
    """A node has done these tasks, which took it `seconds` in all."""

    node: int
    tasks: tuple[int, ...]
    seconds: float


@dataclass(frozen=True)
class GaveBack:
    """A node has given these tasks back, not begun."""

    node: int
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class Withdrawn:
    """These tasks, just dealt to `node`, were cancelled and are not sent."""

    node: int
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class Lost:
    """A node is gone."""

    node: int
    reason: str


@dataclass(frozen=True)
class Cleared:
    """All tasks that no node holds were cancelled."""


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True)
class Send:
    """Send tasks to a node."""

    node: int
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class TakeBack:
    """Ask a node for up to `count` tasks that it has not begun."""

    node: int
    count: int


@dataclass(frozen=True)
class Fail:
    """Give tasks up, because of `node` (None: there is none left)."""

    tasks: tuple[int, ...]
    node: int | None
    reason: str


@dataclass(frozen=True)
class Cancel:
    """Tasks that were waiting and never will run."""

    tasks: tuple[int, ...]
