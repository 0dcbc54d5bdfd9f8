"""Completion of a job: waiting for its end, leaving before, and its outcome as far as its driver knows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from network.controller import Controller

from ..errors import Deposed
from ..lease.handoff import HandoffTracker
from ..liveness.limits import HANDOFF_SECONDS, LEAVE_SECONDS
from ..messages import Verdict
from ..support.logs import clean
from .connections import Connections
from .event_loop import EventLoop
from .restarts import Restarts
from .terminal import Interrupts, interrupted, telling


class JobOutcome:
    """Outcome of a coordinator's job, while it runs and afterwards; its attempts follow each other."""

    job: str
    _com: Controller
    _loop: EventLoop
    _restarts: Restarts
    _connections: Connections
    _handoffs: HandoffTracker

    @property
    def failures(self) -> dict[int, tuple[str, str]]:
        return self._loop.failures

    @property
    def connected(self) -> list[int]:
        return self._com.available_clients

    @property
    def known_dead(self) -> set[int]:
        """Nodes whose agents have ended while we were connected with them: they had no other driver."""
        return set(self._loop.known_dead)

    @property
    def halted(self) -> str:
        """Reason for which a user has ended the job for good; "" if none has."""
        return self._handoffs.halted

    @property
    def done(self) -> set[int]:
        return {node for machine in self._loop.machines for node, (state, _) in machine.ended.items() if state == "done"}

    @property
    def verdicts(self) -> list[Verdict]:
        """Verdicts of the failure detector on nodes that did not end well, attempt after attempt; in each the first causes
        come before their consequences.
        """
        return [*self._restarts.verdicts, *self._loop.monitor.causes]

    @property
    def restarts(self) -> int:
        return self._restarts.count

    @property
    def files(self) -> dict[int, list[Path]]:
        return self._loop.downloads.files

    @property
    def unsaved(self) -> dict[int, str]:
        """Nodes that have left files which were not all saved, and why."""
        downloads = self._loop.downloads
        return {**downloads.problems, **downloads.missing}

    @property
    def remedy(self) -> str:
        """Sentence on the way to files without room on the disk of this program, "" where there are none."""
        return self._loop.downloads.remedy(self.job)

    @property
    def bytes_sent(self) -> int:
        return self._com.bytes_sent + self._connections.process_bytes[0]

    @property
    def bytes_read(self) -> int:
        return self._com.bytes_read + self._connections.process_bytes[1]


LOOK_SECONDS = 1.0  # from one call of `look` to the next


class EndOfJob:
    """End of a job, awaited by steps of `loop` until all files are home.

    Attributes: `pressed`, whether Ctrl-C has come too late for the program to leave the job, which has ended by itself.
    """

    def __init__(self, job: str, loop: EventLoop, logger: logging.Logger) -> None:
        self._job, self._loop, self._handoffs, self._logger = job, loop, loop.handoffs, logger
        self.pressed = False

    def wait(self, interrupts: Interrupts, stop_on_interrupt: bool, look: Callable[[], None] | None) -> None:
        """Wait until the job is over.

        Args:
            interrupts: Ctrl-C as an event.
            stop_on_interrupt: whether the first Ctrl-C stops the job.
            look: called once a second.

        Raises: KeyboardInterrupt when the program leaves, or has stopped the job; Deposed when another driver drives it.
        """
        stopping = False
        while not self._loop.all_home:
            self._loop.step(None if look is None else LOOK_SECONDS)
            # at once: two drivers must not give orders
            if self._handoffs.deposed:
                raise Deposed(f"The job is not driven from here any more: {clean(self._handoffs.deposed)}.")
            if look is not None:
                look()
            if interrupts.take() and not stopping:
                if not (stop_on_interrupt or self._second_interrupt(interrupts)):
                    if self._loop.all_home:
                        self.pressed = True
                        return
                    self._leave()
                    raise interrupted()
                stopping = True
                # before the order to stop: no restart may begin between the two
                self._handoffs.halted = "It was stopped by Ctrl-C."
                self._loop.stop(self._handoffs.halted, is_wanted=True)
        # only now: the files of the stopped job are home
        if stopping:
            with telling("The job", self._logger):
                raise KeyboardInterrupt

    def _second_interrupt(self, interrupts: Interrupts) -> bool:
        self._logger.warning("Leaving in %g s; the job goes on. Press Ctrl-C again to stop it on all nodes.", LEAVE_SECONDS)
        pressed = False

        def over() -> bool:
            nonlocal pressed
            pressed = pressed or interrupts.take()  # which tells of each Ctrl-C once
            return pressed or self._loop.all_home

        self._loop.step_until(over, LEAVE_SECONDS)
        return pressed

    def _leave(self) -> None:
        """Wait until the agents have all they need to go on without us, and say how to come back."""
        # the manifest may be large, and it is the last chance to hand it on
        self._loop.step_until(lambda: not self._handoffs.lacking or self._loop.all_home, HANDOFF_SECONDS)
        if self._handoffs.lacking:
            lacking = ", ".join(map(str, self._handoffs.lacking))
            self._logger.warning("Nodes ({%s}) do not have all they need to start the job again without us.", lacking)
        self._logger.warning(
            "The job %s goes on without us%s. 'psgd attach %s' shows its progress again, 'psgd fetch %s' fetches its "
            "files, 'psgd stop %s' ends it; in a program, rpc.Reclaimer(com) has follow(), require_client_log() and stop().",
            self._job,
            ", driven by one of its nodes" if self._handoffs.is_handed_off else "",
            *[self._job] * 3,
        )
