"""The submitter of a simulation: attempt after attempt, as its policy says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from network.nodes import NodeAssignment
from parallel_sgd.driver.membership import SameNodes, Survivors
from parallel_sgd.errors import JobFailed, places_of
from rpc.submit.recovery import AGAIN, SHRINK, Recovery

from .attempt import SimAttempt

if TYPE_CHECKING:
    from .life import Life

RETURN_SECONDS, PAUSE_SECONDS = 30.0, 0.5
MOST_RESTARTS = 3


class SimSubmitter:
    """`verdict` is "" until the job is over for it, then "completed" or "failed: " and why; `files` are here by then.

    `attempts` is how many there have been, `was_killed` whether it died before it knew.
    """

    def __init__(self, life: Life, job: str) -> None:
        self.life, self.job = life, job
        self.verdict = ""
        self.verdict_at = 0.0
        self.was_killed = False
        self.attempts = 0
        nodes = NodeAssignment()
        for node in life.nodes:
            nodes.add(node, f"host{node}" if node >= 0 else "hostps")
        self._membership = Survivors(nodes, 1) if life.policy == SHRINK else SameNodes(nodes)
        self._recovery = Recovery(life.policy, MOST_RESTARTS)
        self._patience_until: float | None = None  # until when a failed submission is tried again
        self._pause_until: float | None = None
        self._attempt: SimAttempt | None = None

    def begin(self) -> None:
        """The next attempt."""
        number, self.attempts, self._pause_until = self.attempts, self.attempts + 1, None
        nodes = dict(self._membership.nodes.items())
        self._attempt = SimAttempt(self.life, self.job, number, nodes, self.life.policy in AGAIN)
        self._go_on()

    def take(self, source: str, message: Any) -> None:
        if self._attempt is not None and not self.verdict and self._pause_until is None:
            self._attempt.take(source, message)
            self._go_on()

    def tick(self) -> None:
        if self._pause_until is not None:
            self.begin()
        elif self._attempt is not None:
            self._attempt.tick()
            self._go_on()

    @property
    def deadline(self) -> float | None:
        if self.verdict or self._attempt is None:
            return None
        return self._pause_until if self._pause_until is not None else self._attempt.deadline

    @property
    def runs(self) -> bool:
        """Whether all nodes have started."""
        return self._attempt is not None and self._attempt.runs

    @property
    def files(self) -> dict[int, list[Path]]:
        return {} if self._attempt is None else self._attempt.downloads.files

    def _go_on(self) -> None:
        attempt = self._attempt
        if attempt is None:
            return
        if attempt.runs:
            self._patience_until = None
        if attempt.problem is not None:
            self._not_started(attempt, attempt.problem)
        elif attempt.has_ended and not attempt.failures:
            self._end(attempt, "completed")
        elif attempt.has_ended:
            self._settle(attempt)

    def _not_started(self, attempt: SimAttempt, problem: Exception) -> None:
        """The attempt could not begin: the first ends the job, a later one is tried again for a while."""
        if attempt.attempt and self._patience_until is None:
            self._patience_until = self.life.now + RETURN_SECONDS
        if self._patience_until is not None and self.life.now < self._patience_until:
            attempt.hang_up()
            self._pause_until = self.life.now + PAUSE_SECONDS
        else:
            self._end(attempt, f"failed: {problem}")

    def _settle(self, attempt: SimAttempt) -> None:
        failed = JobFailed(attempt.failures, {}, self.job, attempt.monitor.causes)
        reason = self._recovery.give_up(places_of(failed)) or self._membership.settle(failed)
        if reason:
            self._end(attempt, f"failed: {failed} {reason}")
            return
        attempt.hang_up()
        self.begin()

    def _end(self, attempt: SimAttempt, verdict: str) -> None:
        attempt.hang_up()
        self.verdict, self.verdict_at = verdict, self.life.now
        self.life.later(0.0, self._leave)

    def _leave(self) -> None:
        if self.life.actors["S"] is self:
            self.life.die("S")

    def close(self) -> None:
        """It dies."""
        self.was_killed = not self.verdict
        if self._attempt is not None:
            self._attempt.downloads.close()

    def forget(self) -> None:
        """Nothing else is held."""
