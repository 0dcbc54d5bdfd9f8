"""What `python -m tests.nn.golden` writes: answers that differ from the stored ones by more than their test allows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nn.arrays import Array
from tests.nn import golden
from tests.nn.golden import ALL, MOST_NUMBERS, RECORD, SOME, Answer, Golden

INPUT = np.arange(6.0).reshape(2, 3)
LARGE = np.linspace(1.0, 2.0, 4 * MOST_NUMBERS)
Ask = Callable[..., bool]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Store what a reference answers to one test of `nn`; return whether the file was written."""
    file = tmp_path / "golden_some.npz"

    def asked(
        answer: Array, found: Array | None = None, *, test: str = "test_it", only: str = ALL, given: Array = INPUT, **close: Any
    ) -> bool:
        before = file.read_bytes() if file.exists() else b""
        monkeypatch.setenv(RECORD, only)
        monkeypatch.setattr(golden, "_recorded", {})
        golden._stored.cache_clear()
        [wanted] = Golden(test, file)(lambda: [answer], given, needs=np)
        if found is not None:
            wanted.close(found, **{"rtol": 1e-5, **close})
        golden.store()
        golden._stored.cache_clear()
        monkeypatch.delenv(RECORD)
        return file.read_bytes() != before

    return asked


def stored(tmp_path: Path, test: str = "test_it") -> Answer:
    golden._stored.cache_clear()
    return golden._stored(tmp_path / "golden_some.npz")[f"{test}#0"][1][0]


@pytest.mark.parametrize("answer", [INPUT, LARGE], ids=["all", "sampled"])
def test_last_digits_stay_as_they_are_stored(answer: Array, ask: Ask, tmp_path: Path) -> None:
    assert ask(answer, answer)
    assert not ask(answer * (1 + 1e-7), answer)
    assert ask(answer * (1 + 1e-3), answer * (1 + 1e-3)), "it differs by more than the test allows"
    assert stored(tmp_path).largest == answer.max() * (1 + 1e-3)


def test_the_narrowest_of_two_tolerances_counts(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    close = Answer.close

    def twice(self: Answer, found: Any, **options: Any) -> None:
        close(self, found, rtol=1e-9, atol=1e-9)
        close(self, found, rtol=1e-1)

    monkeypatch.setattr(Answer, "close", twice)
    assert ask(INPUT, INPUT)
    assert ask(INPUT * (1 + 1e-7), INPUT * (1 + 1e-7))


def test_an_answer_without_a_tolerance_is_kept_to_the_last_bit(ask: Ask) -> None:
    assert ask(INPUT)
    assert not ask(INPUT.copy())
    assert ask(INPUT * (1 + 1e-15))


def test_what_does_not_count_may_differ(ask: Ask, tmp_path: Path) -> None:
    where, other = np.array([True, False]), INPUT.copy()
    other[1] = 100.0
    assert ask(INPUT, INPUT, where=where)
    assert not ask(other, INPUT, where=where)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        stored(tmp_path).close(other, 1e-5)
    stored(tmp_path).close(other, 1e-5, where=where)


def test_other_inputs_and_other_tests_are_stored(ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(INPUT, INPUT)
    assert ask(INPUT, INPUT, given=INPUT + 1), "a fingerprint of other inputs"
    assert ask(INPUT, INPUT, test="test_new", only=SOME)
    assert stored(tmp_path).shape == stored(tmp_path, "test_new").shape == (2, 3)
    capsys.readouterr()
    assert ask(INPUT, INPUT, given=INPUT + 1), "of all tests one has gone"
    assert "golden_some.npz: 1 answers asked for: test_new#0 has gone" in capsys.readouterr().out
    assert RECORD not in os.environ
