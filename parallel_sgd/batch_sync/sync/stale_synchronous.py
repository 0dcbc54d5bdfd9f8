"""Between synchronous and asynchronous: nobody is more than s batches ahead of the slowest worker."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from network.frames import unpacked
from nn import arguments
from nn.optimizer import IOptimizer
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.interfaces import Array, Codec
from parallel_sgd.overdue import await_verdict, until
from parallel_sgd.wait import Wait

from .asynchronous import AsynchronizedSGD, check_asynchronous
from .interface import ISyncType, Step
from .rescuing import TIMED_OUT, listed
from .synchronized import SynchronizedSGD


@dataclass(frozen=True)
class StaleSynchronous:
    """`sync_type=StaleSynchronous(3)`: plain data that makes the sync type of each worker (Ho et al., "More effective
    distributed ML via a stale synchronous parallel parameter server", NIPS 2013).

    A worker's clock c counts the batches that it has computed and sent. It may go on iff c - min over workers of c <= s. So
    what it computes the next batch with contains every update of the first c - s batches of all workers; s = 0 is
    SynchronizedSGD, s = inf is AsynchronizedSGD.

    Raises: ValueError or TypeError when `staleness` is neither an integer of at least 0 nor infinite.
    """

    staleness: float

    def __post_init__(self) -> None:
        if self.staleness != math.inf:
            arguments.integer(self, "staleness", self.staleness, minimum=0)

    @property
    def __name__(self) -> str:
        """For logs and messages."""
        return f"StaleSynchronous({self.staleness})"

    def __call__(
        self, codecs: CodecBank, timeout: float, clock: Callable[[], float], names: tuple[str, ...]
    ) -> StaleSynchronizedSGD:
        """The sync type of one worker."""
        return StaleSynchronizedSGD(codecs, timeout, clock, names, self.staleness)

    def admit(self, codec: type[Codec], op_type: type[IOptimizer]) -> None:
        """Refuse what AsynchronizedSGD refuses, unless s = 0.

        Raises: ValueError naming both.
        """
        if self.staleness > 0:
            check_asynchronous(self.__name__, codec, op_type)


#: What `sync_type` may be.
SyncChoice = type[ISyncType] | StaleSynchronous


class StaleSynchronizedSGD(ISyncType):
    """SynchronizedSGD (s = 0) or AsynchronizedSGD, with a barrier at the end of a batch that opens at the right clocks.

    Where a parameter server answers (`Codec.awaits_answer`), that holds back the answers of those who are too far ahead, and
    the worker waits for nothing else. For other codecs the workers tell each other their clocks, one small packet per batch
    and pair, after all that they have sent in it. Nobody waits for a worker that has left.
    """

    def __init__(
        self,
        codecs: CodecBank,
        timeout: float,
        clock: Callable[[], float],
        names: tuple[str, ...],
        staleness: float = 0,
    ) -> None:
        super().__init__(codecs, timeout, clock, names)
        self.staleness = staleness
        self._inner: ISyncType = (AsynchronizedSGD if staleness else SynchronizedSGD)(codecs, timeout, clock, names)
        codecs.hears_peers = staleness < math.inf and not all(c.synchronous or c.awaits_answer for c in codecs.codecs)
        self._clock = 0
        self._told = True
        self._clocks = dict.fromkeys(codecs.assignment.nodes, 0)

    def begin(self, step: Step) -> None:
        """A new batch begins."""
        self._told = not self.codecs.hears_peers
        self._inner.begin(step)

    def put(self, variable: int, block_id: int, content: Array) -> None:
        """A block of this worker is computed."""
        self._inner.put(variable, block_id, content)

    def receive(self, sender: int, step: Step, variable: int, content: object) -> None:
        """Another worker's clock, or a message for a codec."""
        if variable < len(self.codecs.codecs):
            self._inner.receive(sender, step, variable, content)
            self.late = self._inner.late
        elif isinstance(clock := unpacked(content), int):
            self._clocks[sender] = max(self._clocks[sender], clock)

    def ready(self, variable: int) -> bool:
        """True when the codec's result may be taken and the slowest worker is near enough."""
        if not self._told:  # all blocks of the batch have been put
            self._told = True
            self._clock += 1
            self.codecs.tell_peers(self._clock)
        return self._inner.ready(variable) and not self._behind()

    def wait(self, variable: int) -> Iterator[Wait]:
        """At most two periods of T for the codec, and for the others' clocks."""
        start = self.clock()
        deadline = start + 2 * self.timeout
        yield from self._inner.wait(variable)
        wait = Wait(lambda: self.ready(variable), deadline, self._describe)
        if (yield from until(wait, self.clock)):
            return
        overdue = self.clock()
        if not (yield from await_verdict(wait, self.timeout, self.clock, self.codecs.suspects)):
            seconds = 2 * self.timeout + round(self.clock() - overdue, 3)
            raise TimeoutError(f"{TIMED_OUT}. Waited {seconds:g} s for {self._describe()}.")

    def get(self, variable: int) -> Array:
        """What there is."""
        return self._inner.get(variable)

    def _behind(self) -> list[int]:
        """The workers that are too far behind."""
        if not self.codecs.hears_peers:
            return []
        return sorted(node for node in self.codecs.peers() if self._clock - self._clocks[node] > self.staleness)

    def _describe(self) -> str:
        behind = self._behind()
        if not behind:
            return "the own packets to leave"
        return f"node(s) {listed(behind)}, more than {self.staleness} batch(es) behind"
