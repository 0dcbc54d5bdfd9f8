"""All stages that ship, with what holds for each beyond the generic laws."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

from parallel_sgd.codec.pipeline import (
    QSGD,
    AdamPrecond,
    Cast,
    Chain,
    Clip,
    DGCMemory,
    DiffRef,
    ErrorFeedback,
    GlobalClip,
    GlobalTopK,
    Grid,
    Int8,
    Levels,
    Momentum,
    Natural,
    Nesterov,
    RandomK,
    Sign,
    Stage,
    Tern,
    Threshold,
    TopK,
    TwoMeans,
)


class Row(NamedTuple):
    """A stage, and its payload bytes before the fallback to dense; None where they change, or are those of another stage.

    `exact=False`: the bytes depend on the values. `zeros=False`: zeros do not stay zeros. `edges=False`: sums of huge numbers
    overflow. `contracts=False`: as `delta` says in expectation only. `declares`: unbiased, linear, deterministic, shared seed.
    """

    make: Callable[[], Stage]
    size: Callable[[int], int] | None = None
    declares: str = "deterministic"
    exact: bool = True
    zeros: bool = True
    edges: bool = True
    contracts: bool = True


def _top_k(rho: float) -> Callable[[int], int]:
    def size(n: int) -> int:
        k = max(1, ceil(rho * n))
        return 5 + 4 * k + min(4 * k, 2 * k + 4 * ceil(n / 65536), ceil(n / 8))

    return size


def _random_k(rho: float, scaled: bool) -> Row:
    declares = "linear shared_seed" + " unbiased" * scaled
    return Row(lambda: RandomK(rho, scaled), lambda n: 4 * min(n, max(1, ceil(rho * n))), declares, contracts=False)


def _qsgd(bits: int, bucket: int | None, norm: str) -> Row:
    return Row(lambda: QSGD(bits, bucket, norm), lambda n: ceil(n * bits / 8) + 4 * ceil(n / (bucket or max(n, 1))), "unbiased")


def _int8(block: int) -> Row:
    return Row(lambda: Int8(block), lambda n: n + 4 * ceil(n / block))


def _bits(kind: type[Grid] | type[Levels], bits: int, declares: str) -> Row:
    return Row(lambda: kind(bits), lambda n: ceil(n * bits / 8) + 4, declares)


def _threshold(n: int) -> int:
    return 5 + min(4 * n, 2 * n + 4 * ceil(n / 65536), ceil(n / 8)) + ceil(n / 8)


INNER: dict[str, Callable[[], Stage]] = {
    "TopK": lambda: TopK(0.02),
    "TopK | Int8": lambda: TopK(0.05) | Int8(256),
    "TopK in a warm-up": lambda: TopK(0.01, warmup=20),
    "RandomK": lambda: RandomK(0.1, scaled=False),
    "Threshold": lambda: Threshold(0.7),
    "Sign": lambda: Sign(),
    "TwoMeans": lambda: TwoMeans(),
    "Int8": lambda: Int8(256),
    "dense": lambda: Chain(),
}
MEMORIES: dict[str, Callable[[], Stage]] = {
    **{f"EF {name}": lambda inner=inner: ErrorFeedback(inner()) for name, inner in INNER.items()},
    "EF beta": lambda: ErrorFeedback(TopK(0.02), beta=0.7),
    "DGC": lambda: DGCMemory(0.9, TopK(0.02)),
    "DGC | Int8": lambda: DGCMemory(0.9, TopK(0.02) | Int8(256)),
    "DGC all": lambda: DGCMemory(0.9, TopK(1.0)),
    "DiffRef TopK": lambda: DiffRef(TopK(0.02)),
    "DiffRef Int8": lambda: DiffRef(Int8(256)),
}
_GRADIENT: dict[str, Callable[[], Stage]] = {
    "Clip": lambda: Clip(1.5),
    "GlobalClip": lambda: GlobalClip(1.5),
    "Clip, workers": lambda: Clip(3.0, workers=4),
    "Momentum": lambda: Momentum(0.8),
    "Nesterov": lambda: Nesterov(0.8),
    "AdamPrecond": lambda: AdamPrecond(),
}
ROWS: dict[str, Row] = {
    "fp16": Row(Cast, lambda n: 2 * n),
    "bf16": Row(lambda: Cast("bf16"), lambda n: 2 * n),
    **{f"Int8 {block}": _int8(block) for block in (4096, 7, 100_001)},
    **{f"QSGD {bits}": _qsgd(bits, 512, "l2") for bits in (8, 4, 2)},
    "QSGD 8 max": _qsgd(8, None, "max"),
    "QSGD 4 max": _qsgd(4, 100_008, "max"),
    "QSGD 2 whole": _qsgd(2, None, "l2"),
    "Tern": Row(Tern, lambda n: 2 * ceil(n / 8) + 4, ""),
    "Tern whole": Row(lambda: Tern(None), lambda n: 2 * ceil(n / 8) + 4, "unbiased"),
    "Tern base 3": Row(lambda: Tern(base3=True), lambda n: ceil(n / 5) + 4, ""),
    "Sign": Row(Sign, lambda n: ceil(n / 8) + 4),
    "Sign bare": Row(lambda: Sign(None), lambda n: ceil(n / 8), zeros=False),
    "TwoMeans": Row(TwoMeans, lambda n: ceil(n / 8) + 8),
    "Natural": Row(Natural, lambda n: n, "unbiased"),
    **{f"Levels {bits}": _bits(Levels, bits, "unbiased") for bits in (8, 4, 2)},
    **{f"Grid {bits}": _bits(Grid, bits, "deterministic") for bits in (8, 4, 2)},
    **{f"TopK {rho}": Row(lambda rho=rho: TopK(rho), _top_k(rho)) for rho in (0.001, 0.01, 0.3, 1.0)},
    "GlobalTopK": Row(lambda: GlobalTopK(0.01), _top_k(0.01)),
    "TopK in a warm-up": Row(lambda: TopK(0.01, warmup=4), contracts=False),
    "Threshold": Row(lambda: Threshold(1.5), _threshold, exact=False),
    **{f"RandomK {rho}{', scaled' * scaled}": _random_k(rho, scaled) for rho in (0.01, 0.4, 0.9) for scaled in (True, False)},
    **{
        name: Row(make, lambda n: 4 * n, "unbiased linear deterministic", edges=False, contracts=False)
        for name, make in _GRADIENT.items()
    },
    **{name: Row(make, declares="") for name, make in MEMORIES.items()},
}
