"""Monitor of one job process at its agent: reads the recorder, warns, sends heartbeats, gives its verdict."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from pathlib import Path
from typing import NamedTuple

from ..agent.output import last_bytes
from ..machine import Tick
from ..messages import CanCommit, Notice, Operation, Verdict
from ..support.logs import clean
from ..verdict import LOG_LINES
from .heartbeat import Place, Pulse, process_status, this_host
from .limits import (
    LATE_SECONDS,
    LEAST_LOOK_SECONDS,
    RECOVERY_SECONDS,
    STACK_LOOK_SECONDS,
    STACK_SECONDS,
    STOPPED_SECONDS,
    Limits,
    Phase,
)
from .recorder import STACK_SIGNAL, Reader, Signal
from .stall_detector import Declare, Signs, StallDetector, Unseen, Warn, Withdraw

_MOST_READ = 64  # signals per look: the newest of a fast program tell all that matters
_MOST_TRACE = 16 << 10
_REMEMBERED = 64  # signals, for a later search for the cause


class ProcessMonitor:
    """Monitor, made before the process is started; `deadline` is when to call `look` again.

    Attributes: `verdict`, once there is one; `condemned`, why the process must be ended, or ""; `recent`, the signals that were
    read last.

    Args:
        order: the order of the submitter, with the limits.
        reader: of the process's recorder.
        log: the job's log.
        now: monotonic seconds.
    """

    def __init__(self, order: CanCommit, reader: Reader, log: Path, now: float) -> None:
        self._order, self._reader, self._log = order, reader, log
        self._watch = StallDetector(Limits(order.stall, order.begin, order.between, order.save), now)
        self._pulse = Pulse(order.job, order.node, order.attempt, self._watch, reader, now)
        self._pid = 0
        self.deadline = self._looked = now
        self._declared: Declare | None = None
        self._dump: StackDump | None = None
        self.verdict: Verdict | None = None
        self.condemned = ""
        self.recent: deque[Signal] = deque(maxlen=_REMEMBERED)

    def begin(self, pid: int) -> None:
        self._pid = pid

    def look_at_start(self, now: float) -> list[Operation]:
        """Look as `look` does, before the executor starts: nothing is signalled yet, but a process that works, or is
        stopped, is seen.
        """
        if now < self.deadline:
            return []
        seen = self._pulse.see(self._pid)
        if self._pulse.stopped >= STOPPED_SECONDS:
            self.condemned = f"Its process was stopped by a signal (state T) for {STOPPED_SECONDS:g} s."
        told = self._pulse.heartbeat(self._place, now, seen)
        self.deadline, self._looked = self._pulse.due, now
        return [told]

    def look(self, now: float, leaving: bool = False) -> list[Operation]:
        """Read the signals of the process up to `now`; return the messages for subscribers, a verdict last.

        Of a process that is `leaving` only the heartbeats are told.
        """
        if now < self.deadline:
            return []
        leaving = leaving or self.verdict is not None
        told = [] if leaving else self._watch_over(now)
        if now >= self._pulse.due:
            told.insert(0, self._pulse.heartbeat(self._place, now))
        self.deadline, self._looked = self._pulse.due if leaving else self._next_look(now), now
        return told

    def keep_alive(self, now: float) -> list[Operation]:
        """Return the heartbeat that is due at `now`, while nothing else can be done: the newest one again, without waits,
        which may be over.
        """
        return [self._pulse.again(now) or self._pulse.heartbeat(self._place, now)] if now >= self._pulse.due else []

    def farewell(self, now: float) -> list[Operation]:
        """Return the last messages about a process that has ended well: a warning to be withdrawn."""
        return [self._notice(action) for action in self._read(now) if isinstance(action, Withdraw)]

    def _watch_over(self, now: float) -> list[Operation]:
        told: list[Operation] = []
        for action in self._read(now):
            if isinstance(action, Declare):
                # not condemned yet: the stacks take some milliseconds to come
                self._declared, self._dump = action, StackDump(self._pid, self._reader, now)
            elif isinstance(action, (Warn, Withdraw)):
                told.append(self._notice(action))
        # once a heartbeat: a look at /proc costs more than one at the recorder
        if self._order.standstill and self._declared is None and now >= self._pulse.due:
            self._look_if_stopped(now)
        stack = None if self._dump is None else self._dump.answer(now)
        if self._declared is not None and stack is not None:
            told.append(self._condemn(self._declared, stack, now))
        return told

    def _read(self, now: float) -> list[object]:
        watch = self._watch
        signs = self._reader.signs(now)  # before the signals: a sign is no older than the signal before it
        actions = self.catch_up(now)
        actions += watch.handle(Signs(*signs), now)
        # the whole machine may have been suspended: what this agent did not see is no silence
        if now - self.deadline > LATE_SECONDS:
            watch.handle(Unseen(now - self._looked), now)
        return actions + watch.handle(Tick(), now)

    def _look_if_stopped(self, now: float) -> None:
        """Declare a stopped process: the one silence that cannot be mistaken for work: a process that computes for an hour,
        or holds Python's lock for as long, runs, sleeps or waits for a disk, in any state of its threads; one that was sent
        SIGSTOP does not.
        """
        watch, pulse, limit = self._watch, self._pulse, self._order.standstill
        if pulse.see(self._pid).state == "t":
            pulse.stopped = 0.0  # by a debugger, whose user wants it to stand still
        if pulse.stopped >= limit:
            self._declared = Declare(watch.phase, watch.epoch, watch.batch, pulse.stopped, limit)
            self._dump = StackDump(self._pid, self._reader, now)

    def _next_look(self, now: float) -> float:
        looks = [self._pulse.due, now + max(LEAST_LOOK_SECONDS, self._watch.step_limit / 2)]
        if self._dump is not None:
            looks.append(self._dump.deadline)
        if self._watch.warned:
            looks.append(now + RECOVERY_SECONDS)
        if self._watch.deadline is not None:
            looks.append(self._watch.deadline)
        return min(looks)

    @property
    def heartbeat_at(self) -> float:
        """Time of the newest heartbeat, before the first one that of the start (monotonic seconds)."""
        return self._pulse.newest

    @property
    def sign_at(self) -> float | None:
        """Time of the newest sign of work (monotonic seconds), None of a process that gives none now."""
        return None if self._watch.phase is Phase.UNWATCHED else self._watch.silent_since

    # ---- its messages

    @property
    def _place(self) -> Place:
        return this_host(), self._pid, self._watch.phase.value, self._watch.epoch, self._watch.batch

    def _notice(self, found: Warn | Withdraw) -> Notice:
        order, kind = self._order, "warned" if isinstance(found, Warn) else "recovered"
        return Notice(order.job, order.node, order.attempt, kind, found.phase.value, found.epoch, found.batch, found.silent)

    def _condemn(self, found: Declare, stack: str, now: float) -> Verdict:
        stopped = self._dump is not None and self._dump.stopped
        signals = self._watch.phase is not Phase.UNWATCHED
        # silence went on while the stacks were awaited
        silent = max(found.silent, now - self._watch.silent_since) if signals else found.silent
        detail = f"The limit was {found.limit:.3g} s."
        self.verdict = self._verdict(
            "stuck", silent, f"{detail} {stack}" if stopped else detail, "" if stopped else stack, log_tail(self._log).lines
        )
        self.condemned = self.verdict.reason
        return self.verdict

    def catch_up(self, now: float) -> list[object]:
        """Read the signals of the process, also of one that has ended; return the actions that follow for one that has not."""
        actions: list[object] = []
        for signal in self._reader.read(now, _MOST_READ):
            self.recent.append(signal)
            actions += self._watch.handle(signal, now)
        return actions

    def failed(self, now: float, detail: str, code: int | None, exit_code: int) -> Verdict:
        """Return the verdict on a process that has ended badly: `detail` is the traceback, or how it ended; `code` is its
        return code, `exit_code` the argument of the executor's sys.exit, or -1.
        """
        # its last words are in the memory still, though it has ended
        self.catch_up(now)
        by_signal = -code if code is not None and code < 0 else 0
        if code is not None and code > 0 and exit_code < 0:
            exit_code = code  # os._exit, or an end that no report went before
        kind = "crashed" if exit_code < 0 else "exited"
        log = log_tail(self._log)
        words = "" if by_signal else detail.strip().rpartition("\n")[2]
        # a traceback that came with the report, else what faulthandler has left in the log
        trace = detail[-_MOST_TRACE:] if "\n" in detail.strip() else log.dump
        silent = max(0.0, now - self._watch.silent_since)
        self.verdict = self._verdict(kind, silent, words[:400], trace, log.lines, exit_code, by_signal)
        return self.verdict

    def _verdict(
        self, kind: str, seconds: float, detail: str, trace: str, log: list[str], exit_code: int = -1, number: int = 0
    ) -> Verdict:
        order, work = self._order, self._reader.work()
        how = (*self._place, seconds, detail, exit_code, number, trace, log, work)
        return Verdict(order.job, order.node, order.attempt, kind, *how)

    def close(self) -> None:
        self._reader.close()


_TAIL_BYTES = 16 << 10
_LINE_LENGTH = 400
_DUMP = "Fatal Python error:"


class LogTail(NamedTuple):
    """Last lines of a job's log, fit for a terminal; `dump` is the text of faulthandler at its end when a signal came."""

    lines: list[str]
    dump: str = ""


def log_tail(path: Path) -> LogTail:
    """Read the end of a log; empty where that cannot be done."""
    data, is_all = last_bytes(path, _TAIL_BYTES)
    # the first line may begin in its middle
    lines = data.decode("utf-8", "replace").splitlines()[0 if is_all else 1 :]
    end = next((place for place, line in enumerate(lines) if line.startswith(_DUMP)), len(lines))
    shown = [clean(line, _LINE_LENGTH) for line in lines]
    return LogTail(shown[:end][-LOG_LINES:], "\n".join(shown[end:]))


class StackDump:
    """Request to a job process for the stacks of its threads, which takes some milliseconds; `deadline` is when to look
    again.

    Args:
        pid: process id.
        reader: the recorder, behind whose signals the stacks come.
        now: monotonic seconds.
    """

    def __init__(self, pid: int, reader: Reader, now: float) -> None:
        self._pid, self._reader = pid, reader
        self._end, self._last = now + STACK_SECONDS, ""
        self.deadline = now
        self.stopped = process_status(pid).is_stopped
        # a stopped process would write them when it goes on, in the middle of something else
        if not self.stopped:
            with contextlib.suppress(OSError):
                os.kill(pid, STACK_SIGNAL)
            self.deadline = now + STACK_LOOK_SECONDS

    def answer(self, now: float) -> str | None:
        """Return the stacks, or why there are none; None while it is too early to say."""
        if self.stopped:
            return "It is stopped by a signal (state T), so it cannot say where it is."
        if now < self.deadline:
            return None
        stack = self._reader.stack()
        # the same at two looks: threads are written one after the other
        if stack and stack == self._last:  # it has written all that it wants to
            return stack
        if now >= self._end:
            state = process_status(self._pid).state or "unknown"
            return stack or f"It did not say where it is within {STACK_SECONDS:g} s (state {state})."
        self._last, self.deadline = stack, min(self._end, now + STACK_LOOK_SECONDS)
        return None
