"""All worker processes of an elastic job, as its driver has them, and the queue of what their threads bring."""

from __future__ import annotations

import contextlib
import queue
import socket
import time
from collections.abc import Collection, Iterator
from typing import Any

from network.transport import Waker, wait_sockets
from rpc.elastic import Worker

from .messages import End
from .worker_handle import NotStarted, Task, WorkerHandle

FREE_SECONDS = 8.0  # for all nodes to be free again at the end


class WorkerPool:
    """Handles by worker, whoever was ever started. What their threads bring goes to `inbox`."""

    def __init__(self, task: Task, inbox: Inbox) -> None:
        self._task, self._inbox = task, inbox
        self._handles: dict[Worker, WorkerHandle] = {}

    def __iter__(self) -> Iterator[WorkerHandle]:
        return iter(list(self._handles.values()))

    def __getitem__(self, worker: Worker) -> WorkerHandle:
        return self._handles[worker]

    def start(self, worker: Worker) -> None:
        """Start a worker, unless it was started before. Its node id is never used again."""
        if worker not in self._handles:
            others = [handle.node for handle in self if not handle.ended]  # it calls those that were started before it
            self._handles[worker] = WorkerHandle(worker, len(self._handles), self._task, self._inbox.put, others)

    def of_node(self, node: int) -> WorkerHandle:
        """The handle with this node id."""
        return next(handle for handle in self if handle.node == node)

    def wait(self, seconds: float) -> None:
        """Return when somebody has said something, when something has come in, or after `seconds`."""
        links = [link for handle in self for link in handle.links]
        writing = [link for handle in self for link in handle.writing]
        wait_sockets([*links, self._inbox.sock], writing, max(0.0, seconds))  # type: ignore[list-item,arg-type]

    def dismiss(self, returned: Collection[Worker], silent: Collection[Worker]) -> None:
        """End all processes, wait until their nodes are free, and close all connections.

        Those that have `returned` end by themselves; nobody waits for those whose hosts are `silent`.
        """
        for handle in self:
            if handle.worker in returned:
                handle.say(End())
            else:
                handle.stop("The job has ended.")
        deadline = time.monotonic() + FREE_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            for item in self._inbox.take():
                if isinstance(item, NotStarted):
                    self[item.worker].ended = True
            staying = [handle for handle in self if handle.worker not in silent and not handle.is_over]
            if not staying:
                break
            self.wait(left)
            for handle in self:
                handle.hear()
        for handle in self:
            handle.join(max(0.0, deadline - time.monotonic()))
            handle.close()


class Inbox:
    """A queue that makes `sock` readable; `put` from any thread, the rest belongs to one."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waker = Waker()

    @property
    def sock(self) -> socket.socket:
        """What to poll."""
        return self._waker.sock

    def put(self, item: Any) -> None:
        """Bring something."""
        self._queue.put(item)
        self._waker.wake()

    def take(self) -> list[Any]:
        """All that was brought, oldest first."""
        self._waker.clear()
        items = []
        with contextlib.suppress(queue.Empty):
            while True:
                items.append(self._queue.get_nowait())
        return items

    def close(self) -> None:
        """Let go of the sockets."""
        self._waker.close()
