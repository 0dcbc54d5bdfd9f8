"""Asynchronous exchange: no worker waits for another one's batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from nn.optimizer import IOptimizer
from nn.optimizer.exchanging import ExchangingOptimizer
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.interfaces import Array, Codec
from parallel_sgd.merge import BlockMean
from parallel_sgd.wait import Wait

from .interface import Step
from .rescuing import RescuingSync


class AsynchronizedSGD(RescuingSync):
    """Messages reach the codecs on arrival, whatever batch they are of, and results are taken as they are.

    A worker waits only for a codec whose answer comes without anybody's batch (`Codec.awaits_answer`: AsyncPS, DCASGD), with
    the limits and the rescue of SynchronizedSGD. Where another codec has no result yet, the worker goes on with its own
    value, the mean over its blocks of the batch. `late` counts messages that came after the last batch. (Dean et al., "Large
    scale distributed deep networks", 2012.)
    """

    staleness = math.inf

    @classmethod
    def admit(cls, codec: type[Codec], op_type: type[IOptimizer]) -> None:
        """Refuse codecs that need every worker's batch, and optimizers that a worker's own value does not help.

        Raises: ValueError naming both.
        """
        check_asynchronous(cls.__name__, codec, op_type)

    def __init__(self, codecs: CodecBank, timeout: float, clock: Callable[[], float], names: tuple[str, ...]) -> None:
        super().__init__(codecs, timeout, clock, names)
        mine = codecs.assignment.node_2_block[codecs.node_id]
        self._place = {block: place for place, block in enumerate(mine)}
        self._own: list[BlockMean | None] = [None if c.awaits_answer else BlockMean(len(mine)) for c in codecs.codecs]
        self._local: list[Array | None] = [None] * len(names)
        self._passes = False
        self._early: list[tuple[int, Step, int, object]] = []

    def begin(self, step: Step) -> None:
        """Forget the own values of the batch before; hand over what came before the first one."""
        super().begin(step)
        self._passes = any(own is not None for own in self._own)
        for own in self._own:
            if own is not None:
                own.reset()
        early, self._early = self._early, []
        for message in early:
            self.receive(*message)

    def put(self, variable: int, block_id: int, content: Array) -> None:
        """Add to the own value, then to the codec."""
        own, place = self._own[variable], self._place[block_id]
        if own is not None:
            self._local[variable] = own.mean_with((place, place + 1), content, stays=place == len(self._place) - 1)
        super().put(variable, block_id, content)

    def receive(self, sender: int, step: Step, variable: int, content: object) -> None:
        """Straight to the codec."""
        if self.codecs.closed:
            self.late += 1
        elif self._step == (-1, -1):
            self._early.append((sender, step, variable, content))
        else:
            self._heard.append((sender, variable))
            self.codecs.receive(variable, content, sender)

    def ready(self, variable: int) -> bool:
        """True when the wire took all of ours, and the answer is there where one is awaited.

        One that waits for nothing looks once in a batch what has arrived, and lets other workers of this process run.
        """
        self.codecs.flush()
        if self._passes:
            self._passes = False
            self.codecs.poll()
            return False
        codec = self.codecs.codecs[variable]
        return self.codecs.flushed() and (codec.is_done() or not codec.awaits_answer)

    def wait(self, variable: int) -> Iterator[Wait]:
        """At most two periods of T."""
        if self._own[variable] is not None:
            yield Wait(lambda: True, None, lambda: "nothing")
        yield from super().wait(variable)

    def get(self, variable: int) -> Array:
        """The codec's result, else the own value.

        Raises: RuntimeError when the variable is not ready.
        """
        local = self._local[variable]
        if local is None or self.codecs.codecs[variable].is_done():
            return super().get(variable)
        self._taken[variable] = True
        return local


def check_asynchronous(name: str, codec: type[Codec], op_type: type[IOptimizer]) -> None:
    """Check that workers of the sync type `name` can run `codec` without each other's batches.

    Raises: ValueError naming sync type and codec or optimizer.
    """
    if codec.synchronous:
        raise ValueError(
            f"'sync_type' {name} cannot run 'codec' {codec.__name__}, whose results are made of what all workers send in the "
            f"same batch: take SynchronizedSGD, or a codec like AsyncPS"
        )
    turns = issubclass(op_type, ExchangingOptimizer) and op_type.puts != op_type.gets
    if turns and not codec.awaits_answer:
        raise ValueError(
            f"'sync_type' {name} goes on with a worker's own value where 'codec' {codec.__name__} has no result yet, but "
            f"'op_type' {op_type.__name__} cannot use its own values as results: take AsyncPS, or SynchronizedSGD"
        )
