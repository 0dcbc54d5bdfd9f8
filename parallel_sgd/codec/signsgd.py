"""Signs, and the majority decides."""

from __future__ import annotations

from .compose import PS, AllToAll, Vote
from .interfaces import Codec
from .pipeline import Stage
from .pipeline.gradient import Momentum
from .pipeline.quantize import Sign
from .settings import GlobalSettings


def _up() -> Stage:
    return Momentum(GlobalSettings.get_params("momentum", 0.9)) | Sign(scale=None)


SignSGD = Codec.of(AllToAll(), up=Sign(scale=None), merge=Vote(), name="SignSGD")
"""One bit per number; +1 or -1 as most workers say. For SGDOptimizer with a learning rate of 1e-4 to 1e-3.

Bernstein et al., "signSGD with majority vote is communication efficient and fault tolerant", 2019."""

Signum = Codec.of(AllToAll(), up=_up, merge=Vote(), name="Signum")
"""The signs of each worker's momentum (`momentum`, 0.9)."""

SignSGDPS = Codec.of(PS(), up=Sign(scale=None), down=Sign(scale=None), merge=Vote(), name="SignSGDPS")
"""The vote at the parameter server, one bit up and one bit down."""
