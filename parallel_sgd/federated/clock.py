"""Clock of clients: the seconds that each would need on a device of its own, and the times at which it is there.

    sample_time  5ms  200/s  lognormal 5ms 0.5  exponential 5ms 2ms  pareto 5ms 2.5   of a sample, or samples a second
    up, down     1Mbit/s     lognormal 1Mbit/s 0.8                   pareto 1Mbit/s 2

A law is drawn once for each client, keyed by the seed and the client, with the same bits on all machines; a list has a value
for each client. All that follows is a function of the seed and these values, never of the machine that computes.
"""

from __future__ import annotations

import csv
import hashlib
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from network.units import RATE, rate_of
from nn import arguments
from nn.arguments import Configurable
from nn.random import keyed

from ..simulation.compute import Constant, Law, LogNormal, Pareto, Trace, law_of, time_of

__all__ = ["ClientClock"]

Seconds = NDArray[np.float64]
Intervals = Sequence[Sequence[float]]
_RATE: Final = re.compile(RATE)
_A_SECOND: Final = re.compile(r"(\d{1,9}(?:\.\d{1,30})?)/s")
_MOST_LINES: Final = 10_000_000


class ClientClock(Configurable, configured=True):
    """Clock of clients: in a round a client needs its download, `epochs` passes over its samples, and its upload.

    Args:
        sample_time: seconds of a sample in training, forward and backward: a number, a text such as `5ms` or `200/s`, a law of
            them over the clients such as `lognormal 5ms 0.5`, or a list with one of the first two for each client.
        up: bytes a second of a client's uploads: a number, a text such as `1Mbit/s`, a law such as `lognormal 1Mbit/s 0.8`,
            or a list; None: uploads take no time.
        down: the same of its downloads.
        available: times at which clients are there: a CSV file with lines `client,from,to`, or a dict from clients to lists of
            `(from, to)`, in seconds of the clock or texts such as `5min`; a client that it does not name is never there.
            None: all are there at all times.
        period: seconds after which `available` begins anew, such as those of a day; None: it is over at its end.

    >>> clock = ClientClock("lognormal 5ms 0.5", up="1Mbit/s", available={0: [(0, 60)], 1: [(30, 90)]})
    >>> clock.times.there(2, 45.0).tolist(), clock.times.leaves(0, 45.0)
    ([0, 1], 60.0)
    """

    def __init__(
        self,
        sample_time: Any = 0.0,
        up: Any = None,
        down: Any = None,
        available: str | os.PathLike[str] | Mapping[int, Intervals] | None = None,
        period: Any = None,
    ) -> None:
        self.sample_time, self.up, self.down = (_plain(each) for each in (sample_time, up, down))
        self._laws = (
            _law("sample_time", self.sample_time, _time),
            None if up is None else _law("up", self.up, _rate),
            None if down is None else _law("down", self.down, _rate),
        )
        self.available = os.fspath(available) if isinstance(available, (str, os.PathLike)) else available
        self.period = None if period is None else time_of("ClientClock 'period'", period)
        if self.period == 0:
            raise ValueError("ClientClock 'period' must be a time above 0, got 0")
        if self.period is not None and available is None:
            raise ValueError("ClientClock 'period' goes with 'available', whose times it repeats")
        # read here and once: a file of this machine is not there where the job computes
        self.times = Availability(None if available is None else _intervals(self.available), self.period)

    def check(self, clients: int) -> None:
        """Check that lists and times fit a number of clients.

        Args:
            clients: the number.

        Raises: ValueError naming the argument.
        """
        for name, given in (("sample_time", self.sample_time), ("up", self.up), ("down", self.down)):
            if isinstance(given, list) and len(given) != clients:
                raise ValueError(f"ClientClock {name!r} must hold a value for each of {clients} clients, got {len(given)}")
        if (last := self.times.last) >= clients:
            raise ValueError(f"ClientClock 'available' must have clients from 0 to {clients - 1}, got {last}")

    def seconds(self, clients: int, seed: int, samples: NDArray[np.int64], up: int, down: int) -> Seconds:
        """Return the seconds of a round of each client.

        Args:
            clients: number of clients.
            seed: that of the job.
            samples: samples that each client trains on in a round, of all its passes together.
            up: bytes of an upload.
            down: bytes of a download.
        """
        times, ups, downs = (
            None if law is None else np.array([_drawn(law, name, client, seed) for client in range(clients)])
            for name, law in zip(("sample_time", "up", "down"), self._laws, strict=True)
        )
        found = np.zeros(clients) if times is None else samples * times
        found += 0.0 if downs is None else down / downs
        return np.asarray(found + (0.0 if ups is None else up / ups))

    @property
    def identity(self) -> str:
        """Text of all that times depend on, with a hash of those of availability, which may be in a file."""
        known = {name: value for name, value in self.get_config().items() if name != "available" and value is not None}
        told = [f"{name}={value!r}" for name, value in known.items()]
        return f"ClientClock({', '.join([*told, *([self.times.digest] if self.times.known else [])])})"

    def argument(self, name: str) -> Any:
        if name == "available" and isinstance(self.available, Mapping):
            return {int(client): [list(each) for each in times] for client, times in self.available.items()}
        return super().argument(name)


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
        for client, given in sorted((intervals or {}).items()):
            found += [(client, *each) for each in _joined(client, given, period)]
        self._owners = np.array([client for client, *_ in found], np.int64)
        self._starts, self._ends = (np.array([each[place] for each in found], np.float64) for place in (1, 2))
        self.last = max((client for client, *_ in found), default=-1)

    @property
    def digest(self) -> str:
        """Hash of all intervals."""
        content = (
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
        return np.unique(np.concatenate(held))

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


def _intervals(given: Any) -> dict[int, list[tuple[float, float]]]:
    """Return the intervals that a file or a program gives, by client."""
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
    try:
        with Path(file).open(encoding="utf-8", newline="") as opened:
            rows = [row for row, _ in zip(csv.reader(opened), range(_MOST_LINES), strict=False)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"ClientClock 'available' must be a CSV file that can be read, got {file!r}: {error}") from None
    found: dict[int, list[tuple[float, float]]] = {}
    for number, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or (number == 1 and cells == ["client", "from", "to"]):
            continue
        where = f"ClientClock 'available', line {number} of {file!r},"
        if len(cells) != 3 or not cells[0].isdecimal():
            raise ValueError(f"{where} must be client,from,to, got {','.join(row)!r}")
        start, end = (time_of(where, _number(cell)) for cell in cells[1:])
        found.setdefault(int(cells[0]), []).append((start, end))
    if not found:
        raise ValueError(f"ClientClock 'available' must be a file with times of clients, got {file!r}, which has none")
    return found


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _plain(given: Any) -> Any:
    """Return a value in the form that `get_config` gives: numbers of Python, and lists of these."""
    if isinstance(given, (list, tuple, np.ndarray)):
        return [_plain(each) for each in given]
    return given.item() if isinstance(given, np.generic) else given


def _time(name: str, given: Any) -> Law:
    """Return the law of the seconds of a sample."""
    if isinstance(given, str) and (found := _A_SECOND.fullmatch(given.strip())):
        if not float(found[1]):
            raise ValueError(f"{name} must be samples a second above 0, got {given!r}")
        return Constant(1 / float(found[1]))
    law = law_of(name, given)
    if law is None or isinstance(law, Trace):
        raise ValueError(f"{name} must be seconds of a sample, '200/s', a law, or a list for the clients, got {given!r}")
    return law


def _rate(name: str, given: Any) -> Law:
    """Return the law of the bytes a second of a client."""
    words = given.split() if isinstance(given, str) else []
    if len(words) == 3 and words[0] in _LAWS_OF_RATES:
        kind, low = _LAWS_OF_RATES[words[0]]
        return kind(_rate_of(name, words[1]), arguments.number(name, words[0], _number(words[2]), 0.0, open_low=low))
    return Constant(_rate_of(name, given))


_LAWS_OF_RATES: Final[Mapping[str, tuple[Callable[[float, float], Law], bool]]] = {
    "lognormal": (LogNormal, False),
    "pareto": (Pareto, True),
}


def _rate_of(name: str, given: Any) -> float:
    if isinstance(given, str) and (found := _RATE.fullmatch(given.strip())):
        given = rate_of(found[1], found[2])
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not (math.isfinite(given) and given > 0):
        raise ValueError(
            f"{name} must be bytes a second above 0, a rate such as '1Mbit/s', a law such as 'lognormal 1Mbit/s 0.8', or a "
            f"list for the clients, got {given!r}"
        )
    return float(given)


def _law(name: str, given: Any, made: Callable[[str, Any], Law]) -> Law | list[Law]:
    """Return the law of a value of all clients, or the laws in a list for each."""
    if not isinstance(given, list):
        return made(f"ClientClock {name!r}", given)
    return [made(f"ClientClock '{name}[{place}]'", each) for place, each in enumerate(given)]


def _drawn(law: Law | list[Law], name: str, client: int, seed: int) -> float:
    own = law[client] if isinstance(law, list) else law
    return own.seconds(client, 0, partial(keyed, seed, f"clock {name}", client))
