"""Parts that programs at a terminal share: a quiet end on Ctrl-C, options that say which values they expect, and their nodes.

    import psgd  # first, because Ctrl-C shall be quiet while the others are imported, too

    parser = psgd.OptionParser(description="Add numbers.")
    parser.add_argument("--tasks", type=psgd.positive)
    psgd.add_nodes(parser)
    with psgd.nodes_of(parser, parser.parse_args()) as nodes:
        ...

A wrong option ends a program with exit code 2 and a sentence, a job that failed with 1 and a sentence, Ctrl-C with 130 and in
silence; at the prompt of an interpreter the session goes on. The console scripts are here, too: `psgd` has a command for each
task (`psgd.cli`), `psgd-worker` and `psgd-submit` are worker.py and job_submit.py. Where a file hides a package of
Parallel-SGD, they end with a sentence and 2.
"""

from __future__ import annotations

import sys


def _end_quietly(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Exit with 130 on Ctrl-C, and with 1 and a sentence where a job failed or no worker was reached; any other exception that
    the program did not catch is shown as ever.

    At the prompt the sentence is all: an exit would take the models along that the session has trained.
    """
    has_prompt = bool(sys.flags.interactive) or hasattr(sys, "ps1")
    if issubclass(kind, KeyboardInterrupt):
        if has_prompt:
            sys.stderr.write(f"{kind.__name__}\n")
            return
        sys.exit(130)  # 128 + SIGINT, by which shells know that it was Ctrl-C
    for module, name in (("network.errors", "NetworkError"), ("parallel_sgd.errors", "JobFailed")):
        # looked up, not imported: where it was raised it is there
        if issubclass(kind, getattr(sys.modules.get(module), name, ())):
            sys.stderr.write(f"{error}\n")
            if has_prompt:
                return
            sys.exit(1)
    sys.__excepthook__(kind, error, traceback)


# before the imports, as Ctrl-C may come while they run
sys.excepthook = _end_quietly

import _psgd_packages

# before any import of our packages: behind a hidden one Python tells only of a missing name
_psgd_packages.check(__name__)

import argparse
import contextlib
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from rpc.support.option_parser import OptionParser, above_0, number, positive

if TYPE_CHECKING:
    from types import TracebackType

    from network import NodeAssignment


__all__ = [
    "OptionParser",
    "above_0",
    "add_nodes",
    "existing",
    "folder",
    "main",
    "new_file",
    "no_options",
    "nodes_of",
    "number",
    "positive",
    "submit",
    "worker",
]


def main() -> int:
    """Run `psgd`: train, look after jobs, serve them; see `psgd --help`."""
    return _run("psgd.cli")


def worker() -> int:
    """Run `psgd-worker`: serve jobs on this machine."""
    return _run("rpc.agent.cli")


def submit() -> int:
    """Run `psgd-submit`: train a saved model on several workers, or look after a job."""
    return _run("parallel_sgd.__main__")


def _run(module: str) -> int:
    """Run the main function of a module of ours as a program; returns its exit code."""
    # loaded here, by name: a program that uses only the options needs neither
    # within `run_program`: what the import prints, and an error of it, goes by its streams, too
    return int(import_module("rpc.support.console").run_program(lambda: int(import_module(module).main())))


def existing(text: str) -> Path:
    """Parse the `text` of an option, the path of a file or directory to read."""
    if not os.path.exists(text):  # Path.exists raises for a name that is too long
        raise argparse.ArgumentTypeError(f"must be a file or directory that exists, got {text!r}")
    return Path(text)


def new_file(text: str) -> Path:
    """Parse the `text` of an option, the path of a file to write.

    The directory must exist: that the file cannot be written is better known before the work is done.
    """
    path = Path(text)
    # `os.path`, as above: any text may be given
    if os.path.isdir(path) or not os.path.isdir(path.parent):
        raise argparse.ArgumentTypeError(f"must be a file in a directory that exists, got {text!r}")
    return path


def folder(text: str) -> Path:
    """Parse the `text` of an option, the path of a directory to write into, which the program makes if need be."""
    path = Path(text)
    # a file anywhere on the way would make `mkdir` fail, after the work is done
    if any(os.path.exists(each) and not os.path.isdir(each) for each in (path, *path.parents)):
        raise argparse.ArgumentTypeError(f"must be a directory, there or not yet there, got {text!r}")
    return path


def no_options(text: str | None) -> None:
    """Read the command line of a program that has no option but --help; `text` is its docstring."""
    OptionParser(description=(text or "").partition("\n")[0]).parse_args()


def add_nodes(parser: argparse.ArgumentParser, count: int = 1) -> None:
    """Add the options -n and --local, which `nodes_of` reads.

    Args:
        parser: takes the options.
        count: number of workers where -n is not given.
    """
    parser.add_argument("-n", type=positive, default=count, help=f"number of workers, from worker.json (default {count})")
    parser.add_argument("--local", type=positive, metavar="N", help="start N workers on this machine instead")


@contextlib.contextmanager
def nodes_of(parser: argparse.ArgumentParser, options: argparse.Namespace, ps: bool = False) -> Iterator[NodeAssignment]:
    """Yield the nodes that the options of `add_nodes` name.

    Where worker.json names none, or an agent does not start, the program ends with a sentence and 2; with 1 where one cannot be
    reached (no agent there, another key, busy) or the connection to it ends.

    Args:
        parser: ends the program by its `error` and `exit`.
        options: the parsed options, with `n` and `local`.
        ps: whether the nodes need a parameter server too.
    """
    import parallel_sgd  # noqa: PLC0415 - this module is the first that a program imports, and must not take long
    from network import NetworkError  # noqa: PLC0415
    from rpc import SubmissionError  # noqa: PLC0415

    hint = "" if options.local else f" With --local {options.n} the program starts its own workers."
    # a stack, as only local workers are to be ended here
    with contextlib.ExitStack() as stack:
        try:
            if options.local:
                nodes: NodeAssignment = stack.enter_context(parallel_sgd.local_workers(options.local, ps))
            else:
                nodes = parallel_sgd.parse_worker(options.n, ps)
        except (NetworkError, OSError, ValueError) as error:
            # 2: so far only the options are to blame
            parser.error(f"argument {'--local' if options.local else '-n'}: {error}{hint}")
        try:
            yield nodes
        except SubmissionError as error:
            # without the hint: a node that refuses a job names the remedy itself
            parser.exit(1, f"{parser.prog}: error: {error}\n")
        except NetworkError as error:
            parser.exit(1, f"{parser.prog}: error: {error}{hint}\n")
