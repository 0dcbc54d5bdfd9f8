"""Block assignments. Yours is one new file here and one line in this list."""

from __future__ import annotations

from .abstract import AbsBlockAssignment
from .duplicate import DuplicateAssignment
from .fixed import FixedBlockAssignment
from .iid import IIDBlockAssignment

__all__ = ["AbsBlockAssignment", "DuplicateAssignment", "FixedBlockAssignment", "IIDBlockAssignment"]
