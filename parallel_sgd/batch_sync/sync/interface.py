"""The interface of sync types."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar

from nn.extension import Extension
from nn.optimizer import IOptimizer
from parallel_sgd.channel import Wait
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.interfaces import Array, Codec

Step = tuple[int, int]  # (epoch, batch), counted from 0


class ISyncType(metaclass=Extension, fixed=("codecs", "timeout", "clock", "names", "late")):
    """Stands between the training process and the codecs of one worker: no socket, thread or clock of its own.

    `timeout` is T in seconds, `clock` returns monotonic seconds, `names` are those of the variables, for messages. `late`
    counts messages that came after the result of their batch was taken.
    """

    #: By how many batches a worker may be ahead of the slowest one; a parameter server keeps its answers back accordingly.
    #: 0 also promises that a result holds every block of its batch, on all workers: one worker's checkpoint may stand for all
    #: then, and buffers travel losslessly. A type that goes on without some blocks has more: `math.inf`, as AsynchronizedSGD.
    staleness: float = 0
    #: What `--psgd` calls it, the first of which is listed; a subclass does not inherit these.
    forms: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def admit(cls, codec: type[Codec], op_type: type[IOptimizer]) -> None:
        """Check that it can run `codec` under the optimizer `op_type`; `parallel()` asks before anything is sent.

        Raises: ValueError naming both, and what to take instead.
        """
        return

    codecs: CodecBank
    timeout: float
    clock: Callable[[], float]
    names: tuple[str, ...]
    late: int = 0

    def __init__(self, codecs: CodecBank, timeout: float, clock: Callable[[], float], names: tuple[str, ...]) -> None:
        self.codecs = codecs
        self.timeout = timeout
        self.clock = clock
        self.names = names
        self.late = 0

    @abstractmethod
    def begin(self, step: Step) -> None:
        """A new batch begins; every result of the one before has been got."""

    def put(self, variable: int, block_id: int, content: Array) -> None:
        """A block of this worker is computed: straight to its codec, unless a type does more with it."""
        self.codecs.update(variable, block_id, content)

    @abstractmethod
    def receive(self, sender: int, step: Step, variable: int, content: object) -> None:
        """A message has arrived."""

    @abstractmethod
    def ready(self, variable: int) -> bool:
        """True when `get` may be called and the blocks that were put may change."""

    @abstractmethod
    def wait(self, variable: int) -> Iterator[Wait]:
        """Yield waits until the variable is ready.

        Raises: TimeoutError naming variable, batch and what is missing.
        """

    @abstractmethod
    def get(self, variable: int) -> Array:
        """The result of a ready variable; valid until the next batch begins."""


class SyncSetting(metaclass=Extension):
    """Plain data that makes the sync type of each worker, for one that takes arguments: `sync_type=StaleSynchronous(3)`.

    Of a `form` such as `stale:N` the command line makes one by the number that stands for N.
    """

    staleness: float
    forms: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def __name__(self) -> str:
        """For logs and messages."""

    @abstractmethod
    def __call__(self, codecs: CodecBank, timeout: float, clock: Callable[[], float], names: tuple[str, ...]) -> ISyncType:
        """The sync type of one worker."""

    @abstractmethod
    def admit(self, codec: type[Codec], op_type: type[IOptimizer]) -> None:
        """As `ISyncType.admit`."""


SyncChoice = type[ISyncType] | SyncSetting
"""What `sync_type` may be."""
