"""Written forms of platforms: a text of words, and TOML.

    star 1Gbit/s 50us
    star of 8 hosts, 1Gbit/s 50us, fifo
    star 1Gbit/s 50us, 2 nodes per host, 4 cores per host, backbone 10Gbit/s
    ring 16 hosts 50GiB/s 500ns store-and-forward
    mesh 1Gbit/s 50us
    fat tree 1Gbit/s 50us, 4 hosts per leaf, 2 spines
    two sites 1Gbit/s 50us, thin link 50Mbit/s 20ms
    star 10Mbit/s 20ms, flow, LV08, cross-traffic, window 4194304

Commas and the words `of` and `a` only separate. In TOML each field of `Platform` is a key; times and rates are texts as here,
or numbers of seconds and of bytes per second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from network.names import did_you_mean
from network.units import RATE, TIME, rate_of, rate_text, seconds_of, time_text
from nn.arguments import instance, short
from rpc.support.files import parsed_toml, read_toml

from ..record.plain import toml_of
from .calibration import Calibration, calibration_lines
from .codec_time import codec_time_of
from .platform import FACTORS, FULL, HALF, MODELS, PORTS, SHAPES, TRANSPORTS, Platform

__all__ = ["parse_platform", "platform_from_toml", "platform_of", "platform_to_toml"]

_TIME: Final = re.compile(TIME)
_RATE: Final = re.compile(RATE)
_COUNT: Final = re.compile(r"\d{1,9}")
_SHARE: Final = re.compile(r"(\d{1,2}(?:\.\d{1,9})?)%")
_SHAPES: Final = {**{shape: shape for shape in SHAPES}, "full mesh": "mesh"}
_WORDS: Final = {
    **dict.fromkeys(MODELS, "model"),
    **dict.fromkeys(PORTS, "ports"),
    **{name: "factors" for name in FACTORS if name != "none"},  # "none" is the default, of which no text needs a word
    **{f"{duplex} duplex": "duplex" for duplex in (FULL, HALF)},
    **{f"over {name}": "transport" for name in TRANSPORTS},
}
_COUNTED: Final = {
    "hosts": "hosts",
    "host": "hosts",
    "nodes per host": "nodes_per_host",
    "cores per host": "cores",
    "cores": "cores",
    "hosts per leaf": "leaf",
    "spines": "spines",
    "spine": "spines",
    "hosts near": "near",
}
_RATES: Final = ("bandwidth", "backbone", "thin_bandwidth", "local_bandwidth")
_TIMES: Final = ("latency", "thin_latency", "local_latency")
_LINES: Final = ("latencies", "bandwidths")


def platform_of(given: Platform | str | Path) -> Platform:
    """Return a platform, given as such, as its text, or as the path of a TOML file.

    Args:
        given: the platform; a text that ends in `.toml` is a path.

    Raises:
        ValueError: It cannot be parsed, a field is wrong, or the file cannot be read.
    """
    if isinstance(given, Platform):
        return given
    if isinstance(given, Path) or (isinstance(given, str) and given.endswith(".toml")):
        try:
            content = read_toml(Path(given))
        except OSError as error:
            raise ValueError(
                f"The platform {str(given)!r} must be a TOML file that can be read, got {error.strerror or error}."
            ) from None
        except ValueError as error:
            raise ValueError(f"The platform {str(given)!r} must be a TOML file, got {error}.") from None
        try:
            return _from_table(content)
        except ValueError as error:
            raise ValueError(f"{error} The file was {str(given)!r}.") from None
    if not isinstance(given, str):
        raise ValueError(f"A platform must be a text such as 'star 1Gbit/s 50us', a path or a Platform, got {given!r}.")
    return parse_platform(given)


def parse_platform(text: str) -> Platform:
    """Read the text of a platform.

    Args:
        text: its words; the module's description tells them.

    Raises:
        ValueError: naming the field, the expectation, and the text that came.
    """
    if not isinstance(text, str):
        raise TypeError(f"parse_platform() 'text' must be a text such as 'star 1Gbit/s 50us', got {short(text)}")
    return _Text(text).platform()


class _Text:
    """Text of a platform while it is read, word by word."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = [word for word in text.replace(",", " ").split() if word not in ("of", "a")]
        self._fields: dict[str, Any] = {}

    def platform(self) -> Platform:
        shape = self._take(_SHAPES)
        if shape is None:
            near = did_you_mean(" ".join(self._words[:1]), _SHAPES).rstrip("?")
            # a word with a dot is meant as a file rather
            file = "; a platform's file ends in .toml" if "." in self._text.partition(" ")[0] else ""
            raise self._error("shape", f"one of {', '.join(SHAPES)} at its begin", self._next() + near + file)
        self._fields["shape"] = _SHAPES[shape]
        while self._words:
            self._clause()
        try:
            return Platform(**self._fields)
        except ValueError as error:
            raise ValueError(f"{error} The text was {self._text!r}.") from None

    def _clause(self) -> None:
        """Read one rate, time, count or word."""
        word = self._words[0]
        if _RATE.fullmatch(word):
            self._set("bandwidth", self._rate("bandwidth"))
        elif _TIME.fullmatch(word):
            self._set("latency", self._time("latency"))
        elif _COUNT.fullmatch(word):
            self._words.pop(0)
            unit = self._take(_COUNTED)
            if unit is None:
                raise self._error("hosts", f"a unit behind {word}: one of {', '.join(_COUNTED)}", self._next())
            self._set(_COUNTED[unit], int(word))
        elif (name := self._take(_WORDS)) is not None:
            self._set(_WORDS[name], name.removeprefix("over ").removesuffix(" duplex"))
        else:
            self._option(self._words.pop(0))

    def _option(self, word: str) -> None:
        """Read the words behind the name of an option."""
        if word == "thin" and self._words[:1] == ["link"]:
            self._words.pop(0)
            self._set("thin_bandwidth", self._rate("thin_bandwidth"))
            self._set("thin_latency", self._time("thin_latency"))
        elif word == "local":
            self._set("local_bandwidth", self._rate("local_bandwidth"))
            self._set("local_latency", self._time("local_latency"))
        elif word == "backbone":
            self._set("backbone", self._rate("backbone"))
        elif word == "cross-traffic":
            self._set("cross_traffic", True)
        elif word == "window":
            self._set("window", float(self._match(_COUNT, "window", "bytes such as 4194304")[0]))
        elif word == "limit":
            self._set("limit", int(self._match(_COUNT, "limit", "a number of flows such as 2")[0]))
        elif word == "fading":
            self._set("fading", float(self._match(_SHARE, "fading", "a share such as 10%")[1]) / 100)
        else:
            raise self._unknown(word)

    def _unknown(self, word: str) -> ValueError:
        number = word.removeprefix("-")
        if _TIME.fullmatch(number):
            return self._error("latency", "a time of at least 0 such as 50us", repr(word))
        if _RATE.fullmatch(number) or re.fullmatch(r"[\d.]+\S*", number):
            return self._error("bandwidth", "a rate such as 1Gbit/s, and the latency a time such as 50us", repr(word))
        known = [*_WORDS, "thin link", "backbone", "local", "cross-traffic", "window", "limit", "fading"]
        near = did_you_mean(word, known).rstrip("?")
        return self._error("words", f"a rate, a time, a count, or one of {', '.join(known)}", repr(word) + near)

    def _take(self, names: Mapping[str, str]) -> str | None:
        """Take the longest of `names` that the next words are."""
        # no name has more words
        for count in (3, 2, 1):
            name = " ".join(self._words[:count])
            # a slice may have fewer words than asked for; its own count comes later
            if name in names and len(self._words) >= count:
                del self._words[:count]
                return name
        return None

    def _rate(self, field: str) -> float:
        found = self._match(_RATE, field, "a rate such as 1Gbit/s")
        return rate_of(found[1], found[2])

    def _time(self, field: str) -> float:
        found = self._match(_TIME, field, "a time such as 50us")
        return seconds_of(found[1], found[2])

    def _match(self, pattern: re.Pattern[str], field: str, expected: str) -> re.Match[str]:
        word = self._words.pop(0) if self._words else None
        found = pattern.fullmatch(word or "")
        if found is None:
            raise self._error(field, expected, "nothing" if word is None else repr(word))
        return found

    def _set(self, field: str, value: object) -> None:
        if field in self._fields:
            raise self._error(field, "once", f"{self._fields[field]!r} and {value!r}")
        self._fields[field] = value

    def _next(self) -> str:
        return repr(self._words[0]) if self._words else "nothing"

    def _error(self, field: str, expected: str, got: str) -> ValueError:
        return ValueError(f"The platform {self._text!r} must have as its '{field}' {expected}, got {got}.")


def platform_from_toml(text: str) -> Platform:
    """Read a platform from TOML.

    Args:
        text: content of the file.

    Raises:
        ValueError: naming the key, the expectation, and the value that came.
    """
    if not isinstance(text, str):
        raise TypeError(f"platform_from_toml() 'text' must be the text of a TOML file, got {short(text)}")
    return _from_table(parsed_toml(text))


def _from_table(content: Mapping[str, Any]) -> Platform:
    known = [field.name for field in fields(Platform)]
    for name in content:
        if name not in known:
            near = did_you_mean(name, known).rstrip("?")
            raise ValueError(f"The platform must have keys among {', '.join(known)}, got {name!r}{near}.")
    return Platform(**{name: _read(name, value) for name, value in content.items()})


def _read(name: str, value: Any) -> Any:
    """Return the value of a field for an entry of the file; `Platform` checks it further."""
    if name == "calibration":
        return _calibration(value)
    if name in _RATES:
        return _quantity(name, value, _RATE, rate_of, "a rate such as '1Gbit/s', or bytes per second")
    if name in _TIMES:
        return _quantity(name, value, _TIME, seconds_of, "a time such as '50us', or seconds")
    if name in _LINES and isinstance(value, list):
        kind = "latency" if name == "latencies" else "bandwidth"
        return [[_read(kind, item) for item in row] if isinstance(row, list) else row for row in value]
    return value


def _calibration(value: Any) -> Calibration:
    """Return the calibration of a file, with times of codecs that a job takes."""
    found = Calibration.of(value)
    try:
        codec_time_of(found.table())
    except (TypeError, ValueError) as error:
        raise ValueError(f"The platform's 'calibration' must have times of codecs: {error}.") from None
    return found


def _quantity(name: str, value: Any, pattern: re.Pattern[str], read: Callable[[str, str], float], expected: str) -> Any:
    """Return the number for which a text stands; numbers are in seconds or bytes per second already."""
    if not isinstance(value, str):
        return value
    found = pattern.fullmatch(value)
    if found is None:
        raise ValueError(f"The platform's '{name}' must be {expected}, got {value!r}.")
    return read(found[1], found[2])


def platform_to_toml(platform: Platform) -> str:
    """Write a platform as TOML that is read as an equal one.

    Args:
        platform: any; fields with their defaults are left out, but for model and ports.

    Raises:
        TypeError: It is no platform.
    """
    instance("platform_to_toml()", "platform", platform, Platform)
    lines = []
    for field in fields(platform):
        value = getattr(platform, field.name)
        if (value == field.default and field.name != "shape") or isinstance(value, Calibration):
            continue
        if field.name in _LINES:
            rows = ",\n".join(f"    {toml_of(list(row))}" for row in value)
            lines.append(f"{field.name} = [\n{rows},\n]")
        else:
            lines.append(f"{field.name} = {toml_of(_written(field.name, value))}")
    if platform.calibration is not None:  # behind all plain keys: in TOML these would belong to the table before them
        lines += calibration_lines(platform.calibration, toml_of)
    return "\n".join(lines) + "\n"


def _written(name: str, value: Any) -> Any:
    """Return the text of a time or rate where it is read as the same number, else the number."""
    if name in _RATES and (found := _RATE.fullmatch(rate_text(value))) and rate_of(found[1], found[2]) == value:
        return found[0]
    if name in _TIMES and (found := _TIME.fullmatch(time_text(value))) and seconds_of(found[1], found[2]) == value:
        return found[0]
    return list(value) if isinstance(value, tuple) else value
