"""Logs of an agent: its own, the audit log, the events of a job, and a limit of the lines that a peer can cause."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from network.clock import Clock
from network.errors import ProtocolError

from ..liveness.recorder import Signal
from ..messages import Verdict, parse
from ..support.disk import at_disk
from ..support.files import append
from ..support.logs import clean
from ..verdict import BY_DRIVER

EVENT_LOG: Final = "events.jsonl"
MAX_EVENT_BYTES: Final = 4 << 20
"""Size beyond which events are left out; a job has some ten events per attempt."""


class EventLog:
    """Log of one attempt's events, `folder/events.jsonl`, readable by its owner only; times in seconds since 1970.

    A full disk does not keep the agent from serving: events that cannot be written are left out.

    Args:
        folder: of the job.
        attempt: its number.
        clock: returns seconds since 1970.
        monotonic: returns the seconds of signals.
    """

    def __init__(
        self,
        folder: Path,
        attempt: int,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = folder / EVENT_LOG
        self._attempt = attempt
        self._clock, self._monotonic = clock, monotonic

    def note(self, event: str, **fields: Any) -> None:
        """Write that `event` has happened just now; `fields` are data that JSON knows."""
        self._write([self._entry(self._clock(), event, fields)])

    def note_signals(self, signals: Iterable[Signal]) -> None:
        """Write the last signals of the process, each at its time."""
        now, ticks = self._clock(), self._monotonic()
        self._write(self._entry(now - (ticks - signal.time), "signal", _told(signal)) for signal in signals)

    def _entry(self, at: float, event: str, fields: dict[str, Any]) -> str:
        # a time of day: several machines' events are laid side by side
        return json.dumps({"time": round(at, 4), "attempt": self._attempt, "event": event, **fields}) + "\n"

    @at_disk
    def _write(self, lines: Iterable[str]) -> None:
        size = 0
        with contextlib.suppress(OSError):
            # lstat: a job that replaces the file by a link must not lead the agent elsewhere
            size = self._path.lstat().st_size
        kept = []
        for line in lines:
            # the limit leaves out what is too large, not all that follows: later events are often short
            if size + len(line) <= MAX_EVENT_BYTES:
                kept.append(line)
                size += len(line)
        with contextlib.suppress(OSError):
            append(self._path, "".join(kept))


def note_verdicts(folder: Path, job: str, report: str) -> None:
    """Note the verdicts of a driver, a text in JSON, that no agent could find by itself, for people who look at the job."""
    try:
        found = json.loads(report)
    except (ValueError, RecursionError):
        found = []
    for told in found if isinstance(found, list) else ():
        try:
            verdict = parse({"op": "Verdict", **told}, (Verdict,))
        except (TypeError, ProtocolError):  # of another release
            continue
        if isinstance(verdict, Verdict) and verdict.job == job and verdict.kind in BY_DRIVER:
            fields = {name: value for name, value in asdict(verdict).items() if name != "attempt"}
            EventLog(folder, verdict.attempt).note("verdict", **fields)


def _told(signal: Signal) -> dict[str, str | int]:
    """Describe a signal; epoch and batch are counted from 1 as people do."""
    return {"kind": signal.kind.name, "epoch": signal.epoch + 1, "batch": signal.batch + 1}


MAX_AUDIT_BYTES = 10 << 20
"""Size at which the log moves to `audit.jsonl.1`, over the one before; strangers cannot fill the disk."""


class SecurityLog:
    """Audit log at `path`, which only its owner can read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @at_disk
    def write(self, event: str, detail: str) -> None:
        """Write `event`; `detail`, which may come from peers, is cleaned and cut. A full disk must not end the agent."""
        entry = {"time": round(time.time(), 3), "event": event, "detail": clean(detail)}
        with contextlib.suppress(OSError):
            if append(self._path, json.dumps(entry) + "\n") > MAX_AUDIT_BYTES:
                # one old file is kept, so a flood of strangers costs at most twice the limit
                os.replace(self._path, self._path.with_name(f"{self._path.name}.1"))


KEPT = 20
_STAMP = "%Y-%m-%d %H%M"


def new_log(folder: Path, name: str) -> Path:
    """Return the log file of an agent that starts now; the oldest files beyond those that are kept are removed."""
    # at the start: an agent that runs for months has one file
    for path in sorted(folder.glob("*.log*"), key=_last_written)[: -KEPT + 1]:
        path.unlink(missing_ok=True)
    return folder / f"{name} {time.strftime(_STAMP)}.log"


@at_disk
def logs_between(folder: Path, begin: float, end: float) -> list[Path]:
    """List the files that were written while a job ran, oldest first; times in seconds since 1970.

    Args:
        folder: that of the agent's logs.
        begin: start of the job.
        end: its end.
    """
    found = [path for path in folder.glob("*.log*") if _last_written(path) >= begin and _begun(path) <= end]
    return sorted(found, key=_last_written)


def _last_written(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _begun(path: Path) -> float:
    """Return when the agent that wrote `path` was started: its name says it, to the minute."""
    stamp = path.name.partition(".log")[0].rpartition(" ")
    day = stamp[0].rpartition(" ")[2]
    with contextlib.suppress(ValueError, OverflowError):
        return time.mktime(time.strptime(f"{day} {stamp[2]}", _STAMP))
    return 0.0


LINES_PER_PEER = 10
LINES_IN_ALL = 100
WINDOW_SECONDS = 60.0


class RateLimit:
    """Limit of lines per peer host and window; the number left out is told when the window ends and another line comes.

    Attributes: `left_out`, how many in all.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._end = clock.monotonic() + WINDOW_SECONDS
        self._lines: Counter[str] = Counter()
        self._untold = 0  # of those left out
        self.left_out = 0

    def pass_on(self, peer: str, line: str) -> list[str]:
        """Return the lines to write now that `peer` (an address) caused `line`: usually that one, none in a flood."""
        lines = self._turn_window()
        host = peer.rpartition(":")[0] or peer  # by host: each connection has another port
        # in all, too: a flood may come from many addresses
        if self._lines[host] >= LINES_PER_PEER or self._lines.total() >= LINES_IN_ALL:
            self._untold += 1
            self.left_out += 1
            return lines
        self._lines[host] += 1
        return [*lines, line]

    def _turn_window(self) -> list[str]:
        now = self._clock.monotonic()
        if now < self._end:
            return []
        self._end = now + WINDOW_SECONDS
        self._lines.clear()
        left_out, self._untold = self._untold, 0
        return [f"{left_out} more lines of this kind were left out."] if left_out else []
