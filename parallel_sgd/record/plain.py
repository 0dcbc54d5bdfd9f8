"""Plain data as TOML has it: a value that TOML lacks is a table with one key, which says its kind.

`{none = true}` is None, `{tuple = [..]}` a tuple, `{bytes = "00ff"}` bytes, and `{pairs = [[key, value], ..]}` a dict with keys
that are no texts, or that would be taken for one of these.
"""

from __future__ import annotations

import json
from typing import Any, Final

__all__ = ["NoText", "decoded", "encoded", "toml_of"]

_NONE, _TUPLE, _BYTES, _PAIRS = "none", "tuple", "bytes", "pairs"
_TAGS: Final = (_NONE, _TUPLE, _BYTES, _PAIRS)


class NoText(ValueError):
    """Error for a value that has no text in TOML; the message describes the value."""


def encoded(value: Any) -> Any:
    """Return lists, tables, texts, numbers and switches that stand for `value`, plain data.

    Raises: NoText for an object of another class.
    """
    if value is None:
        return {_NONE: True}
    if type(value) is tuple:
        return {_TUPLE: [encoded(item) for item in value]}
    if type(value) is bytes:
        return {_BYTES: value.hex()}
    if type(value) is list:
        return [encoded(item) for item in value]
    if type(value) is dict:
        # a dict that looks like a tag must be written as pairs, or it would be read as what the tag means
        if all(type(key) is str for key in value) and not (len(value) == 1 and next(iter(value)) in _TAGS):
            return {key: encoded(item) for key, item in value.items()}
        return {_PAIRS: [[encoded(key), encoded(item)] for key, item in value.items()]}
    if type(value) in (bool, int, float, str):
        return value
    raise NoText(f"an object of a program, {type(value).__name__}")


def decoded(value: Any) -> Any:
    """Return the plain data for which `value`, a result of `encoded`, stands.

    Raises: ValueError for a table with one of the keys above that stands for nothing.
    """
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    # a tag is the only key of its table
    tag = next(iter(value)) if len(value) == 1 else None
    if tag not in _TAGS:
        return {key: decoded(item) for key, item in value.items()}
    content = value[tag]
    try:
        if tag == _NONE and content is True:
            return None
        if tag == _BYTES:
            return bytes.fromhex(content)
        if tag == _TUPLE and isinstance(content, list):
            return tuple(decoded(content))
        if tag == _PAIRS and isinstance(content, list):
            return {decoded(key): decoded(item) for key, item in content}
    except (TypeError, ValueError) as error:
        raise ValueError(f"{{{tag} = ..}} stands for nothing: {error}") from None
    raise ValueError(f"{{{tag} = ..}} stands for nothing, got {str(content)[:60]}")


def toml_of(value: Any) -> str:
    """Return the text of a value in TOML: of lists, tables, texts, numbers and switches.

    Raises: NoText for a text or a number that TOML cannot have.
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_of(str(name))} = {toml_of(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml_of, value)) + "]"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NoText(f"a text that is no Unicode, {value[:60]!r}") from None
        # TOML wants DEL escaped, which JSON does not
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    # before numbers: a bool is an int
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        return repr(value)
    except ValueError as error:  # of very long integers
        raise NoText(f"an integer that is too long: {error}") from None
