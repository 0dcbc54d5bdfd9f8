"""Contenders of a benchmark take turns, each in a process of its own, or in a new one for each round."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.contender import LEAST_SECONDS
from benchmarks.pairing import environment, quartiles, take_turns

from .sources import PACKAGES, ROOT


def prepare(argument: str) -> Callable[[], float]:
    """A contender: the number of its process is its time, and rounds that its process has done before count in tenths.

    With an argument its rounds are short, and count in millionths.
    """
    done = 0

    def run() -> float:
        nonlocal done
        if not argument:
            time.sleep(LEAST_SECONDS)
        done += 1
        return os.getpid() + (done - 1) / (1e6 if argument else 10)

    return run


@pytest.mark.parametrize(
    ("values", "expected"), [([7.0], [7.0] * 3), ([1.0, 2.0], [1.25, 1.5, 1.75]), ([5.0, 1.0, 4.0, 2.0, 3.0], [2.0, 3.0, 4.0])]
)
def test_quartiles_lie_among_the_values(values: list[float], expected: list[float]) -> None:
    """Also those of one round."""
    assert quartiles(values) == expected


@pytest.mark.parametrize("anew", [True, False])
def test_a_round_of_its_own_process(anew: bool) -> None:
    """The first round of a process is thrown away, and without `anew` all rounds have the same process."""
    results = take_turns({"one": (__name__, ""), "other": (__name__, "")}, 1, 2, anew=anew)
    for result in results.values():
        assert not result.note and len(result.seconds) == 2
        assert len({int(each) for each in result.seconds}) == (2 if anew else 1)
        before = [round(each % 1 * 10) for each in result.seconds]
        assert before == ([1, 1] if anew else [1, 2])
    assert {int(each) for each in results["one"].seconds}.isdisjoint(int(each) for each in results["other"].seconds)


def test_short_rounds_are_repeated() -> None:
    """The median of so many as fit counts: some thousands before, and some thousands in the round itself."""
    (first, second) = take_turns({"one": (__name__, "short")}, 1, 2)["one"].seconds
    before, later = (round(each % 1 * 1e6) for each in (first, second))
    assert 10 < before < later - 10


def test_a_contender_that_cannot_begin_says_why() -> None:
    assert "No module named 'no_such'" in take_turns({"one": ("no_such", "")}, 1, 1, anew=True)["one"].note


def test_a_benchmark_that_fails_is_that_of_this_checkout(tmp_path: Path) -> None:
    """The product stays that of the checkout; where both fail, the error is that of the checkout's own benchmark."""
    for name in PACKAGES:
        (tmp_path / name).symlink_to(ROOT / name)
    own = tmp_path / "benchmarks" / "codecs"
    own.mkdir(parents=True)
    for folder in (own, own.parent):
        (folder / "__init__.py").touch()
    (own / "stage.py").write_text("def prepare(argument):\n    raise TypeError('of the checkout')\n")

    found, failed = (
        take_turns({"one": ("benchmarks.codecs.stage", f"{stage}:decode")}, 1, 1, {"one": tmp_path})["one"]
        for stage in ("momentum", "no_such")
    )
    assert not found.note and 0 < found.seconds[0] < 1
    assert failed.note == "TypeError: of the checkout"


def test_contenders_keep_what_they_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """As programs of users do: else each start of a process compiles the modules that were changed last, of one side alone."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert "PYTHONDONTWRITEBYTECODE" not in environment(1)
