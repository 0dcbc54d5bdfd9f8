"""What an executor has to do, and who does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ExecutorStatus(NamedTuple):
    """At one moment: the `nodes` that it was made with, those that `live`, why others are `lost`, or are not there just now,
    and those whose process is `restarting`; how many tasks wait, also in the line of a node, run, and have ended in any way;
    `closed` by `shutdown`."""

    nodes: tuple[int, ...]
    live: tuple[int, ...]
    lost: Mapping[int, str]
    waiting: int
    running: int
    done: int
    closed: bool
    restarting: tuple[int, ...] = ()

    def __str__(self) -> str:
        nodes = f"{len(self.live)} of {len(self.nodes)} nodes live"
        if self.restarting:
            nodes += f", {len(self.restarting)} restarting"
        tasks = f"{self.waiting} tasks waiting, {self.running} running, {self.done} done"
        return f"{nodes}, {tasks}{', shut down' if self.closed else ''}"
