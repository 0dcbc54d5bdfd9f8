"""Base of all state machines: `handle(event, now) -> actions`, without socket, thread or clock inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Any

from .errors import InvalidTransition
from .support.immutable import Immutable

_REMEMBERED = 20


class Tick(Immutable):
    """Event that every machine with a `deadline` takes: time has passed."""


class Machine(ABC):
    """Machine that decides without acting. Events and actions are small frozen dataclasses."""

    def __init__(self) -> None:
        self._history: deque[tuple[float, Any]] = deque(maxlen=_REMEMBERED)

    def handle(self, event: Any, now: float) -> list[Any]:
        """Take note of `event` at `now` (monotonic seconds); return the actions, in order.

        Raises: InvalidTransition for an event that cannot happen in this state, with the last events attached.
        """
        # before deciding: an impossible event is among the last ones of its error
        self._history.append((now, event))
        return self._decide(event, now)

    @abstractmethod
    def _decide(self, event: Any, now: float) -> list[Any]:
        """Decide on an event."""

    def _impossible(self, event: Any) -> InvalidTransition:
        trail = "; ".join(f"{when:.3f} {past}" for when, past in self._history)
        return InvalidTransition(f"{type(self).__name__} cannot take {event} now. Last events: {trail}")
