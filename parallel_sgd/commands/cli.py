"""Entry of `job_submit.py` and `psgd-submit`: submit a saved model as a job, or fetch the files of an earlier one.

Exit codes: 0 done without error; 1 the job failed; 2 an argument is wrong, or no node knows the job; 3 the job was not started;
4 a node cannot be reached or refuses us; 5 the job has its result, but a node was lost on the way; 130 interrupted.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Sequence

from network.errors import NetworkError
from network.keys import KeyFileError
from rpc import SubmissionError, UnknownJob
from rpc.job import users_traceback
from rpc.support.console import run_program
from rpc.support.forks import catch
from rpc.support.logs import attach_console, verbosity
from rpc.support.processors import limit_met

from ..errors import JobFailed
from .jobs import attach, jobs, retrieve, stop
from .options import make_parser, verbosity_of
from .output import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_NETWORK,
    EXIT_NODE_LOST,
    EXIT_NOT_STARTED,
    EXIT_OK,
    EXIT_USAGE,
    complain,
    paths_of,
)
from .submit import post_mortem, submit

__all__ = [
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_NETWORK",
    "EXIT_NODE_LOST",
    "EXIT_NOT_STARTED",
    "EXIT_OK",
    "EXIT_USAGE",
    "carry_out",
    "main",
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the `arguments` name, by default those of this process; return the exit code of the module's
    documentation.
    """
    return carry_out(_do, make_parser().parse_args(arguments))


def carry_out(task: Callable[[argparse.Namespace], int], options: argparse.Namespace, *, short: bool = False) -> int:
    """Do the task, and say the error when it fails.

    Args:
        task: called with the options.
        options: those of `commands.options.add_output`, and those of the task.
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


def _do(options: argparse.Namespace) -> int:
    if options.post_mortem:
        return post_mortem(options)
    if options.retrieve is not None:
        return retrieve(options)
    if options.jobs:
        return jobs(options)
    if options.attach is not None:
        return attach(options)
    if options.stop is not None:
        return stop(options)
    return submit(options)


def _end_cleanly() -> None:
    """Let a closed terminal or a service manager end the command as Ctrl-C does: local workers and their files go with it."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            catch(number, lambda received, _frame: sys.exit(128 + received))


if __name__ == "__main__":
    sys.exit(run_program(main))
