"""Quantisers: rounding, errors, expectation and variance of those with random numbers, and the bytes themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallel_sgd.codec.pipeline import QSGD, Cast, Grid, Int8, Levels, Natural, Sign, Tern, TwoMeans, tangent_levels
from tests.statements import covers

from .laws import DRAW, Array, Make, check_unbiased, encoded, error, gaussian, moments, sent, square

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


@covers("LAW-4")
@pytest.mark.parametrize("n", [33, 1000, 200_003])
def test_sign_contracts_exactly_as_stated(n: int) -> None:
    """The share that is lost is 1 - ||x||_1^2 / (n ||x||^2); for a Gaussian vector 1 - 2 / pi."""
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


X = gaussian(1000)
TOP = float(np.abs(X).max())


def between(x: Array, levels: Array) -> float:
    """Return E||C(x) - x||^2 / ||x||^2 for unbiased rounding to neighbours among levels: the sum of (x - low) (high - x)."""
    wide = np.clip(x.astype(np.float64), levels[0], levels[-1])
    above = np.clip(np.searchsorted(levels, wide), 1, levels.size - 1)
    return float(((wide - levels[above - 1]) * (levels[above] - wide)).sum()) / square(x)


def even(scale: float, levels: int) -> Array:
    return np.arange(-levels, levels + 1) * scale / levels


def tangent(count: int) -> Array:
    positive = tangent_levels(count)
    return TOP * np.concatenate([-positive[::-1], [0], positive])


def powers() -> Array:
    positive = np.exp2(np.arange(-60.0, 20))
    return np.concatenate([-positive[::-1], [0], positive])


NORM = float(np.sqrt(square(X)))

# stage, the levels it rounds to, the bias of fixed point
CASES: dict[str, tuple[Make, Array, float]] = {
    "qsgd-2": (lambda: QSGD(2, None), even(NORM, 1), NORM * 2**-16),
    "qsgd-4": (lambda: QSGD(4, None), even(NORM, 7), NORM * 2**-16 / 7),
    "qsgd-8": (lambda: QSGD(8, None), even(NORM, 127), NORM * 2**-16 / 127),
    "qsgd-4-max": (lambda: QSGD(4, None, "max"), even(TOP, 7), TOP * 2**-16 / 7),
    "tern": (lambda: Tern(None), even(TOP, 1), TOP * 2**-16),
    "natural": (Natural, powers(), 0.0),
    "levels-8": (Levels, tangent(127), TOP * 2**-15),
    "levels-4": (lambda: Levels(4), tangent(7), TOP * 2**-15),
}


LIKE_OTHERS = ("qsgd-4", "qsgd-8", "levels-4")  # with another number of levels; `make test` has one of each


@covers("LAW-3")
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long if name in LIKE_OTHERS else ()) for name in CASES])
@pytest.mark.long
def test_unbiased_with_the_variance_of_the_formula(name: str) -> None:
    """The mean over many draws is what was encoded."""
    make, levels, bias = CASES[name]
    found = moments(make, X)
    check_unbiased(found, X, bias=bias)
    assert found.variance == pytest.approx(between(X, levels), rel=0.05)


def test_natural_stays_below_an_eighth() -> None:
    worst = np.full(4000, 4 / 3, np.float32)  # where (x - 1) (2 - x) / x^2 is largest
    assert error(sent(Natural, worst), worst) / square(worst) == pytest.approx(1 / 8, rel=0.05)


@pytest.mark.parametrize("base3", [False, True])
@pytest.mark.long
def test_tern_with_clipping_is_unbiased_for_what_was_clipped(base3: bool) -> None:
    bound = 2.5 * NORM / np.sqrt(X.size)
    clipped = np.clip(X, -bound, bound)
    assert (clipped != X).any()
    found = moments(lambda: Tern(2.5, base3), X)
    check_unbiased(found, clipped, bias=bound * 2**-16)
    assert set(np.unique(np.abs(sent(lambda: Tern(2.5, base3), X)))) == {np.float32(0), np.float32(bound)}


def test_tern_in_base_3_says_the_same() -> None:
    for n in (40, 65_535, 65_540, 200_001):
        x = gaussian(n)
        first, second = sent(Tern, x), sent(lambda: Tern(base3=True), x)
        if n < 65_535:  # later chunks begin elsewhere, so their random numbers are others
            np.testing.assert_array_equal(first, second)
        assert set(np.unique(second)) == set(np.unique(first))
        assert (np.sign(second)[second != 0] == np.sign(x)[second != 0]).all()


@pytest.mark.share(3)
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("norm", ["l2", "max"])
def test_codes_are_in_the_legal_alphabet(bits: int, norm: str) -> None:
    """Also where one value is the whole norm, and under hundreds of draws: no code passes the last level."""
    spike = np.zeros(64, np.float32)
    spike[[5, 40]] = 1.0, -1e-4
    for x in (gaussian(1 << 18), np.float32(0.1) * spike, np.float32(-3e5) * spike, np.full(512, 0.3, np.float32)):
        for batch in range(1 if x.size > 512 else 300):
            payload = encoded(lambda: QSGD(bits, None, norm), x, DRAW._replace(batch=batch))
            codes = (payload[4:, None] >> np.arange(0, 8, bits)) & ((1 << bits) - 1)
            assert codes.min() >= 1
            away = codes.reshape(-1)[: x.size].astype(int) - (1 << bits - 1)
            assert (away[np.sign(away) != np.sign(x)] == 0).all()


TERN = [2, -2, 0, 0, 2, 0, 0, -2, 2, 0, 0, 2]
TRITS = [[2, 0, 1, 1, 2], [1, 1, 0, 2, 1], [1, 2, 1, 1, 1]]
TWO = np.float32(2).tobytes()


@pytest.mark.parametrize(
    ("make", "values", "payload"),
    [
        (Cast, [1.0, -2.0], bytes.fromhex("003c 00c0")),
        (lambda: Cast("bf16"), [1.0, -2.0], bytes.fromhex("803f 00c0")),
        (  # scales, then codes in two's complement; ties to even
            lambda: Int8(8),
            [254, -254, 1, -1, 3, 5, 0, 127, 12.7, 0],
            np.array([2, 0.1], "<f4").tobytes() + np.array([127, -127, 0, 0, 2, 2, 0, 64, 127, 0], np.int8).tobytes(),
        ),
        (lambda: Tern(None), TERN, TWO + bytes([0b00010001, 0b1001, 0b10000010, 0])),
        (
            lambda: Tern(None, base3=True),
            TERN,
            TWO + bytes(sum(digit * 3**place for place, digit in enumerate(five)) for five in TRITS),
        ),
        # the lower seven bits are the exponent + 97, or 0; powers of two are themselves
        (Natural, [1, -2, 0.5, 0, 2.0**-96, -(2.0**30), 2.0**31, 1e-30], bytes([97, 128 + 98, 96, 0, 1, 128 + 127, 127, 0])),
    ],
)
def test_bytes(make: Make, values: list[float], payload: bytes) -> None:
    x = np.array(values, np.float32)
    assert encoded(make, x).tobytes() == payload
    if make is Natural:
        assert sent(Natural, x).tolist() == [1, -2, 0.5, 0, 2.0**-96, -(2.0**30), 2.0**30, 0]


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_qsgd_bytes(bits: int) -> None:
    """Values on levels are sent as they are; the first code stands in the lowest bits."""
    s = 2 ** (bits - 1) - 1
    levels = np.resize([s, -s, 0, 1, -1, 0, 0, s, -1], 24)
    payload = encoded(lambda: QSGD(bits, 8, "max"), (levels * 0.5).astype(np.float32))
    assert payload[:12].view("<f4").tolist() == [s / 2] * 3
    total = sum(int(level + s + 1) << place * bits for place, level in enumerate(levels))
    assert payload[12:].tobytes() == total.to_bytes(3 * bits, "little")


def test_levels_of_ones_own() -> None:
    make = lambda: Levels(4, [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0])  # noqa: E731
    found = set(np.unique(np.abs(sent(make, np.linspace(-2, 2, 5000, dtype=np.float32)))).tolist())
    assert found == {0.0, *(float(np.float32(level) * np.float32(2)) for level in make().levels or ())}


def test_tangent_levels() -> None:
    """1 / tan(k pi / (4 kmax)) as a share of the largest; the smallest before that is 1."""
    levels = tangent_levels(7)
    k = np.arange(7, 0, -1)
    np.testing.assert_allclose(levels, (1 / np.tan(k * np.pi / 28)) * np.tan(np.pi / 28))
    assert levels[-1] == 1
    assert (np.diff(np.diff(levels)) > 0).all()  # dense near 0


def test_random_numbers_do_not_repeat_within_a_packet() -> None:
    """Both generators, below and above the size where one takes over from the other, and chunk after chunk."""
    for n in (1 << 14, 1 << 18):
        halves = np.full(n, 0.5, np.float32)
        halves[0] = 1
        up = sent(lambda: QSGD(2, None, "max"), halves)[1:] > 0
        assert abs(up.mean() - 0.5) < 5 / np.sqrt(n)
        for shift in (1, 2, n // 8, n // 4, 1 << 13, 1 << 16):
            if shift < n - 1:
                assert abs((up[shift:] == up[:-shift]).mean() - 0.5) < 5 / np.sqrt(n - shift)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_no_value_is_off_the_grid_by_more_than_half_a_step(bits: int) -> None:
    for n in (513, 70_001):
        x = gaussian(n)
        back, radius = sent(lambda: Grid(bits), x), np.abs(x).max()
        assert np.abs(back - x).max() <= radius / (2**bits - 1) * (1 + 1e-5)
        assert np.abs(back).max() == radius
    assert Grid(8).delta(100) == pytest.approx(1 - 99 / 255**2)
    assert Grid(2).delta(100) is None
