"""What tasks keep in the memory of a node, and what gives way when there is no room."""

from __future__ import annotations

import pytest

from executor.keeper import Absent, Shelves


def test_what_is_put_is_there_until_the_shelf_is_cleared() -> None:
    """Also for tasks that come late: they cannot fill a shelf that nobody will clear again."""
    shelves = Shelves(3, room=100)
    assert shelves.put(1, 0, "a", 40) and shelves.put(1, 1, "b", 40) and shelves.put(2, 0, "c", 10)
    assert (shelves.get(1, 0), shelves.get(1, 1), shelves.used) == ("a", "b", 90)
    shelves.clear(1)
    shelves.clear(1)
    assert shelves.used == 10
    for place in (0, 1):
        with pytest.raises(Absent, match=f"nothing at place {place} of shelf 1"):
            shelves.get(1, place)
    assert not shelves.put(1, 0, "late", 10)
    assert shelves.get(2, 0) == "c"


def test_other_shelves_make_room_and_the_same_one_does_not() -> None:
    """Those used longest ago first, and no more than needed; what finds no room leaves everything as it was."""
    shelves = Shelves(0, room=100)
    for place in range(4):
        assert shelves.put(1, place, place, 20)
    shelves.get(1, 0)
    assert shelves.put(2, 0, "new", 40)
    assert shelves.used == 100
    assert [shelves.get(1, place) for place in (0, 2, 3)] == [0, 2, 3]
    with pytest.raises(Absent):
        shelves.get(1, 1)
    assert not shelves.put(2, 1, "too much", 61)
    assert shelves.used == 100
    assert shelves.put(2, 1, "all", 60)
    assert shelves.used == 100
    with pytest.raises(Absent):
        shelves.get(1, 0)


def test_a_place_is_used_once() -> None:
    """What is made again takes the place of what was there."""
    shelves = Shelves(0, room=100)
    assert shelves.put(1, 0, "old", 80) and shelves.put(1, 0, "new", 90)
    assert (shelves.get(1, 0), shelves.used) == ("new", 90)
