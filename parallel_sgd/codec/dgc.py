"""Deep gradient compression."""

from __future__ import annotations

from .compose import AllToAll
from .interfaces import Codec
from .pipeline import Stage
from .pipeline.gradient import Clip
from .pipeline.memory import DGCMemory
from .pipeline.sparsify import TopK
from .settings import GlobalSettings


def _up() -> Stage:
    workers = GlobalSettings.get_default().node_count
    memory = DGCMemory(
        GlobalSettings.get_params("momentum", 0.9),
        TopK(GlobalSettings.get_params("rho", 0.001), GlobalSettings.get_params("warmup", 200)),
    )
    norm = GlobalSettings.get_params("clip_norm", None)
    return memory if norm is None else Clip(norm, workers) | memory


DGC = Codec.of(AllToAll(), up=_up, name="DGC")
"""The share `rho` (0.001) of the velocities of largest magnitude; `momentum` (0.9) is here, so the rule is SGDOptimizer. The
share falls to rho within `warmup` (200) batches. `clip_norm` limits each variable's gradient.

Lin et al., "Deep gradient compression: reducing the communication bandwidth for distributed training", 2018."""
