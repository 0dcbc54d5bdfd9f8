"""Block assignments, by which the samples of a batch are dealt to the workers."""

from __future__ import annotations

from .blockassignment import (
    AbsBlockAssignment,
    CyclicAssignment,
    DuplicateAssignment,
    FixedBlockAssignment,
    FixedBlocks,
    IIDBlockAssignment,
)
from .blockassignment.abstract import ISetting

__all__ = [
    "AbsBlockAssignment",
    "CyclicAssignment",
    "DuplicateAssignment",
    "FixedBlockAssignment",
    "FixedBlocks",
    "IIDBlockAssignment",
    "ISetting",
]
