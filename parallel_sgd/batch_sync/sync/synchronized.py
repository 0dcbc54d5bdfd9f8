"""Synchronous exchange: a batch ends when every result of it is complete."""

from __future__ import annotations

from collections.abc import Callable

from parallel_sgd.codec.bank import CodecBank

from .interface import Step
from .rescuing import RescuingSync


class SynchronizedSGD(RescuingSync):
    """Workers that exchange directly never differ by more than one batch.

    A message is stashed until a result of its batch is being got, so one of batch k+1 never enters batch k. One that comes
    after its result was taken is counted in `late` and changes no result of its batch; its codec may answer, or use it in
    the next one (`Codec.receive_late`). A result that is overdue by T has all unfinished codecs try their rescue, once; when
    the awaited one sends something, one more T is waited.
    """

    def __init__(self, codecs: CodecBank, timeout: float, clock: Callable[[], float], names: tuple[str, ...]) -> None:
        super().__init__(codecs, timeout, clock, names)
        self._previous: Step = (-1, -1)
        self._stash: dict[Step, list[tuple[int, int, object]]] = {}
        self._arrived = False  # whether the stash may hold what the codecs can take now: `ready` is asked often

    def begin(self, step: Step) -> None:
        """Open all variables for the new batch."""
        self._previous = self._step
        self._arrived = bool(self._stash)
        super().begin(step)

    def receive(self, sender: int, step: Step, variable: int, content: object) -> None:
        """Keep the message until a result is got: of its batch, or of the one after, where it is late."""
        if step < self._previous:
            self.late += 1
        else:
            self._stash.setdefault(step, []).append((sender, variable, content))
            self._arrived = True

    def ready(self, variable: int) -> bool:
        """Hand this batch's messages to the codecs; true when the result is complete and the wire took all of ours."""
        codecs = self.codecs
        codecs.flush()
        while self._arrived:  # a wire that takes bytes may bring some too, and nobody would ask again until more come
            self._hand_over()
            codecs.flush()
        return codecs.codecs[variable].is_done() and codecs.flushed()

    def _hand_over(self) -> None:
        stash, self._arrived = self._stash, False
        for sender, of, content in stash.pop(self._step, ()):
            if self._taken[of]:
                self._late(sender, of, content, self._step)
            else:
                self._heard.append((sender, of))
                self.codecs.receive(of, content, sender)
        for sender, of, content in stash.pop(self._previous, ()):
            self._late(sender, of, content, self._previous)

    def _late(self, sender: int, variable: int, content: object, step: Step) -> None:
        """Count it; the codec may answer or use it as long as the result of that batch is its last."""
        self.late += 1
        if step == self._step or not (self._taken[variable] or self.codecs.codecs[variable].is_done()):
            self.codecs.receive_late(variable, content, step, sender)
