"""What holds for every stage: the generic laws, its declarations, its text; and refusals, one row each."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import pytest

import parallel_sgd.codec.pipeline
from nn.gradient_descent import ADAMOptimizer
from parallel_sgd.codec import pipeline
from parallel_sgd.codec.compose import ExchangePattern, LocalRule, MergeRule, Prox, ServerOpt, Trigger, Warmup
from parallel_sgd.codec.pipeline import (
    QSGD,
    AdamPrecond,
    Cast,
    Chain,
    Clip,
    DGCMemory,
    DiffRef,
    ErrorFeedback,
    Grid,
    Int8,
    Levels,
    LinearCode,
    Memory,
    Momentum,
    Nesterov,
    Part,
    PayloadError,
    Pipeline,
    PowerSGD,
    Quantizer,
    RandomK,
    Sign,
    Stage,
    Tern,
    Threshold,
    TopK,
    TwoMeans,
    Writer,
)
from tests.contract.kinds import public_kinds, row_faults
from tests.statements import covers

from . import laws
from .stages import MEMORIES, ROWS, Row

each = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
each_quantiser = pytest.mark.parametrize("row", [row for row in ROWS.values() if isinstance(row.make(), Quantizer)])
NAMES = {name: getattr(pipeline, name) for name in pipeline.__all__}
WRAPPERS = {"Memory", "RuleStage", "StageCode"}  # bases, and what wraps a stage


@covers("LAW-1", "LAW-2", "LAW-4", "LAW-5", "LAW-6")
@each
@pytest.mark.share(4)
def test_the_generic_laws(row: Row) -> None:
    laws.check_shapes(row.make)
    laws.check_determinism(row.make)
    laws.check_damage(row.make)
    laws.check_linearity(row.make)
    laws.check_state(row.make)
    if row.edges:
        laws.check_edges(row.make, zeros=row.zeros)
    if row.size is not None:
        laws.check_sizes(row.make, row.size, exact=row.exact)
    if row.contracts:
        laws.check_contraction(row.make)


@each
def test_declarations(row: Row) -> None:
    """What is declared, and a text and arguments by which the stage is made again."""
    stage, inner = row.make(), getattr(row.make(), "inner", None)
    for name in ("unbiased", "linear", "deterministic", "shared_seed"):
        if inner is None:
            assert getattr(stage, name) is (name in row.declares.split()), name
        elif name in ("deterministic", "shared_seed"):
            assert getattr(stage, name) == getattr(inner, name)
    assert repr(eval(repr(stage), NAMES)) == repr(stage)
    if isinstance(stage, Quantizer):
        assert stage.carried(1000) == 0


def test_every_stage_has_a_row() -> None:
    kinds = {kind for kind in public_kinds(Stage, parallel_sgd.codec) if kind.__name__ not in WRAPPERS} - {Chain}
    made = {type(row.make()) for row in ROWS.values()}
    assert not row_faults(kinds, made, "ROWS in tests/parallel_sgd/pipeline/stages.py")
    unnamed = {kind.__name__ for kind in kinds} - set(pipeline.__all__)
    assert not unnamed, f"name {', '.join(sorted(unnamed))} in parallel_sgd/codec/pipeline/__init__.py, or in that of quantize"


MADE: list[Part] = [Warmup(3), Prox(0.1), ServerOpt(ADAMOptimizer(0.1))]


@pytest.mark.parametrize("base", [Stage, LinearCode, MergeRule, Trigger, LocalRule, ExchangePattern])
def test_a_part_keeps_its_arguments_under_their_names(base: type[Part]) -> None:
    """By which two nodes tell whether they have the same."""
    made = {type(part): part for part in (*MADE, *(row.make() for row in ROWS.values()))}
    for kind in public_kinds(base, parallel_sgd.codec):
        if kind.__name__ not in WRAPPERS:
            part = made[kind] if kind in made else kind()
            assert part.get_config().keys() == signature(kind).parameters.keys()


@pytest.mark.parametrize("make", MEMORIES.values(), ids=MEMORIES)
def test_packets_of_a_memory_are_those_of_its_stage_and_never_larger_than_dense(make: Callable[[], Memory]) -> None:
    for n in laws.SIZES:
        pipeline_, inner = Pipeline(make()), Pipeline(make().inner)
        assert pipeline_.wire_bytes(n) == inner.wire_bytes(n) <= 4 * n
        assert not pipeline_.is_dense(n)  # the memory works for small variables, too
        payload = pipeline_.encode(laws.gaussian(n), laws.DRAW)
        assert payload.size <= pipeline_.wire_bytes(n)
        assert pipeline_.decode(payload, (n,), laws.DRAW).shape == (n,)


@pytest.mark.parametrize(
    ("stage", "size"),
    [
        (Cast(), 2_000_000),
        (Int8(), 1_000_980),
        (QSGD(4), 507_816),
        (QSGD(8), 1_007_816),
        (Tern(), 250_004),
        (Tern(base3=True), 200_004),
        (Sign(), 125_004),
        (Sign(None), 125_000),
        (TwoMeans(), 125_008),
        (TopK(0.01), 60_069),
        (TopK(0.001), 6_069),
        (TopK(0.01) | Int8(), 30_081),
    ],
    ids=repr,
)
def test_bytes_of_a_million_numbers(stage: Stage, size: int) -> None:
    """Those that the table of codecs names."""
    assert Pipeline(stage).encode(laws.gaussian(1_000_000), laws.DRAW).size == size


@each_quantiser
def test_sizes_may_change_and_a_sender_may_decode_its_own(row: Row) -> None:
    """As error feedback does: what was written stays, and buffers of other sizes leave nothing behind."""
    stage = Pipeline(row.make())
    for n in (70_000, 12, 3000, 70_001):
        x = laws.gaussian(n)
        payload = stage.encode(x, laws.DRAW)
        before = payload.copy()
        first = stage.decode(payload, (n,), laws.DRAW).copy()
        stage.encode(-x, laws.DRAW)
        np.testing.assert_array_equal(payload, before)
        np.testing.assert_array_equal(first, laws.sent(row.make, x))


@each_quantiser
def test_empty_vectors_pass_a_chain(row: Row) -> None:
    """A sparsifier may keep nothing, and a pipeline's fallback does not look into its chain."""
    stage, writer = Chain([row.make()]), Writer()
    assert stage.encode(np.empty(0, np.float32), writer, laws.DRAW).size == 0
    assert row.size is not None and writer.join().size == row.size(0)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: Cast("fp8"), "Cast 'format' must be 'fp16' or 'bf16', got 'fp8'"),
    (lambda: Int8(0), "Int8 'block' must be a positive integer, got 0"),
    (lambda: QSGD(3), "QSGD 'bits' must be 2, 4 or 8, got 3"),
    (lambda: QSGD(4, 100), "QSGD 'bucket' must be a multiple of 8, so that buckets begin with whole bytes, got 100"),
    (lambda: QSGD(4, 512, "l1"), "QSGD 'norm' must be 'l2' or 'max', got 'l1'"),
    (lambda: Tern(0), "Tern 'clip' must be a number > 0, got 0"),
    (lambda: Sign("l2"), "Sign 'scale' must be 'l1' or None, got 'l2'"),
    (lambda: Grid(3), "Grid 'bits' must be 2, 4 or 8, got 3"),
    (lambda: Levels(16), "Levels 'bits' must be 2, 4 or 8, got 16"),
    (lambda: Levels(2, [0.5]), r"Levels 'levels' must be 1 numbers above 0 that rise to 1, got \[0.5\]"),
    (lambda: Levels(4, [0.1, 0.2, 0.3, 0.3, 0.5, 0.6, 1]), "Levels 'levels' must be 7 numbers above 0 that rise to 1"),
    (lambda: Levels(4, [0, 0.2, 0.3, 0.4, 0.5, 0.6, 1]), "Levels 'levels' must be 7 numbers above 0 that rise to 1"),
    (lambda: TopK(0), "TopK 'rho' must be a number > 0, got 0"),
    (lambda: TopK(1.5), "TopK 'rho' must be a number > 0 and <= 1, got 1.5"),
    (lambda: TopK("1%"), "TopK 'rho' must be a number > 0, got '1%'"),
    (lambda: TopK(0.1, warmup=-1), "TopK 'warmup' must be an integer of at least 0, got -1"),
    (lambda: RandomK(-0.1), "RandomK 'rho' must be a number > 0, got -0.1"),
    (lambda: RandomK(0.1, 2), "RandomK 'scaled' must be True or False, got 2"),
    (lambda: Threshold(0.0), "Threshold 'tau' must be a number > 0, got 0.0"),
    (lambda: Clip(0), "Clip 'norm' must be a number > 0, got 0"),
    (lambda: Clip(1.0, workers=0), "Clip 'workers' must be a positive integer, got 0"),
    (lambda: Momentum(1), "Momentum 'momentum' must be a number >= 0 and < 1, got 1"),
    (lambda: Nesterov("0.9"), "Nesterov 'momentum' must be a number >= 0 and < 1, got '0.9'"),
    (lambda: AdamPrecond(beta2=1.0), "AdamPrecond 'beta2' must be a number >= 0 and < 1, got 1.0"),
    (lambda: AdamPrecond(epsilon=0), "AdamPrecond 'epsilon' must be a number > 0, got 0"),
    (lambda: PowerSGD(0), "PowerSGD 'rank' must be a positive integer, got 0"),
    (lambda: ErrorFeedback(TopK), "ErrorFeedback 'inner' must be an instance of Stage, got"),
    (lambda: ErrorFeedback(TopK(0.1), beta=1.5), "'beta' must be a number >= 0 and <= 1, got 1.5"),
    (lambda: ErrorFeedback(Momentum() | TopK(0.1)), r"pass Momentum again; write Momentum\(.*\) \| ErrorFeedback\(...\)"),
    (lambda: ErrorFeedback(ErrorFeedback(Sign())), "'inner' must not remember anything itself, got ErrorF"),
    (lambda: ErrorFeedback(RandomK(0.1)), r"must be a contraction, got RandomK\(.*scaled=True\); write scaled=False"),
    (lambda: DGCMemory(0.9, Sign()), r"DGCMemory 'inner' must begin with a sparsifier such as TopK\(0.001\)"),
    (lambda: DGCMemory(1.0, TopK(0.1)), "DGCMemory 'momentum' must be a number >= 0 and < 1, got 1.0"),
    (lambda: Clip(1.0) | ErrorFeedback(TopK(0.1)) | Int8(64), r"must be the last .*: write ErrorFeedback\(... \| Int8\("),
    (lambda: DiffRef(Int8()) | ErrorFeedback(Sign()), r"DiffRef\(inner=Int8\(block=4096\)\) must be the last"),
    (lambda: DGCMemory(0.9, TopK(0.1)) | Int8(), r"write DGCMemory\(... \| Int8\(block=4096\)\)"),
    (lambda: TopK(0.1) | Momentum(), r"shapes the gradient before anything is left out: write Momentum\(.*\) \| TopK\("),
    (lambda: Chain([TopK(0.1), 3]), "a pipeline is made of stages, got 3"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
def test_what_cannot_work_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def damaged(make: Callable[[], Stage], n: int, place: int, value: Any) -> None:
    """Decode a payload of which the bytes from `place` on were replaced."""
    payload = laws.encoded(make, laws.gaussian(n))
    other = np.array([value]).view(np.uint8)
    place %= payload.size
    payload[place : place + other.size] = other
    Pipeline(make()).decode(payload, (n,), laws.DRAW)


@pytest.mark.parametrize("scale", [-1, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [Int8, QSGD, Tern, Sign, Levels, Grid])
def test_scales_must_be_finite_and_not_negative(make: Callable[[], Stage], scale: float) -> None:
    with pytest.raises(PayloadError, match="sends scales that are finite and not negative"):
        damaged(make, 5000, 0, np.float32(scale))


@pytest.mark.parametrize(
    ("make", "place", "value", "message"),
    [
        (Int8, 0, np.float32(3e36), r"Int8 sends scales that are finite and not negative, got 3e\+36"),  # 127 of them are not
        (Int8, -1, np.int8(-128), "Int8 sends codes from -127 to 127, got -128"),
        (QSGD, -1, np.uint8(0), "QSGD sends codes from 1 to 255, got 0"),
        (lambda: QSGD(4), -1, np.uint8(0xF0), "QSGD sends codes from 1 to 15, got 0"),
        (lambda: QSGD(2), -1, np.uint8(0b11_01_00_10), "QSGD sends codes from 1 to 3, got 0"),
        (lambda: Levels(4), -1, np.uint8(0x0F), "Levels sends codes from 1 to 15, got 0"),
        (lambda: Tern(base3=True), -1, np.uint8(243), "Tern sends bytes below 243 in base 3, got 243"),
        (Tern, 4, np.tile(np.uint8(4), 1024), "got one that is positive and negative"),
        (TwoMeans, 0, np.float32(-1), "TwoMeans sends a mean >= 0 and one <= 0"),
        (TwoMeans, 4, np.float32(1), "TwoMeans sends a mean >= 0 and one <= 0"),
        (TwoMeans, 4, np.float32(np.nan), "TwoMeans sends a mean >= 0 and one <= 0"),
    ],
)
def test_codes_must_be_legal(make: Callable[[], Stage], place: int, value: Any, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        damaged(make, 4096, place, value)


def test_the_largest_scales_decode_to_finite_numbers() -> None:
    """Whatever a peer sends, a finite scale gives finite numbers, without a warning."""
    for make in (lambda: QSGD(8, None), lambda: QSGD(4, None), Tern, Sign, Levels):
        damaged(make, 1000, 0, np.finfo(np.float32).max)
