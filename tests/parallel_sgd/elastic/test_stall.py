"""Variables that some workers wait for and others never put."""

from __future__ import annotations

import math
from typing import Any

import pytest

from parallel_sgd.elastic.stragglers import Completed, StallInspector, Stop, Submitted
from rpc.elastic import Tick, Warn
from rpc.errors import InvalidTransition

from ...statements import covers


def put(inspector: StallInspector, now: float, **variables: list[int]) -> list[Any]:
    return [
        action for name, ranks in variables.items() for rank in ranks for action in inspector.handle(Submitted(rank, name), now)
    ]


@covers("EL-29")
def test_a_warning_names_who_lacks_what() -> None:
    """After the warning limit, not before, once: for each missing rank the variables that it has not put."""
    inspector = StallInspector(3)
    assert put(inspector, 10.0, kernel=[0, 1], bias=[0], done=[2, 0, 1]) == []
    assert inspector.deadline == 70.0
    assert inspector.handle(Tick(), math.nextafter(70.0, 0)) == []
    (warning,) = inspector.handle(Tick(), 70.0)
    assert isinstance(warning, Warn)
    assert warning.message.startswith("For more than 60 s some workers have waited")
    assert warning.message.endswith("Missing ranks:\n1: [bias]\n2: [kernel, bias]")
    assert inspector.handle(Tick(), 71.0) == []


@covers("EL-29")
def test_a_later_variable_is_told_of_as_well() -> None:
    """Each once, together with those that still lack."""
    inspector = StallInspector(2)
    put(inspector, 0.0, kernel=[0])
    put(inspector, 30.0, bias=[1])
    assert inspector.handle(Tick(), 60.0)[0].message.endswith("\n1: [kernel]")
    assert inspector.deadline == 90.0
    assert inspector.handle(Tick(), 90.0)[0].message.endswith("\n0: [bias]\n1: [kernel]")


@covers("EL-29")
def test_the_job_acts_by_default() -> None:
    """After the shutdown limit, on by default, once, with the same list."""
    inspector = StallInspector(2)
    put(inspector, 0.0, kernel=[1])
    assert [type(action) for action in inspector.handle(Tick(), 60.0)] == [Warn]
    assert inspector.deadline == 120.0
    assert inspector.handle(Tick(), math.nextafter(120.0, 0)) == []
    (stop,) = inspector.handle(Tick(), 120.0)
    assert isinstance(stop, Stop) and stop.message.endswith("Missing ranks:\n0: [kernel]")
    assert inspector.handle(Tick(), 200.0) == [] and inspector.deadline is None


@covers("EL-29")
def test_the_shutdown_can_be_turned_off() -> None:
    """a limit of 0 warns only."""
    inspector = StallInspector(2, warn_after=1.0, stop_after=0)
    put(inspector, 0.0, kernel=[1])
    assert [type(action) for action in inspector.handle(Tick(), 1.0)] == [Warn]
    assert inspector.handle(Tick(), 1e9) == [] and inspector.deadline is None


@covers("EL-29")
def test_who_comes_in_time_is_forgotten() -> None:
    """a variable that all have put begins anew with the next batch; putting it twice does not count twice."""
    inspector = StallInspector(2)
    for now in range(0, 500, 50):
        assert put(inspector, float(now), kernel=[0, 0]) == []
        assert inspector.deadline == now + 60.0
        assert put(inspector, now + 49.0, kernel=[1]) == []
        assert inspector.deadline is None
    put(inspector, 1000.0, kernel=[0])
    assert [type(action) for action in inspector.handle(Tick(), 1060.0)] == [Warn]
    put(inspector, 1061.0, kernel=[1])
    assert inspector.handle(Tick(), 2000.0) == []


@covers("EL-29")
def test_what_has_ended_is_forgotten() -> None:
    """An exchange may end before all have told of it."""
    inspector = StallInspector(3)
    put(inspector, 0.0, kernel=[0, 1], bias=[0])
    assert inspector.handle(Completed("kernel"), 1.0) == [] == inspector.handle(Completed("unknown"), 1.0)
    assert [type(action) for action in inspector.handle(Tick(), 60.0)] == [Warn]
    (stop,) = inspector.handle(Tick(), 120.0)
    assert stop.ranks == (1, 2) and "kernel" not in stop.message


@covers("EL-29")
def test_who_is_late_only_now_is_not_given_up() -> None:
    """The job acts on those that are beyond the second limit, and names the others."""
    inspector = StallInspector(3)
    put(inspector, 0.0, kernel=[0, 1])
    inspector.handle(Tick(), 60.0)
    put(inspector, 60.0, bias=[0, 2])
    (stop,) = inspector.handle(Tick(), 120.0)
    assert stop.ranks == (2,) and stop.message.endswith("\n1: [bias]\n2: [kernel]")


def test_what_cannot_be() -> None:
    """Style 4, style 9."""
    with pytest.raises(InvalidTransition, match="StallInspector cannot take"):
        StallInspector(2).handle(Submitted(2, "kernel"), 0.0)
    with pytest.raises(ValueError, match="'stop_after' must be 0 or at least 60, 'warn_after', got 30"):
        StallInspector(2, stop_after=30)
