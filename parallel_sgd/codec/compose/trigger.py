"""In which batches there is an exchange."""

from __future__ import annotations

from nn import arguments


class Trigger:
    """Batches are counted from 0 by each codec, on all workers alike. Between exchanges a worker keeps what it has."""

    late: bool = False
    """Whether results are those of the exchange before."""

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
        """Whether it is every one."""
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
        """In the warm-up."""
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
        if arguments.integer(self, "batches", batches, minimum=1) != 1:
            raise ValueError(f"Delay 'batches' must be 1: packets of older batches are not kept, got {batches}")

    def __repr__(self) -> str:
        return "Delay(1)"
