"""Collect what is left of a job that failed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from network.errors import NetworkError
from network.nodes import NodeAssignment
from rpc.logs import SUBMIT_LOGGER, get_logger

from ..errors import JobFailed
from ..post_mortem import collect_post_mortem
from .codes import EXIT_OK
from .nodes import all_nodes
from .output import print_json

_log = get_logger(SUBMIT_LOGGER)


@contextmanager
def evidence_kept(nodes: NodeAssignment, wanted: bool) -> Iterator[None]:
    """When the job in the block fails, collect a post-mortem, if it is wanted; agents of this command end soon after."""
    try:
        yield
    except JobFailed as failure:
        if wanted:
            try:
                _log.info("What is known of the failure is in %s.", collect_post_mortem(nodes, failure.job_id))
            except (NetworkError, OSError, ValueError) as error:
                _log.warning("There is no post-mortem: %s", error)
        raise


def post_mortem(options: argparse.Namespace) -> int:
    """Ask all workers of the node file, or that --launch finds; returns the exit code.

    Raises: UnknownJob, NetworkError, OSError, ValueError; see `collect_post_mortem`, `all_nodes`.
    """
    path = collect_post_mortem(all_nodes(options), options.post_mortem)
    if options.json:
        print_json({"files": [str(path)]})
    else:
        sys.stdout.write(f"{path}\n")
    return EXIT_OK
