"""Which stages are timed, and the speed that each has to reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.codecs.low_rank import LowRank
from parallel_sgd.codec.pipeline import Stage
from parallel_sgd.codec.pipeline.gradient import AdamPrecond, Clip, Momentum
from parallel_sgd.codec.pipeline.memory import DGCMemory, DiffRef, ErrorFeedback
from parallel_sgd.codec.pipeline.quantize import QSGD, Cast, Int8, Levels, Natural, Sign, Tern, TwoMeans
from parallel_sgd.codec.pipeline.sparsify import RandomK, Threshold, TopK

SIZE = 1 << 22
"""Values in a vector."""


@dataclass(frozen=True)
class Timed:
    """A stage, and the GB/s of float32 values that encoding and decoding have to reach; 0 where nothing is demanded."""

    make: Callable[[], Stage]
    encode: float = 0.0
    decode: float = 0.0

    def goal(self, direction: str) -> float:
        return self.encode if direction == "encode" else self.decode


STAGES = {
    "fp16": Timed(lambda: Cast("fp16"), encode=0.7, decode=0.7),
    "bf16": Timed(lambda: Cast("bf16"), encode=2, decode=2),
    "int8": Timed(Int8, encode=2.5, decode=3.5),
    "qsgd-8": Timed(QSGD, encode=1),
    "qsgd-4": Timed(lambda: QSGD(4), encode=1, decode=3),
    "qsgd-2": Timed(lambda: QSGD(2), encode=1),
    "qsgd-2-whole": Timed(lambda: QSGD(2, None), encode=1, decode=5),
    "tern": Timed(lambda: Tern(None), encode=1, decode=5),
    "tern-clip": Timed(Tern, encode=1, decode=5),
    "tern-base3": Timed(lambda: Tern(None, base3=True)),
    "sign": Timed(Sign, encode=1.8, decode=8),
    "sign-vote": Timed(lambda: Sign(None), encode=10, decode=8),
    "ef-sign": Timed(lambda: ErrorFeedback(Sign()), encode=1.8, decode=8),
    "two-means": Timed(TwoMeans, decode=8),
    "natural": Timed(Natural, encode=1),
    "levels-8": Timed(Levels),
    "levels-4": Timed(lambda: Levels(4), decode=3),
    "top-1%": Timed(lambda: TopK(0.01), encode=1.5),
    "top-1%-int8": Timed(lambda: ErrorFeedback(TopK(0.01) | Int8())),
    "top-10%": Timed(lambda: TopK(0.1)),
    "ef-top-1%": Timed(lambda: ErrorFeedback(TopK(0.01)), encode=1.2),
    "dgc-0.1%": Timed(lambda: DGCMemory(0.9, TopK(0.001)), encode=0.9),
    "diff-top-1%": Timed(lambda: DiffRef(TopK(0.01))),
    "threshold": Timed(lambda: Threshold(2.5), encode=1.5),
    "random-1%": Timed(lambda: RandomK(0.01), encode=1.5),
    "random-10%": Timed(lambda: RandomK(0.1)),
    "clip": Timed(lambda: Clip(1.0)),
    "momentum": Timed(Momentum),
    "adam": Timed(AdamPrecond),
    "power-2": Timed(lambda: LowRank(2), encode=0.9),
}
