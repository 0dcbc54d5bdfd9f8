"""Who keeps the others waiting is named, and given up after the limit: in an operation, and on the way to the next round."""

from __future__ import annotations

import logging
import math
import time

import pytest

from network.nodes import Address
from parallel_sgd.elastic.stragglers import StragglerDetector
from rpc.elastic import Worker

from ...statements import covers

A, B, C = MEMBERS = tuple(Worker(Address(name, 1), 0, 0) for name in "abc")


@covers("EL-29")
def test_who_never_comes_to_an_operation(caplog: pytest.LogCaptureFixture) -> None:
    """a warning, and then the worker for which all others wait."""
    watching = StragglerDetector(10.0, 20.0)
    watching.begin(4, MEMBERS)
    watching.waits(4, A, "1. barrier")
    watching.waits(4, C, "1. barrier")
    watching.waits(3, B, "1. barrier")  # of a round that is over
    now = time.monotonic()
    assert watching.look(now + 9.0) == [] and not caplog.records
    assert watching.look(now + 11.0) == []
    assert "Missing ranks:\n\t1: [1. barrier]" in caplog.text
    ((worker, reason),) = watching.look(now + 21.0)
    assert worker is B and "1. barrier" in reason
    assert watching.look(math.inf) == []


@covers("EL-29")
def test_what_comes_late_is_no_stall(caplog: pytest.LogCaptureFixture) -> None:
    """An operation that has ended is forgotten, though not everybody had waited in it."""
    watching = StragglerDetector(10.0, 20.0)
    watching.begin(0, MEMBERS)
    watching.waits(0, A, "1. barrier")
    watching.got(0, "1. barrier")
    watching.waits(0, B, "2. barrier")
    watching.end()
    assert watching.look(time.monotonic() + 100.0) == [] and not caplog.records


@covers("EL-29")
def test_who_never_asks_for_the_next_round(caplog: pytest.LogCaptureFixture) -> None:
    """The barrier between two rounds has the same limits."""
    caplog.set_level(logging.WARNING)
    watching = StragglerDetector(10.0, 20.0)
    watching.begin(0, MEMBERS)
    watching.asks_for_next(0, A)
    watching.asks_for_next(0, B)
    now = time.monotonic()
    assert watching.look(now + 11.0) == []
    assert [worker for worker, _ in watching.look(now + 21.0)] == [C]
    assert "2: [the next round]" in caplog.text
