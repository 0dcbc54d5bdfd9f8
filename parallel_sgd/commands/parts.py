"""From the words of a command line to the parts of a job: model, data set, transform, settings."""

from __future__ import annotations

import argparse
import math
from typing import Any

import nn
from nn.dataset import transforms
from nn.dataset.interface import AbsDataset
from nn.dataset.transforms.abstract import AbsTransformer
from nn.gradient_descent.interface import IGradientDescent
from nn.model import Model
from nn.model.tensors import ModelFileError
from nn.optimizer import IOptimizer
from rpc.logs import NORMAL, QUIET, VERBOSE

from .. import batch_sync, codec, profiles
from ..batch_sync import ISyncType, StaleSynchronous
from ..codec.interfaces import Codec
from ..names import UnknownName, find_class, known_classes
from ..profiles.blockassignment.abstract import AbsBlockAssignment
from .objects import make_object, split_objects

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
