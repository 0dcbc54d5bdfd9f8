"""Block assignments, by which the samples of a batch are dealt to the workers."""

from __future__ import annotations

from . import blockassignment
from .blockassignment import *  # noqa: F403
from .blockassignment.abstract import ISetting

__all__ = ["ISetting"]
__all__ += blockassignment.__all__
