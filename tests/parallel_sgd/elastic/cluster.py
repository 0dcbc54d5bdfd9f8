"""An elastic job in memory: the real driver decides, workers are threads, and a thread that is killed ends between two lines.

Losses reach everybody else as they do on a network: an exchange that cannot be completed raises WorkersLostError in all that
wait for it, and an exchange in whose middle a worker dies may have given some of the others their result.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from network.nodes import Address
from network.testing import VirtualClock
from parallel_sgd.elastic import WorkerRemoved, WorkersLostError
from parallel_sgd.elastic.group import Alone, Listener, using
from rpc import combined
from rpc.elastic import ElasticDriver, Host, Worker
from rpc.elastic.events import (
    Fail,
    Finish,
    HostsSeen,
    Notified,
    NotifyRankZero,
    Pause,
    RemoveWorker,
    StartRound,
    StopWorker,
    Warn,
    WorkerEnded,
    WorkerReady,
    WorkerStuck,
)

PATIENCE = 100.0  # seconds after which a wait is a deadlock
Program = Callable[["Member"], Any]


class Killed(BaseException):
    """The process is gone; nothing of the program may catch this."""


class Operation:
    """One exchange of a group: who has given what, and who will not get the result."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.parts: dict[int, Any] = {}
        self.unlucky: set[int] = set()


class Round:
    """The group of one attempt; broken as soon as anybody has left it."""

    def __init__(self, order: StartRound) -> None:
        self.order = order
        self.operations: dict[int, Operation] = {}
        self.broken = False


class Member(Alone):
    """One worker's `Group`. `doom` is how it dies at its next exchange: "before", "after" it has given its part, or "split":
    after, and only those of even rank get the result."""

    def __init__(self, cluster: Cluster, worker: Worker, round_: Round) -> None:
        self.cluster, self.worker, self.round = cluster, worker, round_
        self.born_rank = round_.order.workers.index(worker)
        self.doom = ""
        self.removed = ""
        self.stopped = False
        self.listeners: list[Listener] = []
        self._operation = 0

    rank = property(lambda self: self.round.order.workers.index(self.worker))
    size = property(lambda self: len(self.round.order.workers))
    sequence = property(lambda self: self.round.order.sequence)

    def allreduce(self, array: Any, op: str = "mean") -> Any:
        parts = self._exchange(f"allreduce {op}", np.array(array), range(self.size))
        return combined([parts[rank] for rank in range(self.size)], op)

    def broadcast(self, value: Any, root: int = 0) -> Any:
        return self._exchange(f"broadcast {root}", copy.deepcopy(value), [root])[root]

    def barrier(self) -> None:
        self._exchange("barrier", None, range(self.size))

    def reform(self, holds: bool) -> None:
        with self.cluster.changed:
            left = self.round
            left.broken = True
            self.cluster.tell(WorkerReady(self.worker, left.order.attempt, holds))
            self.cluster.wait(lambda: self.round is not left or bool(self.removed) or self.stopped, f"{self.worker} in reform")
            self._check_alive()
            self._operation = 0

    def subscribe(self, listener: Listener) -> None:
        self.listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        self.listeners.remove(listener)

    def _check_alive(self) -> None:
        if self.stopped:
            raise Killed
        if self.removed:
            raise WorkerRemoved(self.removed)

    def _exchange(self, kind: str, value: Any, needed: Any) -> dict[int, Any]:
        with self.cluster.changed:
            self._check_alive()
            if self.doom == "before":
                raise Killed
            operation = self.round.operations.setdefault(self._operation, Operation(kind))
            if operation.kind != kind:
                self.cluster.errors.append(f"{self.worker} does {kind}, others {operation.kind}")
                raise Killed
            self._operation += 1
            operation.parts[self.rank] = value
            if self.doom:
                operation.unlucky = set(range(1, self.size, 2)) if self.doom == "split" else set()
                raise Killed
            self.cluster.changed.notify_all()

            def complete() -> bool:
                return all(rank in operation.parts for rank in needed)

            self.cluster.wait(lambda: complete() or self.round.broken or self.stopped, f"{self.worker} in {kind}")
            self._check_alive()
            if not complete() or self.rank in operation.unlucky:
                raise WorkersLostError(f"a peer of {self.worker} was lost in {kind}")
            return copy.deepcopy(operation.parts)


class Cluster:
    """Runs `program(member)` on every worker that the driver starts. Use as a context, `see` hosts, then `join`.

    `changed` guards everything; whoever holds it may call any method. `plan` maps a step to what happens when the first worker
    reaches it (`reach`). With `slow` a notice arrives when the next step is reached, whatever has changed until then.
    """

    def __init__(
        self, program: Program, workers: int, low: int = 1, high: int | None = None, *, slow: bool = False, **options: Any
    ) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.clock = VirtualClock()
        self.driver = ElasticDriver(workers, low, high, now=self.clock.monotonic(), **options)
        self.plan: dict[Any, list[Callable[[], Any]]] = {}
        self.members: dict[Worker, Member] = {}
        self.results: dict[str, Any] = {}
        self.actions: list[Any] = []
        self.errors: list[Any] = []
        self.farewells: list[str] = []
        self.outcome: Any = None
        self._program = program
        self._slow = slow
        self._under_way: list[NotifyRankZero] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        with self.changed:
            for member in self.members.values():
                member.stopped = not member.removed  # who was removed may still be on its way to its farewell
            self.changed.notify_all()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    @property
    def rounds(self) -> list[StartRound]:
        return [action for action in self.actions if isinstance(action, StartRound)]

    def see(self, **hosts: int) -> None:
        self.tell(HostsSeen(tuple(Host(Address(name, 15387), slots) for name, slots in hosts.items())))

    def reach(self, step: Any) -> None:
        """A worker has come to this step: what is planned for it happens, once."""
        with self.changed:
            arriving, self._under_way = self._under_way, []
            for notice in arriving:
                self._notify(notice)
            for act in self.plan.pop(step, []):
                act()

    def kill(self, rank: int, doom: str = "before") -> None:
        """The worker of this rank (modulo the size) in the present round dies at its next exchange."""
        with self.changed:
            workers = self.rounds[-1].workers
            self.members[workers[rank % len(workers)]].doom = doom

    def stop_and_give_up(self, rank: int) -> None:
        """The failure detector declares a worker stuck."""
        with self.changed:
            self.tell(WorkerStuck(self.rounds[-1].workers[rank]))

    def tell(self, event: Any) -> None:
        with self.changed:
            for action in self.driver.handle(event, self.clock.monotonic()):
                self.actions.append(action)
                self._act(action)
            self.changed.notify_all()

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        if not self.changed.wait_for(condition, PATIENCE):
            self.errors.append(f"deadlock: {what}; last actions {self.actions[-5:]}")
            raise Killed

    def join(self) -> Any:
        """How the job ended: Finish or Fail."""
        with self.changed:
            self.wait(lambda: self.outcome is not None, "the job")
        assert not self.errors, self.errors
        return self.outcome

    def _act(self, action: Any) -> None:
        if isinstance(action, StartRound):
            round_ = Round(action)
            for worker in action.workers:
                if worker in self.members:
                    self.members[worker].round = round_
                else:
                    self.members[worker] = Member(self, worker, round_)
                    self._threads.append(threading.Thread(target=self._run, args=[self.members[worker]], name=str(worker)))
                    self._threads[-1].start()
        elif isinstance(action, StopWorker):
            self.members[action.worker].stopped = True
            self.members[action.worker].round.broken = True
        elif isinstance(action, RemoveWorker):
            self.members[action.worker].removed = action.message
        elif isinstance(action, NotifyRankZero):
            self._under_way.append(action)
            if not self._slow:
                self._notify(self._under_way.pop())
        elif isinstance(action, (Finish, Fail)):
            self.outcome = action
        else:
            assert isinstance(action, (Pause, Warn))

    def _notify(self, notice: NotifyRankZero) -> None:
        for listener in self.members[notice.worker].listeners:
            listener(notice.sequence, notice.result)
            self.driver.handle(Notified(notice.sequence), self.clock.monotonic())

    def _run(self, member: Member) -> None:
        event = WorkerEnded(member.worker, False, -9)
        try:
            with using(member):
                result = self._program(member)
            event = WorkerEnded(member.worker, True, 0, returned=True)
            with self.changed:
                self.results[str(member.worker)] = result
        except WorkerRemoved as farewell:
            self.farewells.append(str(farewell))
        except Killed:
            pass
        except Exception as error:  # an exception of the program ends its process
            event = WorkerEnded(member.worker, False, 1, f"{type(error).__name__}: {error}")
        finally:
            with self.changed:
                member.round.broken = True
                if self.outcome is None:
                    self.tell(event)
                self.changed.notify_all()
