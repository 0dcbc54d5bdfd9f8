"""Adam at one bit per number."""

from __future__ import annotations

from .compose import FrozenAdam, ShardedPS, Warmup
from .interfaces import Codec
from .pipeline.memory import ErrorFeedback
from .pipeline.quantize import Sign
from .settings import GlobalSettings


def _adam() -> FrozenAdam:
    get = GlobalSettings.get_params
    return FrozenAdam(get("learn_rate", 1e-3), get("beta1", 0.9), get("beta2", 0.999), get("epsilon", 1e-8))


def _warmup() -> Warmup:
    return Warmup(GlobalSettings.get_params("warmup", 200))


OneBitAdam = Codec.of(
    ShardedPS(), up=ErrorFeedback(Sign()), down=ErrorFeedback(Sign()), trigger=_warmup, local=_adam, name="OneBitAdam"
)
"""`warmup` (200) batches of Adam (`learn_rate` 1e-3, `beta1`, `beta2`, `epsilon`), dense; then its momentum, in signs with
error feedback on both ways, over a second moment that stands still. For op_type=GradientAveragingOptimizer; the workers' own
rule is not used. Tang et al., "1-bit Adam", 2021."""
