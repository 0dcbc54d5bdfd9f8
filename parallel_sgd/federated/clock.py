"""Clock of clients: the seconds that each would need on a device of its own, and the times at which it is there.

    sample_time  5ms  200/s  lognormal 5ms 0.5  exponential 5ms 2ms  pareto 5ms 2.5   of a sample, or samples a second
    up, down     1Mbit/s     lognormal 1Mbit/s 0.8                   pareto 1Mbit/s 2

A law is drawn once for each client, keyed by the seed and the client, with the same bits on all machines; a list has a value
for each client. All that follows is a function of the seed and these values, never of the machine that computes.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from network.units import RATE, rate_of
from nn import arguments
from nn.arguments import Configurable
from nn.random import keyed

from ..simulation.compute import Constant, Law, LogNormal, Pareto, Trace, law_of, number_in, time_of
from .availability import Availability, Intervals, intervals_of

__all__ = ["ClientClock"]

Seconds = NDArray[np.float64]
EachClient: TypeAlias = float | str | Sequence[float | str] | NDArray[Any]
"""A number, its text or a law of it, for all clients; or one number or text for each of them."""
_RATE: Final = re.compile(RATE)
_A_SECOND: Final = re.compile(r"(\d{1,9}(?:\.\d{1,30})?)/s")


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
        sample_time: EachClient = 0.0,
        up: EachClient | None = None,
        down: EachClient | None = None,
        available: str | os.PathLike[str] | Mapping[int, Intervals] | None = None,
        period: float | str | None = None,
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
        self.times = Availability(None if available is None else intervals_of(self.available), self.period)

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


def _plain(given: Any) -> Any:
    """Return a value in the form that `get_config` gives: numbers of Python, and lists of these."""
    if isinstance(given, np.ndarray) and not given.ndim:
        return given.item()
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
        return kind(_rate_of(name, words[1]), arguments.number(name, words[0], number_in(words[2]), 0.0, open_low=low))
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
    # the number of the step counts for nothing, since a trace is refused
    return own.seconds(client, 0, partial(keyed, seed, f"clock {name}", client))
