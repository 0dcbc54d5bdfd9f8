"""`job_submit.py` and `psgd-submit`: submit a saved model as a job, or fetch the files of an earlier one.

Exit codes: 0 done without error; 1 the job failed; 2 an argument is wrong; 3 the job was not started; 4 a node cannot be
reached or refuses us; 5 the job has its result, but a node was lost on the way; 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import nn
from network.errors import NetworkError
from network.nodes import NodeAssignment
from network.request import Request
from network.version import VERSION
from nn.dataset import transforms
from nn.dataset.interface import AbsDataset
from nn.dataset.transforms.abstract import AbsTransformer
from nn.gradient_descent.interface import IGradientDescent
from nn.model import Model
from nn.model.tensors import ModelFileError
from nn.optimizer import IOptimizer
from rpc import Reclaimer, SubmissionError
from rpc.logs import attach_console

from . import batch_sync, codec, profiles
from .batch_sync import ISyncType, StaleSynchronous
from .checkpoint.schedule import AUTO
from .codec.interfaces import Codec
from .errors import JobFailed, describe_failures
from .job import ParallelSGD
from .names import UnknownName, find_class, known_classes, ready_made
from .nodes import local_workers, parse_worker
from .profiles.blockassignment.abstract import AbsBlockAssignment
from .recovery import POLICIES
from .result import JobResult

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_NOT_STARTED, EXIT_NETWORK, EXIT_NODE_LOST = range(6)
EXIT_INTERRUPTED = 130
_SYNC_NAMES = {"ssgd": "synchronizedsgd", "asgd": "asynchronizedsgd"}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="job_submit.py",
        description="Train a saved model on several workers, or fetch the files of an earlier job (--retrieve).",
        epilog="Exit codes: 0 done, 1 the job failed, 2 wrong argument, 3 not started, 4 a node cannot be reached, "
        "5 done, but a node was lost on the way, 130 interrupted. "
        "Example: job_submit.py -m dnn.model --local 2 --dataset digits --epochs 5",
    )
    parser.add_argument("-m", "--model", metavar="FILE", help="a model file, from nn.model.Model.save()")
    nodes = parser.add_argument_group("nodes")
    nodes.add_argument("-n", "--worker-count", type=int, metavar="N", help="number of workers (default: 1)")
    nodes.add_argument("--workers", default="worker.json", metavar="FILE", help="node file (default: worker.json)")
    nodes.add_argument("--local", type=int, metavar="N", help="start N workers on this machine for this job")
    nodes.add_argument("--ps", action="store_true", help="use a parameter server too")
    nodes.add_argument("--key-file", metavar="FILE", help="the cluster's key (default: in your configuration directory)")
    nodes.add_argument(
        "--wait", type=float, default=0.0, metavar="SECONDS", help="wait this long for busy workers (default: 0)"
    )
    data = parser.add_argument_group("data")
    data.add_argument("--dataset", default="mnist", help="digits, mnist, cifar10, ... or module:Class (default: mnist)")
    data.add_argument("--transform", default="shuffle,imagecls", help="applied in order, or none (default: shuffle,imagecls)")
    training = parser.add_argument_group("training")
    training.add_argument("--epochs", type=int, default=10, help="default: 10")
    training.add_argument("--batch-size", type=int, default=64, help="samples of one block (default: 64)")
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
    training.add_argument("--codec-params", action="append", default=[], metavar="KEY=VALUE", help="for the codecs; repeatable")
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
        help="epoch, a number of batches, seconds as in 30s, or off (default: epoch where --on-failure starts again, else off)",
    )
    faults.add_argument("--max-workers", type=int, metavar="N", help="with --discovery: most that the job may grow to")
    faults.add_argument(
        "--discovery", metavar="FILE", help="a script that prints 'host[:port] [slots=n]' lines, or a worker.json to watch"
    )
    faults.add_argument("--fault", default="", metavar="PLAN", help="what shall go wrong, as 'kill 1@e1.b3; +500ms 0>1'")
    faults.add_argument("--resume", metavar="JOB|PATH", help="go on with an ended job, or from a checkpoint, up to --epochs")
    output = parser.add_argument_group("output")
    output.add_argument("--title", default="P-SGD", help="part of the names of the result files (default: P-SGD)")
    output.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    output.add_argument(
        "--retrieve", nargs="?", const="", metavar="JOB", help="fetch logs and files of a job (default: newest)"
    )
    parser.add_argument("--version", action="version", version=VERSION)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code of the module's documentation."""
    options = _parser().parse_args(arguments)
    attach_console()
    _end_cleanly()
    try:
        if options.retrieve is not None:
            return _retrieve(options)
        return _submit(options)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except JobFailed as failure:
        _complain(options, failure, job=failure.job_id, files=_paths(failure.files))
        return EXIT_FAILED
    except SubmissionError as error:
        _complain(options, error)
        return EXIT_NOT_STARTED
    except NetworkError as error:
        _complain(options, error)
        return EXIT_NETWORK
    except (ValueError, TypeError, LookupError, OSError) as error:
        _complain(options, error)
        return EXIT_USAGE


def _end_cleanly() -> None:
    """Let a closed terminal or a service manager end the command as Ctrl-C does: local workers and their files go with it."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda received, _frame: sys.exit(128 + received))


def _submit(options: argparse.Namespace) -> int:
    if options.model is None:
        raise ValueError("Which model? Give -m FILE (see --help).")
    job = ParallelSGD(_model(options.model), _dataset(options.dataset), _transform(options.transform))
    settings = _settings(options)
    with _nodes(options) as nodes:
        result: JobResult = job.parallel(nodes, **settings)
    if options.json:
        figures = {name: value if math.isfinite(value) else None for name, value in result.items()}  # JSON knows no NaN
        content = {"result": figures, "job": result.job_id, "files": _paths(result.files)}
        if result.failures:
            content["failures"] = describe_failures(result.failures)
        sys.stdout.write(json.dumps(content) + "\n")
    else:
        sys.stdout.write(f"{result}\n")
    return EXIT_NODE_LOST if result.failures else EXIT_OK


@contextmanager
def _nodes(options: argparse.Namespace) -> Iterator[NodeAssignment]:
    if options.local is not None:
        if options.worker_count not in (None, options.local):
            raise ValueError(f"--local {options.local} and -n {options.worker_count} disagree.")
        with local_workers(options.local, options.ps) as nodes:
            yield nodes
        return
    found = parse_worker(_worker_count(options), options.ps, options.workers)
    found.key_file = options.key_file
    yield found


def _worker_count(options: argparse.Namespace) -> int:
    return 1 if options.worker_count is None else int(options.worker_count)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
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
        "wait": options.wait,
        "on_failure": options.on_failure,
        "max_restarts": options.max_restarts,
        "stall_timeout": options.stall_timeout,
        "min_workers": options.min_workers,
        "max_workers": options.max_workers,
        "discovery": options.discovery,
        "fault": options.fault,
        "checkpoint_every": int(options.checkpoint_every) if options.checkpoint_every.isdecimal() else options.checkpoint_every,
        "resume": options.resume,
        "blas_threads": threads if threads == "auto" else _integer("--blas-threads", threads),
    }


def _with_suffix(text: str, known: Any) -> str:
    """`adam` stands for ADAMOptimizer."""
    return f"{text}optimizer" if f"{text}optimizer".lower() in known else text


def _sync_type(text: str) -> Any:
    kind, _, staleness = text.partition(":")
    if kind in ("stale", "ssp"):
        return StaleSynchronous(math.inf if staleness == "inf" else _integer(f"--psgd {kind}:", staleness))
    return find_class(_SYNC_NAMES.get(text, text), ISyncType, known_classes(batch_sync, ISyncType), "--psgd")


def _assignment(text: str) -> Any:
    if text == "fixed" or text.startswith("fixed:"):
        blocks = text.partition(":")[2] or "4"
        return profiles.FixedBlockAssignment.of(blocks=_integer("--block-assignment fixed:", blocks))
    known = known_classes(profiles, AbsBlockAssignment)
    full = f"{text}blockassignment" if f"{text}blockassignment" in known else f"{text}assignment"
    return find_class(full if full in known else text, AbsBlockAssignment, known, "--block-assignment")


def _model(path: str) -> Model:
    try:
        return Model.load(path)
    except ModelFileError as error:
        raise ValueError(f"The model file {path} cannot be used: {error}") from error


def _dataset(text: str) -> AbsDataset:
    made: AbsDataset = find_class(text, AbsDataset, ready_made(nn.dataset, AbsDataset), "--dataset")()
    return made


def _transform(text: str) -> AbsTransformer | None:
    if text == "none":
        return None
    known = ready_made(transforms, AbsTransformer)
    steps = [find_class(part.strip(), AbsTransformer, known, "--transform")() for part in text.split(",")]
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


def _retrieve(options: argparse.Namespace) -> int:
    nodes = parse_worker(_worker_count(options), options.ps, options.workers)
    with Request(options.key_file).request(nodes) as com:
        files = Reclaimer(com).require_client_log(options.retrieve or None)
    if options.json:
        sys.stdout.write(json.dumps({"files": _paths(files)}) + "\n")
    return EXIT_OK


def _paths(files: Any) -> dict[str, list[str]]:
    return {str(node): [str(path) for path in paths] for node, paths in files.items()}


def _complain(options: argparse.Namespace, error: Exception, **more: Any) -> None:
    sys.stderr.write(f"job_submit.py: {error}\n")
    if options.json:
        sys.stdout.write(json.dumps({"error": str(error), **more}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
