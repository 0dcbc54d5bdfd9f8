"""When a function is packed anew, and when it is forgotten."""

from __future__ import annotations

import functools
import gc
import threading
import weakref
from typing import Any

import pytest

from executor.functions import Function, Functions, name_of, user_classes

from . import calls
from .calls import Point

SCALE = 2.0
TABLE = {"a": 1}
LOCK = threading.Lock()


def scaled(x: float) -> float:
    return x * SCALE


def outer(x: float) -> float:
    return scaled(x) + TABLE["a"]


class Scaler:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: float) -> float:
        return x * self.factor

    def apply(self, x: float) -> float:
        return x * self.factor


@pytest.fixture
def functions() -> Functions:
    return Functions(lambda _: None)


def test_the_same_function_is_packed_once(functions: Functions) -> None:
    """Also a bound method, which is another object each time it is looked up, and a partial."""
    scaler, partial = Scaler(2), functools.partial(calls.add, b=1)
    for item in (calls.add, outer, partial, scaler):
        assert functions.of(item) is functions.of(item)
    assert functions.of(scaler.apply) is functions.of(scaler.apply)
    assert functions.of(calls.add) is not functions.of(outer)


def test_it_is_packed_anew_when_a_name_stands_for_another_object(functions: Functions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Globals, also of functions that it calls, cells, defaults and fields; and a name that comes to stand for something, as a
    function that is defined after the one that calls it, or that hides a built-in; what is gone has changed, also to None."""
    cell, scaler = 1, Scaler(2.0)
    held: Any = Scaler(3.0)

    def closed() -> int:
        return cell

    def holding() -> Any:
        return held

    def early(x: float) -> float:
        return abs(later(x))  # type: ignore[name-defined,no-any-return]  # noqa: F821

    def is_new(item: Any, known: list[Function]) -> bool:
        """Whether it is packed anew, and then once."""
        function = functions.of(item)
        assert functions.of(item) is function
        known.append(function)
        return function not in known[:-1]

    seen: list[Function] = []
    for item in (outer, closed, scaler.apply, holding, early):
        assert is_new(item, seen) and not is_new(item, seen)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    cell, scaler.factor, held = 2, 3.0, None
    for item in (outer, closed, scaler.apply, holding):
        assert is_new(item, seen)
    for change in (
        lambda: monkeypatch.setitem(globals(), "later", scaled),
        lambda: monkeypatch.setitem(globals(), "abs", scaled),
        lambda: monkeypatch.delitem(globals(), "abs"),
    ):
        change()
        assert is_new(early, seen)


def test_classes_of_arguments_are_added_to_the_table(functions: Functions) -> None:
    """A class that the code does not name can travel with it, from then on."""
    first = functions.of(scaled)
    assert Scaler not in first.classes or Point not in first.classes
    second = functions.of(scaled, user_classes([{"p": (Point(1, 2),)}]))
    assert Point in second.classes
    assert functions.of(scaled) is second


def test_old_functions_are_forgotten_and_code_is_bounded() -> None:
    """What brings much along pushes others out; the last one is remembered however much it is."""
    told: list[Function] = []
    functions = Functions(told.append, most=3)
    kept: list[Any] = [functools.partial(calls.add, number) for number in range(4)]
    made = [functions.of(item) for item in kept[:-1]]
    assert functions.of(kept[0]) is made[0]
    functions.of(kept[-1])
    assert told == [made[1]] and made[1].forgotten and not made[0].forgotten
    pushed: list[Function] = []
    # so large that a function's own description, which grows with the classes that are loaded, decides nothing
    functions = Functions(pushed.append, most_bytes=100_000)
    large = [functools.partial(len, b"x" * size) for size in (30_000, 30_000, 30_000, 60_000)]
    for item in large:
        functions.of(item)
    assert [function.size > 60_000 for function in pushed] == [False, False]
    largest = functools.partial(len, b"x" * 200_000)
    assert functions.of(largest) is functions.of(largest)
    assert len(pushed) == 4


class Node:
    """One of a chain, whose parent knows it."""

    def __init__(self, parent: Node | None = None) -> None:
        self.parent, self.child, self.weight = parent, None, Scaler(1.0)
        if parent is not None:
            parent.child = self  # type: ignore[assignment]

    def visit(self) -> float:
        return self.weight.factor


def test_what_does_not_exist_any_more_is_forgotten_at_once() -> None:
    """Methods, closures, partials, callable objects: nothing here keeps them or what they name; whoever has them is told."""

    def closure() -> tuple[Any, Any]:
        scaler = Scaler(2.0)
        return lambda: scaler.factor, scaler

    def recursive() -> tuple[Any, Any]:
        scaler = Scaler(2.0)

        def again(depth: int) -> float:
            return again(depth - 1) if depth else scaler.factor

        return again, scaler

    scaler, parent = Scaler(2.0), Node()
    node = Node(parent)
    made: list[tuple[Any, Any]] = [(scaler.apply, scaler), (scaler, scaler), (node.visit, node.weight), closure(), recursive()]
    made += [(functools.partial(calls.add, b=1), None)]
    made[-1] = (made[-1][0], made[-1][0])
    told: list[Function] = []
    functions = Functions(told.append)
    packed = [functions.of(item) for item, _ in made]
    gone = [weakref.ref(part) for _, part in made]
    assert not told
    del made, scaler, parent, node
    gc.collect()  # of cycles that are the user's own
    assert [ref() for ref in gone] == [None] * len(gone)
    assert set(told) == set(packed)
    assert functions.of(calls.add) is functions.of(calls.add)
    assert not functions._gone


def test_another_function_in_the_same_place_is_another() -> None:
    """What is at the address of one that is gone is packed anew."""
    functions = Functions(lambda _: None)
    numbers = {functions.of(functools.partial(calls.add, number)).number for number in range(50)}
    assert len(numbers) == 50


def test_the_part_that_cannot_travel_is_named(functions: Functions) -> None:
    lock = threading.Lock()
    scaler = Scaler(2)
    scaler.factor = lock  # type: ignore[assignment]
    for item, part in [
        (lambda: lock, "variable 'lock'"),
        (lambda: LOCK, "variable 'LOCK'"),
        (lambda held=lock: held, "default"),
        (functools.partial(calls.add, 1, b=lock), "argument 'b'"),
        (scaler.apply, "object's field 'factor'"),
        (scaler, "field 'factor'"),
    ]:
        with pytest.raises(TypeError, match=rf"The function .* cannot travel, because of its {part}: cannot pickle"):
            functions.of(item)
    nested = functools.partial(functools.partial(calls.add), 1)
    assert [name_of(item) for item in (calls.add, nested, Scaler(1))] == ["add", "add", "Scaler"]
