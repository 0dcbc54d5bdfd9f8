"""Block assignments: `AbsBlockAssignment` says how to add one; its `forms` are its words on the command line."""

from __future__ import annotations

from typing import Literal, TypeAlias

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

# For editors and type checkers; the readers take other texts, too: `fixed:8`, `module.Class`, `file.py:Class`.
AssignmentName: TypeAlias = Literal["iid", "cyclic", "duplicate", "fixed"]
