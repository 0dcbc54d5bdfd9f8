"""Command lines: near words for what is misspelt, in words of our own, and the help of many options."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from rpc import OptionParser


def make() -> OptionParser:
    parser = OptionParser(prog="program")
    parser.add_argument("--shape", choices=("ring", "star"), help="how the nodes are joined")
    parser.add_argument("--count", type=int, choices=range(2), help="how many there are")
    parser.add_argument("--weight", type=float)
    parser.add_argument("--size", type=int, nargs=2, metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--quiet", action="store_true")
    parser.meant_options = {"form": "--shape", "counter": ""}
    return parser


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--shape rnig", "argument --shape: must be one of ring, star, got 'rnig'; did you mean ring?"),
        ("--shape '", 'argument --shape: must be one of ring, star, got "\'"'),
        ("--count 7", "argument --count: must be one of 0, 1, got 7"),
        ("--count two", "argument --count: must be an integer, got 'two'"),
        ("--count", "argument --count: needs a value, as in '--count {0,1}', got none"),
        ("--size 3", "argument --size: needs 2 values, as in '--size WIDTH HEIGHT', got 1"),
        ("--size=3", "argument --size: needs 2 values, as in '--size WIDTH HEIGHT', got 1"),
        ("--size --quiet", "argument --size: needs 2 values, as in '--size WIDTH HEIGHT', got none"),
        ("--weight x", "argument --weight: must be a number, got 'x'"),
        ("--shpae ring", "unrecognized arguments: --shpae ring; did you mean --shape?"),
        ("--form ring", "unrecognized arguments: --form ring; did you mean --shape?"),
        ("--counter 3", "unrecognized arguments: --counter 3"),
        ("shapes", "unrecognized arguments: shapes"),
        ("shape ring", "unrecognized arguments: shape ring; did you mean --shape?"),
        ("my.shape", "unrecognized arguments: my.shape; did you mean --shape my.shape?"),
        ("my.quiet", "unrecognized arguments: my.quiet"),
        (
            "--count two --form ring",
            "argument --count: must be an integer, got 'two'; --form is no option; did you mean --shape?",
        ),
        ("--qui", "unrecognized arguments: --qui; did you mean --quiet?"),
        ("--s ring", "unrecognized arguments: --s ring; did you mean --shape {ring,star} or --size WIDTH HEIGHT?"),
        ("--weigh=3", "unrecognized arguments: --weigh=3; did you mean --weight?"),
    ],
)
def test_what_is_misspelt_is_told_alike_by_every_version_of_python(
    given: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        make().parse_args(given.split())
    assert capsys.readouterr().err.splitlines()[-1] == f"program: error: {said}"


def test_help_shows_few_options_and_help_all_shows_all(capsys: pytest.CaptureFixture[str]) -> None:
    parser = make()
    parser.show_first(["count"])
    parser.add_argument("--later", help="added afterwards")
    for asked, shown in (("--help", False), ("--help-all", True)):
        with pytest.raises(SystemExit, match=r"^0$"):
            parser.parse_args([asked])
        printed = capsys.readouterr().out
        assert ("how the nodes are joined" in printed) == ("--shape" in printed) == shown
        assert "how many there are" in printed and "--later" in printed and "show all options, 4 more" in printed
    assert parser.parse_args(["--shape", "ring"]).shape == "ring"


def test_a_parser_of_few_options_shows_them_all() -> None:
    assert make().format_help() == argparse.ArgumentParser.format_help(make()) and "--help-all" not in make().format_help()


@pytest.mark.parametrize(
    ("prog", "called", "on_path", "words"),
    [
        ("psgd submit", "{}/psgd", True, ["psgd", "submit"]),
        ("psgd submit", "{}/psgd", False, ["{}/psgd", "submit"]),
        ("psgd submit", "{}/pytest", True, ["psgd", "submit"]),
        ("job_submit.py", "../psgd/job_submit.py", True, ["python", "../psgd/job_submit.py"]),
        ("job_submit.py", "../psgd/job_submit.py", False, ["{}/python", "../psgd/job_submit.py"]),
        ("python -m psgd submit", "x/psgd/__main__.py", True, ["python", "-m", "psgd", "submit"]),
    ],
)
def test_a_command_is_kept_so_that_it_can_be_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prog: str, called: str, on_path: bool, words: list[str]
) -> None:
    """In the same folder: a script by its place, a program by its name alone where a shell finds this one by it."""
    for name in ("python", "psgd"):
        (tmp_path / name).touch(0o700)
    monkeypatch.setenv("PATH", str(tmp_path) if on_path else "")
    monkeypatch.setattr(sys, "argv", [called.format(tmp_path)])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    parser = OptionParser(prog=prog)
    parser.add_argument("-n")
    parser.keeps_words = True
    assert parser.parse_args(["-n", "2"]).words == [*(word.format(tmp_path) for word in words), "-n", "2"]
