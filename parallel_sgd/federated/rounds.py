"""Rounds on the clock of clients: the clients that are asked, the changes that count, begin and end; and asynchronous rounds,
which end when a buffer of changes is full.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.random import keyed

from .availability import Availability
from .returned import whole_numbers
from .samplers import BufferedSampler, Sampler

__all__ = ["Course", "Field", "Visit", "courses"]


class Visit(NamedTuple):
    """Client with a change that counts in a round.

    Args:
        client: its number.
        begins: seconds of the clock at which it was asked.
        arrives: seconds at which its change was there.
        version: number of the round with the model of which it began, from 0.
        key: number that keys its draws: that of the round, or, in asynchronous rounds, that of its start.
    """

    client: int
    begins: float
    arrives: float
    version: int
    key: int


class Course(NamedTuple):
    """Course of a round.

    Args:
        number: that of the round, from 0.
        begins: seconds of the clock.
        ends: seconds of the clock.
        asked: number of clients that were asked to train.
        lost: number of these that left before they had ended, or dropped out.
        late: number of those with changes that came when the round was over.
        visits: clients with changes that count, in the order of their numbers.
        waiting: numbers of the rounds from the models of which clients still train at the end of this one, in order.
    """

    number: int
    begins: float
    ends: float
    asked: int
    lost: int
    late: int
    visits: tuple[Visit, ...]
    waiting: tuple[int, ...] = ()


@dataclass(frozen=True)
class Field:
    """Clients as rounds see them.

    Args:
        sampler: choice of the clients of a round.
        sizes: number of samples of each client.
        seed: that of the job.
        seconds: of a round of each client.
        times: when clients are there.
    """

    sampler: Sampler
    sizes: NDArray[np.int64]
    seed: int
    seconds: NDArray[np.float64]
    times: Availability

    @property
    def count(self) -> int:
        """Number of clients."""
        return len(self.sizes)

    def there(self, now: float, number: int) -> tuple[float, NDArray[np.int64]]:
        """Return the first moment at which clients are there, and these.

        Args:
            now: seconds of the clock from which on they are waited for.
            number: that of the round, for the error.

        Raises: ValueError where none comes any more.
        """
        trained = self.sizes > 0
        while True:
            found = self.times.there(self.count, now)
            # without samples all the same: a population without times has these among its chosen, too
            if not self.times.known or trained[found].any():
                return now, found
            now = self.moment(self.times.next(now, trained), now, number)

    def moment(self, later: float, now: float, number: int) -> float:
        """Return a later moment at which a client comes.

        Args:
            later: the moment, infinite where none comes any more.
            now: seconds of the clock.
            number: that of the round, for the error.

        Raises: ValueError where none comes any more.
        """
        if not later < math.inf:
            raise ValueError(
                f"ClientClock 'available' has no client any more at {now:g} s, and round {number + 1} needs one: give longer "
                f"times, a 'period', or fewer rounds"
            )
        return later

    def choose(self, available: NDArray[np.int64], number: int) -> list[int]:
        """Return the clients that the sampler asks in a round, in order.

        Args:
            available: those that are there.
            number: that of the round, from 0.

        Raises: ValueError for a choice that a sampler must not make.
        """
        name = type(self.sampler).__name__
        found = self.sampler.choose_among(available, self.sizes, number, keyed(self.seed, "clients", number))
        clients = whole_numbers(f"{name}.choose_among()", found).tolist()
        if len(set(clients)) != len(clients) or not all(0 <= each < self.count for each in clients):
            raise ValueError(f"{name} must choose clients from 0 to {self.count - 1}, none twice, got {clients!r:.80}")
        return sorted(each for each in clients if self.sizes[each])


def courses(field: Field) -> Iterator[Course]:
    """Yield the course of each round, from the first one on, without an end.

    Args:
        field: the clients.

    Raises: ValueError where no client comes any more, or for a choice that a sampler must not make.
    """
    return _buffered(field, field.sampler) if isinstance(field.sampler, BufferedSampler) else _in_turn(field)


def _in_turn(field: Field) -> Iterator[Course]:
    """Yield rounds that begin when the one before has ended."""
    now, number = 0.0, 0
    while True:
        begins, available = field.there(now, number)
        asked = field.choose(available, number)
        ends = np.array([begins + float(field.seconds[each]) for each in asked])
        # its leave is asked from the begin on: a client that comes back meanwhile has lost its work
        left = np.array([ends[place] > field.times.leaves(each, begins) for place, each in enumerate(asked)], bool)
        dropped = _lost(field, asked, number)
        needed = np.array(
            [math.inf if away else float(field.seconds[each]) for each, away in zip(asked, left | dropped, strict=True)]
        )
        kept, lasted = _closed(field.sampler, needed)
        if not math.isfinite(lasted):
            # none has come, and nothing limits the wait: as long as the slowest would have taken
            lasted = float(max(ends - begins, default=0.0))
        now = begins + lasted
        # by number, not by arrival: the merge must not depend on which client was fastest
        visits = tuple([Visit(asked[place], begins, begins + float(needed[place]), number, number) for place in sorted(kept)])
        # those that arrive and do not count were late, and are told apart from those that never came
        lost = int(np.isinf(needed).sum())
        yield Course(number, begins, now, len(asked), lost, len(asked) - len(visits) - lost, visits)
        number += 1


def _lost(field: Field, asked: Sequence[int], number: int) -> NDArray[np.bool_]:
    """Return for each client of a round whether it drops out. Raises: ValueError for an answer of another length."""
    given = field.sampler.lost(asked, number, keyed(field.seed, "lost", number))
    found = np.asarray(given)
    if found.shape != (len(asked),) or (len(asked) and found.dtype != bool):
        raise ValueError(
            f"{type(field.sampler).__name__}.lost() must return True or False for each of {len(asked)} clients, got "
            f"{arguments.short(given)}"
        )
    return found.astype(bool)


def _closed(sampler: Sampler, needed: NDArray[np.float64]) -> tuple[list[int], float]:
    """Return the places of the clients with changes that count, and the seconds of the round.

    Raises: ValueError for a choice that a sampler must not make.
    """
    name, answer = type(sampler).__name__, sampler.close(needed)
    if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[1], Real):
        raise TypeError(f"{name}.close() must return places and the seconds of the round, got {arguments.short(answer)}")
    found, lasted = whole_numbers(f"{name}.close()", answer[0]).tolist(), answer[1]
    if len(set(found)) != len(found) or not all(0 <= each < len(needed) and math.isfinite(needed[each]) for each in found):
        raise ValueError(f"{name} must count clients of the round that arrive, none twice, got places {found!r:.80}")
    if not lasted >= 0:
        raise ValueError(f"{name} must close a round after seconds of at least 0, got {lasted!r}")
    return found, float(lasted)


def _buffered(field: Field, sampler: BufferedSampler) -> Iterator[Course]:
    """Yield rounds that end when the buffer is full, while `concurrency` clients train at all times."""
    if sampler.buffer > (trained := int((field.sizes > 0).sum())):
        raise ValueError(
            f"BufferedSampler 'buffer' must be at most the number of clients with samples, {trained}, got {sampler.buffer}"
        )
    # moment, number of the start, which decides between equal moments, whether it arrives, and the visit
    training: list[tuple[float, int, bool, Visit]] = []
    busy = np.zeros(field.count, bool)
    now, started = 0.0, 0
    begins, visits, lost, asked = 0.0, list[Visit](), 0, 0
    version = 0
    while True:
        while len(training) < sampler.concurrency:
            free = field.times.there(field.count, now)
            free = free[(field.sizes[free] > 0) & ~busy[free]]
            if not len(free):
                break
            # keyed by the number of the start: a run that is resumed counts the starts again, and draws the same clients
            client = int(free[keyed(field.seed, "buffer", started).integers(len(free))])
            arrives, leaves = now + float(field.seconds[client]), field.times.leaves(client, now)
            # one that leaves holds its place until then, as the server does not know that it has gone
            comes = arrives <= leaves
            visit = Visit(client, now, arrives, version, started)
            heapq.heappush(training, (arrives if comes else leaves, started, comes, visit))
            busy[client] = True
            started, asked = started + 1, asked + 1
        # a client that comes before one arrives fills a place that is free
        joins = field.times.next(now, (field.sizes > 0) & ~busy) if len(training) < sampler.concurrency else math.inf
        if not training or joins < training[0][0]:
            now = field.moment(joins, now, version)
            continue
        now, _, comes, visit = heapq.heappop(training)
        if not comes:
            busy[visit.client] = False
            lost += 1
            continue
        # it trains again when the round is over: no client has two changes in one
        visits.append(visit)
        if len(visits) == sampler.buffer:
            # models of these rounds must be kept: changes from them are still to come
            waiting = tuple(sorted({each.version for *_, each in training}))
            in_order = tuple(sorted(visits, key=lambda each: each.client))
            busy[[each.client for each in visits]] = False
            yield Course(version, begins, now, asked, lost, 0, in_order, waiting)
            begins, visits, lost, asked = now, [], 0, 0
            version += 1
