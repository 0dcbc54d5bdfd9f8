"""Every worker serves a part of each variable; 8 bits both ways."""

from __future__ import annotations

from .compose import ShardedPS as ShardedExchange
from .interfaces import Codec
from .pipeline.memory import ErrorFeedback
from .pipeline.quantize import Int8
from .pipeline.sparsify import TopK
from .settings import GlobalSettings


def _up() -> ErrorFeedback:
    return ErrorFeedback(TopK(GlobalSettings.get_params("rho", 0.01)) | Int8(4096))


ShardedPS = Codec.of(ShardedExchange(), name="ShardedPS")
"""Dense: the mean over all blocks, 2 (W - 1) / W 4n bytes per worker and variable. `Ring` under another name."""

ShardedTopK = Codec.of(ShardedExchange(), up=_up, down=ErrorFeedback(Int8(4096)), name="ShardedTopK")
"""The share `rho` (0.01) of the gradient up, 8 bits a number down, with error feedback on both ways."""
