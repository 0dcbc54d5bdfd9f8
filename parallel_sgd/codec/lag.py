"""Lazily aggregated quantized gradients."""

from __future__ import annotations

from .compose import PS, Lazy
from .interfaces import Codec
from .pipeline.quantize import Grid
from .settings import GlobalSettings


def _up() -> Grid:
    return Grid(GlobalSettings.get_params("bits", 4))


def _lazy() -> Lazy:
    get = GlobalSettings.get_params
    return Lazy(get("xi", 0.8), get("depth", 10), get("most", 100))


LAQ = Codec.of(PS(), up=_up, trigger=_lazy, name="LAQ")
"""What is new in a worker's gradient, in `bits` (4) per number, only where it is large against the last results (`xi` 0.8,
`depth` 10), at the latest after `most` (100) batches. The server keeps the sum of what each worker has sent.

Sun et al., "Communication-efficient distributed learning via lazily aggregated quantized gradients", 2019."""
