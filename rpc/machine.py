"""The base of all state machines: `handle(event, now) -> actions`, without socket, thread or clock inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Any

from .errors import InvalidTransition
from .immutable import Immutable

_REMEMBERED = 20


class Tick(Immutable):
    """Time has passed: the event that every machine with a `deadline` takes."""


class Machine(ABC):
    """Decides without acting. Events and actions are small frozen dataclasses."""

    def __init__(self) -> None:
        self._history: deque[tuple[float, Any]] = deque(maxlen=_REMEMBERED)

    def handle(self, event: Any, now: float) -> list[Any]:
        """Take note of `event` at `now` (monotonic seconds); returns what to do, in order.

        Raises: InvalidTransition for an event that cannot happen in this state, with the last events attached.
        """
        self._history.append((now, event))
        return self._decide(event, now)

    @abstractmethod
    def _decide(self, event: Any, now: float) -> list[Any]:
        """The decision itself."""

    def _impossible(self, event: Any) -> InvalidTransition:
        trail = "; ".join(f"{when:.3f} {past}" for when, past in self._history)
        return InvalidTransition(f"{type(self).__name__} cannot take {event} now. Last events: {trail}")
