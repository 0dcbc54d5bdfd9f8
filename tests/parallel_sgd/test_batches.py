"""Batches and blocks of a training set."""

from __future__ import annotations

import pytest

from parallel_sgd.batches import Batches


def test_slices_are_disjoint_and_cover_the_batch() -> None:
    """SUB-30: batch = block_size x blocks; the tail is known."""
    batches = Batches(samples=103, block_size=5, block_count=4)
    rows = [list(range(103))[batches.rows(batch, block)] for batch in range(batches.count) for block in range(4)]
    assert [len(part) for part in rows] == [5] * 20
    assert [row for part in rows for row in part] == list(range(100))
    assert (batches.batch_size, batches.count, batches.tail) == (20, 5, 3)


def test_too_few_samples_are_refused_with_the_needed_number() -> None:
    """SUB-30: a data set smaller than a batch."""
    with pytest.raises(ValueError, match=r"at least one batch of 256 samples \(block_size 64 x 4 blocks\), got 255"):
        Batches(255, 64, 4)


@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_a_block_size_must_be_positive(size: object) -> None:
    with pytest.raises(ValueError, match="'block_size' must be a positive integer"):
        Batches(100, size, 1)  # type: ignore[arg-type]
