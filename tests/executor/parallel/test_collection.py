"""Every operation of lazy collections against the same thing done with plain lists, over random data and partitions."""

from __future__ import annotations

import enum
import functools
import itertools
import pickle
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from executor.parallel import Context

quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
numbers = st.lists(st.integers(-20, 20), max_size=40)
counts = st.integers(1, 9)
keys = st.one_of(st.integers(-3, 3), st.sampled_from(["a", "b", "ä"]), st.tuples(st.integers(0, 1), st.booleans()), st.none())
pairs = st.lists(st.tuples(keys, st.integers(0, 9)), max_size=40)


def spell(number: int) -> list[str]:
    return [str(number)] * (number % 3)


def test_what_a_collection_tells_of_itself(context: Context) -> None:
    """How many partitions, which operation makes them, and whether they are kept; nothing is computed for it."""
    made = context.parallelize([1, 0], 2).map(lambda x: 1 / x)
    assert repr(made) == "<Collection of 2 partitions by 'map'>"
    assert repr(made.cache()) == "<Collection of 2 partitions by 'map', kept>"


class Elsewhere(Executor):
    """Tells its number of workers as that of mpi4py does: none before they have started."""

    def __init__(self, count: int) -> None:
        self.num_workers = count


@pytest.mark.parametrize(("count", "partitions"), [(3, 6), (0, 8)])
def test_two_partitions_for_each_worker_that_an_executor_tells_of(count: int, partitions: int) -> None:
    """4 where it does not tell."""
    with Context(Elsewhere(count)) as context:
        assert context.parallelize([]).partitions == partitions


@quick
@given(numbers, counts)
def test_element_by_element(context: Context, data: list[int], parts: int) -> None:
    """map, flat_map and filter, alone and in a row, keep the order; partitions are contiguous and about equally long."""
    made = context.parallelize(data, parts)
    parted = made.map_partitions(lambda items: [list(items)]).collect()
    assert len(parted) == made.partitions == parts
    assert max(map(len, parted)) - min(map(len, parted)) <= 1
    assert list(itertools.chain.from_iterable(parted)) == made.collect() == data
    assert made.map(lambda x: x * x).collect() == [x * x for x in data]
    assert made.flat_map(spell).collect() == [text for x in data for text in spell(x)]
    assert made.filter(lambda x: x % 2).collect() == [x for x in data if x % 2]
    row = made.map(lambda x: x + 1).filter(lambda x: x > 0).flat_map(spell).map(len)
    assert row.collect() == [len(text) for x in data if x + 1 > 0 for text in spell(x + 1)]


@quick
@given(numbers, counts, st.integers(0, 50))
def test_count_and_take(context: Context, data: list[int], parts: int, most: int) -> None:
    made = context.parallelize(data, parts).filter(lambda x: x > 0)
    kept = [x for x in data if x > 0]
    assert made.count() == len(kept)
    assert made.take(most) == kept[:most]


@quick
@given(st.lists(st.text("abc", max_size=2), max_size=30), counts)
def test_reduce_and_fold(context: Context, data: list[str], parts: int) -> None:
    """An associative function that does not commute gives what it gives from left to right; `initial` is used once."""
    made = context.parallelize(data, parts)
    assert made.fold(">", lambda a, b: a + b) == functools.reduce(lambda a, b: a + b, data, ">")
    if data:
        assert made.reduce(lambda a, b: a + b) == "".join(data)
    else:
        with pytest.raises(TypeError, match="empty collection"):
            made.reduce(lambda a, b: a + b)


@quick
@given(pairs, counts, counts)
def test_by_key(context: Context, data: list[tuple[Any, int]], parts: int, buckets: int) -> None:
    """group_by_key lists the values of a key in their order; reduce_by_key reduces that list."""
    grouped: dict[Any, list[int]] = defaultdict(list)
    for key, value in data:
        grouped[key].append(value)
    made = context.parallelize(data, parts)
    groups = made.group_by_key(buckets).collect()
    assert dict(groups) == grouped
    assert len(groups) == len(grouped)
    words = made.map(lambda pair: (pair[0], str(pair[1]))).reduce_by_key(lambda a, b: a + b, buckets)
    assert words.partitions == buckets
    assert dict(words.collect()) == {key: "".join(map(str, values)) for key, values in grouped.items()}


@quick
@given(pairs, pairs, counts, counts)
def test_join(context: Context, left: list[tuple[Any, int]], right: list[tuple[Any, int]], parts: int, others: int) -> None:
    made = context.parallelize(left, parts).join(context.parallelize(right, others), 4).collect()
    assert Counter(made) == Counter((k, (v, w)) for k, v in left for other, w in right if k == other)


@quick
@given(st.lists(keys, max_size=40), counts)
def test_distinct(context: Context, data: list[Any], parts: int) -> None:
    found = context.parallelize(data, parts).distinct().collect()
    assert len(found) == len(set(data))
    assert set(found) == set(data)


@quick
@given(st.lists(st.tuples(st.integers(-4, 4), st.integers()), max_size=40), counts, counts, st.booleans())
def test_sort_by_is_stable(context: Context, data: list[tuple[int, int]], parts: int, others: int, reverse: bool) -> None:
    made = context.parallelize(data, parts)
    expected = sorted(data, key=lambda pair: pair[0], reverse=reverse)
    assert made.sort_by(lambda pair: pair[0], reverse=reverse, partitions=others).collect() == expected
    assert made.sort_by(reverse=reverse).collect() == sorted(data, reverse=reverse)


@quick
@given(numbers, counts, st.integers(0, 10))
def test_zip_with_index(context: Context, data: list[int], parts: int, most: int) -> None:
    """The place in the whole collection, also where only the first elements are asked for."""
    made = context.parallelize(data, parts).filter(lambda x: x % 3).zip_with_index()
    expected = [(x, place) for place, x in enumerate(x for x in data if x % 3)]
    assert made.collect() == expected
    assert made.map(lambda pair: pair[1]).take(most) == list(range(len(expected)))[:most]


@quick
@given(numbers, counts, st.floats(0, 1), st.integers(0, 2**64 - 1))
def test_sample_is_a_part_in_order(context: Context, data: list[int], parts: int, fraction: float, seed: int) -> None:
    """The same for the same seed; a part of the whole in its order; everything for 1, nothing for 0."""
    made = context.parallelize(list(enumerate(data)), parts)
    found = made.sample(fraction, seed).collect()
    assert found == made.sample(fraction, seed).collect()
    assert found == sorted(set(found))
    assert set(found) <= set(enumerate(data))
    assert made.sample(0.0, seed).collect() == []
    assert made.sample(1.0, seed).count() == len(data)


def test_sample_takes_the_fraction(context: Context) -> None:
    """20,000 draws with p = 0.3 differ from their mean by less than five standard deviations; seeds and partitions differ."""
    made = context.parallelize(range(20_000), 4)
    found = made.sample(0.3, 1).collect()
    assert abs(len(found) - 6000) < 5 * (20_000 * 0.3 * 0.7) ** 0.5
    assert found != made.sample(0.3, 2).collect()
    first, second = ([x % 5000 for x in found if x // 5000 == part] for part in (0, 1))
    assert first != second


def test_nothing_is_computed_before_it_is_asked_for(context: Context) -> None:
    """Operations are lazy; take computes no more partitions than it needs."""
    seen: list[int] = []
    made = context.parallelize(range(80), 8).map(lambda x: seen.append(x) or x)
    ordered, grouped = made.sort_by(), made.map(lambda x: (x, x)).group_by_key()
    assert seen == []
    assert made.take(3) == [0, 1, 2]
    assert seen == [0, 1, 2]
    assert (ordered.count(), grouped.count()) == (80, 80)


def test_kept_partitions_are_not_computed_again(context: Context) -> None:
    """persist keeps what was computed, and only what is missing is computed; unpersist forgets it."""
    seen: list[int] = []
    kept = context.parallelize(range(8), 4).map(lambda x: seen.append(x) or x).cache()
    assert kept.is_persisted
    assert kept.take(2) == [0, 1]
    assert seen == [0, 1]
    doubled = kept.map(lambda x: 2 * x)
    assert doubled.collect() == list(range(0, 16, 2))
    assert sorted(seen) == list(range(8))
    assert doubled.sort_by(reverse=True).take(1) == [14]
    assert kept.zip_with_index().count() == 8
    assert len(seen) == 8
    assert not kept.unpersist().is_persisted
    assert doubled.count() == 8
    assert sorted(seen) == sorted([*range(8), *range(8)])


def test_arrays_are_partitioned_by_rows(context: Context) -> None:
    """parallelize cuts an array without copying it; elements are rows."""
    data = np.arange(12.0).reshape(6, 2)
    made = context.parallelize(data, 4)
    assert made.map(lambda row: float(row.sum())).collect() == [1.0, 5.0, 9.0, 13.0, 17.0, 21.0]
    parts = made.map_partitions(lambda rows: [np.shares_memory(next(rows), data)]).take(1)
    assert parts == [True]


def test_progress_is_shown_on_request(threads: Executor, capsys: pytest.CaptureFixture[str]) -> None:
    words = Context(threads, progress=True).parallelize(["a", "b", "a"], 3).map(lambda word: (word, 1))
    assert len(words.reduce_by_key(lambda a, b: a + b).collect()) == 2
    shown = capsys.readouterr().err
    assert "map: 100%" in shown
    assert "reduce_by_key: 100%" in shown
    assert Context(threads).parallelize([1]).count() == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.parallelize([1], 0), "'partitions' must be a positive integer, got 0"),
        (lambda c: c.parallelize([1]).sample(1.5), "sample 'fraction' must be from 0 to 1, got 1.5"),
        (lambda c: c.parallelize([1]).sample(0.5, -1), "sample 'seed' must be from 0"),
        (lambda c: c.parallelize([1]).sample("all"), "sample 'fraction' must be from 0 to 1, got 'all'"),
        (lambda c: c.parallelize([1]).sample(0.5, 1.5), "sample 'seed' must be from 0"),
        (lambda c: c.parallelize([1]).take(-1), "take 'most' must be an integer from 0, got -1"),
        (lambda c: c.parallelize([1]).take(1.5), "take 'most' must be an integer from 0, got 1.5"),
        (lambda c: c.parallelize([1], 2.5), "'partitions' must be a positive integer, got 2.5"),
        (lambda c: c.parallelize([1]).sort_by(partitions="3"), "'partitions' must be a positive integer, got '3'"),
        (lambda c: c.parallelize([1]).distinct(0), "'partitions' must be a positive integer, got 0"),
        (lambda c: Context(c._executor, partitions=0), "Context 'partitions' must be a positive integer, got 0"),
    ],
)
def test_wrong_arguments_are_named(context: Context, call: Callable[[Context], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(context)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.map(5), "map needs a function, got int"),
        (lambda c: c.reduce_by_key(None), "reduce_by_key needs a function, got NoneType"),
        (lambda c: c.sort_by("key"), "sort_by needs a function, got str"),
        (lambda c: c.fold(0, "add"), "fold needs a function, got str"),
        (lambda c: c.join([(1, 2)]), "join needs another collection, got list"),
        (lambda c: Context(4), "must be an Executor or nodes, got int"),
        (lambda c: c.map(lambda x: (range(x), x)).group_by_key().count(), r"A key must be a number, str.* got range"),
    ],
)
def test_what_is_no_function_is_refused_at_once(context: Context, call: Callable[[object], object], message: str) -> None:
    """Where it is given, not by the first task."""
    with pytest.raises(TypeError, match=message):
        call(context.parallelize([1]))


def test_a_task_computes_no_collection(context: Context) -> None:
    """Its thread would be one of those that it waits for: an error, instead of a program that stands still."""
    other = context.parallelize([1, 2])
    with pytest.raises(RuntimeError, match="not within a task"):
        context.parallelize([1, 2]).map(lambda x: x + other.count()).collect()
    assert other.count() == 2
    with pytest.raises(TypeError, match="not within a task"):
        pickle.dumps(other)


@quick
@given(st.lists(st.sampled_from([float("nan"), 1.0, 2.0, 3.0, -1.0]), max_size=12), counts, counts, st.booleans())
def test_sort_by_loses_nothing(context: Context, data: list[float], parts: int, others: int, reverse: bool) -> None:
    """Of keys that have no order, too, as `sorted` does not: nan is neither less nor more than anything."""
    made = context.parallelize(data, parts).sort_by(reverse=reverse, partitions=others).collect()
    assert Counter(map(repr, made)) == Counter(map(repr, data))


class Level(enum.IntEnum):
    LOW = 1


class Name(str, enum.Enum):
    A = "a"


def test_members_of_an_enum_that_are_numbers_or_texts_are_the_same_keys(context: Context) -> None:
    """As in a dict, whatever partitions they come from."""
    pairs = [(1, "x"), (Level.LOW, "y"), ("a", "z"), (Name.A, "w")]
    assert dict(context.parallelize(pairs, 4).group_by_key(7).collect()) == {1: ["x", "y"], "a": ["z", "w"]}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(st.integers(-(1 << 70), 1 << 70), st.integers(0, 3), st.booleans(), st.floats(-4, 4)), max_size=40))
def test_sort_by_keeps_types(context: Context, data: list[Any]) -> None:
    """Numbers travel as arrays where a partition has integers or floats only; each comes back as it was."""
    made = context.parallelize(data, 3)
    for found, expected in (
        (made.sort_by(partitions=4).collect(), sorted(data)),
        (made.sort_by(float, reverse=True).collect(), sorted(data, key=float, reverse=True)),
        (made.sort_by(lambda x: -x, partitions=2).collect(), sorted(data, key=lambda x: -x)),
    ):
        assert [(type(item), item) for item in found] == [(type(item), item) for item in expected]


def test_sorted_partitions_are_about_as_long_as_each_other(context: Context) -> None:
    """Their borders are made of samples, whatever the parts of the input look like."""
    data = [number**3 % 10_007 for number in range(20_000)]
    for parts in (1, 3, 4000):
        made = context.parallelize(data, parts).sort_by(partitions=4)
        lengths = made.map_partitions(lambda items: [sum(1 for _ in items)]).collect()
        assert sum(lengths) == len(data)
        assert max(lengths) < 1.2 * len(data) / 4
        assert made.take(5) == sorted(data)[:5]


def test_sort_by_calls_the_key_function_once_for_each_element(context: Context) -> None:
    """However many partitions there are."""
    calls: list[int] = []

    def key(item: int) -> int:
        calls.append(item)
        return -item

    assert context.parallelize(range(100), 5).sort_by(key, partitions=3).collect() == list(range(99, -1, -1))
    assert sorted(calls) == list(range(100))
