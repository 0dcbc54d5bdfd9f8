"""Only the largest numbers, and later what was left over."""

from __future__ import annotations

from .compose import AllToAll
from .interfaces import Codec
from .pipeline import Stage
from .pipeline.memory import ErrorFeedback
from .pipeline.quantize import Int8
from .pipeline.sparsify import TopK as Largest
from .settings import GlobalSettings


def _largest() -> Largest:
    return Largest(GlobalSettings.get_params("rho", 0.01))


def _up() -> Stage:
    return ErrorFeedback(_largest())


def _up_int8() -> Stage:
    return ErrorFeedback(_largest() | Int8(4096))


TopK = Codec.of(AllToAll(), up=_up, name="TopK")
"""The share `rho` (0.01) of largest magnitude with error feedback. For op_type=LocalUpdateOptimizer, or rules without momentum.

Stich et al., "Sparsified SGD with memory", 2018."""

TopKInt8 = Codec.of(AllToAll(), up=_up_int8, name="TopKInt8")
"""The same with values of 8 bits."""
