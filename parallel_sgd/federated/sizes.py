"""Numbers of samples of clients, where these are to differ."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arguments import Configurable

__all__ = ["LogNormalSizes", "PowerLawSizes", "Sizes"]

Counts = NDArray[np.int64]


class Sizes(Configurable):
    """Distribution of the samples over clients (quantity skew). A subclass draws the weights by which samples are dealt.

    Args:
        least: samples that each client has at least.

    >>> class Halves(Sizes):
    ...     def weights(self, clients, random):
    ...         return np.where(np.arange(clients) % 2, 1.0, 3.0)
    >>> Halves().draw(40, 4, np.random.default_rng(0)).tolist()
    [15, 6, 14, 5]
    """

    def __init__(self, least: int = 1) -> None:
        self.least = arguments.integer(self, "least", least, minimum=1)

    @abstractmethod
    def weights(self, clients: int, random: np.random.Generator) -> NDArray[np.float64]:
        """Return a positive number for each client: its share of the samples beyond the least number.

        Args:
            clients: number of clients.
            random: source of every draw.
        """

    def draw(self, samples: int, clients: int, random: np.random.Generator) -> Counts:
        """Return the number of samples of each client; together they are all samples.

        Args:
            samples: number of samples of the training set.
            clients: number of clients.
            random: source of every draw.

        Raises: ValueError where there are too few samples.
        """
        spare = samples - self.least * clients
        if spare < 0:
            raise ValueError(
                f"{type(self).__name__} 'least' must leave enough samples for {clients} clients, got {self.least} of {samples}"
            )
        weights = self._checked(self.weights(clients, random), clients)
        exact = weights / weights.sum() * spare
        counts: Counts = np.floor(exact).astype(np.int64)
        # largest remainders, the first of equal ones: no sample is left over, and nothing hangs on the order of a sort
        for client in np.argsort(counts - exact, kind="stable")[: spare - int(counts.sum())]:
            counts[client] += 1
        counts += self.least
        return counts

    def _checked(self, given: Any, clients: int) -> NDArray[np.float64]:
        """Return weights as an array. Raises: ValueError for others than a number of at least 0 for each client."""
        found = np.asarray(given)
        # some may be 0, where a law gives numbers too small for their type
        if (
            found.shape != (clients,)
            or found.dtype.kind not in "iuf"
            or not (found >= 0).all()
            or not 0 < found.sum() < math.inf
        ):
            raise ValueError(
                f"{type(self).__name__}.weights() must return a number above 0 for each of {clients} clients, got "
                f"{arguments.short(given)}"
            )
        return found.astype(np.float64)


class LogNormalSizes(Sizes, configured=True):
    """Sizes whose logarithms are normal: `exp(sigma z)` of the samples, as FedProx's experiments have them.

    Args:
        sigma: standard deviation of the logarithms.
        least: samples that each client has at least.

    >>> LogNormalSizes(sigma=1.0).draw(1000, 10, np.random.default_rng(0)).sum().item()
    1000
    """

    def __init__(self, sigma: float = 1.0, least: int = 1) -> None:
        super().__init__(least)
        self.sigma = arguments.number(self, "sigma", sigma, 0)

    def weights(self, clients: int, random: np.random.Generator) -> NDArray[np.float64]:
        logarithms = self.sigma * random.standard_normal(clients)
        return np.asarray(np.exp(logarithms - logarithms.max()))  # the largest is 1: none overflows


class PowerLawSizes(Sizes, configured=True):
    """Sizes with a heavy tail: weights of a Pareto distribution, P(weight > x) = x^-exponent for x of at least 1.

    Args:
        exponent: of the tail; few clients have most samples where it is near 1.
        least: samples that each client has at least.

    >>> PowerLawSizes(1.5).draw(1000, 10, np.random.default_rng(0)).sum().item()
    1000
    """

    def __init__(self, exponent: float = 1.5, least: int = 1) -> None:
        super().__init__(least)
        self.exponent = arguments.number(self, "exponent", exponent, 0, open_low=True)

    def weights(self, clients: int, random: np.random.Generator) -> NDArray[np.float64]:
        # NumPy's distribution begins at 0
        return 1.0 + random.pareto(self.exponent, clients)


def checked_sizes(given: Any, clients: int) -> Sizes | tuple[int, ...] | None:
    """Return `sizes` of `Clients` in its plain form.

    Raises: TypeError or ValueError naming the argument.
    """
    if given is None or isinstance(given, Sizes):
        return given
    if isinstance(given, (list, tuple)) or (isinstance(given, np.ndarray) and given.ndim):
        if len(given) != clients:
            raise ValueError(f"Clients 'sizes' must hold a number for each of {clients} clients, got {len(given)}")
        return tuple([arguments.integer("Clients", f"sizes[{place}]", each, minimum=0) for place, each in enumerate(given)])
    raise TypeError(
        f"Clients 'sizes' must be None, a list of numbers, or one of LogNormalSizes, PowerLawSizes, got "
        f"{arguments.short(given)}"
    )
