"""What tasks print and log, on its way to the submitter, as far as `OUTPUT_BYTES` of each task.

`TaskOutput` stands before `sys.stdout` and `sys.stderr`, and is a handler of all loggers. What is written while a task runs,
also by its threads, is that task's; the log of the job has it as well.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO

from .messages import OUTPUT_BYTES, STDERR, STDOUT

LONG_LINE = 8192  # characters that wait for their end


class TaskOutput(logging.Handler):
    """Catches what the running task writes; `say(task, kind, name, text)` is told of whole lines, in UTF-8."""

    def __init__(self, say: Callable[[int, int, str, bytes], None], limit: int = OUTPUT_BYTES) -> None:
        super().__init__()
        self._say, self._limit = say, limit
        self._guard = threading.RLock()
        self._task: int | None = None
        self._left = self._dropped = 0
        self._begun = {STDOUT: "", STDERR: ""}  # lines without an end

    def install(self) -> None:
        """Catch from now on what this process writes."""
        sys.stdout, sys.stderr = _Tee(sys.stdout, STDOUT, self.write), _Tee(sys.stderr, STDERR, self.write)
        logging.getLogger().addHandler(self)
        os.register_at_fork(after_in_child=self._leave_child)

    def begin(self, task: int) -> None:
        """What is written is this task's."""
        self._left, self._dropped, self._task = self._limit, 0, task

    def end(self) -> None:
        """The task has ended: tell the rest."""
        with self._guard:
            for kind, text in self._begun.items():
                if text:
                    self._tell(kind, "", text)
                    self._begun[kind] = ""
            if self._dropped and self._task is not None:
                note = f"\n({self._dropped} bytes more are in the log of the job only)\n"
                self._say(self._task, STDERR, "", note.encode())
            self._task = None

    def write(self, kind: int, text: str) -> None:
        """Text on stdout or stderr, from any thread."""
        with self._guard:
            if self._task is None:
                return
            lines, end, rest = (self._begun[kind] + text).rpartition("\n")
            if len(rest) > LONG_LINE:
                lines, end, rest = f"{lines}{end}{rest}", "", ""
            self._begun[kind] = rest
            if lines or end:
                self._tell(kind, "", lines + end)

    def emit(self, record: logging.LogRecord) -> None:
        """One record of any logger; from the thread that does the talking, none is a task's."""
        if self._task is None or record.threadName == "desk":
            return
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001  arguments that do not fit: the handler of the log says so
            return
        with self._guard:
            self._tell(max(record.levelno, STDERR + 1), record.name, text)

    def _tell(self, kind: int, name: str, text: str) -> None:
        if self._task is None:
            return
        raw = text.encode("utf-8", "backslashreplace")
        self._dropped += max(0, len(raw) - self._left)
        shown = raw if len(raw) <= self._left else _whole(raw[: self._left])
        self._left -= min(len(raw), self._left)
        if shown:
            self._say(self._task, kind, name[:200].encode("utf-8", "backslashreplace").decode(), shown)

    def _leave_child(self) -> None:
        """In a process that a task has forked nobody sends anything; it still writes into the log."""
        self._guard, self._task = threading.RLock(), None


def _whole(cut: bytes) -> bytes:
    """UTF-8 without the character that was cut at its end."""
    return cut.decode("utf-8", "ignore").encode()


class _Tee:
    """A stream that tells what is written; in all else the one before which it stands."""

    def __init__(self, stream: TextIO, kind: int, told: Callable[[int, str], None]) -> None:
        self._stream, self._kind, self._told = stream, kind, told

    def write(self, text: str) -> int:
        """As the stream does."""
        count = self._stream.write(text)
        self._told(self._kind, text)
        return count

    def writelines(self, lines: Any) -> None:
        """As the stream does."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Any:
        return iter(self._stream)
