"""What a job process says at its end fits into one packet, whatever the executor left behind."""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from network.values import encode
from rpc import AbsSimpleExecutor, Communication, JobAborted
from rpc.job.report import MOST_FILES, add_remedy, exit_code_of, keep_sources, make_report, outcome_of, shown_to_submitter
from rpc.lease.candidacy import Candidacy
from rpc.process_channel import MAX_PACKET
from rpc.support.files import RESULT_FILE, is_safe_name

from ...statements import covers

logger = logging.getLogger("report test")


class Reporter(AbsSimpleExecutor):
    def __init__(self, names: Any) -> None:
        super().__init__(0, [0], -1)
        self.names = names

    def run(self, com: Communication) -> Any:
        return None

    def trace_files(self) -> Any:
        return self.names


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize(
    ("error", "state", "words"),
    [
        (None, "done", ""),
        (JobAborted("Enough."), "stopped", "This job has been aborted. Enough."),
        (SystemExit(), "failed", "sys.exit() before its work was done"),
        (SystemExit(0), "failed", "sys.exit() before its work was done"),
        (SystemExit(2), "failed", "SystemExit: 2"),
        (KeyError("x"), "failed", "Traceback"),
        (KeyboardInterrupt(), "failed", "KeyboardInterrupt"),
    ],
)
def test_outcomes(error: BaseException | None, state: str, words: str) -> None:
    found, detail = outcome_of(None if error is None else raised(error))
    assert found == state and words in detail


class Unfit:
    """Object that cannot be sent, for a reason of its own."""

    def __reduce__(self) -> Any:
        raise AttributeError("no such thing")

    def __call__(self) -> None:
        pass


@pytest.mark.parametrize("words", [None, "in the words of another version"])
def test_a_function_that_no_spawned_process_can_import_is_told_with_the_remedy(words: str | None) -> None:
    """By the place of the error: Python 3.14 has another class and other words for it than 3.10."""

    def local() -> None: ...

    def hidden() -> None: ...

    hidden.__qualname__ = hidden.__name__
    for function, told in ((local, True), (hidden, True), (Unfit(), False)):
        with pytest.raises((AttributeError, pickle.PicklingError)) as raised:
            multiprocessing.get_context("spawn").Process(target=function).start()
        if words is not None:
            raised.value.args = (words,)
        add_remedy(raised.value)
        assert ("belongs into a module that is installed on the workers" in str(raised.value)) == told


def fail_in_users_code() -> None:
    try:
        encode(object())  # type: ignore[arg-type]
    except TypeError as error:
        raise ValueError("mine") from error


@covers("SUB-16")
def test_a_users_error_is_shown_by_the_users_own_frames() -> None:
    """With what it came of; the frames of this project are in the node's log."""
    with pytest.raises(ValueError, match="mine") as caught:
        fail_in_users_code()
    state, detail = outcome_of(caught.value)
    shown = shown_to_submitter(state, detail, caught.value)
    assert "network/values.py" in detail and "network/values.py" not in shown
    assert shown.count(__file__) == 4 and "in fail_in_users_code" in shown and "\nValueError: mine\n" in shown
    place = rf"{re.escape(__file__)}:\d+, in fail_in_users_code"
    assert re.search(rf"\ntest_a_users_error_is_shown_by_the_users_own_frames raised ValueError: mine \({place}\)\n$", shown)
    assert shown.count("frames of Parallel-SGD are in the node's log") == 2
    assert shown_to_submitter("done", "", None) == ""


def without_the_callers(error: BaseException) -> BaseException:
    """Return an error without the frame of this file, as it comes out of code of this project alone."""
    assert error.__traceback__ is not None
    return error.with_traceback(error.__traceback__.tb_next)


@covers("SUB-16")
def test_an_answer_of_this_project_is_shown_without_its_frames() -> None:
    """A mistake that a statement of ours refuses, such as a packet of a codec that cannot travel, needs its sentence alone."""
    with pytest.raises(TypeError, match="cannot travel") as caught:
        encode(object())  # type: ignore[arg-type]
    error = without_the_callers(caught.value)
    state, detail = outcome_of(error)
    shown = shown_to_submitter(state, detail, error)
    assert detail.count("network/values.py") > 1
    assert shown.startswith("TypeError: builtins.object cannot travel: ") and shown.count("\n") == 1


@covers("SUB-16")
def test_a_fault_of_this_project_is_shown_whole() -> None:
    """What Python raises in our code, and a RuntimeError, which tells of a state that should not be."""
    with pytest.raises(TypeError) as python:
        is_safe_name(3)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError) as own:
        unfinished = object.__new__(Candidacy)
        unfinished._key = None
        unfinished.take_connections()
    for caught in (python, own):
        error = without_the_callers(caught.value)
        state, detail = outcome_of(error)
        assert detail.count(", line ") > 0 and shown_to_submitter(state, detail, error) == detail


@covers("SUB-16")
@pytest.mark.parametrize("text", ["x" * 1_000_000, "\N{SNOWMAN}" * 1_000_000, "\ud800" * 100_000, "\0\x1b[2J"])
def test_everything_fits(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    """a long message, or one that is no text, reaches the submitter, cut at its front."""
    names = [f"{number:03d}" + "\N{SNOWMAN}" * 80 for number in range(400)]
    for name in names:
        (tmp_path / name).touch()
    report = make_report("failed", text + "the end", Reporter(names), tmp_path, logger)
    packet = msgpack.packb(encode(report.to_value())[0])
    assert len(packet) < MAX_PACKET and report.detail.endswith("the end")
    assert 0 < len(report.files) <= MOST_FILES and "one too many" in caplog.text


@covers("SUB-48")
def test_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The result first; what is no file of the folder, and cannot be one, is named in the log and left out. A lost result is a
    failure: an executor that has replaced its output directory has done its work for nothing, and the agent is told so. One
    whose trace_files fails keeps its result."""
    (tmp_path / "a.csv").touch()
    report = make_report("done", "", Reporter(["a.csv"]), tmp_path, logger)
    assert (report.state, report.files) == ("failed", ["a.csv"])
    assert report.detail == f"The result is lost: {RESULT_FILE} is not in the output directory any more." in caplog.text
    assert make_report("stopped", "by hand", Reporter([]), tmp_path, logger).detail == "by hand"  # which leaves none
    for name in (RESULT_FILE, "b.csv"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    names = ["b.csv", "a.csv", "b.csv", "../secret", "folder", "missing", "", 7, "x" * 300, "nul\0", "\udc80"]
    report = make_report("done", "", Reporter(names), tmp_path, logger)
    assert report.files == [RESULT_FILE, "b.csv", "a.csv"]
    assert "'../secret' is no file" in caplog.text and "'missing' is no file" in caplog.text

    def failing() -> Iterator[str]:
        yield "a.csv"
        raise RuntimeError("in trace_files")

    assert make_report("done", "", Reporter(failing()), tmp_path, logger).files == [RESULT_FILE]
    assert "in trace_files" in caplog.text


@covers("FD-9")
@pytest.mark.parametrize(("code", "expected"), [(None, 0), (0, 0), (3, 3), (-1, 255), (10**30, 0), ("reason", 1)])
def test_exit_codes(code: object, expected: int) -> None:
    """a verdict has the code that the system would have seen."""
    assert exit_code_of(SystemExit(code)) == expected


@covers("SUB-37")
def test_sources_are_kept_under_names_that_stay_in_the_folder(tmp_path: Path) -> None:
    """a module may have any name, a file may not."""
    output = tmp_path / "out"
    output.mkdir()
    sources = {"user.codec": "x = 'ä'\n", "../up": "", "a/b": "", "n" * 300: ""}
    assert keep_sources(sources, output) == ["SOURCE-user.codec.py"]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [output / "SOURCE-user.codec.py"]
    assert (output / "SOURCE-user.codec.py").read_text("utf-8") == "x = 'ä'\n"
