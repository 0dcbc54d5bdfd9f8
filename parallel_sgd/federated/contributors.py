"""Clients as the codecs of a job see them: the contributor of each block of a round, and its weight."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from .clients import Clients
from .population import Population, Round


class ClientContributors:
    """Clients as contributors of the blocks of each batch, which is a round (`parallel_sgd.codec.settings.Contributors`).

    Args:
        clients: the option of the job, which knows the samples of each client before the first round.
        seed: that of the job.
        block_size: samples of a client's step.
    """

    def __init__(self, clients: Clients, seed: int, block_size: int) -> None:
        self.count = clients.count
        self._clients, self._seed, self._block_size = clients, seed, block_size
        self._last: Round | None = None

    @cached_property
    def _population(self) -> Population:
        # not in the constructor: codecs are tried before the data set is loaded, and know no sizes then
        if self._clients.known is None:
            raise RuntimeError("ClientContributors needs the samples of each client, which the submitter has not told")
        return Population(self._clients, self._clients.known, self._seed, self._block_size)

    def of(self, step: tuple[int, int]) -> Sequence[int | None]:
        return self._round(step).slots

    def weights(self, step: tuple[int, int]) -> Sequence[float]:
        # those of statistics: a client whose change is divided by its steps is refused where it is encoded by itself
        return self._round(step).shares

    def _round(self, step: tuple[int, int]) -> Round:
        number = step[0] * self._clients.rounds + step[1]
        # asked by each codec in turn: one round after the other
        if self._last is None or self._last.number != number:
            self._last = self._population.round(number)
        return self._last
