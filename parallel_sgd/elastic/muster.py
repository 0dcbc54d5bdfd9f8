"""All worker processes of an elastic job, as its driver has them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator

from network.transport import wait_sockets
from rpc.elastic import Worker

from .news import News
from .recruit import NotStarted, Recruit, Task
from .words import End

FREE_SECONDS = 8.0  # for all nodes to be free again at the end


class Muster:
    """Recruits by worker, whoever was ever started. What their threads bring goes to `news`."""

    def __init__(self, task: Task, news: News) -> None:
        self._task, self._news = task, news
        self._recruits: dict[Worker, Recruit] = {}

    def __iter__(self) -> Iterator[Recruit]:
        return iter(list(self._recruits.values()))

    def __getitem__(self, worker: Worker) -> Recruit:
        return self._recruits[worker]

    def start(self, worker: Worker) -> None:
        """Start a worker, unless it was started before. Its node id is never used again."""
        if worker not in self._recruits:
            others = [recruit.node for recruit in self if not recruit.ended]  # it calls those that were started before it
            self._recruits[worker] = Recruit(worker, len(self._recruits), self._task, self._news.put, others)

    def of_node(self, node: int) -> Recruit:
        """The recruit with this node id."""
        return next(recruit for recruit in self if recruit.node == node)

    def wait(self, seconds: float) -> None:
        """Return when somebody has said something, when there is news, or after `seconds`."""
        links = [link for recruit in self for link in recruit.links]
        writing = [link for recruit in self for link in recruit.writing]
        wait_sockets([*links, self._news.sock], writing, max(0.0, seconds))  # type: ignore[list-item,arg-type]

    def dismiss(self, returned: Collection[Worker], silent: Collection[Worker]) -> None:
        """End all processes, wait until their nodes are free, and close all connections.

        Those that have `returned` end by themselves; nobody waits for those whose hosts are `silent`.
        """
        for recruit in self:
            if recruit.worker in returned:
                recruit.say(End())
            else:
                recruit.stop("The job has ended.")
        deadline = time.monotonic() + FREE_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            for item in self._news.take():
                if isinstance(item, NotStarted):
                    self[item.worker].ended = True
            staying = [recruit for recruit in self if recruit.worker not in silent and not recruit.is_over]
            if not staying:
                break
            self.wait(left)
            for recruit in self:
                recruit.hear()
        for recruit in self:
            recruit.join(max(0.0, deadline - time.monotonic()))
            recruit.close()
