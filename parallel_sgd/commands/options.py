"""The options of `psgd-submit`, and the parts of a job that they name: model, data set, transform, settings."""

from __future__ import annotations

import argparse
import math
from typing import Any

import nn
from network import VERSION
from nn.dataset import transforms
from nn.dataset.interface import AbsDataset
from nn.dataset.transforms.abstract import AbsTransformer
from nn.gradient_descent.interface import IGradientDescent
from nn.model import Model
from nn.optimizer import IOptimizer
from nn.tensor_files import ModelFileError
from rpc import OptionParser
from rpc.logs import NORMAL, QUIET, VERBOSE
from rpc.submit import POLICIES

from .. import batch_sync, codec, profiles
from ..batch_sync import ISyncType, StaleSynchronous
from ..checkpoint.schedule import AUTO
from ..codec.interfaces import Codec
from ..names import UnknownName, find_class, known_classes, make_object, split_objects
from ..profiles.blockassignment.abstract import AbsBlockAssignment
from .output import program_name


def make_parser() -> argparse.ArgumentParser:
    """All of them, in the groups in which `--help` shows them."""
    parser = OptionParser(
        prog=program_name(),
        usage="%(prog)s -m FILE [options]\n"
        "       %(prog)s --jobs | --attach [JOB] | --stop JOB | --retrieve [JOB] | --post-mortem JOB [options]",
        description="Train a saved model on several workers, or look after a job that was left alone.",
        epilog="Exit codes: 0 done, 1 the job failed, 2 wrong argument, 3 not started, 4 a node cannot be reached, "
        "5 done, but without a node that was lost, 130 interrupted. "
        "Example: %(prog)s -m dnn.model --local 2 --dataset digits --epochs 5",
    )
    parser.add_argument("-m", "--model", metavar="FILE", help="a model file, from nn.model.Model.save()")
    nodes = parser.add_argument_group("nodes")
    nodes.add_argument(
        "-n",
        "--worker-count",
        type=int,
        metavar="N",
        help="number of workers (default: 1; to look after a job, all of the file)",
    )
    nodes.add_argument("--workers", default="worker.json", metavar="FILE", help="node file (default: worker.json)")
    nodes.add_argument("--local", type=int, metavar="N", help="start N workers on this machine for this job")
    nodes.add_argument(
        "--launch",
        metavar="LAUNCHER",
        help="start the workers, or wait for those that a scheduler starts: local:N, ssh:HOST,HOST, slurm[:DIR], mpi:DIR, "
        "kubernetes:SERVICE, dask:ADDRESS",
    )
    nodes.add_argument("--ps", action="store_true", help="use a parameter server too")
    nodes.add_argument("--key-file", metavar="FILE", help="the cluster's key (default: in your configuration directory)")
    nodes.add_argument(
        "--wait", type=float, default=0.0, metavar="SECONDS", help="wait this long for busy workers (default: 0)"
    )
    data = parser.add_argument_group("data")
    data.add_argument(
        "--dataset",
        default="mnist",
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
    data.add_argument(
        "--no-shuffle",
        action="store_true",
        help="deal the samples in the same order in every epoch (default: a new one in each)",
    )
    training = parser.add_argument_group("training")
    training.add_argument("--epochs", type=int, default=10, help="default: 10")
    training.add_argument("--batch-size", type=int, default=64, help="samples of one block (default: 64)")
    training.add_argument(
        "--class-weight", metavar="CLASS=WEIGHT,..", help="multiplies the losses of the samples of a class (default: 1 each)"
    )
    training.add_argument("--redundancy", type=int, default=1, help="workers that compute each block (default: 1)")
    training.add_argument(
        "--block-assignment", default="iid", help="iid, duplicate, cyclic, fixed:BLOCKS, or module.Class (default: iid)"
    )
    training.add_argument(
        "--psgd",
        "--sync-type",
        default="ssgd",
        metavar="TYPE",
        help="how workers wait for each other: ssgd, asgd, stale:BATCHES, or module.Class (default: ssgd)",
    )
    training.add_argument("--ssgd-timeout", type=float, default=10000, metavar="MS", help="default: 10000")
    training.add_argument("--optimizer", "--op-type", default="psgd", help="what is exchanged (default: psgd, raw gradients)")
    training.add_argument("--gradient-descent", default="adam", metavar="RULE", help="default: adam")
    training.add_argument("--learn-rate", type=float, help="first parameter of the rule (default: the rule's)")
    training.add_argument(
        "--gd-params", default="", metavar="A,B", help="further parameters of the rule, after the learning rate"
    )
    training.add_argument("--seed", type=int, default=0, help="of every random draw (default: 0)")
    training.add_argument("--codec", help="what is sent, to whom, how it is merged: plain, or module.Class, file.py:Class")
    training.add_argument("--server-codec", metavar="CODEC", help="likewise, on the parameter server")
    training.add_argument(
        "--codec-params",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="for the codecs, which say what they read; repeatable",
    )
    training.add_argument("--network-bandwidth", type=float, default=1048576, metavar="BYTES_PER_S", help="default: 1048576")
    training.add_argument("--blas-threads", default="1", help="per worker, or auto (default: 1)")
    faults = parser.add_argument_group("faults")
    faults.add_argument(
        "--on-failure", choices=POLICIES, help="what follows when a node dies (default: fail, or redundant where that works)"
    )
    faults.add_argument(
        "--stall-timeout", type=float, metavar="SECONDS", help="a node that takes longer for a batch is stuck (default: adapts)"
    )
    faults.add_argument(
        "--min-workers", type=int, metavar="N", help="with --on-failure shrink: fewest to go on with (default: 1)"
    )
    faults.add_argument("--max-restarts", type=int, default=3, help="restarts after which the job fails (default: 3)")
    faults.add_argument(
        "--checkpoint-every",
        default=AUTO,
        metavar="WHEN",
        help="epoch, a number of batches, seconds as in 30s, or off (default: epoch where --on-failure starts again and with "
        "--local, else off)",
    )
    faults.add_argument(
        "--commit-every",
        type=int,
        default=1,
        metavar="BATCHES",
        help="how often a worker whose state no other has copies it, to go on from when all start again (default: 1)",
    )
    faults.add_argument("--max-workers", type=int, metavar="N", help="with --discovery: most that the job may grow to")
    faults.add_argument(
        "--discovery",
        metavar="FILE",
        help="a script that prints 'host[:port] [slots=n]' lines, a worker.json "
        "or a folder of --rendezvous to watch, or the word launcher for what --launch finds",
    )
    faults.add_argument("--fault", default="", metavar="PLAN", help="what shall go wrong, as 'kill 1@e1.b3; +500ms 0>1'")
    faults.add_argument(
        "--resume",
        metavar="last|JOB|PATH",
        help="go on, up to --epochs: the newest run here, an ended job, or the path of a run or a checkpoint",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--title", default="P-SGD", help="part of the names of the result files (default: P-SGD)")
    output.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    shown = output.add_mutually_exclusive_group()
    shown.add_argument("-q", "--quiet", action="store_true", help="show warnings and errors only, and no progress")
    shown.add_argument("-v", "--verbose", action="store_true", help="show all there is to say (verbose=2 of parallel())")
    tasks = output.add_mutually_exclusive_group()  # else all but one would be passed over in silence
    tasks.add_argument("--jobs", action="store_true", help="list which jobs run where")
    tasks.add_argument(
        "--attach",
        nargs="?",
        const="",
        metavar="JOB",
        help="show the progress of a job again (default: newest), fetch its files",
    )
    tasks.add_argument("--stop", type=_job_id, metavar="JOB", help="stop a job for good")
    tasks.add_argument("--retrieve", nargs="?", const="", metavar="JOB", help="fetch logs and files of a job (default: newest)")
    tasks.add_argument(
        "--post-mortem",
        nargs="?",
        const="",
        metavar="JOB",
        help="collect what all workers know of a job that failed into post-mortem-JOB.zip; without JOB: of the one that is "
        "submitted, should it fail",
    )
    parser.add_argument("--version", action="version", version=VERSION)
    return parser


def _job_id(text: str) -> str:
    """An empty one, as of a shell variable that is not set, would mean any job."""
    if not text:
        raise argparse.ArgumentTypeError("must be a job's id, as --jobs shows it, got ''")
    return text


_SYNC_FORMS = ("ssgd", "asgd", "stale:N")
_ASSIGNMENT_FORMS = ("iid", "duplicate", "cyclic", "fixed:BLOCKS")
_SYNC_NAMES = {"ssgd": "synchronizedsgd", "asgd": "asynchronizedsgd"}


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `ParallelSGD.parallel` beside the nodes.

    Raises: ValueError naming the option.
    """
    codecs = known_classes(codec, Codec)
    rules = known_classes(nn.gradient_descent, IGradientDescent)
    optimizers = {name: kind for name, kind in known_classes(nn.optimizer, IOptimizer).items() if kind.exchanges}
    further = [_parameter("--gd-params", part) for part in options.gd_params.split(",") if part.strip()]
    if further and options.learn_rate is None:
        raise ValueError("--gd-params come after the learning rate: give --learn-rate too.")
    threads = options.blas_threads
    return {
        "redundancy": options.redundancy,
        "block_size": options.batch_size,
        "epoch": options.epochs,
        "assignment_type": _assignment(options.block_assignment),
        "sync_type": _sync_type(options.psgd),
        "op_type": find_class(_with_suffix(options.optimizer, optimizers), IOptimizer, optimizers, "--optimizer"),
        "gd_type": find_class(_with_suffix(options.gradient_descent, rules), IGradientDescent, rules, "--gradient-descent"),
        "gd_params": () if options.learn_rate is None else (options.learn_rate, *further),
        "codec": find_class(options.codec, Codec, codecs, "--codec") if options.codec else None,
        "ps_codec": find_class(options.server_codec, Codec, codecs, "--server-codec") if options.server_codec else None,
        "network_bandwidth": options.network_bandwidth,
        "mission_title": options.title,
        "ssgd_timeout_limit": options.ssgd_timeout,
        "codec_extra_parameters": dict(_pair(text) for text in options.codec_params),
        "seed": options.seed,
        "shuffle": not options.no_shuffle,
        "class_weight": _class_weight(options.class_weight),
        "wait": options.wait,
        "verbose": verbosity_of(options),
        "on_failure": options.on_failure,
        "max_restarts": options.max_restarts,
        "stall_timeout": options.stall_timeout,
        "min_workers": options.min_workers,
        "max_workers": options.max_workers,
        "discovery": options.discovery,
        "fault": options.fault,
        "checkpoint_every": int(options.checkpoint_every) if options.checkpoint_every.isdecimal() else options.checkpoint_every,
        "commit_every": options.commit_every,
        "resume": options.resume,
        "blas_threads": threads if threads == "auto" else _integer("--blas-threads", threads),
    }


def verbosity_of(options: argparse.Namespace) -> int:
    """The `verbose` that --quiet and --verbose stand for."""
    return QUIET if options.quiet else VERBOSE if options.verbose else NORMAL


def _with_suffix(text: str, known: Any) -> str:
    """`adam` stands for ADAMOptimizer."""
    return f"{text}optimizer" if f"{text}optimizer".lower() in known else text


def _sync_type(text: str) -> Any:
    kind, _, staleness = text.partition(":")
    if kind in ("stale", "ssp"):
        return StaleSynchronous(math.inf if staleness == "inf" else _integer(f"--psgd {kind}:", staleness))
    return find_class(_SYNC_NAMES.get(text, text), ISyncType, known_classes(batch_sync, ISyncType), "--psgd", _SYNC_FORMS)


def _assignment(text: str) -> Any:
    if text == "fixed" or text.startswith("fixed:"):
        blocks = text.partition(":")[2] or "4"
        return profiles.FixedBlockAssignment.of(blocks=_integer("--block-assignment fixed:", blocks))
    known = known_classes(profiles, AbsBlockAssignment)
    full = f"{text}blockassignment" if f"{text}blockassignment" in known else f"{text}assignment"
    return find_class(full if full in known else text, AbsBlockAssignment, known, "--block-assignment", _ASSIGNMENT_FORMS)


def load_model(path: str) -> Model:
    """The model in a file.

    Raises: ValueError for a file that holds none or cannot be read.
    """
    try:
        return Model.load(path)
    except OSError as error:
        raise ValueError(f"The model file {path} cannot be read: {error.strerror or error}.") from error
    except ModelFileError as error:
        raise ValueError(str(error)) from error


def make_dataset(text: str) -> AbsDataset:
    """A data set by its name, with its arguments: `digits`, `csv:path=houses.csv,label=price`.

    Raises: UnknownName.
    """
    known = {name: kind for name, kind in known_classes(nn.dataset, AbsDataset).items() if kind is not nn.dataset.ArrayDataset}
    known |= {name.removesuffix("dataset"): kind for name, kind in known.items()}
    made: AbsDataset = make_object(text, AbsDataset, known, "--dataset")
    return made


def make_transform(text: str) -> AbsTransformer | None:
    """Transforms by name, with their arguments and commas between them, one after the other; None for `none`.

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


def _pair(text: str) -> tuple[str, float | int | str]:
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise ValueError(f"--codec-params must be KEY=VALUE, got {text!r}.")
    try:
        return key, _number(value)
    except ValueError:
        return key, value


def _class_weight(text: str | None) -> dict[int, float] | None:
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    try:
        return {int(number): float(weight) for number, _, weight in pairs}
    except ValueError:
        raise UnknownName(f"--class-weight must be CLASS=WEIGHT with commas between them, got {text!r}.") from None


def _number(text: str) -> float | int:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _parameter(option: str, text: str) -> float | int:
    try:
        return _number(text)
    except ValueError:
        raise UnknownName(f"{option} must be numbers with commas between them, got {text!r}.") from None


def _integer(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UnknownName(f"{option} must be an integer, got {text!r}.") from None
