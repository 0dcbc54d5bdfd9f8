"""Times and rates as texts: what is written is read as the same number."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.units import RATE, TIME, plain_number, rate_of, rate_text, seconds_of, time_text


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ns", 5e-7), ("50us", 5e-5), ("1.5ms", 1.5e-3), ("0ms", 0.0), ("4s", 4.0), ("2min", 120.0)]
)
def test_times_are_read(text: str, seconds: float) -> None:
    found = re.fullmatch(TIME, text)
    assert found is not None and seconds_of(found[1], found[2]) == seconds


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("8bit", 1.0),
        ("8kbit", 1e3),
        ("1Mbit/s", 125e3),
        ("1gbit", 125e6),
        ("1Gbit/s", 125e6),
        ("7.20975MB/s", 7.20975e6),
        ("20B/s", 20.0),
        ("1kB/s", 1e3),
        ("1GB/s", 1e9),
        ("50GiB/s", 50 * 2.0**30),
    ],
)
def test_rates_are_read(text: str, rate: float) -> None:
    found = re.fullmatch(RATE, text)
    assert found is not None and rate_of(found[1], found[2]) == rate


@pytest.mark.parametrize("text", ["1Mb/s", "1MB", "1mB/s", "1gib/s", "-1mbit", "1e3bit", "1 mbit", "mbit", "1.mbit"])
def test_other_texts_are_no_rates(text: str) -> None:
    """A small b might be bits or bytes, so neither is guessed."""
    assert re.fullmatch(RATE, text) is None


@given(st.floats(0.0, 1e8))
def test_a_time_is_read_as_it_was_written(seconds: float) -> None:
    found = re.fullmatch(TIME, time_text(seconds))
    assert found is None or seconds_of(found[1], found[2]) == seconds
    assert found is not None or seconds < 1e-15, "only the smallest have more digits than are read"


@given(st.floats(1e-3, 1e15))
def test_a_rate_is_read_as_it_was_written(rate: float) -> None:
    found = re.fullmatch(RATE, rate_text(rate))
    assert found is not None and rate_of(found[1], found[2]) == rate


def test_numbers_have_no_needless_zeros() -> None:
    assert [plain_number(each) for each in (4_194_304.0, 0.5, 1e-7)] == ["4194304", "0.5", "0.0000001"]
