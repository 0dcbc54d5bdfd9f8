"""Floats of 16 bits."""

from __future__ import annotations

from .compose import ShardedPS
from .interfaces import Codec
from .pipeline.quantize import Cast

FP16 = Codec.of(ShardedPS(), up=Cast("fp16"), down=Cast("fp16"), name="FP16")
"""Half precision on both ways, means are taken in float32: half the bytes of `Ring`. Limits numbers to +-65504."""

BF16 = Codec.of(ShardedPS(), up=Cast("bf16"), down=Cast("bf16"), name="BF16")
"""bfloat16 on both ways: the range of float32, 8 bits of precision."""
