"""Synchronous exchange: a batch ends when every result of it is complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.interfaces import Array
from parallel_sgd.wait import Wait

from .interface import ISyncType, Step

TIMED_OUT: Final = "Time out while getting result"


class SynchronizedSGD(ISyncType):
    """Workers that exchange directly never differ by more than one batch.

    A message is stashed until a result of its batch is being got, so one of batch k+1 never enters batch k. One that comes
    after its result was taken is counted in `late` and changes nothing; its codec may answer (`Codec.receive_late`). A
    result that is overdue by T has all unfinished codecs try their rescue, once; when the awaited one sends something, one
    more T is waited.
    """

    def __init__(self, codecs: CodecBank, timeout: float, clock: Callable[[], float], names: tuple[str, ...]) -> None:
        super().__init__(codecs, timeout, clock, names)
        self._step: Step = (-1, -1)
        self._previous: Step = (-1, -1)
        self._stash: dict[Step, list[tuple[int, int, object]]] = {}
        self._heard: list[tuple[int, int]] = []  # (sender, variable) of this batch, for messages
        self._taken = [True] * len(names)

    def begin(self, step: Step) -> None:
        """Open all variables for the new batch."""
        self._previous, self._step = self._step, step
        self._heard.clear()
        self._taken = [False] * len(self.names)

    def put(self, variable: int, block_id: int, content: Array) -> None:
        """Straight to the codec, whose packets leave while the rest of the gradient is computed."""
        self.codecs.update(variable, block_id, content)

    def receive(self, sender: int, step: Step, variable: int, content: object) -> None:
        """Keep the message until a result is got: of its batch, or of the one after, where it is late."""
        if step < self._previous:
            self.late += 1
        else:
            self._stash.setdefault(step, []).append((sender, variable, content))

    def ready(self, variable: int) -> bool:
        """Hand this batch's messages to the codecs; true when the result is complete and the wire took all of ours."""
        stash = self._stash
        if self._step in stash:
            for sender, of, content in stash.pop(self._step):
                if self._taken[of]:
                    self._late(of, content, self._step)
                else:
                    self._heard.append((sender, of))
                    self.codecs.receive(of, content)
        if self._previous in stash:
            for _, of, content in stash.pop(self._previous):
                self._late(of, content, self._previous)
        self.codecs.flush()
        return self.codecs.codecs[variable].is_done() and self.codecs.flushed()

    def wait(self, variable: int) -> Iterator[Wait]:
        """At most two periods of T."""
        start = self.clock()
        ready, what = partial(self.ready, variable), partial(self._describe, variable)
        yield from self._until(Wait(ready, start + self.timeout, what))
        if ready():
            return
        if not self._rescue(variable):
            raise TimeoutError(f"{TIMED_OUT}, retry not available. Waited {self.timeout:g} s for {what()}.")
        yield from self._until(Wait(ready, start + 2 * self.timeout, what))
        if not ready():
            raise TimeoutError(f"{TIMED_OUT}, the retry did not help. Waited {2 * self.timeout:g} s for {what()}.")

    def get(self, variable: int) -> Array:
        """The codec's result.

        Raises: RuntimeError when the variable is not ready.
        """
        result = self.codecs.codecs[variable].get_result()
        if result is None:
            raise RuntimeError(f"There is no result yet: {self._describe(variable)}.")
        self._taken[variable] = True
        return result

    def _until(self, wait: Wait) -> Iterator[Wait]:
        deadline = wait.deadline
        while not wait.ready() and (deadline is None or self.clock() < deadline):
            yield wait

    def _late(self, variable: int, content: object, step: Step) -> None:
        """Count it; the codec may answer as long as the result of that batch is its last."""
        self.late += 1
        if step == self._step or not (self._taken[variable] or self.codecs.codecs[variable].is_done()):
            self.codecs.receive_late(variable, content, step)

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
            return f"{what}: missing block(s) {_listed(blocks)} of node(s) {_listed(nodes)}"
        if codec.is_done():
            return f"{what}: the peers have not taken all that was sent to them"
        heard = {sender for sender, of in self._heard if of == variable}
        partners = self.codecs.accounts.targets(variable) or set(assignment.nodes)
        silent = sorted(partners - heard - {codec.node_id})
        return f"{what}: nothing came from node(s) {_listed(silent)}" if silent else f"{what}: {type(codec).__name__}"


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
