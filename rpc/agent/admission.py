"""Whether an agent can take a job at all: what is wrong with the order, or with the versions on both sides."""

from __future__ import annotations

import os
import platform

from network.version import VERSION

from ..identity import is_job_id
from ..logs import clean
from ..messages import CanCommit

MOST_THREADS = 4096
MOST_SECONDS = 86400.0
LEAST_SILENCE = 0.1  # seconds; who is told to watch more closely than it can look would see ghosts


def python_version() -> str:
    """Major and minor version; code travels between equal ones only."""
    return ".".join(platform.python_version_tuple()[:2])


def threads_of(order: CanCommit) -> int:
    """BLAS threads of the job process."""
    return order.blas_threads or max(1, (os.cpu_count() or 1) // order.jobs_on_host)


def objection(order: CanCommit) -> str:
    """Why this agent does not take `order`, or "" when nothing speaks against it."""
    if not is_job_id(order.job) or order.node not in order.group or order.jobs_on_host < 1:
        return "the order is malformed"
    limits_fit = 0 < order.start_limit <= MOST_SECONDS and 0 < order.prepare_limit <= MOST_SECONDS
    silence = (order.stall, order.begin, order.between, order.save)
    limits_fit = limits_fit and all(limit == 0 or LEAST_SILENCE <= limit <= MOST_SECONDS for limit in silence)
    if not 0 <= order.blas_threads <= MOST_THREADS or not limits_fit:
        return "the order has an impossible number of threads or limit"
    if order.python != python_version():
        return f"it runs Python {python_version()}, the submitter Python {clean(order.python)}; code cannot travel between them"
    if order.version != VERSION:
        return f"it runs version {VERSION}, the submitter version {clean(order.version)}; install the same release"
    return ""
