"""What sync types have in common that wait for codecs: limits, rescue, and words for what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.interfaces import Array
from parallel_sgd.overdue import await_verdict, until
from parallel_sgd.wait import Wait
from rpc.logs import get_logger

from .interface import ISyncType, Step

_log = get_logger("parallel_sgd.sync")
TIMED_OUT: Final = "Time out while getting result"


class RescuingSync(ISyncType):
    """A result that is overdue by T has all unfinished codecs try their rescue, once; when the awaited one sends something,
    one more T is waited. Blocks go to their codec when they are put, and its packets leave while the rest is computed.
    """

    def __init__(self, codecs: CodecBank, timeout: float, clock: Callable[[], float], names: tuple[str, ...]) -> None:
        super().__init__(codecs, timeout, clock, names)
        self._step: Step = (-1, -1)
        self._heard: list[tuple[int, int]] = []  # (sender, variable) of this batch, for messages
        self._taken = [True] * len(names)

    def begin(self, step: Step) -> None:
        """Open all variables for the new batch."""
        self._step = step
        self._heard.clear()
        self._taken = [False] * len(self.names)

    def put(self, variable: int, block_id: int, content: Array) -> None:
        """Straight to the codec."""
        self.codecs.update(variable, block_id, content)

    def wait(self, variable: int) -> Iterator[Wait]:
        """At most two periods of T, and on while the failure detector suspects a peer: its verdict comes first."""
        start, seconds = self.clock(), self.timeout
        wait = Wait(partial(self.ready, variable), start + seconds, partial(self._describe, variable))
        if (yield from until(wait, self.clock)):
            return
        retried = self._rescue(variable)
        if retried:
            seconds *= 2
            if (yield from until(wait._replace(deadline=start + seconds), self.clock)):
                return
        overdue = self.clock()
        if self.codecs.suspects():
            _log.warning("Waited %g s for %s. The failure detector will say more.", seconds, wait.what())
        if (yield from await_verdict(wait, self.timeout, self.clock, self.codecs.suspects)):
            return
        seconds += round(self.clock() - overdue, 3)
        how = "the retry did not help" if retried else "retry not available"
        raise TimeoutError(f"{TIMED_OUT}, {how}. Waited {seconds:g} s for {wait.what()}.")

    def get(self, variable: int) -> Array:
        """The codec's result.

        Raises: RuntimeError when the variable is not ready.
        """
        result = self.codecs.codecs[variable].get_result()
        if result is None:
            raise RuntimeError(f"There is no result yet: {self._describe(variable)}.")
        self._taken[variable] = True
        return result

    def _rescue(self, variable: int) -> bool:
        if not self.codecs.rescue(variable):
            return False
        for other, codec in enumerate(self.codecs.codecs):
            if other != variable and not self._taken[other] and not codec.is_done():
                self.codecs.rescue(other)
        self.codecs.flush()
        return True

    def _describe(self, variable: int) -> str:
        """People count epochs and batches from 1."""
        epoch, batch = self._step
        what = f"variable {variable} ({self.names[variable]}) of epoch {epoch + 1}, batch {batch + 1}"
        codec, assignment = self.codecs.codecs[variable], self.codecs.assignment
        blocks = sorted(codec.missing_blocks())
        if blocks:
            nodes = sorted({node for block in blocks for node in assignment.block_2_node[block]})
            return f"{what}: missing block(s) {listed(blocks)} of node(s) {listed(nodes)}"
        missing = sorted(codec.missing_nodes())
        if missing:
            return f"{what}: nothing came from node(s) {listed(missing)}"
        if codec.is_done():
            return f"{what}: the peers have not taken all that was sent to them"
        heard = {sender for sender, of in self._heard if of == variable}
        partners = self.codecs.accounts.targets(variable) or set(assignment.nodes)
        silent = sorted(partners - heard - {codec.node_id})
        return f"{what}: nothing came from node(s) {listed(silent)}" if silent else f"{what}: {type(codec).__name__}"


def listed(numbers: list[int]) -> str:
    """Numbers for a message."""
    return ", ".join(map(str, numbers))
