"""Near misses: what somebody may have meant by a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

_NOTHING: Final = MappingProxyType[Any, str]({})


def did_you_mean(name: object, known: Iterable[object], quoted: bool = True, meant: Mapping[Any, str] = _NOTHING) -> str:
    """`; did you mean 'Plain'?` for `Plian`, to go behind what a message says; "" where nothing known is near to it.

    Upper and lower case count as equal. `quoted`: whether texts stand in quotation marks, as other keys do by their `repr`;
    `meant` tells what to say for some of those that are known.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - for messages only

    spelt = {str(each).casefold(): meant.get(each, each) for each in known}
    for near in get_close_matches(str(name).casefold()[:80], spelt, n=1):
        return f"; did you mean {repr(spelt[near]) if quoted else spelt[near]}?"
    return ""
