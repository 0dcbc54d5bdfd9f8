"""Waits of a loop for its disk, and the work of another thread meanwhile."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from rpc.liveness.limits import HEARTBEAT_SECONDS
from rpc.support import disk
from rpc.support.disk import DiskWatch, at_disk


@at_disk
def wait(event: threading.Event) -> bool:
    return event.wait(20)


def test_what_cannot_wait_is_done_meanwhile(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """As often as is looked; not after the wait, and not while the thread computes. A long wait is told, once."""
    monkeypatch.setattr(disk, "_TOLD_SECONDS", 0.8)
    calls: list[int] = []
    enough = threading.Event()

    def meanwhile() -> None:
        calls.append(threading.get_ident())
        if len(calls) > 1 and time.monotonic() - begin > disk._TOLD_SECONDS:  # the thread that looks may stand still, too
            enough.set()

    with DiskWatch(meanwhile), caplog.at_level(logging.WARNING):
        begin = time.monotonic()
        assert wait(enough)
        done = len(calls)
        assert 2 <= done <= (time.monotonic() - begin) / disk.LOOK_SECONDS and threading.get_ident() not in calls
        while time.monotonic() - begin < disk._TOLD_SECONDS + 3 * disk.LOOK_SECONDS:
            pass
        assert len(calls) == done
    assert [record.getMessage().rpartition(" for ")[0] for record in caplog.records] == ["The disk has held this process up"]


def test_the_wait_ends_when_the_other_thread_is_done() -> None:
    """Whatever it works on, the two never work on it at once; also where the wait ends by an error."""
    begun, may_end = threading.Event(), threading.Event()
    at_work = False

    def meanwhile() -> None:
        nonlocal at_work
        at_work = True
        begun.set()
        may_end.wait(20)
        at_work = False

    @at_disk
    def refused() -> None:
        begun.wait(20)
        threading.Timer(0.1, may_end.set).start()
        raise OSError("no room")

    with DiskWatch(meanwhile):
        with pytest.raises(OSError, match="no room"):
            refused()
        assert not at_work and may_end.is_set()


def test_a_wait_within_another_is_a_part_of_it() -> None:
    called = threading.Event()

    @at_disk
    def outer() -> bool:
        wait_shortly()
        return called.wait(20)

    @at_disk
    def wait_shortly() -> None:
        pass

    with DiskWatch(called.set):
        assert outer()


def test_without_a_watch_nothing_is_done() -> None:
    """In other threads than that of the watch, and after its end."""
    called = threading.Event()
    done = threading.Event()
    with DiskWatch(called.set):
        other = threading.Thread(target=wait, args=(done,))
        other.start()
        assert not called.wait(3 * disk.LOOK_SECONDS)
        done.set()
        other.join()
    threading.Timer(3 * disk.LOOK_SECONDS, done.set).start()
    done.clear()
    assert wait(done) and not called.is_set()


def test_a_disk_that_has_failed_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing is done any more, and the others find out."""
    assert disk.MOST_SECONDS == 30 and disk.LOOK_SECONDS < HEARTBEAT_SECONDS  # docs/failure-detection.md
    monkeypatch.setattr(disk, "MOST_SECONDS", 0.6)
    calls: list[float] = []
    with DiskWatch(lambda: calls.append(time.monotonic())):
        begin = time.monotonic()
        threading.Timer(1.5, (end := threading.Event()).set).start()
        assert wait(end)
    assert calls and all(call - begin < 1.0 for call in calls)


def test_where_no_thread_can_be_started_it_serves_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    over = threading.Event()
    over.set()
    with DiskWatch(over.set):
        assert wait(over)
    assert "no heartbeat can be sent: can't start new thread" in caplog.text
