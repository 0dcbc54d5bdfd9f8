"""A look at the first results that replace a worker's parameters: a server that was never given any makes up others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nn.optimizer import IOptimizer
from nn.optimizer.exchanging import ExchangingOptimizer

from .codec.interfaces import Codec

#: By how much of their length the parameters change in one step at most; what is no parameters differs by all of it.
MOST_CHANGE: Final = 0.5


def is_doubtful(op_type: type[IOptimizer], codec: type[Codec]) -> bool:
    """Whether the codec must turn what the optimizer puts into parameters, and does not declare that it does."""
    replaced = issubclass(op_type, ExchangingOptimizer) and op_type.gets == "parameters" != op_type.puts
    return replaced and codec.gives is None


class ReplacementCheck:
    """Compares the first results of the `doubtful` variables with the parameters that they replace.

    All are judged together, for a small variable may become another one in a step. `values` are those that the worker computes
    with, by variable. Attributes: `remark`, what is to be told once all have been seen; "" for nothing.
    """

    def __init__(self, doubtful: Sequence[int], values: Sequence[NDArray[Any]], codecs: Sequence[str], op_type: str) -> None:
        self._open = set(doubtful)
        self._values, self._op_type = values, op_type
        self._codecs = ", ".join(dict.fromkeys(codecs[variable] for variable in doubtful))
        self._change = self._length = 0.0
        self.remark = ""

    def look(self, variable: int, result: NDArray[Any]) -> bool:
        """Take in a result, before it replaces anything; whether there is something to be told now."""
        if variable not in self._open:
            return False
        self._open.discard(variable)
        value = self._values[variable].astype(np.float64)
        self._change += float(np.sum((result - value) ** 2))
        self._length += float(np.sum(value**2))
        if self._open or self._change <= MOST_CHANGE**2 * self._length or not self._length:
            return False
        self.remark = (
            f"What {self._codecs} gives replaces the parameters under {self._op_type}, but does not resemble them: it differs "
            f"from them by {(self._change / self._length) ** 0.5:.2g} of their length. A server that adds up what workers send "
            f"from zero, as those of version 0.9 do, trains other parameters than the model's: send it the parameters with the "
            f"first batch (GlobalSettings.get_value()), or use AsyncPS or SyncPS; docs/deviations.md tells more."
        )
        return True
