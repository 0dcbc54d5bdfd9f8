"""Batches and blocks of a training set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parallel_sgd.batches import FIXED, SHUFFLED, SHUFFLED_IN_BLOCKS, Batches, BlockFeeder
from tests.parallel_sgd.dealing import dealt, factors

from ..statements import covers


@covers("SUB-30")
def test_slices_are_disjoint_and_cover_the_batch() -> None:
    """Batch = block_size x blocks; what does not fill one is a last, shorter batch."""
    batches = Batches(samples=103, block_size=5, block_count=4)
    rows = [list(range(103))[batches.rows(batch, block)] for batch in range(batches.count) for block in range(4)]
    assert [len(part) for part in rows] == [5] * 20 + [0, 1, 1, 1]
    assert [row for part in rows for row in part] == list(range(103))
    assert (batches.batch_size, batches.whole, batches.count, batches.tail) == (20, 5, 6, 3)
    assert batches.tail_factors(range(4)) == {0: 0.0, 1: 4 / 3, 2: 4 / 3, 3: 4 / 3}
    assert batches.tail_factors([0, 1]) == {0: 0.0, 1: 2.0} and batches.tail_factors([0]) == {0: 0.0}
    assert (batches.idle(range(4)), batches.idle([1, 2])) == (1, 0)


def test_without_a_tail_all_batches_are_whole() -> None:
    batches = Batches(samples=100, block_size=5, block_count=4)
    assert (batches.whole, batches.count, batches.tail, batches.idle(range(4))) == (5, 5, 0, 0)
    assert batches.tail_factors(range(4)) == {}


@covers("SUB-45")
@given(size=st.integers(1, 7), blocks=st.integers(1, 7), more=st.integers(0, 99))
def test_blocks_of_an_epoch_hold_every_sample_once(size: int, blocks: int, more: int) -> None:
    """Whatever the numbers, as the contract cuts them; the factors make the mean over blocks that over samples."""
    samples = size * blocks + more
    batches = Batches(samples, size, blocks)
    wanted = dealt(samples, size, blocks, 0, None)
    assert batches.count == len(wanted)
    for batch, parts in enumerate(wanted):
        assert [list(range(samples))[batches.rows(batch, block)] for block in range(blocks)] == [p.tolist() for p in parts]
    if batches.tail:
        found = batches.tail_factors(range(blocks))
        assert [np.float32(found[block]) for block in range(blocks)] == factors(wanted[-1])


@covers("SUB-45")
def test_every_epoch_has_an_order_of_its_own() -> None:
    """Keyed by (seed, epoch); that of the training set where it is fixed."""
    batches = Batches(samples=103, block_size=5, block_count=4)
    orders = [batches.order(SHUFFLED, seed, epoch) for seed in (0, 1) for epoch in range(3)]
    assert len({order.tobytes() for order in orders if order is not None}) == 6
    assert all(sorted(order) == list(range(103)) for order in orders if order is not None)
    again = Batches(103, 25, 4).order(SHUFFLED, 1, 2)
    assert again is not None and np.array_equal(again, orders[-1])  # type: ignore[arg-type]
    assert batches.order(FIXED, 0, 2) is None


def test_an_order_may_leave_every_sample_in_its_block() -> None:
    """For transforms that say which block gets what."""
    batches = Batches(samples=103, block_size=5, block_count=4)
    orders = [batches.order(SHUFFLED_IN_BLOCKS, 0, epoch) for epoch in range(3)]
    for order in orders:
        assert order is not None and sorted(order) == list(range(103)) and sorted(order[100:]) == [100, 101, 102]
        assert np.array_equal(order[:100] % 20 // 5, np.arange(100) % 20 // 5)
    assert len({order.tobytes() for order in orders if order is not None}) == 3


@pytest.mark.parametrize("order", [FIXED, SHUFFLED])
def test_the_feeder_deals_what_lies_there(order: str) -> None:
    """Labels stay with their samples, in the types that they have."""
    x, y = np.arange(23, dtype=np.uint8)[:, None], np.arange(23) * 10
    batches = Batches(23, 3, 2)
    feeder = BlockFeeder(batches, x, y, order, seed=7, weights=y / 2)
    for epoch in range(2):
        feeder.begin(epoch)
        for batch, parts in enumerate(dealt(23, 3, 2, epoch, None if order == FIXED else 7)):
            for block, places in enumerate(parts):
                samples, labels, weights = feeder.deal(batch, block)
                assert samples.dtype == np.uint8 and samples[:, 0].tolist() == places.tolist()
                assert labels.tolist() == (places * 10).tolist()
                assert weights is not None and weights.tolist() == (places * 5).tolist()


@covers("SUB-30")
def test_too_few_samples_are_refused_with_the_needed_number() -> None:
    """a data set smaller than a batch."""
    with pytest.raises(ValueError, match=r"at least one batch of 256 samples \(block_size 64 x 4 blocks\), got 255"):
        Batches(255, 64, 4)
