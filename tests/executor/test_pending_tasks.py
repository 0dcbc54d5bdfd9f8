"""Tasks that are to run near what they need: where they wait, and who may take them."""

from __future__ import annotations

from executor.scheduler import LATE_SECONDS
from executor.scheduler_state import Cancel, Cleared, GaveBack, Lost, Recalled, Send, TakeBack, Tick

from .test_scheduler import Finished, Scheduler, sent, submitted


def test_tasks_wait_for_the_node_that_has_what_they_need() -> None:
    """Others pass them, and no node without work takes them from it."""
    scheduler = Scheduler([0, 1])
    assert sent(scheduler.handle(submitted(range(4), near=[1]), 0.0)) == {1: (0, 1)}
    assert sent(scheduler.handle(submitted(range(4, 6)), 0.0)) == {0: (4, 5)}
    assert scheduler.handle(Finished(0, (4, 5), 0.1), 0.1) == []
    assert sent(scheduler.handle(Finished(1, (0,), 9.0), 9.0)) == {1: (2,)}
    assert scheduler.handle(submitted([6]), 9.0) == [Send(0, (6,))]
    assert scheduler.handle(Cleared(), 9.0) == [TakeBack(1, (2,)), Cancel((3,))]


def test_only_what_may_move_is_taken_back() -> None:
    """The last tasks in the line of a node that may run on the idle one; a task that came back waits for its node again."""
    scheduler = Scheduler([0, 1])
    assert sent(scheduler.handle(submitted([0], near=[1]), 0.0)) == {1: (0,)}
    assert sent(scheduler.handle(submitted([1, 2, 3]), 0.0)) == {0: (1, 2), 1: (3,)}
    assert scheduler.handle(Finished(0, (1, 2), 0.001), 0.0) == [TakeBack(1, (3,))]
    scheduler.handle(submitted([4], near=[1]), 0.0)
    assert scheduler.handle(Recalled((4,)), 0.0) == [TakeBack(1, (4,))]
    assert scheduler.handle(GaveBack(1, ()), 0.0) == []
    assert scheduler.handle(GaveBack(1, (4,)), 0.0) == [Send(1, (4,))]


def test_nodes_that_have_the_same_are_used_alike() -> None:
    """Tasks near several nodes are dealt out in turn, and each is dealt once."""
    scheduler = Scheduler([0, 1, 2])
    assert sent(scheduler.handle(submitted(range(6), near=[1, 2]), 0.0)) == {1: (0, 2), 2: (1, 3)}
    assert sent(scheduler.handle(Finished(2, (1, 3), 0.1), 0.1)) == {2: (4, 5)}
    assert scheduler.handle(Finished(1, (0, 2), 0.1), 0.1) == [TakeBack(2, (5,))]


def test_tasks_near_lost_nodes_run_anywhere() -> None:
    """First near another node that has what they need, and by any node when there is none."""
    scheduler = Scheduler([0, 1, 2], retries=1)
    scheduler.handle(submitted(range(3), near=[0, 1]), 0.0)
    assert sent(scheduler.handle(Lost(0, "gone"), 0.1)) == {1: (0,)}
    assert sent(scheduler.handle(Lost(1, "gone, too"), 0.2))[2] == (1, 2)
    scheduler.handle(Finished(2, (1, 2), 0.1), 0.3)
    assert sent(scheduler.handle(submitted([7], near=[0, 1]), 0.3)) == {2: (7,)}


def test_a_late_task_is_copied_near_what_it_needs_only() -> None:
    """Elsewhere it could not begin."""
    for near, copied in (([0], []), ([0, 1], [Send(1, (0,))])):
        scheduler = Scheduler([0, 1], pure=True)
        scheduler.handle(submitted([0], near=near), 0.0)
        assert scheduler.handle(Tick(), LATE_SECONDS) == copied
