"""Block assignments. Yours is one new file here and one line in this list."""

from __future__ import annotations

from .abstract import AbsBlockAssignment
from .assignments import CyclicAssignment, DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment

__all__ = ["AbsBlockAssignment", "CyclicAssignment", "DuplicateAssignment", "FixedBlockAssignment", "IIDBlockAssignment"]
