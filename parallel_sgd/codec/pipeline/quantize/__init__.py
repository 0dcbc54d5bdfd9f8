"""Quantisers: the stages that write a few bits for every value. Each is the last of its pipeline."""

from __future__ import annotations

from .cast import Cast
from .grid import Grid
from .int8 import Int8
from .levels import Levels, tangent_levels
from .natural import Natural
from .qsgd import QSGD
from .quantizer import Quantizer
from .sign import Sign
from .tern import Tern
from .two_means import TwoMeans

__all__ = ["QSGD", "Cast", "Grid", "Int8", "Levels", "Natural", "Quantizer", "Sign", "Tern", "TwoMeans", "tangent_levels"]
