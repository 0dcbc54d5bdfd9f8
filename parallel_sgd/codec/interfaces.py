"""The interface of all codecs: passive objects that return packets and never block, sleep or touch a socket."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from types import GenericAlias, MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nn.extension import Extension
from parallel_sgd.merge import Copy, Span
from parallel_sgd.unusable import Like, Unusable, check_arrays, check_form
from rpc.logs import get_logger

Array = NDArray[Any]
Operation = Callable[[Array | None, Array], Array]


class BlockWeight(NamedTuple):
    """What one block contributes to one variable.

    `content` is the gradient (or update, or weights, by `op_type`) averaged over the block's samples, read-only.
    """

    content: Array
    block_id: int

    @property
    def span(self) -> Span:
        """Of which blocks it is: [low, high)."""
        return self.block_id, self.block_id + 1


class BlockSum(BlockWeight):
    """The sum over two blocks that the tree of merging adds up first, for codecs that say `takes_sums`; the second one is
    `block_id`."""

    @property
    def span(self) -> Span:
        return self.block_id - 1, self.block_id + 1


class netEncapsulation:
    """A packet: `content` for one worker or several. What may travel is listed in the guide.

    `netEncapsulation[tuple[int, ndarray]]` is allowed in annotations.
    """

    __slots__ = ("content", "targets")
    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def __init__(self, targets: int | Iterable[int], content: object) -> None:
        self.targets: tuple[int, ...] = (targets,) if isinstance(targets, (int, np.integer)) else tuple(targets)
        self.content = content

    def target(self) -> list[int]:
        """The nodes that it goes to."""
        return list(self.targets)

    def __repr__(self) -> str:
        return f"netEncapsulation(targets={self.targets}, content={type(self.content).__name__})"


#: What a codec may return: nothing, one packet, or any iterable of packets (a generator too).
Packets = netEncapsulation | Iterable[netEncapsulation] | None


class Exchange(Protocol):
    """Who talks to whom: what `Codec.of` begins with. Those that ship are in `parallel_sgd.codec.compose`."""

    def compose(self, **parts: Any) -> type[Codec]:
        """Return a codec class that exchanges in this way."""


class Codec(
    metaclass=Extension,
    free=("record", "of"),
    fixed=("node_id", "_node_id", "_result"),
    mistakable=("check", "answer", "receive_late"),
):
    """One object per worker and variable, for the whole job. Its methods are never called concurrently.

    A codec is done when it has a result, unless `is_done` is overridden; the result is the mean over blocks unless the
    codec says otherwise.
    """

    #: True: `BlockWeight.content` may be kept until the batch's result has been taken. A codec that sets False reads it
    #: within `update_blocks`, except that of its worker's last block, which stays; this saves a copy per block.
    keeps_content: ClassVar[bool] = True

    #: True: it adds up blocks along the tree and goes by `BlockWeight.span`, so it may be given two as one `BlockSum`. What a
    #: class says does not count for subclasses: who can do with sums says it again.
    takes_sums: ClassVar[bool] = False

    #: True: it writes into no array that it receives, and keeps none beyond the next batch. Such an array may lie in memory
    #: of a sender on the same host; for a codec that sets False it is copied from there.
    reads_in_place: ClassVar[bool] = False

    #: True: the first copy of a block counts and nobody's silence is missed as long as each block comes from somewhere, so
    #: that a job with redundant blocks can go on without a lost node.
    takes_first_copy: ClassVar[bool] = False

    #: True: it sends to the parameter server, so a job without one is refused.
    needs_server: ClassVar[bool] = False

    #: True: the same class also runs on the parameter server, and is its default there.
    serves: ClassVar[bool] = False

    #: What the optimizer has to put: "gradients", "updates" or "parameters"; None: whatever it puts.
    takes: ClassVar[str | None] = None

    #: What the results are; None: the same as what was put.
    gives: ClassVar[str | None] = None

    #: True: all workers get equal results in every batch. Where not, they train models of their own.
    agrees: ClassVar[bool] = True

    #: True: a result is made of what all workers send in the same batch, so asynchronous sync types refuse it.
    synchronous: ClassVar[bool] = False

    #: True: packets count whatever batch they are of, so SynchronizedSGD, which keeps batches apart, refuses it.
    asynchronous: ClassVar[bool] = False

    #: True: the last bits of a result depend on what arrives first, so that no batch can be computed again.
    by_arrival: ClassVar[bool] = False

    #: True: an answer to what was sent comes without waiting for anybody's batch, and the result is made of it; so a worker
    #: waits for it under asynchronous sync types too, where it otherwise goes on with its own value.
    awaits_answer: ClassVar[bool] = False

    #: True: what it sends holds finite numbers only, and a node refuses arrays with others, naming the sender.
    sends_finite: ClassVar[bool] = True

    #: True: the arrays that it sends have the type of what was put, as well as its shape; see `check`.
    keeps_type: ClassVar[bool] = False

    #: What comes to it, each a type, or a tuple or list of types: `((int, np.ndarray), np.ndarray)`, with `(int, ...)` for any
    #: number of integers; `check` refuses all else. Empty: not looked at.
    forms: tuple[Any, ...] = ()

    #: True: `check` takes every packet of one of `forms` whose one array is like what is put, of finite numbers, so it is asked
    #: of others alone. Who sent it is then seen to in `receive_blocks`.
    takes_alike: ClassVar[bool] = False

    #: True: its result is an array that came, unchanged, or was put, so that nothing can be wrong with it that was not seen.
    passes_on: ClassVar[bool] = False

    #: How many gradients that it has applied were how many steps old, where it counts that.
    staleness: Mapping[int, int] = MappingProxyType({})

    #: The copies that the last result was made of, in the order in which they were merged: ((low, high), node) for the
    #: sum of `node` over the blocks [low, high); a wider span replaces what was within it. None where it does not keep track:
    #: then a block counts as the copy of the worker itself, else of the first worker that holds it and is there.
    copies: tuple[Copy, ...] | None = None

    _node_id: int
    _result: Array | None

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._result = None

    @property
    def node_id(self) -> int:
        """The node that this codec runs on."""
        return self._node_id

    @classmethod
    def joins(cls) -> bool:
        """Whether it treats every number by itself, so that it may be given neighbouring variables as one vector, with the
        number of the first. What a class says does not count for subclasses: who can do with vectors defines this again."""
        return False

    @abstractmethod
    def update_blocks(self, block_weight: BlockWeight) -> Packets:
        """Take what this worker computed for one of its blocks; called in the order of `node_2_block`."""

    @abstractmethod
    def receive_blocks(self, content: Any) -> Packets:
        """Take the content of a packet that another node's codec of the same variable sent in the same batch."""

    def check(self, content: Any, like: Like | None) -> None:
        """Refuse what no codec of this kind sends. Called with every packet, late ones too, before any other method sees it.

        This one takes arrays of exactly the shape of what is put for the variable, `like`; of its type, too, where
        `keeps_type`, else of any real numbers; finite ones unless `sends_finite` is False; and anything that is no array. A
        codec whose packets hold other arrays (parts, places, codes) looks at them here, all the more as NumPy adds an array of
        one number, or of one row, to any other. `like` is None where nothing was put yet for what is no variable of the model.

        Raises: Unusable saying what is wrong.
        """
        if self.forms and not (type(content) is tuple and tuple(map(type, content)) in self.forms):
            check_form(content, self.forms)
        try:
            check_arrays(content, like, self.sends_finite, self.keeps_type)
        except Unusable as error:
            if type(self).__module__.partition(".")[0] != __name__.partition(".")[0]:
                raise Unusable(f"{error} (a codec that sends other arrays says which in 'check')") from None
            raise

    def answer(self, node: int) -> Packets:
        """On the server: what `node` may read now.

        Called once for each batch in which it has sent something, after `receive_blocks`, as soon as the sync type lets it
        go on: at once under AsynchronizedSGD, when no worker is more than s batches behind it under StaleSynchronous(s),
        when every worker has sent something in that batch under SynchronizedSGD.
        """
        return None

    def receive_late(self, content: Any) -> Packets:
        """Take a packet of the batch whose result was taken last; what is returned goes out under that batch.

        Its sender may still miss something there. Anything else that is late is dropped without asking.
        """
        return None

    def do_something_to_save_yourself(self) -> Packets:
        """Called once when the result is overdue. Packets: they are sent, and the worker waits once more; None: it fails."""
        return None

    def dispose(self) -> None:
        """The job ends: let go of memory."""
        self._result = None

    def set_result(self, content: Array, operation: Operation | None = None) -> None:
        """Merge `content` into the result: added to what is there, or `operation(old or None, content)` replaces it."""
        if content is None:
            raise TypeError(f"{type(self).__name__}.set_result() takes an array, got None")
        old = self._result
        if operation is not None:
            self._result = operation(old, content)
        else:
            self._result = content if old is None else old + content

    def get_result(self) -> Array | None:
        """The result, or None when there is none; empties it."""
        result, self._result = self._result, None
        return result

    def is_done(self) -> bool:
        """True when the result is complete."""
        return self._result is not None

    def missing_blocks(self) -> Iterable[int]:
        """The blocks that a time-out message names; a codec that does not keep track leaves it empty."""
        return ()

    def state_dict(self) -> dict[str, Any]:
        """What the codec remembers between two batches, for checkpoints: arrays and numbers, live."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned.

        Raises: ValueError for names that the codec does not know.
        """
        if state:
            raise ValueError(f"{type(self).__name__} remembers nothing, got {', '.join(sorted(state))}")

    @staticmethod
    def of(exchange: Exchange, **parts: Any) -> type[Codec]:
        """Compose a codec class: `Codec.of(ShardedPS(), up=ErrorFeedback(TopK(0.01) | Int8()), name="TopKInt8")`.

        Parts, all optional: `up` and `down` are what happens to an array on its way to where it is merged and back (stages of
        `parallel_sgd.codec.pipeline`; None sends it as it is); `send` is "gradient" (whatever the optimizer puts), "weights"
        or "delta" (parameters, sent as what has changed since the last exchange); `merge` a merge rule, `trigger` says in
        which batches there is an exchange, `local` what a worker does by itself beside it, `name` is the name of the class. A
        part is an object, which every codec object copies, or a function that makes one, called in the codec's constructor,
        where `GlobalSettings` can be read.

        Raises: TypeError or ValueError where parts do not fit together, with the fix in words.
        """
        return exchange.compose(**parts)

    def missing_nodes(self) -> Iterable[int]:
        """The nodes that a time-out message names where no block is missing."""
        return ()

    def record(self, message: str) -> None:
        """Write a line into the worker's log."""
        get_logger("parallel_sgd.codec").info("Codec: %s, Report: %s", type(self).__name__, message)


class Partial(Codec):
    """Codec whose result can be made before every block is there, for sync types such as `FirstK`.

    What comes for a batch after `settle` must change neither its result nor the next one.
    """

    @abstractmethod
    def missing_blocks(self) -> Iterable[int]:
        """Return the blocks that the result lacks so far."""

    @abstractmethod
    def settle(self) -> None:
        """Make the result of the blocks that are there, with `set_result`; called where no result is there yet."""
