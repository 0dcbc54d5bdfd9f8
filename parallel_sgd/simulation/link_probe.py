"""Probe of real agents: how fast a job's processes send to each other, alone and all at once, and how fast they compute."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np

from rpc import AbsSimpleExecutor, Communication
from rpc.support.processors import usable_cores

#: Round trips of a small message, of which a quick one counts (a quarter are quicker), and the pause before each: as in a job,
#: its receiver sleeps.
_PINGS: Final = 15
_PAUSE_SECONDS: Final = 0.004
#: Bytes of the large messages; a pair goes on to the next size while one of the last took less than `_ENOUGH_SECONDS`.
SIZES: Final = (1 << 16, 1 << 18, 1 << 20, 1 << 22)
_ENOUGH_SECONDS: Final = 0.4
#: Messages of a size, of which the fastest counts: others have had the core meanwhile.
_TRIES: Final = 5
_LIMIT_SECONDS: Final = 30.0
_WORK_SIDE: Final = 192
_WORK_TRIES: Final = 15


def work_seconds() -> tuple[float, float]:
    """Time a fixed piece of work of training: products of matrices and a selection, as dense layers and TopK have.

    Returns: seconds of the fastest of some tries, and their median.
    """
    random = np.random.default_rng(0)
    matrix = random.random((_WORK_SIDE, _WORK_SIDE), np.float32)
    values = random.random(1 << 16, np.float32)
    found = []
    for _ in range(_WORK_TRIES):
        began = time.perf_counter()
        for _ in range(4):
            np.dot(matrix, matrix)
        np.argpartition(values, 1000)
        found.append(time.perf_counter() - began)
    return min(found), float(np.median(found))


class LinkProbe(AbsSimpleExecutor):
    """Executor that measures the links of its group over TCP.

    It is shipped `rounds`, lists of pairs of node ids that measure at the same time. Its result has, in `pairs`, `latency` and
    `seconds` by size of each pair of which this node is the first; and `cores`, `work`, `together`, `both_ways`.
    """

    def over_tcp(self) -> Collection[int]:
        """Return all other nodes: also those of one host meet as hosts do."""
        return [node for node in self.working_group if node != self.node_id]

    def run(self, com: Communication) -> dict[str, Any]:
        """Measure; return the figures."""
        pairs: dict[int, dict[str, Any]] = {}
        for number, line in enumerate(self.shipped["rounds"]):
            # no pair begins a round while one of the last round still sends
            com.barrier()
            for first, second in line:
                if com.node_id == first:
                    pairs[second] = self._lead(com, second)
                elif com.node_id == second:
                    self._follow(com, first)
            com.report_progress(80 * (number + 1) / len(self.shipped["rounds"]))
        found: dict[str, Any] = {"pairs": pairs, "together": self._together(com), "both_ways": self._both_ways(com)}
        com.barrier()
        for turn in com.group:  # nodes of a host one after the other: each is to have a core
            if turn == com.node_id:
                found["work"] = work_seconds()
            com.barrier()
        com.report_progress(100)
        return {**found, "cores": usable_cores()}

    def _lead(self, com: Communication, peer: int) -> dict[str, Any]:
        trips = []
        for _ in range(_PINGS):
            time.sleep(_PAUSE_SECONDS)
            trips.append(_exchange(com, peer, b""))
        seconds: dict[int, float] = {}
        for size in SIZES:
            content = np.zeros(size, np.uint8)
            tries = [_exchange(com, peer, content) for _ in range(_TRIES)]
            seconds[size] = min(tries)
            if seconds[size] > _ENOUGH_SECONDS:
                break
        # the end of `_follow`
        com.send_one(peer, None, _LIMIT_SECONDS)
        usual = float(np.quantile(trips, 0.25))
        return {"latency": usual / 2, "noise": float(np.quantile(trips, 0.9)) / usual - 1, "seconds": seconds}

    def _follow(self, com: Communication, peer: int) -> None:
        while _get(com) is not None:
            com.send_one(peer, b"", _LIMIT_SECONDS)

    def _together(self, com: Communication) -> list[float]:
        """Return the seconds in which the first node gets a message of each of k others at once, for k = 1 and for all."""
        others, found = [node for node in com.group if node != com.group[0]], []
        for senders in (others[:1], others):
            fastest = float("inf")
            for _ in range(_TRIES):
                com.barrier()
                began = time.perf_counter()
                if com.node_id in senders:
                    com.send_one(com.group[0], np.zeros(SIZES[2], np.uint8), _LIMIT_SECONDS)
                elif com.rank == 0:
                    for _ in senders:
                        _get(com)
                    fastest = min(fastest, time.perf_counter() - began)
            com.barrier()
            found.append(fastest if com.rank == 0 else 0.0)
        return found

    def _both_ways(self, com: Communication) -> list[float]:
        """Return the seconds of a message to a neighbour while nothing comes back, and while one comes at the same time."""
        found, content = [], np.zeros(SIZES[2], np.uint8)
        first, second = com.group[0], com.group[1]
        for both in (False, True):
            fastest = float("inf")
            for _ in range(_TRIES):
                com.barrier()
                began = time.perf_counter()
                if com.node_id == first:
                    com.send_one(second, content, _LIMIT_SECONDS)
                    if both:
                        _get(com)
                elif com.node_id == second:
                    if both:
                        # before it waits, so that both directions are busy at once
                        com.send_one(first, content, _LIMIT_SECONDS)
                    _get(com)
                fastest = min(fastest, time.perf_counter() - began)
                com.barrier()
            found.append(fastest)
        return found


def _exchange(com: Communication, peer: int, content: object) -> float:
    """Send a message and await the answer, which is small; return the seconds."""
    began = time.perf_counter()
    com.send_one(peer, content, _LIMIT_SECONDS)
    _get(com)
    return time.perf_counter() - began


def _get(com: Communication) -> Any:
    message = com.get_one(timeout=_LIMIT_SECONDS)
    return None if message is None else message[1]


def rounds_of(hosts: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Return the pairs of nodes in rounds, in which no host is in two pairs.

    Args:
        hosts: host of each node, in the order of their ids.
    """
    left = [(first, second) for first in range(len(hosts)) for second in range(first + 1, len(hosts))]
    rounds = []
    while left:
        line: list[tuple[int, int]] = []
        taken: set[str] = set()
        for pair in left:
            here = {hosts[node] for node in pair}
            if not here & taken:
                line.append(pair)
                taken |= here
        rounds.append(line)
        left = [pair for pair in left if pair not in line]
    return rounds
