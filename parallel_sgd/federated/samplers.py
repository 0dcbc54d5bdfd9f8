"""Samplers, which choose the clients of each round."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arguments import Configurable

__all__ = ["FixedSampler", "PoissonSampler", "Sampler", "WeightedSampler"]

Counts = NDArray[np.int64]
_DEVIATIONS = 6.0  # of the number of clients that a Poisson round has room for


class Sampler(Configurable):
    """Choice of the clients of a round, a function of (seed, round, sizes) alone. A subclass defines `slots` and `choose`."""

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
            sizes: number of samples of each client, of shape (clients,).
            number: that of the round, from 0.
            random: source of every draw, keyed by the round.
        """

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
        return random.choice(len(sizes), self.number, replace=False)


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
            weights = [arguments.number(self, f"weights[{n}]", each, 0) for n, each in enumerate(weights)]
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
        weights = np.asarray(sizes if self.weights is None else self.weights, np.float64)
        return random.choice(len(sizes), self.number, replace=False, p=weights / weights.sum())


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
