"""Submit a saved model as a job, and wait for its end."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from network.nodes import NodeAssignment
from rpc.launch import Offer

from ..errors import describe_failures
from ..job import ParallelSGD
from ..nodes import local_workers, nodes_from
from ..result import JobResult
from .codes import EXIT_NODE_LOST, EXIT_OK
from .nodes import LAUNCHER, launcher_from, listed_nodes
from .output import paths_of, print_json
from .parts import load_model, make_dataset, make_transform, settings_of
from .post_mortem import evidence_kept


def submit(options: argparse.Namespace) -> int:
    """Returns the exit code.

    Raises: what `ParallelSGD.parallel` raises.
    """
    if options.model is None:
        raise ValueError("Which model? Give -m FILE (see --help).")
    job = ParallelSGD(load_model(options.model), make_dataset(options.dataset), make_transform(options.transform))
    settings = settings_of(options)
    offer = launcher_from(options)
    if offer is not None and options.discovery == LAUNCHER:
        settings["discovery"] = offer.launcher.discover
    with _nodes(options, offer) as nodes, evidence_kept(nodes, options.post_mortem is not None):
        result: JobResult = job.parallel(nodes, **settings)
    if options.json:
        figures = {name: value if math.isfinite(value) else None for name, value in result.items()}  # JSON knows no NaN
        content = {"result": figures, "job": result.job_id, "files": paths_of(result.files)}
        if result.failures:
            content["failures"] = describe_failures(result.failures)
        print_json(content)
    else:
        sys.stdout.write(f"{result}\n")
    return EXIT_NODE_LOST if result.failures else EXIT_OK


@contextmanager
def _nodes(options: argparse.Namespace, offer: Offer | None) -> Iterator[NodeAssignment]:
    if offer is not None:
        with nodes_from(offer, options.worker_count, options.ps) as nodes:
            yield nodes
        return
    if options.local is not None:
        if options.worker_count not in (None, options.local):
            raise ValueError(f"--local {options.local} and -n {options.worker_count} disagree.")
        with local_workers(options.local, options.ps) as nodes:
            yield nodes
        return
    yield listed_nodes(options)
