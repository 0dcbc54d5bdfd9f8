"""The driver of an elastic job, told events by scenarios (`tests.scenarios`).

A worker is called `a[0]`, host and slot; where another process has taken the slot, `a[0]` is the newest, and `a[0]^2` the one
that was born in attempt 2.
"""

from __future__ import annotations

from typing import Any

from network.nodes import Address
from rpc.elastic import (
    CheckpointSeen,
    CoolDown,
    DiscoveryFailed,
    ElasticDriver,
    Finish,
    Host,
    HostsSeen,
    Notified,
    NotifyRankZero,
    RemoveWorker,
    Stage,
    StartRound,
    StopWorker,
    Worker,
    WorkerEnded,
    WorkerReady,
    WorkerStuck,
)
from tests.scenarios import TimedPlayer


def option(value: str) -> Any:
    """A number, a place, or the two ends of a cool-down."""
    if ".." in value:
        return CoolDown(*map(float, value.split("..")))
    return value if "." in value else int(value)


def at(name: str) -> Address:
    return Address(name, 15387)


def label(worker: Worker) -> str:
    return f"{worker}^{worker.born}" if worker.born else str(worker)


class Job(TimedPlayer):
    """A driver and a clock. `place` is where all perish, if a scenario does not say."""

    def __init__(
        self, workers: int = 2, low: int | None = 1, high: int | None = None, place: str = "0.0", **options: Any
    ) -> None:
        super().__init__()
        self._place = place
        self.machine = ElasticDriver(workers, low, high, now=self.clock.monotonic(), **options)
        self.round: tuple[Worker, ...] = ()
        self._known: dict[str, Worker] = {}

    def told(self, action: Any) -> str:
        if isinstance(action, StartRound):
            how = (f" #{action.sequence}" if action.sequence else "") + (" resumes" if action.resume else "")
            return f"round {action.attempt}{how}: {' '.join(map(label, action.workers))}"
        if isinstance(action, StopWorker):
            return f"stop {label(action.worker)}: {action.reason}"
        if isinstance(action, RemoveWorker):
            assert action.message == f"{action.worker} has been removed from elastic job"
            return f"remove {label(action.worker)}"
        if isinstance(action, NotifyRankZero):
            return f"notify {label(action.worker)} #{action.sequence} {action.result.name}"
        if isinstance(action, Finish):
            return "finish"
        return f"{type(action).__name__.lower()}: {action.message}".replace("\n", " / ")

    def tell(self, *events: Any) -> list[Any]:
        actions = super().tell(*events)
        for action in actions:
            if isinstance(action, StartRound):
                self.round = action.workers
                self._known |= {str(worker): worker for worker in self.round} | {label(w): w for w in self.round}
        return actions

    def worker(self, name: str) -> Worker:
        return self._known[name]

    # ---- events

    def on_see(self, *hosts: str) -> list[Any]:
        """Discovery finds hosts, `a=2` with two slots."""
        pairs = (host.partition("=")[::2] for host in hosts)
        return self.tell(HostsSeen(tuple(Host(at(name), int(slots)) for name, slots in pairs)))

    def on_discovery(self, *reason: str) -> list[Any]:
        """It fails."""
        return self.tell(DiscoveryFailed(" ".join(reason)))

    def on_ready(self, *names: str) -> list[Any]:
        """These workers, or all of the round, ask for the next one."""
        workers = [self.worker(name) for name in names] or list(self.round)
        return self.tell(*(WorkerReady(worker, self.machine.attempt) for worker in workers))

    def on_blank(self, *names: str) -> list[Any]:
        """Likewise, without the state."""
        return self.tell(*(WorkerReady(self.worker(name), self.machine.attempt, holds=False) for name in names))

    def on_late(self, name: str) -> list[Any]:
        """It asked for the round that runs."""
        return self.tell(WorkerReady(self.worker(name), self.machine.attempt - 1))

    def on_die(self, name: str, code: str = "1", *detail: str) -> list[Any]:
        """It ends badly."""
        return self.tell(WorkerEnded(self.worker(name), False, int(code), " ".join(detail)))

    def on_perish(self, place: str = "") -> list[Any]:
        """All workers of the round are killed at this epoch and batch, the highest rank first."""
        epoch, batch = map(int, (place or self._place).split(".")) if place != "nowhere" else (0, 0)
        where = None if place == "nowhere" else (epoch, batch)
        return self.tell(*(WorkerEnded(worker, False, -9, place=where) for worker in reversed(self.round)))

    def on_stuck(self, name: str, *detail: str) -> list[Any]:
        """The detector gives it up."""
        return self.tell(WorkerStuck(self.worker(name), " ".join(detail)))

    def on_silent(self, name: str) -> list[Any]:
        """And its agent."""
        return self.tell(WorkerStuck(self.worker(name), "its host is silent", agent_lost=True))

    def on_refuses(self, name: str, *detail: str) -> list[Any]:
        """Its agent does not take it."""
        return self.tell(WorkerEnded(self.worker(name), False, started=False, detail=" ".join(detail)))

    def on_unreachable(self, *names: str) -> list[Any]:
        """Their agents do not answer, so that they do not start."""
        return self.tell(*(WorkerEnded(self.worker(name), False, started=False, agent_lost=True) for name in names))

    def on_exits(self, *names: str) -> list[Any]:
        """With code 0; nobody knows whether the function had returned."""
        return self.tell(*(WorkerEnded(self.worker(name), True, 0) for name in names))

    def on_leaves(self, name: str) -> list[Any]:
        """With code 0, before the function had returned."""
        return self.tell(WorkerEnded(self.worker(name), True, 0, returned=False))

    def on_returns(self, name: str) -> list[Any]:
        return self.tell(WorkerEnded(self.worker(name), True, 0, returned=True))

    def on_heard(self, sequence: str) -> list[Any]:
        return self.tell(Notified(int(sequence)))

    def on_keeps(self, *content: str) -> list[Any]:
        return self.tell(CheckpointSeen(" ".join(content)))

    def on_wall(self, seconds: str) -> list[Any]:
        """The clock of the wall is set."""
        self.clock.jump_wall(float(seconds))
        return []

    def on_over(self) -> list[Any]:
        """It has ended, and cannot be told anything any more."""
        assert self.machine.stage is Stage.OVER and self.machine.deadline is None
        return self.on_see("a=1", "b=1")
