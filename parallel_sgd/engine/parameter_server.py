"""Parameter server: codecs that answer the packets of workers, for as long as a worker is there."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from network.message import Content, Message, unpacked

from ..checkpoint.keeper import MARK, NO_CHECKPOINTS, Checkpointing, ServerKeeper
from ..checkpoint.state import restore_codecs
from ..codec.bank import CodecBank
from ..codec.choice import choose_codecs, is_whole
from ..codec.interfaces import Answering
from .accounts import BatchPackets, Joined
from .channel import Channel, Key, Wait, await_verdict, until
from .plan import WorkerPlan, server_codecs, whole_like
from .progress import Position
from .training import Faults
from .unusable import Like

#: Bytes posted after which the server looks whether the workers take them: one that does not must not fill the memory.
MOST_UNSENT: Final = 64 << 20
_MOST_COUNTED: Final = 256  # batches of which packets are counted apart, until they go into a table

Serving = Generator[Wait, None, dict[str, float]]


class ParameterServer:
    """Server that gives every packet to the codec of its variable as it arrives; the answers go out under the packet's epoch
    and batch.

    The result of `Codec.answer` is kept back until no worker is more than `staleness` batches behind the one that it is for.

    Args:
        bank: the codecs of the server.
        channel: its connection with the workers.
        timeout: seconds for the workers to take the packets that have been sent to them.
        start_limit: seconds for the workers to appear.
        clock: returns monotonic seconds.
        staleness: batches that a worker may be ahead of the slowest one.
        keeper: takes checkpoints when the workers do, or None.
        faults: called when the first packet of a later batch has come, or None.
    """

    def __init__(
        self,
        bank: CodecBank,
        channel: Channel,
        timeout: float,
        start_limit: float,
        clock: Callable[[], float],
        staleness: float = 0,
        keeper: ServerKeeper | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.bank = bank
        self._channel = channel
        self._timeout = timeout
        self._start_limit = start_limit
        self._clock = clock
        self._absent = set(bank.assignment.nodes).difference(channel.peers())  # some may leave before it looks again
        self._keeper = keeper
        self._faults = faults
        self._step = (-1, 0)
        self.counted: Callable[[Iterable[BatchPackets]], None] = lambda _: None
        """Takes the packets of batches, some at a time, and the last ones when the server has served."""
        self._arrived: deque[tuple[int, Key, Content]] = deque()
        self._present: set[int] = set()
        self._peers: Collection[int] | None = None  # of which `_here` are the workers
        self._here: set[int] = set()
        self._gates = {
            variable: ReadGate(bank.assignment.nodes, staleness)
            # one gate per variable: packets of a worker's variables arrive one after the other
            for variable, codec in enumerate(bank.codecs)
            if isinstance(codec, Answering)
        }

    def deliver(self, sender: int, message: Message) -> None:
        """Take one arrived packet; called in the server's own context, never concurrently.

        Raises: ValueError when the key is not (attempt, epoch, batch, variable) of this job.
        """
        key = message.head
        # a mark is no packet of a variable: it goes in the same line, so that it stands behind the packets of its batch
        # `bank.takes` would refuse the key of a mark, which names no variable
        if key[-1:] == (MARK,) and self._keeper is not None:
            self.bank.accounts.received(MARK, sender, message)
            self._arrived.append((sender, key, message.content))
        elif self.bank.takes(((sender, message),)):
            self._arrived.append((sender, key, message.content))

    def deliver_all(self, packets: Sequence[tuple[int, Message]]) -> None:
        """Take packets in the order in which they have arrived; see `deliver`."""
        for sender, message in packets:
            self.deliver(sender, message)

    def run(self) -> Serving:
        """Serve until every worker has left; the generator's value is empty, for a server evaluates nothing.

        Raises: TimeoutError naming the workers that did not appear or do not take their packets; each error of a codec.
        """
        try:
            # before the first one appears, it would look as if all workers had left
            yield from self._until(self._all_met, self._start_limit, lambda: f"node(s) {_listed(self._absent)} to appear")
            self._present = self._workers()
            while True:
                # no deadline: workers may compute as long as they like, and losses come as errors
                yield Wait(self._has_work, None, lambda: "packets of the workers")
                workers = self._workers()
                # in this order: packets that a worker sent before it left are served first
                if not (self._arrived or workers):
                    return {}
                if workers != self._present:  # others may have waited for the one that has left
                    self._present = workers
                    for variable in self._gates:
                        self._answer(variable)
                while self._arrived:
                    sender, (_, epoch, batch, variable), content = self._arrived.popleft()
                    if variable == MARK and self._keeper is not None:
                        self._marked(sender, Position(epoch, batch), unpacked(content))
                        continue
                    if self._faults is not None and (epoch, batch) > self._step:
                        self._step = (epoch, batch)
                        self._faults(epoch, batch)
                    # workers may be in different batches, so the codecs are told the one of each packet
                    self.bank.begin((epoch, batch))
                    self.bank.receive(variable, content, sender)
                    # SUB-32: merged on arrival; only the answer may wait for slower workers
                    if variable in self._gates:
                        self._gates[variable].arrived(sender, (epoch, batch))
                        self._answer(variable)
                    # answers wait for slow readers in memory: past this the server reads nothing before they have gone out
                    if self.bank.unsent > MOST_UNSENT:
                        self.bank.flush()
                        yield from self._until(self.bank.flushed, self._timeout, lambda: "a worker to take what was sent to it")
                self.bank.flush()
                # not only at the end: the server of a long job counts a batch of every codec
                if len(self.bank.accounts.counts) > _MOST_COUNTED:
                    self.counted(self.bank.accounts.traffic())
        finally:
            if self._keeper is not None:
                self._keeper.close()
            self.bank.flush()
            self.counted(self.bank.accounts.traffic())
            self.bank.dispose()

    def _marked(self, node: int, position: Position, loss: object) -> None:
        if self._keeper is not None:
            # from a worker, so of any type
            self._keeper.marked(node, position, loss if isinstance(loss, float) else None, sorted(self._workers()))

    def _all_met(self) -> bool:
        self._absent.difference_update(self._channel.peers())
        return not self._absent

    def _has_work(self) -> bool:
        if self._arrived:
            return True
        if not self._gates:  # then one worker is as good as any
            return all(node < 0 for node in self._channel.peers())
        workers = self._workers()
        # a worker that left may have been the slowest one, for which reads of the others wait
        return not workers or (workers != self._present and any(gate.waiting for gate in self._gates.values()))

    def _workers(self) -> set[int]:
        """Return the workers that can be talked to: the same object as long as the channel returns the same peers."""
        peers = self._channel.peers()
        # by identity: a channel makes a new collection only when something has changed
        if peers is not self._peers:
            self._peers, self._here = peers, {node for node in peers if node >= 0}
        return self._here

    def _answer(self, variable: int) -> None:
        for _, node, step in self._gates[variable].open(self._present):
            # a read of a worker that has left meanwhile needs no answer
            if node in self._present:
                self.bank.answer(variable, node, step)

    def _until(self, ready: Callable[[], bool], seconds: float, what: Callable[[], str]) -> Generator[Wait, None, None]:
        wait = Wait(ready, self._clock() + seconds, what)
        if (yield from until(wait, self._clock)):
            return
        suspects = self._channel.suspects if self._present else tuple  # the detector watches no node before all have appeared
        if not (yield from await_verdict(wait, seconds, self._clock, suspects)):
            raise TimeoutError(f"The parameter server waited {seconds:g} s for {what()}.")


def _listed(nodes: Collection[int]) -> str:
    return ", ".join(map(str, sorted(nodes)))


@dataclass(frozen=True)
class Server:
    """Parameter server ready to run: drive `process`, hand arriving packets to `exchange.deliver`, in one context."""

    exchange: ParameterServer
    process: Serving


def build_server(
    plan: WorkerPlan,
    likes: Sequence[Like],
    channel: Channel,
    clock: Callable[[], float],
    start_limit: float,
    *,
    has_buffers: bool = False,
    checkpointing: Checkpointing = NO_CHECKPOINTS,
    faults: Faults | None = None,
) -> Server:
    """Build the parameter server `channel.node_id` for a model like this (`likes_of`).

    Settings for the codecs are installed in the running context.

    Args:
        plan: settings on which all nodes agree.
        likes: shape and type of the values of each variable.
        channel: connection of the server with the workers.
        clock: returns monotonic seconds.
        start_limit: seconds for the workers to appear.
        has_buffers: whether the last of `likes` is that of the buffers.
        checkpointing: checkpoints are taken when the workers take theirs, if the server's codecs remember anything.
        faults: called whenever the first packet of a later batch has come.

    Raises: ValueError or TypeError when codecs and model do not fit, CheckpointError for a `resumption` of something else; each
    error of a codec's constructor.
    """
    resumption, keeper = checkpointing.resumption, checkpointing.keeper
    variables, vectors = len(likes) - has_buffers, list[Joined]()
    kinds = server_codecs(plan, variables, has_buffers)
    if is_whole(choose_codecs(plan.codec, plan.default_codec, variables)):
        vectors = [Joined(range(variables), tuple(like.size for like in likes[:variables]))]
        likes = [whole_like(likes[:variables]), *likes[variables:]]
    bank = CodecBank(kinds, plan.settings(), channel, plan.attempt, joined=vectors)
    bank.expect(likes)
    # `whole` alone: with another number of workers their memory means something else
    if resumption is not None and resumption.whole:
        restore_codecs(bank, resumption.snapshot)
    staleness = plan.options.sync_type.staleness
    keeps = None if keeper is None else ServerKeeper(keeper, bank, staleness)
    server = ParameterServer(bank, channel, plan.timeout, start_limit, clock, staleness, keeps, faults)
    return Server(server, bank.accounts.watch.timed(server.run()))


Step = tuple[int, int]  # (epoch, batch), counted from 0


class Read(NamedTuple):
    """Worker that waits for an answer; `clock` counts the batches in which it has sent something, this one included."""

    clock: int
    node: int
    step: Step


class ReadGate:
    """Waiting reads of one variable. A read with clock c opens when c - (clock of the slowest worker) <= `staleness`.

    So it contains all that every worker has sent in its first c - `staleness` batches (Ho et al., NIPS 2013).
    """

    def __init__(self, workers: Collection[int], staleness: float) -> None:
        self._staleness = staleness
        self._clocks = dict.fromkeys(workers, 0)
        self._steps: dict[int, Step] = {}
        self._waiting: list[Read] = []

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def arrived(self, node: int, step: Step) -> None:
        """Note that a packet of `node` has been given to the codec; a second one of the same batch is answered again."""
        newest = self._steps.get(node)
        if newest is None or step > newest:
            # a late copy, after a rescue, must not set the clock of its worker back
            self._steps[node] = step
            self._clocks[node] += 1
        # an older batch is no read any more: its worker has gone on
        if newest is None or step >= newest:
            read = Read(self._clocks[node], node, step)
            # several packets of a batch are one read
            if read not in self._waiting:
                self._waiting.append(read)

    def open(self, present: Collection[int]) -> list[Read]:
        """Return the reads that need not wait any more, in the order of their arrival. Only workers in `present` are waited
        for.
        """
        if not self._waiting:
            return []
        # an asynchronous type: no read ever waits
        if self._staleness == math.inf:
            opened, self._waiting = self._waiting, []
            return opened
        # a worker that has left would hold up the others for ever
        # 0 workers: the server is about to end
        slowest = min((self._clocks[node] for node in present if node in self._clocks), default=0)
        opened = [read for read in self._waiting if read.clock - slowest <= self._staleness]
        if opened:
            self._waiting = [read for read in self._waiting if read not in opened]
        return opened
