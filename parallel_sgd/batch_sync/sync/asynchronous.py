"""Asynchronous exchange: no worker waits for another one's batch, or none is more than s batches ahead of the slowest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from network.message import Content, unpacked
from nn import arguments
from nn.optimizer import IOptimizer
from nn.optimizer.parallel_sgd import ExchangingOptimizer
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.interfaces import Array, Codec
from parallel_sgd.engine.channel import Wait, await_verdict, until_overdue
from parallel_sgd.engine.merge import OwnMean

from .interface import ISyncType, Step, SyncSetting
from .synchronized import TIMED_OUT, RescuingSync, SynchronizedSGD, listed


class AsynchronizedSGD(RescuingSync):
    """Asynchronous exchange: messages of any batch reach the codecs on arrival, and results are taken as they are.

    A worker waits only for a codec that gets an answer without any other worker's batch (`Traits.awaits_answer`: AsyncPS,
    DCASGD), with the limits and the rescue of SynchronizedSGD. Where another codec has no result yet, the worker goes on with
    its own value, the mean over its blocks of the batch. `late` counts messages that came after the last batch. (Dean et al.,
    "Large scale distributed deep networks", 2012.)

    Args:
        codecs: the codecs of this worker, one per variable.
        timeout: T in seconds; see `RescuingSync`.
        clock: returns monotonic seconds.
        names: of the variables, for messages.
    """

    staleness = math.inf
    forms: ClassVar[tuple[str, ...]] = ("asgd",)
    _awaits_workers = False

    @classmethod
    def admit(cls, codec: type[Codec], op_type: type[IOptimizer]) -> None:
        """Refuse codecs that need every worker's batch, and optimizers that cannot use a worker's own value as a result.

        Raises: ValueError naming the sync type and the codec or optimizer.
        """
        check_asynchronous(cls.__name__, codec, op_type)

    def __init__(self, codecs: CodecBank, timeout: float, clock: Callable[[], float], names: tuple[str, ...]) -> None:
        super().__init__(codecs, timeout, clock, names)
        mine = codecs.assignment.node_2_block[codecs.node_id]
        # a codec that awaits an answer always gets one, so no value of its own is needed
        self._own = [None if codec.traits.awaits_answer else OwnMean(mine) for codec in codecs.codecs]
        self._local: list[Array | None] = [None] * len(names)
        self._passes = False
        self._early: list[tuple[int, Step, int, Content]] = []

    def begin(self, step: Step) -> None:
        super().begin(step)
        # once per batch, not per variable, and only where nothing is awaited: else waiting takes messages in
        self._passes = any(own is not None for own in self._own)
        for own in self._own:
            if own is not None:
                own.reset()
        # packets from workers that began sooner: before the first `begin` the codecs have no batch
        early, self._early = self._early, []
        for message in early:
            self.receive(*message)

    def put(self, variable: int, block_id: int, content: Array) -> None:
        own = self._own[variable]
        if own is not None:
            self._local[variable] = own.add(block_id, content)
        super().put(variable, block_id, content)

    def receive(self, sender: int, step: Step, variable: int, content: Content) -> None:
        # a worker that has ended reads on for its farewell; its codecs have let go of memory
        if self.codecs.closed:
            self.late += 1
        elif self._step == (-1, -1):
            self._early.append((sender, step, variable, content))
        else:
            self.codecs.heard.append((sender, variable))
            self.codecs.receive(variable, content, sender)

    def ready(self, variable: int) -> bool:
        """Tell whether the wire took all packets of this worker, and the answer is there where the codec awaits one.

        A worker that awaits no answer takes in the messages that have arrived once in a batch, and lets other workers of this
        process run.
        """
        self.codecs.flush()
        if self._passes:
            self._passes = False
            self.look()
            return False
        # the wire must have taken the gradients: the next batch writes into the same arrays
        return self.codecs.flushed() and (self.is_done(variable) or not self.codecs.codecs[variable].traits.awaits_answer)

    def wait(self, variable: int) -> Iterator[Wait]:
        """Yield waits until the variable is ready, for at most two periods of T.

        Raises: TimeoutError as `RescuingSync.wait`.
        """
        # a turn for the other workers of this process: with a value of its own at hand, the worker would wait for nothing
        if self._own[variable] is not None:
            yield Wait(lambda: True, None, lambda: "nothing")
        yield from super().wait(variable)

    def get(self, variable: int) -> Array:
        """Return the codec's result, else the worker's own value.

        Raises: RuntimeError when the variable is not ready.
        """
        local = self._local[variable]
        if local is None or self.is_done(variable):
            return super().get(variable)
        self._taken[variable] = True
        return local


def check_asynchronous(name: str, codec: type[Codec], op_type: type[IOptimizer]) -> None:
    """Check that workers of the sync type `name` can run `codec` under the optimizer `op_type` without each other's batches.

    Raises: ValueError naming sync type and codec or optimizer.
    """
    if codec.traits.synchronous:
        raise ValueError(
            f"'sync_type' {name} cannot run 'codec' {codec.__name__}, whose results are made of what all workers send in the "
            f"same batch: take SynchronizedSGD, or a codec like AsyncPS"
        )
    converts = issubclass(op_type, ExchangingOptimizer) and op_type.puts != op_type.gets
    if converts and not codec.traits.awaits_answer:
        raise ValueError(
            f"'sync_type' {name} goes on with a worker's own value where 'codec' {codec.__name__} has no result yet, but "
            f"'op_type' {op_type.__name__} cannot use its own values as results: take AsyncPS, or SynchronizedSGD"
        )


class StaleSynchronizedSGD(ISyncType):
    """SynchronizedSGD (s = 0) or AsynchronizedSGD, with a barrier at the end of a batch that opens at the right clocks.

    Where a parameter server answers (`Traits.awaits_answer`), the server holds back its answers to workers that are too far
    ahead, and the worker waits for nothing else. For other codecs the workers tell each other their clocks, one small packet
    per batch and pair, after all other packets of the batch. No worker waits for one that has left.

    Args:
        codecs: the codecs of this worker, one per variable.
        timeout: T in seconds: a worker waits at most two periods of T.
        clock: returns monotonic seconds.
        names: of the variables, for messages.
        staleness: s, the batches that a worker may be ahead of the slowest one.
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
        self._inner: RescuingSync = (AsynchronizedSGD if staleness else SynchronizedSGD)(codecs, timeout, clock, names)
        # within a limit, the answer of a server may wait for workers that are behind
        self._inner._awaits_workers = staleness < math.inf
        # a server holds back its answers itself, and a synchronous codec cannot run ahead; only others need clocks
        codecs.hears_peers = staleness < math.inf and not all(
            c.traits.synchronous or c.traits.awaits_answer for c in codecs.codecs
        )
        self._clock = 0
        self._told = True
        self._clocks = dict.fromkeys(codecs.assignment.nodes, 0)

    def begin(self, step: Step) -> None:
        self._told = not self.codecs.hears_peers
        self._inner.begin(step)

    def put(self, variable: int, block_id: int, content: Array) -> None:
        self._inner.put(variable, block_id, content)

    def receive(self, sender: int, step: Step, variable: int, content: Content) -> None:
        # the number after the last variable is that of `tell_peers`
        if variable < len(self.codecs.codecs):
            self._inner.receive(sender, step, variable, content)
            self.late = self._inner.late
        elif isinstance(clock := unpacked(content), int):
            # a packet that was overtaken, or comes twice, must not set a clock back
            self._clocks[sender] = max(self._clocks[sender], clock)

    def ready(self, variable: int) -> bool:
        """Tell whether the codec's result may be taken and the slowest worker is at most s batches behind."""
        # behind all blocks: a link keeps the order, so a peer that reads the clock has read the packets of the batch
        if not self._told:  # all blocks of the batch have been put
            self._told = True
            self._clock += 1
            self.codecs.tell_peers(self._clock)
        # the codec first: asking it lets the own packets leave, for which the others wait
        return self._inner.ready(variable) and not self._behind()

    def wait(self, variable: int) -> Iterator[Wait]:
        """Yield waits for the codec and for the other workers' clocks, for at most two periods of T, and on while a worker that
        is behind says that it still computes.

        Raises: TimeoutError naming the workers that are too far behind.
        """
        start = self.clock()
        # one deadline for both, the codec's wait and the barrier
        deadline = start + 2 * self.timeout
        yield from self._inner.wait(variable)
        wait = Wait(lambda: self.ready(variable), deadline, self._describe)
        end = yield from until_overdue(wait, self.timeout, self.clock, self.codecs.silence)
        if end is None:
            return
        overdue = self.clock()
        if not (yield from await_verdict(wait, self.timeout, self.clock, self.codecs.suspects)):
            seconds = end - start + round(self.clock() - overdue, 3)
            raise TimeoutError(f"{TIMED_OUT}. Waited {seconds:g} s for {self._describe()}.")

    def get(self, variable: int) -> Array:
        return self._inner.get(variable)

    def _behind(self) -> list[int]:
        """Return the workers that are more than s batches behind this one, in ascending order."""
        if not self.codecs.hears_peers:
            return []
        # `peers()` leaves out workers that have left: they would hold up the others for ever
        return sorted(node for node in self.codecs.peers() if self._clock - self._clocks[node] > self.staleness)

    def _describe(self) -> str:
        behind = self._behind()
        if not behind:
            return "the own packets to leave"
        return f"node(s) {listed(behind)}, more than {self.staleness} batch{'es' * (self.staleness != 1)} behind"


@dataclass(frozen=True)
class StaleSynchronous(SyncSetting):
    """`sync_type=StaleSynchronous(3)` (Ho et al., "More effective distributed ML via a stale synchronous parallel parameter
    server", NIPS 2013).

    A worker's clock c counts the batches that it has computed and sent. It may go on iff c - min over workers of c <= s. So
    the values with which it computes the next batch contain every update of the first c - s batches of all workers; s = 0 is
    SynchronizedSGD, s = inf is AsynchronizedSGD.

    Args:
        staleness: s, in batches: an integer of at least 0, or `math.inf`.

    Raises: ValueError or TypeError when `staleness` is neither an integer of at least 0 nor infinite.
    """

    staleness: float
    forms: ClassVar[tuple[str, ...]] = ("stale:N", "ssp:N")
    makes = StaleSynchronizedSGD

    def __post_init__(self) -> None:
        if not isinstance(self.staleness, float) or self.staleness != math.inf:
            arguments.integer(self, "staleness", self.staleness, minimum=0)

    def admit(self, codec: type[Codec], op_type: type[IOptimizer]) -> None:
        """Refuse the codecs and optimizers that AsynchronizedSGD refuses, unless s = 0, for which all are admitted.

        Args:
            codec: class of the codec.
            op_type: class of the optimizer.

        Raises: ValueError naming the sync type and the codec or optimizer.
        """
        # s = 0 runs SynchronizedSGD, which waits for every codec
        if self.staleness > 0:
            check_asynchronous(self.__name__, codec, op_type)
