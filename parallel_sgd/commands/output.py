"""Output of the commands, results and JSON on standard output, complaints on standard error; and their exit codes.

Exit codes: 0 done without error; 1 the job failed; 2 an argument is wrong, or no node knows the job; 3 the job was not started;
4 a node cannot be reached or refuses us; 5 the job has its result, but a node was lost on the way; 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from network.errors import NetworkError
from network.key_files import by_flag
from network.keys import KeyFileError
from rpc import SubmissionError, UnknownJob
from rpc import program_name as called_as
from rpc.job import users_traceback
from rpc.support.console import EXIT_NOT_SHOWN, RESULT_SECONDS, show, show_result
from rpc.support.forks import catch
from rpc.support.logs import NORMAL, QUIET, SUBMIT_LOGGER, VERBOSE, attach_console, clean, clean_text, get_logger, verbosity
from rpc.support.processors import limit_met

from ..errors import JobFailed
from ..options.job_options import options as known_options

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_NOT_STARTED, EXIT_NETWORK, EXIT_NODE_LOST = range(6)
EXIT_INTERRUPTED = 130
JOB_DONE: Final = "The job is done"
_log = get_logger(SUBMIT_LOGGER)


def spelt(options: argparse.Namespace) -> dict[str, str]:
    """Return the option of each field of `JobOptions`; of one with several names that which was written, else the first."""
    first = {name: about.flag.names[0] for name, about in known_options() if about.flag is not None}
    return {**first, **getattr(options, "spelt", {})}


def program_name() -> str:
    return called_as("psgd-submit", "job_submit.py")


_NAMED: Final = re.compile(
    r"(?<![^\s(])(?:parallel\(\) )?(?:'(?P<name>\w+)'|(?P<set>\w+)=(?P<value>(?:'[^']*'|\{[^{}]*\}|\d+(?:\.\d+)?"
    r"|[^\W\d]\w*(?:\.of)?(?:\([^()]*\))?))(?!\.?\w|[/:-]))"
)
"""An argument as errors name it: `'codec'`, or `codec=Plain`; a path such as epoch=3.model is none."""
_NO_NAME: Final = re.compile(
    r"(?:^| )(?:argument|be|class|column|file|folder|got|input|is|key|label|layer|one|one of|output|parameter"
    r"|(?<!cannot )run|variable|word)$"
)
"""What stands before a text in quotation marks that is a value, or the name of something else."""
_OF_OPTIONS: Final = frozenset({"learn_rate", "redundancy"})
"""Arguments that a part gets from the options alone; another one, such as the bits of a codec, is no option of that name."""
_TEXTS: Final = (
    (re.compile(r"^'(.*)'$"), r"\1"),
    (re.compile(r"FixedBlockAssignment\.of\(blocks=(\d+)\)"), r"fixed:\1"),
    (re.compile(r"\{'(\w+)': \.\.\.\}"), r"\1=.."),
)
"""Values in errors, and how they stand on a command line."""
_OFF: Final = re.compile(r"(--checkpoint-every (?:was|must [^.]*,) (?:or )?)None")


def by_flags(text: str, options: argparse.Namespace) -> str:
    """Return an error of `parallel()` in the words of the command line, which has flags in place of arguments.

    Args:
        text: the error.
        options: of the command, which name the arguments that it has.
    """
    if text.startswith("The job file "):
        return text  # it has the options by these names
    flags = {}
    # not of a sweep, whose file has the options of its jobs by these names
    if "assignment_type" in options:
        parts = {name: f"--{name.replace('_', '-')}" for name in ("learn_rate", "model", "dataset", "transform")}
        flags = {**spelt(options), **parts}
    of_functions = {"worker_cnt": "-n", "count": "-n" if getattr(options, "local", None) is None else "--local"}

    def told(found: re.Match[str]) -> str:
        name, words = found["name"] or found["set"], found.string[: found.start()].rstrip("(").split()
        before = words[-1] if words else ""
        # a class or a function before the name has an argument of this name, too
        of_part = before[:1].isupper() or before.endswith("()")
        # behind another text in quotation marks it is one more value
        is_value = found["name"] and (_NO_NAME.search(" ".join(words)) or before.startswith("--") or before.endswith("',"))
        if is_value or (of_part and name not in _OF_OPTIONS):
            return found[0]
        if found["name"]:
            # what an error begins with is the argument that is wrong
            own = f"--{name.replace('_', '-')}" if name in options and not words else found[0]
            return {**of_functions, **flags}.get(name, own)
        if name not in flags:
            return found[0]
        value = found["value"]
        for pattern, form in _TEXTS:
            value = pattern.sub(form, value)
        return f"{flags[name]} {value}"

    return _OFF.sub(r"\1off", _NAMED.sub(told, by_flag(text)).replace("parse_worker(n, ps=True)", "--ps"))


def tell(
    options: argparse.Namespace,
    content: Mapping[str, Any],
    words: object,
    code: int = EXIT_OK,
    *,
    done: str,
    place: object = None,
    seconds: float | None = RESULT_SECONDS,
) -> int:
    """Print a result: with --json the content, else the words, as a line unless they are empty; return the exit code.

    Args:
        options: of the command.
        content: of the JSON object.
        words: for people.
        code: exit code of the command if its result can be printed.
        done: the sentence of the log, on the work that is done, if it cannot.
        place: the folder or file that has the result in that case.
        seconds: to wait for a reader at most; None for as long as it takes, where no job or worker waits.

    Returns:
        `code`, or `EXIT_NOT_SHOWN` in place of one that says that all went well.
    """
    # text is made before anything is printed: half an object would be no JSON
    text = json.dumps(content) if options.json else str(words)
    problem = show_result(f"{text}\n", seconds) if text else ""
    if not problem:
        return code
    found = f"; see {clean(str(place), 4096)}" if place else ""
    _log.error("%s, but its result could not be printed on standard output (%s)%s.", done, problem, found)
    # a result that could not be shown is no success; a failure keeps its own code
    return EXIT_NOT_SHOWN if code in (EXIT_OK, EXIT_NODE_LOST) else code


def complain(options: argparse.Namespace, error: Exception, **more: Any) -> None:
    """Print an error; to machines also as JSON, with `more`. A wrong argument goes by the name of its option.

    Args:
        options: of the command.
        error: the error.
        more: further entries of the JSON object.
    """
    plain = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    # of a job that has failed the reason alone: the rest may tell of code of the user's own, which has names of its own
    kept = plain.removesuffix(error.reason) if isinstance(error, JobFailed) else ""
    # code of the user's own: its traceback says where, and its error names what it likes
    told = users_traceback(error)
    said = plain if told else kept + by_flags(plain.removeprefix(kept), options)
    if told:
        show(sys.stderr, clean_text(told))
    show(sys.stderr, f"{program_name()}: {clean_text(said)}\n")
    if options.json:
        tell(options, {"error": said, **more}, "", EXIT_FAILED, done="The command has failed")


def carry_out(task: Callable[[argparse.Namespace], int], options: argparse.Namespace, *, short: bool = False) -> int:
    """Do the task, and say the error when it fails.

    Args:
        task: called with the options.
        options: those of `options.add_output`, and those of the task.
        short: whether a job has the short console wherever it runs, not only on local workers.

    Returns:
        The exit code of the module's documentation.
    """
    attach_console()
    _end_cleanly()
    try:
        with verbosity(verbosity_of(options), short=short):
            return task(options)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except JobFailed as failure:
        complain(options, failure, job=failure.job_id, files=paths_of(failure.files))
        return EXIT_FAILED
    except SubmissionError as error:
        complain(options, error)
        return EXIT_NOT_STARTED
    except (UnknownJob, KeyFileError) as error:
        complain(options, error)
        return EXIT_USAGE
    except NetworkError as error:
        complain(options, error)
        return EXIT_NETWORK
    # wrong arguments; but limits of the system come as the same errors
    except (ValueError, TypeError, LookupError, OSError) as error:
        if problem := limit_met(error):
            complain(options, RuntimeError(f"This process may start {problem}."))
            return EXIT_FAILED
        complain(options, error)
        return EXIT_USAGE
    except Exception as error:
        if problem := limit_met(error):
            complain(options, RuntimeError(f"This process may start {problem}."))
            return EXIT_FAILED
        # an error of ours, not of the user's code, is shown with its traceback
        if not users_traceback(error):
            raise
        complain(options, error)  # of a transform or a data set of one's own
        return EXIT_USAGE


def verbosity_of(options: argparse.Namespace) -> int:
    return QUIET if options.quiet else VERBOSE if options.verbose else NORMAL


def _end_cleanly() -> None:
    """Let a closed terminal or a service manager end the command as Ctrl-C does: local workers and their files go with it."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            # the exit code by which a shell tells the signal
            catch(number, lambda received, _frame: sys.exit(128 + received))


def folder_of(files: Mapping[int, Sequence[Path]]) -> Path | None:
    """Return the folder of the run to which these saved files belong; None where there are none."""
    return next((path.parent.parent for paths in files.values() for path in paths), None)


def paths_of(files: Mapping[int, Sequence[Path]]) -> dict[str, list[str]]:
    return {str(node): [str(path) for path in paths] for node, paths in files.items()}
