"""Times at which clients are there: intervals of each client, given by a program or in a CSV file."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nn import arguments

from ..simulation.compute import csv_lines, number_in, time_of

__all__ = ["Availability", "intervals_of"]

Intervals = Sequence[Sequence[float]]


class Availability:
    """Times at which clients are there, as intervals that do not touch each other.

    Args:
        intervals: by client, its intervals of seconds; None: all are there at all times.
        period: seconds after which they begin anew, or None.

    Attributes:
        known: whether there are any intervals.
        last: the largest client with an interval, -1 where there is none.

    Raises: ValueError naming the interval that is none.
    """

    def __init__(self, intervals: Mapping[int, list[tuple[float, float]]] | None, period: float | None) -> None:
        self._period, self.known = period, intervals is not None
        found: list[tuple[int, float, float]] = []
        # by client, so that the hash of all times does not depend on the order of a dict
        for client, given in sorted((intervals or {}).items()):
            found += [(client, *each) for each in _joined(client, given, period)]
        self._owners = np.array([client for client, *_ in found], np.int64)
        self._starts, self._ends = (np.array([each[place] for each in found], np.float64) for place in (1, 2))
        self.last = max((client for client, *_ in found), default=-1)

    @property
    def digest(self) -> str:
        """Hash of all intervals."""
        content = (
            # little endian on all machines, which compare the hash
            self._owners.astype("<i8").tobytes() + self._starts.astype("<f8").tobytes() + self._ends.astype("<f8").tobytes()
        )
        return f"times {hashlib.sha256(content).hexdigest()[:16]}"

    def _cycles(self, now: float) -> list[float]:
        """Return the beginnings of the periods of which an interval may hold `now`, or be the next one."""
        if self._period is None:
            return [0.0]
        number = math.floor(now / self._period)
        # one more on each side: an interval may go beyond its period, and the quotient may be rounded
        return [each * self._period for each in range(max(number - 1, 0), number + 3)]

    def there(self, clients: int, now: float) -> NDArray[np.int64]:
        """Return the clients that are there.

        Args:
            clients: number of clients.
            now: seconds of the clock.
        """
        if not self.known:
            return np.arange(clients)
        held = [self._owners[(begin + self._starts <= now) & (now < begin + self._ends)] for begin in self._cycles(now)]
        return np.unique(np.concatenate(held))  # each once, though the intervals of two periods may hold the moment

    def leaves(self, client: int, now: float) -> float:
        """Return when a client that is there leaves; infinite where it never does.

        Args:
            client: number of the client.
            now: seconds of the clock.
        """
        if not self.known:
            return math.inf
        own = self._owners == client
        starts, ends = self._starts[own], self._ends[own]
        held = [begin + ends[(begin + starts <= now) & (now < begin + ends)] for begin in self._cycles(now)]
        return float(max(np.concatenate(held), default=now))

    def next(self, now: float, wanted: NDArray[np.bool_]) -> float:
        """Return the next moment after `now` at which a client comes; infinite where none comes any more.

        Args:
            now: seconds of the clock.
            wanted: for each client whether it counts.
        """
        starts = self._starts[wanted[self._owners]]
        found = [begin + starts for begin in self._cycles(now)] if self.known else []
        later = np.concatenate(found) if found else np.empty(0)
        return float(min(later[later > now], default=math.inf))


def _joined(client: int, given: Sequence[tuple[float, float]], period: float | None) -> list[tuple[float, float]]:
    """Return the intervals of a client in order, those that overlap or touch as one."""
    found: list[tuple[float, float]] = []
    for start, end in sorted(given):
        if not 0 <= start < end or (period is not None and end > period):
            within = "" if period is None else f" within the period of {period:g} s"
            raise ValueError(
                f"ClientClock 'available' must have times from a moment to a later one{within}, got {start:g} to {end:g} for "
                f"client {client}"
            )
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    if period is not None and found and found[0][0] == 0 and found[-1][1] == period:
        # the client stays over the end of the period
        found[-1] = found[-1][0], math.inf if found[-1][0] == 0 else period + found[0][1]
    return found


def intervals_of(given: Any) -> dict[int, list[tuple[float, float]]]:
    """Return the intervals that a file or a program gives, by client.

    Args:
        given: path of a CSV file with lines `client,from,to`, or a dict from clients to lists of `(from, to)`.

    Raises: TypeError or ValueError naming the argument, the client or the line.
    """
    if isinstance(given, str):
        return _read(given)
    if not isinstance(given, Mapping):
        raise TypeError(
            f"ClientClock 'available' must be None, a CSV file with lines client,from,to, or a dict from clients to lists of "
            f"(from, to), got {arguments.short(given)}"
        )
    found = {}
    for client, times in given.items():
        arguments.integer("ClientClock", "available", client, minimum=0)
        for each in times if isinstance(times, (list, tuple)) else [times]:
            if not isinstance(each, (list, tuple)) or len(each) != 2:
                raise TypeError(
                    f"ClientClock 'available' must have a list of (from, to) for client {client}, got {arguments.short(times)}"
                )
        where = f"ClientClock 'available' of client {client}"
        found[int(client)] = [(time_of(where, start), time_of(where, end)) for start, end in times]
    return found


def _read(file: str) -> dict[int, list[tuple[float, float]]]:
    found: dict[int, list[tuple[float, float]]] = {}
    for number, cells in csv_lines("ClientClock 'available'", file):
        if number == 1 and cells == ["client", "from", "to"]:
            continue
        where = f"ClientClock 'available', line {number} of {file!r},"
        if len(cells) != 3 or not cells[0].isdecimal():
            raise ValueError(f"{where} must be client,from,to, got {','.join(cells)!r}")
        start, end = (time_of(where, number_in(cell)) for cell in cells[1:])
        found.setdefault(int(cells[0]), []).append((start, end))
    if not found:
        raise ValueError(f"ClientClock 'available' must be a file with times of clients, got {file!r}, which has none")
    return found
