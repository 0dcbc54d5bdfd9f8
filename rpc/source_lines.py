"""Source lines of code that travels, so that a traceback on a node without the file, or of a notebook's cell, shows them."""

from __future__ import annotations

import functools
import linecache
import threading
import types
from collections.abc import Iterable, Iterator
from typing import Any, Final

SOURCE_BYTES: Final = 256 << 10
"""Most bytes of the lines of one job or function; they must not keep it from travelling."""

Lines = dict[str, dict[int, str]]
"""Lines by file name, as the code has it, and number from 1."""

_lock = threading.Lock()
_known: Final[Lines] = {}


def collect(codes: Iterable[tuple[types.CodeType, dict[str, Any]]]) -> Lines:
    """Return the lines of some functions, as far as Python finds them; of a file with more than there is room for none.

    Args:
        codes: code of functions, each with the globals of its module, which may hold the loader of its source.
    """
    wanted: dict[str, tuple[set[int], dict[str, Any]]] = {}
    for code, space in codes:
        lines, _ = wanted.setdefault(code.co_filename, (set(), space))
        lines.update(_extent(code))
    found: Lines = {}
    room = SOURCE_BYTES
    for name, (numbers, space) in sorted(wanted.items()):
        # with the globals: their loader may know the source where there is no file
        text = linecache.getlines(name, space)
        lines_of = {number: text[number - 1] for number in sorted(numbers) if number <= len(text)}
        room -= sum(map(len, lines_of.values()))
        if lines_of and room >= 0:
            found[name] = lines_of
    return found


def remember(lines: Lines) -> None:
    """Let tracebacks in this process show these lines, in place of those of a file of that name here."""
    with _lock:
        for name, own in lines.items():
            known = _known.setdefault(name, {})
            known.update(own)
            text = [known.get(number, "\n") for number in range(1, max(known) + 1)]
            # without a time of change `linecache` never looks for the file again
            linecache.cache[name] = (sum(map(len, text)), None, text, name)


@functools.lru_cache(maxsize=4096)
def _extent(code: types.CodeType) -> tuple[int, ...]:
    """Return the numbers of the lines from the first to the last of a function, those of functions within it included."""
    numbers = [code.co_firstlineno, *(line for each in _within(code) for _, _, line in each.co_lines() if line)]
    return tuple(range(min(numbers), max(numbers) + 1))


def _within(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _within(constant)
