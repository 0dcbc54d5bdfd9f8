"""Objects that a command line names, with their arguments: `csv:path=houses.csv,label=price`, `ImageCls:flatten=false`."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from typing import Any

from network.names import did_you_mean

from ..names import UnknownName, find_class

_ARGUMENTS = re.compile(r":(?=\s*[A-Za-z_]\w*\s*=)")
_ARGUMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*=(.*)", re.DOTALL)
_WORDS = {"true": True, "false": False, "none": None}
_PAIRS = {"[": "]", "(": ")", "{": "}"}


def make_object(text: str, base: Any, known: Mapping[str, Any], option: str, *, several: bool = False) -> Any:
    """The object that `NAME` or `NAME:KEY=VALUE,KEY=VALUE` stands for; NAME is what `find_class` takes.

    Values are Python literals, of which nothing is computed; true, false and none in any case; else texts. Lists may hold texts
    without quotation marks: `features=[area,rooms]`. `several`: whether the option takes more than one.

    Raises: UnknownName naming the option, the argument, and what is probably meant.
    """
    name, *rest = _ARGUMENTS.split(text.strip(), maxsplit=1)

    def syntax(head: str, kind: Any, behind: str) -> str:
        if several and behind.partition(":")[0].strip().lower() in known:
            return f"cannot be followed by ':{behind}': several have commas between them; write {head},{behind}"
        return f"takes arguments as KEY=VALUE only, got {behind[:80]!r}; {_takes(head, kind)}"

    found = find_class(name.strip(), base, known, option, syntax=syntax)
    what = f"{option} {name.strip()}"
    arguments = _arguments(rest[0], found, what) if rest else {}
    try:
        inspect.signature(found).bind(**arguments)
    except TypeError as error:
        raise UnknownName(f"{what}: {error}; {_takes(name.strip(), found)}") from None
    try:
        return found(**arguments)
    except (TypeError, ValueError, OSError) as error:
        raise UnknownName(f"{what}: {error}") from error


def split_objects(text: str) -> list[str]:
    """The objects of a text in which commas stand between them and between their arguments."""
    objects: list[str] = []
    for part in _split(text):
        if objects and _ARGUMENT.fullmatch(part) and _ARGUMENTS.search(objects[-1]):
            objects[-1] += f",{part}"
        else:
            objects.append(part)
    return objects


def _arguments(text: str, found: Any, what: str) -> dict[str, Any]:
    parameters = inspect.signature(found).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    arguments: dict[str, Any] = {}
    for part in _split(text):
        match = _ARGUMENT.fullmatch(part)
        if match is None:
            raise UnknownName(f"{what}: arguments must be KEY=VALUE with commas between them, got {part!r}")
        key, value = match[1], literal(match[2])
        if key not in parameters and not takes_any:
            takes = ", ".join(parameters) or "none"
            raise UnknownName(f"{what} has no argument {key!r}{did_you_mean(key, parameters) or '.'} It takes {takes}")
        if key in arguments:
            raise UnknownName(f"{what}: {key!r} must be given once, got it twice")
        if key in parameters and _is_text(parameters[key]) and isinstance(value, (bool, int, float)):
            value = match[2].strip()
        arguments[key] = value
    return arguments


def _is_text(parameter: inspect.Parameter) -> bool:
    """Whether it takes a text, so that 2020 may be the name of a column."""
    return parameter.annotation is str or str(parameter.annotation).startswith("str")


def _takes(name: str, found: Any) -> str:
    """How it is written: with the arguments that it needs, else with those that may be given, if there are any."""
    parameters = inspect.signature(found).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    needed = [p for p in named if p.default is p.empty]
    if not named:
        return f"write {name}: it takes none"
    written = f"{name}:{','.join(f'{p.name}=..' for p in needed or named)}"
    return f"write {written}" if needed else f"write {name} or {written}"


def literal(text: str) -> Any:
    """The value that a text stands for: a Python literal, true, false, none, a list of such, else the text."""
    text = text.strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        pass
    if text.startswith("[") and text.endswith("]"):
        return [literal(part) for part in _split(text[1:-1])]
    if text.startswith("{") and text.endswith("}"):
        pairs = [part.partition(":") for part in _split(text[1:-1])]
        return {literal(key): literal(value) for key, _, value in pairs}
    return text


def _split(text: str) -> list[str]:
    """The parts between commas that stand outside of brackets and quotation marks."""
    parts, open_brackets, quote = [""], "", ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in _PAIRS:
            open_brackets += _PAIRS[character]
        elif open_brackets.endswith(character):
            open_brackets = open_brackets[:-1]
        elif character == "," and not open_brackets:
            parts.append("")
            continue
        parts[-1] += character
    return parts
