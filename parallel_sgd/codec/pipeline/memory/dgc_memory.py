"""The memory of deep gradient compression."""

from __future__ import annotations

from typing import Final

import numpy as np

from nn import arguments
from nn.gradient_descent.fading import forget_faded

from ..payload import Writer
from ..sparsify.sparsifier import Sparsifier
from ..stage import Chain, Draw, Stage, Vector
from .memory import Memory

CHUNK: Final = 1 << 15


class DGCMemory(Memory):
    """Momentum before a sparsifier, with momentum correction and factor masking:

    u <- momentum u + x,  v <- v + u,  send C(v),  v <- v - C(v),  u <- 0 where something was sent.

    u is `velocity` in the state, v is `accumulated`. v is exactly 0 where its values were sent; where a quantiser after the
    sparsifier rounds them, v keeps the rounding error. What sends all numbers needs no mask: u stays, so that with rho = 1
    the packets are those of SGD with local momentum, bit for bit. The rule after the merge has no momentum then.

    Lin et al., "Deep gradient compression: reducing the communication bandwidth for distributed training", 2018. Its clipping
    is `Clip(norm, workers)` in front, its warm-up `TopK(rho, warmup=steps)`.

    Raises: TypeError, ValueError unless 0 <= momentum < 1 and `inner` is a sparsifier or a chain that begins with one.
    """

    def __init__(self, momentum: float, inner: Stage) -> None:
        super().__init__(inner)
        self.momentum = arguments.number(self, "momentum", momentum, 0, 1)
        first = inner.stages[0] if isinstance(inner, Chain) and inner.stages else inner
        if not isinstance(first, Sparsifier):
            raise ValueError(f"DGCMemory 'inner' must begin with a sparsifier such as TopK(0.001), got {inner!r}")

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Send the accumulated velocities that the sparsifier chooses."""
        velocity, accumulated = self.vector("velocity", x.size), self.vector("accumulated", x.size)
        for start in range(0, x.size, CHUNK):
            part = slice(start, start + CHUNK)
            u, v = velocity[part], accumulated[part]
            np.multiply(u, self.momentum, out=u)
            np.add(u, x[part], out=u)
            forget_faded(draw.batch, u)
            np.add(v, u, out=v)
        values, sent = self.send(accumulated, writer, draw)
        sent.apply(np.subtract, accumulated)
        if sent.indices is not None:
            velocity[sent.indices] = 0
        return values

    def remembers(self, name: str) -> bool:
        """The velocity and what of it was not sent."""
        return name in ("velocity", "accumulated")

    def __repr__(self) -> str:
        return f"DGCMemory({self.momentum!r}, {self.inner!r})"
