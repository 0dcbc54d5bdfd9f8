"""The interface of sync types."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

from network.message import Content
from nn.extension import Extension
from nn.optimizer import IOptimizer
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.interfaces import Array, Codec
from parallel_sgd.engine.channel import Wait

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
    def receive(self, sender: int, step: Step, variable: int, content: Content) -> None:
        """Take a message that has arrived, as it came: `self.codecs.receive(variable, content, sender)` gives it to its codec.

        Args:
            sender: node that sent it.
            step: (epoch, batch) that it belongs to.
            variable: place of its codec in `self.codecs.codecs`; the place behind these for what `tell_peers` has sent.
            content: what it holds, perhaps not decoded yet; `network.message.unpacked` returns the value.
        """

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
    """Plain data that makes the sync type of each worker, for one that takes a number: `sync_type=StaleSynchronous(3)`.

    A frozen dataclass whose fields are the arguments of the class in `makes` behind those of `ISyncType`. On the command line
    and in job files the first of its `forms`, such as `stale:N`, stands for one whose first field is the number N.
    """

    staleness: float
    forms: ClassVar[tuple[str, ...]] = ()
    #: The sync type of a worker; a class without it overrides `__call__` and `admit`.
    makes: ClassVar[type[ISyncType]]

    def _arguments(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]

    @property
    def __name__(self) -> str:
        """For logs and messages: `FirstK(3)`."""
        return f"{type(self).__name__}({', '.join(map(str, self._arguments()))})"

    @property
    def _number(self) -> float:
        """What stands for N in the form."""
        number: float = self._arguments()[0] if is_dataclass(self) else self.staleness
        return number

    def __call__(self, codecs: CodecBank, timeout: float, clock: Callable[[], float], names: tuple[str, ...]) -> ISyncType:
        """Make the sync type of one worker; the arguments are those of `ISyncType`."""
        return self.makes(codecs, timeout, clock, names, *self._arguments())

    def admit(self, codec: type[Codec], op_type: type[IOptimizer]) -> None:
        """Check a codec and an optimizer, as `ISyncType.admit`."""
        self.makes.admit(codec, op_type)


SyncChoice = type[ISyncType] | SyncSetting
"""What `sync_type` may be."""
