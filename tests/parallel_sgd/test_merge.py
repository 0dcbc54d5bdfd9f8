"""Merging along the block tree."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallel_sgd.engine.block_tree import BlockTree, block_tree
from parallel_sgd.engine.merge import BlockMean, LateMean, MeanOfHalves, TreeSum
from parallel_sgd.engine.unusable import Unusable
from parallel_sgd.testing.array_job import gradient, tree_mean
from tests.statements import covers


def whole(mean: np.ndarray | MeanOfHalves) -> np.ndarray:
    return mean.whole() if isinstance(mean, MeanOfHalves) else mean


def values(blocks: int) -> list[np.ndarray]:
    return [gradient(0, block, 0) for block in range(blocks)]


@pytest.mark.parametrize(
    ("blocks", "held", "spans"),
    [
        (4, [0, 1, 2, 3], [(0, 4)]),
        (4, [0, 1], [(0, 2)]),
        (4, [1, 2], [(1, 2), (2, 3)]),
        (5, [0, 1, 2], [(0, 3)]),
        (5, [2, 3, 4], [(2, 3), (3, 5)]),
        (1, [0], [(0, 1)]),
        (6, [0, 2, 5], [(0, 1), (2, 3), (5, 6)]),
    ],
)
def test_cover_finds_the_fewest_whole_subtrees(blocks: int, held: list[int], spans: list[tuple[int, int]]) -> None:
    assert BlockTree(blocks).cover(held) == spans


@covers("LAW-7")
@settings(deadline=None, max_examples=60)
@given(kind=st.sampled_from([BlockMean, LateMean]), blocks=st.integers(1, 13), data=st.data())
def test_bits_depend_on_neither_order_nor_grouping(kind: type[Any], blocks: int, data: st.DataObject) -> None:
    """Any arrival order, any whole subtrees, any duplicates give the bits of the recursive sum."""
    grads = values(blocks)
    tree = block_tree(blocks)
    spans = [tree.root, *tree.parent]
    chosen = [*data.draw(st.lists(st.sampled_from(spans), max_size=6)), *((b, b + 1) for b in range(blocks))]
    mean = kind(blocks)
    for _ in range(2):  # the second batch runs on the buffers of the first
        done = None
        for low, high in data.draw(st.permutations(chosen)):
            part = tree_mean(grads[low:high]) if high - low == 1 else _total(grads[low:high])
            scratch = part.copy()
            result = mean.mean_with((low, high), scratch, stays=False)
            scratch[...] = np.nan  # the caller reuses its array
            if result is not None:
                assert done is None
                done = result
        assert done is not None
        assert whole(done).tobytes() == tree_mean(grads).tobytes()
        mean.reset()


def _total(part: list[np.ndarray]) -> np.ndarray:
    middle = (len(part) + 1) // 2
    return part[0] if len(part) == 1 else _total(part[:middle]) + _total(part[middle:])


def test_a_value_that_stays_is_neither_copied_nor_changed() -> None:
    one, two = values(2)
    before = one.copy()
    tree = TreeSum(block_tree(2), tops=[(0, 1), (1, 2)])
    assert tree.add((0, 1), one, stays=True) == ((0, 1), one)
    total = TreeSum(block_tree(2))
    assert total.add((0, 1), one, stays=True) is None
    assert total.add((1, 2), two, stays=True) is not None
    np.testing.assert_array_equal(one, before)


def test_a_repeated_block_is_counted_and_ignored() -> None:
    grads = values(2)
    total = TreeSum(block_tree(2))
    total.add((0, 1), grads[0], stays=True)
    total.add((0, 1), grads[1], stays=True)
    done = total.add((1, 2), grads[1], stays=True)
    assert total.duplicates == 1
    assert done is not None
    np.testing.assert_array_equal(done[1], grads[0] + grads[1])
    assert total.add((1, 2), grads[1], stays=True) is None
    assert total.duplicates == 2


def test_what_is_missing_or_cannot_be_is_named() -> None:
    total = TreeSum(block_tree(4))
    total.add((2, 4), values(1)[0], stays=True)
    assert total.missing() == [0, 1]
    with pytest.raises(ValueError, match=r"must cover a subtree of the blocks \(0, 4\), got \(1, 3\)"):
        TreeSum(block_tree(4)).add((1, 3), values(1)[0], stays=True)
    with pytest.raises(ValueError, match="'block_count' must be a positive integer, got 0"):
        BlockTree(0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("blocks", [2, 3, 4, 6, 8, 64])
def test_the_mean_has_the_bits_of_a_division(blocks: int, dtype: type[np.floating]) -> None:
    """The reciprocal of a power of two is exact, down to numbers so small that they lose digits; that of 3 is not."""
    generator = np.random.default_rng(blocks)
    tiny = np.finfo(dtype).smallest_subnormal
    parts = [generator.standard_normal(500).astype(dtype) for _ in range(blocks)]
    for part in parts:
        part[:100] = (generator.integers(-9, 9, 100) * tiny).astype(dtype)
        part[100:103] = np.inf, np.nan, 0
    for mean in (BlockMean(blocks), LateMean(blocks)):
        results = [mean.mean_with((b, b + 1), part, stays=True) for b, part in enumerate(parts)]
        assert results[-1] is not None
        assert whole(results[-1]).tobytes() == (_total(parts) / dtype(blocks)).tobytes()


def test_a_mean_in_stretches_is_the_whole() -> None:
    """Each stretch is looked at as it is read, and what was read is nobody's any more."""
    parts, seen = [np.arange(10.0) * (block + 1) for block in range(4)], []
    mean, came = LateMean(4), weakref.ref(parts[3])
    for _ in range(2):
        for block, part in enumerate(parts):
            result = mean.mean_with((block, block + 1), part, stays=True)
            assert (result is None) == (block < 3)
        assert isinstance(result, MeanOfHalves)
        assert (len(result), result.shape, mean.missing()) == (10, (10,), [])
        result.look = lambda stretch: seen.append(stretch.copy())
        for part in (slice(0, 4), slice(4, 8), slice(8, 12)):
            np.testing.assert_array_equal(result[part], np.arange(10.0)[part] * 2.5)
        assert [len(stretch) for stretch in seen] == [4, 4, 2]
        seen.clear()
        assert mean.mean_with((0, 1), parts[0], stays=True) is None  # a copy that comes late
        assert mean.duplicates
        mean.reset()
    wrong = LateMean(2)
    wrong.mean_with((0, 1), parts[0], stays=True)
    with pytest.raises(Unusable, match="shape"):
        wrong.mean_with((1, 2), parts[0][:3], stays=True)
    pair = LateMean(2)
    pair.mean_with((0, 1), parts[0], stays=True)
    last = parts.pop()
    result = pair.mean_with((1, 2), last, stays=True)
    del last, part, result
    assert came() is None


@covers("LAW-7")
@settings(deadline=None, max_examples=60)
@given(blocks=st.integers(2, 9), data=st.data())
def test_what_is_given_may_be_overwritten_and_nothing_else(blocks: int, data: st.DataObject) -> None:
    """The same bits where sums are written into arrays that came over the wire."""
    grads = values(blocks)
    mean = BlockMean(blocks)
    last: tuple[np.ndarray, bytes] | None = None
    for _ in range(3):
        own = data.draw(st.sets(st.integers(0, blocks - 1)))
        for block in data.draw(st.permutations(range(blocks))):
            assert last is None or last[0].tobytes() == last[1]  # valid until the next one is complete
            content = grads[block] if block in own else grads[block].copy()
            result = mean.mean_with((block, block + 1), content, stays=True, given=block not in own)
        assert result is not None
        assert result.tobytes() == tree_mean(grads).tobytes()
        assert all(np.array_equal(grads[block], value) for block, value in enumerate(values(blocks)))
        last = result, result.tobytes()
        mean.reset()


def test_a_sum_takes_no_memory_where_an_array_is_given() -> None:
    """Two workers: the mean stands in the array that came, and a long job keeps none of them."""
    own, mean = values(1)[0], BlockMean(2)
    for _ in range(20):
        came = own.copy()
        mean.mean_with((0, 1), own, stays=True)
        result = mean.mean_with((1, 2), came, stays=True, given=True)
        assert result is came
        mean.reset()
        alive = weakref.ref(came)
    del came
    assert alive() is result
    own.flags.writeable = False
    mean.mean_with((0, 1), own, stays=True)
    assert mean.mean_with((1, 2), own, stays=True, given=True) is not own
    del result
    assert alive() is None  # the mean before the last is nobody's
