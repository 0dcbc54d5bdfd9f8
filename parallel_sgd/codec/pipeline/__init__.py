"""Pipelines, which write an array into a packet: stages between a float vector and bytes.

To add one: a class beside its likes, with the methods of `Stage` or of the base that these have (`Quantizer`, `Sparsifier`,
`GradientStage`, `Memory`), and its name below; that of a quantiser stands in `quantize` alone. All that other parts must know
of it are class attributes, and its constructor keeps its arguments under their names, which tell it from others. It gets a row
in `tests/parallel_sgd/pipeline/stages.py`, and its name stands under *Compose one* in the README of the codecs; tests demand
both. A codec of it that `--codec` knows by name is a function in `..named`, and a name in `parallel_sgd.codec`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from network.names import lazily

from . import quantize

if TYPE_CHECKING:
    from .gradient import AdamPrecond, Clip, GlobalClip, GradientStage, Momentum, Nesterov
    from .low_rank import PowerSGD
    from .memory import DGCMemory, DiffRef, ErrorFeedback, Memory
    from .pipeline import Pipeline
    from .quantize import *  # noqa: F403
    from .sparsify import GlobalTopK, RandomK, Sparsifier, Threshold, TopK
    from .stage import Chain, Draw, LinearCode, Part, PayloadError, Reader, Stage, Writer

__all__ = [
    "AdamPrecond",
    "Chain",
    "Clip",
    "DGCMemory",
    "DiffRef",
    "Draw",
    "ErrorFeedback",
    "GlobalClip",
    "GlobalTopK",
    "GradientStage",
    "LinearCode",
    "Memory",
    "Momentum",
    "Nesterov",
    "Part",
    "PayloadError",
    "Pipeline",
    "PowerSGD",
    "RandomK",
    "Reader",
    "Sparsifier",
    "Stage",
    "Threshold",
    "TopK",
    "Writer",
]
__all__ += quantize.__all__

lazily(
    __name__,
    {
        "quantize": " ".join(quantize.__all__),
        "gradient": "AdamPrecond Clip GlobalClip GradientStage Momentum Nesterov",
        "low_rank": "PowerSGD",
        "memory": "DGCMemory DiffRef ErrorFeedback Memory",
        "pipeline": "Pipeline",
        "sparsify": "GlobalTopK RandomK Sparsifier Threshold TopK",
        "stage": "Chain Draw LinearCode Part PayloadError Reader Stage Writer",
    },
)
