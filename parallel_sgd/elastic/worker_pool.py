"""All worker processes of an elastic job, as its driver has them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator

from network.transport import Link
from rpc.elastic import Worker

from ..elastic_membership import ElasticMembership
from .messages import End
from .worker_handle import NotStarted, Task, WorkerHandle

FREE_SECONDS = 8.0  # for all nodes to be free again at the end


class WorkerPool:
    """Handles by worker, whoever was ever started. What their threads bring goes to the inbox of `members`."""

    def __init__(self, task: Task, members: ElasticMembership) -> None:
        self._task, self._members = task, members
        self._handles: dict[Worker, WorkerHandle] = {}

    def __iter__(self) -> Iterator[WorkerHandle]:
        return iter(list(self._handles.values()))

    def __getitem__(self, worker: Worker) -> WorkerHandle:
        return self._handles[worker]

    def start(self, worker: Worker) -> None:
        """Start a worker, unless it was started before. Its node id is never used again."""
        if worker not in self._handles:
            others = [handle.node for handle in self if not handle.ended]  # it calls those that were started before it
            self._handles[worker] = WorkerHandle(worker, len(self._handles), self._task, self._members.inbox.put, others)

    def of_node(self, node: int) -> WorkerHandle:
        """The handle with this node id."""
        return next(handle for handle in self if handle.node == node)

    def links(self) -> list[Link]:
        """What to poll for bytes."""
        return [link for handle in self for link in handle.links]

    def writing(self) -> list[Link]:
        """What to poll for room."""
        return [link for handle in self for link in handle.writing]

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
            for item in self._members.inbox.take():
                if isinstance(item, NotStarted):
                    self[item.worker].ended = True
            staying = [handle for handle in self if handle.worker not in silent and not handle.is_over]
            if not staying:
                break
            self._members.wait(self.links(), self.writing(), left)
            for handle in self:
                handle.hear()
        for handle in self:
            handle.join(max(0.0, deadline - time.monotonic()))
            handle.close()
