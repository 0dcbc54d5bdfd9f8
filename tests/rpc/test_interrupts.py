"""Ctrl-C in a place where Python would print and lose it: the callback of a weak reference."""

from __future__ import annotations

import signal
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from rpc.support.console import interrupts_put_off
from tests.programs import python


class Thing:
    """An object that can have weak references."""


def lose(_: object) -> None:
    """Press Ctrl-C, as the callback of a weak reference."""
    signal.raise_signal(signal.SIGINT)


def collect() -> None:
    thing = Thing()
    reference = weakref.ref(thing, lose)
    del thing
    assert reference() is None


def test_it_comes_a_moment_later(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt), interrupts_put_off():
        collect()
        time.sleep(20)
    assert sys.unraisablehook is before and capsys.readouterr().err == ""


def test_other_errors_of_such_a_place_are_told_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: told.append(error.exc_type))
    with interrupts_put_off():
        thing = Thing()
        reference = weakref.ref(thing, lambda _: 1 / 0)
        del thing
    assert reference() is None and told == [ZeroDivisionError]


def test_other_threads_are_left_alone() -> None:
    found = []

    def look() -> None:
        with interrupts_put_off():
            found.append(sys.unraisablehook)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [sys.unraisablehook]


PROGRAM = """
import parallel_sgd
from nn.callback import Callback
from tests.parallel_sgd.record.runs import train
from tests.rpc.test_interrupts import collect

class Press(Callback):
    def on_epoch_end(self, epoch, logs):
        collect()

try:
    train(epoch=3000, callbacks=[Press()], verbose=0)
except KeyboardInterrupt:
    print("ended")
"""


@pytest.mark.processes
def test_a_job_ends_by_it(tmp_path: Path) -> None:
    run = python(tmp_path, "-c", PROGRAM)
    assert (run.stdout, run.returncode) == ("ended\n", 0) and "ignored" not in run.stderr
