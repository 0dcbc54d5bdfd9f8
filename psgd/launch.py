"""`psgd launch`: run a script on several workers, which may come and go: the form of `elastic.launch` for a shell."""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from parallel_sgd.commands import options as known
from parallel_sgd.commands.nodes import launcher_from
from parallel_sgd.commands.output import EXIT_OK, carry_out
from parallel_sgd.commands.submit import nodes_of
from parallel_sgd.elastic import launch as run_everywhere
from parallel_sgd.elastic.script import run_script
from rpc.support.files import read_text
from rpc.support.logs import clean

from .cli import Task

_KINDS: Final[Mapping[str, Callable[[str], Any]]] = {"int": int, "float": float}
# a pair and a function, which are no text of a command line
_NO_FLAGS: Final = ("cool_down", "on_print")


def launch(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd launch`: add its options to `parser`."""
    parser.usage = "%(prog)s [-n N] [options] SCRIPT [ARGUMENT ..]"
    parser.epilog = (
        "In the script parallel_sgd.elastic.rank() and size(), allreduce, broadcast and barrier work on the group of all "
        f"workers, and elastic.run has it go on when some of them are lost. {known.EXIT_CODES}"
    )
    # no default file: without one a worker.json that lies here would decide where the script runs
    known.add_nodes(parser, "number of workers, on this machine unless --workers or --launch say where (default: 1)", None)
    # read by `launcher_from` and `nodes_of`; of the flags of `submit`
    parser.set_defaults(wait=0.0, local=None)
    group = parser.add_argument_group("as in elastic.launch()")
    # from the signature: a new keyword of `elastic.launch` is a flag, with the same default and words
    for parameter, text in _settings():
        flag = parameter.name.replace("_", "-")
        # annotations are texts here: "float | None" is a float where it is given
        kind = _KINDS.get(str(parameter.annotation).partition(" ")[0], str)
        group.add_argument(f"--{flag}", type=kind, default=parameter.default, metavar=kind.__name__.upper(), help=text)
    known.add_output(parser)
    parser.add_argument("script", metavar="SCRIPT", help="a program of Python, which every worker runs")
    # what follows the script is its own, even where it looks like one of our flags
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="of the script, in its sys.argv")
    rest.required = False  # some versions of argparse ask for one where the script is missing, too
    return partial(carry_out, _launch)


def _settings() -> list[tuple[inspect.Parameter, str]]:
    """List the keywords of `elastic.launch` that a flag can give, each with the text of its docstring."""
    told = inspect.getdoc(run_everywhere) or ""
    keywords = [each for each in inspect.signature(run_everywhere).parameters.values() if each.kind is each.KEYWORD_ONLY]
    found = []
    for each in keywords:
        text = re.search(rf"^    {each.name}: (.*?)(?=^    \w+: |^\S|\Z)", told, re.MULTILINE | re.DOTALL)
        if each.name not in _NO_FLAGS and text is not None:  # argparse formats its help by %, so a percent sign is doubled
            found.append((each, " ".join(text[1].split()).replace("%", "%%").replace("`", "")))
    return found


def _launch(given: argparse.Namespace) -> int:
    path = Path(given.script)
    try:
        text = read_text(path)
        # before any worker starts, as a slip of the pen must not cost a launch
        ast.parse(text, str(path))
    except OSError as error:
        raise ValueError(f"The script {path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, SyntaxError) as error:
        raise ValueError(f"The script {path} is no program of Python: {error}.") from error
    settings = {each.name: getattr(given, each.name) for each, _ in _settings()}
    # the text travels: the file need not be on the hosts; path and folder serve where they are
    arguments = (str(path.absolute()), text, given.arguments, os.getcwd())
    # now: in a message it would fail after the workers have started
    _check_readable([("--title", given.title), ("SCRIPT", arguments[0]), *(("ARGUMENT", each) for each in given.arguments)])
    if not (given.workers or given.launch):
        given.local = 1 if given.worker_count is None else _at_least_one(given.worker_count)
    if given.workers and not given.launch and not os.path.lexists(given.workers):
        raise FileNotFoundError(
            f"The node file {given.workers} does not exist; name another one, or leave --workers out: then -n workers are "
            f"started on this machine."
        )
    with nodes_of(given, launcher_from(given)) as nodes:
        run_everywhere(run_script, nodes, arguments, **settings, on_print=_show)
    return EXIT_OK


def _at_least_one(count: int) -> int:
    # told of the option that was given: --local is none of this command
    if count < 1:
        raise ValueError(f"-n must be a positive integer, got {count}")
    return count


def _check_readable(texts: Sequence[tuple[str, str]]) -> None:
    """Check that the texts can travel. Raises: ValueError naming the first one with bytes that Python could not read."""
    for name, text in texts:
        try:
            # bytes of the command line that are no text come as lone surrogates (PEP 383)
            text.encode()
        except UnicodeEncodeError:
            encoding = sys.getfilesystemencoding()
            raise ValueError(
                f"{name} must be text in the encoding of this program, {encoding}, got {text!r}; with PYTHONUTF8=1 in the "
                f"environment that is UTF-8"
            ) from None


def _show(rank: int, text: str) -> None:
    # cleaned: the text of a worker may move the cursor
    sys.stdout.write("".join(f"[{rank}] {clean(line)}\n" for line in text.splitlines()))
    # into a file or pipe, too, as it comes: a long run is watched by it
    sys.stdout.flush()
