"""Waiting for the end of a job, and leaving before: what Ctrl-C means, and what is said to that."""

from __future__ import annotations

import logging
from collections.abc import Callable

from network.clock import Clock

from .errors import Deposed
from .interrupts import Interrupts, interrupted
from .logs import clean
from .succession.handover import Handover

LEAVE_SECONDS = 2.0
LOOK_SECONDS = 1.0
ENTRUST_SECONDS = 30.0  # for what agents still lack when the submitter leaves


class Waiting:
    """`step(seconds)` handles what happens next, `is_over()` says whether all is home, `stop(reason)` ends the job."""

    def __init__(
        self,
        job: str,
        step: Callable[[float | None], None],
        is_over: Callable[[], bool],
        stop: Callable[[str], None],
        handover: Handover,
        logger: logging.Logger,
        clock: Clock,
    ) -> None:
        self._job, self._step, self._is_over, self._stop = job, step, is_over, stop
        self._handover, self._logger, self._clock = handover, logger, clock

    def wait(self, interrupts: Interrupts, stop_on_interrupt: bool, look: Callable[[], None] | None) -> None:
        """Until it is over; `look` is called once a second.

        Raises: KeyboardInterrupt when the program leaves, or has stopped the job; Deposed when somebody else drives it.
        """
        stopping = False
        while not self._is_over():
            self._step(None if look is None else LOOK_SECONDS)
            if self._handover.deposed:
                raise Deposed(f"The job is not driven from here any more: {clean(self._handover.deposed)}.")
            if look is not None:
                look()
            if interrupts.take() and not stopping:
                if not (stop_on_interrupt or self._second_interrupt(interrupts)):
                    self._leave()
                    raise interrupted()
                stopping = True
                self._handover.halted = "It was interrupted."
                self._stop(self._handover.halted)
        if stopping:
            raise interrupted()

    def _second_interrupt(self, interrupts: Interrupts) -> bool:
        self._logger.warning("Leaving in %g s; the job goes on. Press Ctrl-C again to stop it on all nodes.", LEAVE_SECONDS)
        deadline = self._clock.monotonic() + LEAVE_SECONDS
        while not self._is_over() and (left := deadline - self._clock.monotonic()) > 0:
            self._step(left)
            if interrupts.take():
                return True
        return False

    def _leave(self) -> None:
        """Wait until the agents have what they need to go on without us, and say how to come back."""
        deadline = self._clock.monotonic() + ENTRUST_SECONDS
        while self._handover.lacking and not self._is_over() and (left := deadline - self._clock.monotonic()) > 0:
            self._step(left)
        if self._handover.lacking:
            lacking = ", ".join(map(str, self._handover.lacking))
            self._logger.warning("Nodes ({%s}) do not have all they need to start the job again without us.", lacking)
        self._logger.warning(
            "The job %s goes on without us%s. 'psgd-submit --attach %s' shows its progress again, '--retrieve %s' fetches its "
            "files, '--stop %s' ends it; in a program, rpc.Reclaimer(com) has follow(), require_client_log() and stop().",
            self._job,
            ", driven by one of its nodes" if self._handover.is_entrusted else "",
            *[self._job] * 3,
        )
