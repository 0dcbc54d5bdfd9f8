"""Numbers as texts for people."""

from __future__ import annotations

import math

from parallel_sgd.record.numbers import figure, seconds


def test_seconds() -> None:
    assert [seconds(number) for number in (0, 59.96, 119.7, 3600)] == ["0 s", "60.0 s", "2 min 0 s", "1 h 0 min"]
    small = (2.4e-7, 3e-6, 0.00096, 0.0013, 0.0099, 0.01)
    assert [seconds(number) for number in small] == ["0 s", "3 µs", "960 µs", "1.3 ms", "9.9 ms", "10 ms"]
    assert [seconds(number) for number in (0.026, 0.034, 0.0994, 0.12)] == ["26 ms", "34 ms", "99 ms", "0.12 s"]
    assert [seconds(number, 3) for number in (0.0012345, 0.034567, 0.12345, 3.456, 34.56)] == [
        "1.23 ms",
        "34.6 ms",
        "0.123 s",
        "3.46 s",
        "34.6 s",
    ]


def test_figures() -> None:
    """Large ones and small ones have four digits, where four decimals are a row of digits or none."""
    assert [figure(number) for number in (0.25, -1.523e17, 1e6, 999999.5, 0.00321, 0.000321, -3.2e-9, 0.0)] == [
        *("0.2500", "-1.523e+17", "1e+06", "999999.5000", "0.0032", "0.000321", "-3.2e-09", "0.0000")
    ]
    assert figure(math.nan) == "nan" and figure(math.inf) == "inf"
