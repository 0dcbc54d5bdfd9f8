"""Commands that submit a saved model as a job and wait for its end, and collect the remains of one that failed."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from network.errors import NetworkError
from network.nodes import NodeAssignment
from nn.dataset.interface import AbsDataset
from rpc.launch import Offer
from rpc.support.logs import BRIEF, SUBMIT_LOGGER, get_logger

from ..checkpoint.resume import LAST
from ..errors import JobFailed, describe_failures
from ..job import ParallelSGD
from ..nodes import local_workers, nodes_from
from ..post_mortem import collect_post_mortem
from ..record.call import asked_by, command
from ..record.run import JobResult
from .nodes import LAUNCHER, known_nodes, launcher_from, listed_nodes
from .options import Unasked, load_model, make_dataset, make_transform, settings_of
from .output import EXIT_NODE_LOST, EXIT_OK, JOB_DONE, folder_of, paths_of, tell


def submit(options: argparse.Namespace) -> int:
    """Train the job that the `options` describe, and print its result; return the exit code.

    Raises: each error of `ParallelSGD.parallel`.
    """
    if isinstance(options.dataset, Unasked) and options.model is not None:
        _log.info("data     %s, for --dataset names no other", options.dataset, extra=BRIEF)
    result = train(options, make_dataset(options.dataset))
    code = EXIT_NODE_LOST if result.failures else EXIT_OK
    return tell(options, result_data(result), result, code, done=JOB_DONE, place=folder_of(result.files))


def result_data(result: JobResult) -> dict[str, Any]:
    """Return a result as JSON has it."""
    figures = {name: value if math.isfinite(value) else None for name, value in result.items()}  # JSON knows no NaN
    failures = {"failures": describe_failures(result.failures)} if result.failures else {}
    signed = {} if result.signature is None else {"signature": str(result.signature)}
    return {"result": figures, "job": result.job_id, "files": paths_of(result.files), **signed, **failures}


def train(options: argparse.Namespace, data: AbsDataset, **more: Any) -> JobResult:
    """Train with the options, and with `more` arguments of `parallel()` in place of theirs.

    Args:
        options: those of the command line.
        data: the data set.
        more: arguments of `parallel()`.

    Raises: each error of `ParallelSGD.parallel`.
    """
    if options.model is None:
        asked, hint = options.resume, ""
        if asked is not None:
            run = "runs/latest" if asked == LAST else asked
            hint = f" 'psgd run {run} --resume {asked}' goes on with model, data and options of that run."
        raise ValueError(f"Which model? Give -m FILE (see --help).{hint}")
    job = ParallelSGD(load_model(options.model), data, make_transform(options.transform))
    settings = {**settings_of(options), **more}
    offer = launcher_from(options)
    # the launcher's own discovery, so that new agents of the scheduler are found
    if offer is not None and options.discovery == LAUNCHER:
        settings["discovery"] = offer.launcher.discover
    call = asked_by(command(options.words))
    with call, nodes_of(options, offer) as nodes, post_mortem_on_failure(nodes, options.post_mortem is not None):
        result: JobResult = job.parallel(nodes, **settings)
    return result


@contextmanager
def nodes_of(options: argparse.Namespace, offer: Offer | None) -> Iterator[NodeAssignment]:
    """Yield the nodes that the options name, or that the launcher starts.

    Args:
        options: those of the command line.
        offer: the launcher that --launch names, or None.
    """
    if offer is not None:
        with nodes_from(offer, options.worker_count, options.ps) as nodes:
            yield nodes
        return
    if options.local is not None:
        # --local says the number already; another one is a mistake
        if options.worker_count not in (None, options.local):
            raise ValueError(f"--local {options.local} and -n {options.worker_count} disagree.")
        with local_workers(options.local, options.ps) as nodes:
            yield nodes
        return
    yield listed_nodes(options)


_log = get_logger(SUBMIT_LOGGER)


@contextmanager
def post_mortem_on_failure(nodes: NodeAssignment, wanted: bool) -> Iterator[None]:
    """Collect a post-mortem when the job in the block fails, if it is `wanted`; agents of this command end soon after."""
    try:
        yield
    except JobFailed as failure:
        # at once: agents of this command, and what they know, end with it
        if wanted:
            try:
                _log.info("What is known of the failure is in %s.", collect_post_mortem(nodes, failure.job_id))
            except (NetworkError, OSError, ValueError) as error:
                _log.warning("There is no post-mortem: %s", error)
        raise


def post_mortem(options: argparse.Namespace) -> int:
    """Collect a post-mortem from all workers of the node file, or that --launch finds; return the exit code.

    Raises: UnknownJob, NetworkError, OSError, ValueError; see `collect_post_mortem`, `known_nodes`.
    """
    path = collect_post_mortem(known_nodes(options), options.post_mortem)
    return tell(options, {"files": [str(path)]}, path, done="What is known of the job is collected", place=path)
