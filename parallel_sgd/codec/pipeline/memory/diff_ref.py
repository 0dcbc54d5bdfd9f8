"""Differences from a reference that both sides keep."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..payload import Reader, Writer
from ..stage import Draw, Stage, Vector
from .memory import Memory

HEARD = "heard."


class DiffRef(Memory):
    """Sends what is new: both sides keep h, 0 at first;  send C(x - h),  h <- h + C(x - h).  Receivers read h.

    The sender's h is `reference` in the state; that of what node i sends is `heard.<i>` where it is received. As x settles,
    x - h and with it the error of the packets go to 0, for every contraction C. Every packet has to be decoded, once, in the
    order of the steps: a codec drops repeated ones before.

    Richtarik, Sokolov and Fatkhullin, "EF21: a new, simpler, theoretically better, and practically faster error feedback",
    2021; with an unbiased C Mishchenko et al., "Distributed learning with compressed gradient differences", 2019.

    Raises: TypeError, ValueError for what `Memory` does not take.
    """

    def __init__(self, inner: Stage) -> None:
        super().__init__(inner)
        self.unbiased = inner.unbiased
        self.linear = False  # a sum of packets lacks the sum of their references
        self._difference: Vector = np.empty(0, np.float32)
        self._result: Vector = np.empty(0, np.float32)

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Send the difference from the reference, and move the reference as receivers do."""
        reference = self.vector("reference", x.size)
        if self._difference.size != x.size:
            self._difference = np.empty(x.size, np.float32)
        values, sent = self.send(np.subtract(x, reference, out=self._difference), writer, draw)
        sent.apply(np.add, reference)
        return values

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[tuple[int, Any], int]:
        """Read what was sent, and by whom."""
        side, carried = super().parse(reader, n, draw)
        return (draw.node, side), carried

    def decode(self, values: Vector, side: tuple[int, Any], n: int) -> Vector:
        """Move the sender's reference and return a copy of it."""
        node, inner = side
        reference = self.vector(f"{HEARD}{node}", n)
        self.decoded(values, inner, n).apply(np.add, reference)
        if self._result.size != n:
            self._result = np.empty(n, np.float32)
        np.copyto(self._result, reference)
        return self._result

    def remembers(self, name: str) -> bool:
        """The own reference and those of others."""
        return name == "reference" or (name.startswith(HEARD) and name[len(HEARD) :].lstrip("-").isdecimal())
