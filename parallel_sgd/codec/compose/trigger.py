"""In which batches there is an exchange."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from nn import arguments
from parallel_sgd.codec.interfaces import Array
from parallel_sgd.codec.pipeline import Draw, Pipeline


class Uploads(Protocol):
    """What every contributor has sent so far, on one node, and when the own one sends again: see `Lazy`."""

    staleness: Counter[int]

    def encode(self, contributor: int, x: Array, pipeline: Pipeline, draw: Draw) -> Array | None:
        """Return the payload of what is new in `x`, or None where it is not worth sending."""

    def decode(self, contributor: int, payload: Array | None, size: int, pipeline: Pipeline, draw: Draw) -> Array:
        """Take a packet of a contributor; return the sum of all that it has sent."""

    def observe(self, result: Array) -> None:
        """Take note of a result."""

    def state_dict(self) -> dict[str, Any]:
        """Return what is remembered."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned."""


class Trigger:
    """Batches are counted from 0 by each codec, on all workers alike. Between exchanges a worker keeps what it has."""

    late: bool = False
    """Whether results are those of the exchange before."""

    skips: bool = False
    """Whether a worker may have nothing to send in a batch with an exchange."""

    def uploads(self) -> Uploads | None:
        """Return what decides whether a worker sends, and goes on with what it has sent before; None: all send."""
        return None

    def fires(self, batch: int) -> bool:
        """Whether there is an exchange in this batch."""
        return True

    def dense(self, batch: int) -> bool:
        """Whether this batch is sent as it is, past all stages."""
        return False

    @property
    def always(self) -> bool:
        """Whether there is an exchange in every batch."""
        return True


class Every(Trigger):
    """In every `batches`-th one. More than 1 is for parameters: `send="weights"` or `send="delta"`.

    Raises: TypeError, ValueError unless it is a positive integer.
    """

    def __init__(self, batches: int = 1) -> None:
        self.batches = arguments.integer(self, "batches", batches, minimum=1)

    def fires(self, batch: int) -> bool:
        """After `batches`, 2 `batches`, ... batches."""
        return (batch + 1) % self.batches == 0

    @property
    def always(self) -> bool:
        return self.batches == 1

    def __repr__(self) -> str:
        return f"Every({self.batches})"


class Warmup(Trigger):
    """The first `batches` ones are exchanged dense; what the stages remember begins after them. Then `then` decides.

    Raises: TypeError, ValueError unless batches is an integer >= 0 and `then` a trigger.
    """

    def __init__(self, batches: int, then: Trigger | None = None) -> None:
        self.batches = arguments.integer(self, "batches", batches, minimum=0)
        self.then: Trigger = Every(1) if then is None else arguments.instance(self, "then", then, Trigger)
        self.late = self.then.late

    def fires(self, batch: int) -> bool:
        """In all of the warm-up, then as `then` says, which counts from there."""
        return batch < self.batches or self.then.fires(batch - self.batches)

    def dense(self, batch: int) -> bool:
        return batch < self.batches or self.then.dense(batch - self.batches)

    @property
    def always(self) -> bool:
        """Whether `then` is."""
        return self.then.always

    def __repr__(self) -> str:
        return f"Warmup({self.batches}, {self.then!r})"


class Delay(Trigger):
    """The result of a batch is that of the exchange one batch before; the first one is 0. For gradients and updates.

    So an exchange has the whole time of the next batch, at a staleness of 1. Other codecs of the same job may go without.
    The last batch is sent and never applied.

    Raises: TypeError, ValueError unless batches is 1.
    """

    late = True

    def __init__(self, batches: int = 1) -> None:
        self.batches = arguments.integer(self, "batches", batches, minimum=1)
        if self.batches != 1:
            raise ValueError(f"Delay 'batches' must be 1: packets of older batches are not kept, got {batches}")

    def __repr__(self) -> str:
        return "Delay(1)"
