"""The same random part of the gradient on all workers."""

from __future__ import annotations

from .compose import Ring
from .interfaces import Codec
from .pipeline import sparsify
from .settings import GlobalSettings


def _up() -> sparsify.RandomK:
    return sparsify.RandomK(GlobalSettings.get_params("rho", 0.1))


RandomK = Codec.of(Ring(), up=_up, name="RandomK")
"""The share `rho` (0.1) of the gradient, scaled so that it is unbiased, at the bytes of a ring and without indices.

Wangni et al., "Gradient sparsification for communication-efficient distributed optimization", 2018."""
