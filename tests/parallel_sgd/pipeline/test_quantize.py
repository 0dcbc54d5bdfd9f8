"""All quantisers: the generic laws, exact payload bytes, declarations, arguments."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import pytest

from parallel_sgd.codec import pipeline
from parallel_sgd.codec.pipeline import Chain, PayloadError, Pipeline, Writer, quantize
from parallel_sgd.codec.pipeline.quantize import QSGD, Cast, Grid, Int8, Levels, Natural, Quantizer, Sign, Tern, TwoMeans
from tests.contract.kinds import public_kinds
from tests.parallel_sgd.pipeline import laws


class Row(NamedTuple):
    """A quantiser, its payload bytes before the fallback to dense, and what it declares."""

    make: Callable[[], Quantizer]
    size: Callable[[int], int]
    text: str
    unbiased: bool = False
    deterministic: bool = False
    zeros: bool = True


def qsgd(bits: int, bucket: int | None, norm: str, text: str) -> Row:
    def size(n: int) -> int:
        return ceil(n * bits / 8) + 4 * ceil(n / (bucket or max(n, 1)))

    return Row(lambda: QSGD(bits, bucket, norm), size, text, unbiased=True)


ROWS = [
    Row(Cast, lambda n: 2 * n, "Cast(format='fp16')", deterministic=True),
    Row(lambda: Cast("bf16"), lambda n: 2 * n, "Cast(format='bf16')", deterministic=True),
    Row(Int8, lambda n: n + 4 * ceil(n / 4096), "Int8(block=4096)", deterministic=True),
    Row(lambda: Int8(7), lambda n: n + 4 * ceil(n / 7), "Int8(block=7)", deterministic=True),
    Row(lambda: Int8(100_001), lambda n: n + 4 * ceil(n / 100_001), "Int8(block=100001)", deterministic=True),
    qsgd(8, 512, "l2", "QSGD(bits=8, bucket=512, norm='l2')"),
    qsgd(4, 512, "l2", "QSGD(bits=4, bucket=512, norm='l2')"),
    qsgd(2, 512, "l2", "QSGD(bits=2, bucket=512, norm='l2')"),
    qsgd(8, None, "max", "QSGD(bits=8, bucket=None, norm='max')"),
    qsgd(4, 100_008, "max", "QSGD(bits=4, bucket=100008, norm='max')"),
    qsgd(2, None, "l2", "QSGD(bits=2, bucket=None, norm='l2')"),
    Row(Tern, lambda n: 2 * ceil(n / 8) + 4, "Tern(clip=2.5, base3=False)"),
    Row(lambda: Tern(None), lambda n: 2 * ceil(n / 8) + 4, "Tern(clip=None, base3=False)", unbiased=True),
    Row(lambda: Tern(base3=True), lambda n: ceil(n / 5) + 4, "Tern(clip=2.5, base3=True)"),
    Row(Sign, lambda n: ceil(n / 8) + 4, "Sign(scale='l1')", deterministic=True),
    Row(lambda: Sign(None), lambda n: ceil(n / 8), "Sign(scale=None)", deterministic=True, zeros=False),
    Row(TwoMeans, lambda n: ceil(n / 8) + 8, "TwoMeans()", deterministic=True),
    Row(Natural, lambda n: n, "Natural()", unbiased=True),
    Row(Levels, lambda n: n + 4, "Levels(bits=8, levels=None)", unbiased=True),
    Row(lambda: Levels(4), lambda n: ceil(n / 2) + 4, "Levels(bits=4, levels=None)", unbiased=True),
    Row(lambda: Levels(2), lambda n: ceil(n / 4) + 4, "Levels(bits=2, levels=None)", unbiased=True),
    Row(Grid, lambda n: ceil(n / 2) + 4, "Grid(bits=4)", deterministic=True),
    Row(lambda: Grid(8), lambda n: n + 4, "Grid(bits=8)", deterministic=True),
    Row(lambda: Grid(2), lambda n: ceil(n / 4) + 4, "Grid(bits=2)", deterministic=True),
]

MILLION = {
    "Cast(format='fp16')": 2_000_000,
    "Int8(block=4096)": 1_000_980,
    "QSGD(bits=4, bucket=512, norm='l2')": 507_816,
    "QSGD(bits=8, bucket=512, norm='l2')": 1_007_816,
    "Tern(clip=2.5, base3=False)": 250_004,
    "Tern(clip=2.5, base3=True)": 200_004,
    "Sign(scale='l1')": 125_004,
    "Sign(scale=None)": 125_000,
    "TwoMeans()": 125_008,
    "Natural()": 1_000_000,
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text)
def test_the_generic_laws(row: Row) -> None:
    laws.check(row.make, row.size, zeros=row.zeros)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text)
def test_declarations(row: Row) -> None:
    stage = row.make()
    assert repr(stage) == row.text
    assert eval(row.text, vars(quantize)).state_dict() == {}
    assert (stage.unbiased, stage.deterministic) == (row.unbiased, row.deterministic)
    assert not stage.linear
    assert not stage.shared_seed
    assert stage.carried(1000) == 0
    with pytest.raises(ValueError, match=f"{type(stage).__name__} remembers nothing, got x"):
        stage.load_state_dict({"x": 1})


@pytest.mark.parametrize(("text", "size"), MILLION.items())
def test_the_sizes_that_the_contract_names(text: str, size: int) -> None:
    (row,) = (row for row in ROWS if row.text == text)
    assert Pipeline(row.make()).wire_bytes(1_000_000) == size


def test_every_quantiser_has_a_row() -> None:
    kinds = public_kinds(Quantizer, quantize)
    assert kinds == {type(row.make()) for row in ROWS}
    assert {kind.__name__ for kind in kinds} <= set(quantize.__all__) <= set(pipeline.__all__)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text)
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


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text)
def test_empty_vectors_pass_a_chain(row: Row) -> None:
    """A sparsifier may keep nothing, and a pipeline's fallback does not look into its chain."""
    stage, writer = Chain([row.make()]), Writer()
    assert stage.encode(np.empty(0, np.float32), writer, laws.DRAW).size == 0
    assert writer.join().size == row.size(0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cast("fp8"), "Cast 'format' must be 'fp16' or 'bf16', got 'fp8'"),
        (lambda: Int8(0), "Int8 'block' must be a positive integer, got 0"),
        (lambda: QSGD(3), "QSGD 'bits' must be 2, 4 or 8, got 3"),
        (lambda: QSGD(4, 100), "QSGD 'bucket' must be a multiple of 8, so that buckets begin with whole bytes, got 100"),
        (lambda: QSGD(4, 512, "l1"), "QSGD 'norm' must be 'l2' or 'max', got 'l1'"),
        (lambda: Tern(0), "Tern 'clip' must be a number > 0, got 0"),
        (lambda: Sign("l2"), "Sign 'scale' must be 'l1' or None, got 'l2'"),
        (lambda: Levels(16), "Levels 'bits' must be 2, 4 or 8, got 16"),
        (lambda: Levels(2, [0.5]), r"Levels 'levels' must be 1 numbers above 0 that rise to 1, got \[0.5\]"),
        (lambda: Levels(4, [0.1, 0.2, 0.3, 0.3, 0.5, 0.6, 1]), "Levels 'levels' must be 7 numbers above 0 that rise to 1"),
        (lambda: Levels(4, [0, 0.2, 0.3, 0.4, 0.5, 0.6, 1]), "Levels 'levels' must be 7 numbers above 0 that rise to 1"),
    ],
)
def test_arguments(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def damaged(make: Callable[[], Quantizer], n: int, place: int, value: object) -> None:
    """Decode a payload of which the bytes from `place` on were replaced."""
    payload = laws.encoded(make, laws.gaussian(n))
    other = np.array([value]).view(np.uint8)
    payload[place : place + other.size] = other
    Pipeline(make()).decode(payload, (n,), laws.DRAW)


def test_int8_refuses_steps_that_overflow() -> None:
    """127 of them would not be finite."""
    with pytest.raises(PayloadError, match=r"Int8 sends scales that are finite and not negative, got 3e\+36"):
        damaged(Int8, 5000, 0, np.float32(3e36))


@pytest.mark.parametrize("scale", [-1, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [Int8, QSGD, Tern, Sign, Levels])
def test_scales_must_be_finite_and_not_negative(make: Callable[[], Quantizer], scale: float) -> None:
    with pytest.raises(PayloadError, match="sends scales that are finite and not negative"):
        damaged(make, 5000, 0, np.float32(scale))


@pytest.mark.parametrize(
    ("make", "place", "value", "message"),
    [
        (Int8, -1, np.int8(-128), "Int8 sends codes from -127 to 127, got -128"),
        (QSGD, -1, np.uint8(0), "QSGD sends codes from 1 to 255, got 0"),
        (lambda: QSGD(4), -1, np.uint8(0xF0), "QSGD sends codes from 1 to 15, got 0"),
        (lambda: QSGD(2), -1, np.uint8(0b11_01_00_10), "QSGD sends codes from 1 to 3, got 0"),
        (lambda: Levels(4), -1, np.uint8(0x0F), "Levels sends codes from 1 to 15, got 0"),
        (lambda: Tern(base3=True), -1, np.uint8(243), "Tern sends bytes below 243 in base 3, got 243"),
        (TwoMeans, 0, np.float32(-1), "TwoMeans sends a mean >= 0 and one <= 0"),
        (TwoMeans, 4, np.float32(1), "TwoMeans sends a mean >= 0 and one <= 0"),
        (TwoMeans, 4, np.float32(np.nan), "TwoMeans sends a mean >= 0 and one <= 0"),
    ],
)
def test_codes_must_be_legal(make: Callable[[], Quantizer], place: int, value: Any, message: str) -> None:
    n = 4096
    size = Pipeline(make()).wire_bytes(n)
    with pytest.raises(PayloadError, match=message):
        damaged(make, n, place % size, value)


def test_planes_must_not_meet() -> None:
    payload = laws.encoded(Tern, laws.gaussian(800))
    payload[4:] |= 4
    with pytest.raises(PayloadError, match="got one that is positive and negative"):
        Pipeline(Tern()).decode(payload, (800,), laws.DRAW)


def test_the_largest_scales_decode_to_finite_numbers() -> None:
    """Whatever a peer sends, a finite scale gives finite numbers, without a warning."""
    for make in (lambda: QSGD(8, None), lambda: QSGD(4, None), Tern, Sign, Levels):
        payload = laws.encoded(make, laws.gaussian(1000))
        payload[:4] = np.array([np.finfo(np.float32).max]).view(np.uint8)
        assert np.isfinite(Pipeline(make()).decode(payload, (1000,), laws.DRAW)).all()
