"""The driver's eye on workers that keep the others waiting: in a group operation, or on the way to the next round."""

from __future__ import annotations

import time

from rpc.elastic import Worker
from rpc.logs import SUBMIT_LOGGER, get_logger

from .stall import STOP_SECONDS, WARN_SECONDS, Completed, StallInspector, Stop, Submitted, Tick, Warn

NEXT_ROUND = "the next round"
_log = get_logger(SUBMIT_LOGGER)


class Watching:
    """A `StallInspector` for each round; `warn_after` and `stop_after` are its limits."""

    def __init__(self, warn_after: float = WARN_SECONDS, stop_after: float = STOP_SECONDS) -> None:
        StallInspector(1, warn_after, stop_after)  # refuses wrong limits now
        self._limits = warn_after, stop_after
        self._attempt = -1
        self._members: tuple[Worker, ...] = ()
        self._inspector: StallInspector | None = None
        self._found: list[tuple[Worker, str]] = []

    def begin(self, attempt: int, members: tuple[Worker, ...]) -> None:
        """A round of these workers begins."""
        self._attempt, self._members = attempt, members
        self._inspector = StallInspector(len(members), *self._limits)

    def end(self) -> None:
        """The round is over."""
        self._inspector = None

    def waits(self, attempt: int, worker: Worker, operation: str) -> None:
        """A worker waits for others in a group operation."""
        if attempt == self._attempt and worker in self._members:
            self._feed(Submitted(self._members.index(worker), operation))

    def got(self, attempt: int, operation: str) -> None:
        """A group operation has ended."""
        if attempt == self._attempt:
            self._feed(Completed(operation))

    def asks_for_next(self, attempt: int, worker: Worker) -> None:
        """A worker asks for the next round, or will not be in it."""
        self.waits(attempt, worker, NEXT_ROUND)

    def look(self, now: float) -> list[tuple[Worker, str]]:
        """The workers that have kept the others waiting for too long, and with what."""
        self._feed(Tick(), now)
        found, self._found = self._found, []
        return found

    def _feed(self, event: object, now: float | None = None) -> None:
        if self._inspector is None:
            return
        for action in self._inspector.handle(event, time.monotonic() if now is None else now):
            if isinstance(action, Warn):
                _log.warning("%s", action.message)
            elif isinstance(action, Stop):
                self._found += [(self._members[rank], action.message) for rank in action.ranks]
