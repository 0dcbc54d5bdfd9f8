"""What the workers of a round have come to, and what follows once all of them have: the barrier between rounds."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

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

    def state(self, worker: Hashable) -> Recorded | None:
        """What a worker has recorded in this round, if anything."""
        return self._states.get(worker)

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
