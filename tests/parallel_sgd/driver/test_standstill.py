"""A method of the user's that does not return is told where all nodes are in one process, and where Ctrl-C finds it."""

from __future__ import annotations

import bdb
import itertools
import logging
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from parallel_sgd import in_process, simulated
from parallel_sgd.codec import Plain
from parallel_sgd.driver import local_run, standstill
from rpc.support.logs import SUBMIT_LOGGER
from tests.parallel_sgd.record.runs import train

HERE = re.escape(__file__)


class Heard(logging.Handler):
    """Handler that sets an event at each warning of a call that does not return."""

    def __init__(self, times: int = 1) -> None:
        super().__init__()
        self.left, self.event = times, threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "has not returned" in record.getMessage():
            self.left -= 1
            if not self.left:
                self.event.set()


class Slow(Plain):
    """Codec that calls a function of the test at its first packet; the class travels, so it finds the function elsewhere."""

    def receive_blocks(self, content: Any) -> Any:
        standstill.__dict__.pop("of_the_test", int)()
        return super().receive_blocks(content)


@pytest.fixture
def heard() -> Any:
    made = Heard(times=2)
    logging.getLogger(SUBMIT_LOGGER).addHandler(made)
    yield made
    logging.getLogger(SUBMIT_LOGGER).removeHandler(made)


@pytest.mark.parametrize("nodes", [in_process, simulated])
def test_the_method_is_named_as_long_as_it_does_not_return(
    nodes: Any, heard: Heard, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seconds of `stall_timeout` are those of a virtual clock where workers are simulated."""
    monkeypatch.setattr(local_run, "LEAST_STEP_SECONDS", 0.3)
    given = {"stall_timeout": 0.3} if nodes is in_process else {}

    def then() -> None:
        assert heard.event.wait(60)

    with nodes(2) as here:
        monkeypatch.setitem(standstill.__dict__, "of_the_test", then)
        train(nodes=here, directory=tmp_path, codec=Slow, **given)
    told = [each for each in caplog.messages if "has not returned" in each]
    form = re.compile(rf"Slow\.receive_blocks has not returned for \d+ s \({HERE}:\d+, in then\)\.")
    # more where the machine is busy
    assert len(told) >= 2 and all(map(form.fullmatch, told)), told


def test_ctrl_c_says_in_which_method_it_came(
    heard: Heard, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standstill, "_LONG", 0.3)

    def then() -> None:
        assert heard.event.wait(60)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setitem(standstill.__dict__, "of_the_test", then)
    with pytest.raises(KeyboardInterrupt):
        train(directory=tmp_path, codec=Slow, stall_timeout=0.3)
    came, stopped = (each for each in caplog.messages if "Ctrl-C" in each)
    assert re.fullmatch(rf"Ctrl-C came in Slow\.receive_blocks \({HERE}:\d+, in then\), after \d+ s\.", came)
    assert stopped == "The job was stopped by Ctrl-C."


def test_a_breakpoint_is_no_standstill() -> None:
    """The user knows that nothing goes on there."""
    watch = standstill.StandstillWatch(1.0)

    def hook(debugger: bdb.Bdb | None) -> list[str]:
        found = watch._frames() if debugger is None else debugger.runcall(watch._frames)
        return [frame.f_code.co_name for frame, _ in found or ()]

    watch.begin()
    assert (hook(None), hook(bdb.Bdb())) == (["hook"], [])
    watch.end()


def test_a_watch_that_is_not_ended_ends_with_its_function() -> None:
    def watched() -> threading.Thread:
        watch = standstill.StandstillWatch(1.0)
        watch.begin()
        return watch._watcher

    thread = watched()
    thread.join(20)
    assert not thread.is_alive()


def test_a_generator_is_told_where_the_job_does_not_go_on(caplog: pytest.LogCaptureFixture) -> None:
    """It has one frame for all its life, however often it yields."""
    watch, seconds = standstill.StandstillWatch(5.0), itertools.count(1)

    def look() -> None:
        frames = watch._frames()
        assert frames is not None and frames[0][0].f_code is stepping.__code__
        watch._look(frames, float(next(seconds)))

    def stepping() -> Iterator[int]:
        for step in range(20):
            look()
            yield step
        for _ in range(6):
            look()

    # as `begin`, without a thread: the looks are those of this test
    watch._bottom = sys._getframe()
    watch.progress = lambda: steps
    steps = 0
    for steps in stepping():  # noqa: B007  read by `progress`
        assert not caplog.messages
    assert re.fullmatch(rf".*stepping has not returned for 5 s \({HERE}:\d+, in look\)\.", *caplog.messages)


def test_the_progress_of_a_job_changes_as_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[object] = []

    def look(watch: standstill.StandstillWatch) -> None:
        found.append(watch.progress())

    class Looks(Plain):
        """Codec that lets the watch look at each packet."""

        def receive_blocks(self, content: Any) -> Any:
            standstill.__dict__["of_the_test"]()
            return super().receive_blocks(content)

    made: list[standstill.StandstillWatch] = []
    begin = standstill.StandstillWatch.begin
    monkeypatch.setattr(standstill.StandstillWatch, "begin", lambda watch: (made.append(watch), begin(watch))[1])
    monkeypatch.setitem(standstill.__dict__, "of_the_test", lambda: look(made[0]))
    train(directory=tmp_path, codec=Looks)
    assert len(found) > 3 and all(one != other for one, other in itertools.pairwise(found))


def test_a_generator_that_yields_during_a_look_ends_no_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python takes the callers from the frame of a generator that waits."""
    watch, looked, yielded, again = standstill.StandstillWatch(60.0), *(threading.Event() for _ in range(3))

    def stepping() -> Iterator[None]:
        assert looked.wait(20)
        yield

    def is_users(frame: FrameType) -> bool:
        # within a look, whose frame is held
        if frame.f_code is stepping.__code__ and not looked.is_set():
            looked.set()
            assert yielded.wait(20)
        elif yielded.is_set():
            again.set()
        return False

    monkeypatch.setattr(standstill, "is_users", is_users)
    watch.begin()
    next(stepping())
    yielded.set()
    assert again.wait(20)
    watch.end()
