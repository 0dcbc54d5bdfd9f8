"""Quantisers: the stages that write a few bits for every value. Each is the last of its pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .floats import Cast, Natural
    from .grids import Grid, Int8
    from .one_bit import Sign, TwoMeans
    from .quantizer import Quantizer
    from .stochastic import QSGD, Levels, Tern, tangent_levels

__all__ = [
    "QSGD",
    "Cast",
    "Grid",
    "Int8",
    "Levels",
    "Natural",
    "Quantizer",
    "Sign",
    "Tern",
    "TwoMeans",
    "tangent_levels",
]

lazily(
    __name__,
    {
        "floats": "Cast Natural",
        "grids": "Grid Int8",
        "one_bit": "Sign TwoMeans",
        "quantizer": "Quantizer",
        "stochastic": "QSGD Levels Tern tangent_levels",
    },
)
