"""Synchronous exchange: a batch ends when every result of it is complete. And the base of sync types that wait for codecs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar, Final

from network.message import Content
from nn.extension import is_ours
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.interfaces import Array, Partial, Tracking
from parallel_sgd.engine.channel import Wait, await_verdict, until_overdue
from rpc.support.logs import get_logger

from .interface import ISyncType, Step

_log = get_logger("parallel_sgd.sync")
TIMED_OUT: Final = "Time out while getting result"


class RescuingSync(ISyncType):
    """Base of sync types that wait for codecs, with a limit and a rescue.

    A result that is overdue by T has all unfinished codecs try their rescue, once; when the awaited codec sends something, the
    worker waits one more T. Nothing is overdue while another worker says that it still computes. Blocks go to their codec when
    they are put, and its packets leave while the rest is computed.

    Args:
        codecs: the codecs of this worker, one per variable.
        timeout: T in seconds, after which a result is overdue.
        clock: returns monotonic seconds.
        names: of the variables, for messages.
    """

    _awaits_workers: bool = True  # whether a result may need what other workers compute
    _fewest: Callable[[], int] | None = None  # of each `Wait`

    def __init__(self, codecs: CodecBank, timeout: float, clock: Callable[[], float], names: tuple[str, ...]) -> None:
        super().__init__(codecs, timeout, clock, names)
        self._step: Step = (-1, -1)
        # before the first batch nothing is owed, so that no rescue is tried for it
        self._taken = [True] * len(names)

    def begin(self, step: Step) -> None:
        self._step = step
        # in place: the bank appends to this very list
        self.codecs.heard.clear()
        self._taken = [False] * len(self.names)

    def is_done(self, variable: int) -> bool:
        """Tell whether the result of the codec of `variable` is complete.

        A subclass may complete a result earlier: see `present` and `settle`.
        """
        codec = self.codecs.codecs[variable]
        # asked several times per variable and batch: the attribute spares two calls where a codec has only the base's methods
        return codec._result is not None if self.codecs.plain_results[variable] else codec.is_done()

    def present(self, variable: int) -> set[int]:
        """Return the workers of which the codec of `variable` holds all blocks of this batch.

        Returns: node ids; an empty set where the codec keeps no account of blocks.
        """
        codec, mine = self.codecs.codecs[variable], self.codecs.assignment.node_2_block
        if not isinstance(codec, Partial):
            return set()
        missing = frozenset(codec.missing_blocks())
        return {node for node in self.codecs.assignment.nodes if missing.isdisjoint(mine[node])}

    def settle(self, variable: int) -> None:
        """Have the codec of `variable` make the result of the blocks that are there; later blocks of this batch are late.

        Raises: TypeError for a codec that is not `Partial`.
        """
        codec = self.codecs.codecs[variable]
        if not isinstance(codec, Partial):
            raise TypeError(f"{type(codec).__name__} must be derived from Partial to make a result of some of its blocks")
        codec.settle()

    def look(self) -> None:
        """Take in the messages that have arrived, without waiting."""
        watch = self.codecs.accounts.watch
        start, other = watch.clock(), watch.send + watch.merge
        self.codecs.channel.poll()
        # each second once: sending and merging within the look are counted there already
        watch.wait += watch.clock() - start - (watch.send + watch.merge - other)

    def wait(self, variable: int) -> Iterator[Wait]:
        """Yield waits until the variable is ready: for at most two periods of T, and on while a worker says that it still
        computes, or a peer is suspected.

        The failure detector's verdict comes first, because it names the peer and the cause.

        Raises: TimeoutError naming the variable, the batch, and the blocks or nodes that are missing.
        """
        start, timeout = self.clock(), self.timeout
        wait = Wait(partial(self.ready, variable), start + timeout, partial(self._describe, variable), self._fewest)
        end = yield from until_overdue(wait, timeout, self.clock, self._silence)
        if end is None:
            return
        # SUB-24: once per time-out
        retried = self._rescue(variable)
        if retried:
            # from that moment: SUB-25 promises 2 T in all, however long the rescue took
            end = yield from until_overdue(wait._replace(deadline=end + timeout), timeout, self.clock, self._silence)
            if end is None:
                return
        seconds = end - start
        overdue = self.clock()
        # told at once: the verdict may take until the stall limit
        if self.codecs.suspects():
            _log.warning("Waited %g s for %s. The failure detector will say more.", seconds, wait.what())
        if (yield from await_verdict(wait, timeout, self.clock, self.codecs.suspects)):
            return
        # what was really waited, with the time that the verdict was given
        seconds += round(self.clock() - overdue, 3)
        how = "the retry did not help" if retried else "retry not available"
        raise TimeoutError(f"{TIMED_OUT}, {how}. Waited {seconds:g} s for {wait.what()}.")

    def _silence(self) -> float:
        """Return the seconds since a worker that this one may wait for said that it still computes."""
        return self.codecs.silence() if self._awaits_workers else math.inf

    def get(self, variable: int) -> Array:
        """Return the codec's result.

        Raises: RuntimeError when the variable is not ready.
        """
        codec = self.codecs.codecs[variable]
        if self.codecs.plain_results[variable]:
            # emptied as it is taken (SUB-34): the next batch begins without a result
            result, codec._result = codec._result, None
        else:
            result = codec.get_result()
        if result is None:
            if self.is_done(variable):
                name = type(codec).__name__
                said = f"{name}.is_done() says that there is one, but {name}.get_result() has returned None: it must return the"
                raise RuntimeError(f"There is no result yet: {self._of(variable)}: {said} array that set_result was given.")
            raise RuntimeError(f"There is no result yet: {self._describe(variable)}.")
        self._taken[variable] = True
        # what comes from now on for this variable is late, and goes to `receive`
        self.codecs.open[variable] = False
        return result

    def _rescue(self, variable: int) -> bool:
        if not self.codecs.rescue(variable):
            return False
        for other in range(len(self.codecs.codecs)):
            # a peer that missed one packet may have missed all: asked together, they cost one more T, not one each
            if other != variable and not self._taken[other] and not self.is_done(other):
                self.codecs.rescue(other)
        self.codecs.flush()
        return True

    def _describe(self, variable: int) -> str:
        """Describe a variable's batch and the parts of it that are missing."""
        what = self._of(variable)
        codec, assignment = self.codecs.codecs[variable], self.codecs.assignment
        # from the most exact knowledge to the least: blocks, nodes, own packets, and what the bank has heard
        blocks = sorted(codec.missing_blocks()) if isinstance(codec, Tracking) else []
        if blocks:
            nodes = sorted({node for block in blocks for node in assignment.block_2_node[block]})
            return f"{what}: missing block(s) {listed(blocks)} of node(s) {listed(nodes)}"
        missing = sorted(codec.missing_nodes()) if isinstance(codec, Tracking) else []
        if missing:
            return f"{what}: nothing came from node(s) {listed(missing)}"
        if self.is_done(variable):
            return f"{what}: the peers have not taken all that was sent to them"
        heard = {sender for sender, of in self.codecs.heard if of == variable}
        # an exchange is mutual in most codecs: those to whom this one sends are those from whom it hears
        partners = self.codecs.accounts.targets(variable) or set(assignment.nodes)
        silent = sorted(partners - heard - {codec.node_id})
        name = type(codec).__name__
        if silent:
            # a codec that sends nothing here sends nothing elsewhere, either: the others run the same code
            nothing = "" if self.codecs.accounts.targets(variable) else f"; nor has {name} sent anything from here"
            return f"{what}: nothing came from node(s) {listed(silent)}{nothing}"
        if codec._result is not None:
            # of a sync type of one's own, which decides on what the codec says
            own = next(base for base in type(self).__mro__ if "is_done" in vars(base))
            asked = name if is_ours(own) else type(self).__name__
            return f"{what}: {name} has set a result, but {asked}.is_done() does not say so"
        remedy = f"{name}.receive_blocks or update_blocks must call set_result once it has all parts"
        return f"{what}: all have sent, but {name} has set no result: {remedy}"

    def _of(self, variable: int) -> str:
        """Return the variable and the batch; people count epochs and batches from 1."""
        epoch, batch = self._step
        return f"{self.codecs.describe(variable)} of epoch {epoch + 1}, batch {batch + 1}"


def listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


class SynchronizedSGD(RescuingSync):
    """Synchronous exchange: workers that exchange directly never differ by more than one batch.

    A message is stashed until a result of its batch is being got, so a message of batch k+1 never enters batch k; from then on
    the bank gives arriving messages to the codecs. A message that comes after its result was taken is counted in `late` and
    changes no result of its batch; its codec may answer, or use it in the next batch (`TakingLate`). A result that is overdue
    by T has all unfinished codecs try their rescue, once; when the awaited codec sends something, the worker waits one more T.

    Args:
        codecs: the codecs of this worker, one per variable.
        timeout: T in seconds; see `RescuingSync`.
        clock: returns monotonic seconds.
        names: of the variables, for messages.
    """

    forms: ClassVar[tuple[str, ...]] = ("ssgd",)

    def __init__(self, codecs: CodecBank, timeout: float, clock: Callable[[], float], names: tuple[str, ...]) -> None:
        super().__init__(codecs, timeout, clock, names)
        self._previous: Step = (-1, -1)
        self._stash: dict[Step, list[tuple[int, int, Content]]] = {}
        self._open = True  # whether a result of this batch has been asked for
        # a type derived from it may look at more than the results
        if type(self) is SynchronizedSGD and codecs.counts_packets:
            self._fewest = codecs.fewest_packets

    def begin(self, step: Step) -> None:
        self._previous = self._step
        self._open = False
        # in place, since the bank reads this very list for every packet
        self.codecs.open[:] = [False] * len(self._taken)
        super().begin(step)

    def receive(self, sender: int, step: Step, variable: int, content: Content) -> None:
        """Keep the message until a result is got: of its batch, or of the batch after, where the message is late."""
        # two batches late: no codec remembers that batch any more
        if step < self._previous:
            self.late += 1
        elif self._open and step in (self._step, self._previous):
            self._late(sender, variable, content, step)
        else:
            # SUB-22: a packet of the next batch waits here: it neither enters this batch nor is lost
            self._stash.setdefault(step, []).append((sender, variable, content))

    def ready(self, variable: int) -> bool:
        """Tell whether the result of `variable` is complete and the wire took all packets of this worker.

        The first call in a batch takes in the messages that have arrived: for the slowest worker all packets of the others are
        there, and it need not wait.
        """
        codecs = self.codecs
        # own packets first: others wait for them while this worker waits for theirs
        while codecs.corked:  # a wire that takes bytes may bring some too, which a codec answers
            codecs.flush()
        if not self._open:
            self._open = True
            self._hand_over()
            if not self.is_done(variable):
                self.look()
            while codecs.corked:
                codecs.flush()
        return self.is_done(variable) and (codecs.settled or codecs.flushed())

    def _hand_over(self) -> None:
        """Open all variables but those of which the result was taken, and give the stashed messages to the codecs."""
        codecs = self.codecs
        codecs.open[:] = [not taken for taken in self._taken]
        for sender, variable, content in self._stash.pop(self._step, ()):
            if self._taken[variable]:
                self._late(sender, variable, content, self._step)
            else:
                codecs.heard.append((sender, variable))
                codecs.receive(variable, content, sender)
        # of the batch before: came after its results were taken, while no result of this one was asked for
        for sender, variable, content in self._stash.pop(self._previous, ()):
            self._late(sender, variable, content, self._previous)

    def _late(self, sender: int, variable: int, content: Content, step: Step) -> None:
        """Count a late message; the codec may answer or use it as long as the result of that batch is its last."""
        self.late += 1
        # once this batch has a result of its own, the codec has nothing left of the batch before
        if step == self._step or not (self._taken[variable] or self.is_done(variable)):
            self.codecs.receive_late(variable, content, step, sender)
