"""Round of an elastic job: its workers by rank, their records, and the notices to rank 0."""

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
    """Record of a worker of the round."""

    READY = "ready"  # it lives and asks for the next round
    SUCCESS = "success"  # its function has returned
    FAILURE = "failure"
    REMOVED = "removed"  # it ended after its host was taken away, neither well nor badly


class Decision(enum.Enum):
    """Decision when every worker has recorded."""

    WAIT = "wait"
    FINISH = "finish"
    FAIL = "fail"
    NEXT_ROUND = "next round"


@dataclass(frozen=True)
class Outcome:
    """Decision on a round, and the reason where the job fails."""

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
        """Begin a round of these workers; none has recorded."""
        self._states = dict.fromkeys(workers)

    def record(self, worker: Hashable, state: Recorded) -> bool:
        """Take note of a state. The first one of a worker stays, but one that was READY may still end; True when it is news.

        Workers outside the round count for nothing.

        Args:
            worker: the worker.
            state: its state.
        """
        # a worker that was ready may still fail before the next round begins; other ends are final
        if worker not in self._states or self._states[worker] not in (None, Recorded.READY) or self._states[worker] is state:
            return False
        self._states[worker] = state
        return True

    @property
    def begun(self) -> bool:
        """Whether any worker of the round has recorded."""
        return any(state is not None for state in self._states.values())

    def outcome(self, *, hosts_left: bool, resumes: bool = False, counts: bool = True) -> Outcome:
        """Decide on the round.

        When every worker has recorded: any SUCCESS ends the job well; all FAILURE, or no host left, ends it badly unless it
        resumes; so does the limit of resets; else there is another round, and it is counted.

        Args:
            hosts_left: whether any host of the round is not blacklisted.
            resumes: whether the job goes on from its state on disk.
            counts: whether the round before is counted as a reset.
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
        # a round that never began costs nothing
        self._resets += counts
        return Outcome(Decision.NEXT_ROUND)


class WorkerSet:
    """Workers that were ever started. `round` are those of the last round, by rank.

    A worker is *alive* until its process is known to have ended. One that is *fenced* was given up: its messages do not count.
    """

    def __init__(self) -> None:
        self.round: tuple[Worker, ...] = ()
        self.alive: set[Worker] = set()
        self.fenced: set[Worker] = set()
        self.holders: set[Worker] = set()

    def begin(self, ranked: tuple[Worker, ...], *, equal: bool) -> None:
        """Begin a round of these workers; `equal`: the state that each constructs, or loads, is the job's, so that all of
        them hold it.
        """
        self.round = ranked
        # before their processes exist: a report of a failed start must find them
        self.alive.update(ranked)
        if equal:
            self.holders = set(ranked)

    def counts(self, worker: Worker) -> bool:
        """Tell if `worker` is in the round, lives, and is not given up."""
        return worker in self.round and worker in self.alive and worker not in self.fenced

    @property
    def living(self) -> set[Worker]:
        return {worker for worker in self.round if self.counts(worker)}

    def fence(self, worker: Worker, *, neighbours: bool) -> list[Worker]:
        """Give up a worker, with `neighbours` all others of the round on its host, too; return those that were not given up
        before.
        """
        given_up = {worker, *(other for other in self.round if neighbours and other.address == worker.address)}
        # in the order of the round, so that the same events give the same actions
        fresh = [other for other in self.round if other in given_up and other not in self.fenced]
        self.fenced.update(fresh)
        return fresh

    def has_neighbours(self, worker: Worker) -> bool:
        return any(other.address == worker.address and other != worker for other in self.living)

    def occupants(self, places: Collection[Place], ranked: Collection[Worker]) -> list[Worker]:
        """List living processes in these slots that are none of `ranked`: workers of earlier rounds that have not left."""
        return [worker for worker in sorted(self.alive.difference(ranked)) if worker.place in places]


def assign_ranks(
    hosts: Sequence[Host],
    out: Collection[Place],
    living: Collection[Worker],
    holders: Collection[Worker],
    maximum: int | None,
    attempt: int,
) -> tuple[Worker, ...]:
    """Assign ranks to the workers of a round: one for each slot of the hosts.

    Ranks go host by host; hosts with one of `holders` come first and on each host these come first, so that rank 0, from which
    all take the state, holds it if any does.

    Args:
        hosts: the hosts, by age.
        out: slots that get no worker.
        living: workers that keep their slots; the other slots get new ones.
        holders: workers that hold the state of the training.
        maximum: most workers; None: any number.
        attempt: number of the round, in which new workers are born.
    """
    at = {worker.place: worker for worker in living}
    workers = [at.get(place) or Worker(*place, attempt) for place in deal(hosts, maximum, at, out)]
    age = {host.address: number for number, host in enumerate(hosts)}
    old = {worker.address for worker in workers if worker in holders}
    return tuple(sorted(workers, key=lambda w: (w.address not in old, age[w.address], w not in holders, w.slot)))


REPEAT_SECONDS = 1.0  # until a notice that was not acknowledged is sent again


class HostNotices:
    """Notices of the slots of the coming round, where they differ from those that rank 0 was told of.

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
        """Time at which to look for a repetition, or None."""
        return None if self._unheard is None else self._sent + REPEAT_SECONDS

    def begin(self, places: Collection[Place]) -> None:
        self._told, self._unheard = _by_host(places), None

    def announce(self, places: Collection[Place], rank_zero: Worker, now: float) -> list[NotifyRankZero]:
        """Return the notice that the coming round would have these slots, if that is news; it includes one that was not
        heard.

        Args:
            places: the slots.
            rank_zero: the worker to tell.
            now: monotonic seconds.
        """
        coming = _by_host(places)
        result = classify(self._told, coming)
        if result is HostUpdateResult.no_update:
            return self._repeat(now)
        # both in one, as rank 0 acts on the last number it hears
        if self._unheard is not None:
            result |= self._unheard.result
        self._told = coming
        self.sequence += 1
        self._unheard, self._sent = NotifyRankZero(rank_zero, self.sequence, result), now
        return [self._unheard]

    def heard(self, sequence: int) -> None:
        # an older acknowledgement does not answer a newer notice
        if self._unheard is not None and sequence >= self._unheard.sequence:
            self._unheard = None

    def _repeat(self, now: float) -> list[NotifyRankZero]:
        if self._unheard is None or now < self._sent + REPEAT_SECONDS:
            return []
        self._sent = now
        return [self._unheard]


def _by_host(places: Collection[Place]) -> Counter[Address]:
    return Counter(address for address, _ in places)
