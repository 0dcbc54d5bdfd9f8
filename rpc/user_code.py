"""User code in a traceback: the owner of each frame, and the sentence that names class, method and line."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from types import CodeType, FrameType, TracebackType

from network.errors import NetworkError

from .code_closure import OWN_PACKAGES, is_user_file

_SHOWS_NOTES = sys.version_info >= (3, 11)


def is_users(frame: FrameType) -> bool:
    """Tell whether the code is the user's. Code that dataclasses write for ours stands in no file; its module tells the
    owner.
    """
    return is_user_file(frame.f_code.co_filename) and not is_ours(frame)


def is_ours(frame: FrameType) -> bool:
    """Tell whether the code is of this project."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] in OWN_PACKAGES


def own_frames(trace: TracebackType | None) -> list[tuple[FrameType, int]]:
    """Return the user's frames at the end of a traceback, outermost first: the function that this project called last, and its
    callees.

    Frames of installed packages do not count. Empty where this project itself raised the error.
    """
    found: list[tuple[FrameType, int]] = []
    for frame, line in traceback.walk_tb(trace):
        if is_ours(frame):
            # frames before a call of ours belong to the program that called the library
            found.clear()
        elif is_users(frame):
            found.append((frame, line))
    return found


def users_trace(error: BaseException) -> TracebackType | None:
    """Return the traceback of an error that the user's code has raised, from the function on that this project called last;
    None where this project itself raised it.
    """
    found, trace = None, error.__traceback__
    while trace is not None:
        if is_ours(trace.tb_frame):
            found = None
        elif found is None and is_users(trace.tb_frame):
            found = trace
        trace = trace.tb_next
    return found


def raised_by(error: BaseException) -> str:
    """Return which method of the user's raised an error, and where: `Own.receive_blocks raised ValueError: 3 (a.py:7)`.

    An error that this project made of one of the user's counts as that one. Returns "" for errors of this project.
    """
    seen: BaseException | None = error
    # errors of the network are told by themselves
    while seen is not None and not isinstance(seen, NetworkError):
        frames = own_frames(seen.__traceback__)
        if frames:
            return _sentence(seen, frames)
        seen = seen.__cause__
    return ""


def _sentence(error: BaseException, frames: list[tuple[FrameType, int]]) -> str:
    text = traceback.format_exception_only(type(error), error)[0].strip()
    return f"{called(frames[0][0])} raised {text} ({place_of(frames)})"


def place_of(frames: Sequence[tuple[FrameType, int]]) -> str:
    """Return file and line of the innermost of some frames, outermost first, and its function where another one called it."""
    last, line = frames[-1]
    return f"{last.f_code.co_filename}:{line}" + (f", in {last.f_code.co_name}" if len(frames) > 1 else "")


def called(frame: FrameType) -> str:
    """Return class and method of a frame, or the name of a function."""
    code = frame.f_code
    if code.co_name == "<module>":
        return "the module"
    # the first argument, by whatever name: `self`, or the class of a class method
    owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    kind = owner if isinstance(owner, type) else type(owner)
    method = getattr(kind, code.co_name, None)
    # only if the class has this very method: a function's first argument is no owner
    if owner is not None and _code_of(method) is not None:
        return f"{kind.__name__}.{code.co_name}"
    return code.co_name


def _code_of(method: object) -> CodeType | None:
    found: CodeType | None = getattr(getattr(method, "__func__", method), "__code__", None)
    return found


def note(error: BaseException, about: str = "") -> None:
    """Add to an error of the user's the sentence that names class, method and line, with `about` behind it; once."""
    sentence = raised_by(error)
    notes = vars(error).setdefault("__notes__", [])
    if sentence and not any(str(each).startswith(sentence) for each in notes):
        notes.append(f"{sentence}{about}")  # `add_note` is new in Python 3.11


def hidden_notes(error: BaseException) -> list[str]:
    """Return the notes of an error that Python does not show in a traceback, as Python 3.10 shows none."""
    return [] if _SHOWS_NOTES else [str(each) for each in getattr(error, "__notes__", ())]


def formatted(found: traceback.TracebackException, error: BaseException) -> str:
    """Return a traceback as text, with the notes of the error at its end in every version of Python."""
    text = "".join(found.format())
    # `exceptiongroup` shows them in 3.10, too
    return text + "".join(f"{each}\n" for each in hidden_notes(error) if f"{each}\n" not in text)
