"""Training without a common model: neighbours in a ring average what they have."""

from __future__ import annotations

from .compose import Gossip
from .interfaces import Codec
from .pipeline import Stage
from .pipeline.memory import DiffRef
from .pipeline.sparsify import TopK
from .settings import GlobalSettings


def _gossip() -> Stage:
    return DiffRef(TopK(GlobalSettings.get_params("rho", 0.05)))


DPSGD = Codec.of(Gossip("ring"), send="weights", name="DPSGD")
"""w <- (own + both neighbours) / 3 after every local step; 2 x 4n bytes. For op_type=ParameterAveragingOptimizer.

Lian et al., "Can decentralized algorithms outperform centralized algorithms?", 2017."""

CHOCO = Codec.of(Gossip("ring", gamma=0.3), up=_gossip, send="weights", name="CHOCO")
"""The same with the share `rho` (0.05) of what has changed in each worker's public copy.

Koloskova et al., "Decentralized stochastic optimization and gossip algorithms with compressed communication", 2019."""
