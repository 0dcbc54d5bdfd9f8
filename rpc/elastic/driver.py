"""Driver of an elastic job: it decides without I/O which workers take part in which round.

waiting   there are too few slots, or none were seen yet; survivors of the last round wait for the next one
running   a round trains; host changes are told to rank 0, which makes all workers ask for the next round
over      the job has ended, well or badly

A worker that fails takes its whole host out. A job that may use failed slots again (after a cool-down, or because its state
outlives all workers) loses the slot of that worker alone, unless the agent of the host is lost.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable
from typing import Any

from network.nodes import Address

from ..machine import Machine, Tick
from ..submit.recovery import REPEATED, Repeats
from .events import (
    CheckpointSeen,
    DiscoveryFailed,
    Fail,
    Finish,
    HostsSeen,
    Notified,
    Pause,
    RemoveWorker,
    StartRound,
    StopWorker,
    Warn,
    Worker,
    WorkerEnded,
    WorkerReady,
    WorkerStuck,
)
from .hosts import Blacklist, CoolDown, Host, Place, order_hosts, slots_of
from .round import ALL_FAILED, Decision, HostNotices, Recorded, Registry, WorkerSet, assign_ranks

ELASTIC_TIMEOUT = 600.0  # seconds to wait for slots
NO_SURVIVOR = "No hosts from previous set remaining, unable to broadcast state."


class Stage(enum.Enum):
    """Stage of the job."""

    WAITING = "waiting"
    RUNNING = "running"
    OVER = "over"


class ElasticDriver(Machine):
    """State machine of an elastic job: decides which workers form the next round, and when the job ends.

    `deadline` is when to send the next Tick, or None; `attempt` counts rounds from 0, -1
    before the first.

    Args:
        workers: how many the job waits for before its first round.
        min_workers: how many later rounds need; None: as many as the first.
        max_workers: how many there are at most; None: as many as there are slots.
        cool_down: for how long failed slots and hosts are left alone; None: for ever.
        resumes: whether the state is kept on disk, so that the job goes on from it, or from the beginning as long as there is
            nothing, when all workers have failed; failed slots are used again then, and whenever there are too few slots
            otherwise. A program that fails at the same place three times is not tried again so.
        reset_limit: how many rounds may follow the first; None: any number.
        timeout: how many seconds to wait for slots.
        seed: of the jitter of cool-downs.
        now: monotonic seconds.

    Raises: ValueError unless 1 <= min_workers <= workers <= max_workers, and timeout > 0.
    """

    def __init__(
        self,
        workers: int,
        min_workers: int | None = None,
        max_workers: int | None = None,
        *,
        cool_down: CoolDown | None = None,
        resumes: bool = False,
        reset_limit: int | None = None,
        timeout: float = ELASTIC_TIMEOUT,
        seed: int = 0,
        now: float,
    ) -> None:
        super().__init__()
        low, high = workers if min_workers is None else min_workers, workers if max_workers is None else max_workers
        if not 1 <= low <= workers <= high:
            raise ValueError(
                "An elastic job needs 1 <= min_workers <= workers <= max_workers, "
                f"got {min_workers} <= {workers} <= {max_workers}."
            )
        if not timeout > 0:
            raise ValueError(f"'timeout' of an elastic job must be a number of seconds > 0, got {timeout}.")
        self.stage = Stage.WAITING
        self.attempt = -1
        self._first, self._low, self._max, self._timeout = workers, low, max_workers, timeout
        self._resumes, self._by_slot = resumes, resumes or cool_down is not None
        self._blacklist = Blacklist(cool_down, seed)
        self._registry = Registry(reset_limit)
        self._now = self._since = now  # the present, and when it began to wait
        self._paused = ""
        self._hosts: dict[Address, int] | None = None  # None until discovery has answered
        self._order: list[Address] = []  # hosts by age
        self._workers = WorkerSet()
        self._notices = HostNotices()
        self._checkpoint: str | None = None  # content of the checkpoint on disk
        self._first_failure = ""
        self._repeats = Repeats()
        self._places: set[Hashable] = set()  # where workers of this round have failed
        self._failing = False  # some have, and nothing was given back for it yet
        self._anew = False  # all have, so that the next round begins with the checkpoint on disk, or from the beginning
        self._has_run = False  # a worker has started
        self._void = False  # a worker of this round has not, so that it never began

    @property
    def deadline(self) -> float | None:
        if self.stage is Stage.OVER:
            return None
        moments = [self._blacklist.next_release(self._now)]
        if self.stage is Stage.WAITING:
            moments += [self._since + self._timeout, self._blacklist.next_ask(self._now) if self._resumes else None]
        # notices matter only while rank 0 trains
        elif not self._registry.begun:
            moments.append(self._notices.deadline)
        return min((moment for moment in moments if moment is not None), default=None)

    def _decide(self, event: Any, now: float) -> list[Any]:
        handler = _HANDLERS.get(type(event))
        if handler is None:
            raise self._impossible(event)
        self._now = now
        # late events of a job that is over change nothing
        return [] if self.stage is Stage.OVER else handler(self, event)

    def _on_hosts(self, event: HostsSeen) -> list[Any]:
        self._hosts = {host.address: host.slots for host in event.hosts}
        return self._review()

    def _on_discovery_failed(self, event: DiscoveryFailed) -> list[Any]:
        # without a first answer there is nothing to go on with; later ones keep the hosts of before
        if self._hosts is None:
            return self._fail(f"The first discovery of hosts failed: {event.reason}")
        return [Warn(f"The discovery of hosts failed, the last answer still counts: {event.reason}")]

    def _on_ready(self, event: WorkerReady) -> list[Any]:
        worker = event.worker
        # it was given up or dismissed and does not know yet
        if not self._workers.counts(worker):
            return [_removal(worker)]
        self._has_run = True
        if event.attempt != self.attempt:
            return []  # on its way when the next round began
        if event.holds:
            self._workers.holders.add(worker)
        self._registry.record(worker, Recorded.READY)
        return self._barrier()

    def _on_ended(self, event: WorkerEnded) -> list[Any]:
        worker = event.worker
        counted = self._workers.counts(worker)
        self._workers.alive.discard(worker)
        if not counted:
            return []
        # its host may have been taken away, and it with it: that is no failure
        wanted = (self._hosts or {}).get(worker.address, 0) > worker.slot
        returned = event.ok and wanted if event.returned is None else event.returned
        if returned:
            self._registry.record(worker, Recorded.SUCCESS)
        elif not wanted:
            self._registry.record(worker, Recorded.REMOVED)
        else:
            return self._failed(event)
        return self._barrier()

    def _on_stuck(self, event: WorkerStuck) -> list[Any]:
        if not self._workers.counts(event.worker):
            return []
        return self._failed(WorkerEnded(event.worker, False, None, event.detail, agent_lost=event.agent_lost))

    def _on_notified(self, event: Notified) -> list[Any]:
        self._notices.heard(event.sequence)
        return []

    def _on_checkpoint(self, event: CheckpointSeen) -> list[Any]:
        self._checkpoint = event.content
        return []

    def _on_tick(self, event: Tick) -> list[Any]:
        actions = self._review()
        if self.stage is Stage.WAITING and self._now >= self._since + self._timeout:
            return self._fail(
                "Timed out waiting for minimum number of slots to become available: "
                f"after {self._timeout:g} s {self._paused or 'no hosts are known yet'}."
            )
        return actions

    def _failed(self, event: WorkerEnded) -> list[Any]:
        """Fence a failed worker: no other is sent to its slot, or to its host; the host's other workers are stopped then."""
        worker = event.worker
        # the first is the cause more often than those that follow
        if not self._first_failure:
            told = "" if event.code is None else f"\nExit code: {event.code}"
            self._first_failure = f"The first worker to fail was:\nProcess name: {worker}{told}"
            self._first_failure += event.detail and f"\n{event.detail}"
        self._note_place(event)
        # an agent that does not take another worker may be there for those that it has
        lost = event.agent_lost and (event.started or not self._workers.has_neighbours(worker))
        whole = lost or not self._by_slot
        takes = event.started and not event.agent_lost
        # before the fence: what is started next must not land there
        self._blacklist.add(worker.address if whole else worker.place, self._now, answers=takes)
        actions: list[Any] = []
        for other in self._workers.fence(worker, neighbours=whole):
            self._registry.record(other, Recorded.FAILURE)
            if other in self._workers.alive:
                why = "it is given up" if other == worker else f"{worker} on the same host has failed"
                actions.append(StopWorker(other, f"{other} is stopped: {why}."))
        return actions + self._barrier()

    def _note_place(self, event: WorkerEnded) -> None:
        """Note the place of a failure, if it was the program's: by rank and its signals, or the content of the disk where it
        gives none.
        """
        self._has_run = self._has_run or event.started
        self._void = self._void or not event.started
        self._failing = True
        if event.place is not None and event.started and not event.agent_lost:
            rank = self._workers.round.index(event.worker)
            self._places.add((rank, *(event.place if event.place[0] else (self._checkpoint,))))

    def _barrier(self) -> list[Any]:
        """Decide by the records of the round's workers."""
        if self.stage is Stage.WAITING:
            return self._try_start()
        hosts_left = any(not self._is_out(worker.place) for worker in self._workers.round)
        resumes = self._resumes and self._has_run
        outcome = self._registry.outcome(hosts_left=hosts_left, resumes=resumes, counts=not self._void)
        if outcome.decision is Decision.WAIT:
            return []
        if outcome.decision is Decision.FINISH:
            self.stage = Stage.OVER
            return [*self._stop_all("The job has ended well."), Finish()]
        if outcome.decision is Decision.FAIL:
            return self._fail(outcome.reason)
        self.stage, self._paused = Stage.WAITING, ""
        if not self._void:  # else it has not waited for nothing until now
            self._since = self._now
        return self._try_start()

    def _review(self) -> list[Any]:
        """Look whether hosts or slots have changed the decision."""
        return self._try_start() if self.stage is Stage.WAITING else self._announce()

    def _announce(self) -> list[Any]:
        """Tell rank 0 when the next round would have other slots than it believes.

        Once a worker has recorded anything, the round is at its end and the next one takes account of everything.
        """
        if self._registry.begun:
            return []
        coming = [worker.place for worker in self._ranked()]
        return [*self._notices.announce(coming, self._workers.round[0], self._now)]

    def _try_start(self) -> list[Any]:
        """Begin the next round, or pause, or fail."""
        if self._hosts is None:
            return []
        workers = self._workers
        later = self.attempt >= 0
        needed = self._low if later else self._first
        actions = self._give_back(needed) if self._resumes and self._failing else []
        if self.stage is Stage.OVER:
            return actions
        may_resume = self._checkpoint is not None or self._anew
        # nobody holds the state: a new round would train from nothing and look like a success
        if later and not may_resume and not workers.holders & workers.living:
            return self._fail(NO_SURVIVOR)
        ranked = self._ranked()
        if later and self._resumes and len(ranked) < needed:
            # hosts that took no worker are asked again only when there are too few others
            self._blacklist.lift(self._now, silent=True)
            ranked = self._ranked()
        if len(ranked) < needed:
            return actions + self._pause(f"the job has {len(ranked)} of the {needed} slots that it needs")
        resume = later and not workers.holders.intersection(ranked)
        if resume and not may_resume:
            return self._fail(NO_SURVIVOR)
        return actions + self._start(ranked, resume=resume)

    def _give_back(self, needed: int) -> list[Any]:
        """Use failed slots again where workers have failed and the others are too few, or none is left."""
        lost = not self._workers.living
        if not lost and len(self._ranked()) >= needed:
            return []
        self._failing = False
        places, self._places = self._places, set()
        if self._repeats.note(places):
            return self._fail(f"{ALL_FAILED if lost else 'Too few workers are left.'} {REPEATED.capitalize()}.")
        self._blacklist.lift(self._now)
        if not lost:
            return []
        self._anew = True
        begin = "the beginning, as nothing was kept yet" if self._checkpoint is None else "the state that was kept last"
        return [Warn(f"{ALL_FAILED} The job goes on from {begin}.")]

    def _start(self, ranked: tuple[Worker, ...], *, resume: bool) -> list[Any]:
        self.attempt += 1
        places = {worker.place for worker in ranked}
        dismissed = [worker for worker in self._workers.round if worker in self._workers.living.difference(ranked)]
        actions: list[Any] = [_removal(worker) for worker in dismissed]
        # before the round starts: two processes in one slot would share its cores
        for worker in self._workers.occupants(places, ranked):
            actions.append(StopWorker(worker, f"{worker} is stopped: its slot is needed."))
        # a worker that trains is older than one that waits for a free slot, and keeps its rank among those that stay
        self._order = list(dict.fromkeys([worker.address for worker in ranked] + [host.address for host in self._available()]))
        self._workers.begin(ranked, equal=resume or not self.attempt)
        self._notices.begin(places)
        self._registry.begin(ranked)
        self._failing = self._anew = self._void = False
        self._places.clear()
        self.stage, self._paused = Stage.RUNNING, ""
        return [*actions, StartRound(self.attempt, ranked, self._notices.sequence, resume)]

    def _pause(self, reason: str) -> list[Any]:
        if reason == self._paused:
            return []
        self._paused = reason
        return [Pause(f"Training waits: {reason}.")]

    def _fail(self, reason: str) -> list[Any]:
        self.stage = Stage.OVER
        message = f"{reason}\n{self._first_failure}".rstrip()
        return [*self._stop_all("The job has failed."), Fail(message)]

    def _stop_all(self, reason: str) -> list[Any]:
        # fenced ones were stopped when they were given up
        return [StopWorker(worker, reason) for worker in sorted(self._workers.alive - self._workers.fenced)]

    def _is_out(self, place: Place) -> bool:
        return self._blacklist.holds(place[0], self._now) or self._blacklist.holds(place, self._now)

    def _ranked(self) -> tuple[Worker, ...]:
        hosts = self._available()
        out = {place for host in hosts for place in slots_of(host) if self._is_out(place)}
        return assign_ranks(hosts, out, self._workers.living, self._workers.holders, self._max, self.attempt + 1)

    def _available(self) -> list[Host]:
        """List the hosts with slots that may be used now, by age."""
        hosts = [Host(*item) for item in (self._hosts or {}).items()]
        usable = {host.address: host for host in hosts if not all(map(self._is_out, slots_of(host)))}
        return [usable[address] for address in order_hosts(self._order, usable)]


def _removal(worker: Worker) -> RemoveWorker:
    return RemoveWorker(worker, f"{worker} has been removed from elastic job")


_HANDLERS: dict[type, Callable[[ElasticDriver, Any], list[Any]]] = {
    HostsSeen: ElasticDriver._on_hosts,
    DiscoveryFailed: ElasticDriver._on_discovery_failed,
    WorkerReady: ElasticDriver._on_ready,
    WorkerEnded: ElasticDriver._on_ended,
    WorkerStuck: ElasticDriver._on_stuck,
    Notified: ElasticDriver._on_notified,
    CheckpointSeen: ElasticDriver._on_checkpoint,
    Tick: ElasticDriver._on_tick,
}
