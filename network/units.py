"""Times and rates as texts: one parser and one writer for fault plans and for platforms of a simulation.

    time     500ms   1.5s   2min   50us   500ns
    rate     1mbit   1Gbit/s   8 kbit is 1000 bytes per second   125MB/s   50GiB/s

Bits are written in any case, with or without `/s`; bytes as `B`, `kB`, `MB`, `GB`, `KiB`, `MiB` or `GiB`, with `/s`. A number
is decimal and exact: the float that is returned is the nearest to it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

__all__ = ["RATE", "TIME", "plain_number", "rate_of", "rate_text", "seconds_of", "time_text"]

_TIME_UNITS: Final = {"ns": Decimal("1e-9"), "us": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1), "min": Decimal(60)}
_BIT_UNITS: Final = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_BYTE_UNITS: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_NUMBER: Final = r"\d{1,9}(?:\.\d{1,30})?"

TIME: Final = rf"({_NUMBER})(ns|us|ms|s|min)"
"""Expression of a time, with two groups: the arguments of `seconds_of`."""
RATE: Final = rf"({_NUMBER})((?i:[kmg]?bit)(?:/s)?|(?:[kMG]|[KMG]i)?B/s)"
"""Expression of a rate, with two groups: the arguments of `rate_of`."""


def seconds_of(number: str, unit: str) -> float:
    """Return the seconds of a time.

    Args:
        number: first group of `TIME`.
        unit: second group of `TIME`.
    """
    # in decimal, rounded once: two roundings may miss the float that is nearest to what is written
    return float(Decimal(number) * _TIME_UNITS[unit])


def rate_of(number: str, unit: str) -> float:
    """Return the bytes per second of a rate.

    Args:
        number: first group of `RATE`.
        unit: second group of `RATE`.
    """
    name = unit.removesuffix("/s")
    if name in _BYTE_UNITS:
        return float(Decimal(number) * _BYTE_UNITS[name])
    return float(Decimal(number) * _BIT_UNITS[name.lower()] / 8)


def time_text(seconds: float) -> str:
    """Write a time so that it is read as the same float.

    Args:
        seconds: at least 0.
    """
    exact = _exact(seconds)
    for unit in ("s", "ms", "us"):
        if exact >= _TIME_UNITS[unit] or (unit == "ms" and not exact):
            return f"{plain_number(exact / _TIME_UNITS[unit])}{unit}"
    return f"{plain_number(exact / _TIME_UNITS['ns'])}ns"


def rate_text(rate: float) -> str:
    """Write a rate in bits per second so that it is read as the same float.

    Args:
        rate: bytes per second, above 0.
    """
    bits = _exact(rate) * 8
    for unit in ("gbit", "mbit", "kbit"):
        if bits >= _BIT_UNITS[unit]:
            return f"{plain_number(bits / _BIT_UNITS[unit])}{unit}"
    return f"{plain_number(bits)}bit"


def plain_number(number: Decimal | float) -> str:
    """Write a number without exponent and without zeros at its end.

    Args:
        number: any but an infinity; of a float the shortest decimal that is read as the same float.
    """
    text = format(number if isinstance(number, Decimal) else _exact(number), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _exact(number: float) -> Decimal:
    # the shortest digits that read back as this float
    return Decimal(repr(number))
