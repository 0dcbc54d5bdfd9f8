"""Wrong options of `job_submit.py` end in two short lines, before anything is asked of anybody."""

from __future__ import annotations

import pytest

from parallel_sgd.commands.options import make_parser, settings_of

from ..statements import covers


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--stop", ""], "argument --stop: must be a job's id, as --jobs shows it, got ''"),
        (["--jobs", "--stop", "a"], "argument --stop: not allowed with argument --jobs"),
        (["--attach", "--retrieve"], "argument --retrieve: not allowed with argument --attach"),
        (["--stop", "a", "--post-mortem", "a"], "argument --post-mortem: not allowed with argument --stop"),
        (["-m", "a", "--quiet", "-v"], "argument -v/--verbose: not allowed with argument -q/--quiet"),
        (["--epochs", "many"], "argument --epochs: invalid int value: 'many'"),
    ],
)
def test_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        make_parser().parse_args(arguments)
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert printed.endswith(f"job_submit.py: error: {message}\n")
    assert len(printed.splitlines()) == 3, printed  # how to call it, not all options


@covers("SUB-45")
def test_every_epoch_has_an_order_of_its_own_unless_one_says_so() -> None:
    """On the command line."""
    parser = make_parser()
    assert settings_of(parser.parse_args(["-m", "dnn.model"]))["shuffle"] is True
    assert settings_of(parser.parse_args(["-m", "dnn.model", "--no-shuffle"]))["shuffle"] is False


def test_how_much_is_shown() -> None:
    parser = make_parser()
    for given, verbose in (([], 1), (["-q"], 0), (["--quiet"], 0), (["-v"], 2), (["--verbose"], 2)):
        assert settings_of(parser.parse_args(["-m", "dnn.model", *given]))["verbose"] == verbose
