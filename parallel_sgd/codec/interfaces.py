"""The interface of all codecs: passive objects that return packets and never block, sleep or touch a socket."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from types import GenericAlias
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Operation = Callable[[Array | None, Array], Array]


class BlockWeight(NamedTuple):
    """What one block contributes to one variable.

    `content` is the gradient (or update, or weights, by `op_type`) averaged over the block's samples, read-only.
    """

    content: Array
    block_id: int


class netEncapsulation:
    """A packet: `content` for one worker or several. What may travel is listed in the guide.

    `netEncapsulation[tuple[int, ndarray]]` is allowed in annotations.
    """

    __slots__ = ("content", "targets")
    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def __init__(self, targets: int | Iterable[int], content: object) -> None:
        self.targets: tuple[int, ...] = (targets,) if isinstance(targets, (int, np.integer)) else tuple(targets)
        self.content = content

    def __repr__(self) -> str:
        return f"netEncapsulation(targets={self.targets}, content={type(self.content).__name__})"


#: What a codec may return: nothing, one packet, or any iterable of packets (a generator too).
Packets = netEncapsulation | Iterable[netEncapsulation] | None


class Codec(ABC):
    """One object per worker and variable, for the whole job. Its methods are never called concurrently.

    A codec is done when it has a result, unless `is_done` is overridden; the result is the mean over blocks unless the
    codec says otherwise.
    """

    #: True: `BlockWeight.content` may be kept until the batch's result has been taken. A codec that sets False reads it
    #: within `update_blocks`, except that of its worker's last block, which stays; this saves a copy per block.
    keeps_content: ClassVar[bool] = True

    #: True: the first copy of a block counts and nobody's silence is missed as long as each block comes from somewhere, so
    #: that a job with redundant blocks can go on without a lost node.
    takes_first_copy: ClassVar[bool] = False

    #: True: it sends to the parameter server, so a job without one is refused.
    needs_server: ClassVar[bool] = False

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._result: Array | None = None

    @property
    def node_id(self) -> int:
        """The node that this codec runs on."""
        return self._node_id

    @abstractmethod
    def update_blocks(self, block_weight: BlockWeight) -> Packets:
        """Take what this worker computed for one of its blocks; called in the order of `node_2_block`."""

    @abstractmethod
    def receive_blocks(self, content: Any) -> Packets:
        """Take the content of a packet that another node's codec of the same variable sent in the same batch."""

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

    def record(self, message: str) -> None:
        """Write a line into the worker's log."""
        logging.getLogger("parallel_sgd.codec").info("Codec: %s, Report: %s", type(self).__name__, message)
