"""Block assignments. Yours is one new file here and one line in this list; its `forms` are its words on the command line."""

from __future__ import annotations

from .abstract import AbsBlockAssignment
from .assignments import CyclicAssignment, DuplicateAssignment, FixedBlockAssignment, FixedBlocks, IIDBlockAssignment

__all__ = [
    "AbsBlockAssignment",
    "CyclicAssignment",
    "DuplicateAssignment",
    "FixedBlockAssignment",
    "FixedBlocks",
    "IIDBlockAssignment",
]
