"""QSGD: few bits per number, unbiased."""

from __future__ import annotations

from . import compose, pipeline
from .interfaces import Codec
from .recipes import Recipes
from .settings import GlobalSettings

shipped = Recipes(__name__)
get = GlobalSettings.get_params


def __getattr__(name: str) -> type[Codec]:
    return shipped.get(name)


@shipped.composes("QSGD")
def _qsgd(name: str) -> type[Codec]:
    """Gradients of `bits` (8, 4 or 2) per number with one norm per `bucket` (512) of them, to all workers.

    Alistarh et al., "QSGD: communication-efficient SGD via gradient quantization and encoding", 2017.
    """
    return Codec.of(compose.AllToAll(), up=lambda: pipeline.QSGD(get("bits", 8), get("bucket", 512)), name=name)
