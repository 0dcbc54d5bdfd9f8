"""The quantisers without random numbers: rounding, errors, bits, the bytes themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallel_sgd.codec.pipeline.quantize import Cast, Int8, Sign, TwoMeans
from tests.parallel_sgd.pipeline.laws import Array, encoded, error, gaussian, sent, square

FORMATS = {"fp16": (11, -24, 65504.0), "bf16": (8, -133, (2 - 2.0**-7) * 2.0**127)}
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def rounded(x: Array, bits: int, smallest: int, largest: float) -> Array:
    """Round to nearest, ties to even, by the definition: multiples of the unit that the exponent sets, at least 2^smallest."""
    wide = np.asarray(x, np.float64)
    unit = np.exp2(np.maximum(np.frexp(wide)[1] - bits, smallest))
    return np.clip(np.rint(wide / unit) * unit, -largest, largest)


def cast(x: Array, name: str) -> Array:
    return sent(lambda: Cast(name), x)


@pytest.mark.parametrize("name", FORMATS)
def test_cast_rounds_a_million_numbers_to_nearest(name: str) -> None:
    x = np.random.default_rng(1).integers(0, 1 << 32, 1_000_000, np.uint32).view(np.float32)
    x = np.concatenate([x[np.isfinite(x)], gaussian(100_000)])
    np.testing.assert_array_equal(cast(x, name), rounded(x, *FORMATS[name]))


def test_cast_takes_ties_to_even() -> None:
    """Every bfloat16 number and the half-way point above it, and those of half precision."""
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    for half in (0, 0x8000):
        x = (upper | np.uint32(half)).view(np.float32)
        x = x[np.isfinite(x)]
        np.testing.assert_array_equal(cast(x, "bf16"), rounded(x, *FORMATS["bf16"]))
    values = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = ((values[:-1] + values[1:]) / 2).astype(np.float32)
    for x in (values.astype(np.float32), ties, -ties):
        np.testing.assert_array_equal(cast(x, "fp16"), rounded(x, *FORMATS["fp16"]))


def test_cast_saturates() -> None:
    largest = np.finfo(np.float32).max
    assert cast(np.array([7e4, -7e4, 65519, largest, -largest]), "fp16").tolist() == [65504, -65504, 65504, 65504, -65504]
    top = FORMATS["bf16"][2]
    assert cast(np.array([largest, -largest, 1, -1]), "bf16").tolist() == [top, -top, 1, -1]
    assert cast(np.array([largest, 1]), "bf16").tolist() == [top, 1]
    assert cast(np.array([-largest, -1]), "bf16").tolist() == [-top, -1]


def test_cast_bytes() -> None:
    x = np.array([1.0, -2.0], np.float32)
    assert encoded(Cast, x).tobytes() == bytes.fromhex("003c 00c0")
    assert encoded(lambda: Cast("bf16"), x).tobytes() == bytes.fromhex("803f 00c0")


@settings(max_examples=150, deadline=None, database=None)
@given(values=st.lists(FLOATS, min_size=3, max_size=40), block=st.integers(2, 50))
def test_int8_is_wrong_by_half_a_step_at_most(values: list[float], block: int) -> None:
    x = np.array(values, np.float32)
    result = sent(lambda: Int8(block), x)
    for start in range(0, x.size, block):
        part = x[start : start + block].astype(np.float64)
        top = np.abs(part).max()
        # dense where the packet would be larger; else roundings of the product add some millionths of the range
        assert np.abs(result[start : start + block] - part).max() <= (top / 254 * (1 + 1e-4) if top >= 2.0**-96 else top)


def test_int8_on_a_million() -> None:
    x = gaussian(1_000_003) * np.exp(4 * gaussian(1_000_003, seed=1))
    result = sent(Int8, x)
    for start in range(0, x.size, 4096):
        part = x[start : start + 4096].astype(np.float64)
        assert np.abs(result[start : start + 4096] - part).max() <= np.abs(part).max() / 254 * (1 + 1e-4)


def test_int8_bytes() -> None:
    """Scales, then codes in two's complement; ties to even."""
    x = np.array([254, -254, 1, -1, 3, 5, 0, 127, 12.7, 0], np.float32)
    payload = encoded(lambda: Int8(8), x)
    assert payload[:8].view("<f4").tolist() == [2, np.float32(0.1)]
    assert payload[8:].view(np.int8).tolist() == [127, -127, 0, 0, 2, 2, 0, 64, 127, 0]


def test_int8_delta_is_reached() -> None:
    """The worst vector: one value of 127 steps, the others of just under half a step."""
    x = np.full(4096, 0.499999, np.float32)
    x[17] = 127
    delta = Int8().delta(4096)
    assert 1 - delta == pytest.approx(error(sent(Int8, x), x) / square(x), rel=1e-5)
    assert Int8().delta(10**6) == delta > Int8(8192).delta(10**6)


def test_sign_counts_both_zeros_as_positive() -> None:
    x = np.array([0.0, -0.0, 3.0, -5.0, 1e-45, -1e-45, 4, 4, -4, 4], np.float32)
    payload = encoded(Sign, x)
    assert payload[:4].view("<f4").tolist() == [np.float32(2.4)]
    assert payload[4:].tolist() == [0b00101000, 0b01]
    assert sent(lambda: Sign(None), x).tolist() == [1, 1, 1, -1, 1, -1, 1, 1, -1, 1]
    assert encoded(lambda: Sign(None), x).tolist() == [0b00101000, 0b01]


@pytest.mark.parametrize("n", [33, 1000, 200_003])
def test_sign_contracts_exactly_as_stated(n: int) -> None:
    """codecs.md law 4: the share that is lost is 1 - ||x||_1^2 / (n ||x||^2); for a Gaussian vector 1 - 2 / pi."""
    x = gaussian(n)
    share = 1 - np.abs(x, dtype=np.float64).sum() ** 2 / (n * square(x))
    assert error(sent(Sign, x), x) / square(x) == pytest.approx(share, rel=1e-5)
    if n > 10_000:
        assert share == pytest.approx(1 - 2 / np.pi, rel=0.01)


def test_two_means_are_the_means_of_both_sides() -> None:
    x = np.array([0.0, -0.0, 6.0, -1.0, -3.0, 0, 0, 0, 0, -2], np.float32)
    payload = encoded(TwoMeans, np.tile(x, 3))
    assert payload[:8].view("<f4").tolist() == [np.float32(6 / 7), -2]
    expected = np.where(x < 0, np.float32(-2), np.float32(6 / 7))
    np.testing.assert_array_equal(sent(TwoMeans, np.tile(x, 3)), np.tile(expected, 3))


@settings(max_examples=60, deadline=None, database=None)
@given(seed=st.integers(0, 99), n=st.integers(12, 500), shift=st.floats(-3, 3))
def test_two_means_lose_what_the_two_sides_vary(seed: int, n: int, shift: float) -> None:
    x = gaussian(n, seed=seed) + np.float32(shift)
    lost = sum(float(part.var() * part.size) for part in (x[x >= 0].astype(float), x[x < 0].astype(float)) if part.size)
    assert error(sent(TwoMeans, x), x) == pytest.approx(lost, rel=1e-4, abs=1e-6 * square(x))


def test_two_means_keep_a_side_that_is_tiny() -> None:
    x = np.full(100_000, -1000, np.float32)
    x[::2] = 1e-6
    np.testing.assert_allclose(sent(TwoMeans, x), x, rtol=1e-6)
