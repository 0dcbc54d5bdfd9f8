"""Detection of workers that keep the others waiting: in a group operation, or on the way to the next round."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from nn import arguments
from rpc import Machine, Tick
from rpc.elastic import Warn, Worker
from rpc.support.logs import SUBMIT_LOGGER, get_logger

WARN_SECONDS = 60.0
STOP_SECONDS = 120.0


@dataclass(frozen=True)
class Submitted:
    """Event: a worker has put a variable into an exchange.

    Args:
        rank: of the worker.
        variable: name of the variable.
    """

    rank: int
    variable: str


@dataclass(frozen=True)
class Completed:
    """Event: the exchange of a variable has ended, whichever workers had told of it."""

    variable: str


@dataclass(frozen=True)
class Stop:
    """Action: the exchange will never end; the job is to act on the `ranks` that have not put a variable that others await."""

    message: str
    ranks: tuple[int, ...]


class StallInspector(Machine):
    """Machine that knows which workers have put which variables. `deadline` is when to send the next Tick, or None.

    A variable that some but not all workers have put is told of once, and stops the job later.

    Args:
        size: number of workers.
        warn_after: seconds until such a variable is told of.
        stop_after: seconds until it stops the job; 0 for never.

    Raises: ValueError where `stop_after` is neither 0 nor at least `warn_after`.
    """

    def __init__(self, size: int, warn_after: float = WARN_SECONDS, stop_after: float = STOP_SECONDS) -> None:
        super().__init__()
        self._size = arguments.integer(self, "size", size, minimum=1)
        self._warn_after = arguments.number(self, "warn_after", warn_after, 0, open_low=True)
        # 0 means never: no moment is that late
        self._stop_after = arguments.number(self, "stop_after", stop_after, 0) or math.inf
        if self._stop_after < self._warn_after:
            raise ValueError(
                f"StallInspector 'stop_after' must be 0 or at least {warn_after:g}, 'warn_after', got {stop_after}"
            )
        self._put: dict[str, set[int]] = {}
        self._since: dict[str, float] = {}
        self._warned: set[str] = set()
        self._stopped = False

    @property
    def deadline(self) -> float | None:
        if self._stopped:
            return None
        limits = (
            # a variable is told of once, then only its end counts
            since + (self._stop_after if name in self._warned else self._warn_after)
            for name, since in self._since.items()
        )
        return min((moment for moment in limits if moment < math.inf), default=None)

    def _decide(self, event: Any, now: float) -> list[Any]:
        if isinstance(event, Submitted):
            self._on_submitted(event, now)
        elif isinstance(event, Completed):
            self._forget(event.variable)
        elif not isinstance(event, Tick):
            raise self._impossible(event)
        return [] if self._stopped else self._look(now)

    def _on_submitted(self, event: Submitted, now: float) -> None:
        if not 0 <= event.rank < self._size:
            raise self._impossible(event)
        ranks = self._put.setdefault(event.variable, set())
        self._since.setdefault(event.variable, now)
        ranks.add(event.rank)
        # all have put it: nothing can be late
        if len(ranks) == self._size:
            self._forget(event.variable)

    def _forget(self, variable: str) -> None:
        self._put.pop(variable, None)
        self._since.pop(variable, None)
        self._warned.discard(variable)

    def _look(self, now: float) -> list[Any]:
        late = [name for name, since in self._since.items() if now >= since + self._warn_after]
        hopeless = [name for name in late if now >= self._since[name] + self._stop_after]
        if hopeless:
            self._stopped = True
            # those that have not put any one of the hopeless variables
            ranks = tuple(rank for rank in range(self._size) if any(rank not in self._put[name] for name in hopeless))
            return [Stop(self._describe(late, self._stop_after), ranks)]
        if self._warned.issuperset(late):
            return []
        self._warned.update(late)
        return [Warn(self._describe(late, self._warn_after))]

    def _describe(self, late: list[str], limit: float) -> str:
        lines = []
        for rank in range(self._size):
            missing = [name for name in late if rank not in self._put[name]]
            if missing:
                lines.append(f"{rank}: [{', '.join(missing)}]")
        return (
            f"For more than {limit:g} s some workers have waited for variables that others have not put: those do something "
            "else, or nothing. Missing ranks:\n" + "\n".join(lines)
        )


NEXT_ROUND = "the next round"
_log = get_logger(SUBMIT_LOGGER)


class StragglerDetector:
    """A `StallInspector` for each round; `warn_after` and `stop_after` are its limits."""

    def __init__(self, warn_after: float = WARN_SECONDS, stop_after: float = STOP_SECONDS) -> None:
        # made for its checks alone, which refuse wrong limits now
        StallInspector(1, warn_after, stop_after)
        self._limits = warn_after, stop_after
        self._attempt = -1
        self._members: tuple[Worker, ...] = ()
        self._inspector: StallInspector | None = None
        self._found: list[tuple[Worker, str]] = []

    def begin(self, attempt: int, members: tuple[Worker, ...]) -> None:
        self._attempt, self._members = attempt, members
        self._inspector = StallInspector(len(members), *self._limits)

    def end(self) -> None:
        self._inspector = None

    def waits(self, attempt: int, worker: Worker, operation: str) -> None:
        # late messages of an earlier round are dropped
        if attempt == self._attempt and worker in self._members:
            self._feed(Submitted(self._members.index(worker), operation))

    def got(self, attempt: int, operation: str) -> None:
        if attempt == self._attempt:
            self._feed(Completed(operation))

    def asks_for_next(self, attempt: int, worker: Worker) -> None:
        """Take note that a worker asks for the next round, or will not be in it."""
        # the way to the next round is one more operation that all must come to
        self.waits(attempt, worker, NEXT_ROUND)

    def look(self, now: float) -> list[tuple[Worker, str]]:
        """Return the workers that have kept the others waiting for too long, each with a message that names the operation."""
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
