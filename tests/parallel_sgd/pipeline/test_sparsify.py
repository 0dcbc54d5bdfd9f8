"""Stages that send a part of the numbers: which ones, in which bytes, and what is expected of random ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from parallel_sgd.codec.pipeline import PayloadError, Pipeline, RandomK, Reader, Threshold, TopK, Writer
from tests.statements import covers

from .laws import DRAW, Array, check_unbiased, encoded, error, gaussian, moments, sent, square


def chosen(payload: Array, n: int) -> Array:
    """The indices in a packet of any sparsifier that sends at most n."""
    return TopK(1.0, warmup=1).parse(Reader(payload), n, DRAW)[0]


def top(k: int, n: int) -> TopK:
    """The stage that keeps k of n numbers."""
    return TopK((k - 0.5) / n)


def hard_cases() -> list[tuple[str, NDArray[np.float32], int]]:
    big = gaussian(200_000)
    steps = np.round(gaussian(200_000, seed=1), 1)
    mostly_zero = np.where(np.arange(200_000) % 97 == 0, big, np.float32(0))
    periodic = np.where(np.arange(200_000) % 61 == 0, big * 100, big)  # the sample sees only the large ones
    unseen = np.where(np.arange(200_000) % 61 == 0, big / 100, big)  # and here only the small ones
    return [
        ("random", big, 2000),
        ("few", big, 3),
        ("one", big, 1),
        ("half", big, 100_000),
        ("nearly all", big, 199_999),
        ("ties", steps, 2000),
        ("ties only", np.ones(200_000, np.float32), 777),
        ("signs", np.where(big > 0, np.float32(1), np.float32(-1)), 777),
        ("zeros", np.zeros(200_000, np.float32), 5),
        ("mostly zero, enough", mostly_zero, 2000),
        ("mostly zero, too few", mostly_zero, 20_000),
        ("in step with the sample", periodic, 2000),
        ("out of step with the sample", unseen, 2000),
        ("sorted", np.sort(big), 2000),
        ("small", big[:1000], 10),
        ("across chunks", big[: (1 << 17) + 1], 1311),
    ]


@pytest.mark.parametrize(("x", "k"), [case[1:] for case in hard_cases()], ids=[case[0] for case in hard_cases()])
def test_the_largest_are_the_largest_and_of_equal_ones_the_first(x: NDArray[np.float32], k: int) -> None:
    writer = Writer()
    top(k, x.size).encode(x, writer, DRAW)
    np.testing.assert_array_equal(chosen(writer.join(), x.size), np.sort(np.argsort(-np.abs(x), kind="stable")[:k]))


@covers("LAW-4")
def test_top_k_loses_exactly_the_smallest() -> None:
    """The error is the sum of squares of the n - k smallest."""
    x = gaussian(100_000)
    y = sent(lambda: TopK(0.01), x)
    kept = np.flatnonzero(y)
    assert kept.size == 1000
    assert y[kept].tobytes() == x[kept].tobytes()
    smallest = np.sort(np.abs(x))[:-1000]
    lost = np.sort(np.abs(x - y)[x != y])
    assert lost.tobytes() == smallest.tobytes()
    assert error(y, x) / square(x) <= 1 - TopK(0.01).delta(100_000)


def test_buffers_of_one_stage_serve_any_sizes() -> None:
    pipeline = Pipeline(TopK(0.02))
    for n in (300_000, 20_000, 100, 300_000, 131_073):
        x = gaussian(n, seed=n)
        received = pipeline.decode(pipeline.encode(x, DRAW), (n,), DRAW)
        np.testing.assert_array_equal(received, sent(lambda: TopK(0.02), x))


@settings(max_examples=60, deadline=None, database=None)
@given(n=st.integers(1, 200_000), share=st.floats(0, 1), seed=st.integers(0, 99))
def test_indices_come_back_in_the_fewest_bytes(n: int, share: float, seed: int) -> None:
    k = max(1, int(share**4 * n))
    indices = np.sort(np.random.default_rng(seed).permutation(n)[:k])
    x, writer = np.zeros(n, np.float32), Writer()
    x[indices] = 1
    top(k, n).encode(x, writer, DRAW)
    payload = writer.join()
    ways = (4 * k, 2 * k + 4 * math.ceil(n / 65536), math.ceil(n / 8))
    assert payload.size == 5 + min(ways)
    assert payload[4] == np.argmin(ways)
    np.testing.assert_array_equal(chosen(payload, n), indices)


def packet(k: int, way: int, *parts: NDArray[np.generic]) -> Reader:
    writer = Writer()
    for part in (np.array([k], np.uint32), np.array([way], np.uint8), *parts):
        writer.write(part)
    return Reader(writer.join())


@pytest.mark.parametrize(
    "reader",
    [
        packet(2, 0, np.array([3, 3], np.uint32)),
        packet(2, 0, np.array([5, 3], np.uint32)),
        packet(2, 0, np.array([3, 100_000], np.uint32)),
        packet(2, 0, np.array([3], np.uint32)),
        packet(100_001, 0, np.arange(100_001, dtype=np.uint32)),
        packet(2, 3, np.array([3, 5], np.uint32)),
        packet(2, 1, np.array([1, 2], np.uint32), np.array([7, 1, 2], np.uint16)),
        packet(2, 1, np.array([2**32 - 1, 3], np.uint32), np.array([7, 1], np.uint16)),
        packet(2, 1, np.array([2, 0], np.uint32), np.array([7, 7], np.uint16)),
        packet(2, 1, np.array([1, 1], np.uint32), np.array([7, 65_000], np.uint16)),
        packet(2, 2, np.packbits(np.arange(100_000) < 3)),
    ],
)
def test_indices_that_nobody_writes_are_refused(reader: Reader) -> None:
    with pytest.raises(PayloadError):
        TopK(1.0, warmup=1).parse(reader, 100_000, DRAW)


def test_a_packet_of_another_share_is_refused() -> None:
    x = gaussian(10_000)
    with pytest.raises(PayloadError, match=r"TopK\(rho=0.01, warmup=0\) keeps 100 of 10000 numbers, a packet has 200"):
        Pipeline(TopK(0.01)).decode(encoded(lambda: TopK(0.02), x), x.shape, DRAW)


@pytest.mark.parametrize("stage", [TopK(0.01), Threshold(2.0), RandomK(0.05)])
def test_entries_of_several_packets_add_up_to_the_dense_sum(stage: TopK | Threshold | RandomK) -> None:
    n = 50_000
    total, dense = np.zeros(n, np.float32), np.zeros(n, np.float32)
    for node in range(4):
        writer = Writer()
        draw = DRAW._replace(node=node)
        writer.write(stage.encode(gaussian(n, seed=node), writer, draw))
        reader = Reader(writer.join())
        side, carried = stage.parse(reader, n, draw)
        values = reader.read(carried, np.float32)
        indices, found = stage.entries(values, side)
        np.add.at(total, indices, found)
        dense += stage.decode(values, side, n)
    assert total.tobytes() == dense.tobytes()


def test_a_warm_up_lowers_the_share_by_the_steps_of_the_paper() -> None:
    stage, n = TopK(0.001, warmup=8), 100_000
    sender, receiver = Pipeline(stage), Pipeline(TopK(0.001, warmup=8))
    shares = []
    for step in range(10):
        x = gaussian(n, seed=step)
        payload = sender.encode(x, DRAW)
        assert payload.size <= sender.wire_bytes(n)
        shares.append(np.count_nonzero(receiver.decode(payload, (n,), DRAW)) / n)
    expected = [0.2512, 0.2512, 0.0631, 0.0631, 0.01585, 0.01585, 0.00399, 0.00399, 0.001, 0.001]
    np.testing.assert_allclose(shares, expected, rtol=2e-3)


@pytest.mark.long
@covers("LAW-3")
@pytest.mark.parametrize("rho", [0.1, 0.7])
def test_random_k_is_unbiased_with_the_variance_of_the_formula(rho: float) -> None:
    x = gaussian(1000)
    found = moments(lambda: RandomK(rho), x)
    check_unbiased(found, x)
    assert found.variance == pytest.approx(1 / rho - 1, rel=0.05)
    assert RandomK(rho).unbiased
    assert RandomK(rho).delta(1000) is None


def test_unscaled_random_k_contracts_by_k_over_n_on_average() -> None:
    x = gaussian(1000)
    assert moments(lambda: RandomK(0.1, scaled=False), x, draws=1000).variance == pytest.approx(0.9, rel=0.01)
    assert not RandomK(0.1, scaled=False).unbiased
    assert RandomK(0.1, scaled=False).delta(1000) == 0.1


@pytest.mark.share(3)
@pytest.mark.parametrize(("n", "k"), [(5, 2), (6, 3), (6, 5)])
def test_every_subset_is_equally_likely(n: int, k: int) -> None:
    stage, counts, draws = RandomK((k - 0.5) / n), dict[tuple[int, ...], int](), 4000
    for batch in range(draws):
        found = tuple(stage.parse(Reader(np.empty(0, np.uint8)), n, DRAW._replace(batch=batch))[0].tolist())
        assert len(set(found)) == k == len(found)
        assert list(found) == sorted(found)
        counts[found] = counts.get(found, 0) + 1
    expected = draws / math.comb(n, k)
    assert len(counts) == math.comb(n, k)
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 3 * math.comb(n, k) + 10


def test_threshold_sends_tau_for_what_exceeds_it() -> None:
    x = np.array([0.5, -0.5, 0.500001, -3.0, 7.0, 0.0] + [0.1] * 100, np.float32)
    expected = np.array([0, 0, 0.5, -0.5, 0.5, 0] + [0] * 100, np.float32)
    np.testing.assert_array_equal(sent(lambda: Threshold(0.5), x), expected)
    assert encoded(lambda: Threshold(0.5), x).size == 5 + 2 * 3 + 4 + 1
    assert encoded(lambda: Threshold(9.0), x).size == 5
