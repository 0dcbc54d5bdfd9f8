"""Who keeps the others waiting is named, and given up after the limit: in an operation, and on the way to the next round."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from network.nodes import Address
from parallel_sgd.elastic.stragglers import Completed, StallInspector, Stop, StragglerDetector, Submitted
from rpc.elastic import Worker
from rpc.errors import InvalidTransition

from ...scenarios import TimedPlayer, scenarios
from ...statements import covers


class Stalls(TimedPlayer):
    """An inspector of `size` workers; one `put`s a variable into an exchange, which is `completed`."""

    def __init__(self, size: int = 2, **limits: Any) -> None:
        super().__init__()
        self.machine = StallInspector(size, **limits)

    def told(self, action: Any) -> str:
        head, _, missing = action.message.partition(". Missing ranks:\n")
        begin, _, rest = head.partition(" s some workers have waited for variables that others have not put: ")
        assert rest == "those do something else, or nothing"
        kind = f"stop {' '.join(map(str, action.ranks))}" if isinstance(action, Stop) else "warn"
        return f"{kind} ({begin.removeprefix('For more than ')} s) {missing}".replace("\n", " / ")

    def on_put(self, variable: str, *ranks: str) -> list[Any]:
        return self.tell(*(Submitted(int(rank), variable) for rank in ranks))

    def on_completed(self, variable: str) -> list[Any]:
        return self.tell(Completed(variable))


STALLS = """
a warning names for each missing rank the variables that it has not put, after the limit, not before, once (size=3)
  put kernel 0 1
  put bias 0
  put done 2 0 1
  due 60 -> warn (60 s) 1: [bias] / 2: [kernel, bias]
  tick 1
a later variable is told of as well, once, together with those that still lack
  put kernel 0
  tick 30
  put bias 1
  due 30 -> warn (60 s) 1: [kernel]
  due 30 -> warn (60 s) 0: [bias] / 1: [kernel]
the job acts by default, after the second limit, once, with the same list
  put kernel 1
  due 60 -> warn...
  due 60 -> stop 0 (120 s) 0: [kernel]
  rests
a second limit of 0 warns only (warn_after=1 stop_after=0)
  put kernel 1
  due 1 -> warn (1 s) 0: [kernel]
  rests
a variable that all have put begins anew with the next batch; putting it twice does not count twice
  put kernel 0 0
  tick 49
  put kernel 1
  rests
  put kernel 0
  due 60 -> warn...
  tick 1
  put kernel 1
  rests
  put kernel 1
  due 60 -> warn...
an exchange may end before all have told of it, and is forgotten (size=3)
  put kernel 0 1
  put bias 0
  completed kernel
  completed unknown
  due 60 -> warn...
  due 60 -> stop 1 2 (120 s) 1: [bias] / 2: [bias]
who is late only now is not given up, but named (size=3)
  put kernel 0 1
  due 60 -> warn...
  put bias 0 2
  due 60 -> stop 2 (120 s) 1: [bias] / 2: [kernel]
"""


@covers("EL-29")
@pytest.mark.parametrize(("options", "scenario"), scenarios(STALLS))
def test_variables_that_some_wait_for_and_others_never_put(options: dict[str, Any], scenario: str) -> None:
    Stalls(**options).play(scenario)


def test_what_cannot_be() -> None:
    """Style 4, style 9."""
    with pytest.raises(InvalidTransition, match="StallInspector cannot take"):
        StallInspector(2).handle(Submitted(2, "kernel"), 0.0)
    with pytest.raises(ValueError, match="'stop_after' must be 0 or at least 60, 'warn_after', got 30"):
        StallInspector(2, stop_after=30)


A, B, C = MEMBERS = tuple(Worker(Address(name, 1), 0, 0) for name in "abc")


@covers("EL-29")
def test_workers_of_a_round(caplog: pytest.LogCaptureFixture) -> None:
    """A warning, and then the worker for which all others wait: in an operation, and on the way to the next round, which has
    the same limits. An operation that has ended is forgotten, though not everybody had waited in it."""
    watching = StragglerDetector(10.0, 20.0)
    before = time.monotonic()
    watching.begin(4, MEMBERS)
    for attempt, worker in ((4, A), (4, C), (3, B)):  # the last is of a round that is over
        watching.waits(attempt, worker, "1. barrier")
    now = time.monotonic()
    assert watching.look(before + 9.0) == [] and not caplog.records
    assert watching.look(now + 11.0) == []
    assert "Missing ranks:\n\t1: [1. barrier]" in caplog.text
    ((worker, reason),) = watching.look(now + 21.0)
    assert worker is B and "1. barrier" in reason
    assert watching.look(math.inf) == []
    watching.begin(5, MEMBERS)
    for worker in (A, B):
        watching.asks_for_next(5, worker)
    assert watching.look(time.monotonic() + 11.0) == []
    assert [worker for worker, _ in watching.look(time.monotonic() + 21.0)] == [C]
    assert "2: [the next round]" in caplog.text
    caplog.clear()
    watching.begin(6, MEMBERS)
    watching.waits(6, A, "1. barrier")
    watching.got(6, "1. barrier")
    watching.waits(6, B, "2. barrier")
    watching.end()
    assert watching.look(time.monotonic() + 100.0) == [] and not caplog.records
