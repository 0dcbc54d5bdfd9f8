"""What a packet says about an array: stages between a float vector and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .gradient import AdamPrecond, Clip, GradientStage, Momentum, Nesterov
    from .low_rank import PowerSGD
    from .memory import DGCMemory, DiffRef, ErrorFeedback, Memory
    from .pipeline import Pipeline
    from .quantize import QSGD, Cast, Grid, Int8, Levels, Natural, Sign, Tern, TwoMeans
    from .sparsify import RandomK, Threshold, TopK
    from .stage import Chain, Draw, LinearCode, Part, PayloadError, Reader, Stage, Writer

__all__ = [
    "QSGD",
    "AdamPrecond",
    "Cast",
    "Chain",
    "Clip",
    "DGCMemory",
    "DiffRef",
    "Draw",
    "ErrorFeedback",
    "GradientStage",
    "Grid",
    "Int8",
    "Levels",
    "LinearCode",
    "Memory",
    "Momentum",
    "Natural",
    "Nesterov",
    "Part",
    "PayloadError",
    "Pipeline",
    "PowerSGD",
    "RandomK",
    "Reader",
    "Sign",
    "Stage",
    "Tern",
    "Threshold",
    "TopK",
    "TwoMeans",
    "Writer",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "QSGD": "quantize",
        "AdamPrecond": "gradient",
        "Cast": "quantize",
        "Chain": "stage",
        "Clip": "gradient",
        "DGCMemory": "memory",
        "DiffRef": "memory",
        "Draw": "stage",
        "ErrorFeedback": "memory",
        "GradientStage": "gradient",
        "Grid": "quantize",
        "Int8": "quantize",
        "Levels": "quantize",
        "LinearCode": "stage",
        "Memory": "memory",
        "Momentum": "gradient",
        "Natural": "quantize",
        "Nesterov": "gradient",
        "Part": "stage",
        "PayloadError": "stage",
        "Pipeline": "pipeline",
        "PowerSGD": "low_rank",
        "RandomK": "sparsify",
        "Reader": "stage",
        "Sign": "quantize",
        "Stage": "stage",
        "Tern": "quantize",
        "Threshold": "sparsify",
        "TopK": "sparsify",
        "TwoMeans": "quantize",
        "Writer": "stage",
    },
)
