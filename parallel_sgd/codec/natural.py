"""Natural compression."""

from __future__ import annotations

from .compose import AllToAll
from .interfaces import Codec
from .pipeline import quantize

Natural = Codec.of(AllToAll(), up=quantize.Natural(), name="Natural")
"""Powers of two, 8 bits per number, unbiased. Horvath et al., "Natural compression for distributed deep learning", 2019."""
