"""Block assignments. Yours is one new file here and one line in this list."""

from __future__ import annotations

from .abstract import AbsBlockAssignment
from .cyclic import CyclicAssignment
from .duplicate import DuplicateAssignment
from .fixed import FixedBlockAssignment
from .iid import IIDBlockAssignment

__all__ = ["AbsBlockAssignment", "CyclicAssignment", "DuplicateAssignment", "FixedBlockAssignment", "IIDBlockAssignment"]
