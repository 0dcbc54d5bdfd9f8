"""Engine behind the P-SGD optimizers: blocks go in, merged results come out (`nn.optimizer.Exchange`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from network.message import Message
from nn.arrays import Array, empty
from nn.extension import is_ours
from nn.optimizer import IOptimizer
from nn.optimizer.parallel_sgd import ExchangingOptimizer
from rpc.support.logs import get_logger

from ..batch_sync.sync.interface import ISyncType
from ..codec.bank import CodecBank
from ..codec.interfaces import BlockSum, Codec
from .block_tree import block_tree
from .channel import Wait
from .merge import MeanOfHalves

_log = get_logger("parallel_sgd.engine.exchange")
#: Part of the time-out after which a worker that computes says so: several words fit in, should a step take longer.
_TELLS_AFTER: Final = 0.25


class BlockExchange:
    """Exchange of one worker for one attempt of a job.

    A value is known by (attempt, epoch, batch, block, variable); messages of another attempt are refused and counted. `ready`
    and `wait` are those of the sync type, `deliver(sender, message)` and `deliver_all` are the bank's.

    Args:
        bank: the codecs of the worker.
        sync: the sync type; it decides when a result is ready.
        replaced: looks at the first results where they replace parameters, or None.
        names: those of the variables; by default as the sync type has them.
        joined: numbers of the variables of each vector that travels as one.
    """

    def __init__(
        self,
        bank: CodecBank,
        sync: ISyncType,
        replaced: ReplacementCheck | None = None,
        names: Sequence[str] | None = None,
        joined: Sequence[range] = (),
    ) -> None:
        self.bank = bank
        self.joined = joined
        self.accounts = bank.accounts
        self.sync = sync  # decides when a result is ready; counts late packets
        # for a type that does no more than the base, gradients go to the bank without the call between
        self._put = bank.update if type(sync).put is ISyncType.put else sync.put
        self.sums = False  # whether a put gradient is the sum over a block and the one before
        self._replaced = replaced
        self.ready: Callable[[int], bool] = sync.ready
        self.wait: Callable[[int], Iterator[Wait]] = sync.wait if is_ours(type(sync)) else self._wait
        self.deliver: Callable[[int, Message], None] = bank.accept
        self.deliver_all: Callable[[Sequence[tuple[int, Message]]], None] = bank.accept_all
        self.names: Sequence[str] = sync.names if names is None else names
        # the bank knows the running batch only; the sync type decides on packets that are early or late
        bank.variable_names, bank.keep, bank.clock = self.names, sync.receive, sync.clock
        # blocks are computed in the order of `node_2_block`, so this is the last one of every batch
        self._last_block = bank.assignment.node_2_block[bank.node_id][-1]
        self._views: dict[int, tuple[Array, Array]] = {}
        self._copies: dict[tuple[int, int], Array] = {}
        self._told = 0.0  # when the batch began, or the others heard last that this worker computes

    @property
    def shards(self) -> int:
        return self.bank.assignment.node_count

    @property
    def shard(self) -> int:
        return self.bank.assignment.nodes.index(self.bank.node_id)

    @property
    def remark(self) -> str:
        """Sentence for the user about the first results; "" for nothing."""
        return "" if self._replaced is None else self._replaced.remark

    @property
    def refused(self) -> int:
        """Number of packets of another attempt."""
        return self.bank.refused

    def begin(self, epoch: int, batch: int) -> None:
        """Begin a new batch, counted from 0; all results of the one before have been got."""
        step = (epoch, batch)
        self.bank.begin(step)
        self._told = self.sync.clock()
        # the bank first: the sync type may hand over stashed packets as it begins, and these are of the new step
        self.sync.begin(step)

    def still_computing(self) -> None:
        """Tell the other workers that this one computes, where a quarter of the time-out has passed since the batch began or
        since they last heard so: no result that they await is overdue then. To be called before each step of a long batch.
        """
        now = self.sync.clock()
        if now - self._told > self.sync.timeout * _TELLS_AFTER:
            self._told = now
            self.bank.tell_computing()

    def put(self, variable_id: int, block_id: int, content: Array) -> None:
        """Give the gradient of one block to its codec.

        `content` may be overwritten by the next block of this worker; that of its last block in a batch stays unchanged
        until the batch is finished, and goes out without a copy.
        """
        # the model reuses its gradient arrays, so the next block would overwrite what the codec keeps
        if block_id != self._last_block and self.bank.keeps_content[variable_id]:
            content = self._copy(variable_id, block_id, content)
        known = self._views.get(variable_id)  # gradients keep their place, so the view that codecs get is made once
        view = known[1] if known is not None and known[0] is content else self._read_only(variable_id, content)
        if self.sums:
            self.bank.update(variable_id, block_id, view, BlockSum)
        else:
            self._put(variable_id, block_id, view)

    def pairs(self, optimizer: IOptimizer) -> frozenset[int]:
        """Return the blocks of this worker with gradients that may be added to those of the block before, which is computed
        just before and added first by the tree: none unless optimizer and codecs all say, each for itself, that they take sums.
        """
        bank = self.bank
        # buffers are no gradients, so their codec, the last one, is not asked
        kinds = {type(codec) for codec in bank.codecs[: getattr(optimizer, "buffers_id", None)]}
        looked_at = optimizer.by_shard and optimizer.shows_gradients  # as they are before they are merged
        if (
            looked_at
            or self._put != bank.update
            or not (
                # in the class itself, not inherited: a subclass with an `update_blocks` of its own may count on single blocks
                vars(type(optimizer)).get("takes_sums")
                and all("traits" in vars(kind) and kind.traits.takes_sums for kind in kinds)
            )
        ):
            return frozenset()
        # the tree adds exactly these two first, so that a sum of them has the bits that it would make
        sibling = block_tree(bank.assignment.block_count).sibling
        steps = pairwise(bank.assignment.node_2_block[bank.node_id])
        return frozenset(b for a, b in steps if a + 1 == b and sibling[a, b] == (b, b + 1))

    def get(self, variable_id: int) -> Array:
        """Return the merged result; read it before the next batch begins.

        Raises: TypeError naming codec and variable when it is no array of floats of the variable's shape, FloatingPointError
        when others had a part in it and it holds numbers that are not finite.
        """
        result = self.read(variable_id)
        return result.whole() if isinstance(result, MeanOfHalves) else result

    def read(self, variable_id: int) -> Array | MeanOfHalves:
        """Return the merged result as `get` does; but a result that the optimizer does not keep may be computed, and checked, a
        stretch at a time, where it is read.
        """
        result: object = self.sync.get(variable_id)
        known = self._views.get(variable_id)
        if isinstance(result, MeanOfHalves):
            if self.bank.merged[variable_id]:
                self.bank.merged[variable_id] = False
                # checked while it is read: a look at the whole of it would compute it twice
                result.look = partial(self.bank.check_result, variable_id)
            return result
        if not isinstance(result, np.ndarray) or result.dtype.kind != "f" or (known and result.shape != known[1].shape):
            shape = f" of shape {known[1].shape}" if known else ""
            maker = type(self.bank.codecs[variable_id]).__name__
            # what a sync type of one's own makes of a result is not the codec's
            if not is_ours(next(base for base in type(self.sync).__mro__ if "get" in vars(base))):
                maker = f"{type(self.sync).__name__}.get()"
            what = f"{result.dtype} {result.shape}" if isinstance(result, np.ndarray) else type(result).__name__
            raise TypeError(f"{maker} must give {self.bank.describe(variable_id)} an array of floats{shape}, got {what}")
        if self.bank.merged[variable_id]:
            # one look is enough, however often the result is read, until another packet is merged
            self.bank.merged[variable_id] = False
            if result.dtype.char not in "fd" or not math.isfinite(np.vdot(result, result)):  # squares may overflow, too
                self.bank.check_result(variable_id, result)
        if self._replaced is not None and self._replaced.look(variable_id, result):
            _log.warning("%s", self._replaced.remark)
        return result

    def _wait(self, variable: int) -> Iterator[Wait]:
        """Return the waits of a sync type of a user's own."""
        waits: object = self.sync.wait(variable)
        if not isinstance(waits, Iterator):
            kind = type(self.sync).__name__
            raise TypeError(
                f"{kind}.wait() must yield waits, got {type(waits).__name__}; 'yield from super().wait(variable)' "
                "yields those of its base"
            )
        return waits

    def close(self) -> None:
        """End the exchange after training: packets that are held back leave, the codecs let go of memory."""
        # a peer may still wait for packets that are corked here
        self.bank.flush()
        self.bank.dispose()

    def _copy(self, variable: int, block: int, content: Array) -> Array:
        copy = self._copies.get((variable, block))
        if copy is None:
            copy = self._copies[variable, block] = empty(content.shape, content.dtype)
        np.copyto(copy, content)
        return copy

    def _read_only(self, variable: int, content: Array) -> Array:
        """Return a view that codecs cannot write through."""
        view = content.view()
        # only this view is closed: the array stays writable for the next backward
        view.flags.writeable = False
        self._views[variable] = (content, view)
        return view


class Receiver(Protocol):
    """Receiver of the packets that arrive at a node: the exchange of a worker, or a parameter server."""

    @property
    def bank(self) -> CodecBank:
        """Codecs of the node, and their counts."""

    def deliver(self, sender: int, message: Message) -> None:
        """Take one arrived packet."""

    def deliver_all(self, packets: Sequence[tuple[int, Message]]) -> None:
        """Take packets, (sender, message) each, in the order in which they have arrived."""


class Participant(Protocol):
    """Node that is ready to run: `worker.Worker` or `parameter_server.Server`."""

    @property
    def exchange(self) -> Receiver:
        """Receiver of arriving packets."""

    @property
    def process(self) -> Generator[Wait, None, dict[str, float]]:
        """Process to be driven."""


#: By how much of their length the parameters change in one step at most; values that are no parameters differ by all of it.
MOST_CHANGE: Final = 0.5


def is_doubtful(op_type: type[IOptimizer], codec: type[Codec]) -> bool:
    """Tell if the codec must turn the values that the optimizer puts into parameters, and does not declare that it does."""
    # one that puts parameters gets parameters from any codec
    replaced = issubclass(op_type, ExchangingOptimizer) and op_type.gets == "parameters" != op_type.puts
    return replaced and codec.traits.gives is None


class ReplacementCheck:
    """Comparison of the first results of the `doubtful` variables with the parameters that they replace.

    All are judged together, for a small variable may become another one in a step.

    Args:
        doubtful: numbers of the variables.
        values: the parameters with which the worker computes, by variable.
        codecs: names of the codec classes, by variable.
        op_type: name of the optimizer class.

    Attributes: `remark`, the sentence for the user once all have been seen; "" for nothing.
    """

    def __init__(self, doubtful: Sequence[int], values: Sequence[NDArray[Any]], codecs: Sequence[str], op_type: str) -> None:
        self._open = set(doubtful)
        self._values, self._op_type = values, op_type
        self._codecs = ", ".join(dict.fromkeys(codecs[variable] for variable in doubtful))
        self._change = self._length = 0.0
        self.remark = ""

    def look(self, variable: int, result: NDArray[Any]) -> bool:
        """Take in a result, before it replaces anything; return whether there is something to be told now."""
        if variable not in self._open:
            return False
        self._open.discard(variable)
        # in float64: squares of float32 numbers overflow from 1.8e19 on
        value = self._values[variable].astype(np.float64)
        self._change += float(np.sum((result - value) ** 2))
        self._length += float(np.sum(value**2))
        # parameters that are all zero have no length with which a change could be compared
        if self._open or self._change <= MOST_CHANGE**2 * self._length or not self._length:
            return False
        self.remark = (
            f"What {self._codecs} gives replaces the parameters under {self._op_type}, but does not resemble them: it differs "
            f"from them by {(self._change / self._length) ** 0.5:.2g} of their length. A server that adds up what workers send "
            f"from zero, as those of version 0.9 do, trains other parameters than the model's: send it the parameters with the "
            f"first batch (GlobalSettings.get_value()), or use AsyncPS or SyncPS; docs/deviations.md tells more."
        )
        return True
