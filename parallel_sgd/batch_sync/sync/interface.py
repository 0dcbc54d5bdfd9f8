"""The interface of sync types."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from network.message import Content
from nn.extension import Extension, signature_of, takes
from nn.optimizer import IOptimizer
from parallel_sgd.codec.interfaces import Array, Codec
from parallel_sgd.engine.channel import Wait

if TYPE_CHECKING:  # an interface names the codecs of a worker, and runs without them
    from parallel_sgd.codec.bank import CodecBank

Step = tuple[int, int]  # (epoch, batch), counted from 0


class ISyncType(metaclass=Extension, fixed=("codecs", "timeout", "clock", "names", "late")):
    """Sync type of one worker, between its training process and its codecs: no socket, thread or clock of its own.

    A worker calls, in each batch: `begin`; `put` for each of its blocks and variables; `wait` and `get` for each variable.
    `receive` is called whenever a message has arrived.

    Args:
        codecs: the codecs of this worker, one per variable.
        timeout: T in seconds, the limit of a wait.
        clock: returns monotonic seconds.
        names: of the variables, for messages.
    """

    staleness: float = 0
    """By how many batches a worker may be ahead of the slowest one; a parameter server keeps its answers back accordingly.
    0 also promises that a result holds every block of its batch, on all workers: one worker's checkpoint may stand for all
    then, and buffers travel losslessly. A type that goes on without some blocks has more: `math.inf`, as AsynchronizedSGD."""
    forms: ClassVar[tuple[str, ...]] = ()
    """Names that `--psgd` takes for it, the first of which is listed; a subclass does not inherit these."""

    @classmethod
    def admit(cls, codec: type[Codec], op_type: type[IOptimizer]) -> None:
        """Check that the type can run a codec under an optimizer; `parallel()` asks before anything is sent.

        Args:
            codec: class of the codec.
            op_type: class of the optimizer.

        Raises: ValueError naming both, and the classes to take instead.
        """
        return

    codecs: CodecBank
    """The codecs of this worker, one per variable."""
    timeout: float
    """T in seconds, the limit of a wait."""
    clock: Callable[[], float]
    """Returns monotonic seconds."""
    names: tuple[str, ...]
    """Those of the variables, for messages."""
    late: int = 0
    """The number of messages that came after the result of their batch was taken."""

    def __init__(self, codecs: CodecBank, timeout: float, clock: Callable[[], float], names: tuple[str, ...]) -> None:
        self.codecs = codecs
        self.timeout = timeout
        self.clock = clock
        self.names = names
        self.late = 0

    @abstractmethod
    def begin(self, step: Step) -> None:
        """Begin a new batch; every result of the one before has been got.

        Args:
            step: (epoch, batch), both counted from 0.
        """

    def put(self, variable: int, block_id: int, content: Array) -> None:
        """Give a computed block of this worker to its codec; a type may do more with it.

        Args:
            variable: place of its codec in `self.codecs.codecs`.
            block_id: the block of the batch.
            content: gradient or values, of the variable's shape; must not change until the variable is ready.
        """
        self.codecs.update(variable, block_id, content)

    @abstractmethod
    def receive(self, sender: int, step: Step, variable: int, content: Content) -> None:
        """Take a message that has arrived, as it came: `self.codecs.receive(variable, content, sender)` gives it to its codec.

        Args:
            sender: node that sent it.
            step: (epoch, batch) that it belongs to.
            variable: place of its codec in `self.codecs.codecs`; the place behind these for a message of `tell_peers`.
            content: of the message, perhaps not decoded yet; `network.message.unpacked` returns the value.
        """

    @abstractmethod
    def ready(self, variable: int) -> bool:
        """Tell whether `get` may be called for `variable`, and the blocks of it that were put may change."""

    @abstractmethod
    def wait(self, variable: int) -> Iterator[Wait]:
        """Yield waits until the variable is ready.

        Raises: TimeoutError naming the variable, the batch, and the blocks or nodes that are missing.
        """

    @abstractmethod
    def get(self, variable: int) -> Array:
        """Return the result of a ready variable, an array of its shape; valid until the next batch begins."""


class SyncSetting(metaclass=Extension):
    """Plain data that makes the sync type of each worker, for a type that takes a number: `sync_type=StaleSynchronous(3)`.

    It is a frozen dataclass; its fields are the arguments of the class in `makes` behind those of `ISyncType`. On the command
    line and in job files the first of its `forms`, such as `stale:N`, stands for a setting with the number N as first field.
    """

    staleness: float
    forms: ClassVar[tuple[str, ...]] = ()
    makes: ClassVar[type[ISyncType]]
    """The sync type of a worker; a class without it overrides `__call__` and `admit`."""

    def _arguments(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]

    @property
    def __name__(self) -> str:
        """Name for logs and messages: `FirstK(3)`."""
        return f"{type(self).__name__}({', '.join(map(str, self._arguments()))})"

    @property
    def _number(self) -> float:
        """Number that stands for N in the form."""
        number: float = self._arguments()[0] if is_dataclass(self) else self.staleness
        return number

    def _check(self) -> None:
        """Check that the setting is complete, before anything is sent.

        Raises: TypeError naming the class and the part that is missing.
        """
        kind = type(self)
        if kind.__call__ is not SyncSetting.__call__:
            return
        if not is_dataclass(kind):
            raise TypeError(f"{kind.__name__} must be a frozen dataclass: write @dataclass(frozen=True) above it")
        makes: object = getattr(kind, "makes", None)
        if not (isinstance(makes, type) and issubclass(makes, ISyncType)):
            raise TypeError(f"{kind.__name__}.makes must be the sync type that it stands for, got {makes!r}")
        names = [field.name for field in fields(kind)]
        if not takes(makes, (None,) * (4 + len(names)), {}):
            raise TypeError(
                f"{makes.__name__}.__init__() must take codecs, timeout, clock, names and the fields of {kind.__name__}, "
                f"{', '.join(names)}, got {signature_of(makes)}"
            )

    def __call__(self, codecs: CodecBank, timeout: float, clock: Callable[[], float], names: tuple[str, ...]) -> ISyncType:
        """Make the sync type of one worker; the arguments are those of `ISyncType`."""
        return self.makes(codecs, timeout, clock, names, *self._arguments())

    def admit(self, codec: type[Codec], op_type: type[IOptimizer]) -> None:
        """Check the classes of a codec and of an optimizer, as `ISyncType.admit` does.

        Args:
            codec, op_type: as there.
        """
        self.makes.admit(codec, op_type)


SyncChoice = type[ISyncType] | SyncSetting
"""Values of the argument `sync_type`."""
