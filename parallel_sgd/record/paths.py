"""Paths of the files that a run needs, as `job.toml` tells them: relative to the folder of the run, so that both may be moved
together.
"""

from __future__ import annotations

import ast
import contextlib
import glob
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rpc.submit.run_folder import Run, runs_in

__all__ = [
    "Tell", "as_seen", "found_path", "found_paths", "is_told", "meant_instead", "missing_code", "quoted_texts", "told_path",
]  # fmt: skip

Tell = Callable[[str], str]
"""Function from the path of a file to the text that stands for it."""
_TOLD: Final = r"(?:\.{1,2}|~)/"
_MOST_NAMED: Final = 3
# behind a comma without one, so that no text takes longer than its length says
_CODE: Final = re.compile(rf"^{_TOLD}[^:]*\.py(?=:)|(?<=,){_TOLD}[^:,]*\.py(?=:)")
_CLASS: Final = re.compile(r"(?:^|(?<=,))([^:,'\"\0]*\.py):(\w+)")
_ARGUMENT: Final = re.compile(r"(?<==)('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")


def as_seen(path: Path) -> Path:
    """Return a path as the user may have written it: from the current directory on, where it lies below."""
    try:
        return path.relative_to(Path.cwd())
    except (OSError, ValueError):
        # elsewhere, or the current directory was removed
        return path


def meant_instead(folder: Path) -> str:
    """Return the runs that a user may mean by a folder that is none of a run, as the end of a sentence; "" where none is near.

    Args:
        folder: the folder.
    """
    folder = folder.resolve()
    if inside := [run for above in folder.parents[:2] if (run := Run.read(above)) is not None]:
        return f"; it lies in the run {_listed(inside)}"
    if runs := runs_in(folder):
        return f"; the runs in it are {_listed(runs)}"
    for above in folder.parents[:2]:
        # tables of a sweep lie beside its runs, in a folder of its title
        if own := [run for run in runs_in(above) if run.title == folder.name]:
            return f"; the runs of this title are {_listed(own)}"
    return f"; the runs beside it are {_listed(runs)}" if (runs := runs_in(folder.parent)) else ""


def _listed(runs: list[Run]) -> str:
    names = [str(as_seen(run.path.resolve())) for run in runs[:_MOST_NAMED]]
    return ", ".join(names) + (f" and {len(runs) - len(names)} more" if len(runs) > len(names) else "")


def told_path(path: str, folder: Path) -> str:
    """Return the text that stands for a file in the record of a run.

    Args:
        path: of a file, relative to the current directory.
        folder: that of the run.

    Returns:
        A path that begins with `./` or `../`, relative to the folder; for a file in the home of the user but not in the
        directory of the run one that begins with `~/`.
    """
    absolute, run, home = (os.path.abspath(each) for each in (path, folder, os.path.expanduser("~")))
    # a run lies in `runs/` of the directory of its project
    # files of the project move with it; files elsewhere in the home keep their place there
    project = os.path.dirname(os.path.dirname(run))
    if _is_within(absolute, home) and not _is_within(absolute, project):
        return f"~/{os.path.relpath(absolute, home)}"
    told = os.path.relpath(absolute, run)
    # "./" marks the text as one of these; a bare name could be a word
    return told if told.startswith("..") else f"./{told}"


def is_told(text: str) -> bool:
    """Tell if a text would be taken for a path that `told_path` has made."""
    return re.match(_TOLD, text) is not None


def found_paths(text: str, folder: Path, *, arguments: bool = True) -> str:
    """Return a text of a job file, `file.py:Class` and arguments `name='..'` in it, with the files where they are.

    A file that is no longer at its place is looked for beside the job file, then, by its name alone, where files that a command
    line names are looked for. Nothing is opened or imported.

    Args:
        text: as it stands in the file.
        folder: that of the file.
        arguments: whether these may name files, too.
    """

    def argument(match: re.Match[str]) -> str:
        try:
            value = str(ast.literal_eval(match[0]))
        # as a literal: quotes and escapes are those of an argument
        except (ValueError, SyntaxError):
            return match[0]
        if is_told(value) and not _CODE.match(value):
            return repr(_found(value, folder))
        # the text of an object may stand for an argument, with arguments of its own
        inside = found_paths(value, folder)
        return match[0] if inside == value else repr(inside)

    # arguments first: their paths stand in quotes, which the pattern for code passes over
    return _CODE.sub(lambda match: _found(match[0], folder), _ARGUMENT.sub(argument, text) if arguments else text)


def quoted_texts(text: str) -> Iterator[str]:
    """Yield the texts in quotation marks that stand for arguments, `name='..'`, and those within them.

    Args:
        text: that of an object with arguments.
    """
    for quoted in _ARGUMENT.findall(text):
        with contextlib.suppress(ValueError, SyntaxError):
            inside = str(ast.literal_eval(quoted))
            yield inside
            yield from quoted_texts(inside)


def found_path(text: str, folder: Path) -> str:
    """Return where a file is for which a text of a job file stands; a text that stands for none is returned as it is.

    Args:
        text: as it stands in the file.
        folder: that of the job file.
    """
    return _found(text, folder) if is_told(text) else text


def missing_code(text: str, folder: Path) -> str:
    """Return the class of a text of a job file that has no file here, and where a copy of the file lies; "" if there is none.

    Args:
        text: as `found_paths` has left it.
        folder: that of the job file.
    """
    for file, name in _CLASS.findall(text):
        # only where it is missing, so that most texts cost one look
        if not os.path.isfile(file):
            place = Path(file)
            copies = sorted(folder.glob(f"Node-*-Retrieve/SOURCE-{glob.escape(place.name)}"))
            copy = f"; {copies[0].relative_to(folder)} is a copy, to be looked at and put there" if copies else ""
            return f"the class {name} of {place.name}, which is neither where it was, nor beside the file, nor here{copy}"
    return ""


def _found(told: str, folder: Path) -> str:
    place = os.path.normpath(folder / os.path.expanduser(told))
    name = os.path.basename(place)
    # where it was, beside the job file, or by name as a command line would find it
    return next((each for each in (place, str(folder / name)) if os.path.exists(each)), name)


def _is_within(path: str, folder: str) -> bool:
    return folder != os.sep and os.path.commonpath([path, folder]) == folder
