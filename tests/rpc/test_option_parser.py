"""Command lines: near words for what is misspelt, in words of our own, and the help of many options."""

from __future__ import annotations

import argparse

import pytest

from rpc import OptionParser


def make() -> OptionParser:
    parser = OptionParser(prog="program")
    parser.add_argument("--shape", choices=("ring", "star"), help="how the nodes are joined")
    parser.add_argument("--count", type=int, choices=range(2), help="how many there are")
    return parser


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--shape rnig", "argument --shape: invalid choice: 'rnig' (choose from 'ring', 'star'); did you mean ring?"),
        ("--shape '", "argument --shape: invalid choice: \"'\" (choose from 'ring', 'star')"),
        ("--count 7", "argument --count: invalid choice: 7 (choose from 0, 1)"),
        ("--shpae ring", "unrecognized arguments: --shpae ring; did you mean --shape?"),
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
        assert "how many there are" in printed and "--later" in printed and "show all options, 1 more" in printed
    assert parser.parse_args(["--shape", "ring"]).shape == "ring"


def test_a_parser_of_few_options_shows_them_all() -> None:
    assert make().format_help() == argparse.ArgumentParser.format_help(make()) and "--help-all" not in make().format_help()
