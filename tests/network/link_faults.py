"""Link faults on messages in memory, in virtual time: what a proxy does to sockets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from network.faults.fault import LinkFault
from network.faults.plan import FaultPlan, begins

SWAP_SECONDS = 0.001


class LinkFaults:
    """Decides what becomes of each message: called with sender, receiver and key, it tells after how many seconds each copy
    arrives. `()` is a lost message, `(0.0, 0.0)` one that arrives twice. It serves as the `link` of `parallel_sgd` in memory.

    `key` is (attempt, epoch, batch, ...), counted from 0: a fault begins with the first message of its step or a later one,
    whoever sent it, and its seconds are those of `clock`, which returns monotonic seconds. A cut link loses what it is given.
    Messages of one link keep their order, unless they are reordered: then every other one arrives a millisecond later.
    `messages` counts, per clause, those that it has changed.

    Raises: ValueError for a plan that throttles, because a link in memory does not know the size of what it carries.
    """

    def __init__(self, plan: FaultPlan, clock: Callable[[], float]) -> None:
        self._faults = [(number, fault) for number, fault in enumerate(plan.faults) if isinstance(fault, LinkFault)]
        for _, fault in self._faults:
            if fault.kind == "throttle":
                raise ValueError(f"The fault clause {str(fault)!r} needs real connections (Proxy); this link is in memory.")
        self.plan = plan
        self.messages: Counter[str] = Counter({str(fault): 0 for _, fault in self._faults})
        self._clock = clock
        self._begun: dict[tuple[int, int], float] = {}  # (fault, attempt): when it began
        self._latest: dict[tuple[int, int], float] = {}  # (sender, receiver): when its last message arrives
        self._turns: Counter[tuple[int, int]] = Counter()
        self._draws: Counter[tuple[int, int, int]] = Counter()

    def __call__(self, sender: int, receiver: int, key: Sequence[int]) -> tuple[float, ...]:
        """When the copies of a message arrive, in seconds from now."""
        attempt, epoch, batch = key[:3]
        now, delay, copies, turns_back = self._clock(), 0.0, 1, False
        for number, fault in self._faults:
            if not begins(fault, epoch, batch, attempt):
                continue
            if self.plan._fire(number, epoch, batch, attempt):
                self._begun[number, attempt] = now
            over = fault.seconds is not None and now >= self._begun[number, attempt] + fault.seconds
            if over or not fault.concerns(sender, receiver):
                continue
            if fault.kind == "delay":
                delay += fault.delay + fault.jitter * (self._random(number, sender, receiver) if fault.jitter else 0.0)
            elif fault.kind == "duplicate":
                copies *= 2
            elif fault.kind == "reorder":
                turns_back = True
            elif fault.kind != "lose" or self._random(number, sender, receiver) < fault.share:
                copies = 0
            else:
                continue
            self.messages[str(fault)] += 1
        if not copies:
            return ()
        latest = self._latest.get((sender, receiver), 0.0)
        delay = max(delay, latest - now)
        while now + delay < latest:  # by rounding
            delay = math.nextafter(delay, math.inf)
        self._latest[sender, receiver] = now + delay
        if turns_back:
            self._turns[sender, receiver] += 1
            delay += SWAP_SECONDS * (self._turns[sender, receiver] % 2)
        return (delay,) * copies

    def _random(self, number: int, sender: int, receiver: int) -> float:
        """The next of the numbers in 0..1 of one fault on one link: the others draw from sequences of their own."""
        self._draws[number, sender, receiver] += 1
        key = [self.plan.seed & 0xFFFFFFFFFFFFFFFF, number]
        counter = [self._draws[number, sender, receiver], sender & 0xFFFFFFFF, receiver & 0xFFFFFFFF, 0]
        return float(np.random.Generator(np.random.Philox(key=key, counter=counter)).random())
