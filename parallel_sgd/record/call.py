"""Call or command that asked for a job, as its user wrote it: of it is made the line by which the job goes on."""

from __future__ import annotations

import ast
import contextlib
import linecache
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from types import FrameType
from typing import Final

from _psgd_packages import NEEDED

_METHOD: Final = "parallel"
_OPTION: Final = "resume"
_FLAG: Final = "--resume"
_LAST: Final = "last"
_FAULT: Final = "fault"
_FAULT_FLAG: Final = "--fault"
"""Option and flag of faults, which would strike again at the same batch."""
_again: ContextVar[Callable[[], str] | None] = ContextVar("_again", default=None)


@contextlib.contextmanager
def asked_by(again: Callable[[], str] | None) -> Iterator[None]:
    """Keep for the block how its job was asked for.

    Args:
        again: returns the line by which the job goes on; None leaves that of a block around.
    """
    token = _again.set(_again.get() if again is None else again)
    try:
        yield
    finally:
        _again.reset(token)


def line_to_go_on() -> str:
    """Return the line, to be copied as it is, by which the job of this block goes on; "" where none is known."""
    again = _again.get()
    return "" if again is None else again()


def command(words: Sequence[str]) -> Callable[[], str]:
    """Return a function that returns the command line of these words, its program first, with `--resume last`."""

    def again() -> str:
        kept = list(words)
        # of --resume the last one counts, so it goes for the eye alone
        for place in reversed([place for place, word in enumerate(kept) if _is_replaced(word.partition("=")[0])]):
            del kept[place : place + (1 if "=" in kept[place] else 2)]
        return shlex.join([*kept, _FLAG, _LAST])

    return again


def _is_replaced(flag: str) -> bool:
    """Tell if a flag is `--resume` or `--fault`, or one that is cut short, as a parser takes it that has taken the line."""
    return len(flag) > len("--") and (_FLAG.startswith(flag) or _FAULT_FLAG.startswith(flag))


def call_of(caller: FrameType | None, given: Sequence[str]) -> Callable[[], str] | None:
    """Return a function that returns the call of `parallel()` in a program, with `resume='last'`; None for one of our packages.

    Args:
        caller: the frame of the program, at that call.
        given: names of the arguments of the call.
    """
    if caller is None or str(caller.f_globals.get("__name__", "")).partition(".")[0] in NEEDED:
        return None
    # the text and the line alone: a frame that is kept would keep all that it knows
    file, line, has_option, has_fault = caller.f_code.co_filename, caller.f_lineno, _OPTION in given, _FAULT in given
    # now, as the file may be edited while the job runs; of an earlier look it may have changed
    linecache.checkcache(file)
    # cells of a notebook, too: its kernel keeps them there
    lines = linecache.getlines(file)

    def again() -> str:
        written = _written(lines, line)
        if written is not None:
            names = {keyword.arg for keyword in written.keywords}
            others: list[ast.keyword] | None = [each for each in written.keywords if each.arg not in (_OPTION, _FAULT)]
            # one that the call does not name comes out of a dict
            if others is not None and has_fault and _FAULT not in names:
                others = _without_fault(others)
            # from there it would be given twice
            if others is not None and (not has_option or _OPTION in names):
                written.keywords = [*others, ast.keyword(_OPTION, ast.Constant(_LAST))]
                return ast.unparse(written)
        return f"the same call of {_METHOD}(), with {_OPTION}={_LAST!r}" + f" and {_FAULT}=None" * has_fault

    return again


def _without_fault(keywords: list[ast.keyword]) -> list[ast.keyword] | None:
    """Return keywords with all dicts among them (`**options`) in one that has no fault; None where there is no dict."""
    dicts = [keyword.value for keyword in keywords if keyword.arg is None]
    if not dicts:
        return None
    merged = ast.Dict([*[None] * len(dicts), ast.Constant(_FAULT)], [*dicts, ast.Constant(None)])
    return [*(keyword for keyword in keywords if keyword.arg is not None), ast.keyword(None, merged)]


def _written(lines: Sequence[str], line: int) -> ast.Call | None:
    """Return the one call of `parallel()` at a line of a text; None where there is another number, or no text to be had."""
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):  # the file had changed since it was loaded
        return None
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
    at_line = [call for call in calls if call.lineno <= line <= (call.end_lineno or 0)]
    found = [call for call in at_line if isinstance(call.func, ast.Attribute) and call.func.attr == _METHOD]
    return found[0] if len(found) == 1 else None
