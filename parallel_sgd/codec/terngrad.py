"""TernGrad: minus, zero or plus."""

from __future__ import annotations

from .compose import AllToAll
from .interfaces import Codec
from .pipeline.quantize import Tern
from .settings import GlobalSettings


def _up() -> Tern:
    return Tern(GlobalSettings.get_params("clip", 2.5))


TernGrad = Codec.of(AllToAll(), up=_up, name="TernGrad")
"""Two bits per number, after clipping at `clip` (2.5) standard deviations; None does not clip.

Wen et al., "TernGrad: ternary gradients to reduce communication in distributed deep learning", 2017."""
