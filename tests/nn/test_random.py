import itertools

import numpy as np
import pytest

from nn.random import keyed


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
