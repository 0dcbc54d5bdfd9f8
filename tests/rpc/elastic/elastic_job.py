"""A driver of an elastic job, told events by hand."""

from __future__ import annotations

from typing import Any

from network.nodes import Address
from network.testing import VirtualClock
from rpc.elastic import ElasticDriver, Host, Worker
from rpc.elastic.events import HostsSeen, StartRound, WorkerEnded, WorkerReady


def at(name: str) -> Address:
    return Address(name, 15387)


class Job:
    """A driver, a clock, and shorthand: hosts as {"a": 2}, workers by what they are called, "a[0]"."""

    def __init__(self, workers: int = 2, low: int | None = 1, high: int | None = None, **options: Any) -> None:
        self.clock = VirtualClock(100.0)
        self.driver = ElasticDriver(workers, low, high, now=self.clock.monotonic(), **options)
        self.round: tuple[Worker, ...] = ()

    def tell(self, *events: Any, after: float = 0.0) -> list[Any]:
        self.clock.advance(after)
        actions = [action for event in events for action in self.driver.handle(event, self.clock.monotonic())]
        for action in actions:
            if isinstance(action, StartRound):
                self.round = action.workers
        return actions

    def see(self, after: float = 0.0, **hosts: int) -> list[Any]:
        return self.tell(HostsSeen(tuple(Host(at(name), slots) for name, slots in hosts.items())), after=after)

    def worker(self, name: str) -> Worker:
        return next(worker for worker in self.round if str(worker) == name)

    def ready(self, *names: str) -> list[Any]:
        """These workers, or all of the round, ask for the next one."""
        workers = [self.worker(name) for name in names] or list(self.round)
        return self.tell(*(WorkerReady(worker, self.driver.attempt) for worker in workers))

    def die(self, name: str, code: int = 1, after: float = 0.0) -> list[Any]:
        return self.tell(WorkerEnded(self.worker(name), False, code), after=after)

    @property
    def names(self) -> list[str]:
        """The workers of the round by rank."""
        return [str(worker) for worker in self.round]


def only(actions: list[Any], kind: type) -> list[Any]:
    return [action for action in actions if isinstance(action, kind)]
