"""Stages that send a part of the numbers: the generic laws, and the identities of shared/contracts/codecs.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from parallel_sgd.codec import pipeline
from parallel_sgd.codec.pipeline import PayloadError, Pipeline, Reader, Writer
from parallel_sgd.codec.pipeline.quantize import Int8
from parallel_sgd.codec.pipeline.selection import Magnitudes, index_bytes, read_indices, sizes, write_indices
from parallel_sgd.codec.pipeline.sparsify import RandomK, Sparsifier, Threshold, TopK, subset
from tests.contract.kinds import public_kinds

from .laws import (
    DRAW,
    check_contraction,
    check_damage,
    check_determinism,
    check_edges,
    check_linearity,
    check_shapes,
    check_sizes,
    check_unbiased,
    encoded,
    error,
    gaussian,
    moments,
    sent,
    square,
)


def top_k_bytes(rho: float, n: int) -> int:
    """The contract's table, written down anew."""
    k = max(1, math.ceil(rho * n))
    return 5 + 4 * k + min(4 * k, 2 * k + 4 * math.ceil(n / 65536), math.ceil(n / 8))


def random_k_bytes(rho: float, n: int) -> int:
    return 4 * min(n, max(1, math.ceil(rho * n)))


def threshold_bytes(n: int) -> int:
    """The most there can be."""
    return 5 + min(4 * n, 2 * n + 4 * math.ceil(n / 65536), math.ceil(n / 8)) + math.ceil(n / 8)


class Row(NamedTuple):
    """A sparsifier and its payload bytes before the fallback to dense; None where they change from packet to packet."""

    make: Callable[[], Sparsifier]
    size: Callable[[int], int] | None
    exact: bool = True
    contracts: bool = True  # in every packet, as `delta` says, and not in expectation


ROWS: dict[str, Row] = {
    **{f"TopK {rho}": Row(partial(TopK, rho), partial(top_k_bytes, rho)) for rho in (0.001, 0.01, 0.3, 1.0)},
    "TopK in a warm-up": Row(lambda: TopK(0.01, warmup=4), None, contracts=False),
    "Threshold": Row(lambda: Threshold(1.5), threshold_bytes, exact=False),
    **{
        f"RandomK {rho}{', scaled' * scaled}": Row(partial(RandomK, rho, scaled), partial(random_k_bytes, rho), contracts=False)
        for rho in (0.01, 0.4, 0.9)
        for scaled in (True, False)
    },
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_the_generic_laws(row: Row) -> None:
    check_shapes(row.make)
    check_edges(row.make)
    check_determinism(row.make)
    check_damage(row.make)
    check_linearity(row.make)
    if row.size is not None:
        check_sizes(row.make, row.size, exact=row.exact)
    if row.contracts:
        check_contraction(row.make)


def test_every_sparsifier_has_a_row() -> None:
    kinds = public_kinds(Sparsifier, pipeline)
    assert kinds == {type(row.make()) for row in ROWS.values()}
    assert {kind.__name__ for kind in kinds} <= set(pipeline.__all__)


@pytest.mark.parametrize(("rho", "n", "size"), [(0.01, 1_000_000, 60_069), (0.001, 1_000_000, 6_069)])
def test_top_k_takes_the_bytes_of_the_contract(rho: float, n: int, size: int) -> None:
    assert Pipeline(TopK(rho)).wire_bytes(n) == size
    assert encoded(lambda: TopK(rho), gaussian(n)).size == size


def test_quantised_values_take_the_bytes_of_the_contract() -> None:
    assert encoded(lambda: TopK(0.01) | Int8(4096), gaussian(1_000_000)).size == 30_081


def test_index_bytes_of_a_large_variable() -> None:
    assert sizes(41_943, 4_194_304) == (167_772, 84_142, 524_288)


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
    found = Magnitudes().largest(x, k)
    expected = np.sort(np.argsort(-np.abs(x), kind="stable")[:k])
    np.testing.assert_array_equal(found, expected)


def test_top_k_loses_exactly_the_smallest() -> None:
    """Law 4: the error is the sum of squares of the n - k smallest."""
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
    k = int(share**4 * n)
    indices = np.sort(np.random.default_rng(seed).permutation(n)[:k])
    writer = Writer()
    write_indices(writer, indices, n)
    payload = writer.join()
    assert payload.size == index_bytes(k, n) == 5 + min(4 * k, 2 * k + 4 * math.ceil(n / 65536), math.ceil(n / 8))
    assert payload[4] == np.argmin(sizes(k, n))
    reader = Reader(payload)
    np.testing.assert_array_equal(read_indices(reader, n), indices)
    reader.finish()


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
        read_indices(reader, 100_000)


def test_a_packet_of_another_share_is_refused() -> None:
    x = gaussian(10_000)
    with pytest.raises(PayloadError, match=r"TopK\(rho=0.01, warmup=0\) keeps 100 of 10000 numbers, a packet has 200"):
        Pipeline(TopK(0.01)).decode(encoded(lambda: TopK(0.02), x), x.shape, DRAW)


@pytest.mark.parametrize("stage", [TopK(0.01), Threshold(2.0), RandomK(0.05)])
def test_entries_of_several_packets_add_up_to_the_dense_sum(stage: Sparsifier) -> None:
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


def test_a_warm_up_goes_on_after_a_restart() -> None:
    first, x = TopK(0.01, warmup=4), gaussian(10_000)
    for _ in range(3):
        first.encode(x, Writer(), DRAW)
    second = TopK(0.01, warmup=4)
    second.load_state_dict(first.state_dict())
    assert second.density == first.density == 0.01 ** (4 / 5)
    assert TopK(0.01).state_dict() == {}
    with pytest.raises(ValueError, match="remembers nothing"):
        TopK(0.01).load_state_dict({"step": 3})


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


def test_random_k_payloads_add_up_to_the_bit() -> None:
    """Law 6: also those of different nodes, whose places are the same."""
    n = 30_000
    payloads = [encoded(lambda: RandomK(0.01), gaussian(n, seed=node), DRAW._replace(node=node)) for node in range(4)]
    total = np.sum([payload.view(np.float32) for payload in payloads], axis=0, dtype=np.float32)
    pipeline = Pipeline(RandomK(0.01))
    apart = np.zeros(n, np.float32)
    for payload in payloads:
        apart += pipeline.decode(payload, (n,), DRAW)
    assert pipeline.decode(total.view(np.uint8), (n,), DRAW).tobytes() == apart.tobytes()


@pytest.mark.parametrize(("n", "k"), [(5, 2), (6, 3), (6, 5)])
def test_every_subset_is_equally_likely(n: int, k: int) -> None:
    generator, counts = np.random.default_rng(3), dict[tuple[int, ...], int]()
    draws = 4000
    for _ in range(draws):
        found = tuple(subset(generator, n, k).tolist())
        assert len(set(found)) == k == len(found)
        assert list(found) == sorted(found)
        counts[found] = counts.get(found, 0) + 1
    expected = draws / math.comb(n, k)
    assert len(counts) == math.comb(n, k)
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 3 * math.comb(n, k) + 10


@pytest.mark.parametrize(("n", "k"), [(0, 0), (1, 1), (1_000_003, 10_001), (100_000, 49_999), (100_000, 50_001), (7, 7)])
def test_a_subset_has_its_size(n: int, k: int) -> None:
    found = subset(np.random.default_rng(0), n, k)
    assert found.size == k
    assert (np.diff(found) > 0).all()
    assert k == 0 or (found[0] >= 0 and found[-1] < n)


def test_threshold_sends_tau_for_what_exceeds_it() -> None:
    x = np.array([0.5, -0.5, 0.500001, -3.0, 7.0, 0.0] + [0.1] * 100, np.float32)
    expected = np.array([0, 0, 0.5, -0.5, 0.5, 0] + [0] * 100, np.float32)
    np.testing.assert_array_equal(sent(lambda: Threshold(0.5), x), expected)
    assert encoded(lambda: Threshold(0.5), x).size == 5 + 2 * 3 + 4 + 1
    assert encoded(lambda: Threshold(9.0), x).size == 5


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: TopK(0), ValueError, r"TopK 'rho' must be a number > 0, got 0"),
        (lambda: TopK(1.5), ValueError, r"TopK 'rho' must be a number > 0 and <= 1, got 1.5"),
        (lambda: TopK("1%"), TypeError, r"TopK 'rho' must be a number > 0, got '1%'"),
        (lambda: TopK(0.1, warmup=-1), ValueError, r"TopK 'warmup' must be an integer of at least 0, got -1"),
        (lambda: RandomK(-0.1), ValueError, r"RandomK 'rho' must be a number > 0, got -0.1"),
        (lambda: RandomK(0.1, 2), TypeError, r"RandomK 'scaled' must be True or False, got 2"),
        (lambda: Threshold(0.0), ValueError, r"Threshold 'tau' must be a number > 0, got 0.0"),
    ],
)
def test_wrong_arguments_are_refused(make, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()
