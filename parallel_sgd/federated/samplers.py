"""Samplers, which choose the clients of each round."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arguments import Configurable

from ..simulation.compute import time_of
from .returned import whole_numbers

__all__ = ["BufferedSampler", "FixedSampler", "PoissonSampler", "Sampler", "TimedSampler", "WeightedSampler"]

Counts = NDArray[np.int64]
# 17 digits tell each float64 from all others; without traps, since a rounded power is no error
_EXACT: Final = Context(prec=17, traps=[])
_DEVIATIONS = 6.0  # of the number of clients that a Poisson round has room for


class Sampler(Configurable):
    """Choice of the clients of a round, a function of (seed, round, sizes) alone. A subclass defines `slots` and `choose`; one
    that looks at the clock of the clients also `close`, and sets `needs_clock`.

    >>> class Largest(Sampler):
    ...     def slots(self, clients):
    ...         return 2
    ...     def choose(self, sizes, number, random):
    ...         return np.argsort(-sizes, kind="stable")[:2]
    >>> Largest().choose(np.array([3, 9, 5]), 0, np.random.default_rng(0)).tolist()
    [1, 2]
    """

    needs_clock: bool = False
    """Whether it goes with `Clients(clock=)` only."""

    @abstractmethod
    def slots(self, clients: int) -> int:
        """Return the largest number of clients of a round, which is the number of blocks of a batch.

        Args:
            clients: number of clients in all.
        """

    @abstractmethod
    def choose(self, sizes: Counts, number: int, random: np.random.Generator) -> Sequence[int] | NDArray[np.int64]:
        """Return the clients of a round, no client twice.

        Args:
            sizes: number of samples of each client, of shape (clients,); where some are not there, of those that are.
            number: that of the round, from 0.
            random: source of every draw, keyed by the round.

        Returns: places in `sizes`.
        """

    def choose_among(
        self, available: Counts, sizes: Counts, number: int, random: np.random.Generator
    ) -> Sequence[int] | NDArray[np.int64]:
        """Return the clients of a round, no client twice; default the choice of `choose`.

        Args:
            available: numbers of the clients that are there, in order.
            sizes: number of samples of each client, of shape (clients,).
            number: that of the round, from 0.
            random: source of every draw, keyed by the round.
        """
        # a sampler may be a user's: a place that is none is refused here, where its class can be named
        places = whole_numbers(f"{type(self).__name__}.choose()", self.choose(sizes[available], number, random))
        if places.size and not 0 <= places.min() <= places.max() < len(available):
            raise ValueError(
                f"{type(self).__name__} must choose clients from 0 to {len(available) - 1}, got {places.tolist()!r:.80}"
            )
        return available[places]

    def lost(self, clients: Sequence[int], number: int, random: np.random.Generator) -> Sequence[bool] | NDArray[np.bool_]:
        """Tell for each client of a round whether it drops out, so that its change never comes; default none does.

        Args:
            clients: their numbers.
            number: that of the round, from 0.
            random: source of every draw, keyed by the round.
        """
        return [False] * len(clients)

    def close(self, seconds: NDArray[np.float64]) -> tuple[Sequence[int] | NDArray[np.int64], float]:
        """Return the places of the clients with changes that count, and the seconds of the round; default all that
        arrive, until the last of them. Infinite seconds of a round are those of the slowest client that was asked.

        Args:
            seconds: after which the change of each client of the round arrives; infinite where it never does.
        """
        arrived = np.flatnonzero(np.isfinite(seconds))
        return arrived, float(max(seconds[arrived], default=math.inf))

    def expected(self, clients: int) -> float:
        """Return the mean number of clients of a round; default the number of slots.

        Args:
            clients: number of clients in all.
        """
        return self.slots(clients)


class FixedSampler(Sampler, configured=True):
    """Sampler of a fixed number of clients, each as probable as any other: the one that a number stands for.

    Args:
        number: clients of a round.

    >>> sorted(FixedSampler(2).choose(np.ones(5), 0, np.random.default_rng(0)).tolist())
    [3, 4]
    """

    def __init__(self, number: int) -> None:
        self.number = arguments.integer(self, "number", number, minimum=1)

    def slots(self, clients: int) -> int:
        if self.number > clients:
            raise ValueError(f"Clients 'sample' must be at most the number of clients, {clients}, got {self.number}")
        return self.number

    def choose(self, sizes: Counts, number: int, random: np.random.Generator) -> NDArray[np.int64]:
        # `sizes` has the clients that are there now, which may be fewer than the slots
        return random.choice(len(sizes), min(self.number, len(sizes)), replace=False)


class WeightedSampler(FixedSampler, configured=True):
    """Sampler of a fixed number of clients without replacement, some more probable than others. `weigh="equal"` of `Clients`
    goes with it where the samples of a client count by its probability already.

    Args:
        number: clients of a round.
        weights: a number for each client; by default its samples.

    >>> sorted(WeightedSampler(1, [0.0, 1.0]).choose(np.ones(2), 0, np.random.default_rng(0)).tolist())
    [1]
    """

    def __init__(self, number: int, weights: Sequence[float] | None = None) -> None:
        super().__init__(number)
        if weights is not None:
            given = arguments.sequence(self, "weights", weights, "numbers")
            weights = [arguments.number(self, f"weights[{n}]", each, 0) for n, each in enumerate(given)]
            if sum(each > 0 for each in weights) < number:
                raise ValueError(
                    f"WeightedSampler 'weights' must be above 0 for {number} clients at least, got {weights!r:.80}"
                )
        self.weights = weights

    def slots(self, clients: int) -> int:
        if self.weights is not None and len(self.weights) != clients:
            raise ValueError(
                f"WeightedSampler 'weights' must hold a number for each of {clients} clients, got {len(self.weights)}"
            )
        return super().slots(clients)

    def choose(self, sizes: Counts, number: int, random: np.random.Generator) -> NDArray[np.int64]:
        return self.choose_among(np.arange(len(sizes)), sizes, number, random)

    def choose_among(self, available: Counts, sizes: Counts, number: int, random: np.random.Generator) -> NDArray[np.int64]:
        weights = np.asarray(sizes if self.weights is None else self.weights, np.float64)[available]
        # a smaller round is no mistake while clients are away; with all there `choice` refuses too few weights above 0
        most = min(self.number, int((weights > 0).sum())) if len(available) < len(sizes) else self.number
        if not most:
            # all weights may be 0, which no division makes shares of
            return available[:0]
        return available[random.choice(len(available), most, replace=False, p=weights / weights.sum())]


class PoissonSampler(Sampler, configured=True):
    """Sampler that takes each client with the same probability, independent of all others, as the accounting of differential
    privacy asks for. A round may have any number of clients, and none.

    Args:
        rate: probability of each client, up to 1.
        slots: most clients of a round; by default six standard deviations above the mean. A job of which a round would have
            more is refused before it begins.

    >>> PoissonSampler(0.1).slots(100)
    28
    """

    def __init__(self, rate: float, slots: int | None = None) -> None:
        self.rate = arguments.number(self, "rate", rate, 0, open_low=True)
        if self.rate > 1:
            raise ValueError(f"PoissonSampler 'rate' must be a number > 0 and <= 1, got {rate}")
        self.most = None if slots is None else arguments.integer(self, "slots", slots, minimum=1)

    def argument(self, name: str) -> Any:
        return self.most if name == "slots" else super().argument(name)

    def slots(self, clients: int) -> int:
        deviation = math.sqrt(clients * self.rate * (1 - self.rate))
        most = math.ceil(clients * self.rate + _DEVIATIONS * deviation) if self.most is None else self.most
        return min(most, clients)

    def choose(self, sizes: Counts, number: int, random: np.random.Generator) -> NDArray[np.int64]:
        return np.flatnonzero(random.random(len(sizes)) < self.rate)

    def expected(self, clients: int) -> float:
        return clients * self.rate


class TimedSampler(Sampler, configured=True):
    """Sampler that does not wait for all: it asks more clients than it takes (over-selection), ends a round at a deadline, and
    has clients that drop out (K. Bonawitz et al., "Towards federated learning at scale: system design", 2019).

    A round ends with the change of which it has enough, else at the deadline, where one of its clients is still missing, else
    with the last change.

    Args:
        sample: clients that are asked in a round: a number, or a sampler.
        take: changes that end a round, the first ones; None: all.
        deadline: longest time of a round, seconds of the clock or a text such as `30s`; None: none.
        dropout: probability with which a client drops out, below 1.

    >>> TimedSampler(13, take=10).slots(100)
    10
    >>> TimedSampler(3, take=2).close(np.array([5.0, 1.0, 3.0]))
    ([1, 2], 3.0)
    >>> TimedSampler(3, deadline="2s").close(np.array([5.0, 1.0, 3.0]))
    ([1], 2.0)
    """

    def __init__(
        self, sample: int | Sampler, take: int | None = None, deadline: float | str | None = None, dropout: float = 0.0
    ) -> None:
        self.sample = sample if isinstance(sample, Sampler) else FixedSampler(arguments.integer(self, "sample", sample, 1))
        if isinstance(self.sample, (TimedSampler, BufferedSampler)):
            raise ValueError(f"TimedSampler 'sample' must not have times of its own, got {type(self.sample).__name__}")
        self.take = None if take is None else arguments.integer(self, "take", take, minimum=1)
        self.deadline = None if deadline is None else time_of("TimedSampler 'deadline'", deadline)
        if self.deadline == 0:
            raise ValueError("TimedSampler 'deadline' must be a time above 0, got 0")
        self.dropout = arguments.number(self, "dropout", dropout, 0, 1)
        self.needs_clock = self.take is not None or self.deadline is not None or self.sample.needs_clock

    def slots(self, clients: int) -> int:
        asked = self.sample.slots(clients)
        if self.take is not None and self.take > asked:
            raise ValueError(f"TimedSampler 'take' must be at most 'sample', {asked}, got {self.take}")
        return asked if self.take is None else self.take

    def choose(self, sizes: Counts, number: int, random: np.random.Generator) -> Sequence[int] | NDArray[np.int64]:
        return self.sample.choose(sizes, number, random)

    def choose_among(
        self, available: Counts, sizes: Counts, number: int, random: np.random.Generator
    ) -> Sequence[int] | NDArray[np.int64]:
        return self.sample.choose_among(available, sizes, number, random)

    def lost(self, clients: Sequence[int], number: int, random: np.random.Generator) -> NDArray[np.bool_]:
        return np.asarray(random.random(len(clients)) < self.dropout)

    def close(self, seconds: NDArray[np.float64]) -> tuple[list[int], float]:
        # of equal moments the client with the smaller number, as they stand in order
        order = np.argsort(seconds, kind="stable")
        limit = math.inf if self.deadline is None else self.deadline
        arrived = [int(place) for place in order if math.isfinite(seconds[place]) and seconds[place] <= limit]
        if self.take is not None and len(arrived) >= self.take:
            return arrived[: self.take], float(seconds[arrived[self.take - 1]])
        # nothing tells the server that a missing change never comes, so it waits for that one until the deadline
        if len(arrived) < len(seconds) and self.deadline is not None:
            return arrived, self.deadline
        return arrived, max((float(seconds[place]) for place in arrived), default=math.inf)

    def expected(self, clients: int) -> float:
        asked = self.sample.expected(clients) * (1 - self.dropout)
        return asked if self.take is None else min(asked, self.take)

    def argument(self, name: str) -> Any:
        if name == "sample" and type(self.sample) is FixedSampler:
            return self.sample.number
        return super().argument(name)


class BufferedSampler(Sampler, configured=True):
    """Sampler of asynchronous rounds, FedBuff (J. Nguyen et al., "Federated learning with buffered asynchronous aggregation",
    2022): `concurrency` clients train at all times, each from the global model at its start, and when one ends the next begins;
    a round is over when `buffer` changes of different clients have come. The change of a client that has missed n rounds counts
    (1 + n) ** -damping.

    Args:
        buffer: changes of a round, K in the paper.
        concurrency: clients that train at a time.
        damping: exponent of the staleness, 0.5 in the paper; 0 counts all changes alike.

    >>> BufferedSampler(10, concurrency=40).slots(100)
    10
    """

    needs_clock = True

    def __init__(self, buffer: int, concurrency: int, damping: float = 0.5) -> None:
        self.buffer = arguments.integer(self, "buffer", buffer, minimum=1)
        self.concurrency = arguments.integer(self, "concurrency", concurrency, minimum=1)
        self.damping = arguments.number(self, "damping", damping, 0)

    def slots(self, clients: int) -> int:
        if self.concurrency > clients:
            raise ValueError(
                f"BufferedSampler 'concurrency' must be at most the number of clients, {clients}, got {self.concurrency}"
            )
        if self.buffer > clients:
            raise ValueError(f"BufferedSampler 'buffer' must be at most the number of clients, {clients}, got {self.buffer}")
        return self.buffer

    def choose(self, sizes: Counts, number: int, random: np.random.Generator) -> NDArray[np.int64]:
        # one: the next client begins whenever one ends, so each draw is of a single successor
        return random.choice(len(sizes), 1)

    def weight(self, staleness: int) -> float:
        """Return the factor of a change.

        Args:
            staleness: rounds that have ended since its client began.
        """
        # in decimal, which rounds alike on all machines: workers must agree on the bits
        return float(_EXACT.power(1 + staleness, Decimal(-self.damping)))
