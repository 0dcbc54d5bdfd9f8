"""The worker processes of an elastic job: which of them live, count, and hold the state of the training."""

from __future__ import annotations

from collections.abc import Collection

from .hosts import Place
from .rounds import Worker


class Crew:
    """Everybody who was ever started. `round` are the workers of the last round, by rank.

    A worker is *alive* until its process is known to have ended. One that is *fenced* was given up: nothing it says counts.
    """

    def __init__(self) -> None:
        self.round: tuple[Worker, ...] = ()
        self.alive: set[Worker] = set()
        self.fenced: set[Worker] = set()
        self.holders: set[Worker] = set()

    def begin(self, seats: tuple[Worker, ...], *, equal: bool) -> None:
        """A round of these workers begins; `equal`: what they construct, or load, is the state, so that all of them hold it."""
        self.round = seats
        self.alive.update(seats)
        if equal:
            self.holders = set(seats)

    def counts(self, worker: Worker) -> bool:
        """Whether it is in the round, lives, and is not given up."""
        return worker in self.round and worker in self.alive and worker not in self.fenced

    @property
    def living(self) -> set[Worker]:
        """All that count."""
        return {worker for worker in self.round if self.counts(worker)}

    @property
    def ended(self) -> set[Worker]:
        """Workers of the round whose processes are known to have ended."""
        return set(self.round) - self.alive

    @property
    def silent(self) -> set[Worker]:
        """Workers of the round that were given up, and may be working on where nobody sees them."""
        return set(self.round) & self.alive & self.fenced

    def fence(self, worker: Worker, *, neighbours: bool) -> list[Worker]:
        """Give up a worker, with `neighbours` all others of the round on its host, too; returns who was not given up before."""
        given_up = {worker, *(other for other in self.round if neighbours and other.address == worker.address)}
        news = [other for other in self.round if other in given_up and other not in self.fenced]
        self.fenced.update(news)
        return news

    def has_neighbours(self, worker: Worker) -> bool:
        """Whether others that count are on its host."""
        return any(other.address == worker.address and other != worker for other in self.living)

    def occupants(self, places: Collection[Place], seats: Collection[Worker]) -> list[Worker]:
        """Living processes in these slots that are none of `seats`: workers of earlier rounds that have not left."""
        return [worker for worker in sorted(self.alive.difference(seats)) if worker.place in places]
