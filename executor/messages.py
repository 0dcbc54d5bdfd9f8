"""What the submitter and a node say to each other about tasks: short lists that begin with a word.

to a node:    ["code", function, objects, code]   ["run", [[task, function, many, tree, arrays], ...]]   ["back", [task, ...]]
              ["forget", [function, ...]]   ["hold", number, tree, arrays]   ["drop", [number, ...]]   ["end"]
              ["room", bytes]   ["clear", [shelf, ...]]
from a node:  ["done", [[task, kind, seconds, tree, arrays], ...]]   ["back", [task, ...]]

`tree` and `arrays` are a `Payload`: a list of arguments, or a tuple (args, kwargs), or with `many` a list of tuples of
arguments, to call the function with each. The code of a function comes before its first task. `kind` is RESULT or FAILURE.
Tasks are executed in the order of sending. "back" asks for tasks, and each time is answered with those of them that have not
begun, and now will not.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from network.errors import ProtocolError

RESULT, FAILURE = 0, 1
BATCH_TASKS = 64  # at most in one message, and
BATCH_BYTES = 256 << 10  # of trees, about, so that a message stays within the limits of a frame's meta


class Done(NamedTuple):
    """One finished task."""

    task: int
    kind: int
    seconds: float
    tree: bytes
    arrays: list[Any]


def parse_from_node(value: Any) -> list[Done] | tuple[int, ...]:
    """What a node says: finished tasks, or the ids of those that it gives back.

    Raises: ProtocolError for anything else.
    """
    if type(value) is list and len(value) == 2 and type(value[1]) is list:
        if value[0] == "done":
            return [_done(entry) for entry in value[1]]
        if value[0] == "back" and all(type(task) is int for task in value[1]):
            return tuple(value[1])
    raise ProtocolError("A node sent what is no message about tasks.")


def _done(entry: Any) -> Done:
    if type(entry) is not list or len(entry) != 5:
        raise ProtocolError("A node sent a malformed result.")
    task, kind, seconds, tree, arrays = entry
    right = type(task) is int and kind in (RESULT, FAILURE) and type(seconds) is float and type(tree) is bytes
    if not right or type(arrays) is not list or not 0 <= seconds < math.inf:
        raise ProtocolError("A node sent a malformed result.")
    return Done(task, kind, seconds, tree, arrays)
