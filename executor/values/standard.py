"""Values of the standard library: numbers, dates, paths, and the containers that lists and dicts are not."""

from __future__ import annotations

import collections
import datetime
import functools
import operator
import os
import re
import uuid
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

from ..errors import ConversionError

SMALL = 100  # bytes of a small object beside its parts, at most: a date, a fraction


def small(_data: Any) -> int:
    return SMALL


class Row(NamedTuple):
    """Row of the table: conversion of a kind of values to data and back.

    Args:
        name: tag of the kind in messages.
        types: package and qualified name of each type.
        to_data: makes data of a value.
        from_data: makes the value of data, which may come from a peer.
        weight: estimates the bytes of objects that `from_data` makes of its argument.
    """

    name: str
    types: tuple[str, ...]
    to_data: Callable[[Any], Any]
    from_data: Callable[[Any], Any]
    weight: Callable[[Any], int] = small


def parts(data: Any, *kinds: type | tuple[type, ...]) -> tuple[Any, ...]:
    """Return `data`, a tuple of exactly these types; a tuple of types stands for any of them.

    Raises: ValueError for anything else.
    """
    if type(data) is not tuple or len(data) != len(kinds):
        raise ValueError(f"{len(kinds)} parts were expected")
    for part, kind in zip(data, kinds, strict=True):
        # by exact type: a subclass would be another value
        if type(part) not in (kind if isinstance(kind, tuple) else (kind,)):
            raise ValueError(f"a part is of the type {type(part).__qualname__}")
    return data


def of(data: Any, kind: type) -> Any:
    """Return `data`, of exactly this type.

    Raises: ValueError for anything else.
    """
    return parts((data,), kind)[0]


MOST_DIGITS = 4096  # of a Decimal
_ZONE = re.compile(r"[A-Za-z0-9_+\-]{1,40}(?:/[A-Za-z0-9_+\-]{1,40}){0,3}")
_FACTORIES: dict[str, Any] = {kind.__name__: kind for kind in (list, dict, set, int, float, str, tuple, bool)}
_NONE = type(None)


def _decimal_to(value: Decimal) -> str:
    if len(value.as_tuple().digits) > MOST_DIGITS:
        raise TypeError(f"A Decimal of more than {MOST_DIGITS} digits cannot travel.")
    return str(value)


def _decimal_from(data: Any) -> Decimal:
    if len(of(data, str)) > MOST_DIGITS + 64:  # beside them there are a sign, a point and an exponent
        raise ValueError(f"more than {MOST_DIGITS} digits")
    return Decimal(data)


def _fraction_from(data: Any) -> Fraction:
    numerator, denominator = parts(data, int, int)
    if denominator < 1:
        raise ValueError(f"the denominator is {denominator}")
    return Fraction(numerator, denominator)


def _fraction_weight(data: Any) -> int:
    numerator, denominator = parts(data, int, int)
    return SMALL + int(numerator.bit_length() + denominator.bit_length()) // 7  # Python keeps 30 bits in 4 bytes


def _time_to(value: datetime.time) -> tuple[Any, ...]:
    return value.hour, value.minute, value.second, value.microsecond, value.fold, zone_of(value.tzinfo)


def _time_from(data: Any) -> datetime.time:
    hour, minute, second, microsecond, fold, zone = parts(data, int, int, int, int, int, ZONES)
    return datetime.time(hour, minute, second, microsecond, zone, fold=fold)


def _datetime_to(value: datetime.datetime) -> tuple[Any, ...]:
    return value.year, value.month, value.day, *_time_to(value.timetz())


def _datetime_from(data: Any) -> datetime.datetime:
    year, month, day, *time, zone = parts(data, int, int, int, int, int, int, int, int, ZONES)
    return datetime.datetime.combine(datetime.date(year, month, day), _time_from((*time, zone)))


ZONES = (_NONE, datetime.timezone, zoneinfo.ZoneInfo)


def zone_of(zone: Any) -> Any:
    """Return a zone that may travel: one of pytz becomes the same of the standard library."""
    # without importing pytz
    if type(zone).__module__.partition(".")[0] == "pytz" and isinstance(getattr(zone, "zone", None), str):
        return zoneinfo.ZoneInfo(zone.zone)
    return zone


def _timezone_to(value: datetime.timezone) -> tuple[Any, ...]:
    name = value.tzname(None)
    offset = value.utcoffset(None)
    # a name that follows from the offset is left out, so that equal zones have equal data
    return offset, None if name == datetime.timezone(offset).tzname(None) else name


def _timezone_from(data: Any) -> datetime.timezone:
    offset, name = parts(data, datetime.timedelta, (str, _NONE))
    return datetime.timezone(offset) if name is None else datetime.timezone(offset, name)


def _zone_info_to(value: zoneinfo.ZoneInfo) -> str:
    if value.key is None or not _ZONE.fullmatch(value.key):
        raise TypeError(f"The time zone {value!r} cannot travel: only those with a name in the database of zones can.")
    return value.key


def _zone_info_from(data: Any) -> zoneinfo.ZoneInfo:
    if not _ZONE.fullmatch(of(data, str)):  # it becomes the path of a file
        raise ValueError("no name of a time zone")
    try:
        return zoneinfo.ZoneInfo(data)
    except zoneinfo.ZoneInfoNotFoundError:
        raise ConversionError(f"There is no time zone {data} on this host.") from None


def _path_to(value: Any) -> bytes:
    # bytes: a path need not be valid text
    return os.fsencode(str(value))


def _path_from(kind: Callable[[str], Any], data: Any) -> Any:
    if b"\0" in of(data, bytes):
        raise ValueError("a path holds a null byte")
    return kind(os.fsdecode(data))


def _range_to(value: range) -> tuple[int, int, int]:
    if not all(-(1 << 63) <= number < 1 << 63 for number in (value.start, value.stop, value.step)):
        raise TypeError("A range beyond 64 bits cannot travel.")
    return value.start, value.stop, value.step


def _range_from(data: Any) -> range:
    if not all(-(1 << 63) <= number < 1 << 63 for number in parts(data, int, int, int)):
        raise ValueError("beyond 64 bits")
    return range(*data)


def _path_weight(data: Any) -> int:
    return 700 + 160 * int(data.count(b"/") + data.count(b"\\")) + 4 * len(data)


_BOUND = (_NONE, int, str)


def _slice_to(value: slice) -> tuple[Any, ...]:
    found = value.start, value.stop, value.step
    if not all(type(bound) in _BOUND for bound in found):
        raise TypeError(f"{value!r} cannot travel: a slice of integers, texts and None can.")
    return found


def _deque_from(data: Any) -> collections.deque[Any]:
    items, most = parts(data, list, (int, _NONE))
    # a deque would silently drop the first ones
    if most is not None and len(items) > most:
        raise ValueError("more items than may be in it")
    return collections.deque(items, most)


def _deque_weight(data: Any) -> int:
    return 800 + 9 * len(data[0])


def _set_weight(data: Any) -> int:
    return 230 + 70 * len(data)


def _dict_weight(data: Any) -> int:
    """Estimate the bytes of a dict; an OrderedDict takes the most."""
    return 300 + 110 * len(data)


def _counter_from(data: Any) -> collections.Counter[Any]:
    made: collections.Counter[Any] = collections.Counter()
    # past `Counter.update`, which would add, and count a mapping's items
    dict.update(made, of(data, dict))
    return made


def _default_to(value: collections.defaultdict[Any, Any]) -> tuple[Any, ...]:
    factory = value.default_factory
    name = None if factory is None else getattr(factory, "__name__", "")
    # by name and identity: a class of the user's may be called `list`
    if name is not None and _FACTORIES.get(name) is not factory:
        raise TypeError(f"A defaultdict of {factory!r} cannot travel: send dict(it), or one of {', '.join(_FACTORIES)}.")
    return name, dict(value)


def _default_from(data: Any) -> collections.defaultdict[Any, Any]:
    name, items = parts(data, (str, _NONE), dict)
    return collections.defaultdict(None if name is None else _FACTORIES[name], items)


# an item that hashes is a key of a dict on its way, whose keys the decoder of `network.values` checks
ROWS = [
    Row("complex", ("builtins.complex",), lambda v: (v.real, v.imag), lambda data: complex(*parts(data, float, float))),
    Row("bytearray", ("builtins.bytearray",), bytes, lambda data: bytearray(of(data, bytes)), lambda data: SMALL + len(data)),
    Row("range", ("builtins.range",), _range_to, _range_from),
    Row("slice", ("builtins.slice",), _slice_to, lambda data: slice(*parts(data, _BOUND, _BOUND, _BOUND))),
    Row("set", ("builtins.set",), dict.fromkeys, lambda data: set(of(data, dict)), _set_weight),
    Row("frozenset", ("builtins.frozenset",), dict.fromkeys, lambda data: frozenset(of(data, dict)), _set_weight),
    Row("deque", ("collections.deque",), lambda v: (list(v), v.maxlen), _deque_from, _deque_weight),
    Row("Counter", ("collections.Counter",), dict, _counter_from, _dict_weight),
    Row("OrderedDict", ("collections.OrderedDict",), dict, lambda d: collections.OrderedDict(of(d, dict)), _dict_weight),
    Row("defaultdict", ("collections.defaultdict",), _default_to, _default_from, lambda data: _dict_weight(data[1])),
    Row("Decimal", ("decimal.Decimal",), _decimal_to, _decimal_from, lambda data: SMALL + len(data)),
    Row("Fraction", ("fractions.Fraction",), lambda v: (v.numerator, v.denominator), _fraction_from, _fraction_weight),
    Row("UUID", ("uuid.UUID",), operator.attrgetter("bytes"), lambda data: uuid.UUID(bytes=of(data, bytes))),
    Row(
        "date",
        ("datetime.date",),
        operator.attrgetter("year", "month", "day"),
        lambda data: datetime.date(*parts(data, int, int, int)),
    ),
    Row("time", ("datetime.time",), _time_to, _time_from),
    Row("datetime", ("datetime.datetime",), _datetime_to, _datetime_from),
    Row(
        "timedelta",
        ("datetime.timedelta",),
        operator.attrgetter("days", "seconds", "microseconds"),
        lambda data: datetime.timedelta(*parts(data, int, int, int)),
    ),
    Row("timezone", ("datetime.timezone",), _timezone_to, _timezone_from),
    Row("ZoneInfo", ("zoneinfo.ZoneInfo",), _zone_info_to, _zone_info_from),
    *(
        Row(name, (f"pathlib.{name}",), _path_to, functools.partial(_path_from, kind), _path_weight)
        for name, kind in (("PosixPath", Path), ("PurePosixPath", PurePosixPath), ("PureWindowsPath", PureWindowsPath))
    ),
]
