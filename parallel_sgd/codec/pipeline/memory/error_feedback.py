"""Error feedback."""

from __future__ import annotations

from typing import Final

import numpy as np

from nn import arguments

from ..payload import Writer
from ..sparsify.random_k import RandomK
from ..stage import Chain, Draw, Stage, Vector
from .memory import Memory

CHUNK: Final = 1 << 16


class ErrorFeedback(Memory):
    """Adds to every vector what the packets before it left over:  p = x + beta e,  send C(p),  e <- p - C(p).

    e is `residual` in the state, C is `inner`. With beta = 1 nothing is ever lost: what was sent and e add up to the sum of
    all inputs. Smaller values forget. It is to see what is subtracted from the parameters: with a rule that has momentum,
    the momentum comes before it, not after the merge.

    Seide et al., "1-bit stochastic gradient descent", 2014; Karimireddy et al., "Error feedback fixes SignSGD and other
    gradient compression schemes", 2019.

    Raises: TypeError, ValueError for what `Memory` does not take, a scaled RandomK, whose error grows from packet to packet,
    or unless 0 <= beta <= 1.
    """

    def __init__(self, inner: Stage, beta: float = 1.0) -> None:
        super().__init__(inner)
        self.beta = arguments.number(self, "beta", beta, 0)
        if self.beta > 1:
            raise ValueError(f"ErrorFeedback 'beta' must be a number >= 0 and <= 1, got {beta}")
        for stage in inner.stages if isinstance(inner, Chain) else [inner]:
            if isinstance(stage, RandomK) and stage.scaled and stage.rho < 1:
                raise ValueError(f"ErrorFeedback 'inner' must be a contraction, got {stage!r}; write scaled=False")

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Send x plus the residual, keep what the packet lacks."""
        p = self.vector("residual", x.size)
        for start in range(0, x.size, CHUNK):
            part = p[start : start + CHUNK]
            if self.beta != 1:
                np.multiply(part, self.beta, out=part)
            np.add(x[start : start + CHUNK], part, out=part)
        values, sent = self.send(p, writer, draw)
        sent.apply(np.subtract, p)
        return values

    def remembers(self, name: str) -> bool:
        """The residual."""
        return name == "residual"

    def __repr__(self) -> str:
        return f"ErrorFeedback({self.inner!r}, beta={self.beta!r})"
