"""Futures of tasks, whose condition is made when somebody waits; and what tasks print and log: caught on the node, bounded, and
shown at the submitter or left with the future."""

from __future__ import annotations

import concurrent.futures as cf
import logging
import os
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from executor.messages import OUTPUT_BYTES, STDERR, STDOUT, Said, TaskOutput, parse_from_node
from executor.tasks import Console, TaskFuture
from network.errors import ProtocolError

from .calls import LIMIT


def waiting_threads(future: TaskFuture[int], count: int, seen: list[object]) -> list[threading.Thread]:
    """Threads that ask for the result, and note what they get."""

    def ask() -> None:
        try:
            seen.append(future.result(LIMIT))
        except cf.CancelledError:
            seen.append("cancelled")

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


@pytest.mark.parametrize("end", ["result", "cancel"])
def test_everybody_who_waits_hears_of_the_end(end: str) -> None:
    """Who waits already, and who asks later."""
    future: TaskFuture[int] = TaskFuture()
    seen: list[object] = []
    threads = waiting_threads(future, 4, seen)
    if end == "result":
        assert future.set_running_or_notify_cancel()
        future.set_result(7)
    else:
        assert future.cancel()
    threads += waiting_threads(future, 1, seen)
    for thread in threads:
        thread.join(LIMIT)
    assert seen == [7 if end == "result" else "cancelled"] * 5


def test_time_outs_and_the_functions_of_the_module() -> None:
    """A wait that ends too early changes nothing; wait and as_completed see the futures as they end."""
    futures: list[cf.Future[int]] = [TaskFuture() for _ in range(3)]
    with pytest.raises(cf.TimeoutError):
        futures[0].result(0.001)
    assert cf.wait(futures, 0.001).done == set()
    for number, future in enumerate(futures):
        assert future.set_running_or_notify_cancel()
        future.set_result(number)
    assert sorted(future.result() for future in cf.as_completed(futures, LIMIT)) == [0, 1, 2]
    assert cf.wait(futures, LIMIT).not_done == set()


def test_a_future_that_nobody_waits_for_is_small() -> None:
    """Less than half a kilobyte, where those of the standard library have more than one."""
    count = 1000
    tracemalloc.start()
    try:
        futures: list[cf.Future[int]] = [TaskFuture() for _ in range(count)]
        assert tracemalloc.get_traced_memory()[0] < 512 * count
        assert not any(future.done() for future in futures)
    finally:
        tracemalloc.stop()


# ---- what tasks print and log


@contextmanager
def catching() -> Iterator[tuple[TaskOutput, list[Said]]]:
    """An output of 100 bytes that is installed meanwhile, and what it has told."""
    told: list[Said] = []
    streams = sys.stdout, sys.stderr
    output = TaskOutput(lambda *said: told.append(Said(*said[:3], said[3].decode())), limit=100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "register_at_fork", lambda **_: None)  # nothing takes that back
        output.install()
    try:
        yield output, told
    finally:
        sys.stdout, sys.stderr = streams
        logging.getLogger().removeHandler(output)


def test_what_a_task_writes_is_told_by_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Of stdout, stderr and loggers, also what threads of the task write; a line without an end at the end of the task."""
    with catching() as (output, told):
        print("before any task")
        output.begin(7)
        print("one", 1)
        print("half", end=" ")
        thread = threading.Thread(target=print, args=("of a thread",))
        thread.start()
        thread.join()
        print("in red", file=sys.stderr)
        logging.getLogger("mine").warning("%d logged", 1)
        sys.stdout.writelines(["last"])
        output.end()
        print("after it")
        assert told == [
            (7, STDOUT, "", "one 1\n"),
            (7, STDOUT, "", "half of a thread\n"),
            (7, STDERR, "", "in red\n"),
            (7, logging.WARNING, "mine", "1 logged"),
            (7, STDOUT, "", "last"),
        ]
        shown = capsys.readouterr()
        assert shown.out == "before any task\none 1\nhalf of a thread\nlastafter it\n"  # the log of the job has everything
        assert shown.err == "in red\n"


def test_what_a_task_writes_is_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    """The first bytes, and how many there were more; the next task begins anew. Text that is no Unicode does not matter."""
    with catching() as (output, told):
        output.begin(1)
        print("x" * 60)
        print("\N{EURO SIGN}" * 30)
        output.end()
        assert [said.text for said in told] == ["x" * 60 + "\n", "\N{EURO SIGN}" * 13, told[-1].text]
        assert told[-1].text == "\n(52 bytes more are in the log of the job only)\n"
        output.begin(2)
        output.write(STDOUT, "\ud800\n")
        output.write(STDOUT, "y" * 9000)
        output.end()
        assert told[3] == (2, STDOUT, "", "\\ud800\n")
        assert told[4] == (2, STDOUT, "", "y" * 93)


def test_the_streams_are_still_streams() -> None:
    with catching():
        assert sys.stdout.encoding
        assert sys.stdout.writable()
        assert sys.stderr.isatty() is False
        sys.stdout.flush()


def show(console: Console, *said: tuple[int, str, str]) -> TaskFuture[Any]:
    future: TaskFuture[Any] = TaskFuture()
    for kind, name, text in said:
        console.take(1, Said(5, kind, name, text), "f", future)
    return future


def test_lines_are_shown_behind_node_and_task(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """On the stream of theirs; nothing acts on a terminal, and of a progress bar the last state is shown."""
    future = show(
        Console(keep=False),
        (STDOUT, "", "a\nb\tc\n"),
        (STDERR, "", "10%\r20%\r"),
        (STDOUT, "", "\x1b[2J"),
        (logging.ERROR, "mine", "bad\nthing"),
    )
    shown = capsys.readouterr()
    assert shown.out == "[Node(1) f#5] a\n[Node(1) f#5] b\tc\n[Node(1) f#5] \\x1b[2J\n"
    assert shown.err == "[Node(1) f#5] 20%\n"
    assert caplog.record_tuples == [("executor.tasks", logging.ERROR, "[Node(1) f#5] mine: bad\n\tthing")]
    assert future.output == ""


def test_output_is_left_with_the_future(capsys: pytest.CaptureFixture[str]) -> None:
    """As it was written; and no more of it than a node may send of a task."""
    console = Console(keep=True, limit=1000)
    future = show(console, (STDOUT, "", "a\n"), (logging.INFO, "mine", "said"), (STDERR, "", "b\n"))
    assert future.output == "a\nINFO mine: said\nb\n"
    assert len(show(console, *[(STDOUT, "", "x" * 5000)] * 5).output) <= 1000 + 8192
    assert show(console, (STDOUT, "", "again")).output == "again"
    assert capsys.readouterr() == ("", "")


def test_a_closed_stream_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
    monkeypatch.setattr(sys, "stderr", None)
    show(Console(keep=False), (STDOUT, "", "a\n"), (STDERR, "", "a\n"))


@pytest.mark.parametrize(
    "entry",
    [
        [],
        [1, 2, "", ""],
        [1, -1, "", b""],
        [1, 1 << 30, "", b""],
        [True, 0, "", b""],
        [1, 0, "", b"\xff"],
        [1, 0, "", b"x" * (2 * OUTPUT_BYTES)],
        "text",
    ],
)
def test_malformed_output_is_refused(entry: object) -> None:
    with pytest.raises(ProtocolError):
        parse_from_node(["said", [entry]])
