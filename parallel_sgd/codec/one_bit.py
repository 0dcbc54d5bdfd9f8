"""1-bit SGD."""

from __future__ import annotations

from .compose import AllToAll
from .interfaces import Codec
from .pipeline.memory import ErrorFeedback
from .pipeline.quantize import TwoMeans

OneBit = Codec.of(AllToAll(), up=ErrorFeedback(TwoMeans()), name="OneBit")
"""One bit per number and the means of both sides, with error feedback.

Seide et al., "1-bit stochastic gradient descent", 2014."""
