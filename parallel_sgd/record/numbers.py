"""Numbers as texts for people: seconds, and figures such as a loss."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["figure", "seconds"]

_DIGITS: Final = 4
_SMALL: Final = 1e-3  # of which four decimals show a digit or none


def seconds(number: float, digits: int = 2) -> str:
    """Return a `number` of seconds as a time for people; all that we print tells times by it.

    Args:
        number: the seconds.
        digits: how many digits are told of a time below a minute; of seconds always tenths.

    >>> seconds(0.00123), seconds(0.0345), seconds(0.123), seconds(3.71), seconds(75.4), seconds(7384)
    ('1.2 ms', '34 ms', '0.12 s', '3.7 s', '1 min 15 s', '2 h 3 min')
    >>> seconds(0.0345, 3), seconds(3.714, 3)
    ('34.5 ms', '3.71 s')
    """
    if number < 5e-7:  # which would read 0 µs
        return "0 s"
    if number < 60:
        # short ones in a smaller unit: 0.03 s may be 26 ms and 34 ms
        size, unit, least = (1.0, "s", 1) if number >= 0.1 else (1e3, "ms", 0) if number >= 1e-3 else (1e6, "µs", 0)
        told = number * size
        places = 0 if unit == "µs" else max(least, digits - 1 - math.floor(math.log10(told)))
        return f"{told:.{places}f} {unit}"
    minutes, rest = divmod(round(number), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def figure(value: float) -> str:
    """Return a loss or metric, a `value`, for people: four decimals, or four digits of one that is large, or small and not 0.

    >>> figure(0.25), figure(2820988207104.0), figure(0.0000321), figure(0.0)
    ('0.2500', '2.821e+12', '3.21e-05', '0.0000')
    """
    is_small = 0 < abs(value) < _SMALL
    return f"{value:.{_DIGITS}f}" if abs(value) < 1e6 and not is_small else f"{value:.{_DIGITS}g}"
