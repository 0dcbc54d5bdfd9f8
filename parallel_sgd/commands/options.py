"""Options of `psgd submit`, and the parts of a job that they name: model, data set, transform, settings."""

from __future__ import annotations

import argparse
import os
import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import Field, fields
from functools import partial
from pathlib import Path
from typing import Any, Final

import nn
from network import VERSION
from nn.dataset import transforms
from nn.dataset.interface import AbsDataset
from nn.dataset.transforms.abstract import AbsTransformer
from nn.model import Model
from nn.tensor_files import ModelFileError
from rpc import OptionParser
from rpc.submit.run_folder import path_of
from rpc.support.option_parser import counted, number

from ..checkpoint.resume import run_at
from ..options.job_options import (
    LOCAL_NODES,
    MEANT,
    NODES_OF_A_FILE,
    OF_THE_JOB,
    OF_THE_MODEL,
    RATE,
    JobOptions,
)
from ..options.job_options import options as known_options
from ..options.named_parts import LISTED
from ..options.names import UnknownName, known_classes, make_object, split_objects
from .output import program_name, spelt, verbosity_of


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of `psgd-submit`, which looks after jobs, too; `psgd` has a command for each task."""
    parser = OptionParser(
        prog=program_name(),
        usage="%(prog)s -m FILE [options]\n"
        "       %(prog)s --jobs | --attach [JOB] | --stop JOB | --retrieve [JOB] | --post-mortem JOB [options]",
        description="Train a saved model on several workers, or look after a job that was left alone.",
        epilog=f"{EXIT_CODES} Example: %(prog)s -m dnn.model --local 2 --dataset digits --epochs 5",
    )
    parser.keeps_words = True
    output = add_job(parser, count="number of workers (default: 1; to look after a job, all of the file)")
    tasks = output.add_mutually_exclusive_group()  # else all but one would be passed over in silence
    tasks.add_argument("--jobs", action="store_true", help="list which jobs run where")
    tasks.add_argument(
        "--attach",
        nargs="?",
        const="",
        metavar="JOB",
        help="show the progress of a job again (default: newest), fetch its files",
    )
    tasks.add_argument("--stop", type=job_id, metavar="JOB", help="stop a job for good")
    tasks.add_argument("--retrieve", nargs="?", const="", metavar="JOB", help="fetch logs and files of a job (default: newest)")
    add_post_mortem(tasks)
    parser.add_argument("--version", action="version", version=VERSION)
    return parser


EXIT_CODES: Final = (
    "Exit codes: 0 done, 1 the job failed, 2 wrong argument, 3 not started, 4 a node cannot be reached, "
    "5 done, but without a node that was lost, 74 done, but the result could not be printed, 130 interrupted."
)


class Unasked(str):
    """Default of an option, which is told apart from the same text on the command line."""


DEFAULT_DATASET: Final = Unasked("mnist")


def add_job(parser: argparse.ArgumentParser, title: str = "", count: str = "number of workers (default: 1)") -> Any:
    """Add the options of a job and of its nodes.

    Args:
        parser: gets the options.
        title: the default of `--title` in words, which the caller replaces, for `mission_title` is then None; "" for that of
            `parallel()`.
        count: help of the option for the number of workers.

    Returns:
        The group of the options about output.
    """
    parser.add_argument("-m", "--model", metavar="FILE", help="a model file, from nn.model.Model.save()")
    nodes = add_nodes(parser, count)
    nodes.add_argument("--local", type=counted, metavar="N", help="start N workers on this machine for this job")
    data = parser.add_argument_group("data")
    data.add_argument(
        "--dataset",
        default=DEFAULT_DATASET,
        metavar="NAME[:KEY=VALUE,..]",
        help="digits, mnist, cifar10, .., csv:path=houses.csv,label=price, npz:path=.., or module:Class, file.py:Class, with "
        "arguments too (default: mnist)",
    )
    data.add_argument(
        "--transform",
        default="shuffle,imagecls",
        metavar="NAME[:KEY=VALUE,..],..",
        help="applied in order, such as shuffle,imagecls:flatten=false,channels=true, or none (default: shuffle,imagecls)",
    )
    training = parser.add_argument_group("training")
    training.add_argument("--learn-rate", type=number, help="first parameter of the rule (default: the rule's)")
    faults = parser.add_argument_group("faults")
    output = add_output(parser)
    groups = {"nodes": nodes, "data": data, "training": training, "faults": faults, "output": output}
    for field in fields(JobOptions):
        if field.metadata["option"].flag is not None:
            _add_flag(groups, field, title if field.name == "mission_title" else "")
    if isinstance(parser, OptionParser):
        parser.meant_options = {name.replace("_", "-"): flag for name, flag in {**_meant(), **_ELSEWHERE}.items()}
    return output


def _flags() -> dict[str, str]:
    """Return, by the names that the options have in `parallel()`, their flags."""
    flags = {each.name: each.metadata["option"].flag for each in fields(JobOptions)}
    return {name: flag.names[0] for name, flag in flags.items() if flag is not None}


def _meant() -> dict[str, str]:
    """Return the flags by the names of their options in `parallel()`, and by others that it answers."""
    names = _flags()
    return {**{name: names[meant] if meant in names else _INSTEAD[meant] for name, meant in MEANT.items()}, **names}


_INSTEAD: Final = {
    RATE: "--learn-rate",
    LOCAL_NODES: "-n N",
    NODES_OF_A_FILE: "--workers FILE",
    OF_THE_JOB: "--dataset",
    # a model file has them
    OF_THE_MODEL: "",
    "job_title": "--title",
}
"""Flags for what is no option of `parallel()` by itself, "" for none."""

_OF_NODES: Final = (LOCAL_NODES, NODES_OF_A_FILE)
# a file of them in some programs, a number in others
_OF_MANY: Final = dict.fromkeys(("nnodes", "nodes", "num_nodes"), "--workers FILE, or -n N for some of it")
_HERE_TOO: Final = "--local N for workers on this machine, or -n N for some of the node file"
_ELSEWHERE: Final = {
    **{word: _HERE_TOO for word, meant in MEANT.items() if meant == LOCAL_NODES},
    **_OF_MANY,
    **dict.fromkeys(("rule", "algorithm"), "--gradient-descent"),
    "blocks": "--block-assignment fixed:N",
    "job_title": "--title",
    "restart": "--on-failure restart",
    # there is no such flag, and those of near names mean another thing
    **dict.fromkeys(("directory", "no_code", "shuffle", "timeout"), ""),
}
"""Names that options have in other programs and commands alone, and the flags that are meant here."""


def in_a_sweep() -> dict[str, str]:
    """Return, by the flags that training has and others that it answers, without dashes, where a sweep has the option."""
    names = {flag: f"'{name}' in [options] of" for name, flag in _flags().items()}
    names |= {"--learn-rate": "'gd_params' in [options] of", **_AT_THE_TOP}
    words = {**{word: flag for word, flag in _meant().items() if flag in names}, **{flag: flag for flag in names}}
    return {word.lstrip("-").replace("_", "-"): f"{names[flag]} the sweep file" for word, flag in words.items()}


_AT_THE_TOP: Final = {
    **{f"--{name}": f"'{name}' at the top of" for name in ("model", "dataset", "transform", "title")},
    **dict.fromkeys(("--seed", "--seeds"), "'seeds', their number or a list of them, at the top of"),
}
"""Flags of what a sweep has for each of its runs, beside the options of all of them, and where."""


def title_from(model: str) -> str:
    """Return the name of a model's file as the title of a job, without the letters that a title cannot have.

    Args:
        model: path of the file.
    """
    # "ä" as "a" and a mark, which is left out: what remains of a name is to be known again
    plain = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", Path(model).stem))
    letters = re.sub(r"[^A-Za-z0-9 ._()+-]+|\.{2,}", "-", plain)
    return re.sub(r"^[^A-Za-z0-9]+", "", letters)[:64].rstrip(" .-") or JobOptions.mission_title


def add_nodes(parser: argparse.ArgumentParser, count: str, file: str | None = "worker.json") -> Any:
    """Add the options that say which workers there are; return the group.

    Args:
        parser: gets the options.
        count: help of the option for the number of workers.
        file: default of the node file; None for no default.
    """
    nodes = parser.add_argument_group("nodes")
    nodes.add_argument("-n", "--worker-count", type=counted, metavar="N", help=count)
    default = "" if file is None else f" (default: {file})"
    nodes.add_argument("--workers", type=partial(_node_file, parser), default=file, metavar="FILE", help=f"node file{default}")
    nodes.add_argument(
        "--launch",
        metavar="LAUNCHER",
        help="start the workers, or wait for those that a scheduler starts: local:N, ssh:HOST,HOST, slurm[:DIR], mpi:DIR, "
        "kubernetes:SERVICE, dask:ADDRESS",
    )
    nodes.add_argument("--ps", action="store_true", help="use a parameter server too")
    nodes.add_argument("--key-file", metavar="FILE", help="the cluster's key (default: in your configuration directory)")
    if isinstance(parser, OptionParser):
        words = {**{word: flag for word, flag in _meant().items() if MEANT.get(word) in _OF_NODES}, **_OF_MANY}
        parser.meant_options = {word.replace("_", "-"): flag for word, flag in words.items()}
    return nodes


def _node_file(parser: argparse.ArgumentParser, text: str) -> str:
    """Return the path of a node file, as the `type` of an argument; a number without such a file is that of workers."""
    if text.isdecimal() and not os.path.exists(text):
        here = f", --local {text} starts as many on this machine" if "--local" in parser._option_string_actions else ""
        raise argparse.ArgumentTypeError(f"must be a node file, got {text!r}; -n {text} takes so many workers of it{here}")
    return text


def add_known_nodes(parser: argparse.ArgumentParser) -> None:
    """Add the options for workers that may know of earlier jobs: for commands that look after one."""
    add_nodes(parser, "ask so many workers (default: all of the file)")
    # the code for nodes reads these, for which such commands have no options
    parser.set_defaults(local=None, wait=0.0, discovery=None)


def add_output(parser: argparse.ArgumentParser) -> Any:
    """Add the options of the output; return the group."""
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    shown = output.add_mutually_exclusive_group()
    shown.add_argument("-q", "--quiet", action="store_true", help="show warnings and errors only, and no progress")
    shown.add_argument("-v", "--verbose", action="store_true", help="show all there is to say (verbose=2 of parallel())")
    return output


def add_post_mortem(group: Any) -> None:
    """Add the option that collects a post-mortem."""
    group.add_argument(
        "--post-mortem",
        nargs="?",
        const="",
        metavar="JOB",
        help="collect what all workers know of a job that failed into post-mortem-JOB.zip; without JOB: of the one that is "
        "submitted, should it fail",
    )


class _Spelt(argparse.Action):
    """Option with several names that keeps the one that was written, for messages about its value (`output.spelt`)."""

    def __call__(self, _: argparse.ArgumentParser, found: argparse.Namespace, value: Any, name: str | None = None) -> None:
        setattr(found, self.dest, value)
        found.spelt = {**getattr(found, "spelt", {}), self.dest: name}


def _add_flag(groups: Mapping[str, Any], field: Field[Any], by: str = "") -> None:
    """Add the argument of an option, whose default is that of `parallel()` unless the flag has one of its own, as a text, or
    the caller finds it out, `by` these words.
    """
    about = field.metadata["option"]
    flag, settings = about.flag, {"default": field.default, **about.form.settings, **about.flag.settings}
    said = flag.help or about.text.rstrip(".")
    if "{forms}" in said:
        said = said.format(forms=", ".join(LISTED[flag.form]()))
    if "(default: " not in said and settings["default"] not in (None, "", []):
        shown = settings["default"]
        said += f" (default: {by})" if by else f" (default: {shown:g})" if isinstance(shown, float) else f" (default: {shown})"
    if by:
        settings["default"] = None
    if len(flag.names) > 1:
        settings["action"] = _Spelt
    if settings.get("action") in (None, _Spelt) and "choices" not in settings:
        settings.setdefault("metavar", flag.names[0].strip("-").upper().replace("-", "_"))
    groups[flag.group].add_argument(*flag.names, dest=field.name, help=said, **settings)


def job_id(text: str) -> str:
    """Return a job's id, as the `type` of an argument: an empty one, as of a shell variable that is not set, would mean any
    job.
    """
    if not text:
        raise argparse.ArgumentTypeError("must be a job's id, as 'psgd jobs' shows it, got ''")
    return text


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `ParallelSGD.parallel` beside the nodes.

    Raises: ValueError naming the option.
    """
    # by the forms that read job files, too: one value has one reading
    flagged = ((name, about) for name, about in known_options() if about.flag is not None)
    names = spelt(options)
    given = {name: about.form.read(names[name], getattr(options, name)) for name, about in flagged}
    if isinstance(given["gd_params"], dict) and options.learn_rate is not None:
        raise ValueError("--learn-rate does not go with parameters of the rule by name, as the job file has them.")
    if given["gd_params"] and options.learn_rate is None and isinstance(options.gd_params, str):
        raise ValueError("--gd-params come after the learning rate: give --learn-rate too.")
    if options.learn_rate is not None:
        # of a job file the rule's arguments are a list, with the learning rate first
        further = given["gd_params"] if isinstance(options.gd_params, str) else given["gd_params"][1:]
        given["gd_params"] = (options.learn_rate, *further)
    return {**given, "verbose": verbosity_of(options)}


def load_model(path: str) -> Model:
    """Load the model in a file.

    Raises: ValueError for a file that holds none or cannot be read.
    """
    try:
        return Model.load(path)
    except OSError as error:
        trained = trained_model(path)
        # a job begins with the model of a run, or with the one before it: which of them is the user's to say
        meant = f" The model that this run has trained is '{trained}'." if trained else ""
        raise ValueError(f"The model file {path} cannot be read: {error.strerror or error}.{meant}") from error
    except ModelFileError as error:
        raise ValueError(str(error)) from error


def trained_model(name: str) -> str:
    """Return the path of the model that a run has trained, by the folder of the run or its name; "" where there is none."""
    run = run_at(Path(path_of(name)))
    models = [] if run is None else sorted(run.path.glob("Node-*-Retrieve/MODEL-*.model"))
    return os.path.relpath(models[0]) if models else ""


def make_dataset(text: str) -> AbsDataset:
    """Make a data set by its name, with its arguments: `digits`, `csv:path=houses.csv,label=price`.

    Raises: UnknownName.
    """
    known = {name: kind for name, kind in known_classes(nn.dataset, AbsDataset).items() if kind is not nn.dataset.ArrayDataset}
    # `digits` for DigitsDataset, too
    known |= {name.removesuffix("dataset"): kind for name, kind in known.items()}
    # before it is taken for module.Class; the name of a data set comes first, whatever lies here
    if ":" not in text and text.strip().lower() not in known and (hint := _of_a_file(text, known)):
        raise UnknownName(f"--dataset must name a data set, got {text!r}, {hint}")
    made: AbsDataset = make_object(text, AbsDataset, known, "--dataset")
    return made


_PACKED: Final = (".gz", ".bz2", ".xz", ".zip")
_TABLES: Final = {
    ".parquet": "read_parquet",
    ".feather": "read_feather",
    ".arrow": "read_feather",
    ".xlsx": "read_excel",
    ".xls": "read_excel",
    ".ods": "read_excel",
    ".json": "read_json",
    ".jsonl": "read_json",
    ".pkl": "read_pickle",
    ".sas7bdat": "read_sas",
    ".dta": "read_stata",
    ".sav": "read_spss",
}
"""Endings of files of tables that no data set reads, and the function of pandas that does."""


def _of_a_file(text: str, known: Collection[str]) -> str:
    """Return how the data of a file or folder are named, for a text that is its path alone; "" for any other text."""
    name = os.path.basename(text).lower()
    # `churn.csv.gz` is read as `churn.csv` is
    first, packed = os.path.splitext(name)
    ending = os.path.splitext(first)[1] if packed in _PACKED else packed
    if os.path.isdir(text):
        return f"a folder; images in folders, one per class, are imagefolder:path={text}, and texts textfolder:path={text}"
    if ending == packed and ending[1:] in known:  # `houses.csv`, which `make_object` answers where there is such a file
        return ""
    if ending in (".csv", ".tsv", ".txt"):
        tab = r",delimiter=\t" * (ending == ".tsv")
        return f"a file; write csv:path={text},label=COLUMN{tab}"
    if ending in _TABLES:
        read = f"nn.dataset.ArrayDataset(frame, labels) takes what pandas.{_TABLES[ending]}({os.path.basename(text)!r}) reads"
        return f"a file that no data set reads; in a program {read}, or pandas writes a CSV file of it"
    return ""


def make_transform(text: str) -> AbsTransformer | None:
    """Make transforms by name, with their arguments and commas between them, one after the other; None for `none`.

    Raises: UnknownName.
    """
    if text == "none":
        return None
    known = {name: kind for name, kind in known_classes(transforms, AbsTransformer).items() if kind is not transforms.Chain}
    steps = [make_object(part, AbsTransformer, known, "--transform", several=True) for part in split_objects(text)]
    chain: AbsTransformer = steps[0]
    for step in steps[1:]:
        chain = chain.add(step)
    return chain
