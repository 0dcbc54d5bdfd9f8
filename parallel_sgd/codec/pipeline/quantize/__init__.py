"""Quantisers: the stages that write a few bits for every value. Each is the last of its pipeline."""

from __future__ import annotations

from .floats import Cast, Natural
from .grids import Grid, Int8
from .one_bit import Sign, TwoMeans
from .quantizer import Quantizer
from .stochastic import QSGD, Levels, Tern, tangent_levels

__all__ = ["QSGD", "Cast", "Grid", "Int8", "Levels", "Natural", "Quantizer", "Sign", "Tern", "TwoMeans", "tangent_levels"]
