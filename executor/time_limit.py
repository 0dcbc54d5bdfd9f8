"""How a task that takes too long is ended: interrupted where it is, and if that does not help, with its process.

The interruption is a KeyboardInterrupt in the main thread, by a real signal, so that a task that sleeps or waits for bytes
hears of it. What holds Python's lock hears nothing: a thread of `faulthandler`, which does not need it, ends the process.
"""

from __future__ import annotations

import faulthandler
import signal
import threading
import time
from types import FrameType

GRACE_SECONDS = 2.0  # for a task to end after it was interrupted


class TimeLimit:
    """Of the running task. The main thread begins and ends it, another one calls `look` at `deadline` (monotonic)."""

    def __init__(self) -> None:
        self.deadline: float | None = None
        self._task: int | None = None
        self._overdue: int | None = None  # was sent a signal, which has not come yet
        self._hit: int | None = None
        self._main = threading.main_thread().ident

    def install(self) -> None:
        """In the main thread: a late interruption must not hit the next task."""
        signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        overdue, self._overdue = self._overdue, None
        if overdue is None or overdue == self._task:
            self._hit = overdue
            raise KeyboardInterrupt

    def begin(self, task: int, seconds: float) -> None:
        """The main thread begins a task."""
        faulthandler.dump_traceback_later(seconds + GRACE_SECONDS, exit=True)
        self._task, self.deadline = task, time.monotonic() + seconds

    def end(self) -> None:
        """The task has ended."""
        self._task = self.deadline = None
        faulthandler.cancel_dump_traceback_later()

    def has_hit(self, task: int) -> bool:
        """Whether this task was interrupted."""
        return self._hit == task

    def look(self) -> None:
        """Interrupt the task if its time is over."""
        task, deadline = self._task, self.deadline
        if task is not None and deadline is not None and time.monotonic() >= deadline and self._main is not None:
            self._overdue, self.deadline = task, None
            signal.pthread_kill(self._main, signal.SIGINT)

    @property
    def left(self) -> float | None:
        """Seconds until the next look."""
        deadline = self.deadline
        return None if deadline is None else max(0.0, deadline - time.monotonic())
