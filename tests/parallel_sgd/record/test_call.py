"""How a job was asked for, and the line of it that lets the job go on."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from parallel_sgd.record.call import asked_by, call_of, command, line_to_go_on

FALLEN_BACK = "the same call of parallel(), with resume='last'"


class Job:
    """Stands where a job does in the programs below: they say what their calls look like."""

    def parallel(self, *_given: object, **named: object) -> str:
        with asked_by(call_of(sys._getframe(1), list(named))):
            return line_to_go_on()


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Run a program, and return its `line`."""
    number = iter(range(100))

    def run(text: str) -> Any:
        path = tmp_path / f"program{next(number)}.py"
        path.write_text(text, "utf-8")
        names: dict[str, Any] = {"job": Job(), "__name__": "__main__"}
        exec(compile(text, str(path), "exec"), names)
        return names["line"]

    yield run
    linecache.clearcache()


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("line = job.parallel(0)", "job.parallel(0, resume='last')"),
        ("line = job.parallel(\n    0, # nodes\n    epoch=4,\n)", "job.parallel(0, epoch=4, resume='last')"),
        ("line = str(job.parallel(0, resume='a', seed=7))", "job.parallel(0, seed=7, resume='last')"),
        # it would strike again, at the very batch that comes next
        ("line = job.parallel(0, fault='kill 1@e2.b3', epoch=4)", "job.parallel(0, epoch=4, resume='last')"),
        ("more = {'epoch': 4}\nline = job.parallel(0, **more)", "job.parallel(0, **more, resume='last')"),
        (
            "more = {'epoch': 4, 'fault': 'kill 1@e2.b3'}\nline = job.parallel(0, **more, seed=7)",
            "job.parallel(0, seed=7, **{**more, 'fault': None}, resume='last')",
        ),
        (
            "one, two = {'fault': 'kill 1@e2.b3'}, {'seed': 7}\nline = job.parallel(0, **one, **two)",
            "job.parallel(0, **{**one, **two, 'fault': None}, resume='last')",
        ),
        # would be given twice
        ("more = {'resume': 'a'}\nline = job.parallel(0, **more)", FALLEN_BACK),
        # which of the two is not known
        ("line = job.parallel(0) or job.parallel(1)", FALLEN_BACK),
        ("train = job.parallel\nline = train(0)", FALLEN_BACK),
        (
            "train = job.parallel\nline = train(0, fault='kill 1@e2.b3')",
            "the same call of parallel(), with resume='last' and fault=None",
        ),
        ("job.epoch = '4 épochs'\nline = job.parallel(job.epoch)", "job.parallel(job.epoch, resume='last')"),
    ],
)
def test_a_call_in_its_own_words(told: Callable[[str], Any], program: str, line: str) -> None:
    assert told(program) == line


def test_a_call_without_text() -> None:
    """As of `python -c`, where Python keeps none."""
    names: dict[str, Any] = {"job": Job()}
    exec("line = job.parallel(0)", names)
    assert names["line"] == FALLEN_BACK


def test_a_file_that_is_edited_while_the_job_runs(tmp_path: Path) -> None:
    """The call is told as it was made, also where another one then stands on its line; the next job has the new text."""
    path = tmp_path / "train.py"

    class Edited(Job):
        def parallel(self, *_given: object, **_named: object) -> str:
            with asked_by(call_of(sys._getframe(1), [])):
                path.write_text("# warmer\nline = job.parallel(1, epoch=400)\n", "utf-8")
                linecache.checkcache(str(path))
                linecache.getlines(str(path))  # as a traceback looks at it
                return line_to_go_on()

    names: dict[str, Any] = {"job": Edited()}
    for number, before in enumerate(["", "\n"]):
        path.write_text(program := f"{before}line = job.parallel({number})\n", "utf-8")
        exec(compile(program, str(path), "exec"), names)
        assert names["line"] == f"job.parallel({number}, resume='last')"
    linecache.clearcache()


def test_who_asks_first_is_told(told: Callable[[str], Any]) -> None:
    """A command that calls `parallel()` itself names the command; packages of ours that train for others name nothing."""
    assert line_to_go_on() == ""
    names: dict[str, Any] = {"job": Job(), "__name__": "parallel_sgd.commands.submit"}
    with asked_by(command(["psgd", "submit"])):
        exec("line = job.parallel(0)", names)
        assert names["line"] == "psgd submit --resume last"
    exec("line = job.parallel(0)", names)
    assert names["line"] == ""


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["psgd", "run", "runs/my net-1"], "psgd run 'runs/my net-1' --resume last"),
        (["psgd", "submit", "--resume", "20261120-173000-9f86d081", "--local", "2"], "psgd submit --local 2 --resume last"),
        (["psgd", "submit", "--resume=runs/a-1", "-n", "2"], "psgd submit -n 2 --resume last"),
        (["psgd", "submit", "--fault", "kill 1@e2.b3", "-n", "2", "--fault=+1s 0>1"], "psgd submit -n 2 --resume last"),
        # cut short, as the parser takes them
        (["psgd", "submit", "--faul", "kill 1@e2.b3", "-n", "2", "--res=runs/a-1"], "psgd submit -n 2 --resume last"),
    ],
)
def test_a_command(words: list[str], line: str) -> None:
    assert command(words)() == line
