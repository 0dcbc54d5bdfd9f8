"""TernGrad: minus, zero or plus."""

from __future__ import annotations

from . import compose, pipeline
from .interfaces import Codec
from .recipes import Recipes
from .settings import GlobalSettings

shipped = Recipes(__name__)
get = GlobalSettings.get_params


def __getattr__(name: str) -> type[Codec]:
    return shipped.get(name)


@shipped.composes("TernGrad")
def _terngrad(name: str) -> type[Codec]:
    """Two bits per number, after clipping at `clip` (2.5) standard deviations; None does not clip.

    Wen et al., "TernGrad: ternary gradients to reduce communication in distributed deep learning", 2017.
    """
    return Codec.of(compose.AllToAll(), up=lambda: pipeline.Tern(get("clip", 2.5)), name=name)
