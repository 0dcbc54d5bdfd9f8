"""`psgd report` and `psgd page`: the page of a run, written again or served while the run goes on."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from network.errors import NetworkError
from network.key_files import by_flag
from network.keys import KeyFileError
from parallel_sgd.commands import options
from parallel_sgd.commands.nodes import known_nodes
from parallel_sgd.commands.output import EXIT_FAILED, EXIT_NETWORK, EXIT_OK, EXIT_USAGE
from rpc.submit.run_folder import Run, none_in, path_of, shown
from rpc.support.console import EXIT_NOT_SHOWN, show_result
from rpc.support.option_parser import port_number

from .cli import Task

if TYPE_CHECKING:
    from parallel_sgd.record.door import Door
    from parallel_sgd.record.tables import Columns
    from parallel_sgd.run_page.sources import Source

RUN = "runs/latest"
_FORMAT = 1  # of outcome.json


def report(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd report`: add its options to `parser`."""
    _add_run(parser)
    parser.epilog = (
        "Writes report.html and timeline.json.gz into the folder, and prints the path. Exit codes: 0 written, 1 not, 2 no run."
    )
    return _report


def page(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd page`: add its options to `parser`."""
    _add_run(parser)
    parser.add_argument(
        "--job",
        nargs="?",
        const="",
        metavar="JOB",
        help="show what the workers of the node file run, this job or, without JOB, the newest one, and how they stand",
    )
    parser.add_argument("--port", type=port_number, default=0, help="port on this machine (default: a free one)")
    options.add_known_nodes(parser)
    parser.epilog = (
        "The page is for this machine alone, at the address that is printed, with its token; from elsewhere: "
        "ssh -L PORT:127.0.0.1:PORT. It shows progress, loss, who waits, and the log, and changes nothing. "
        "Exit codes: 0 after Ctrl-C, 2 no run, a port in use, or a wrong argument or file, 4 no worker can be reached."
    )
    return _page


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run",
        nargs="?",
        default=RUN,
        type=lambda name: Path(path_of(name)),
        help="the folder of the run, its name in runs/, or a directory, which stands for its newest (default: %(default)s)",
    )


def _problem_of(run: Path) -> tuple[str, Sequence[str]]:
    """Return why `run` is no folder of a run that this release can show, "" if it is, and the files of it that are cut off."""
    from parallel_sgd.run_page import RunRecords  # noqa: PLC0415 - with all that it imports, once it is needed

    try:
        # first, so that an empty folder is not told as one that lacks its files
        if not os.listdir(run):
            return "it is empty: its run has not begun", ()
        # tables may be large, and are read again for the page
        records = RunRecords.read(run, read=_unread)
    except FileNotFoundError:
        return "there is no such folder", ()
    except OSError as error:
        return f"{error.filename} cannot be read: {error.strerror}", ()
    # before the problems: what a newer release writes may look damaged
    made = records.outcome.get("format", _FORMAT)
    if made != _FORMAT:
        said = f"its outcome.json has the format {made!r}, and this release reads {_FORMAT}: a newer release has written it"
        return said, ()
    if records.problems:
        return records.problems[0], ()
    if records.run is None and not records.tables:
        half = records.cut_off
        return (f"its {half[0]} is cut off, and there is no table" if half else "there is no job.json and no table"), ()
    return "", records.cut_off


def _unread(door: Door, name: str) -> Columns:
    """Check that a table can be opened, and return no columns of it."""
    from parallel_sgd.record.door import MOST_TABLE  # noqa: PLC0415 - as above

    with contextlib.suppress(FileNotFoundError):
        # opened all the same: a link, a pipe or a file that is too large is refused there
        door.open(name, MOST_TABLE).close()
    return {}


def _folder_of(run: Path) -> Path:
    """Return the folder of the run that is meant: a directory with runs stands for the newest of them, as in `resume=`."""
    from parallel_sgd.checkpoint.resume import run_at  # noqa: PLC0415 - as above

    found = run_at(run)
    return run if found is None else found.path


def _check(run: Path) -> Sequence[str]:
    """List the files of the run that are cut off.

    Raises: ValueError saying why that is no folder of a run.
    """
    if run == Path(RUN) and not os.path.lexists(run):
        raise ValueError(none_in(Path()))
    problem, half = _problem_of(_folder_of(run))
    if problem:
        from parallel_sgd.record.paths import meant_instead  # noqa: PLC0415 - as above

        near = meant_instead(run) if os.path.isdir(run) and Run.read(_folder_of(run)) is None else ""
        said = f"{problem}{near}"
        raise ValueError(f"'run' must be the folder of a run, as {RUN}, or its name in runs/, got {str(run)!r}: {said}")
    return half


def _report(given: argparse.Namespace) -> int:
    from parallel_sgd.record.files import PAGE  # noqa: PLC0415 - as above
    from parallel_sgd.record.paths import as_seen  # noqa: PLC0415
    from parallel_sgd.run_page import write_report  # noqa: PLC0415

    try:
        half = _check(given.run)
        # without links: `latest` may lead elsewhere while the page is written
        folder = _folder_of(given.run).resolve()
        if half:
            _say(f"{as_seen(folder / half[0])} is cut off or damaged: the page is made without it")
        write_report(folder)
        # as the console tells it: a path from here, where the folder lies below
        sys.stdout.write(f"{shown(as_seen(folder / PAGE))}\n")
    except ValueError as error:
        _say(str(error))
        return EXIT_USAGE
    except OSError as error:
        _say(f"the report of {given.run} cannot be written: {error.filename}: {error.strerror}")
        return EXIT_FAILED
    return EXIT_OK


def _page(given: argparse.Namespace) -> int:
    from parallel_sgd.run_page.live import LivePage  # noqa: PLC0415 - as above

    try:
        source = _source(given)
    except (ValueError, TypeError, OSError, KeyFileError) as error:
        _say(str(error))
        return EXIT_USAGE
    except NetworkError as error:
        _say(str(error))
        return EXIT_NETWORK
    with contextlib.closing(source):
        try:
            with LivePage(source, given.port) as live:
                if problem := show_result(f"{live.address}\n"):
                    _say(f"the address of the page cannot be printed on standard output ({problem})")
                    return EXIT_NOT_SHOWN
                if sys.stdout.isatty():
                    sys.stderr.write("Open it in a browser of this machine; Ctrl-C ends it.\n")
                # for ever: the server has its own thread, and Ctrl-C ends the command
                threading.Event().wait()
        except KeyboardInterrupt:
            return EXIT_OK
        except OSError as error:
            _say(f"port {given.port} of this machine cannot be used: {error.strerror}; without --port it is a free one")
        except ImportError as error:
            _say(str(error))
    return EXIT_USAGE


def _source(given: argparse.Namespace) -> Source:
    """Return the place where the page looks: the folder of a run, or the agents of a cluster.

    Raises: ValueError for a folder without a run, or a node file or key that cannot be used, NetworkError, OSError.
    """
    from parallel_sgd.run_page.sources import ClusterSource, RunSource  # noqa: PLC0415 - as above

    if given.job is None:
        _check(given.run)
        # asked at each look: a run may begin meanwhile in a directory of runs
        return RunSource(lambda: _folder_of(given.run).resolve())
    source = ClusterSource(known_nodes(given), given.job)
    try:
        # once before the page opens: what is wrong with the nodes belongs into the terminal
        seen = source.look()
        problems = [row["problem"] for row in seen.agents if row["problem"]]
        # some that are gone are no reason to hide the others
        if len(problems) == len(seen.agents):
            raise NetworkError(f"None of the workers can be reached: {' '.join(problems)}")
        if given.job and not seen.nodes:
            raise ValueError(f"None of the workers knows the job {given.job}.")
    except BaseException:  # the caller gets no source that it could close
        source.close()
        raise
    for problem in problems:
        _say(problem)
    return source


def _say(text: str) -> None:
    sys.stderr.write(f"psgd: {by_flag(text)}\n")
