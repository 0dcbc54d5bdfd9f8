"""Persisted collections: the same elements as without, made once, kept where they were made, made again when lost."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from executor.keeper import KEEP_BYTES, size_of
from executor.parallel import Collection, Context
from executor.parallel.persist import PersistedOnNodes

from .thread_nodes import ThreadNodes

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
List = list[int]
Change = tuple[Callable[[Collection[int]], Collection[int]], Callable[[List], List]]


def last_digits(items: List) -> List:
    """The largest number of every last digit, in order."""
    found: dict[int, int] = {}
    for item in items:
        found[item % 10] = max(item, found.get(item % 10, item))
    return sorted(found.values())


CHANGES: dict[str, Change] = {
    "map": (lambda c: c.map(lambda x: 3 * x + 1), lambda d: [3 * x + 1 for x in d]),
    "filter": (lambda c: c.filter(lambda x: x % 3), lambda d: [x for x in d if x % 3]),
    "flat_map": (lambda c: c.flat_map(lambda x: [x] * (x % 3)), lambda d: [y for x in d for y in [x] * (x % 3)]),
    "sort_by": (lambda c: c.sort_by(reverse=True), lambda d: sorted(d, reverse=True)),
    "reduce_by_key": (
        lambda c: c.map(lambda x: (x % 10, x)).reduce_by_key(max).map(lambda pair: pair[1]).sort_by(),
        last_digits,
    ),
    "zip_with_index": (
        lambda c: c.zip_with_index().map(lambda pair: pair[0] + pair[1]),
        lambda d: [x + place for place, x in enumerate(d)],
    ),
    "persist": (lambda c: c.persist(), lambda d: d),
    "persist twice": (lambda c: c.persist(replicas=2), lambda d: d),
    "unpersist": (lambda c: c.unpersist(), lambda d: d),
}
programs = st.lists(st.tuples(st.sampled_from(sorted(CHANGES)), st.integers(0, 4)), min_size=1, max_size=9)


def check(context: Context, data: List, parts: int, program: Iterable[tuple[str, int]], between: Callable[[], None]) -> None:
    """Each change is made to one of the last collections, in plain lists and in partitions; all of them are looked at."""
    made: list[tuple[Collection[int], List]] = [(context.parallelize(data, parts), data)]
    for name, back in program:
        collection, items = made[-1 - back % len(made)]
        change, same = CHANGES[name]
        changed, expected = change(collection), same(items)
        made.append((changed, expected))
        assert changed.count() == len(expected)
        between()
        assert changed.take(3) == expected[:3]
    for collection, expected in made:
        assert collection.collect() == expected
        between()


@quick
@given(st.lists(st.integers(0, 60), max_size=25), st.integers(1, 5), programs)
def test_here(context: Context, data: List, parts: int, program: list[tuple[str, int]]) -> None:
    """Random operations with persist and unpersist in random places give what plain lists give."""
    check(context, data, parts, program, lambda: None)


@quick
@given(
    st.lists(st.integers(0, 60), max_size=25),
    st.integers(1, 5),
    programs,
    st.sampled_from([0, 400, 1000, KEEP_BYTES]),
    st.lists(st.integers(0, 2), max_size=30),
)
def test_on_nodes_that_are_lost_and_full(
    data: List, parts: int, program: list[tuple[str, int]], room: int, losses: list[int]
) -> None:
    """The same on nodes with much room or little, whichever of them are lost between two actions."""
    left = iter(losses)
    with ThreadNodes(3, room) as nodes:

        def lose() -> None:
            if next(left, 2) == 0:
                nodes.lose(next(left, 0))

        check(Context(nodes), data, parts, program, lose)


@pytest.fixture
def nodes() -> Iterable[ThreadNodes]:
    with ThreadNodes(3, KEEP_BYTES) as made:
        yield made


def large(context: Context, seen: list[int]) -> Collection[Any]:
    """Six partitions of two arrays of 8 kB."""
    return counted(context, seen).map(lambda x: np.full(1000, x))


def used(nodes: ThreadNodes) -> int:
    return sum(shelves.used for shelves in nodes.shelves.values()) // 1000


def counted(context: Context, seen: list[int], count: int = 12) -> Collection[int]:
    return context.parallelize(range(count), 6).map(lambda x: seen.append(x) or x)


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_only_what_is_lost_is_computed_again(nodes: ThreadNodes, replicas: int) -> None:
    """Made once; with a copy elsewhere a lost node costs nothing, and copies are made up for; without, its partitions only."""
    seen: list[int] = []
    kept = counted(Context(nodes), seen).persist(replicas)
    for _ in range(3):
        assert kept.map(lambda x: -x).collect() == [-x for x in range(12)]
    assert sorted(seen) == list(range(12))
    nodes.lose(1)
    assert kept.count() == 12
    assert len(seen) == (16 if replicas == 1 else 12)
    assert kept.sort_by().collect() == list(range(12))
    nodes.lose(0)
    assert kept.count() == 12
    assert len(seen) == (22 if replicas == 1 else 12)


def test_tasks_go_where_the_partition_is(nodes: ThreadNodes) -> None:
    """By themselves, and with nothing but their number: elements do not travel."""
    kept = counted(Context(nodes), []).map(lambda x: [x]).cache()
    assert kept.count() == 12
    made = {args[0]: node for node, args in nodes.ran}
    assert len(Counter(made.values())) == 3
    for action in (kept.count, kept.map(lambda x: x[0]).collect, kept.map_partitions(list).count, kept.zip_with_index().count):
        nodes.ran.clear()
        action()
        assert {args[0]: node for node, args in nodes.ran} == made
        assert all(args[1] is None for _, args in nodes.ran)


def test_what_depends_on_it_may_be_kept_too(nodes: ThreadNodes) -> None:
    """Each on its own shelf; a task begins with the last one that is there, and fills those after it on its way."""
    seen: list[int] = []
    later: list[int] = []
    first = counted(Context(nodes), seen).cache()
    second = first.map(lambda x: later.append(x) or 2 * x).cache()
    third = second.map(lambda x: x + 1)
    assert third.collect() == [2 * x + 1 for x in range(12)]
    assert (len(seen), len(later)) == (12, 12)
    first.unpersist()
    assert third.count() == 12
    assert (len(seen), len(later)) == (12, 12)
    second.unpersist()
    assert third.count() == 12
    assert (len(seen), len(later)) == (24, 24)


def test_memory_is_freed(nodes: ThreadNodes) -> None:
    """By unpersist, on all nodes, and when nothing refers to the collection any more."""
    kept = large(Context(nodes), []).persist(2)
    assert kept.count() == 12
    assert 2 * 96 <= used(nodes) <= 2 * 110
    assert not kept.unpersist().unpersist().is_persisted
    assert used(nodes) == 0
    kept.persist()
    assert kept.count() == 12
    assert 96 <= used(nodes) <= 110
    del kept
    gc.collect()
    assert used(nodes) == 0


def test_a_full_node_keeps_what_it_has_room_for() -> None:
    """The rest is computed again whenever it is needed; a later collection pushes an older one out."""
    seen: list[int] = []
    with ThreadNodes(1, room=88_000) as nodes:
        context = Context(nodes)
        kept = large(context, seen).cache()
        for times in (1, 2, 3):
            assert [array[0] for array in kept.collect()] == list(range(12))
            assert len(seen) == 12 + 2 * (times - 1)
        assert large(context, []).cache().count() == 12
        seen.clear()
        assert kept.count() == 12
        assert len(seen) == 12


def test_more_replicas_than_nodes_are_as_many_as_nodes(nodes: ThreadNodes) -> None:
    """And asking for more later makes the missing copies at the next use."""
    kept = large(Context(nodes), []).persist()
    assert kept.count() == 12
    assert 96 <= used(nodes) <= 110
    kept.persist(9)
    assert kept.count() == 12
    assert 3 * 96 <= used(nodes) <= 3 * 110
    nodes.ran.clear()
    assert kept.count() == 12
    assert len(nodes.ran) == 6


def test_a_partition_that_is_made_once_more_is_not_copied_beyond_the_replicas() -> None:
    """Two actions at once may both make it: then more nodes have it than were to."""
    with ThreadNodes(5, KEEP_BYTES) as nodes:
        kept = PersistedOnNodes(nodes, 2)
        first, second, third, *_ = sorted(nodes.live_nodes)
        kept.note(0, first, True, [1])
        kept.settle()
        assert [node for node, _ in nodes.ran] == [second]
        kept.note(0, third, True, [1])
        kept.settle()
        assert len(nodes.ran) == 1


def test_elements_that_are_no_data(nodes: ThreadNodes) -> None:
    """What stays on its node need not travel."""
    locks = Context(nodes).parallelize(range(6), 3).map(lambda _: threading.Lock()).cache()
    assert locks.count() == 6
    assert locks.map(lambda lock: lock.acquire(blocking=False)).collect() == [True] * 6
    assert locks.map(lambda lock: lock.acquire(blocking=False)).collect() == [False] * 6


@pytest.mark.parametrize("replicas", [0, -1, 1.5, True, "2"])
def test_replicas_are_a_positive_integer(threads: Executor, replicas: Any) -> None:
    with pytest.raises(ValueError, match="persist 'replicas' must be a positive integer, got "):
        Context(threads).parallelize([1]).persist(replicas)


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ([0] * 1000, 8_000, 50_000),
        ([np.zeros(1000) for _ in range(10)], 80_000, 90_000),
        (np.zeros((10, 1000))[2:], 64_000, 65_000),
        ({n: str(n) * 30 for n in range(1000)}, 140_000, 300_000),
        ([(n, ["y" * 50]) for n in range(1000)], 150_000, 400_000),
        (b"z" * 10_000, 10_000, 11_000),
        (7, 1, 100),
    ],
)
def test_sizes_are_about_right(value: Any, least: int, most: int) -> None:
    assert least <= size_of(value) <= most
