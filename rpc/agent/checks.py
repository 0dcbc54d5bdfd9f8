"""Checks whether an agent can take a job at all: faults of the order, and of the versions on both sides."""

from __future__ import annotations

import platform
from collections.abc import Collection

from network import VERSION

from ..liveness.limits import LEAST_SILENCE, MOST_SECONDS
from ..messages import CanCommit
from ..support.identity import is_job_id
from ..support.logs import clean
from ..support.processors import usable_cores

MOST_THREADS = 4096
MOST_NODES = 2048  # of a job: the keys that a process shares with the others travel in one packet


def python_version() -> str:
    """Return the major and minor version of Python here; code travels between equal ones only."""
    return ".".join(platform.python_version_tuple()[:2])


def threads_of(order: CanCommit) -> int:
    """Count the BLAS threads of the process of `order`: its share of the cores that this agent may use, unless told."""
    return order.blas_threads or max(1, usable_cores() // order.jobs_on_host)


def too_few_slots(slots: int, nodes: Collection[int]) -> str:
    """Advise about an agent that has fewer `slots` than `nodes` of one job were given to it."""
    has = f"{slots} slot{'s' if slots > 1 else ''}"
    return (
        f"it has {has} and was given nodes {', '.join(map(str, sorted(nodes)))} of one job; start it with "
        f"'psgd worker --slots {len(nodes)}', or give each node a worker of its own"
    )


def objection(order: CanCommit) -> str:
    """Return why this agent does not take `order`, or "" when nothing speaks against it."""
    if not is_job_id(order.job) or order.node not in order.group or order.jobs_on_host < 1:
        return "the order is malformed"
    if not 0 <= order.blas_threads <= MOST_THREADS:
        return f"'blas_threads' must be 0 to {MOST_THREADS}, got {order.blas_threads}"
    if len(order.group) + len(order.others) > MOST_NODES:
        return f"a job may have at most {MOST_NODES} nodes, got {len(order.group) + len(order.others)}"
    for what, limit in (("start", order.start_limit), ("get its data (its size by 'network_bandwidth')", order.prepare_limit)):
        if not 0 < limit <= MOST_SECONDS:
            return f"a job may take at most {MOST_SECONDS:g} s to {what}, got {limit:g} s"
    for what, limit in (("stall", order.stall), ("begin", order.begin), ("between", order.between), ("save", order.save)):
        if limit != 0 and not LEAST_SILENCE <= limit <= MOST_SECONDS:
            return f"the limit '{what}' of silence must be 0 or {LEAST_SILENCE:g} to {MOST_SECONDS:g} s, got {limit:g} s"
    # code travels as byte code and pickles of one Python; another one would fail in the middle of a job
    if order.python != python_version():
        return f"it runs Python {python_version()}, the submitter Python {clean(order.python)}; code cannot travel between them"
    if order.version != VERSION:
        return f"it runs version {VERSION}, the submitter version {clean(order.version)}; install the same release"
    return ""
