"""What tasks have written, shown at the submitter."""

from __future__ import annotations

import logging
import sys
from typing import Any
from weakref import WeakKeyDictionary

from rpc.logs import clean_lines, get_logger

from .future import TaskFuture
from .messages import OUTPUT_BYTES, STDERR, STDOUT, Said
from .output import LONG_LINE

OUTPUTS = ("off", "inline", "future")
output_logger = get_logger(
    "executor.tasks"
)  # has what all loggers of tasks say: nodes must not make loggers here by naming them


class Console:
    """Shows what tasks have written, behind node and task: on stdout, on stderr and by the logger `executor.tasks`.

    With `keep` it leaves it with the future instead, as the attribute `output`.
    """

    def __init__(self, keep: bool, limit: int = OUTPUT_BYTES) -> None:
        self._keep, self._limit = keep, limit + LONG_LINE  # with a note at the end
        # bytes of tasks that may still come: a node may break its word
        self._left: WeakKeyDictionary[TaskFuture[Any], int] = WeakKeyDictionary()

    def take(self, node: int, said: Said, name: str, future: TaskFuture[Any]) -> None:
        """What a task that calls the function `name` has written on `node`."""
        left = self._left.get(future, self._limit)
        text = said.text[: max(0, left)]
        self._left[future] = left - len(text)
        if not text:
            return
        if self._keep:
            log = f"{logging.getLevelName(said.kind)} {said.name}: " if said.kind > STDERR else ""
            future.output += f"{log}{text}\n" if log else text
            return
        before = f"[Node({node}) {name}#{said.task}]"
        if said.kind > STDERR:
            output_logger.log(said.kind, "%s %s: %s", before, said.name, text)
            return
        shown = "".join(f"{before} {clean_lines(line)}\n" for line in map(_last, text.removesuffix("\n").split("\n")))
        stream = sys.stdout if said.kind == STDOUT else sys.stderr
        try:
            stream.write(shown)
            stream.flush()
        except (OSError, ValueError, AttributeError):  # it is closed, or there is none
            return


def _last(line: str) -> str:
    """What a line that was written over several times shows at last."""
    return line.rstrip("\r").rpartition("\r")[2]
