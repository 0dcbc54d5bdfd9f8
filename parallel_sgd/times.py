"""What a node spends its time on."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import NamedTuple

from .wait import Wait

Figures = dict[str, float]


class Times(NamedTuple):
    """Seconds, which add up to those from the first batch to the end.

    `compute`: forward, backward, the rule, evaluations and reports; `encode`: codecs with the node's own blocks, or a server's
    answers; `send`: handing packets to the system; `wait`: for others, while the system also takes what it did not take at
    once; `merge`: codecs with received packets. A parameter server computes nothing but its bookkeeping. Of nodes that share
    a process, each waits while another one runs.
    """

    compute: float
    encode: float
    send: float
    wait: float
    merge: float

    @property
    def total(self) -> float:
        """The sum."""
        return sum(self)

    def __str__(self) -> str:
        parts = " + ".join(f"{name} {seconds:.3f}" for name, seconds in zip(self._fields, self, strict=True))
        return f"{parts} = {self.total:.3f} s"


class Stopwatch:
    """Adds up the seconds of one node. Whoever does the work adds its own to `encode`, `send` and `merge`, each second once.

    `clock` returns monotonic seconds.
    """

    __slots__ = ("_start", "_stop", "clock", "encode", "merge", "send", "wait")

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.encode = self.send = self.wait = self.merge = 0.0
        self._start: float | None = None
        self._stop: float | None = None

    def times(self) -> Times:
        """What came together since `timed` began, until now or its end; all that nothing else was measured for is `compute`."""
        if self._start is None:
            return Times(0.0, 0.0, 0.0, 0.0, 0.0)
        total = (self.clock() if self._stop is None else self._stop) - self._start
        compute = total - self.encode - self.send - self.wait - self.merge
        return Times(compute, self.encode, self.send, self.wait, self.merge)

    def timed(self, process: Generator[Wait, None, Figures]) -> Generator[Wait, None, Figures]:
        """The same process; `wait` is what passes until it is resumed, without what was sent and merged in the meantime."""
        clock = self.clock
        self._start = clock()
        try:
            while True:
                try:
                    wait = next(process)
                except StopIteration as end:
                    figures: Figures = end.value
                    return figures
                start, other = clock(), self.send + self.merge
                yield wait
                self.wait += clock() - start - (self.send + self.merge - other)
        finally:
            process.close()
            self._stop = clock()
