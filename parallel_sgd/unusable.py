"""Public path of `parallel_sgd.engine.unusable`."""

from __future__ import annotations

from .engine.unusable import Unusable, check_finite

__all__ = ["Unusable", "check_finite"]
