"""Values: what may travel comes back as it was, and nothing that arrives can run."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings

from network.values import encode
from tests.network.value_kinds import (
    Color,
    Guarded,
    Overshadowing,
    Slotted,
    arrays,
    same,
    travel,
    values,
)

from ..statements import covers


@settings(max_examples=400, deadline=None)
@given(values)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert same(value, travel(value))


@settings(max_examples=200, deadline=None)
@given(arrays())
def test_an_array_comes_back_bit_for_bit(array: Any) -> None:
    assert same(array, travel(array))


def test_contiguous_arrays_are_not_copied() -> None:
    source = np.arange(10.0)
    _, [sent] = encode(source)
    assert sent is source


def test_an_array_that_arrives_can_be_written_to() -> None:
    received = travel(np.broadcast_to(np.float32(1), (3,)))
    received += 1
    assert received.tolist() == [2, 2, 2]


@covers("SUB-36")
def test_hooks_do_not_run() -> None:
    """An instance is filled field by field; no __init__, __setattr__, __setstate__, __reduce__ or property runs."""
    guarded = object.__new__(Guarded)
    guarded.__dict__.update(shown=1, other=(2,))
    received = travel(guarded)
    assert type(received) is Guarded
    assert received.__dict__ == {"shown": 1, "other": (2,)}


def test_slots_travel_under_their_true_names_and_empty_ones_stay_empty() -> None:
    received = travel(Slotted(5))
    assert received == Slotted(5)
    assert not hasattr(received, "empty")


def test_a_property_that_hides_a_slot_does_not_run() -> None:
    item = object.__new__(Overshadowing)
    Slotted.__dict__["value"].__set__(item, 3)
    item.__dict__["more"] = 4
    received = travel(item)
    assert Slotted.__dict__["value"].__get__(received) == 3
    assert received.__dict__ == {"more": 4}


def test_enum_aliases_come_back_as_the_member() -> None:
    assert travel(Color.CRIMSON) is Color.RED
