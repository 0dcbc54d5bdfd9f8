"""Messages between the submitter and a node about tasks: short lists that begin with a word; and the output of tasks, on its
way into such messages.

to a node:    ["code", function, objects, code]   ["run", [[task, function, many, tree, arrays, limit], ...]]
              ["back", [task, ...]]   ["forget", [function, ...]]   ["hold", number, tree, arrays]   ["drop", [number, ...]]
              ["room", bytes]   ["clear", [shelf, ...]]   ["listen"]   ["initializer", objects, code, tree, arrays]   ["end"]
from a node:  ["done", [[task, kind, seconds, tree, arrays], ...]]   ["back", [task, ...]]
              ["said", [[task, kind, name, text], ...]]

`tree` and `arrays` are a `Payload`: a list of arguments, or a tuple (args, kwargs), or with `many` a list of tuples of
arguments, to call the function with each. `limit` is how many seconds that may take, 0 for no limit. The code of a function
comes before its first task. `kind` is RESULT or FAILURE; or PICKLED, which only a submitter that trusts the nodes takes: a
pickle, and the memory of the arrays in it; or BROKEN, for the exception of the initializer. Tasks are executed in the order of
sending. "back" asks for tasks, and each time is answered with those of them that have not begun, and now will not.

After "listen" a node sends the output of its tasks: `kind` is STDOUT, STDERR or the level of a record of the logger `name`;
`text` is in UTF-8, as bytes, which beyond 4 KiB travel as arrays do: a task's output in one go may be longer than a frame's
meta.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

from network.errors import ProtocolError

RESULT, FAILURE, PICKLED, BROKEN = 0, 1, 2, 3
STDOUT, STDERR = 0, 1
MOST_LEVEL = 1 << 20  # of a record
OUTPUT_BYTES = 1 << 20  # of the output of one task, about; later output is counted only
_MOST_TEXT = OUTPUT_BYTES + 4096  # bytes of one text, which may have a note at its end
BATCH_TASKS = 64  # at most in one message, and
BATCH_BYTES = 256 << 10  # of trees, about, so that a message stays within the limits of a frame's meta


class Done(NamedTuple):
    """Finished task.

    Args:
        task: its number.
        kind: RESULT, FAILURE, PICKLED or BROKEN.
        seconds: its duration.
        tree: its result or exception, as in `Payload`.
        arrays: those of `tree`.
    """

    task: int
    kind: int
    seconds: float
    tree: bytes
    arrays: list[Any]


class Said(NamedTuple):
    """Output of a task: its number, STDOUT, STDERR or the level of a record, the `name` of the logger, and the `text`."""

    task: int
    kind: int
    name: str
    text: str


def parse_from_node(value: Any) -> tuple[str, list[Any]]:
    """Read a message of a node.

    Returns: ("done", finished tasks as Done), ("back", the ids of those that it gives back), or ("said", output of tasks, in
    order, as Said).

    Raises: ProtocolError for anything else.
    """
    if type(value) is list and len(value) == 2 and type(value[1]) is list:
        word, entries = value
        if word == "done":
            return "done", list(map(_done, entries))
        # by exact type: True is no task
        if word == "back" and all(type(task) is int for task in entries):
            return "back", entries
        if word == "said":
            return "said", list(map(_said, entries))
    raise ProtocolError("A node sent what is no message about tasks.")


def _done(entry: Any) -> Done:
    if type(entry) is list and list(map(type, entry)) == [int, int, float, bytes, list]:
        done = Done(*entry)
        if done.kind in (RESULT, FAILURE, PICKLED, BROKEN) and 0 <= done.seconds < math.inf:
            return done
    raise ProtocolError("A node sent a malformed result.")


def _said(entry: Any) -> Said:
    if type(entry) is not list or list(map(type, entry)) != [int, int, str, bytes] or not STDOUT <= entry[1] <= MOST_LEVEL:
        raise ProtocolError("A node sent malformed output of a task.")
    task, kind, name, text = entry
    # the bound of the sender holds for honest nodes only
    if len(text) > _MOST_TEXT:
        raise ProtocolError(f"A node sent {len(text)} bytes that a task has written, more than the {_MOST_TEXT} allowed.")
    try:
        return Said(task, kind, name, text.decode())
    except UnicodeDecodeError as error:
        raise ProtocolError(f"A node sent output of a task that is no UTF-8: {error.reason}.") from None


# Text that tasks print and log, on its way to the submitter, as far as `OUTPUT_BYTES` of each task.
#
# `TaskOutput` stands before `sys.stdout` and `sys.stderr`, and is a handler of all loggers. Text written while a task runs,
# also by its threads, is that task's; the log of the job has it as well.

LONG_LINE = 8192  # characters that wait for their end


class TaskOutput(logging.Handler):
    """Collector of the running task's output on the node, which passes it on line by line.

    Args:
        say: called as `say(task, kind, name, text)` with whole lines, in UTF-8.
        limit: bytes of one task that are sent.
    """

    def __init__(self, say: Callable[[int, int, str, bytes], None], limit: int = OUTPUT_BYTES) -> None:
        super().__init__()
        self._say, self._limit = say, limit
        self._guard = threading.RLock()
        self._task: int | None = None
        self._left = self._dropped = 0
        self._begun = {STDOUT: "", STDERR: ""}  # lines without an end

    def install(self) -> None:
        # before the streams: what is printed goes to the log of the job as ever
        sys.stdout, sys.stderr = _Tee(sys.stdout, STDOUT, self.write), _Tee(sys.stderr, STDERR, self.write)
        logging.getLogger().addHandler(self)
        os.register_at_fork(after_in_child=self._leave_child)

    def begin(self, task: int) -> None:
        self._left, self._dropped, self._task = self._limit, 0, task

    def end(self) -> None:
        with self._guard:
            for kind, text in self._begun.items():
                if text:
                    self._tell(kind, "", text)
                    self._begun[kind] = ""
            if self._dropped and self._task is not None:
                note = f"\n({self._dropped} bytes more are in the log of the job only)\n"
                self._say(self._task, STDERR, "", note.encode())
            # text of threads that go on behind their task belongs to none
            self._task = None

    def write(self, kind: int, text: str) -> None:
        """Take text on stdout or stderr (`kind`), from any thread."""
        with self._guard:
            if self._task is None:
                return
            # by lines: pieces of two threads would else stand in one line here
            lines, end, rest = (self._begun[kind] + text).rpartition("\n")
            if len(rest) > LONG_LINE:
                lines, end, rest = f"{lines}{end}{rest}", "", ""
            self._begun[kind] = rest
            if lines or end:
                self._tell(kind, "", lines + end)

    def emit(self, record: logging.LogRecord) -> None:
        """Take one record of any logger; none of the thread that sends the messages is a task's."""
        # the sender's own lines would make messages about messages without end
        if self._task is None or record.threadName == "task queue":
            return
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001  arguments that do not fit: the handler of the log says so
            return
        with self._guard:
            # levels up to STDERR would be taken for the streams
            self._tell(max(record.levelno, STDERR + 1), record.name, text)

    def _tell(self, kind: int, name: str, text: str) -> None:
        if self._task is None:
            return
        raw = text.encode("utf-8", "backslashreplace")
        self._dropped += max(0, len(raw) - self._left)
        shown = raw if len(raw) <= self._left else _whole(raw[: self._left])
        self._left -= min(len(raw), self._left)
        if shown:
            # a name stands in the meta of a frame, which is small, and a logger may have any
            self._say(self._task, kind, name[:200].encode("utf-8", "backslashreplace").decode(), shown)

    def _leave_child(self) -> None:
        """Stop sending in a process that a task has forked; it still writes into the log."""
        # a new lock: another thread of the parent may have held it while it forked
        self._guard, self._task = threading.RLock(), None


def _whole(cut: bytes) -> bytes:
    """Drop the character that was cut at the end of UTF-8."""
    return cut.decode("utf-8", "ignore").encode()


class _Tee:
    """Stream that reports each text; in all else it is the one before which it stands."""

    def __init__(self, stream: TextIO, kind: int, told: Callable[[int, str], None]) -> None:
        self._stream, self._kind, self._told = stream, kind, told

    def write(self, text: str) -> int:
        # the log first: it has the text even if the task is killed right after
        count = self._stream.write(text)
        self._told(self._kind, text)
        return count

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Any:  # found in the class only, so `__getattr__` does not serve it
        return iter(self._stream)
