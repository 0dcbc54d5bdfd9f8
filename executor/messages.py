"""What the submitter and a node say to each other about tasks: short lists that begin with a word.

to a node:    ["code", function, objects, code]   ["run", [[task, function, many, tree, arrays, limit], ...]]
              ["back", [task, ...]]   ["forget", [function, ...]]   ["hold", number, tree, arrays]   ["drop", [number, ...]]
              ["room", bytes]   ["clear", [shelf, ...]]   ["listen"]   ["initializer", objects, code, tree, arrays]   ["end"]
from a node:  ["done", [[task, kind, seconds, tree, arrays], ...]]   ["back", [task, ...]]
              ["said", [[task, kind, name, text], ...]]

`tree` and `arrays` are a `Payload`: a list of arguments, or a tuple (args, kwargs), or with `many` a list of tuples of
arguments, to call the function with each. `limit` is how many seconds that may take, 0 for as long as it likes. The code of a
function comes before its first task. `kind` is RESULT or FAILURE; or PICKLED, which only who trusts the nodes takes: a
pickle, and the memory of the arrays in it; or BROKEN, for what the initializer has raised. Tasks are executed in the order of
sending. "back" asks for tasks, and each time is answered with those of them that have not begun, and now will not.
After "listen" a node tells what its tasks write: `kind` is STDOUT, STDERR or the level of a record of the logger `name`; `text`
is in UTF-8, as bytes, which beyond 4 KiB travel as arrays do: what a task says in one go may be longer than a frame's meta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from network.errors import ProtocolError

RESULT, FAILURE, PICKLED, BROKEN = 0, 1, 2, 3
STDOUT, STDERR = 0, 1
MOST_LEVEL = 1 << 20  # of a record
OUTPUT_BYTES = 1 << 20  # of what one task writes, about; what comes later is counted only
_MOST_TEXT = OUTPUT_BYTES + 4096  # bytes of one text, which may have a note at its end
BATCH_TASKS = 64  # at most in one message, and
BATCH_BYTES = 256 << 10  # of trees, about, so that a message stays within the limits of a frame's meta


class Done(NamedTuple):
    """One finished task."""

    task: int
    kind: int
    seconds: float
    tree: bytes
    arrays: list[Any]


class Said(NamedTuple):
    """What a task has written."""

    task: int
    kind: int
    name: str
    text: str


@dataclass(frozen=True)
class Written:
    """What tasks have written, in order."""

    parts: list[Said]


def parse_from_node(value: Any) -> list[Done] | tuple[int, ...] | Written:
    """What a node says: finished tasks, the ids of those that it gives back, or what tasks have written.

    Raises: ProtocolError for anything else.
    """
    if type(value) is list and len(value) == 2 and type(value[1]) is list:
        if value[0] == "done":
            return [_done(entry) for entry in value[1]]
        if value[0] == "back" and all(type(task) is int for task in value[1]):
            return tuple(value[1])
        if value[0] == "said":
            return Written([_said(entry) for entry in value[1]])
    raise ProtocolError("A node sent what is no message about tasks.")


def _done(entry: Any) -> Done:
    if type(entry) is not list or len(entry) != 5:
        raise ProtocolError("A node sent a malformed result.")
    task, kind, seconds, tree, arrays = entry
    right = type(task) is int and kind in (RESULT, FAILURE, PICKLED, BROKEN) and type(seconds) is float and type(tree) is bytes
    if not right or type(arrays) is not list or not 0 <= seconds < math.inf:
        raise ProtocolError("A node sent a malformed result.")
    return Done(task, kind, seconds, tree, arrays)


def _said(entry: Any) -> Said:
    if type(entry) is not list or list(map(type, entry)) != [int, int, str, bytes] or not STDOUT <= entry[1] <= MOST_LEVEL:
        raise ProtocolError("A node sent malformed output of a task.")
    task, kind, name, text = entry
    if len(text) > _MOST_TEXT:
        raise ProtocolError(f"A node sent {len(text)} bytes that a task has written, more than the {_MOST_TEXT} allowed.")
    try:
        return Said(task, kind, name, text.decode())
    except UnicodeDecodeError as error:
        raise ProtocolError(f"A node sent output of a task that is no UTF-8: {error.reason}.") from None
