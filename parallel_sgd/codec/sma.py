"""Workers that stay near their mean."""

from __future__ import annotations

from .compose import Elastic, Ring
from .interfaces import Codec
from .settings import GlobalSettings


def _elastic() -> Elastic:
    return Elastic(GlobalSettings.get_params("alpha", 0.1))


SMA = Codec.of(Ring(), send="weights", local=_elastic, name="SMA")
"""w <- (1 - `alpha`) w + `alpha` (0.1) mean(w) after every local step, at the bytes of a ring: synchronous model averaging, the
family of elastic averaging SGD. For op_type=ParameterAveragingOptimizer. Mai et al., "KungFu", 2020."""
