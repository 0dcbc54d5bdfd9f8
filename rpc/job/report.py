"""Report of a job process at its end: the state, the reason, and the files it leaves."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from _psgd_packages import is_answer, remedy_of

from ..code_closure import OWN_PACKAGES
from ..errors import JobAborted
from ..executable import AbsExecutable
from ..messages import Reached
from ..support.files import RESULT_FILE, is_safe_name
from ..support.processors import limit_met
from ..user_code import formatted, is_users, note

DETAIL_BYTES = 48 << 10  # of a traceback, its end; with the file names it fits into one packet to the agent
MOST_FILES = 300  # more than an agent hands out, so that it can say that there are too many
_NAME_BYTES = 48 << 10
_OWN_FOLDERS = tuple(os.path.join(Path(__file__).resolve().parents[2], name, "") for name in OWN_PACKAGES)
_SPAWNED = (
    "what a spawned process runs belongs into a module that is installed on the workers, where the process can import it; a "
    "process of the start method 'fork' runs any function"
)
_SHORTENED = "Traceback (most recent call last); the frames of Parallel-SGD are in the node's log:"


def outcome_of(error: BaseException | None) -> tuple[str, str]:
    """Return state and detail of a job after its executor ended with `error`, None for a good end."""
    if error is None:
        return "done", ""
    if isinstance(error, JobAborted):
        return "stopped", str(error)
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return "failed", "The executor called sys.exit() before its work was done."
    limit = limit_met(error)
    add_remedy(error)
    # a limit that our own code has met is the machine's fault; one in user code keeps its traceback
    if limit and not users_traceback(error):
        return "failed", f"The job process may start {limit}."
    note(error)
    return "failed", formatted(traceback.TracebackException.from_exception(error), error)


def add_remedy(error: BaseException) -> None:
    """Add the remedy to an error of user code that names none: of a spawned process, of a thread that cannot be started, or
    about a package that a file of the user's hides.
    """
    if _is_of_spawning(error):
        error.args = (f"{error}; {_SPAWNED}",)
    elif type(error) is RuntimeError and (limit := limit_met(error)):
        error.args = (f"{error}: {limit}",)
    elif remedy := remedy_of(error):
        error.args = (f"{error}; {remedy}",)
        if isinstance(error, ImportError):
            error.msg = error.args[0]  # which its text is


def _is_of_spawning(error: BaseException) -> bool:
    """Tell if a function or class could not be sent to a process of `multiprocessing`, by the place of the error, for its words
    and its class (PicklingError, AttributeError for a class local to a function) depend on the version of Python.
    """
    if type(error) is not AttributeError and (type(error).__module__, type(error).__name__) != ("_pickle", "PicklingError"):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    pickling = sys.modules.get("multiprocessing.reduction")  # which such an error has loaded
    if not frames or pickling is None:
        return False
    # what pickles for another process; a method of the object itself would have a frame of its own
    return frames[-1].f_code in (pickling.dump.__code__, pickling.ForkingPickler.dumps.__code__)


def shown_to_submitter(state: str, detail: str, error: BaseException | None) -> str:
    """Return the text of an error for the submitter: the traceback without the frames of Parallel-SGD, where the user's own
    code stands in it, or where Parallel-SGD answers a mistake; else `detail`.
    """
    if error is None or state != "failed" or not detail.startswith("Traceback"):
        return detail
    text = users_traceback(error)
    # a mistake of the program; other errors of ours are about a state that should not be, or about a peer that is gone
    if not text and isinstance(error, (TypeError, ValueError)) and is_answer(error):
        text = _without_ours(error)
    return text.replace("Traceback (most recent call last):", _SHORTENED) or detail


def users_traceback(error: BaseException) -> str:
    """Return the traceback of an error without the frames of Parallel-SGD, "" where none is of the user's own code."""
    if not any(is_users(frame) for frame, _ in traceback.walk_tb(error.__traceback__)):
        return ""
    return _without_ours(error)


def _without_ours(error: BaseException) -> str:
    """Return the traceback of an error without the frames of Parallel-SGD."""
    found = traceback.TracebackException.from_exception(error)
    for each in _chain(found):
        # in place: causes and groups keep their links
        each.stack[:] = [frame for frame in each.stack if not _is_own(frame)]
    return formatted(found, error)


def _chain(error: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """Yield an error, its causes, and its parts where it is a group."""
    yield error
    for each in (error.__cause__, error.__context__, *(getattr(error, "exceptions", None) or ())):
        if each is not None:
            yield from _chain(each)


def _is_own(frame: traceback.FrameSummary) -> bool:
    # the code may run through a link, as in an editable installation
    return os.path.realpath(frame.filename).startswith(_OWN_FOLDERS)


def exit_code_of(error: SystemExit) -> int:
    """Return the exit code of an interpreter that ends by this error."""
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1


def keep_sources(sources: Mapping[str, str], output: Path) -> list[str]:
    """Write the text of the user's modules beside the results, for the record; return the names of the files."""
    names: list[str] = []
    for module, text in sources.items():
        name = f"SOURCE-{module}.py"
        if is_safe_name(name):
            (output / name).write_text(text, "utf-8")
            names.append(name)
    return names


def make_report(
    state: str,
    detail: str,
    executable: AbsExecutable | None,
    output: Path,
    logger: logging.Logger,
    further: Sequence[str] = (),
) -> Reached:
    """Make the report for the agent. An executor that has done its work, but whose result is not there any more, has failed.

    Args:
        state: of the job.
        detail: the reason of a bad end.
        executable: the executor, None if it was not made.
        output: the folder of the report files.
        logger: of the job.
        further: names of report files beside the executor's.
    """
    files = _files(executable, output, logger, further)
    if state == "done" and RESULT_FILE not in files:
        state, detail = "failed", f"The result is lost: {RESULT_FILE} is not in the output directory any more."
        logger.error("%s", detail)
    # the end: there the error itself stands
    cut = detail.encode("utf-8", "backslashreplace")[-DETAIL_BYTES:].decode("utf-8", "ignore")
    return Reached(state, cut, files)


def _files(executable: AbsExecutable | None, output: Path, logger: logging.Logger, further: Sequence[str]) -> list[str]:
    """List the names of the files that exist, the result first."""
    named: list[str] = []
    try:
        if executable is not None:
            named = [str(name) for name in executable.trace_files()]
    except Exception:  # a broken trace_files must not lose the result
        logger.exception("trace_files failed")
    found: list[str] = []
    room = _NAME_BYTES
    # the result first: of too many files it is the one that must not be left out
    for name in dict.fromkeys([RESULT_FILE, *named, *further]):
        encoded = name.encode("utf-8", "replace")
        if Path(name).name != name or not os.path.isfile(output / name):  # Path.is_file raises for a name that is too long
            if name != RESULT_FILE:
                logger.error("The report %r is no file in the output directory and is left out.", name)
        elif len(found) == MOST_FILES or len(encoded) > room or encoded.decode() != name:
            logger.error("The report %r is one too many, or has no name that may travel, and is left out.", name)
        else:
            room -= len(encoded)
            found.append(name)
    return found
