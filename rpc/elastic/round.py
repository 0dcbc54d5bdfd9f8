"""One round of an elastic job: who takes part with which rank, what its workers have come to, and what rank 0 is told."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass

from network.nodes import Address

from .events import NotifyRankZero, Worker
from .hosts import Host, HostUpdateResult, Place, classify, deal

ALL_FAILED = "All workers have failed."


class Recorded(enum.Enum):
    """What a worker of the round has come to."""

    READY = "ready"  # it lives and asks for the next round
    SUCCESS = "success"  # its function has returned
    FAILURE = "failure"
    REMOVED = "removed"  # it ended after its host was taken away, neither well nor badly


class Decision(enum.Enum):
    """What follows when every worker has recorded."""

    WAIT = "wait"
    FINISH = "finish"
    FAIL = "fail"
    NEXT_ROUND = "next round"


@dataclass(frozen=True)
class Outcome:
    """What follows, and why where the job fails."""

    decision: Decision
    reason: str = ""


class Registry:
    """Records of one round after the other; `reset_limit` is how many rounds may follow the first one, None: any number.

    Raises: ValueError for a limit that is no integer of 0 or more.
    """

    def __init__(self, reset_limit: int | None = None) -> None:
        if reset_limit is not None and (isinstance(reset_limit, bool) or not isinstance(reset_limit, int) or reset_limit < 0):
            raise ValueError(f"'reset_limit' must be an integer of 0 or more, or None, got {reset_limit!r}.")
        self._limit = reset_limit
        self._resets = 0
        self._states: dict[Hashable, Recorded | None] = {}

    def begin(self, workers: Iterable[Hashable]) -> None:
        """Begin a round of these workers; nobody has recorded."""
        self._states = dict.fromkeys(workers)

    def record(self, worker: Hashable, state: Recorded) -> bool:
        """Take note of a state. The first one of a worker stays, but who was READY may still end; True when it is news.

        Who is not in the round counts for nothing.
        """
        if worker not in self._states or self._states[worker] not in (None, Recorded.READY) or self._states[worker] is state:
            return False
        self._states[worker] = state
        return True

    @property
    def begun(self) -> bool:
        """Whether any worker of the round has recorded."""
        return any(state is not None for state in self._states.values())

    def outcome(self, *, hosts_left: bool, resumes: bool = False, counts: bool = True) -> Outcome:
        """What follows now. `hosts_left` tells whether any host of the round is not blacklisted.

        When every worker has recorded: any SUCCESS ends the job well; all FAILURE, or no host left, ends it badly unless it
        `resumes` from what is on disk; so does the limit of resets; else there is another round, and it is counted, unless the
        one before was none that `counts`.
        """
        states = list(self._states.values())
        if not states or None in states:
            return Outcome(Decision.WAIT)
        if Recorded.SUCCESS in states:
            return Outcome(Decision.FINISH)
        if not resumes and all(state is Recorded.FAILURE for state in states):
            return Outcome(Decision.FAIL, ALL_FAILED)
        if not resumes and not hosts_left:
            return Outcome(Decision.FAIL, "All hosts have been blacklisted.")
        if counts and self._limit is not None and self._resets >= self._limit:
            return Outcome(Decision.FAIL, f"The number of resets during elastic job exceeded limit: {self._limit}")
        self._resets += counts
        return Outcome(Decision.NEXT_ROUND)


class WorkerSet:
    """Everybody who was ever started. `round` are the workers of the last round, by rank.

    A worker is *alive* until its process is known to have ended. One that is *fenced* was given up: nothing it says counts.
    """

    def __init__(self) -> None:
        self.round: tuple[Worker, ...] = ()
        self.alive: set[Worker] = set()
        self.fenced: set[Worker] = set()
        self.holders: set[Worker] = set()

    def begin(self, ranked: tuple[Worker, ...], *, equal: bool) -> None:
        """A round of these workers begins; `equal`: what they construct, or load, is the state, so that all of them hold it."""
        self.round = ranked
        self.alive.update(ranked)
        if equal:
            self.holders = set(ranked)

    def counts(self, worker: Worker) -> bool:
        """Whether it is in the round, lives, and is not given up."""
        return worker in self.round and worker in self.alive and worker not in self.fenced

    @property
    def living(self) -> set[Worker]:
        return {worker for worker in self.round if self.counts(worker)}

    def fence(self, worker: Worker, *, neighbours: bool) -> list[Worker]:
        """Give up a worker, with `neighbours` all others of the round on its host, too; returns who was not given up before."""
        given_up = {worker, *(other for other in self.round if neighbours and other.address == worker.address)}
        fresh = [other for other in self.round if other in given_up and other not in self.fenced]
        self.fenced.update(fresh)
        return fresh

    def has_neighbours(self, worker: Worker) -> bool:
        return any(other.address == worker.address and other != worker for other in self.living)

    def occupants(self, places: Collection[Place], ranked: Collection[Worker]) -> list[Worker]:
        """Living processes in these slots that are none of `ranked`: workers of earlier rounds that have not left."""
        return [worker for worker in sorted(self.alive.difference(ranked)) if worker.place in places]


def assign_ranks(
    hosts: Sequence[Host],
    out: Collection[Place],
    living: Collection[Worker],
    holders: Collection[Worker],
    maximum: int | None,
    attempt: int,
) -> tuple[Worker, ...]:
    """The workers of a round by rank, at most `maximum`: one for each slot of `hosts`, which come by age, but those in `out`.

    `living` workers keep their slots, the other slots get workers born in this `attempt`. Ranks go host by host; hosts with
    one of `holders`, the workers that hold the state of the training, come first and on each host these come first, so that
    rank 0, from which all take the state, holds it if any does.
    """
    at = {worker.place: worker for worker in living}
    workers = [at.get(place) or Worker(*place, attempt) for place in deal(hosts, maximum, at, out)]
    age = {host.address: number for number, host in enumerate(hosts)}
    old = {worker.address for worker in workers if worker in holders}
    return tuple(sorted(workers, key=lambda w: (w.address not in old, age[w.address], w not in holders, w.slot)))


REPEAT_SECONDS = 1.0  # until a notice that nobody has acknowledged is sent again


class HostNotices:
    """Compares the slots of the coming round with those that rank 0 was told of.

    Notices carry a number and no time, so two of them within a moment, or a clock set back, lose nothing. `sequence` is the
    number of the last one, over all rounds.
    """

    def __init__(self) -> None:
        self.sequence = 0
        self._told: Counter[Address] = Counter()  # slots by host, as rank 0 expects them in the coming round
        self._unheard: NotifyRankZero | None = None
        self._sent = 0.0

    @property
    def deadline(self) -> float | None:
        """When to look for a repetition, or None."""
        return None if self._unheard is None else self._sent + REPEAT_SECONDS

    def begin(self, places: Collection[Place]) -> None:
        self._told, self._unheard = _by_host(places), None

    def announce(self, places: Collection[Place], rank_zero: Worker, now: float) -> list[NotifyRankZero]:
        """The notice that the coming round would have these slots, if that is news; it includes one that was not heard."""
        coming = _by_host(places)
        result = classify(self._told, coming)
        if result is HostUpdateResult.no_update:
            return self._repeat(now)
        if self._unheard is not None:
            result |= self._unheard.result
        self._told = coming
        self.sequence += 1
        self._unheard, self._sent = NotifyRankZero(rank_zero, self.sequence, result), now
        return [self._unheard]

    def heard(self, sequence: int) -> None:
        if self._unheard is not None and sequence >= self._unheard.sequence:
            self._unheard = None

    def _repeat(self, now: float) -> list[NotifyRankZero]:
        if self._unheard is None or now < self._sent + REPEAT_SECONDS:
            return []
        self._sent = now
        return [self._unheard]


def _by_host(places: Collection[Place]) -> Counter[Address]:
    return Counter(address for address, _ in places)
