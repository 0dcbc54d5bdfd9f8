"""How far training has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from parallel_sgd.ledger.history import History


class Position(NamedTuple):
    """Completed epochs, and completed batches of the epoch that follows; so it is also what comes next, counted from 0.

    >>> Position(2, 0) > Position(1, 7)
    True
    """

    epoch: int
    batch: int

    def __str__(self) -> str:
        """What is done, for people."""
        epochs = f"{self.epoch} epoch{'s' if self.epoch != 1 else ''}"
        return f"{epochs} and {self.batch} batch{'es' if self.batch != 1 else ''}" if self.batch else epochs

    @property
    def next(self) -> str:
        """What follows, for people, who count from 1."""
        return f"epoch {self.epoch + 1}, batch {self.batch + 1}" if self.batch else f"epoch {self.epoch + 1}"


START: Final = Position(0, 0)


@dataclass(frozen=True)
class Progress:
    """What a worker has behind it: where it is, its block steps, seconds of training, the evaluation that counts so far, and
    the batches that went into its state; `history` is empty where there is no ledger.
    """

    position: Position = START
    steps: int = 0
    seconds: float = 0.0
    evaluation: Mapping[str, float] = field(default_factory=dict)
    history: History = field(default_factory=History)
