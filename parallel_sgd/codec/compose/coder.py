"""Linear codes: what is sent are vectors of which nobody needs more than the mean over all workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from parallel_sgd.codec.interfaces import Array
from parallel_sgd.codec.pipeline import Draw, Reader, Stage, Writer
from parallel_sgd.codec.pipeline.low_rank import PowerSGD


class Coder(ABC):
    """Turns a vector into one that is averaged, and that mean into the next one, until it is the result."""

    @abstractmethod
    def sizes(self, shape: Sequence[int], numbers: int) -> tuple[int, ...]:
        """Return how many numbers the vector of each round has, the same on all nodes, for a variable of this shape."""

    @abstractmethod
    def start(self, x: Array, shape: Sequence[int], draw: Draw) -> Array:
        """Return the vector of the first round."""

    @abstractmethod
    def proceed(self, mean: Array) -> tuple[Array, bool]:
        """Take the mean of the vectors of a round; return the next vector, or the result and True."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return what is remembered."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned."""


def coder_of(up: Stage | PowerSGD | None, rest: Stage | None, linear: bool) -> Coder | None:
    """Return the code that suits a pipeline, of which `rest` sends, where the exchange asks for a `linear` one."""
    if isinstance(up, PowerSGD):
        return RankCoder(up)
    return StageCoder(rest) if rest is not None and linear else None


class StageCoder(Coder):
    """A linear stage in one round: what it carries is averaged, and the mean decoded."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._open: tuple[int, Draw] | None = None

    def sizes(self, shape: Sequence[int], numbers: int) -> tuple[int, ...]:
        """Return what the stage carries."""
        return (self._stage.carried(numbers),)

    def start(self, x: Array, shape: Sequence[int], draw: Draw) -> Array:
        """Return the values that the stage carries.

        Raises: ValueError for numbers that are not finite, and when the stage writes side information or carries another
            number of values than it says.
        """
        vector = np.ascontiguousarray(x, np.float32)
        if not np.isfinite(vector).all():
            raise ValueError(f"a codec takes finite numbers, got {int((~np.isfinite(vector)).sum())} that are not")
        writer = Writer()
        values: Array = self._stage.encode(vector, writer, draw)
        if writer.size:
            raise ValueError(f"{self._stage!r} is not linear: it writes {writer.size} bytes beside the values")
        carried = self._stage.carried(vector.size)
        if values.size != carried:
            raise ValueError(f"{self._stage!r} is linear and must carry {carried} of {vector.size} values, got {values.size}")
        self._open = (vector.size, draw)
        return values

    def proceed(self, mean: Array) -> tuple[Array, bool]:
        """Return the decoded mean."""
        if self._open is None:
            raise RuntimeError(f"{self._stage!r} has no batch under way")
        n, draw = self._open
        side, _ = self._stage.parse(Reader(np.empty(0, np.uint8)), n, draw)
        return self._stage.decode(np.ascontiguousarray(mean, np.float32), side, n), True

    def state_dict(self) -> dict[str, Any]:
        """Return that of the stage."""
        return self._stage.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Give it to the stage."""
        self._stage.load_state_dict(state)


class RankCoder(Coder):
    """PowerSGD in its two rounds, or one where a variable is too small for it."""

    def __init__(self, method: PowerSGD) -> None:
        self._method = method
        self._round = 0
        self._dense = False

    def sizes(self, shape: Sequence[int], numbers: int) -> tuple[int, ...]:
        """Return those of P and Q."""
        return self._method.rounds(shape)

    def start(self, x: Array, shape: Sequence[int], draw: Draw) -> Array:
        """Return P."""
        self._round, self._dense = 0, self._method.is_dense(shape)
        return self._method.project(x.reshape(shape), draw)

    def proceed(self, mean: Array) -> tuple[Array, bool]:
        """Return Q, then the result."""
        if self._dense:
            return mean, True
        self._round += 1
        if self._round == 1:
            return self._method.back_project(mean), False
        return self._method.reconstruct(mean).reshape(-1), True

    def state_dict(self) -> dict[str, Any]:
        """Return the residual and Q."""
        return self._method.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take them over."""
        self._method.load_state_dict(state)
