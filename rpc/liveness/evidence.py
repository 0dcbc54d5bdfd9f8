"""What an agent can find out about one of its job processes without its help, and with it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from ..log_parts import last_bytes
from ..logs import clean
from .recorder import STACK_SIGNAL, Reader
from .verdict import LOG_LINES

STACK_SECONDS = 0.3
_POLL_SECONDS = 0.02
_TAIL_BYTES = 16 << 10
_LINE_LENGTH = 400
_DUMP = "Fatal Python error:"
_USER_TIME, _SYSTEM_TIME = 11, 12  # places in /proc/<pid>/stat behind the name


class ProcessStatus(NamedTuple):
    """The state of a process as /proc names it (R, S, D, T, Z...), and the seconds of processor time that it has used."""

    state: str
    seconds: float

    @property
    def is_stopped(self) -> bool:
        """Whether a signal or a debugger has stopped it."""
        return self.state in ("T", "t")


def process_status(pid: int) -> ProcessStatus:
    """How a process is; "" and 0 where that cannot be seen."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        ticks = int(fields[_USER_TIME]) + int(fields[_SYSTEM_TIME])
        return ProcessStatus(fields[0], ticks / os.sysconf("SC_CLK_TCK"))
    return ProcessStatus("", 0.0)


class LogTail(NamedTuple):
    """The last lines of a job's log, fit for a terminal; `dump` is what faulthandler wrote at its end when a signal came."""

    lines: list[str]
    dump: str = ""


def log_tail(path: Path) -> LogTail:
    """Read the end of a log; empty where that cannot be done."""
    data, is_all = last_bytes(path, _TAIL_BYTES)
    lines = data.decode("utf-8", "replace").splitlines()[0 if is_all else 1 :]
    end = next((place for place, line in enumerate(lines) if line.startswith(_DUMP)), len(lines))
    shown = [clean(line, _LINE_LENGTH) for line in lines]
    return LogTail(shown[:end][-LOG_LINES:], "\n".join(shown[end:]))


class StackRequest:
    """Asks a job process for the stacks of its threads, which takes some milliseconds; `deadline` is when to look again."""

    def __init__(self, pid: int, reader: Reader, now: float) -> None:
        self._pid, self._reader = pid, reader
        self._end, self._last = now + STACK_SECONDS, ""
        self.deadline = now
        self.stopped = process_status(pid).is_stopped
        if not self.stopped:
            with contextlib.suppress(OSError):
                os.kill(pid, STACK_SIGNAL)
            self.deadline = now + _POLL_SECONDS

    def answer(self, now: float) -> str | None:
        """The stacks, or why there are none; None while it is too early to say."""
        if self.stopped:
            return "It is stopped by a signal (state T), so it cannot say where it is."
        if now < self.deadline:
            return None
        stack = self._reader.stack()
        if stack and stack == self._last:  # it has written all that it wants to
            return stack
        if now >= self._end:
            state = process_status(self._pid).state or "unknown"
            return stack or f"It did not say where it is within {STACK_SECONDS:g} s (state {state})."
        self._last, self.deadline = stack, min(self._end, now + _POLL_SECONDS)
        return None
