"""What a packet says about an array: stages between a float vector and bytes."""

from __future__ import annotations

from .pipeline import Pipeline
from .stage import Chain, Draw, PayloadError, Reader, Stage, Writer

__all__ = ["Chain", "Draw", "PayloadError", "Pipeline", "Reader", "Stage", "Writer"]
