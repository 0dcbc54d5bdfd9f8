"""Values that share their methods behave as frozen dataclasses with the same fields do, and cost less to define."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from rpc.support.immutable import Immutable


class Point(Immutable):
    """Of the kind that is tested."""

    x: int
    y: float = 0.5
    tags: list[str] = dataclasses.field(default_factory=list)


class Named(Point):
    """With one field more."""

    name: str = "origin"


@dataclasses.dataclass(frozen=True)
class Reference:
    x: int
    y: float = 0.5
    tags: list[str] = dataclasses.field(default_factory=list)


@pytest.mark.parametrize(
    ("values", "named"), [((1,), {}), ((1, 2.0, ["a"]), {}), ((), {"x": 3}), ((4,), {"tags": ["b"]}), ((5, 1.0), {"tags": []})]
)
def test_they_hold_what_a_frozen_dataclass_holds(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    made, reference = Point(*values, **named), Reference(*values, **named)
    assert dataclasses.asdict(made) == dataclasses.asdict(reference)
    assert repr(made).partition("(")[2] == repr(reference).partition("(")[2]
    assert [field.name for field in dataclasses.fields(made)] == ["x", "y", "tags"]
    assert made == Point(*values, **named) and made != dataclasses.replace(made, x=99) and made != reference
    assert made == copy.deepcopy(made) == pickle.loads(pickle.dumps(made))


def test_a_subclass_has_the_fields_of_its_base_and_is_another_kind() -> None:
    assert Named(1, name="a") == Named(1, 0.5, [], "a") != Point(1)
    assert len({Named(1, 0.5, (), "a"), Named(1, 0.5, (), "a"), Point(1, 0.5, ()), Point(1, 0.5, ())}) == 2  # type: ignore[arg-type]
    assert Point(1).tags is not Point(1).tags
    match Named(2):
        case Point(x, y):
            assert (x, y) == (2, 0.5)


def test_nothing_of_them_changes() -> None:
    made = Point(1)
    for change in (lambda: setattr(made, "x", 2), lambda: delattr(made, "x"), lambda: setattr(made, "other", 2)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert made == Point(1)


@pytest.mark.parametrize(
    ("values", "named", "fault"),
    [
        ((), {}, "Point() lacks 'x'"),
        ((1, 2, 3, 4), {}, "Point() takes x, y, tags; got 4 values"),
        ((1,), {"z": 1}, "Point() takes x, y, tags; got z, which it has not or has twice"),
        ((1,), {"x": 1}, "Point() takes x, y, tags; got x, which it has not or has twice"),
    ],
)
def test_wrong_arguments_are_named(values: tuple[Any, ...], named: dict[str, Any], fault: str) -> None:
    with pytest.raises(TypeError) as error:
        Point(*values, **named)
    assert str(error.value) == fault
