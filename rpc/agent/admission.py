"""Whether an agent can take a job at all: what is wrong with the order, or with the versions on both sides."""

from __future__ import annotations

import platform

from network.keyring import KEY_SIZE
from network.version import VERSION

from ..identity import is_job_id
from ..logs import clean
from ..messages import CanCommit

MOST_THREADS = 4096
MOST_SECONDS = 86400.0


def python_version() -> str:
    """Major and minor version; code travels between equal ones only."""
    return ".".join(platform.python_version_tuple()[:2])


def objection(order: CanCommit) -> str:
    """Why this agent does not take `order`, or "" when nothing speaks against it."""
    keys_fit = len(order.code_key) == KEY_SIZE and len(order.peer_key) == KEY_SIZE
    if not is_job_id(order.job) or not keys_fit or order.node not in order.group:
        return "the order is malformed"
    if not 1 <= order.blas_threads <= MOST_THREADS or not 0 < order.start_limit <= MOST_SECONDS:
        return "the order has an impossible number of threads or limit"
    if order.python != python_version():
        return f"it runs Python {python_version()}, the submitter Python {clean(order.python)}; code cannot travel between them"
    if order.version != VERSION:
        return f"it runs version {VERSION}, the submitter version {clean(order.version)}; install the same release"
    return ""
