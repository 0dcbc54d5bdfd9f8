"""Redundant blocks, of which the first copy counts."""

from __future__ import annotations

from .compose import AllToAll
from .compose import FirstCopy as FirstCopyMean
from .interfaces import Codec
from .pipeline import quantize

FirstCopy = Codec.of(AllToAll(), merge=FirstCopyMean(), name="FirstCopy")
"""The mean over all blocks, each from whoever sends it first: with DuplicateAssignment or IIDBlockAssignment of redundancy r
any r - 1 of those that share a block may be late or lost, and no bit changes. `Plain` does the same by itself."""

FirstCopyInt8 = Codec.of(AllToAll(), up=quantize.Int8(4096), merge=FirstCopyMean(), name="FirstCopyInt8")
"""The same with numbers of 8 bits: every block is encoded by itself, alike by all who hold it."""
