"""Tables of a job at its submitter while it runs: their new bytes, as the agents of its nodes send them when asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, Protocol

from network.clock import Clock

from ..messages import Operation, Tail, Tailed

ASK_SECONDS: Final = 1.0


class TableReader(Protocol):
    """Reader of the tables of all attempts at a job."""

    def begin(self, workers: Iterable[int]) -> None:
        """Begin an attempt on these workers; their tables begin again, with the rows of the attempts from which it goes on."""

    def take(self, worker: int, name: str, at: int, data: bytes) -> None:
        """Take `data` of the file `name` of a `worker`, its bytes from `at` on; at 0 it begins, or begins again."""

    def lose(self, worker: int) -> None:
        """Drop `worker`: the others go on without it."""


class TableTail:
    """Questions to the agents of one attempt for the new bytes of its tables; an agent that has not answered is not asked
    again.

    Args:
        job: id of the job.
        reader: takes the bytes.
        tell: sends an operation to the agent of a node.
        clock: of the pauses between questions.
    """

    def __init__(self, job: str, reader: TableReader, tell: Callable[[int, Operation], None], clock: Clock) -> None:
        self._job, self._reader, self._tell, self._clock = job, reader, tell, clock
        self._workers: set[int] = set()
        self._awaited: set[int] = set()
        self._places: dict[int, dict[str, list[int]]] = {}
        self._due = 0.0

    def begin(self, workers: Iterable[int]) -> None:
        self._workers = set(workers)
        self._due = self._clock.monotonic()
        self._reader.begin(self._workers)

    def ask(self, failed: Collection[int], begun: Collection[int]) -> None:
        """Ask, if it is time.

        Args:
            failed: nodes that have no part in it any more.
            begun: the nodes that are asked.
        """
        for node in self._workers.intersection(failed):
            self._workers.remove(node)
            self._reader.lose(node)
        if self._workers and self._clock.monotonic() >= self._due:
            self._due = self._clock.monotonic() + ASK_SECONDS
            # one question at a time for each: a slow agent gets no second one on top
            for node in self._workers.intersection(begun) - self._awaited:
                self._awaited.add(node)
                self._tell(node, Tail(self._job, node, self._places.setdefault(node, {})))

    def take(self, node: int, said: Tailed) -> None:
        """Take the answer of a node's agent; bytes that make no sense are left out, as the files come when the job has
        ended.
        """
        self._awaited.discard(node)
        known = self._places.setdefault(node, {})
        for name, data in said.data.items() if node in self._workers and said.node == node else ():
            number, at = said.places.get(name, [0, -1])
            # bytes that do not follow the known ones belong to another file, or to one that has begun again
            if at == 0 or known.get(name) == [number, at]:
                known[name] = [number, at + len(data)]
                self._reader.take(node, name, at, data)
