import itertools
import math

import numpy as np
import pytest

from nn.random import keyed, write_normal


def test_equal_keys_give_equal_numbers() -> None:
    first = keyed(3, "dropout", 1, 2).random(8)
    assert np.array_equal(first, keyed(3, "dropout", 1, 2).random(8))


def test_keys_that_differ_anywhere_give_other_numbers() -> None:
    keys = [(3, "a", 1, 2), (4, "a", 1, 2), (3, "b", 1, 2), (3, "a", 2, 1), (3, "a", 1), (3, "a", 1, 2, 0), (3, "a", 12)]
    draws = [keyed(*key).integers(2**63) for key in keys]
    for first, second in itertools.combinations(draws, 2):
        assert first != second


def test_a_purpose_cannot_imitate_counters() -> None:
    assert keyed(1, "a',2", 3).random() != keyed(1, "a", 2, 3).random()


def test_the_numbers_are_fixed_for_all_times_and_machines() -> None:
    """A checkpoint of today must continue with the same numbers tomorrow."""
    assert keyed(0, "order", 5).permutation(6).tolist() == [5, 4, 1, 3, 0, 2]


def test_numpy_integers_are_the_same_key() -> None:
    assert keyed(1, "a", np.int64(2)).random() == keyed(1, "a", 2).random()  # type: ignore[arg-type]


@pytest.mark.parametrize("counters", [(1.5,), (True,), ("1",)])
def test_other_counters_are_refused(counters: tuple[int, ...]) -> None:
    with pytest.raises(TypeError, match="takes integers as seed and counters"):
        keyed(0, "a", *counters)


def normal(count: int, *counters: int, deviation: float = 1.0, dtype: type = np.float32) -> np.ndarray:
    out = np.full(count, np.nan, dtype)
    write_normal(keyed(5, "noise", *counters), out, deviation)
    return out


def test_normal_draws_have_the_moments_the_distribution_and_the_tails() -> None:
    count = 1_000_000
    draws = normal(count).astype(np.float64)
    # of n draws: 1 / sqrt(n), sqrt(2 / n), sqrt(6 / n), sqrt(24 / n) are the deviations of the first four moments
    assert abs(draws.mean()) < 4 / math.sqrt(count)
    assert abs(draws.var() - 1) < 4 * math.sqrt(2 / count)
    assert abs((draws**3).mean()) < 4 * math.sqrt(15 / count)
    assert abs((draws**4).mean() - 3) < 4 * math.sqrt(96 / count)
    # Kolmogorov and Smirnov: 1.95 / sqrt(n) is passed once in a thousand times
    points = np.sort(draws)[::100]
    expected = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in points])
    assert np.abs(expected - np.arange(0, count, 100) / count).max() < 1.95 / math.sqrt(count)
    for bound in (2, 3, 4):
        share = 0.5 * math.erfc(bound / math.sqrt(2)) * count
        for side in (draws, -draws):
            assert abs(int((side > bound).sum()) - share) < 4 * math.sqrt(share)


def test_normal_draws_do_not_depend_on_their_neighbours_nor_on_those_of_other_steps() -> None:
    count = 400_000
    draws = normal(count, 0).astype(np.float64)
    others = normal(count, 1).astype(np.float64)
    pairs = [(draws, others)]
    # 8,192 is the distance between the two of one pair
    pairs += [(draws[:-lag], draws[lag:]) for lag in (1, 2, 64, 4096, 8192, 16384)]
    for a, b in pairs:
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / math.sqrt(len(a))
        # magnitudes, too: both of a pair have one radius
        assert abs(np.corrcoef(a * a, b * b)[0, 1]) < 4 / math.sqrt(len(a))


@pytest.mark.parametrize("count", [0, 1, 2, 7, 16_383, 16_384, 16_385, 40_001])
def test_normal_draws_fill_an_array_of_any_length(count: int) -> None:
    draws = normal(count)
    assert np.isfinite(draws).all()
    assert np.array_equal(draws, normal(count))
    np.testing.assert_array_equal(normal(count, dtype=np.float64), draws)
    np.testing.assert_allclose(normal(count, deviation=0.25), draws * np.float32(0.25), rtol=1e-6)
    assert len(np.unique(draws)) > 0.999 * count - 1


def test_normal_draws_of_the_words_at_the_ends_are_finite() -> None:
    class Ends:
        """Bits that are all 0 or all 1."""

        def __init__(self, word: int) -> None:
            self.bit_generator, self._word = self, word

        def random_raw(self, count: int) -> np.ndarray:
            return np.full(count, self._word, np.uint64)

    for word in (0, 2**64 - 1):
        out = np.empty(4, np.float32)
        write_normal(Ends(word), out)  # type: ignore[arg-type]
        assert np.isfinite(out).all()
        assert np.abs(out).max() < 6.77


@pytest.mark.parametrize(
    "out", [np.zeros((4, 6), np.float32)[:, ::2], np.zeros((4, 6)).T, np.zeros(3, int), np.zeros(3, np.float16)]
)
def test_normal_draws_are_not_lost_in_a_copy(out: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"'out' must lie row by row and hold float32 or float64, got \w+ of shape \("):
        write_normal(keyed(0, "a"), out)
    write_normal(keyed(0, "a"), whole := np.zeros((3, 0, 2)))
    assert whole.size == 0
