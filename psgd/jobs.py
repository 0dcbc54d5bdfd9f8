"""`psgd submit`, and commands that look after submitted jobs: `jobs`, `attach`, `stop`, `fetch`, `post-mortem`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from parallel_sgd.commands import jobs as known
from parallel_sgd.commands import options, repeat
from parallel_sgd.commands import submit as submission
from parallel_sgd.commands.output import carry_out
from rpc import OptionParser
from rpc.submit.run_folder import LATEST, RUNS, path_of

from . import above_0, positive
from .cli import Task

#: The options that `--help` of a command that trains shows; `--help-all` shows all of them.
_FIRST: Final = (
    "model", "worker_count", "local", "dataset", "transform", "epoch", "block_size", "learn_rate", "codec", "on_failure",
    "resume", "mission_title",
)  # fmt: skip


def run(parser: OptionParser) -> Task:
    """Configure `psgd run`: add its options to `parser`."""
    parser.usage = "%(prog)s JOB.TOML [options]"
    parser.epilog = (
        "What is not given stays as in the file. Without --local, -n or --launch it runs on as many workers of this machine as "
        f"the run had. Another number of workers shares the same blocks, so the bits stay. {options.EXIT_CODES}"
    )
    parser.keeps_words = True
    options.add_job(parser, count="number of workers of the node file")
    parser.set_defaults(post_mortem=None)
    # what is not given comes from the file, so given options must be known from defaults
    defaults = _told_apart(parser)
    _without_defaults(parser)
    # before the arguments below, which are always shown
    parser.show_first(_FIRST)
    parser.add_argument(
        "job_file",
        metavar="JOB.TOML",
        type=path_of,
        help="of a run's folder, or that folder, such as runs/latest, or a run's name in runs/",
    )
    _add_code(parser)
    return partial(_with_all, repeat.run, defaults)


def verify(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd verify`: add its options to `parser`."""
    # `verify` has none of the options of a job, but computes by the same code, which needs their values
    described = argparse.ArgumentParser()
    options.add_job(described)
    described.set_defaults(post_mortem=None)
    defaults = _told_apart(described)
    parser.epilog = (
        "Epochs are computed in this process, by as many workers as the run had, unless other workers are named. "
        "Exit codes: 0 all is equal, 1 something is not, or not signed as it must be, 2 wrong argument or "
        "file, or a run that cannot be computed again."
    )
    parser.add_argument(
        "run",
        nargs="?",
        default=f"{RUNS}/{LATEST}",
        metavar="RUN",
        type=path_of,
        help="the folder of a run, or its name in runs/ (default: the newest, %(default)s)",
    )
    parser.add_argument("--epoch", type=positive, metavar="K", help="this epoch, from the nearest checkpoint (default: all)")
    options.add_nodes(parser, "by N workers: of this process, or of the node file", None)
    parser.add_argument("--local", type=positive, metavar="N", help="by N workers of this machine")
    _add_code(parser)
    parser.add_argument("--signer", metavar="KEY.PUB", help="the run must be signed by the owner of this public key (PEM)")
    options.add_output(parser)
    return partial(_with_all, repeat.verify, defaults)


def _add_code(parser: argparse.ArgumentParser) -> None:
    # to import a file is to run it, and a run may come from somewhere else
    code = parser.add_mutually_exclusive_group()
    code.add_argument(
        "--allow-code",
        action="store_true",
        help="import the files of code that the job names, each of which is told with its SHA-256 (default: only those that "
        "lie outside of the folder and whose hash its manifest lists)",
    )
    code.add_argument("--no-code", action="store_true", help="import no code that the job names, whatever the manifest lists")


def sign(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd sign`: add its options to `parser`."""
    parser.epilog = (
        "Signs the manifest of the run and all files that it names, as model.sig in its folder, in the format of OpenSSF model "
        "signing. A key pair: openssl ecparam -name prime256v1 -genkey -noout -out my.key; openssl ec -in my.key -pubout -out "
        "my.pub. Exit codes: 0 signed, 2 wrong argument, key or file, or a run that is not what its manifest says."
    )
    parser.add_argument(
        "run", metavar="RUN", type=path_of, help="the folder of a run, such as runs/latest, or its name in runs/"
    )
    parser.add_argument("--key", required=True, metavar="KEY", help="your private key (PEM); the extra sign is needed")
    options.add_output(parser)
    return partial(carry_out, repeat.sign)


def _told_apart(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Return the defaults of the parser, which from now on tells given options only."""
    found = {}
    for action in parser._actions:
        if action.default is not argparse.SUPPRESS:
            found[action.dest] = parser.get_default(action.dest)
            action.default = argparse.SUPPRESS  # a default that argparse fills in looks like a given value
    # of `set_defaults` alone, without an option
    return found | parser._defaults


def _without_defaults(parser: argparse.ArgumentParser) -> None:
    """Strike the defaults of all options but those of the nodes out of the help: the file has values in their place."""
    for action in parser._actions:
        if action.help and action.dest not in ("workers", "key_file"):
            action.help = re.sub(r" \(default: [^()]*(\([^()]*\)[^()]*)*\)$", "", action.help)


def _with_all(
    task: Callable[[argparse.Namespace, Mapping[str, Any]], int], defaults: Mapping[str, Any], given: argparse.Namespace
) -> int:
    # verbosity and the form of errors need all values, the task those that were given
    return carry_out(lambda _: task(given, defaults), argparse.Namespace(**{**defaults, **vars(given)}), short=True)


def submit(parser: OptionParser) -> Task:
    """Configure `psgd submit`: add its options to `parser`."""
    parser.epilog = f"{options.EXIT_CODES} Example: %(prog)s -m dnn.model --local 2 --dataset digits --epochs 5"
    parser.usage = "%(prog)s -m FILE [options]"
    parser.keeps_words = True
    output = options.add_job(parser, "the name of the model's file")
    output.add_argument(
        "--post-mortem",
        action="store_const",
        const="",
        help="should it fail, collect what all workers know of it into post-mortem-JOB.zip",
    )
    parser.show_first(_FIRST)
    return partial(carry_out, _submit, short=True)


def _submit(given: argparse.Namespace) -> int:
    # here, not as a default: it is the name of another option's file
    if given.mission_title is None:
        given.mission_title = options.title_from(given.model or "")
    return submission.submit(given)


_ASKED: Final = (
    "Exit codes: 0 done, 2 wrong argument, or no worker knows the job, 4 no worker can be reached, 74 done, but the result "
    "could not be printed, 130 interrupted."
)
# of `attach`, which ends as the job ends
_WAITED_FOR: Final = _ASKED.replace("0 done", "0 done, 1 the job failed, 5 done, but without a node that was lost")


def jobs(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd jobs`: add its options to `parser`."""
    parser.add_argument(
        "--watch", nargs="?", type=above_0, const=2.0, metavar="SECONDS", help="again so often, until Ctrl-C (every 2 s)"
    )
    return _looking_after(parser, lambda given: known.jobs(given) if given.watch is None else known.watch(given))


def attach(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd attach`: add its options to `parser`."""
    # `dest` is the name of the option of `psgd-submit` that does the same, here and below: one task serves both
    parser.add_argument("attach", nargs="?", default="", metavar="JOB", help="its id (default: the newest)")
    # not short: no line per epoch comes from a job of somebody else, so progress through a pipe is that of the long console
    return _looking_after(parser, known.attach, _WAITED_FOR, short=False)


def stop(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd stop`: add its options to `parser`."""
    parser.add_argument("stop", type=options.job_id, metavar="JOB", help="its id")
    return _looking_after(parser, known.stop)


def fetch(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd fetch`: add its options to `parser`."""
    parser.add_argument("retrieve", nargs="?", default="", metavar="JOB", help="its id (default: the newest)")
    return _looking_after(parser, known.retrieve)


def post_mortem(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd post-mortem`: add its options to `parser`."""
    parser.add_argument("post_mortem", type=options.job_id, metavar="JOB", help="its id")
    return _looking_after(parser, submission.post_mortem)


def _looking_after(parser: argparse.ArgumentParser, task: Task, codes: str = _ASKED, *, short: bool = True) -> Task:
    parser.epilog = codes
    options.add_known_nodes(parser)
    options.add_output(parser)
    return partial(carry_out, task, short=short)
