"""QSGD: few bits per number, unbiased."""

from __future__ import annotations

from .compose import AllToAll
from .interfaces import Codec
from .pipeline import quantize
from .settings import GlobalSettings


def _up() -> quantize.QSGD:
    return quantize.QSGD(GlobalSettings.get_params("bits", 8), GlobalSettings.get_params("bucket", 512))


QSGD = Codec.of(AllToAll(), up=_up, name="QSGD")
"""Gradients of `bits` (8, 4 or 2) per number with one norm per `bucket` (512) of them, to all workers.

Alistarh et al., "QSGD: communication-efficient SGD via gradient quantization and encoding", 2017."""
