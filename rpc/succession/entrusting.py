"""Handing the estate of a job to its agents, while the job runs; the training waits for nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..messages import Entrust, Keeps, Operation, Part
from .will import Will, by_seniority

PART_BYTES = 1 << 20
_AHEAD_BYTES = 2 << 20


class Entrusting:
    """For one attempt. `tell(node, operation)` sends, `pending(node)` is how many bytes are in line for a node."""

    def __init__(
        self,
        job: str,
        attempt: int,
        will: Will,
        nodes: Iterable[int],
        tell: Callable[[int, Operation], None],
        pending: Callable[[int], int],
    ) -> None:
        self._job, self._will = job, will
        self._tell, self._pending = tell, pending
        self._sent: dict[int, int] = {}  # bytes, to nodes that have asked for them
        self.open: set[int] = set()
        """The nodes that have not said yet that they have everything."""
        for place, node in enumerate(by_seniority(nodes)):
            self.open.add(node)
            size = len(will.estate)
            tell(node, Entrust(job, node, attempt, will.term, will.driver, place, will.sha256, size, will.heir, will.charter))

    def take(self, node: int, answer: Keeps) -> None:
        """What the agent of a node says."""
        if answer.whole:
            self.lose(node)
        elif node in self.open:
            self._sent.setdefault(node, 0)

    def lose(self, node: int) -> None:
        """It has everything, or is gone."""
        self.open.discard(node)
        self._sent.pop(node, None)

    def send(self) -> None:
        """Put further parts in line where there is room."""
        estate = self._will.estate
        for node, sent in self._sent.items():
            while sent < len(estate) and self._pending(node) < _AHEAD_BYTES:
                data = estate[sent : sent + PART_BYTES]
                self._tell(node, Part(self._job, node, data))
                sent += len(data)
            self._sent[node] = sent
