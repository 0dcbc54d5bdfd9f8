"""What codecs learn, and what they must not be used for, on images of MNIST."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parallel_sgd import codec as codecs
from parallel_sgd.codec import Codec
from parallel_sgd.codec.compose import AllToAll
from parallel_sgd.codec.pipeline import ErrorFeedback, RandomK
from tests.parallel_sgd.codec.fleet import Dense
from tests.parallel_sgd.codec.mnist_job import (
    LOCAL_MOMENTUM,
    M_INSIDE,
    PARAMETERS,
    VOTE,
    A,
    M,
    N,
    Outcome,
    Setting,
    data_directory,
    learn,
    run,
    warnings_of,
)

pytestmark = pytest.mark.skipif(
    data_directory() is None, reason="the 10,000 test images of MNIST are neither in $PSGD_DATA nor in ../shared/data/mnist"
)

Reference = Callable[[Setting, int], Outcome]
EFRandomK = Codec.of(AllToAll(), up=ErrorFeedback(RandomK(0.1, scaled=False)), name="EFRandomK")


@dataclass(frozen=True)
class Row:
    """A codec in a setting, and how many points of accuracy it may lose against the dense run of `against`.

    Where a run of one seed may lose about as much as that, it is the mean of two. `always`: `make test` runs it, one of each
    table; the others are for `make long`, since all of them take three minutes. That each learns: test_named_codecs.py.
    """

    setting: Setting
    codec: type[Codec]
    loses: float
    ratio: float  # of the bytes that the dense exchange of all with all sends to those of this codec, at least
    parameters: dict[Hashable, Any] = field(default_factory=dict)
    against: Setting | None = None  # None: its own
    seeds: tuple[int, ...] = (0,)
    always: bool = False

    def __str__(self) -> str:
        numbers = "-".join(f"{name}={value}" for name, value in self.parameters.items())
        return "-".join(part for part in (self.setting.name, self.codec.__name__, numbers) if part)


AFTER_THE_MEAN = (
    Row(M, codecs.FP16, 0.3, 3.8),  # by shards, which is half the bytes of all to all by itself
    Row(M, codecs.BF16, 0.3, 3.8),
    Row(M, codecs.Int8, 0.3, 7.5),
    Row(M, codecs.QSGD, 0.3, 3.8, {"bits": 8}),
    Row(M, codecs.QSGD, 1.0, 7.5, {"bits": 4}),
    Row(M, codecs.QSGD, 2.0, 7.5, {"bits": 4, "bucket": None}),
    Row(M, codecs.QSGD, 1.5, 14, {"bits": 2}, seeds=(0, 1)),
    Row(M, codecs.TernGrad, 1.0, 14),
    Row(M, codecs.TernGrad, 1.0, 14, {"clip": None}),
    Row(M, codecs.RandomK, 1.5, 18),
    Row(M_INSIDE, codecs.DGC, 2.5, 55, {"rho": 0.01, "warmup": 0}, against=M),
    Row(M_INSIDE, codecs.DGC, 2.5, 200, {"rho": 0.001, "warmup": 0}, against=M),
    Row(M, codecs.PowerSGD, 2.5, 70, {"rank": 2}),
    Row(M, codecs.PowerSGD, 1.5, 40, {"rank": 4}, seeds=(0, 1)),
)
LOCAL_RULE = (
    Row(N, codecs.EFSign, 1.0, 29),
    Row(N, codecs.OneBit, 1.0, 29),
    Row(N, codecs.TopK, 1.0, 55, always=True),
    Row(N, codecs.TopKInt8, 1.0, 95),
    Row(N, EFRandomK, 1.0, 9),
    Row(N, codecs.TopK, 1.5, 200, {"rho": 0.001}),
    Row(LOCAL_MOMENTUM, codecs.TopK, 1.5, 55),  # what the warning of the controls below advises
    Row(LOCAL_MOMENTUM, codecs.EFSign, 1.5, 29),
    Row(A, codecs.Int8, 0.8, 7.5),
    Row(A, codecs.EFSign, 0.8, 29),
    Row(A, codecs.OneBit, 0.8, 29),
    Row(A, codecs.TopK, 0.8, 55),
    Row(A, codecs.TernGrad, 0.8, 14),
    Row(A, codecs.QSGD, 0.8, 7.5, {"bits": 4}),
)
NOW_AND_THEN = (
    Row(PARAMETERS, codecs.LocalSGD, 1.0, 3.9, {"local_batches": 4}, against=N),
    Row(PARAMETERS, codecs.LocalSGD, 1.5, 15, {"local_batches": 16}, against=N),
    Row(PARAMETERS, codecs.LocalSGD, 1.5, 60, {"local_batches": 64}, against=N),
    Row(PARAMETERS, codecs.DiLoCo, 0.5, 15, {"local_batches": 16}, against=N),
    Row(PARAMETERS, codecs.DPSGD, 1.0, 1.4, against=N),
    Row(PARAMETERS, codecs.RandomPair, 1.0, 2.9, against=N),
)


ROWS = (*AFTER_THE_MEAN, *LOCAL_RULE, *NOW_AND_THEN)


@pytest.fixture(scope="module")
def dense() -> Reference:
    """Runs of the dense exchange, one for each setting and seed."""
    return functools.cache(lambda setting, seed=0: learn(setting, Dense, seed=seed))


@pytest.fixture(scope="module")
def misused() -> Callable[..., Outcome]:
    """Runs of codecs with momentum after the merge, one for each."""
    return functools.cache(lambda codec, **parameters: learn(M, codec, parameters))


@pytest.mark.parametrize("row", [pytest.param(row, id=str(row), marks=() if row.always else pytest.mark.long) for row in ROWS])
@pytest.mark.long
def test_it_learns_like_the_dense_exchange(row: Row, dense: Reference) -> None:
    """Accuracy and bytes, and nobody is warned of it: what is lossless, unbiased or linear may be followed by momentum, error
    feedback stands behind a local rule, parameters may be exchanged seldom or with few."""
    lost = []
    for seed in row.seeds:
        reference = dense(row.setting if row.against is None else row.against, seed)
        outcome = learn(row.setting, row.codec, row.parameters, seed)
        assert outcome.warned == ()
        assert reference.bytes_sent >= row.ratio * outcome.bytes_sent
        lost.append(reference.accuracy - outcome.accuracy)
    assert np.mean(lost) <= row.loses


@pytest.mark.long  # on digits it trains in test_named_codecs.py
def test_the_majority_of_signs_learns() -> None:
    assert learn(VOTE, codecs.Signum).accuracy >= 91.0


@pytest.mark.long
def test_the_bare_fleet_learns_what_a_whole_job_learns(tmp_path: Path) -> None:
    """To the last image, byte and warning, so what the rows above show is true of jobs."""
    assert run(M, tmp_path, codecs.TopK, epochs=2) == learn(M, codecs.TopK, epochs=2)


# EFSign on one way is warned of, too, but with a scale for each variable it loses only 0.7 to 1.9 points
MISUSED: tuple[tuple[type[Codec], dict[str, Any], float], ...] = (
    (codecs.TopK, {}, 10.0),
    (codecs.TopK, {"rho": 0.001}, 1.0),
    (EFRandomK, {}, 50.0),
    (codecs.EFSignBothWays, {}, 2.0),
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("codec", "parameters", "worse_by"),
    [pytest.param(*case, marks=() if case is MISUSED[0] else pytest.mark.long) for case in MISUSED],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_momentum_after_what_error_feedback_sends_late_fails(
    codec: type[Codec], parameters: dict[str, Any], worse_by: float, dense: Reference, misused: Callable[..., Outcome]
) -> None:
    assert dense(M, 0).accuracy - misused(codec, **parameters).accuracy > worse_by


def test_momentum_after_what_error_feedback_sends_late_is_warned_of() -> None:
    for codec, parameters, _ in MISUSED:
        (text,) = warnings_of(M, codec, parameters)
        assert f"{codec.__name__} sends later what a packet leaves out, and MomentumOptimizer with momentum=0.9" in text
        assert "use op_type=LocalUpdateOptimizer" in text
