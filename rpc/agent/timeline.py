"""What happened to a job on this node, for whoever looks for the cause later: a line of JSON per event in the job's folder."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from ..files import append
from ..liveness.recorder import Signal

TIMELINE: Final = "events.jsonl"
MAX_BYTES: Final = 4 << 20
"""What comes after so much is left out; a job has some ten events per attempt."""


class Timeline:
    """Appends events of one attempt to `folder/events.jsonl`, readable by its owner only; times in seconds since 1970.

    A full disk does not keep the agent from serving: what cannot be written is left out.
    """

    def __init__(
        self,
        folder: Path,
        attempt: int,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = folder / TIMELINE
        self._attempt = attempt
        self._clock, self._monotonic = clock, monotonic

    def note(self, event: str, **fields: Any) -> None:
        """Something has happened just now; `fields` are data that JSON knows."""
        self._write([self._entry(self._clock(), event, fields)])

    def note_signals(self, signals: Iterable[Signal]) -> None:
        """The last that the process has signalled, each at its time."""
        now, ticks = self._clock(), self._monotonic()
        self._write(self._entry(now - (ticks - signal.time), "signal", _told(signal)) for signal in signals)

    def _entry(self, at: float, event: str, fields: dict[str, Any]) -> str:
        return json.dumps({"time": round(at, 4), "attempt": self._attempt, "event": event, **fields}) + "\n"

    def _write(self, lines: Iterable[str]) -> None:
        size = 0
        with contextlib.suppress(OSError):
            size = self._path.lstat().st_size
        kept = []
        for line in lines:
            if size + len(line) <= MAX_BYTES:
                kept.append(line)
                size += len(line)
        with contextlib.suppress(OSError):
            append(self._path, "".join(kept))


def _told(signal: Signal) -> dict[str, str | int]:
    """What it says; epoch and batch are counted from 1 as people do."""
    return {"kind": signal.kind.name, "epoch": signal.epoch + 1, "batch": signal.batch + 1}
