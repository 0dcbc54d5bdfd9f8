"""Merge rules for workers that may be wrong."""

from __future__ import annotations

from . import compose
from .interfaces import Codec
from .settings import GlobalSettings


def _trimmed() -> compose.TrimmedMean:
    return compose.TrimmedMean(GlobalSettings.get_params("trim", 1))


def _krum() -> compose.Krum:
    return compose.Krum(GlobalSettings.get_params("faulty", 1))


Median = Codec.of(compose.AllToAll(), merge=compose.Median(), name="Median")
"""The median over workers of each number. Yin et al., "Byzantine-robust distributed learning", 2018."""

TrimmedMean = Codec.of(compose.AllToAll(), merge=_trimmed, name="TrimmedMean")
"""The mean without the `trim` (1) largest and smallest values of each number, of more than 2 trim workers. Yin et al., 2018."""

Krum = Codec.of(compose.AllToAll(), merge=_krum, name="Krum")
"""The gradient nearest to most others, for up to `faulty` (1) wrong ones of at least 2 faulty + 3 workers. Blanchard et al.,
"Machine learning with adversaries: Byzantine tolerant gradient descent", 2017."""

Adasum = Codec.of(compose.AllToAll(), merge=compose.Adasum(), name="Adasum")
"""The sum of gradients less what two of them have in common.

Maleki et al., "Scaling distributed training with adaptive summation", 2021."""
