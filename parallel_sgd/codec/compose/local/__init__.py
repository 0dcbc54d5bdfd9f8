"""What workers do by themselves beside an exchange. Yours is one new file here and one line in this list."""

from __future__ import annotations

from .drift import Drift
from .elastic import Elastic
from .frozen_adam import FrozenAdam
from .prox import Prox
from .rule import LocalRule

__all__ = ["Drift", "Elastic", "FrozenAdam", "LocalRule", "Prox"]
