"""`psgd report` and `psgd page`: the page of a run, written again or served while the run goes on."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable
from pathlib import Path

Task = Callable[[argparse.Namespace], int]
RUN = "runs/latest"
FAILED, USAGE = 1, 2


def report(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd report`."""
    _add_run(parser)
    parser.epilog = (
        "Writes report.html and timeline.json.gz into the folder, and prints the path. Exit codes: 0 written, 1 not, 2 no run."
    )
    return _report


def page(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd page`."""
    _add_run(parser)
    parser.add_argument("--port", type=int, default=0, help="port on this machine (default: a free one)")
    parser.epilog = (
        "The page is for this machine alone, at the address that is printed, with its token; from elsewhere: "
        "ssh -L PORT:127.0.0.1:PORT. It shows the run as its local workers write it, and changes nothing. "
        "Exit codes: 0 after Ctrl-C, 1 it cannot be served, 2 no run."
    )
    return _page


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", default=RUN, type=Path, help="the folder of the run (default: %(default)s)")


def _is_run(run: Path) -> bool:
    from parallel_sgd.run_page import RunRecords  # noqa: PLC0415 - with all that it imports, once it is needed

    records = RunRecords.read(run)
    if records.run is not None or records.tables:
        return True
    sys.stderr.write(
        f"psgd: 'run' must be the folder of a run, as {RUN}, got {str(run)!r}: there is no job.json and no table\n"
    )
    return False


def _report(options: argparse.Namespace) -> int:
    from parallel_sgd.run_page import write_report  # noqa: PLC0415 - as above

    if not _is_run(options.run):
        return USAGE
    try:
        sys.stdout.write(f"{write_report(options.run.resolve())}\n")
    except OSError as error:
        sys.stderr.write(f"psgd: the report of {options.run} cannot be written: {error.strerror}\n")
        return FAILED
    return 0


def _page(options: argparse.Namespace) -> int:
    from parallel_sgd.run_page.live import LivePage  # noqa: PLC0415 - as above

    if not _is_run(options.run):
        return USAGE
    try:
        live = LivePage(lambda: options.run.resolve(), port=options.port)
    except (OSError, OverflowError) as error:
        sys.stderr.write(f"psgd: port {options.port} of this machine cannot be used: {getattr(error, 'strerror', error)}\n")
        return FAILED
    except ImportError as error:
        sys.stderr.write(f"psgd: {error}\n")
        return FAILED
    with live:
        sys.stdout.write(f"{live.address}\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return 0
    return 0
