"""The quantisers with random numbers: expectation, variance, and the levels between which they choose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from parallel_sgd.codec.pipeline import Stage
from parallel_sgd.codec.pipeline.quantize import QSGD, Levels, Natural, Tern, tangent_levels
from tests.parallel_sgd.pipeline.laws import DRAW, Array, check_unbiased, encoded, error, gaussian, moments, sent, square

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
CASES: dict[str, tuple[Callable[[], Stage], Array, float]] = {
    "qsgd-2": (lambda: QSGD(2, None), even(NORM, 1), NORM * 2**-16),
    "qsgd-4": (lambda: QSGD(4, None), even(NORM, 7), NORM * 2**-16 / 7),
    "qsgd-8": (lambda: QSGD(8, None), even(NORM, 127), NORM * 2**-16 / 127),
    "qsgd-4-max": (lambda: QSGD(4, None, "max"), even(TOP, 7), TOP * 2**-16 / 7),
    "tern": (lambda: Tern(None), even(TOP, 1), TOP * 2**-16),
    "natural": (Natural, powers(), 0.0),
    "levels-8": (Levels, tangent(127), TOP * 2**-15),
    "levels-4": (lambda: Levels(4), tangent(7), TOP * 2**-15),
}


@pytest.mark.parametrize("name", CASES)
def test_unbiased_with_the_variance_of_the_formula(name: str) -> None:
    """codecs.md law 3."""
    make, levels, bias = CASES[name]
    found = moments(make, X)
    check_unbiased(found, X, bias=bias)
    assert found.variance == pytest.approx(between(X, levels), rel=0.05)


def test_qsgd_stays_below_its_bound() -> None:
    for bits in (2, 4, 8):
        s = 2 ** (bits - 1) - 1
        assert between(X, even(NORM, s)) <= min(X.size / s**2, np.sqrt(X.size) / s)


def test_tern_has_the_variance_of_its_paper() -> None:
    expected = TOP * np.abs(X, dtype=np.float64).sum() / square(X) - 1
    assert between(X, even(TOP, 1)) == pytest.approx(expected, rel=1e-6)


def test_natural_stays_below_an_eighth() -> None:
    assert between(X, powers()) <= 1 / 8
    worst = np.full(4000, 4 / 3, np.float32)  # where (x - 1) (2 - x) / x^2 is largest
    assert error(sent(Natural, worst), worst) / square(worst) == pytest.approx(1 / 8, rel=0.05)


@pytest.mark.parametrize("base3", [False, True])
def test_tern_with_clipping_is_unbiased_for_what_was_clipped(base3: bool) -> None:
    bound = 2.5 * NORM / np.sqrt(X.size)
    clipped = np.clip(X, -bound, bound)
    assert (clipped != X).any()
    found = moments(lambda: Tern(2.5, base3), X)
    check_unbiased(found, clipped, bias=bound * 2**-16)
    assert set(np.unique(np.abs(sent(lambda: Tern(2.5, base3), X)))) == {np.float32(0), np.float32(bound)}


def test_tern_keeps_a_constant_vector() -> None:
    x = np.full(1000, -0.7, np.float32)
    np.testing.assert_array_equal(sent(Tern, x), x)


def test_tern_in_base_3_says_the_same() -> None:
    for n in (40, 65_535, 65_540, 200_001):
        x = gaussian(n)
        first, second = sent(Tern, x), sent(lambda: Tern(base3=True), x)
        if n < 65_535:  # later chunks begin elsewhere, so their random numbers are others
            np.testing.assert_array_equal(first, second)
        assert set(np.unique(second)) == set(np.unique(first))
        assert (np.sign(second)[second != 0] == np.sign(x)[second != 0]).all()


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


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_qsgd_bytes(bits: int) -> None:
    """Values on levels are sent as they are; the first code stands in the lowest bits."""
    s = 2 ** (bits - 1) - 1
    levels = np.resize([s, -s, 0, 1, -1, 0, 0, s, -1], 24)
    payload = encoded(lambda: QSGD(bits, 8, "max"), (levels * 0.5).astype(np.float32))
    assert payload[:12].view("<f4").tolist() == [s / 2] * 3
    total = sum(int(level + s + 1) << place * bits for place, level in enumerate(levels))
    assert payload[12:].tobytes() == total.to_bytes(3 * bits, "little")


def test_tern_bytes() -> None:
    x = np.array([2, -2, 0, 0, 2, 0, 0, -2, 2, 0, 0, 2], np.float32)
    assert encoded(lambda: Tern(None), x).tobytes() == np.float32(2).tobytes() + bytes([0b00010001, 0b1001, 0b10000010, 0])
    digits = [[2, 0, 1, 1, 2], [1, 1, 0, 2, 1], [1, 2, 1, 1, 1]]
    packed = bytes(sum(digit * 3**place for place, digit in enumerate(five)) for five in digits)
    assert encoded(lambda: Tern(None, base3=True), x).tobytes() == np.float32(2).tobytes() + packed


def test_natural_bytes() -> None:
    """The lower seven bits are the exponent + 97, or 0; powers of two are themselves."""
    x = np.array([1, -2, 0.5, 0, 2.0**-96, -(2.0**30), 2.0**31, 1e-30], np.float32)
    assert encoded(Natural, x).tolist() == [97, 128 + 98, 96, 0, 1, 128 + 127, 127, 0]
    assert sent(Natural, x).tolist() == [1, -2, 0.5, 0, 2.0**-96, -(2.0**30), 2.0**30, 0]


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
