"""Messages to the nodes that execute tasks: functions before their first task, tasks in batches."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
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
        if session is not None:
            _say(session, message)

    def send(self, node: int, tasks: Sequence[tuple[int, Task]]) -> None:
        """Send tasks and what they need, in order."""
        session = self._sessions.get(node)
        if session is None:
            return
        batch: list[list[Any]] = []
        inline = size = 0
        for number, task in tasks:
            function, payload = task.function, task.payload
            if session not in function.sessions:
                function.sessions.add(session)
                _say(session, ["code", function.number, function.bundle.objects, function.bundle.code])
            if len(batch) >= BATCH_TASKS or inline > BATCH_BYTES or size + payload.size > _BATCH_ARRAYS:
                _say(session, ["run", batch])
                batch, inline, size = [], 0, 0
            batch.append([number, function.number, task.many, payload.tree, payload.arrays, task.options.timeout or 0])
            inline += min(len(payload.tree), 4096) + 64 * len(payload.arrays)
            size += payload.size
        if batch:
            _say(session, ["run", batch])

    @staticmethod
    def forget(function: Function) -> None:
        """No task of `function` will come any more."""
        for session in function.sessions:
            _say(session, ["forget", [function.number]])


def _say(session: Session, message: list[Any]) -> None:
    if session.alive:
        with contextlib.suppress(NetworkError):
            session.queue(message)
            session.send()
