"""Synchronous exchange without the stragglers: the blocks of the first k workers make a result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from nn import arguments
from nn.optimizer import IOptimizer
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.interfaces import Codec, Partial

from .interface import SyncSetting
from .synchronized import SynchronizedSGD


class FirstKSGD(SynchronizedSGD):
    """SynchronizedSGD that completes a result as soon as the blocks of `k` workers are there; see `FirstK`.

    Args:
        codecs: the codecs of this worker, one per variable.
        timeout: T in seconds; see `RescuingSync`.
        clock: returns monotonic seconds.
        names: of the variables, for messages.
        k: number of workers, this one among them, that must have sent their blocks.

    Raises: ValueError where the job has fewer workers.
    """

    # workers may take different blocks, so a result is not common to all (`ISyncType.staleness`)
    staleness = math.inf

    def __init__(
        self, codecs: CodecBank, timeout: float, clock: Callable[[], float], names: tuple[str, ...], k: int = 2
    ) -> None:
        super().__init__(codecs, timeout, clock, names)
        if k > codecs.assignment.node_count:
            raise ValueError(f"FirstK 'k' must be at most the number of workers, {codecs.assignment.node_count}, got {k}")
        self._k = k

    def is_done(self, variable: int) -> bool:
        if not super().is_done(variable) and len(self.present(variable)) >= self._k:
            # settled where the training asks, not on arrival: all blocks that have come by then count
            self.settle(variable)
        # asked again: `settle` may have made the result
        return super().is_done(variable)


@dataclass(frozen=True)
class FirstK(SyncSetting):
    """`sync_type=FirstK(3)`: a result is the mean over the blocks of the first k workers, this one among them.

    Blocks that come by then count; blocks that come later are counted as late and change nothing. k = n, the number of workers,
    gives the results of SynchronizedSGD. With k < n two workers may take the blocks of different workers, so that each trains a
    model of its own: `op_type=ParameterAveragingOptimizer` keeps these models together. A worker that is always late keeps in
    memory the messages that the others have sent meanwhile. (Chen et al., "Revisiting distributed synchronous SGD", 2016, with
    a parameter server.)

    Args:
        k: number of workers, at least 1 and at most those of the job.

    Raises: ValueError or TypeError when `k` is no positive integer.
    """

    k: int
    staleness = math.inf
    forms: ClassVar[tuple[str, ...]] = ("first:K",)
    makes = FirstKSGD

    def __post_init__(self) -> None:
        arguments.integer(self, "k", self.k, minimum=1)

    def admit(self, codec: type[Codec], op_type: type[IOptimizer]) -> None:
        """Refuse codecs that make no result of some of their blocks: those that are not derived from `Partial`.

        Raises: ValueError naming the sync type and the codec.
        """
        if not issubclass(codec, Partial):
            raise ValueError(
                f"'sync_type' {self.__name__} cannot run 'codec' {codec.__name__}, which makes no result of some of its blocks "
                f"(it is not derived from Partial): take Plain, or SynchronizedSGD"
            )
