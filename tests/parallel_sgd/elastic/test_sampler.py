"""Every sample once, whoever is there."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parallel_sgd.elastic import ElasticSampler
from parallel_sgd.elastic.group import Alone, using

from ...statements import covers


def deal(sampler: ElasticSampler, rank: int = 0, size: int = 1, batches: int | None = None) -> list[list[int]]:
    """The parts of one worker in the next batches, recorded."""
    group = Alone()
    group.rank, group.size = rank, size
    with using(group):
        dealt = iter(sampler)
    parts = []
    for _ in range(len(sampler) if batches is None else batches):
        parts.append(next(dealt).tolist())
        sampler.record_batch()
    return parts


def flat(parts: Iterable[list[int]]) -> list[int]:
    return [row for part in parts for row in part]


@covers("EL-25", "EL-26")
@given(
    st.integers(0, 60),
    st.integers(1, 20),
    st.booleans(),
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 4)), max_size=5),
)
def test_every_sample_once_whatever_the_sizes(
    samples: int, batch_size: int, shuffle: bool, phases: list[tuple[int, int]]
) -> None:
    """Groups of any size, one after the other: disjoint parts, no gap, no repeat, no padding, as many batches
    for every worker; a worker that was not there before needs the position alone."""
    position = ElasticSampler(samples, batch_size, shuffle=shuffle, seed=3).state_dict()
    taken: list[int] = []
    for size, wanted in [*phases, (2, 10**6)]:
        after = []
        for rank in range(size):
            sampler = ElasticSampler(samples, batch_size, shuffle=shuffle, seed=3)
            sampler.load_state_dict(position)
            parts = deal(sampler, rank, size, min(wanted, len(sampler)))
            taken += flat(parts)
            after.append((sampler.state_dict(), len(parts)))
        assert all(found == after[0] for found in after)
        position = after[0][0]
    assert sorted(taken) == list(range(samples))


def test_a_batch_is_the_same_for_any_number_of_workers() -> None:
    """The batches of one worker are those of three, whose parts are even and in order."""
    alone = deal(ElasticSampler(20, 7, seed=1))
    three = [deal(ElasticSampler(20, 7, seed=1), rank, 3) for rank in range(3)]
    assert [flat(parts) for parts in zip(*three, strict=True)] == alone
    assert all(2 <= len(part) <= 3 for parts in three for part in parts[:2])


@covers("EL-25", "EL-26")
def test_what_is_recorded() -> None:
    """After a reset only what is not processed is dealt, whatever was dealt before; what was not dealt cannot be recorded."""
    sampler = ElasticSampler(10, 3, shuffle=False)
    with pytest.raises(RuntimeError, match=r"record_batch\(\) is for batches that were dealt, but all 0 samples are recorded"):
        sampler.record_batch()
    dealt = iter(sampler)
    next(dealt)
    sampler.record_batch()
    with pytest.raises(RuntimeError, match="all 3 samples are recorded"):
        sampler.record_batch()
    next(dealt)
    assert len(sampler) == 3
    assert deal(sampler) == [[3, 4, 5], [6, 7, 8], [9]]
    assert len(sampler) == 0 and list(sampler) == []
    assert sampler.state_dict() == {"epoch": 0, "processed": 10}


@covers("EL-25")
def test_epochs() -> None:
    """Each epoch has an order of its own and all samples; naming the present one changes nothing."""
    sampler = ElasticSampler(50, 8, seed=2)
    orders = []
    for epoch in (0, 1, 5):
        sampler.set_epoch(epoch)
        first = deal(sampler, batches=2)
        sampler.set_epoch(epoch)
        orders.append(flat(first + deal(sampler)))
        assert sorted(orders[-1]) == list(range(50))
    assert orders[0] != orders[1] != orders[2] != orders[0]
    again = ElasticSampler(50, 8, seed=2)
    again.set_epoch(5)
    assert flat(deal(again)) == orders[2]


@covers("EL-26")
def test_what_is_refused() -> None:
    """Going on with batches dealt before would repeat or leave out samples; states that are none."""
    for disturb in (lambda s: s.set_epoch(1), lambda s: s.load_state_dict({"epoch": 0, "processed": 0}), iter):
        sampler = ElasticSampler(10, 3)
        dealt = iter(sampler)
        next(dealt)
        disturb(sampler)
        with pytest.raises(RuntimeError, match="the sampler was set to another place, or is dealt a second time"):
            next(dealt)
    with pytest.raises(ValueError, match="ElasticSampler state must hold epoch, processed; got nothing"):
        sampler.load_state_dict({})
    with pytest.raises(ValueError, match="'processed' must be at most 10, the number of samples, got 11"):
        sampler.load_state_dict({"epoch": 0, "processed": 11})
    with pytest.raises(ValueError, match="ElasticSampler 'batch_size' must be a positive integer, got 0"):
        ElasticSampler(10, 0)
