"""Messages to the nodes that execute tasks: functions before their first task, tasks in batches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

from network.errors import NetworkError
from network.session import Session
from network.wire import Limits

from .functions import Function
from .messages import BATCH_BYTES, BATCH_TASKS
from .tasks import Task

_BATCH_ARRAYS = Limits().message // 4  # bytes of arrays in one message of several tasks


class Outbox:
    """What is said to each node of `sessions`; a node that cannot be told is lost, which shows when it is served."""

    def __init__(self, sessions: dict[int, Session]) -> None:
        self._sessions = sessions

    def tell(self, node: int, message: list[Any]) -> None:
        """Send one message to `node`, if it is still there."""
        session = self._sessions.get(node)
        if session is not None and session.alive:
            with contextlib.suppress(NetworkError):
                session.queue(message)
                session.send()

    def send(self, node: int, tasks: Sequence[tuple[int, Task]]) -> None:
        """Send tasks and what they need, in order."""
        batch: list[list[Any]] = []
        inline = size = 0
        for number, task in tasks:
            function, payload = task.function, task.payload
            if node not in function.nodes:
                function.nodes.add(node)
                self.tell(node, ["code", function.number, function.bundle.objects, function.bundle.code])
            if len(batch) >= BATCH_TASKS or inline > BATCH_BYTES or size + payload.size > _BATCH_ARRAYS:
                self.tell(node, ["run", batch])
                batch, inline, size = [], 0, 0
            batch.append([number, function.number, task.many, payload.tree, payload.arrays])
            inline += min(len(payload.tree), 4096) + 64 * len(payload.arrays)
            size += payload.size
        if batch:
            self.tell(node, ["run", batch])

    def forget(self, function: Function, nodes: Iterable[int]) -> None:
        """No task of `function` will come any more."""
        for node in nodes:
            self.tell(node, ["forget", [function.number]])
